"""Many problems in one call: where they come from, what each leaves, and what is told of them all."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from batches import result, results, rows, write_problems

from attncli import self_attention

Batch = Callable[..., tuple[int, str, str]]


def summary(folder: Path) -> dict[str, dict[str, str]]:
    with (folder / "summary.csv").open(newline="") as stream:
        return {row["problem"]: row for row in csv.DictReader(stream)}


def test_a_result_for_each_file_of_a_folder(batch: Batch, tmp_path: Path) -> None:
    write_problems(tmp_path / "in", 3)
    (tmp_path / "in" / "deeper").mkdir()
    (tmp_path / "in" / "deeper" / "q.yaml").write_text("X: [[1]]\n")
    (tmp_path / "in" / "notes.txt").write_text("no problem\n")
    (tmp_path / "in" / "j.json").write_text('{"X": [[1, 2], [3, 4]]}')
    status, out, err = batch("in", "-o", "out")
    assert (status, err) == (0, "")
    assert sorted(results(tmp_path / "out")) == ["j.json", "p000.json", "p001.json", "p002.json"]
    told = result(tmp_path / "out" / "p001.json")
    expected = self_attention(rows(1), mask="causal")
    np.testing.assert_array_equal(told["steps"]["output"], expected["output"])
    np.testing.assert_array_equal(told["steps"]["weights"], expected["weights"])
    assert told["batch"]["result"] == "output 4 x 3"
    assert out.splitlines()[0].split() == ["problem", "result", "seconds"]
    assert out.splitlines()[-1] == "4 of 4 problems computed, 0 bad, 0 wrong"
    assert summary(tmp_path / "out")["p002"]["result"] == "output 4 x 3"


def test_patterns_and_files(batch: Batch, tmp_path: Path) -> None:
    write_problems(tmp_path / "in", 12)
    assert batch("in/p00[12].yaml", "in/p01*.yaml", "in/p003.yaml", "-o", "out")[0] == 0
    assert sorted(results(tmp_path / "out")) == [f"p{i:03}.json" for i in (1, 2, 3, 10, 11)]


def test_a_bad_problem_leaves_no_result_and_does_not_stop_the_others(batch: Batch, tmp_path: Path) -> None:
    write_problems(tmp_path / "in", 5, bad=2)
    status, out, err = batch("in", "-o", "out")
    assert status == 2
    assert err == "attncli: in/p002.yaml:1:13: row 2 (line 1) has 1 value, row 1 (line 1) has 2\n"
    assert sorted(results(tmp_path / "out")) == ["p000.json", "p001.json", "p003.json", "p004.json"]
    assert out.splitlines()[-1] == "4 of 5 problems computed, 1 bad, 0 wrong"
    assert summary(tmp_path / "out")["p002"]["result"] == "bad"


def test_an_older_result_of_a_problem_that_is_bad_now_is_taken_away(batch: Batch, tmp_path: Path) -> None:
    write_problems(tmp_path / "in", 2)
    batch("in", "-o", "out")
    (tmp_path / "in" / "p001.yaml").write_text("X: [[1, a]]\n")
    assert batch("in", "-o", "out", "--force")[0] == 2
    assert [*results(tmp_path / "out")] == ["p000.json"]


def test_hand_calculations_are_checked(batch: Batch, tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text("Q: [[1, 0]]\nK: [[1, 0], [0, 1]]\nexpect: {weights: [[0.67, 0.33]]}\n")
    (tmp_path / "slip.yaml").write_text("Q: [[1, 0]]\nK: [[1, 0], [0, 1]]\nexpect: {weights: [[0.76, 0.24]]}\n")
    status, out, _ = batch("good.yaml", "slip.yaml", "-o", "out")
    assert status == 1
    assert out.splitlines()[-1] == "2 of 2 problems computed, 0 bad, 1 wrong"
    assert [row["result"] for row in summary(tmp_path / "out").values()] == ["agrees", "wrong"]
    assert result(tmp_path / "out" / "slip.json")["batch"]["verdict"] == "wrong"
    assert batch("good.yaml", "slip.yaml", "-o", "out", "--resume")[0] == 1  # what was skipped was wrong all the same
    assert batch("good.yaml", "-o", "other")[0] == 0


def test_a_file_with_a_list_of_problems(batch: Batch, tmp_path: Path) -> None:
    (tmp_path / "many.yaml").write_text(f"""mask: causal
