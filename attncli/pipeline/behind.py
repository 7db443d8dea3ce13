"""Keys that stand behind all others, in no sequence, and that every query sees: those of torch's MultiheadAttention.

Letters: n queries, m keys, d_k, d_v widths, H heads. Source: torch.nn.MultiheadAttention (add_bias_kv, add_zero_attn).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attncli.errors import ShapeError, UsageError, many
from attncli.lazy import np
from attncli.pipeline.state import State
from attncli.pipeline.steps import value
from attncli.registry import Setting

# What asks where keys stand, which these do not.
_PLACED = ("rope", "alibi", "relative", "decay")


@value("behind", "fact", setting=(
    Setting(name="bias_k", kind="matrix", metavar="MATRIX", needs=("bias_v",),
            help="a key behind all others that every query sees (torch MultiheadAttention: bias_k)"),
    Setting(name="bias_v", kind="matrix", metavar="MATRIX", needs=("bias_k",), help="the value of that key"),
    Setting(name="add_zero_attn", kind="flag", default="",
            help="a key and a value of zeros behind all others, which every query sees")))  # fmt: skip
def behind(at: State) -> list[str]:
    """The names of the keys behind the others. Raises UsageError beside what asks where keys stand."""
    more = at.config.more
    found = names_behind(more)
    placed = next((name for name in _PLACED if more.get(name) is not None), None)
    if found and placed is not None:
        raise UsageError(f"{placed} asks where keys stand, which the one of {found[0]} does not",
                         hint=f"leave {placed} out, or {found[0]}")  # fmt: skip
    return found


def names_behind(more: Mapping[str, Any]) -> list[str]:
    """What the keys behind the others come of, in their order."""
    return ["bias_k"] * (more.get("bias_k") is not None) + ["add_zero_attn"] * bool(more.get("add_zero_attn"))


def with_behind(at: State, name: str, x: Any) -> Any:
    """Keys or values, (..., m, H d), and those behind them. Raises ShapeError for another width."""
    rows = []
    for each in at["behind"]:
        given = at.config.more[f"bias_{name.lower()}"] if each == "bias_k" else np.zeros(x.shape[-1])
        row = np.ravel(np.asarray(given, dtype=np.float64))
        if row.size != x.shape[-1]:
            raise ShapeError(f"bias_{name.lower()} has {many(row.size, 'number')}, but {name} has {x.shape[-1]} "
                             "features", hint="one number a feature, of all heads side by side")  # fmt: skip
        rows.append(np.broadcast_to(at.as_number(row), (*x.shape[:-2], 1, row.size)))
    return np.concatenate([x, *rows], axis=-2) if rows else x
