"""Steps of decoding as they are computed: a line of JSON, or a few lines of text each."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

from attncli.errors import InputError
from attncli.lazy import Array, np
from attncli.problem.cache import Row
from attncli.problem.decode import Decoded
from attncli.problem.reading import split_stage
from attncli.report.look import Look, pad, widths
from attncli.report.numbers import spell


def json_line(decoded: Decoded) -> str:
    """One object: step, query, keys, weights, output of the last stage, and under "stages" those of each.

    Infinity and NaN are strings; weights and output have the head axes in front, where there are any.
    """
    told = {"step": decoded.step, "query": decoded.last.query, **_told(decoded.last)}
    if len(decoded.rows) > 1:
        told["stages"] = {name: _told(row) for name, row in decoded.rows.items()}
    return json.dumps(told, ensure_ascii=False, allow_nan=False)


def lines(decoded: Decoded, look: Look, show: Sequence[str] = ()) -> Iterator[str]:
    """The step's number and query, then for each stage the keys that exist with their weights, and the output.

    show: which of them, such as weights, weights[2] or decoder.output; where that is empty, all.
    """
    yield f"step {decoded.step}: {look.label(decoded.last.query)}"
    asked = [split_stage(address.replace(" ", "")) for address in show]
    for name, row in decoded.rows.items():
        own = {step for stage, step in asked if stage == name or (stage is None and row is decoded.last)}
        if asked and not own:
            continue
        heading = f"  {look.label(name)}" if name else ""
        yield from [heading] if heading else []
        yield from (f"{'  ' if heading else ''}  {line}" for line in _table(row, look, own))


def _told(row: Row) -> dict[str, Any]:
    output = {} if row.output is None else {"output": _plain(row.output.tolist())}
    return {"keys": row.keys, "weights": _plain(row.weights.tolist()), **output}


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value if math.isfinite(value) else str(value)


def _table(row: Row, look: Look, asked: set[str]) -> Iterator[str]:
    """keys, weights and output in columns, or those asked for; a line of weights for each head."""
    names, cells = ["keys"], [[look.label(key) for key in row.keys]]
    visible = np.broadcast_to(row.visible, row.weights.shape)
    for index in np.ndindex(*row.weights.shape[:-1]):
        shown = _spelled(row.weights[index], look)
        hidden = ~visible[index] & (np.abs(row.weights[index]) < 0.5 * 10.0**-look.precision)
        names.append(f"weights{_at(index)}")
        cells.append([look.hidden if gone else cell for cell, gone in zip(shown, hidden, strict=True)])
    if row.output is not None:
        for index in np.ndindex(*row.output.shape[:-1]):
            names.append(f"output{_at(index)}")
            cells.append(_spelled(row.output[index], look))
    if asked:
        odd = next(
            (step for step in sorted(asked) if step not in {each for name in names for each in _both(name)}), None
        )
        if odd is not None:
            raise InputError(
                f"a step of this problem has no {odd}", place="--show", hint=f"it has: {', '.join(names[1:])}"
            )
        kept = [i for i, name in enumerate(names) if i == 0 or asked & _both(name)]
        names, cells = [names[i] for i in kept], [cells[i] for i in kept]
    width = max(widths(names))
    columns = max(map(len, cells))
    sizes = [max(widths([line[j] for line in cells if j < len(line)])) for j in range(columns)]
    for name, line in zip(names, cells, strict=True):
        padded = (pad(cell, size, right=True) for cell, size in zip(line, sizes, strict=False))
        yield "  ".join([pad(name, width), *padded]).rstrip()


def _both(name: str) -> set[str]:
    """`weights[2]` by itself, and as a part of `weights`."""
    return {name, name.partition("[")[0]}


def _spelled(numbers: Array, look: Look) -> list[str]:
    return spell(numbers[None, :], look.precision, look.rounding)[0] if numbers.size else []


def _at(index: tuple[int, ...]) -> str:
    return f"[{','.join(str(i + 1) for i in index)}]" if index else ""
