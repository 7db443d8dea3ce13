"""Pictures of steps, looked at as a reader of the file sees them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="the extra `plot`")

from attncli import AttnError, attend
from tests.calling import ROOT, Result

Cli = Callable[..., Result]
X = "[[1, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1]]"
HOSTILE = ["<script>alert(1)</script>", "\"quotes'", "$x^{$", "--><!--", "\u202eevil", "x" * 300, "שלום"]


def texts(figure: object) -> list[str]:
    """All that is written in a figure."""
    from matplotlib.text import Text

    return [text.get_text() for text in figure.findobj(Text) if text.get_text() and text.get_visible()]  # type: ignore[attr-defined]


@pytest.mark.parametrize(("suffix", "begins"), [("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_the_same_bytes_whenever_and_wherever(suffix: str, begins: bytes, tmp_path: Path) -> None:
    (tmp_path / "matplotlibrc").write_text("font.size: 20\nimage.cmap: hot\n")
    for name in ("a", "b"):
        command = [sys.executable, "-m", "attncli", "self", X, "--mask", "causal", "-o", f"{tmp_path / name}.{suffix}"]
        subprocess.run(command, check=True, cwd=tmp_path if name == "b" else ROOT, capture_output=True,
                       env={"PYTHONPATH": str(ROOT), "SOURCE_DATE_EPOCH": "", "HOME": str(tmp_path)})  # fmt: skip
    first, second = ((tmp_path / f"{name}.{suffix}").read_bytes() for name in "ab")
    assert first.startswith(begins)
    assert first == second


def test_labels_and_numbers_as_in_the_tables() -> None:
    trace = attend([[1, 0], [0, 1]], [[1, 0], [0, 1], [1, 1]], tokens=["the", "cat"], key_tokens=["a", "b", "c"])
    written = texts(trace.plot(precision=2))
    assert {"the", "cat", "a", "b", "c", "0.40", "0.20", "query", "key", "weights"} <= set(written)
    assert written.count("0.40") == 4


def test_the_colours_are_those_of_the_numbers() -> None:
    from matplotlib.collections import QuadMesh

    trace = attend([[1, 0], [0, 1]], [[1, 0], [0, 1]], mask="causal", scale=1)
    figure = trace.plot()
    mesh = figure.axes[0].findobj(QuadMesh)[0]
    drawn = np.ma.asarray(mesh.get_array()).reshape(2, 2)
    np.testing.assert_allclose(drawn.filled(-1), [[1, -1], [1 / (1 + np.e), np.e / (1 + np.e)]])
    assert mesh.norm.vmin == 0
    assert mesh.norm.vmax == 1
    assert "hidden" in texts(figure)  # the hatches are told of


def test_negative_numbers_lie_on_both_sides_of_the_middle() -> None:
    from matplotlib.collections import QuadMesh

    norm = attend(scores=[[-3.0, 1.0]]).plot("scores").axes[0].findobj(QuadMesh)[0].norm
    assert (norm.vmin, norm.vmax) == (-3, 3)


def test_heads_are_panels_and_sequences_rows() -> None:
    x = np.random.default_rng(1).normal(size=(2, 3, 6))
    figure = attend(x, x, x, heads=3).plot()
    panels = [axes for axes in figure.axes if axes.get_title()]
    assert [axes.get_title() for axes in panels] == [f"sequence {b}, head {h}" for b in (1, 2) for h in (1, 2, 3)]
    at = [axes.get_position() for axes in panels]
    assert at[0].y0 == at[1].y0 == at[2].y0 > at[3].y0 == at[5].y0
    assert at[0].x0 == at[3].x0 < at[1].x0 == at[4].x0


def test_numbers_that_do_not_fit_are_left_out() -> None:
    x = np.random.default_rng(1).normal(size=(90, 4))
    assert not any(re.fullmatch(r"0\.\d{4}", text) for text in texts(attend(x, x).plot()))
    assert not any(re.fullmatch(r"0\.\d{4}", text) for text in texts(attend(x[:3], x[:3]).plot(size=(1.5, 1.5))))


@pytest.mark.parametrize("label", HOSTILE)
def test_a_label_is_text(cli: Cli, tmp_path: Path, label: str) -> None:
    (tmp_path / "p.json").write_text(json.dumps({"X": [[1, 0], [0, 1]], "tokens": [label, "b"], "title": label}))
    for suffix in ("svg", "png", "pdf"):
        result = cli("run", tmp_path / "p.json", "-o", tmp_path / f"w.{suffix}")
        assert result.status == 0, result.err
    tree = ET.parse(tmp_path / "w.svg")
    assert not [each for each in tree.iter() if each.tag.endswith("script")]
    assert not [name for each in tree.iter() for name in each.attrib if name.startswith("on")]


def test_a_character_that_no_font_has_is_told(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib import font_manager

    fonts = [font for font in font_manager.fontManager.ttflist if "DejaVu" in font.name or "Last" in font.name]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", fonts)
    result = cli("self", "[[1]]", "--tokens", "고a", "-o", tmp_path / "w.png")
    assert result.status == 0
    assert "note: no font here has 고: a box stands for each" in result.err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--cmap", "virids"], "did you mean 'viridis'"),
        (["--range", "1,0"], "--range"),
        (["--range", "a"], "as in --range 0,1"),
        (["--size", "0x3"], "inches"),
        (["--size", "nanx3"], "as in --size 8x6"),
    ],
)
def test_what_cannot_be_chosen_is_told_before_anything_is_written(
    cli: Cli, tmp_path: Path, options: list[str], told: str
) -> None:
    result = cli("self", X, "-o", tmp_path / "w.svg", *options)
    assert (result.status, result.out) == (2, "")
    assert told in result.err
    assert not list(tmp_path.iterdir())


def test_what_is_chosen_is_drawn(cli: Cli, tmp_path: Path) -> None:
    from PIL import Image

    chosen = ("--cmap", "Greys", "--range", "0,2", "--size", "4x3", "--title", "Mine")
    assert cli("self", X, "-o", f"scores={tmp_path / 'w.png'}", *chosen).status == 0
    image = Image.open(tmp_path / "w.png").convert("RGB")
    assert image.size == (600, 450)
    assert all(r == g == b for _, (r, g, b) in image.getcolors(1 << 20))


def test_a_file_that_exists_is_kept(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "w.svg").write_text("mine")
    assert cli("self", X, "-o", tmp_path / "w.svg").status == 2
    assert (tmp_path / "w.svg").read_text() == "mine"
    assert cli("self", X, "-o", tmp_path / "w.svg", "--force").status == 0
    bad = cli("self", X, "-o", f"weights[9]={tmp_path / 'v.svg'}", "-o", tmp_path / "o.csv")
    assert bad.status == 2
    assert not (tmp_path / "o.csv").exists()


def test_a_marked_sheet_shows_its_verdicts(cli: Cli, tmp_path: Path) -> None:
    from PIL import Image

    (tmp_path / "p.yaml").write_text(
        "X: [[1, 0], [0, 2]]\nscale: 0.5\nexpect: {scores: [[1, 0], [0, 3]], scaled: [[0.5, 0], [0, 1.5]]}\n"
    )
    picture, follows = tmp_path / "m.png", tmp_path / "f.png"
    result = cli("check", tmp_path / "p.yaml", "-o", picture, "-o", f"scaled={follows}")
    assert (result.status, result.out) == (1, "")
    assert "the first slip is in scores at q2, k2" in result.err
    red, amber = (0xD7, 0x19, 0x1C), (0xE6, 0xA1, 0x00)
    colours = [
        {colour for _, colour in Image.open(path).convert("RGB").getcolors(1 << 20)} for path in (picture, follows)
    ]
    assert red in colours[0]
    assert amber not in colours[0]
    assert amber in colours[1]
    assert red not in colours[1]
    missing = cli("check", tmp_path / "p.yaml", "-o", f"weights={tmp_path / 'w.svg'}")
    assert "marked: scores, scaled" in missing.err


def test_a_stage_is_drawn(cli: Cli, tmp_path: Path) -> None:
    outputs = "-o", f"encoder.weights={tmp_path / 'e.svg'}", "-o", tmp_path / "last.pdf"
    result = cli("run", ROOT / "samples/transformer/problem.yaml", "--quiet", *outputs)
    assert (result.status, result.err) == (0, "")
    assert {path.name for path in tmp_path.iterdir()} == {"e.svg", "last.pdf"}


def test_without_matplotlib_it_is_told_how_to_install_it(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = cli("self", X, "-o", tmp_path / "w.svg")
    assert (result.status, result.out) == (2, "")
    assert "attncli[plot]" in result.err
    with pytest.raises(AttnError, match="matplotlib"):
        attend([[1.0]], [[1.0]]).plot()


def test_a_notebook_gets_a_picture() -> None:
    assert attend([[1.0]], [[1.0]]).plot()._repr_png_().startswith(b"\x89PNG")


def test_dry_run_names_the_picture(cli: Cli, tmp_path: Path) -> None:
    result = cli("self", X, "--dry-run", "-o", tmp_path / "w.svg", "-o", tmp_path / "r.md")
    assert result.status == 0
    assert "w.svg: a picture of weights" in result.out
    assert "r.md: a document of weights, output" in result.out
