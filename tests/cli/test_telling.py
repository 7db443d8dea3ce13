"""show, list, schema, help and version: commands that tell, and usage errors."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from attncli import __version__
from attncli.api import Options
from tests.calling import FIELD_CASES, Result
from tests.inside import COMMANDS

Cli = Callable[..., Result]


def test_show_tells_what_was_taken_as_what(cli: Cli) -> None:
    file = FIELD_CASES / "B34_both.csv"
    result = cli("show", file)
    assert result.status == 0
    lines = result.out.splitlines()
    assert lines[0] == f"{file}: 2 x 2, float64"
    assert [line.split() for line in lines[1:]] == [["d1", "d2"], ["the", "1.0", "2.0"], ["cat", "3.0", "4.0"]]
    assert "header" in result.err
    assert "labels" in result.err
    assert cli("show", file, "--quiet").err == ""


def test_show_lists_the_arrays_of_an_archive_and_shows_one_exactly(cli: Cli, tmp_path: Path) -> None:
    values = np.array([[0.1 + 0.2, 1e-300], [np.inf, np.nan]])
    np.savez(tmp_path / "a.npz", W_Q=values, many=np.zeros((200, 3), dtype=np.float32), cube=np.ones((2, 1, 1)))
    path = tmp_path / "a.npz"
    listed = cli("show", path).out
    assert listed == "".join(
        f"{path}::{each}\n" for each in ("W_Q: 2 x 2, float64", "many: 200 x 3, float32", "cube: 2 x 1 x 1, float64")
    )
    assert f"a.npz::W_Q: 2 x 2, float64\n  {0.1 + 0.2!r}  1e-300\n" in cli("show", f"{path}::W_Q").out
    assert cli("show", f"{path}::many").out.count("0.0") == 30  # the first and last five rows
    assert re.search(r"cube: 2 x 1 x 1, float64\n +\[1\]\n +1.0\n +\[2\]\n", cli("show", f"{path}::cube").out)


def test_show_has_the_digits_of_the_type(cli: Cli, tmp_path: Path) -> None:
    """The shortest text that reads back to the number in its own type."""
    for dtype in (np.float16, np.float32, np.float64):
        np.save(tmp_path / "x.npy", np.array([[0.1, 1 / 3]], dtype=dtype))
        shown = cli("show", tmp_path / "x.npy").out.splitlines()[1].split()
        assert shown[0] == "0.1"
        assert dtype(shown[1]) == dtype(1 / 3)
        assert len(shown[1]) == {np.float16: 6, np.float32: 10, np.float64: 18}[dtype]


def test_show_folds_into_parts_of_columns(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savetxt(tmp_path / "x.csv", np.arange(90.0).reshape(3, 30), fmt="%.4f", delimiter=",")
    wide = [line.split() for line in cli("show", tmp_path / "x.csv").out.splitlines()[1:]]
    monkeypatch.setenv("COLUMNS", "60")
    lines = cli("show", tmp_path / "x.csv").out.splitlines()[1:]
    assert max(map(len, lines)) <= 60
    heads = [line.strip() for line in lines if "columns" in line]
    assert (heads[0].partition("-")[0], heads[-1][-8:]) == ("columns 1", "30 of 30"), heads
    rows = [line.split() for line in lines if "columns" not in line]
    assert [[cell for part in rows[row::3] for cell in part] for row in range(3)] == wide


def test_show_of_a_problem_gives_its_matrices_those_of_other_files_too(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "w.csv").write_text("5,6\n")
    problem = tmp_path / "p.yaml"
    problem.write_text("X: [[1]]\nW_Q: w.csv\nscore: dot\nscale: 2\n")
    result = cli("show", problem)
    assert result.status == 0
    assert f"{problem}::X: 1 x 1" in result.out
    assert f"{problem}::W_Q: 1 x 2" in result.out


def test_show_goes_on_after_a_bad_file(cli: Cli, tmp_path: Path) -> None:
    good = FIELD_CASES / "A00_K.csv"
    result = cli("show", tmp_path / "missing.csv", good)
    assert result.status == 2
    assert str(good) in result.out
    assert "missing.csv" in result.err


def test_show_reads_standard_input_and_inline(cli: Cli) -> None:
    assert cli("show", "-", "--stdin-format", "csv", stdin=b"1;2,5\n", ).out == ""  # fmt: skip
    result = cli("show", "-", "--stdin-format", "csv", "--decimal", ",", stdin=b"1;2,5\n")
    assert "1.0  2.5" in result.out
    assert "1 x 2" in cli("show", "[[1, 1/2]]").out


@pytest.mark.parametrize("what", ["scores", "normalizers", "masks", "formats", "profiles", "steps"])
def test_list(cli: Cli, what: str) -> None:
    listed = json.loads(cli("list", what, "--format", "json").out)
    assert list(listed) == [what]
    text = cli("list", what).out
    assert len(listed[what]) > 4
    for entry in listed[what]:
        assert entry["name"] in text
    if what in ("scores", "normalizers", "masks"):
        assert all(entry["formula"] and entry["source"] and entry["help"] for entry in listed[what])


def test_list_of_everything_and_of_nothing(cli: Cli) -> None:
    assert set(json.loads(cli("list", "--format", "json").out)) == {
        "scores", "normalizers", "masks", "biases", "formats", "profiles", "steps", "mistakes",
    }  # fmt: skip
    result = cli("list", "score")
    assert result.status == 2
    assert "did you mean 'scores'" in result.err


def test_schema_is_an_object(cli: Cli) -> None:
    assert json.loads(cli("schema").out)["type"] == "object"


def test_help_of_every_command(cli: Cli) -> None:
    """A screen or two: the options that most need; -h is the same."""
    overview = cli("--help")
    assert overview.status == 0
    assert cli("-h").out == overview.out
    for name in COMMANDS:
        assert re.search(rf"^  {name} ", overview.out, re.MULTILINE)
        result = cli(name, "--help")
        assert (result.status, result.err) == (0, "")
        assert result.out.startswith(f"Usage: attncli {name}")
        assert max(map(len, result.out.splitlines())) <= 80
        assert len(result.out.splitlines()) <= 55
        assert cli(name, "-h").out == result.out


def options_in(text: str) -> set[str]:
    return set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", text, re.MULTILINE))


def test_help_counts_what_it_leaves_to_help_all(cli: Cli) -> None:
    for name in COMMANDS:
        short, full = cli(name, "--help").out, cli(name, "--help-all").out
        assert options_in(short) <= options_in(full)
        left = re.search(r"^(\d+) more options: attncli (\w+) --help-all$", short, re.MULTILINE)
        assert len(options_in(full) - options_in(short)) == (int(left[1]) if left else 0)
        assert left is None or left[2] == name
        assert "more options" not in full
    assert {"--mask", "--heads", "--show", "--output"} <= options_in(cli("attend", "--help").out)


def test_help_all_of_the_program_tells_the_topics(cli: Cli) -> None:
    assert cli("--help-all").out == cli("help").out


def test_help_all_names_every_option(cli: Cli) -> None:
    result = cli("attend", "--help-all")
    assert (result.status, result.err) == (0, "")
    text = result.out
    others = ("show", "precision", "rounding", "top", "stats", "format", "force", "save-problem", "dry-run", "quiet",
              "expect", "rounded-inputs", "stdin-format")  # fmt: skip
    for name in (*Options.__annotations__, *others):
        flag = "--" + name.replace("_", "-")
        assert re.search(rf"^  {flag}[ ,\n]", text, re.MULTILINE), flag
    assert re.search(r"^  -o[ ,\n]", text, re.MULTILINE)
    assert "[default: rows]" in text
    assert "Attention:" in text


def test_version(cli: Cli) -> None:
    assert cli("--version").out.splitlines()[0] == f"attncli {__version__}"


@pytest.mark.parametrize("asked", ["none", "x86-64-v3"])
def test_version_tells_the_engine(cli: Cli, asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTNCLI_ENGINE", asked)
    assert cli("--version").out.splitlines()[1] in ("engine: rows", f"engine: compiled, {asked}")


@pytest.mark.parametrize(
    ("arguments", "first", "hint"),
    [
        ((), "attncli: no command given", "--help"),
        (("atend",), "attncli: unknown command 'atend'", "did you mean 'attend'?"),
        (("self", "[[1]]", "--scal", "2"), "attncli: no such option: --scal", "did you mean --scale?"),
        (("self", "[[1]]", "--wQ", "w"), "attncli: no such option: --wQ", "did you mean --wq?"),
        (("self", "[[1]]", "-x"), "attncli: no such option: -x", "`attncli self --help-all` tells what there is"),
        (("self", "[[1]]", "--prec", "2"), "attncli: no such option: --prec", "did you mean --precision?"),
        (
            ("self", "[[1]]", "--all"),
            "attncli: no such option: --all",
            "  `attncli self --help-all` tells what there is",
        ),
        (("show", "x", "--steps", "2"), "attncli: `attncli show` has no option --steps", "`attncli decode` has it"),
        (("decode", "x", "--top", "2"), "attncli: `attncli decode` has no option --top", "`attncli run` have it"),
        (("--verison",), "attncli: no such option: --verison", "did you mean --version?"),
        (("self",), "attncli: missing argument 'X'", "attncli self --help"),
        (("cross", "[[1]]"), "attncli: missing argument 'Y'", "attncli cross --help"),
        (("run", "a", "b"), "attncli: got unexpected extra argument(s) (b)", "attncli run --help"),
        (("self", "[[1]]", "--scale"), "attncli: option '--scale' requires an argument", "attncli self --help"),
    ],
)
def test_usage_errors_are_in_our_form(cli: Cli, arguments: tuple[str, ...], first: str, hint: str) -> None:
    result = cli(*arguments)
    assert (result.status, result.out) == (2, "")
    lines = result.err.splitlines()
    assert lines[0] == first
    assert lines[1].startswith("  ")
    assert hint in lines[1]
