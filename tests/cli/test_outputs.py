"""-o, --force and --save-problem: files that appear whole or not at all, and never over an input."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from attncli import AttnError
from attncli.cli.outputs import Output, parse_outputs
from tests.calling import FIELD_CASES, Result

Cli = Callable[..., Result]
MATRICES = tuple(FIELD_CASES / f"A00_{name}.csv" for name in "QKV")


@pytest.mark.parametrize(
    ("text", "path", "step"),
    [
        ("o.csv", "o.csv", None),
        ("weights=w.csv", "w.csv", "weights"),
        ("weights[2]=w.csv", "w.csv", "weights[2]"),
        ("./weights=w.csv", "weights=w.csv", None),
        ("a=b.csv", "a=b.csv", None),
        ("dir/weights=x.npy", "dir/weights=x.npy", None),
        ("output=a=b.npz", "a=b.npz", "output"),
    ],
)
def test_a_step_only_if_it_is_the_name_of_one(text: str, path: str, step: str | None) -> None:
    assert parse_outputs([text]) == [Output(Path(path), step)]


@pytest.mark.parametrize("text", ["", "-", ".", "folder/", "weights=", "o", "o.xyz", "output=o.docx"])
def test_paths_that_name_no_file_or_no_format(text: str) -> None:
    with pytest.raises(AttnError):
        parse_outputs([text])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("heasd=h.npy", "did you mean heads? for a file of that name write ./heasd=h.npy"),
        ("Wieghts[2]=h.npy", "did you mean weights[2]? for a file"),
        ("weight=w.csv", "did you mean weights?"),
    ],
)
def test_a_slip_in_a_step_is_no_file(text: str, told: str) -> None:
    with pytest.raises(AttnError, match=r"-o .*: unknown step '") as raised:
        parse_outputs([text])
    assert told in str(raised.value)
    assert parse_outputs([f"./{text}"]) == [Output(Path(text), None)]
    assert parse_outputs([f"data=1/{text}"]) == [Output(Path(f"data=1/{text}"), None)]


def test_one_file_cannot_hold_two_outputs() -> None:
    with pytest.raises(AttnError, match="twice"):
        parse_outputs(["o.csv", "weights=./o.csv"])
    with pytest.raises(AttnError, match="twice"):
        parse_outputs(["o.yaml"], "o.yaml")


def test_nothing_is_printed_and_a_note_names_the_files(cli: Cli, tmp_path: Path) -> None:
    output, weights = tmp_path / "o.csv", tmp_path / "w.npy"
    result = cli("attend", *MATRICES, "-o", output, "--output", f"weights={weights}")
    assert (result.status, result.out) == (0, "")
    assert result.err == f"note: wrote output to {output}\nnote: wrote weights to {weights}\n"
    np.testing.assert_allclose(np.loadtxt(output, delimiter=","), [[3, 4], [3.406673, 4.406673]], atol=5e-7)
    np.testing.assert_allclose(np.load(weights).sum(axis=1), 1)


@pytest.mark.parametrize("extra", [("--show", "weights"), ("--top", "1"), ("--format", "csv")])
def test_results_are_printed_too_when_asked_for(cli: Cli, tmp_path: Path, extra: tuple[str, str]) -> None:
    result = cli("attend", *MATRICES, "-o", tmp_path / "o.npz", *extra)
    assert result.status == 0
    assert result.out == cli("attend", *MATRICES, *extra).out != ""


def test_which_steps_a_file_holds(cli: Cli, tmp_path: Path) -> None:
    cli("attend", *MATRICES, "-o", tmp_path / "all.npz", "-o", tmp_path / "all.json")
    everything = ["Q", "K", "V", "scores", "scaled", "exp", "sum", "lse", "weights", "output"]
    assert list(np.load(tmp_path / "all.npz")) == everything
    assert list(json.loads((tmp_path / "all.json").read_text())["steps"]) == everything
    cli("attend", *MATRICES, "-o", tmp_path / "two.npz", "-o", tmp_path / "o.csv", "--show", "scores,weights")
    assert list(np.load(tmp_path / "two.npz")) == ["scores", "weights"]
    assert (tmp_path / "o.csv").read_text().startswith("3.0,4.0\n")
    cli("attend", *MATRICES[:2], "-o", tmp_path / "w.csv")  # no values: the weights are the result
    assert len((tmp_path / "w.csv").read_text().split("\n")[0].split(",")) == 3


def test_an_existing_file_is_replaced_by_force_only(cli: Cli, tmp_path: Path) -> None:
    existing, new = tmp_path / "o.csv", tmp_path / "new.csv"
    existing.write_text("mine\n")
    result = cli("attend", *MATRICES, "-o", existing, "-o", f"weights={new}")
    assert (result.status, result.out) == (2, "")
    assert str(existing) in result.err
    assert "--force" in result.err
    assert existing.read_text() == "mine\n"
    assert sorted(tmp_path.iterdir()) == [existing]
    assert cli("attend", *MATRICES, "-o", existing, "--force").status == 0
    assert existing.read_text().startswith("3.0")


@pytest.mark.parametrize("which", ["matrix", "weights", "mask", "problem"])
def test_an_output_is_never_an_input(cli: Cli, tmp_path: Path, which: str) -> None:
    (tmp_path / "x.csv").write_text("1,0\n0,1\n")
    (tmp_path / "w.npy").write_bytes(b"")
    np.savez(tmp_path / "w.npz", W=np.eye(2))
    (tmp_path / "mask.csv").write_text("1,0\n1,1\n")
    (tmp_path / "p.json").write_text(json.dumps({"X": {"file": "x.csv"}}))
    (tmp_path / "link.csv").symlink_to(tmp_path / "x.csv")
    command = {
        "matrix": ("self", tmp_path / "x.csv", "-o", tmp_path / "link.csv"),
        "weights": ("self", tmp_path / "x.csv", "--wq", f"{tmp_path / 'w.npz'}::W", "-o", tmp_path / "w.npz"),
        "mask": ("self", tmp_path / "x.csv", "--mask", f"keep:{tmp_path / 'mask.csv'}", "-o", tmp_path / "mask.csv"),
        "problem": ("run", tmp_path / "p.json", "-o", tmp_path / "p.json"),
    }[which]
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    result = cli(*command, "--force")
    assert result.status == 2
    assert "input" in result.err
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_bad_step_leaves_no_file(cli: Cli, tmp_path: Path) -> None:
    for step in ("heads", "weights[3]"):
        result = cli("attend", *MATRICES, "-o", tmp_path / "o.csv", "-o", f"{step}={tmp_path / 'h.csv'}")
        assert result.status == 2
        assert list(tmp_path.iterdir()) == []


def test_a_format_of_two_axes_tells_the_way_out(cli: Cli, tmp_path: Path) -> None:
    x = "[[1, 0, 1, 0], [0, 2, 0, 2]]"
    result = cli("self", x, "--heads", "2", "-o", f"weights={tmp_path / 'w.csv'}")
    assert result.status == 2
    assert "weights[1]" in result.err
    assert list(tmp_path.iterdir()) == []
    assert cli("self", x, "--heads", "2", "-o", f"weights[2]={tmp_path / 'w.csv'}").status == 0
    assert cli("self", x, "--heads", "2", "-o", f"weights={tmp_path / 'w.npy'}").status == 0
    assert np.load(tmp_path / "w.npy").shape == (2, 2, 2)


def test_a_missing_folder_is_named(cli: Cli, tmp_path: Path) -> None:
    result = cli("attend", *MATRICES, "-o", tmp_path / "no" / "o.csv")
    assert result.status == 2
    assert str(tmp_path / "no") in result.err


def test_files_never_hold_colours(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    paths = [tmp_path / f"o.{suffix}" for suffix in ("csv", "tsv", "txt", "json", "yaml", "npy", "npz")]
    result = cli("attend", *MATRICES, *(f"-o{path}" for path in paths), tty=True)
    assert result.status == 0
    assert all(path.stat().st_size and b"\x1b" not in path.read_bytes() for path in paths)
