"""Workbooks: numbers as they are stored and as they are shown, with the cell of what is wrong."""

from __future__ import annotations

import io
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pytest
from openpyxl.workbook.defined_name import DefinedName

from tests.calling import Result

Cli = Callable[..., Result]


def book(path: Path, **sheets: list[list[Any]]) -> Any:
    made = openpyxl.Workbook()
    made.remove(made.active)
    for title, rows in sheets.items():
        sheet = made.create_sheet(title)
        for row in rows:
            sheet.append(row)
    made.save(path)
    return made


def test_an_area_a_sheet_and_a_name(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "x.xlsx"
    made = book(path, Data=[[None, "a", "b"], ["the", 1, 0.5], ["cat", 2, 3]], Other=[[7, 8]])
    made.defined_names["keys"] = DefinedName("keys", attr_text="Data!$B$2:$C$3")
    made.save(path)
    for spec in ("Data!B2:C3", "'Data'!$B$2:$C$3", "keys"):
        told = cli("attend", "[[1, 0]]", f"{path}::{spec}", "--score", "dot", "--show", "scores", "--format", "csv")
        assert (told.status, told.out) == (0, "1.0,2.0\n"), told.err
    labelled = cli("self", f"{path}::Data", "--show", "X", "--format", "csv")
    assert labelled.out == "the,1.0,0.5\ncat,2.0,3.0\n"
    assert "the first row holds labels" in labelled.err
    assert "Data" in cli("self", path).err  # two sheets: one is to be named
    assert "2 x 2" in cli("show", path).out
    (tmp_path / "one.xlsx").write_bytes(b"")
    book(tmp_path / "one.xlsx", S=[[1, 2]])
    assert cli("self", tmp_path / "one.xlsx", "--show", "X", "--format", "csv").out == "1.0,2.0\n"
    assert cli("self", f"{tmp_path / 'one.xlsx'}::A1:B1", "--show", "X", "--format", "csv").out == "1.0,2.0\n"


def test_a_hand_is_read_as_it_is_shown(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "hand.xlsx"
    made = book(path, S=[[0.21194155761708544, 0.7880584423829146], ["27 %", None]])
    for row in made["S"].iter_rows(max_row=1):
        for cell in row:
            cell.number_format = "0.00"
    made.save(path)
    problem = tmp_path / "p.yaml"
    problem.write_text("masked: [[1, 2.3132616875182228]]\n")
    shown = cli("check", problem, "--expect", f"weights={path}::S!A1:B1", "--format", "json")
    assert '"verdict": "agrees"' in shown.out
    stored = cli("check", problem, "--expect", f"weights={path}::S!A1:B1", "--stored")
    assert stored.status == 0
    made["S"]["A1"] = 0.2169  # shown as 0.22: a slip, though what is stored is near
    made.save(path)
    wrong = cli("check", problem, "--expect", f"weights={path}::S!A1:B1", "--format", "json")
    assert '"hand": "0.22"' in wrong.out
    problem.write_text("weights: [[0.2666, 0.7334]]\nV: [[1, 0], [0, 1]]\n")
    per_cent = cli("check", problem, "--expect", f"output={path}::S!A2:B2", "--format", "json")
    assert '"verdict": "agrees"' in per_cent.out  # and the empty cell is not marked


@pytest.mark.parametrize(
    ("value", "shown_as", "text"),
    [
        (0.5, "General", "0.5"), (2, "General", "2"), (2, "0.00", "2.00"), (1 / 3, "0.000", "0.333"),
        (0.273, "0.0%", "27.3 %"), (1234.5, "#,##0.00", "1234.50"), (0.000123, "0.00E+00", "1.23e-04"),
        (1 / 3, "General", "0.3333333333"), (-0.001, "0.00", "0.00"), (0.25, '0.00" kg"', "0.25"),
        (0.25, "# ?/?", "0.25"), (3, "[Red]0.0;0", "3.0"),
    ],
)  # fmt: skip
def test_what_a_cell_shows(value: float, shown_as: str, text: str) -> None:
    from tests.inside import xlsx_spelled

    assert xlsx_spelled(value, shown_as) == text


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("=1+1", "the formula has no stored result"), (True, "TRUE, not a number"), ("#DIV/0!", "an error, #DIV/0!"),
        ("two", '"two" is no number'), (None, "the cell is empty"), ("1,5", '"1,5" is no number'),
    ],
)  # fmt: skip
def test_what_is_no_number_is_told_with_its_cell(cli: Cli, tmp_path: Path, value: Any, said: str) -> None:
    path = tmp_path / "x.xlsx"
    book(path, S=[[1, 2], [3, value], [5, 6]])
    told = cli("self", f"{path}::A1:B3")
    assert (told.status, told.out) == (2, "")
    assert f"{path}::S!B2: " in told.err
    assert said in told.err


def test_merged_cells_names_and_sheets_that_are_not_there(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "x.xlsx"
    made = book(path, Weights=[[1, 2], [3, 4]])
    assert "did you mean 'Weights'" in cli("self", f"{path}::Weight").err
    assert "did you mean 'Weights'" in cli("self", f"{path}::Weight!A1:B2").err
    made["Weights"].merge_cells("A1:B1")
    made.save(path)
    assert f"{path}::Weights!A1: cells are merged" in cli("self", path).err
    told = cli("self", "[[1]]", "-o", tmp_path / "out.xlsx")
    assert (told.status, (tmp_path / "out.xlsx").exists()) == (2, False)


def packed(**members: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


def test_hostile_workbooks_are_refused_quickly(cli: Cli, tmp_path: Path) -> None:
    whole = io.BytesIO()
    book(tmp_path / "x.xlsx", S=[[1]])
    whole.write((tmp_path / "x.xlsx").read_bytes())
    entities = b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaa">]><x>&a;</x>'
    many = openpyxl.Workbook(write_only=True)
    sheet = many.create_sheet("S")
    for row in range(300_000):
        sheet.append([row])
    stream = io.BytesIO()
    many.save(stream)
    cases = {
        "bomb": (packed(**{"xl/a.xml": b"0" * 50_000_000}), "unpacks to 50,000,000 bytes"),
        "entities": (packed(**{"xl/a.xml": entities}), "declares entities"),
        "no book": (packed(a=b"1"), "a zip archive, not .xlsx"),
        "cut": (whole.getvalue()[:900], "a zip archive that is damaged"),
        "old": (b"\xd0\xcf\x11\xe0" + b"0" * 100, "an old Excel workbook"),
        "rows": (stream.getvalue(), "unpacks to"),
    }
    for name, (data, said) in cases.items():
        path = tmp_path / f"{name}.xlsx"
        path.write_bytes(data)
        start = time.process_time()
        told = cli("self", path)
        assert (told.status, told.out) == (2, ""), name
        assert said in told.err, told.err
        assert time.process_time() - start < 3


def test_numbers_come_back_as_they_are(cli: Cli, tmp_path: Path) -> None:
    numbers = np.random.default_rng(3).normal(size=(30, 7))
    path = tmp_path / "n.xlsx"
    book(path, S=numbers.tolist())
    cli("self", path, "--show", "X", "-o", f"X={tmp_path / 'x.npy'}")
    np.testing.assert_allclose(np.load(tmp_path / "x.npy"), numbers, rtol=1e-15)
