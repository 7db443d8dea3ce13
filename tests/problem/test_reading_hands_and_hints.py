"""What a hand writes is read, labels need words, and a hint proposes what can be read, with the numbers it gives."""

from __future__ import annotations

import math
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from attncli import attend, load, self_attention
from attncli.cli import call
from attncli.errors import AttnError, InputError
from tests.calling import names

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Call the program beside files: exit status, standard output, standard error."""
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments: str, **files: str | bytes) -> tuple[int, str, str]:
        for name, content in files.items():
            path = tmp_path / name.replace("__", ".")
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        status = call(list(arguments))
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return invoke


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("e^1", math.e),
        ("exp(1)", math.e),
        ("1/sqrt2", 1 / math.sqrt(2)),
        ("≈0.71", 0.71),
        ("27 %", 0.27),
        ("-oo", -math.inf),
        ("2×10^3", 2000),
        ("2×10³", 2000),
    ],
)
def test_what_a_hand_writes_is_read(run: Run, written: str, value: float) -> None:
    """In YAML, in CSV, inline and in options."""
    expected = repr(float(value))
    for arguments, files in (
        (("show", "a.yaml"), {"a__yaml": f"Q: [[{written}]]\n"}),
        (("show", "a.csv"), {"a__csv": f"{written},1\n"}),
        (("show", f"[[{written}]]"), {}),
    ):
        status, out, _ = run(*arguments, **files)
        assert (status, out.splitlines()[1].split()[0]) == (0, expected)
    if math.isfinite(value):
        assert np.isclose(attend([[1.0]], [[1.0]], scale=written)["scaled"].item(), value)


def test_a_rounded_number_of_the_hand_has_its_places(run: Run) -> None:
    """`≈0.73` and `27 %` are marked as 0.73 and 0.27 are: two places."""
    problem = "scores: [[1, 2]]\nexpect: {weights: [[27 %, ≈0.73]]}\n"
    assert run("check", "p.yaml", p__yaml=problem)[0] == 0
    assert run("check", "p.yaml", p__yaml=problem.replace("27 %", "28 %"))[0] == 1


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [("1,2\nNA,3\n", 2, 1), ("1O,3\n1,2\n", 1, 1), ("1,2\n1O,3\n", 2, 1), ("1,2\n,3\n", 2, 1), ("a,1\n,3\n", 2, 1)],
)
def test_a_column_with_a_number_is_no_column_of_labels(run: Run, text: str, line: int, column: int) -> None:
    status, out, err = run("self", "a.csv", a__csv=text)
    assert (status, out) == (2, "")
    assert f"a.csv:{line}:{column}: " in err


def test_words_are_labels_also_true_and_false(run: Run) -> None:
    status, out, err = run("show", "a.csv", a__csv="word,d1\ntrue,1\nfalse,0\n")
    assert (status, [line.split() for line in out.splitlines()[1:]]) == (0, [["d1"], ["true", "1.0"], ["false", "0.0"]])
    assert "the first column as labels" in err


def test_a_matrix_of_true_and_false_gets_a_note(run: Run) -> None:
    status, _, err = run("self", "[[true, false], [false, true]]")
    assert status == 0
    assert "X holds true and false alone" in err
    np.save("a.npy", np.array([[True, False]]))
    assert "Q holds true and false alone" in run("attend", "a.npy", "[[1, 2]]")[2]
    assert "true" not in run("self", "[[1], [2]]", "--mask", "keep:[[true, false], [true, true]]")[2]


@pytest.mark.parametrize(
    ("name", "text", "options", "numbers"),
    [
        ("a.txt", "1.0e+00,2.0e+00\n3.0e+00,4.0e+00\n", "--separator ,", [[1, 2], [3, 4]]),
        ("a.txt", "1, 2\n3, 4\n", "--separator ,", [[1, 2], [3, 4]]),
        ("a.csv", "1|2\n3|4\n", "--separator '|'", [[1, 2], [3, 4]]),
        ("a.csv", "1 2\n3 4\n", "--separator blank", [[1, 2], [3, 4]]),
        ("a.csv", "0,5;1\n2;3,25\n", "--decimal ,", [[0.5, 1], [2, 3.25]]),
        ("a.csv", "x;y\n0,5;1\n2;3,25\n", "--decimal ,", [[0.5, 1], [2, 3.25]]),
        ("a.txt", "0,5 1\n2 3,25\n", "--decimal ,", [[0.5, 1], [2, 3.25]]),
        ("a.txt", "w|a|b\nx|1|2\n", "--separator '|'", [[1, 2]]),
    ],
)
def test_marks_are_tried_before_they_are_proposed(
    run: Run, name: str, text: str, options: str, numbers: list[list[float]]
) -> None:
    """The hint tells what the numbers will be, and these they are."""
    import shlex

    status, _, err = run("show", name, **{name.replace(".", "__"): text})
    told = re.search(re.escape(options) + r" reads (\d+) x (\d+) numbers, in the first row ([^;\n]*)", err)
    assert status == 2
    assert told is not None, err
    assert [float(number) for number in told[3].split(",")] == numbers[0]
    assert (int(told[1]), int(told[2])) == np.shape(numbers)
    status, out, _ = run("self", name, *shlex.split(options), "--show", "X", "--format", "json")
    assert status == 0
    assert np.array(re.findall(r"-?\d+\.\d+", out.split('"X":')[1]), float).tolist() == np.ravel(numbers).tolist()


def test_where_both_marks_would_do_both_are_told_with_their_numbers(run: Run) -> None:
    err = run("show", "a.txt", a__txt="1,2\n3,4\n")[2]
    assert "--separator , reads 2 x 2 numbers, in the first row 1, 2" in err
    assert "--decimal , reads 2 x 1 numbers, in the first row 1.2" in err


def test_a_missing_comma_is_no_sum(run: Run) -> None:
    assert "a comma is missing: 1, -2" in run("self", "[[1 -2]]")[2]
    assert "a comma is missing: 1, -2" in run("self", "[[1 -2], [3, 4]]")[2]
    assert "(1-2) is -1" in run("self", "[[1-2]]")[2]


def test_lengths_of_a_file_are_read_as_those_of_an_option(run: Run) -> None:
    """One a sequence, from a row as from a column; and where one a query is as near, a note says which."""
    sequences = "[[[1, 2], [3, 4], [1, 1]], [[1, 0], [0, 1], [2, 2]]]"
    files = {"r__csv": "2,3\n", "c__csv": "2\n3\n"}
    results = [run("self", sequences, "--mask", f"lengths:{each}", "--format", "json", **files)
               for each in ("2,3", "r.csv", "c.csv")]  # fmt: skip
    weights = [out[out.index('"weights"') : out.index('"output"')] for _, out, _ in results]
    assert weights[0] == weights[1] == weights[2]
    both = run("self", "[[[1], [2]], [[1], [2]]]", "--mask", "lengths:1,2")[2]
    assert "lengths: one a sequence (lengths-per-query: one a query)" in both


def test_files_named_as_others_are_told_as_what_they_are(run: Run, tmp_path: Path) -> None:
    np.savez(tmp_path / "z.npz", Q=[[1.0]])
    np.save(tmp_path / "y.npy", [[1.0]])
    with zipfile.ZipFile(tmp_path / "x.csv", "w") as archive:
        archive.writestr("xl/workbook.xml", "<x/>")
    (tmp_path / "z.npz").rename(tmp_path / "a.npy")
    (tmp_path / "y.npy").rename(tmp_path / "b.csv")
    assert "a .npz archive, not .npy\n  call it a.npz" in run("show", "a.npy")[2]
    assert "a .npy array, not .csv\n  call it b.npy" in run("show", "b.csv")[2]
    assert "an Excel workbook (.xlsx), not .csv" in run("show", "x.csv")[2]
    assert "gzip" in run("show", "g.csv", g__csv=b"\x1f\x8b\x08abc")[2]
    assert "call it t.csv" in run("show", "t.npy", t__npy="1,2\n3,4\n")[2]


NUMBERED = [name for name in names("masks") if name not in ("causal", "keep", "block")]
IMPOSSIBLE = [(name, argument) for name in NUMBERED for argument in ("", ":a b")] + [
    ("prefix", ":3,2"), ("prefix", ":-1"), ("prefix", ":1.5"), ("prefix-keys", ":9"), ("prefix-keys", ":1,1"),
    ("window", ":1"), ("window", ":1,2,3"), ("window", ":-1,0"), ("segments", ":0,0"), ("segments", ":0,0,0.5"),
    ("chunk", ":0"), ("chunk", ":2,2"), ("dilated", ":0"), ("dilated", ":1.5"), ("packed", ":-1"), ("packed", ":2,1.5"),
]  # fmt: skip


@pytest.mark.parametrize(("mask", "argument"), IMPOSSIBLE)
def test_the_example_of_a_mask_is_accepted(run: Run, mask: str, argument: str) -> None:
    """An argument that is none, or none at all: the hint gives one that works for scores of 3 x 3 (or 2 x 3)."""
    status, _, err = run("self", "[[1], [2], [3]]", "--mask", mask + argument)
    assert status == 2
    example = re.search(rf"as in ({mask}:[\d,/]+)", err)
    assert example is not None, err
    tried = [run("attend", queries, "[[1], [2], [3]]", "--mask", example[1])[0]
             for queries in ("[[1], [2], [3]]", "[[1], [2]]")]  # fmt: skip
    assert 0 in tried


def test_a_row_that_begins_with_a_hash_is_told(run: Run) -> None:
    err = run("show", "a.csv", a__csv="##ing,1,2\nrun,1,3\n")[2]
    assert "1 line that begins with # was skipped" in err
    assert "skipped" not in run("show", "b.csv", b__csv="# measured by hand\n1,2\n")[2]


def test_labels_that_are_not_seen_are_escaped(run: Run) -> None:
    out = run("self", "a.csv", a__csv="a\u200bb,1\nc\u2060,2\n\u202ed,3\n👩\u200d👧,4\n")[1]
    assert not re.search("[\u200b\u2060\u202e]", out)
    assert all(each in out for each in (r"a\u200bb", r"c\u2060", r"\u202ed", "👩\u200d👧"))


def test_what_is_left_out_is_told(run: Run) -> None:
    status, out, err = run("self", "[[1, 2]]", "--wq", "[[1, 0], [0, 2]]", "--dry-run")
    assert (status, "W_K and W_V left out: the identity" in err) == (0, True)
    assert "  W_K: the identity\n  W_V: the identity\n" in out
    assert "left out" not in run("self", "[[1, 2]]")[2]


def test_one_head_is_as_without_heads(run: Run) -> None:
    same = ["self", "[[1, 2], [3, 4]]", "--format", "json"]
    assert run(*same, "--heads", "1")[1] == run(*same)[1]
    assert self_attention([[1.0, 2.0]], heads=1)["weights"].shape == (1, 1)


def test_the_problem_goes_to_standard_output(run: Run, tmp_path: Path) -> None:
    same = ["self", "[[1, 2], [3, 4]]", "--scale", "0.5"]
    status, out, _ = run(*same, "--save-problem", "-")
    assert status == 0
    assert not (tmp_path / "-").exists()
    (tmp_path / "p.yaml").write_text(out, encoding="utf-8")
    assert load("p.yaml").scale == 0.5
    assert run("run", "p.yaml", "--format", "csv")[1] == run(*same, "--format", "csv")[1]


def test_show_lists_the_steps_of_a_result(run: Run) -> None:
    run("attend", "[[1, 2]]", "[[1, 2]]", "[[3]]", "-o", "r.json")
    status, out, _ = run("show", "r.json")
    assert status == 0
    assert "r.json::output: 1 x 1, float64\n" in out
    assert run("show", "r.json::output")[1] == "r.json::output: 1 x 1, float64\n  3.0\n"


def test_a_title_heads_tables_and_reports(run: Run) -> None:
    problem = 'title: "Three_words"\nX: [[1, 2]]\nexpect: {weights: [[1]]}\n'
    for command in ("run", "check"):
        assert run(command, "p.yaml", p__yaml=problem)[1].startswith("Three_words\n\n")
        assert run(command, "p.yaml", "--format", "markdown")[1].startswith("# Three\\_words\n\n")
        assert run(command, "p.yaml", "--format", "latex")[1].startswith("\\section*{Three\\_words}\n\n")
    assert run("run", "p.yaml", "--format", "json")[1].startswith("{")


def test_csv_is_written_as_it_is_to_be_read(run: Run) -> None:
    """A decimal comma and a semicolon, printed and in files; read again they are the same numbers and labels."""
    marks = ["--separator", ";", "--decimal", ","]
    status, out, _ = run("self", "[[1, 2], [0.5, 4]]", "--tokens", "a;b 1,5", *marks, "--format", "csv")
    assert (status, re.search(r"\d\.\d", out)) == (0, None)
    assert run("self", "[[1, 2], [0.5, 4]]", "--tokens", "a;b 1,5", *marks, "-o", "o.csv")[0] == 0
    assert Path("o.csv").read_text(encoding="utf-8") == out
    assert "a;b" in run("show", "o.csv", *marks)[1]
    plain = run("self", "[[1, 2], [0.5, 4]]", "--format", "csv")[1]
    numbers = [[float(cell.replace(",", ".")) for cell in line.split(";")] for line in
               run("self", "[[1, 2], [0.5, 4]]", "--decimal", ",", "--format", "csv")[1].splitlines()]  # fmt: skip
    assert numbers == [[float(cell) for cell in line.split(",")] for line in plain.splitlines()]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_of_the_shell_that_is_named(
    run: Run, shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert run("--install-completion", shell)[0] == 0
    written = [path for path in tmp_path.rglob("*") if path.is_file() and "attncli" in path.name]
    assert [f"complete_{shell}" in path.read_text(encoding="utf-8") for path in written] == [True]
    assert f"complete_{shell}" in run("--show-completion", shell)[1]
    assert run("--install-completion", "zhs")[0] == 2


@pytest.mark.parametrize(
    "problem",
    [
        "X: [[1, 0, 1, 0]]\nW_Q: [[1, 1, 0, 0], [0, 0, 1, 1]]\nW_K: [[1, 0], [0, 1], [1, 1], [0, 0]]\n",
        "X: [[1, 0, 1, 0]]\nW_Q: [[1, 1, 0, 0], [0, 0, 1, 1]]\nW_K: [[1, 0, 1, 0], [0, 1, 1, 1]]\n",
        "X: [[1, 2], [3, 4], [5, 6]]\nW_Q: [[1, 2, 3]]\nW_K: [[1, 2, 3]]\nW_V: [[1, 2, 3]]\n",
    ],
)
def test_a_hint_to_transpose_fits(run: Run, problem: str) -> None:
    """Of all weights, of the data, or of one alone: what it says is done, and nothing else is wrong then."""
    err = run("run", "p.yaml", p__yaml=problem)[2]
    option = re.search(r"--(?:weight-)?layout [a-z-]+", err)
    if option is not None:
        assert run("run", "p.yaml", *option[0].split())[0] == 0
        return
    assert "W_Q transposed would fit: write it as 4 x 2" in err
    turned = problem.replace("[[1, 1, 0, 0], [0, 0, 1, 1]]", "[[1, 0], [1, 0], [0, 1], [0, 1]]")
    assert run("run", "p.yaml", p__yaml=turned)[0] == 0


def test_a_wrong_cell_is_told_in_python_too(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("1,2\nNA,3\n", encoding="utf-8")
    with pytest.raises(InputError, match='line 2, column 1: "NA" is not a number'):
        attend(str(path), [[1.0]])
    with pytest.raises(AttnError):
        attend([[1.0]], [[1.0]], scale="1O")
