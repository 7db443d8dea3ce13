"""A registry as `attncli list` shows it."""

from __future__ import annotations

from attncli.registry import Registry
from attncli.report.listing import listing, registry_rows
from attncli.report.look import Look


def some_registry() -> Registry:
    registry = Registry("thing")

    @registry("first", formula="a + b", source="Someone 1999")
    def first(*, a: float, b: float = 1.0, c: float | None = None) -> None:
        """Add them.

        More of it.
        """

    @registry("second")
    def second() -> None: ...

    return registry


def test_listing_of_a_registry() -> None:
    assert list(listing(registry_rows(some_registry()), Look())) == [
        "name    parameters              formula  source        help",
        "first   a, b=1.0, c (optional)  a + b    Someone 1999  Add them.",
        "second",
    ]


def test_listing_in_a_narrow_terminal() -> None:
    assert list(listing(registry_rows(some_registry()), Look(width=30))) == [
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
