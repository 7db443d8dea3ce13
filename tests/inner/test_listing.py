"""Small tables of text, as `attncli list` shows them."""

from __future__ import annotations

from attncli.report.listing import listing
from attncli.report.look import Look

ROWS = [
    {"name": "first", "parameters": "a, b=1.0, c (optional)", "formula": "a + b", "source": "Someone 1999",
     "help": "Add them."},
    {"name": "second", "parameters": "", "formula": "", "source": "", "help": ""},
]  # fmt: skip


def test_listing_of_a_registry() -> None:
    assert list(listing(ROWS, Look())) == [
        "name    parameters              formula  source        help",
        "first   a, b=1.0, c (optional)  a + b    Someone 1999  Add them.",
        "second",
    ]


def test_listing_in_a_narrow_terminal() -> None:
    assert list(listing(ROWS, Look(width=30))) == [
        "first",
        "    parameters: a, b=1.0, c",
        "    (optional)",
        "    formula: a + b",
        "    source: Someone 1999",
        "    help: Add them.",
        "",
        "second",
    ]


def test_listing_of_nothing() -> None:
    assert list(listing([], Look())) == []
