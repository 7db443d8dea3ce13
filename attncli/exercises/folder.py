"""A folder of variants: `01.yaml` to fill in, its key in `keys`, a sheet where one is asked for, and who has which."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from attncli.errors import InputError, Place, UsageError, many
from attncli.exercises.sheets import SHEETS, write_sheet
from attncli.exercises.variants import Difficulty, Wish, variants
from attncli.problem.document import read_document
from attncli.problem.formats.base import open_source
from attncli.problem.formats.files import Content, check_all, write_all

MOST = 10_000


@dataclass(frozen=True)
class Order:
    """What is asked for: variants of a problem, how many, from which seed, keys of how many places, for whom."""

    problem: str
    count: int | None
    seed: int
    places: int
    names: list[str] | None
    sheet: str | None
    ties: bool


def names_of(file: str) -> list[str]:
    """The names of a file, one a line. Raises InputError where there are none."""
    try:
        lines = open_source(file).read().decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise InputError("this is no text in UTF-8", place=Place(file), hint="a name a line") from None
    names = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    if not names:
        raise InputError("there is no name in it", place=Place(file), hint="a name a line")
    return names


def exercise_files(order: Order, folder: str, *, force: bool) -> list[str]:
    """Write the files, all or none; gives notes. Raises UsageError for what cannot be, InputError as reading."""
    if order.sheet is not None:
        SHEETS.find(order.sheet, place="--sheet")
    count = _count(order)
    problem = read_document(order.problem).problem()
    width = max(2, len(str(count)))
    numbers = [f"{number:0{width}}" for number in range(1, count + 1)]
    if Path(folder, "keys").is_dir():  # what is there already is told before anything is looked for
        check_all([os.path.join(folder, *parts, f"{each}.yaml") for each in numbers for parts in ((), ("keys",))],
                  force=force)  # fmt: skip
    files: dict[str, Content] = {}
    work: list[Difficulty] = []
    title = problem.title or "Exercise"
    for number, found in zip(
        numbers, variants(problem, count, order.seed, Wish(order.places, order.ties)), strict=True
    ):
        key = replace(found.key, problem=replace(found.key.problem, title=f"{title} {number}"))
        files[os.path.join(folder, f"{number}.yaml")] = key.exercise().encode()
        files[os.path.join(folder, "keys", f"{number}.yaml")] = key.text().encode()
        if order.sheet is not None:
            files[os.path.join(folder, f"{number}.{order.sheet}")] = write_sheet(key, order.sheet)
        work.append(found.difficulty)
    if order.names is not None:
        lines = [f"{number}  {name}" for number, name in zip(numbers, order.names, strict=False)]
        files[os.path.join(folder, "names.txt")] = ("\n".join(lines) + "\n").encode()
    _write(files, folder, force=force)
    return [f"wrote {many(count, 'variant')} into {folder}, keys into {os.path.join(folder, 'keys')}", _told(work)]


def _count(order: Order) -> int:
    count = order.count if order.count is not None else len(order.names or [""])
    if not 1 <= count <= MOST:
        raise UsageError(f"there cannot be {count} variants", place="--variants", hint=f"1 to {MOST}")
    if not 0 <= order.places <= 6:
        raise UsageError(f"a person does not round to {order.places} places", place="--places", hint="0 to 6")
    if order.names is not None and len(order.names) > count:
        raise UsageError(
            f"there are {len(order.names)} names, but {many(count, 'variant')}", place="--names",
            hint=f"--variants {len(order.names)}",
        )  # fmt: skip
    return count


def _write(files: Mapping[str, Content], folder: str, *, force: bool) -> None:
    Path(folder, "keys").mkdir(parents=True, exist_ok=True)
    write_all(dict(files), force=force)


def _told(work: list[Difficulty]) -> str:
    products, digits = [each.products for each in work], [each.digits for each in work]
    return f"each has {_range(products)} products and {_range(digits)} digits to write"


def _range(numbers: list[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low} to {high}"
