"""Every hint of a failing sample, obeyed, ends well."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from attncli.cli import call

ROOT = Path(__file__).parent.parent
ERRORS = ROOT / "samples" / "errors"
OBEYED: dict[str, list[dict[str, Any]]] = yaml.safe_load((ERRORS / "obey.yml").read_text(encoding="utf-8"))
WAYS = [(name, way) for name, ways in OBEYED.items() for way in ways]


def command(name: str) -> str:
    return "check" if "expect" in name or "step" in name else "run"


def test_every_hint_can_be_obeyed() -> None:
    """The lines below the errors are hints, and each has a way that quotes it."""
    for path in sorted(ERRORS.glob("*.yaml")):
        golden = path.with_suffix(".txt")
        if golden.exists():
            hints = [line for line in golden.read_text(encoding="utf-8").splitlines() if line.startswith("  ")]
            quoted = [way["hint"] for way in OBEYED.get(path.stem, [])]
            for hint in hints:
                assert any(each in hint for each in quoted), (path.stem, hint)


@pytest.mark.parametrize(("name", "way"), WAYS, ids=[f"{name}-{way['hint']}" for name, way in WAYS])
def test_a_hint_obeyed_ends_well(
    name: str,
    way: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The hint is in the message, and what it proposes is accepted."""
    assert way["hint"] in (ERRORS / f"{name}.txt").read_text(encoding="utf-8")
    shutil.copytree(ROOT / "samples", tmp_path / "samples")
    monkeypatch.chdir(tmp_path)
    path = Path("samples", "errors", f"{name}.yaml")
    text = path.read_text(encoding="utf-8")
    for old, new in {**way.get("replace", {}), **way.get("rename", {})}.items():
        assert str(old) in text
        text = text.replace(str(old), str(new))
    path.write_text(way.get("text", text), encoding="utf-8")
    for old, new in way.get("rename", {}).items():
        path.with_name(old).rename(path.with_name(new))
    status = call([command(name), str(path), *way.get("options", [])])
    assert (status, capsys.readouterr().err.count("attncli: ")) == (0, 0)
