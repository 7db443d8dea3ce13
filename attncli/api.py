"""attncli from Python: the same attention as the command line, with arrays in place of files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from attncli.errors import AttnError, UsageError
from attncli.pipeline.trace import Trace
from attncli.problem.build import make_problem
from attncli.problem.convert_object import layer_from_keywords
from attncli.problem.document import Document, read_document
from attncli.problem.mapping import placed_by_key, read_mapping
from attncli.problem.problem import Problem
from attncli.problem.reading import split_steps
from attncli.problem.values import Setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from attncli.verify.diff import Difference
    from attncli.verify.verdicts import CheckResult
    from attncli.working.explanation import Explanation


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
    wqkv: Any  # E x 3E, or 3E x E as weight_layout says
    bqkv: Any
    past_k: Any  # p x d_k, or H x p x d_k
    past_v: Any
    bias: Any  # n x m, or one row of m
    rope: Any  # theta, or "10000:neighbours"
    positions: Any
    key_positions: Any
    past_turned: bool | None
    qk_norm: str | None
    q_weight: Any
    k_weight: Any
    q_shift: Any
    k_shift: Any
    eps: float | None
    alibi: Any
    sink: Any
    decay: Any
    bias_k: Any
    bias_v: Any
    add_zero_attn: bool | None
    average_heads: bool | None
    relative: Any
    scores: Any  # n x m, or H x n x m: the problem begins there; likewise the next four
    kernel: Any
    scaled: Any
    masked: Any
    weights: Any
    layout: str | None
    axes: str | None
    weight_layout: str | None
    heads: int | None
    kv_heads: int | None
    score: str | Mapping[str, Any] | tuple[str, Mapping[str, Any]] | Callable[..., Any] | None
    param: Mapping[str, Any] | None
    scale: Any
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
    round_steps: int | None
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
    wqkv bqkv           packed weights and biases: E x 3E or 3E x E, or (H + 2G) d wide for grouped heads; wq wk wv wo
                        may be kernels of three axes (E x H x d, H x d x E), which say how many heads there are
    axes                the order of the axes of Q, K, V, past keys and output: "bthd", "tbd", "thd" ...
    weight_layout       "in-out" (X W) or "out-in" (as framework layers store them)
    heads kv_heads      how many heads Q, K and V are split into
    past_k past_v       keys and values put in front of K and V
    scores kernel scaled masked weights    a step to begin at, in place of Q and K; d_k for its scale
    score               a name; ("gaussian", {"sigma": 2}) (or param={"sigma": 2}); or
                        score(q, k, **parameters) -> (..., n, m), with q (..., n, d_q) and k (..., m, d_k)
    rope positions key_positions past_turned    rotary positions: theta, or "10000:neighbours"; where queries and keys
                        stand; whether past keys are turned already
    qk_norm q_weight k_weight q_shift k_shift eps    "l2", "rms", "layer" (":all"), with weights and shifts
    alibi relative      "published", "geometric" or slopes; a table by distance
    sink                a logit in the denominator of each row, one or one a head
    decay               gamma: the scores times gamma^|i - j|; one, one a head, or "retention"
    bias_k bias_v add_zero_attn    a key and its value, and one of zeros, behind all others, seen by every query
    average_heads       also the mean of the weights over the heads, the step `average`
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
    round_steps         places to which each step is rounded before the next is made of it
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


def load(problem: str | Path | Mapping[str, Any]) -> Problem:
    """The problem of a file, YAML or JSON, or of a dict with its keys. Raises all that is wrong in it at once."""
    with placed_by_key(problem):
        return _document(problem).problem()


def run(problem: str | Path | Mapping[str, Any] | Problem, *, steps: str | Iterable[str] | None = None) -> Trace:
    """The Trace of a problem, of a problem file, or of a dict with its keys. Raises as `load` and `attend` do."""
    with placed_by_key(problem):
        return _problem(problem).solve(_names(steps))


def check(*problems: Any) -> Any:
    """Mark the numbers calculated by hand that a problem holds under `expect`.

    A problem is a path, a dict with the keys of a problem file, or what `load` gives. The result has a `verdict`
    (agrees, rounded or wrong), `steps` with the cells that do not agree, `first_wrong` (its step and its cell, or
    None), `diagnosis` (the mistakes that give these numbers), `notes`, and `to_dict()`, which is the JSON of the
    command line. Of several problems, a list of them, or a file that holds several, the results are a list; there,
    one that cannot be read has the verdict `unreadable` and a `reason`. Raises as `load` and `run` do.
    """
    from attncli.verify.verdicts import CheckResult

    if len(problems) == 1 and not isinstance(problems[0], list | tuple):
        results = _marked(problems[0])
        return results[0] if len(results) == 1 else results
    found = []
    for problem in problems[0] if len(problems) == 1 else problems:
        try:
            found += _marked(problem)
        except AttnError as error:
            file = str(problem) if isinstance(problem, str | Path) else None
            found.append(CheckResult.unreadable(file, error))
    return found


def explain(
    problem: str | Path | Mapping[str, Any] | Problem,
    query: str | int,
    key: str | int | None = None,
    *,
    head: int | None = None,
) -> Explained:
    """The arithmetic behind the weight of a key for a query; without a key, behind the query's row up to the output.

    query, key: labels, or positions counted from 1; query "all" for each after the other. head: only this one, from 1.
    Raises as `load` and `run` do, and InputError for a token or a head that is not there.
    """
    from attncli.working.explanation import explain as explained

    with placed_by_key(problem):
        return Explained(explained(_problem(problem), str(query), None if key is None else str(key), head))


class Explained:
    """An explanation: `str()` is its text, `text()` the same in other forms, `notes` what was assumed."""

    def __init__(self, explanation: Explanation) -> None:
        self._explanation = explanation
        self.notes = explanation.notes

    def text(
        self,
        format: str = "text",
        *,
        precision: int = 4,
        rounding: str = "half-even",
        exact: bool = False,
        round_steps: int | None = None,
    ) -> str:
        """The explanation as text, markdown or latex.

        exact: keep roots, fractions and e. round_steps: what a person gets who rounds each step to so many places.
        """
        from attncli.report.explanation import write
        from attncli.report.look import Look

        kept = None
        if exact:
            from attncli.working.exact import Exact

            kept = Exact(self._explanation.problem)
        look = Look(precision=precision, rounding=rounding)
        rounded = self._explanation.problem.round_steps if round_steps is None else round_steps
        return "\n".join(write(self._explanation, format, look, exact=kept, rounded=rounded))

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<explanation of {self.text().partition(chr(10))[0]}>"


def diff(
    a: Any, b: Any, *, atol: float | None = None, rtol: float | None = None, ulp: float | None = None
) -> Difference:
    """How two arrays differ: shapes, the largest errors, ulp, the cells that are farthest apart.

    `within` says whether every number is equal, within atol + rtol |b|, or within ulp. An array is one, nested lists,
    or a path.
    """
    from attncli.problem.convert_object import matrix_from_object
    from attncli.problem.reading import Reading
    from attncli.verify.diff import Allowed, compare

    first, second = (matrix_from_object(name, value, Reading()) for name, value in (("a", a), ("b", b)))
    return compare(first, second, Allowed(atol, rtol, ulp))


def assert_close(array: Any, problem: Any, step: str = "output") -> None:
    """Raise AssertionError, with the mistake if it has a name, where an array is not the step of a problem.

    problem: a path, a dict with the keys of a problem file, what `load` gives, or a Trace. The tolerance is that of
    the array's type, as in `attncli check`.
    """
    from attncli.problem.convert_object import matrix_from_object
    from attncli.problem.reading import Reading
    from attncli.problem.values import Hand
    from attncli.report.look import Look
    from attncli.report.marking import conclusion
    from attncli.verify.check import check as marked

    with placed_by_key(problem):
        whole = _problem(problem.problem if isinstance(problem, Trace) else problem)
        result = marked(replace(whole, expect={step: Hand(matrix_from_object(step, array, Reading()), place="array")}))
    if result.verdict == "wrong":
        raise AssertionError("\n".join([*conclusion(result, Look()), *result.notes]))


def _document(problem: str | Path | Mapping[str, Any]) -> Document:
    if isinstance(problem, Mapping):
        return read_mapping(problem)
    return read_document(problem)


def _problem(problem: Any) -> Problem:
    if problem is None:
        raise UsageError("this Trace does not know its problem any more", hint="give the problem itself")
    return problem if isinstance(problem, Problem) else _document(problem).problem()


def _marked(problem: Any) -> list[CheckResult]:
    """The marks of all that a file holds: its problem, its problems, or those of its stages that a hand calculated."""
    from attncli.problem.stages import read_stages
    from attncli.verify.check import check as marked

    if isinstance(problem, Problem):
        return [marked(problem)]
    with placed_by_key(problem):
        document = _document(problem)
        if document.kind != "stages":
            return [marked(each) for each in document.problems()]
        stages = read_stages(document)
        solved = [stage.problem for stage in stages.solve()]
        return [marked(each) for each in solved if each.expect] or [marked(solved[-1])]


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


def _drawn(trace: Trace, format: str, steps: Sequence[str] = ()) -> str:
    """The tables of a Trace, and its notes below them, as a notebook shows them."""
    from attncli.report.look import Look
    from attncli.report.renderers import RENDERERS, default_steps, render, told

    entry = RENDERERS.find(format)
    tables = "".join(render(trace, steps or default_steps(trace, entry.shows), Look(), format))
    notes = () if entry.data else trace.notes
    return tables + ("\n" + "".join(told((f"note: {note}" for note in notes), format)) if notes else "")


def _plotted(
    trace: Trace,
    step: str,
    title: str | None,
    cmap: str | None,
    limits: tuple[float, float] | None,
    size: tuple[float, float] | None,
    precision: int,
) -> Figure:
    from attncli.report.look import Look
    from attncli.report.panels import picture_of
    from attncli.report.picture import figure

    known = getattr(trace.problem, "title", None)
    made = picture_of(trace, step, Look(precision=precision), title or known, {"cmap": cmap})
    made.limits, made.size = limits, size
    return figure(made)


Trace.drawn = staticmethod(_drawn)
Trace.plotted = staticmethod(_plotted)
