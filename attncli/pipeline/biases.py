"""What is added to the scores: a table that is given, and biases that have a name, made from positions.

A named bias is one decorated function: it takes the indices of the scores (and what was said to its setting) and
gives a table that broadcasts to (..., H, n, m). What all of them give is added up in the step `biased`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from attncli.lazy import np
from attncli.pipeline.maskargs import score_table
from attncli.registry import Entry, Registry, Setting

if TYPE_CHECKING:
    from attncli.pipeline.state import State


@dataclass(kw_only=True, eq=False, repr=False)
class BiasEntry(Entry):
    """A bias as it is registered: function(at, indices, argument) -> table. setting: how it is asked for.

    when: of a State and what was said there, whether it is this bias that is meant.
    """

    setting: Setting
    when: Callable[[State, Any], bool] = lambda at, said: True


BIASES: Registry[BiasEntry] = Registry("bias", BiasEntry)
bias = BIASES


def named_biases(at: State) -> list[BiasEntry]:
    """The biases by name that this problem asks for."""
    said = at.config.more
    names = [(entry, entry.setting.name) for entry in BIASES]
    return [entry for entry, name in names if said.get(name) is not None and entry.when(at, said[name])]


def has_bias(at: State) -> bool:
    """Whether anything is added to the scores."""
    return "bias" in at.inputs or bool(named_biases(at))


def table_of_bias(at: State) -> Any:
    """The bias that is given, as it broadcasts to (..., H, n, m)."""
    given = at.inputs["bias"]
    table, note = score_table("bias", given, at.shape.before_behind)
    if at.shape.behind:
        table = np.concatenate([table, np.zeros((*table.shape[:-1], at.shape.behind))], axis=-1)
    at.notes += [note] if note else []
    if isinstance(given, np.ndarray) and given.size and _is_zero_or_one(given):
        at.notes.append("bias: nothing but 0 and 1, added to the scores; a mask is keep:FILE or block:FILE")
    return table


def all_biases(at: State) -> Any:
    """All biases together, as they broadcast to (..., H, n, m)."""
    tables = [at["given_bias"]] if "bias" in at.inputs else []
    for each in named_biases(at):
        tables.append(at.as_number(np.asarray(each.function(at, at["places"], at.config.more[each.setting.name]))))
    total = tables[0]
    for table in tables[1:]:
        total = total + table
    return total


def _is_zero_or_one(table: Any) -> bool:
    """Looked at part by part, so that a table in a file stays there."""
    rows = table.reshape(-1, table.shape[-1])
    parts = (rows[i : i + 256] for i in range(0, len(rows), 256))
    return all(bool(np.all((part == 0) | (part == 1))) for part in parts)
