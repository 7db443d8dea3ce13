"""The attention function, from data or matrices to weights and output, as a Trace of named steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from attncli.errors import InputError
from attncli.lazy import Array, np
from attncli.pipeline import by_hand, notes
from attncli.pipeline.config import AttentionConfig
from attncli.pipeline.heads import spread_to
from attncli.pipeline.logits import applied_scale
from attncli.pipeline.sinks import sums_to_one
from attncli.pipeline.state import State, plain_state
from attncli.pipeline.steps import STEPS
from attncli.pipeline.trace import Numbered, Trace, wanted


def attend(inputs: Mapping[str, Array], config: AttentionConfig, steps: Iterable[str] | None = None) -> Trace:
    """Compute every step by the definition, or hold only those asked for.

    inputs: arrays by their names, tokens as rows, weights in x out.
    Raises ShapeError where sizes disagree, UsageError for rules that do not fit each other, InputError for a step
    that the problem does not have.
    """
    keep = wanted(steps)
    at = told_state(inputs, config, keep or ())
    with np.errstate(all="ignore"):
        trace = trace_of(at)
    return trace if keep is None else trace.keep(keep)


def told_state(inputs: Mapping[str, Array], config: AttentionConfig, steps: Iterable[str] = ()) -> State:
    """The State of a problem, its steps computed and its notes told. Raises as `attend` does."""
    at = plain_state(inputs, config)
    with np.errstate(all="ignore"):  # NaN and infinity are told in notes, with their place
        check_steps(at, steps)
        tell(at)
    return at


def tell(at: State) -> None:
    """Compute the steps, and note what has to be told on the way."""
    shape = at.shape
    if at.config.round_steps is not None:
        at.notes.append(by_hand.note(at.config.round_steps))
    if at.has("biased") and "bias" in at.inputs:
        _ = at["given_bias"]
    if at.masks:
        at.notes += at.masks.notes
    if at.begin != "weights":
        empty = spread_to(at["empty"], (*at["weights"].shape[:-1], 1))
        if empty.any():
            tell_empty(at, empty)
        if at.config.round_steps is not None:
            by_hand.check_sums(at, empty, at.config.round_steps)
        at.notes += notes.attended(notes.spoiled_scores(at["logits"], at["counted"], empty), shape)
    else:
        at.notes += notes.given_weights(at["weights"], shape)
    if at.has("V"):
        values = at.spread("V", at.latest("value"))
        reaching = spread_to(at["contributing"], at["weights"].shape)
        at.notes += notes.attended_values(notes.spoiled_values(values, reaching), shape)
        at.notes += notes.output_weights(at.inputs)
    if at.config.masks and at.masks is None:
        at.notes.append(f"mask: the problem begins at {at.begin}, after the mask, which changes nothing")


def tell_empty(at: State, empty: Array) -> None:
    """Note the queries that see no key, (..., n, 1), or refuse them."""
    note = notes.empty_queries(empty, at.config.empty_rows, at.shape)
    if at.config.empty_rows == "error":
        raise InputError(note, hint="--empty-rows zero, nan or uniform says what such a query gets")
    at.notes.append(note)


def check_steps(at: State, names: Iterable[str]) -> None:
    """Raise InputError where the problem does not have a step, with what would bring it about."""
    missing = next((name for name in names if not at.has(name)), None)
    if missing is None:
        return
    begin, entry = at.begin, STEPS.find(missing)
    before = begin is not None and STEPS.order(missing) < STEPS.order(begin) and entry.line != "value"
    mended = f"it begins at {begin}" if before else entry.comes_of
    hint = f"it has: {', '.join(at.names(on_request=True))}"
    raise InputError(f"this problem has no step {missing!r}", hint=f"{mended}; {hint}" if mended else hint)


def trace_of(at: State, keep: tuple[str, ...] | None = None) -> Trace:
    """The Trace of a State: its steps as they are shown, those on request computed when they are read.

    keep: only these, and nothing else is computed.
    """
    names = at.names(on_request=True)
    check_steps(at, keep or ())
    visible = at["visible"] if keep is None and at.begin != "weights" else np.ones((1, 1), bool)
    now = [name for name in names if not STEPS.find(name).on_request] if keep is None else keep
    score = at.score
    return Trace(
        steps={name: displayed(at, name, at[name]) for name in now},
        score={"name": score.name, **score.parameters} if score else {"name": "given"},
        scale=applied_scale(at),
        mask=at.masks.texts if at.masks else [],
        normalizer=at.normalizer.name,
        sums_to_one=sums_to_one(at.normalizer, at.config.more),
        query_labels=Numbered("q", at.shape.n),
        key_labels=Numbered("k", at.shape.m),
        visible=None if visible.all() else displayed(at, "weights", visible),
        heads=at.layout.heads,
        notes=at.notes,
        # None of these holds the Trace: a ring would keep its arrays until the collector comes by.
        lazy={name: partial(on_request, at, name) for name in names if STEPS.find(name).on_request and keep is None},
        kept=keep,
    )


def displayed(at: State, name: str, x: Any) -> Any:
    """A step as it is shown: without the axis of heads where there are none."""
    if at.layout.heads is None and STEPS.find(name).per_head and x.ndim > 2:
        return x[..., 0, :, :]
    return x


def on_request(at: State, name: str) -> Array:
    """A step that is computed when it is asked for."""
    with np.errstate(all="ignore"):
        x: Array = at[name]
        if at.has("exp") and name != "lse" and np.isposinf(at["exp"]).any() and notes.OVERFLOW not in at.notes:
            at.notes.append(notes.OVERFLOW)
    shown: Array = displayed(at, name, x)
    return shown