problems:
  - {{name: first, X: {rows(1)}}}
  - {{X: {rows(2)}}}
  - {{name: last, X: {rows(3)}, mask: none}}
""")
    assert batch("many.yaml", "-o", "out")[0] == 0
    assert sorted(results(tmp_path / "out")) == ["first.json", "last.json", "many-2.json"]
    np.testing.assert_array_equal(
        result(tmp_path / "out" / "many-2.json")["steps"]["output"], self_attention(rows(2), mask="causal")["output"]
    )
    assert result(tmp_path / "out" / "last.json")["mask"] == []


def test_a_bad_problem_within_a_list(batch: Batch, tmp_path: Path) -> None:
    (tmp_path / "many.yaml").write_text("""problems:
  - {name: a, X: [[1, 2]]}
  - {name: b, X: [[1, 2]], scael: 2}
  - {name: c, X: [[1, 2]], X: [[3, 4]]}
  - {name: d, X: [[1, 2], [3]]}
  - {name: e, X: [[1, 2]]}
""")
    status, _, err = batch("many.yaml", "-o", "out")
    assert status == 2
    assert sorted(results(tmp_path / "out")) == ["a.json", "e.json"]
    assert [line.partition(": ")[2].partition(": ")[0] for line in err.splitlines() if line.startswith("attncli")] == [
        "many.yaml:3:28", "many.yaml:4:28", "many.yaml:5:27",
    ]  # fmt: skip


def test_what_is_wrong_beside_a_list_is_wrong_with_all_of_it(batch: Batch, tmp_path: Path) -> None:
    (tmp_path / "many.yaml").write_text("scael: 2\nproblems:\n  - {X: [[1, 2]]}\n")
    (tmp_path / "p.yaml").write_text("X: [[1, 2]]\n")
    status, _, err = batch("many.yaml", "p.yaml", "-o", "out")
    assert status == 2
    assert "many.yaml:1:1: unknown key 'scael'" in err
    assert [*results(tmp_path / "out")] == ["p.json"]


def test_stages_in_a_batch(batch: Batch, tmp_path: Path) -> None:
    sample = Path(__file__).parents[2] / "samples" / "transformer" / "problem.yaml"
    (tmp_path / "t.yaml").write_text(sample.read_text())
    assert batch("t.yaml", "-o", "out")[0] == 0
    told = result(tmp_path / "out" / "t.json")
    assert [*told["stages"]] == ["encoder", "decoder", "cross"]
    assert told["batch"]["verdict"] == "agrees"
    assert batch("t.yaml", "-o", "out", "--resume")[1].splitlines()[1].endswith("finished before")


def test_options_win_over_every_problem(batch: Batch, tmp_path: Path) -> None:
    write_problems(tmp_path / "in", 2)
    assert batch("in", "-o", "out", "--mask", "none", "--show", "output", "--scale", "1")[0] == 0
    told = result(tmp_path / "out" / "p001.json")
    assert list(told["steps"]) == ["output"]
    np.testing.assert_array_equal(told["steps"]["output"], self_attention(rows(1), scale=1)["output"])


@pytest.mark.parametrize(
    ("format", "suffix"),
    [
        ("npz", "npz"),
        ("csv", "csv"),
        ("markdown", "md"),
        ("yaml", "yaml"),
        ("npy", "npy"),
        ("tsv", "tsv"),
        ("json", "json"),
    ],
)
def test_formats_and_resuming(batch: Batch, tmp_path: Path, format: str, suffix: str) -> None:
    """Each format has its suffix, is read back, and knows its problem again."""
    from attncli.problem.formats import read_matrix

    write_problems(tmp_path / "in", 2)
    assert batch("in", "-o", "out", "--format", format)[0] == 0
    first = results(tmp_path / "out")
    assert f"p001.{suffix}" in first
    if suffix != "md":
        spec = f"{tmp_path}/out/p001.{suffix}" + ("::output" if suffix in ("npz", "yaml", "json") else "")
        np.testing.assert_array_equal(read_matrix(spec).array, self_attention(rows(1), mask="causal")["output"])
    (tmp_path / "in" / "p000.yaml").write_text("X: [[1, 2], [3, 4]]\n")
    status, out, _ = batch("in", "-o", "out", "--format", format, "--resume")
    assert status == 0
    assert ["finished before" in line for line in out.splitlines()[1:3]] == [False, True]
    second = results(tmp_path / "out")
    assert first[f"p000.{suffix}"] != second[f"p000.{suffix}"]
    assert first[f"p001.{suffix}"] == second[f"p001.{suffix}"]


def test_resuming_knows_a_problem_by_what_it_says(batch: Batch, tmp_path: Path) -> None:
    """Other options, other content of a file that it names: computed again. Another spelling of the same: not."""
    np.save(tmp_path / "x.npy", np.eye(3))
    (tmp_path / "p.yaml").write_text("X: x.npy\nscale: 0.5\n")

    def resumed(*options: str) -> bool:
        status, out, err = batch("p.yaml", "-o", "out", "--resume", *options)
        assert (status, err) == (0, "")
        return "finished before" in out

    assert not resumed()
    assert resumed()
    (tmp_path / "p.yaml").write_text("# the same\nscale: 1/2\nX: [[1, 0, 0], [0, 1, 0], [0, 0, 1]]\n")
    assert resumed()
    (tmp_path / "p.yaml").write_text("X: x.npy\nscale: 0.5\n")
    assert resumed()
    np.save(tmp_path / "x.npy", 2 * np.eye(3))
    assert not resumed()
    assert not resumed("--scale", "2")
    assert not resumed("--show", "output")
    (tmp_path / "out" / "p.json").write_text('{"batch": {"digest": "')
    assert not resumed()


def test_a_stream_of_lines(batch: Batch, tmp_path: Path) -> None:
    write_problems(tmp_path / "in", 4, bad=1)
    status, out, err = batch("in", "--format", "jsonl")
    lines = [json.loads(line) for line in out.splitlines()]
    assert status == 2
    assert [line["name"] for line in lines] == ["p000", "p002", "p003"]
    np.testing.assert_array_equal(lines[1]["steps"]["output"], self_attention(rows(2), mask="causal")["output"])
    assert err.splitlines()[-1] == "note: 3 of 4 problems computed, 1 bad, 0 wrong"
    assert batch("in", "-o", "all.jsonl")[0] == 2
    assert (tmp_path / "all.jsonl").read_text() == out
    assert batch("in", "-o", "all.jsonl")[2].startswith("attncli: all.jsonl: the file exists\n")


def test_without_an_output_only_the_summary_is_given(batch: Batch, tmp_path: Path) -> None:
    write_problems(tmp_path / "in", 2)
    status, out, _ = batch("in")
    assert status == 0
    assert out.splitlines()[-1] == "2 of 2 problems computed, 0 bad, 0 wrong"
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_files_that_problems_share_are_read_once(batch: Batch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "w.npy", np.eye(3))
    np.save(tmp_path / "other.npy", np.eye(3))
    for i in range(5):
        (tmp_path / f"p{i}.yaml").write_text(f"X: {rows(i)}\nW_Q: w.npy\nW_K: {'other.npy' if i == 4 else 'w.npy'}\n")
    import attncli.problem.reading as module

    read: list[str] = []
    original = module.read_matrix
    monkeypatch.setattr(
        module, "read_matrix", lambda spec, *given, **more: read.append(spec) or original(spec, *given, **more)
    )
    assert batch("*.yaml", "-o", "out")[0] == 0
    assert sorted(read) == ["other.npy", "w.npy"]


WRONG = {
    "an empty pattern": (["in/q*.yaml", "-o", "out"], "the pattern in/q*.yaml matches no file"),
    "no such file": (["in/p00.yaml", "-o", "out"], "in/p00.yaml: there is no such file"),
    "an empty folder": (["empty", "-o", "out"], "the folder empty holds no problems"),
    "one name twice": (["in/p000.yaml", "again/p000.yaml", "-o", "out"],
                       "in/p000.yaml and again/p000.yaml would both give the result 'p000'"),
    "a file as folder": (["in", "-o", "in/p000.yaml"], "-o in/p000.yaml: this is a file, not a folder"),
    "results among the problems": (["in", "-o", "in"], "the results would lie among the problems"),
    "results found by the pattern": (["in/*.*", "-o", "in"], "would be found among the problems"),
    "a result upon its problem": (["again/r.json", "-o", "again"], "the result again/r.json would replace a problem"),
    "a result upon the summary": (["again/summary.yaml", "-o", "out", "--format", "csv"], "where the summary does"),
    "no problem file": (["text.txt", "-o", "out"], "text.txt: this is no problem file"),
    "an unknown format": (["in", "-o", "out", "--format", "jsn"], "--format: unknown format 'jsn'"),
    "a format without a folder": (["in", "--format", "npz"], "--format: results as npz need a folder"),
    "nothing to resume": (["in", "--resume"], "--resume: there are no results"),
    "a stream resumed": (["in", "--resume", "-o", "a.jsonl"], "--resume: a stream cannot be resumed"),
    "processes and a cluster": (["in", "--dask", "local", "--jobs", "2"], "--jobs and --dask are both given"),
    "an option out of place": (["in", "-o", "out", "--temperature", "0"], "--temperature: temperature must not be 0"),
    "a common problem for nobody": (["in", "-o", "out", "--problem", "in/p000.yaml"], "--problem: there is no list"),
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "told"), WRONG.values(), ids=WRONG)
def test_told_before_the_first_problem_is_computed(
    arguments: list[str], told: str, batch: Batch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import attncli.batch.run as module

    write_problems(tmp_path / "in", 2)
    write_problems(tmp_path / "again", 1)
    (tmp_path / "again" / "r.json").write_text('{"X": [[1]]}')
    (tmp_path / "again" / "summary.yaml").write_text("X: [[1]]\n")
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.txt").write_text("1 2\n")

    def refuse(*given: object) -> None:
        raise AssertionError("something was computed")

    monkeypatch.setattr(module, "compute", refuse)
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    status, out, err = batch(*arguments)
    assert (status, out) == (2, "")
    assert told in err
    assert err.startswith("attncli: ")
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before


def test_results_that_exist(batch: Batch, tmp_path: Path) -> None:
    write_problems(tmp_path / "in", 3)
    assert batch("in", "-o", "out")[0] == 0
    (tmp_path / "out" / "p001.json").write_text("mine")
    status, _, err = batch("in", "-o", "out")
    assert status == 2
    assert err.startswith("attncli: -o out: the result out/p000.json exists and 2 more\n")
    assert (tmp_path / "out" / "p001.json").read_text() == "mine"
    assert batch("in", "-o", "out", "--force")[0] == 0
    assert result(tmp_path / "out" / "p001.json")["steps"]


def test_of_many_problems_the_ends_are_shown_and_what_went_wrong(batch: Batch, tmp_path: Path) -> None:
    write_problems(tmp_path / "in", 80, bad=40, size=2)
    status, out, _ = batch("in")
    assert status == 2
    lines = out.splitlines()
    assert [line.split()[0] for line in lines[1:12]] == [
        *(f"p00{i}" for i in range(5)), "p040", *(f"p0{i}" for i in range(75, 80))
    ]  # fmt: skip
    assert lines[12] == "(69 more: see summary.csv)"


def test_names_that_are_no_file_names(batch: Batch, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("problems:\n  - {name: ../x, X: [[1]]}\n  - {name: 'a/b', X: [[1]]}\n")
    status, _, err = batch("p.yaml", "-o", "out")
    assert status == 2
    assert "p.yaml: problem 1: the name '../x' cannot be that of a file" in err
    assert "p.yaml: problem 2: the name 'a/b' cannot be that of a file" in err
