"""attncli from Python: the same attention as the command line, with arrays in place of files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

from attncli.core.trace import Trace
from attncli.problem.build import make_problem
from attncli.problem.convert_object import layer_from_keywords
from attncli.problem.document import read_document
from attncli.problem.problem import Problem
from attncli.problem.reading import split_steps
from attncli.problem.values import Setting


class Options(TypedDict, total=False):
    """Everything besides the data, by the names of the command line's options; None is as if it were left out.

    A matrix is an array, nested lists, a path, or text such as "[[1, 0]]". Letters: n queries, m keys, H heads,
    d_x, d_y data widths, d_k, d_v key and value widths; leading axes are sequences, and heads where there are four.
    """

    wq: Any  # d_x x (H d_k), as weight_layout says; likewise the others
    wk: Any
    wv: Any
    wo: Any
    bq: Any  # H d_k numbers
    bk: Any
    bv: Any
    bo: Any
    past_k: Any  # p x d_k, or H x p x d_k
    past_v: Any
    bias: Any  # n x m, or one row of m
    scores: Any  # n x m, or H x n x m: the problem begins there; likewise the next four
    kernel: Any
    scaled: Any
    masked: Any
    weights: Any
    layout: str | None
    weight_layout: str | None
    heads: int | None
    kv_heads: int | None
    score: str | Mapping[str, Any] | tuple[str, Mapping[str, Any]] | Callable[..., Any] | None
    param: Mapping[str, Any] | None
    scale: float | str | None
    temperature: float | str | None
    d_k: int | None
    softcap: float | str | None
    mask: Any  # "causal", ("window", [2, 0]), {"keep": array}, a predicate, or a list of such
    mask_value: float | str | None
    empty_rows: str | None
    normalizer: str | Callable[..., Any] | None
    like: str | None
    dtype: Any
    both_ways: bool | None
    tokens: str | Sequence[str] | None
    key_tokens: str | Sequence[str] | None
    separator: str | None
    decimal: str | None
    header: str | bool | None
    labels: str | bool | None


def attend(
    Q: Any = None, K: Any = None, V: Any = None, *, steps: str | Iterable[str] | None = None, **options: Unpack[Options]
) -> Trace:
    """Attention of given queries (n x d_k), keys (m x d_k) and values (m x d_v), or from `scores=` on.

    Without V it ends at the weights. steps: which steps to hold; None means all. In the Trace, `trace["weights"]` is an
    array. Raises AttnError: UsageError for options that make no sense, ShapeError for sizes that disagree, InputError
    for what cannot be read; all that is wrong is told at once.

    A matrix is an array, nested lists, a path, or text such as "[[1, 0]]". The options, as on the command line:

    layout              "rows" or "columns": whether a token is a row or a column
    wq wk wv wo         weight matrices of `self_attention` and `cross_attention`; wo of each; bq bk bv bo their biases
    weight_layout       "in-out" (X W) or "out-in" (as framework layers store them)
    heads kv_heads      how many heads Q, K and V are split into
    past_k past_v       keys and values put in front of K and V
    scores kernel scaled masked weights    a step to begin at, in place of Q and K; d_k for its scale
    score               a name; ("gaussian", {"sigma": 2}) (or param={"sigma": 2}); or
                        score(q, k, **parameters) -> (..., n, m), with q (..., n, d_q) and k (..., m, d_k)
    scale temperature   S multiplies the scores; T divides them, on top of the default scale
    softcap bias        c tanh(s / c); what is added to the scores, n x m
    mask                "causal", ("window", [2, 0]), {"keep": array}, {"block": array}, a list of such; or
                        mask(at) -> booleans (..., n, m), True where a key is visible; at.query, at.key, at.position,
                        at.head and at.sequence are arrays of indices from 0, as in lambda at: at.key <= at.position
    mask_value          what a hidden score becomes: -inf, or a number
    empty_rows          "zero", "nan", "uniform" or "error": what a query gets that sees no key
    normalizer          a name, or normalizer(logits, visible) -> weights, all of them (..., n, m)
    like                a system whose rules are the defaults: "torch-sdpa", "keras", ...
    dtype               "float64" or "float32": what is computed in
    both_ways           also normalize for each key over the queries (cross-attention)
    tokens key_tokens   labels
    separator decimal header labels    how text files are read

    `attncli list` names the scores, normalizers, masks and systems.
    """
    return _solve("attend", steps, {"Q": Q, "K": K, "V": V, **options})


def self_attention(X: Any = None, *, steps: str | Iterable[str] | None = None, **options: Unpack[Options]) -> Trace:
    """Self-attention: Q, K and V all from X (n x d_x), through `wq`, `wk` and `wv` where they are given.

    Options (with the signatures of callables), results and errors are those of `attend`: see help(attend).
    """
    return _solve("self", steps, {"X": X, **options})


def cross_attention(
    X: Any = None, Y: Any = None, *, steps: str | Iterable[str] | None = None, **options: Unpack[Options]
) -> Trace:
    """Cross-attention: Q from X (n x d_x), K and V from Y (m x d_y), through `wq`, `wk` and `wv` where they are given.

    Options (with the signatures of callables), results and errors are those of `attend`: see help(attend).
    """
    return _solve("cross", steps, {"X": X, "Y": Y, **options})


def load(path: str | Path) -> Problem:
    """The problem of a file, YAML or JSON. Raises all that is wrong in it at once, each with its place."""
    return read_document(path).problem()


def run(problem: str | Path | Problem, *, steps: str | Iterable[str] | None = None) -> Trace:
    """The Trace of a problem or of a problem file. Raises as `load` and `attend` do."""
    return (problem if isinstance(problem, Problem) else load(problem)).solve(_names(steps))


def _solve(attention: str, steps: str | Iterable[str] | None, keywords: Mapping[str, Any]) -> Trace:
    layer = layer_from_keywords(keywords)
    layer.settings["attention"] = Setting(attention)
    return make_problem(layer).solve(_names(steps))


def _names(steps: str | Iterable[str] | None) -> Iterable[str] | None:
    """A text is a comma list or `all`, as on the command line, not its letters."""
    if not isinstance(steps, str):
        return steps
    names = split_steps(steps, "steps")
    return None if "all" in names else names
