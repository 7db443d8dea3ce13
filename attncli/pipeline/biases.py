"""What is added to the scores: a table that is given, and biases that have a name, made from positions.

A named bias is one decorated function: it takes the indices of the scores (and what was said to its setting) and
gives a table that broadcasts to (..., H, n, m). What all of them give is added up in the step `biased`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from attncli.lazy import np
from attncli.pipeline.maskargs import score_table
from attncli.registry import Entry, Registry, Setting

if TYPE_CHECKING:
    from attncli.pipeline.state import State


@dataclass(kw_only=True, eq=False)
class BiasEntry(Entry):
    """A bias as it is registered: function(at, indices, argument) -> table. setting: how it is asked for."""

    setting: Setting


BIASES: Registry[BiasEntry] = Registry("bias", BiasEntry)
bias = BIASES


def named_biases(at: State) -> list[BiasEntry]:
    """The biases by name that this problem asks for."""
    return [entry for entry in BIASES if at.config.more.get(entry.setting.name) is not None]


def has_bias(at: State) -> bool:
    """Whether anything is added to the scores."""
    return "bias" in at.inputs or bool(named_biases(at))


def table_of_biases(at: State) -> Any:
    """All biases together, as they broadcast to (..., H, n, m)."""
    tables: list[Any] = []
    if "bias" in at.inputs:
        given = at.inputs["bias"]
        table, note = score_table("bias", given, at.shape)
        at.notes += [note] if note else []
        if isinstance(given, np.ndarray) and given.size and _is_zero_or_one(given):
            at.notes.append("bias: nothing but 0 and 1, added to the scores; a mask is keep:FILE or block:FILE")
        tables.append(table)
    named = named_biases(at)
    if named:
        indices = at.shape.indices(at.config.alignment)
        tables += [at.as_number(np.asarray(each.function(at, indices, at.config.more[each.setting.name]))) for each in named]
    total = tables[0]
    for table in tables[1:]:
        total = total + table
    return total


def _is_zero_or_one(table: Any) -> bool:
    """Looked at part by part, so that a table in a file stays there."""
    rows = table.reshape(-1, table.shape[-1])
    parts = (rows[i : i + 256] for i in range(0, len(rows), 256))
    return all(bool(np.all((part == 0) | (part == 1))) for part in parts)
