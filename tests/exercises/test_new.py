"""`attncli new`: files to begin with, and variants with their keys."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pytest
import yaml

from attncli import check, run
from tests.calling import Result

Cli = Callable[..., Result]
KINDS = ["additive", "attend", "cross", "heads", "kernel", "masked", "positions", "self"]


def begun(cli: Cli, kind: str, folder: Path) -> Path:
    path = folder / f"{kind}.yaml"
    assert cli("new", kind, "-o", path).status == 0
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_a_problem_with_blanks(cli: Cli, kind: str, tmp_path: Path) -> None:
    path = begun(cli, kind, tmp_path)
    text = path.read_text()
    assert cli("new", kind).out == text
    assert text.startswith("# ")
    assert cli("run", path).status == 0
    assert cli("check", path).out.endswith(f"{path}: nothing was marked\n")
    trace = run(path)
    for address, blank in yaml.safe_load(text)["expect"].items():
        assert np.shape(blank) == trace[address].shape, address
        right = re.sub(r"(?m)^expect:\n(?:  .*\n)*", "", text) + f"expect:\n  {address}: {trace[address].tolist()}\n"
        path.write_text(right)
        assert check(path).verdict == "agrees"


def test_kinds_are_told(cli: Cli, tmp_path: Path) -> None:
    told = cli("new", "slef")
    assert told.status == 2
    assert "did you mean 'self'" in told.err
    assert all(kind in told.err for kind in KINDS)
    assert cli("new").out == cli("new", "self").out
    path = begun(cli, "self", tmp_path)
    assert "exists" in cli("new", "self", "-o", path).err
    assert cli("new", "cross", "-o", path, "--force").status == 0


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_the_same_seed_gives_the_same_bytes(cli: Cli, tmp_path: Path) -> None:
    path = begun(cli, "masked", tmp_path)
    for name, seed in (("a", 7), ("b", 7), ("c", 8)):
        options = ("--variants", 3, "--seed", seed, "--sheet", "tex", "-o", tmp_path / name)
        assert cli("new", "--like-problem", path, *options).status == 0
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")
    assert files_of(tmp_path / "a").keys() == files_of(tmp_path / "c").keys()
    assert files_of(tmp_path / "a") != files_of(tmp_path / "c")
    assert [*files_of(tmp_path / "a")] == [
        "01.tex", "01.yaml", "02.tex", "02.yaml", "03.tex", "03.yaml", "keys/01.yaml", "keys/02.yaml", "keys/03.yaml",
    ]  # fmt: skip


def by_hand(problem: dict[str, Any], places: int) -> dict[str, list[list[float]]]:
    """Causal attention of X alone, each number rounded before the next is made of it."""
    from decimal import ROUND_HALF_UP, Decimal

    def to(x: float) -> float:
        return float(Decimal(repr(x)).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP))

    x = problem["X"]
    found: dict[str, list[list[float]]] = {"scaled": [], "weights": [], "output": []}
    for i, q in enumerate(x):
        scaled = [to(sum(a * b for a, b in zip(q, k, strict=True)) / math.sqrt(len(q))) for k in x]
        exps = [to(math.exp(s)) for s in scaled[: i + 1]]
        weights = [to(e / to(sum(exps))) for e in exps]
        found["scaled"].append(scaled)
        found["weights"].append(weights + [0.0] * (len(x) - i - 1))
        found["output"].append([to(sum(w * v[c] for w, v in zip(weights, x, strict=False))) for c in range(len(q))])
    return found


def test_a_key_is_what_a_person_calculates(cli: Cli, tmp_path: Path) -> None:
    path = begun(cli, "masked", tmp_path)
    assert cli("new", "--like-problem", path, "--variants", 6, "--seed", 3, "-o", tmp_path / "ex").status == 0
    for key in sorted((tmp_path / "ex" / "keys").iterdir()):
        told = yaml.safe_load(key.read_text())
        right = by_hand(told, 2)
        assert told["expect"]["weights"] == right["weights"]
        np.testing.assert_allclose(told["expect"]["output"], right["output"], atol=1e-9)
        assert told["expect"]["scaled"] == right["scaled"]


def test_an_exercise_is_its_key_with_blanks(cli: Cli, tmp_path: Path) -> None:
    path = begun(cli, "cross", tmp_path)
    names = tmp_path / "class.txt"
    names.write_text("# the class\nfirst\nsecond\n")
    told = cli("new", "--like-problem", path, "--names", names, "-o", tmp_path / "ex", "--sheet", "md", "--places", 3)
    assert told.status == 0
    assert re.search(r"each has \d+( to \d+)? products and \d+( to \d+)? digits", told.err)
    folder = tmp_path / "ex"
    assert (folder / "names.txt").read_text() == "01  first\n02  second\n"
    for number in ("01", "02"):
        path_of_key = folder / "keys" / f"{number}.yaml"
        (head, given, blanks), (other, same, numbers) = (
            re.split(r"\n(?=title:|expect:)", path.read_text(), maxsplit=2)
            for path in (folder / f"{number}.yaml", path_of_key)
        )
        assert given == same
        assert head != other
        assert re.sub(r"-?\d+\.\d{3}|(?<=[\[ ])-?\d+(?=[,\]])", "_", numbers) == blanks
        assert cli("check", path_of_key).status == 0
        assert cli("check", "--problem", path_of_key, path_of_key).status == 0
        sheet = (folder / f"{number}.md").read_text()
        assert "weights (2 queries x 3 keys): to 3 places" in sheet
    assert "exists" in cli("new", "--like-problem", path, "--names", names, "-o", folder).err


@pytest.mark.parametrize("kind", ["cross", "heads"])
def test_a_workbook_that_was_filled_in_is_marked_like_the_file(cli: Cli, kind: str, tmp_path: Path) -> None:
    path = begun(cli, kind, tmp_path)
    options = ("--like-problem", path, "--sheet", "xlsx", "--seed", 5)
    assert cli("new", *options, "-o", tmp_path / "ex").status == 0
    assert cli("new", *options, "-o", tmp_path / "again").status == 0
    empty = tmp_path / "ex" / "01.xlsx"
    assert empty.read_bytes() == (tmp_path / "again" / "01.xlsx").read_bytes()
    key = tmp_path / "ex" / "keys" / "01.yaml"
    told = yaml.safe_load(key.read_text())["expect"]
    told["output"][0][0] = round(told["output"][0][0] + 0.3, 2)  # a slip
    book = openpyxl.load_workbook(empty)
    for address, numbers in told.items():
        sheet = book[address.replace("[", "_").replace("]", "")]
        for i, row in enumerate(numbers, start=3):
            for j, number in enumerate(row, start=2):
                sheet.cell(i, j).value = number
    (tmp_path / "answers").mkdir()
    book.save(tmp_path / "answers" / "sheet.xlsx")
    (tmp_path / "answers" / "text.yaml").write_text(yaml.safe_dump({"expect": told}))
    marked = cli("check", "--problem", key, tmp_path / "answers", "--format", "csv", "--quiet")
    _, sheet_row, text_row = (line.split(",", 1)[1] for line in marked.out.splitlines())
    assert sheet_row.startswith("wrong,output,1 1,")
    assert sheet_row == text_row
    blank = cli("check", "--problem", key, empty)
    assert "nothing was marked" in blank.out


def test_hostile_labels_stay_text_in_a_workbook(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    labels = "tokens: ['=1+1', '@SUM(A1)', \"a\\x01b\"]\ntitle: '=HYPERLINK(1)'\n"
    path.write_text(f"X: [[1, 0], [0, 2], [1, 1]]\n{labels}mask: causal\n")
    assert cli("new", "--like-problem", path, "--sheet", "xlsx", "-o", tmp_path / "ex").status == 0
    book = openpyxl.load_workbook(tmp_path / "ex" / "01.xlsx")
    cells = [cell for sheet in book for row in sheet.iter_rows() for cell in row if cell.value is not None]
    assert {cell.data_type for cell in cells} == {"s", "n"}
    assert {"=1+1", "@SUM(A1)"} <= {cell.value for cell in cells}


def test_what_cannot_be_is_told(cli: Cli, tmp_path: Path) -> None:
    path = begun(cli, "attend", tmp_path)
    names = tmp_path / "names.txt"
    names.write_text("a\nb\nc\n")
    variants = ("new", "--like-problem", path)
    for options, said in (
        (("new", "--variants", 3), "--like-problem PROBLEM names it"),
        (variants, "-o DIR"),
        ((*variants, "-o", tmp_path / "x", "--variants", 0), "1 to 10000"),
        ((*variants, "-o", tmp_path / "x", "--names", names, "--variants", 2), "--variants 3"),
        ((*variants, "-o", tmp_path / "x", "--places", 9), "0 to 6"),
        ((*variants, "-o", tmp_path / "x", "--sheet", "doc"), "md, tex, xlsx"),
        (("new", "self", "--like-problem", path, "-o", tmp_path / "x"), "one or the other"),
        (("new", "--like-problem", tmp_path / "none.yaml", "-o", tmp_path / "x"), "does not exist"),
        (("new", "--like-problem", path, "-o", tmp_path / "x", "--places", 0), "more --places"),
    ):
        told = cli(*options)
        assert (told.status, told.out) == (2, ""), options
        assert said in told.err
        assert not (tmp_path / "x").exists()


@pytest.mark.variants
@pytest.mark.parametrize("kind", ["self", "cross", "heads", "masked", "additive"])
def test_two_hundred_variants_of_each_of_five_kinds(cli: Cli, kind: str, tmp_path: Path) -> None:
    """They come out well, their keys agree, and none is more work than another by more than 10 %."""
    path = begun(cli, kind, tmp_path)
    told = cli("new", "--like-problem", path, "--variants", 200, "--seed", 11, "-o", tmp_path / "ex")
    assert told.status == 0, told.err
    ranges = re.search(r"each has (\d+)(?: to (\d+))? products and (\d+)(?: to (\d+))? digits", told.err)
    assert ranges is not None
    for low, high in (ranges.group(1, 2), ranges.group(3, 4)):
        assert int(high or low) <= 1.1 * int(low) + 1
    keys = sorted((tmp_path / "ex" / "keys").iterdir())
    assert len({key.read_bytes().partition(b"\n")[2].partition(b"X:")[2] or key.read_bytes() for key in keys}) == 200
    for key in keys:
        result = check(key)
        assert result.verdict != "wrong", key.read_text()
        trace = run(key)
        weights = trace["weights"]
        seen = np.broadcast_to(True if trace.visible is None else trace.visible, weights.shape)
        for row, visible in zip(
            weights.reshape(-1, weights.shape[-1]), seen.reshape(-1, weights.shape[-1]), strict=True
        ):
            shares = np.sort(row[visible])
            if len(shares) > 1:
                assert shares[-1] < 0.97
                assert shares[0] > 0.01
                assert np.diff(shares).min() > 0.001
