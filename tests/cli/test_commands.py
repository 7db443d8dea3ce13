"""attend, self, cross and run: matrices in, results out, notes aside."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.calling import FIELD_CASES, Result

Cli = Callable[..., Result]
Q, K, V = (FIELD_CASES / f"A00_{name}.csv" for name in "QKV")
# The weights of the baseline, to six decimals, as published with the field cases.
WEIGHTS = [[0.401112, 0.197776, 0.401112], [0.197776, 0.401112, 0.401112]]
OUTPUT = [[3, 4], [3.406673, 4.406673]]


def numbers(text: str) -> np.ndarray:
    """The numbers of csv text."""
    return np.array([[float(cell) for cell in line.split(",")] for line in text.splitlines()])


def test_attend(cli: Cli) -> None:
    result = cli("attend", Q, K, V, "--format", "csv")
    assert (result.status, result.err) == (0, "")
    np.testing.assert_allclose(numbers(result.out), OUTPUT, atol=5e-7)


def test_attend_without_values_ends_at_the_weights(cli: Cli) -> None:
    result = cli("attend", Q, K, "--format", "csv")
    np.testing.assert_allclose(numbers(result.out), WEIGHTS, atol=5e-7)


def test_attend_from_the_scores_on(cli: Cli) -> None:
    result = cli("attend", "--scores", "[[1, 0, 1], [0, 1, 1]]", V, "--scale", "1/sqrt(2)", "--format", "csv")
    np.testing.assert_allclose(numbers(result.out), OUTPUT, atol=5e-7)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "attncli: Q and K are missing"),
        (("[[1]]",), "attncli: K is missing"),
        (("--scores", "[[1]]", "[[1]]", "[[1]]"), "attncli: with --scores only V may follow, but there are 2 matrices"),
        (("[[1]]", "[[1]]", "[[1]]", "[[1]]"), "attncli: got unexpected extra argument"),
    ],
)
def test_attend_names_what_is_missing_or_too_many(cli: Cli, arguments: tuple[str, ...], message: str) -> None:
    result = cli("attend", *arguments)
    assert (result.status, result.out) == (2, "")
    assert result.err.startswith(message)


def test_self_and_cross(cli: Cli) -> None:
    x = "[[1, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1]]"
    alone = cli("self", x, "--format", "csv")
    both = cli("cross", x, x, "--format", "csv")
    given = cli("attend", x, x, x, "--format", "csv")
    assert alone.out == both.out == given.out
    assert (alone.status, both.status, given.status) == (0, 0, 0)
    # Columns: the same data on end, the same result on end.
    turned = cli("self", str(np.array(json.loads(x)).T.tolist()), "--layout", "columns", "--format", "csv")
    np.testing.assert_allclose(numbers(turned.out), numbers(alone.out).T, rtol=1e-15)


def test_run_and_options_that_win_over_the_file(cli: Cli, tmp_path: Path) -> None:
    problem = tmp_path / "p.yaml"
    problem.write_text("Q: [[1, 0], [0, 1]]\nK: [[1, 0], [0, 1], [1, 1]]\nscale: 5\nshow: [weights]\nformat: csv\n")
    wins = cli("run", problem, "--scale", "1/sqrt(2)")
    np.testing.assert_allclose(numbers(wins.out), WEIGHTS, atol=5e-7)
    assert cli("run", problem).out != wins.out


def test_all_errors_of_a_file_and_the_options_at_once(cli: Cli, tmp_path: Path) -> None:
    problem = tmp_path / "p.yaml"
    problem.write_text("Q: [[1, 0], [0, x]]\nK: [[1, 0]]\nscor: dot\n")
    result = cli("run", problem, "--scale", "nan")
    assert (result.status, result.out) == (2, "")
    heads = [line for line in result.err.splitlines() if line.startswith("attncli: ")]
    assert len(heads) == 3
    assert any(f"{problem}:1:" in line for line in heads)
    assert any(f"{problem}:3:1" in line for line in heads)
    assert any("--scale" in line and "nan" in line for line in heads)


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("--scale", "nan", "finite"),
        ("--scale", "inf", "finite"),
        ("--scale", "1e400", "1e400"),
        ("--scale", "1_0", "1_0"),
        ("--scale", "0,5", "0,5"),
        ("--scale", "", "--scale"),
        ("--temperature", "0", "0"),
        ("--precision", "-1", "-1"),
        ("--precision", "400", "400"),
        ("--heads", "1.5", "1.5"),
        ("--top", "0", "0"),
        ("--layout", "colums", "did you mean 'columns'"),
        ("--score", "scaled-dott", "did you mean 'scaled-dot'"),
        ("--mask", "casual", "did you mean 'causal'"),
        ("--format", "tabel", "did you mean 'table'"),
        ("--like", "torch", "torch-sdpa"),
        ("--show", "wieghts", "did you mean 'weights'"),
        ("--param", "sigma", "NAME=VALUE"),
        ("--expect", "weights", "STEP=FILE"),
        ("--separator", "ab", "--separator"),
    ],
)
def test_option_values_that_make_no_sense(cli: Cli, option: str, value: str, told: str) -> None:
    result = cli("attend", Q, K, V, option, value)
    assert (result.status, result.out) == (2, "")
    assert result.err.startswith("attncli: ")
    assert option in result.err.splitlines()[0]
    assert told in result.err
    assert "Traceback" not in result.err


def test_the_last_of_a_repeated_option_counts_and_masks_add_up(cli: Cli) -> None:
    once = cli("attend", Q, K, V, "--scale", "-1", "--format", "csv")
    assert cli("attend", Q, K, V, "--scale", "7", "--scale", "-1", "--format", "csv").out == once.out
    two = cli("attend", Q, K, "--mask", "keys:1,1,0", "--mask", "keys:0,1,1", "--format", "csv")
    assert numbers(two.out).tolist() == [[0, 1, 0], [0, 1, 0]]


def test_show_names_the_steps(cli: Cli) -> None:
    result = cli("attend", Q, K, V, "--show", "scores,exp", "--format", "json")
    assert list(json.loads(result.out)["steps"]) == ["scores", "exp"]
    everything = json.loads(cli("attend", Q, K, V, "--show", "all", "--format", "json").out)["steps"]
    assert list(everything) == ["Q", "K", "V", "scores", "scaled", "exp", "sum", "lse", "weights", "output"]
    usual = json.loads(cli("attend", Q, K, V, "--format", "json").out)["steps"]
    assert list(usual) == ["Q", "K", "V", "scores", "scaled", "weights", "output"]


def test_a_step_that_does_not_exist_is_an_error_that_lists_the_others(cli: Cli) -> None:
    result = cli("attend", Q, K, "--show", "output")
    assert (result.status, result.out) == (2, "")
    assert "output" in result.err
    assert "weights" in result.err


def test_top_and_stats(cli: Cli) -> None:
    result = cli("attend", Q, K, V, "--top", "2", "--tokens", "[CLS] cat", "--key-tokens", "a b c")
    assert result.out == "[CLS]: a 0.4011, c 0.4011\ncat: b 0.4011, c 0.4011\n"
    with_stats = cli("attend", Q, K, V, "--top", "1", "--stats").out
    assert "scores: mean 0.6667, variance 0.2222" in with_stats


@pytest.mark.parametrize("option", [("--top", "1"), ("--stats",)])
def test_lines_of_text_are_not_mixed_with_data(cli: Cli, option: tuple[str, ...]) -> None:
    result = cli("attend", Q, K, V, "--format", "json", *option)
    assert (result.status, result.out) == (2, "")
    assert option[0] in result.err


def test_a_file_of_several_problems(cli: Cli, tmp_path: Path) -> None:
    problems = tmp_path / "p.yaml"
    problems.write_text(
        "problems:\n- {title: First, Q: [[1]], K: [[1]]}\n- {Q: [[1]], K: [[1], [1]], key_tokens: [a, b]}\n"
    )
    assert cli("run", problems, "--top", "2").out == "First\n\nq1: k1 1.0000\n\nproblem 2\n\nq1: a 0.5000, b 0.5000\n"
    for refused in (("--format", "json"), ("-o", tmp_path / "o.npz")):
        result = cli("run", problems, *refused)
        assert (result.status, result.out) == (2, "")
        assert "batch" in result.err
    assert list(tmp_path.iterdir()) == [problems]


def test_notes_go_to_standard_error_and_quiet_hides_them(cli: Cli) -> None:
    arguments = ("attend", Q, K, V, "--mask", "causal", "--format", "csv")
    told, quiet = cli(*arguments), cli(*arguments, "--quiet")
    assert told.err.startswith("note: causal")
    assert quiet.err == ""
    assert told.out == quiet.out


def test_standard_input_serves_one_matrix(cli: Cli) -> None:
    expected = cli("attend", Q, K, V, "--format", "csv").out
    result = cli("attend", "-", K, V, "--stdin-format", "csv", "--format", "csv", stdin=Q.read_bytes())
    assert (result.status, result.out) == (0, expected)
    twice = cli("attend", "-", "-", V, "--stdin-format", "csv", stdin=Q.read_bytes())
    assert (twice.status, twice.out) == (2, "")
    assert "standard input" in twice.err
    problem = b"Q: [[1, 0]]\nK: [[1, 0]]\nformat: csv\n"
    assert cli("run", "-", stdin=problem).out == "1.0\n"


def test_a_file_called_dash(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "-.csv").write_text("1,0\n")
    assert cli("self", "./-.csv", "--format", "csv").out == "1.0,0.0\n"
    assert cli("self", "-.csv").status == 2  # an option, as for every program


def test_dry_run_computes_nothing(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "o.npy"
    result = cli("attend", Q, K, V, "--dry-run", "-o", out)
    assert result.status == 0
    assert "Q: 2 x 2" in result.out
    assert "scores: 2 x 3" in result.out
    assert not out.exists()


def test_save_problem_reproduces_the_numbers(cli: Cli, tmp_path: Path) -> None:
    saved = tmp_path / "saved.yaml"
    arguments = ("attend", Q, K, V, "--mask", "keys:1,0,1", "--temperature", "1/3", "--format", "csv")
    first = cli(*arguments, "--save-problem", saved)
    assert str(saved) in first.err
    again = cli("run", saved)
    assert again.out == first.out != ""


@pytest.mark.parametrize("name", ["[/INST]", "[/]", ":smile:", "[red]x[/red]", "\x1b[31mred", "a\nb", "\u202eevil"])
def test_hostile_labels_stand_as_written_or_escaped(cli: Cli, name: str, tmp_path: Path) -> None:
    tokens = tmp_path / "t.yaml"
    tokens.write_text(json.dumps({"Q": [[1]], "K": [[1], [2]], "tokens": [name], "key_tokens": [name, "b"]}))
    for arguments in ((), ("--format", "plain"), ("--top", "1"), ("--format", "markdown")):
        result = cli("run", tokens, *arguments)
        assert (result.status, result.err) == (0, "")
        assert "\x1b" not in result.out
        assert "\u202e" not in result.out
    if name.isprintable():
        assert name in cli("run", tokens).out
    written = json.loads(cli("run", tokens, "--format", "json").out)
    assert written["query_labels"] == [name]


def test_markup_in_names_of_files_and_in_help(cli: Cli) -> None:
    result = cli("self", "w[/b].csv")
    assert result.status == 2
    assert "w[/b].csv" in result.err
    assert "[default: rows]" in cli("attend", "--help").out


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_encodings_that_lack_characters(cli: Cli, encoding: str) -> None:
    key_tokens = "人 🦒 ü " + " ".join(f"k{i}" for i in range(70))
    keys = str([[1.0, float(i)] for i in range(73)])
    for format in ("table", "plain", "markdown"):
        result = cli(
            "attend", "[[1, 2]]", keys, "--key-tokens", key_tokens, "--mask", "window:0,80", "--format", format,
            encoding=encoding,
        )  # fmt: skip
        assert result.status == 0
        assert "\\u4eba" in result.out
    data = cli("attend", "[[1, 2]]", "[[1, 2]]", "--tokens", "x", "--key-tokens", "k", "--format", "csv")
    assert data.out == ",k\nx,1.0\n"


@pytest.mark.parametrize("columns", ["20", "0", "abc", "1"])
def test_no_number_is_cut_whatever_columns_says(cli: Cli, columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    keys = str([[float(i)] for i in range(12)])
    result = cli("attend", "[[0]]", keys, "--show", "weights")
    assert result.status == 0
    assert result.out.count("0.0833") == 12
    if columns == "20":
        assert max(map(len, result.out.splitlines())) <= 20


def test_colours_only_where_they_are_wanted(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ("attend", Q, K, V)
    assert "\x1b" not in cli(*arguments).out
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b[" in cli(*arguments, tty=True).out
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in cli(*arguments).out
    assert "\x1b" not in cli(*arguments, "--format", "csv").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in cli(*arguments, tty=True).out
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("FORCE_COLOR", "0")
    assert "\x1b" not in cli(*arguments).out


def test_negative_zero_is_no_minus_sign(cli: Cli) -> None:
    result = cli("attend", "--weights", "[[1]]", "[[-0.004, -0.0]]", "--precision", "2", "--format", "plain")
    assert "-0.00" not in result.out
    assert "0.00" in result.out


def test_a_hidden_key_does_not_look_like_a_small_weight(cli: Cli) -> None:
    scores = "[[0, 20, 5]]"
    result = cli("attend", "--scores", scores, "--mask", "keys:1,1,0", "--format", "plain")
    assert "0.0000  1.0000" in result.out
    assert "·" in result.out


@pytest.mark.parametrize("name", ["C01_tokens.txt", "C09_wide.txt"])
def test_tokens_of_the_field_reports(cli: Cli, name: str) -> None:
    file = FIELD_CASES / name
    tokens = file.read_text(encoding="utf-8").rstrip("\n").split("\n")
    keys = str([[float(i)] for i in range(len(tokens))])
    result = cli("attend", "[[0]]", keys, "--key-tokens", f"@{file}", "--format", "json")
    assert (result.status, result.err) == (0, "")
    assert json.loads(result.out)["key_labels"] == tokens
    table = cli("attend", keys, keys, "--tokens", f"@{file}", "--key-tokens", f"@{file}", "--show", "weights")
    assert table.status == 0
    plain = [token for token in tokens if token.isprintable() and token.isascii()]
    assert all(token in table.out for token in plain)


@pytest.mark.parametrize("suffix", ["json", "yaml"])
@pytest.mark.parametrize("layout", ["rows", "columns"])
def test_labels_that_nobody_gave_do_not_come_back_from_a_result(
    cli: Cli, suffix: str, layout: str, tmp_path: Path
) -> None:
    inline = [f"[[{name}, 0], [0, 1]]" for name in "234"]
    kept = tmp_path / f"r.{suffix}"
    rules = ("--layout", layout, "--format", "csv", "--past-k", "[[1], [0]]" if layout == "columns" else "[[1, 0]]",
             "--past-v", "[[1], [1]]" if layout == "columns" else "[[1, 1]]")  # fmt: skip
    given = [f"{kept}::{name}" for name in "QKV"]
    for tokens, first in (((), ""), (("--tokens", "the cat"), "the"), (("--key-tokens", "k2 k1"), "q1")):
        assert cli("attend", *inline, *rules[:2], *tokens, "-o", kept, "--force").status == 0
        told = cli("attend", *given, *rules).out
        assert told == cli("attend", *inline, *rules, *tokens).out
        assert first in told
        assert cli("attend", *inline, *rules, *tokens, "-o", kept, "--force").status == 0
        shown = cli("show", f"{kept}::weights").out
        assert ("past 1" in shown) == ("--key-tokens" in tokens)
