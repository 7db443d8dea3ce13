"""Data, and the queries, keys and values that are projected from it.

Letters: X n x d_x, Y m x d_y, W_Q d_x x (H d_k), W_K d_y x (G d_k), W_V d_y x (G d_v); H query heads, G key heads.
Source: Vaswani et al. 2017, arXiv:1706.03762.
"""

from __future__ import annotations

from typing import Any

from attncli.errors import ShapeError, UsageError
from attncli.pipeline.behind import with_behind
from attncli.pipeline.heads import as_matrix, project, with_past
from attncli.pipeline.state import State
from attncli.pipeline.steps import KEY_FEATURE, QUERY_FEATURE, always, step, value


def _data(name: str) -> Any:
    return lambda at: as_matrix(name, at.inputs[name])


step(
    "X",
    line="data",
    axes=QUERY_FEATURE,
    when=lambda at: "X" in at.inputs,
    formula="X",
    about="the data of the queries",
    shape="n x d_x",
    comes_of="`self X` and `cross X Y` begin at data",
)(_data("X"))
step(
    "Y",
    line="data",
    axes=KEY_FEATURE,
    when=lambda at: "Y" in at.inputs,
    formula="Y",
    about="the data of the keys and values",
    shape="m x d_y",
    comes_of="`cross X Y` has it",
)(_data("Y"))


def _source(at: State, name: str) -> str:
    """The data that Q, K or V is projected from."""
    return "Y" if name != "Q" and "Y" in at.inputs else "X"


def _projected(at: State, name: str) -> Any:
    """The matrix itself where it is given, else data W + b; past keys and values in front, others behind."""
    if name in at.inputs:
        now = as_matrix(name, at.inputs[name])
    else:
        source = _source(at, name)
        if not at.has(source):
            raise UsageError(f"{name} is missing", hint="give Q and K, or X (and Y) with weights, or scores")
        now = project(name, at[source], at.inputs.get(f"W_{name}"), at.inputs.get(f"b_{name}"))
    return now if name == "Q" else with_behind(at, name, with_earlier(at, name, now))


def with_earlier(at: State, name: str, now: Any) -> Any:
    """Keys or values of now, (..., m, G d), with the past ones of the problem in front. Raises ShapeError."""
    past = at.inputs.get(f"past_{name.lower()}") if name != "Q" else None
    if past is None:
        return now
    other = at.inputs.get("past_v" if name == "K" else "past_k")
    past = as_matrix(f"past_{name.lower()}", past)
    if other is not None:
        other = as_matrix("past", other)
        if other.shape[-2] != past.shape[-2]:
            k, v = (past, other) if name == "K" else (other, past)
            raise ShapeError(f"past_k has {k.shape[-2]} keys, but past_v has {v.shape[-2]} values")
    apart = now.ndim >= 4 or any(at.inputs[each].ndim >= 4 for each in ("Q", "K", "V", "X", "Y") if each in at.inputs)
    groups = at.config.kv_heads or at.config.heads
    return with_past(name, at.as_number(past), at.as_number(now), None if apart else groups)


def _told_projection(name: str) -> Any:
    def told(at: State) -> tuple[str, str]:
        data = _source(at, name)
        text = data
        if f"W_{name}" in at.inputs:
            weight = f"W_{name}" if at.in_columns == at.weights_turned else f"W_{name}^T"
            text = f"{weight} {data}" if at.in_columns else f"{data} {weight}"
        text += f" + b_{name}" if f"b_{name}" in at.inputs else ""
        return text, text

    return told


@step(
    "Q",
    line="query",
    axes=QUERY_FEATURE,
    when=always,
    formula="X W_Q + b_Q",
    told=_told_projection("Q"),
    about="queries, after projection and its bias",
    shape="n x H d_k",
)
def queries(at: State) -> Any:
    """X W_Q + b_Q, (..., n, H d_k)."""
    return _projected(at, "Q")


@step(
    "K",
    line="key",
    axes=KEY_FEATURE,
    when=always,
    formula="Y W_K + b_K",
    told=_told_projection("K"),
    about="keys, past ones in front",
    shape="m x H d_k",
)
def keys(at: State) -> Any:
    """Y W_K + b_K, past keys in front, (..., m, G d_k)."""
    return _projected(at, "K")


@step(
    "V",
    line="value",
    axes=KEY_FEATURE,
    when=lambda at: not {"V", "X", "Y"}.isdisjoint(at.inputs),
    formula="Y W_V + b_V",
    told=_told_projection("V"),
    about="values, past ones in front",
    shape="m x H d_v",
    comes_of="V is missing: give it",
)
def values(at: State) -> Any:
    """Y W_V + b_V, past values in front, (..., m, G d_v)."""
    return _projected(at, "V")


@value("q", "query", axes=QUERY_FEATURE, when=lambda at: at.has("Q"))
def q(at: State) -> Any:
    """Q, one matrix a head: (..., H, n, d_k)."""
    return at.split("Q", at["Q"])


@value("k", "key", axes=KEY_FEATURE, when=lambda at: at.has("K"))
def k(at: State) -> Any:
    """K, one matrix a key head: (..., G, m, d_k)."""
    return at.split("K", at["K"])


@value("v", "value", axes=KEY_FEATURE, when=lambda at: at.has("V"))
def v(at: State) -> Any:
    """V, one matrix a key head: (..., G, m, d_v)."""
    return at.split("V", at["V"])
