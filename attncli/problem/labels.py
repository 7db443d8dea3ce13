"""Who the queries and keys are: labels from the user, from labelled files, or q1 k1 ..."""

from __future__ import annotations

from attncli.errors import AttnError, ShapeError
from attncli.pipeline.behind import names_behind
from attncli.pipeline.trace import Trace
from attncli.problem.matrix import Matrix
from attncli.problem.problem import Problem
from attncli.problem.values import StageRef


def set_labels(problem: Problem, trace: Trace) -> None:
    """Give the Trace its labels. Raises ShapeError where their number is not that of the queries or keys."""
    behind = names_behind(problem.more)
    n, m = len(trace.query_labels), len(trace.key_labels) - len(behind)
    past = past_count(problem)
    queries, keys = query_labels(problem, n), key_labels(problem, n, m, past)
    trace.labelled = queries is not None or keys is not None
    trace.query_labels = queries or trace.query_labels
    if keys is None and (past or behind):
        keys = [f"k{j + 1}" for j in range(m - past)]
    if keys is not None:
        trace.key_labels = (keys if len(keys) == m else [f"past {j + 1}" for j in range(past)] + keys) + behind


def given_labels(problem: Problem) -> tuple[list[str] | None, list[str] | None]:
    """The labels of queries and of keys that somebody gave; of keys None too where the queries' are theirs."""
    if any(isinstance(matrix, StageRef) for matrix in problem.inputs.values()):
        return problem.tokens, problem.key_tokens
    arrays, past = problem.arrays(), past_count(problem)
    if problem.begins:
        n, m = arrays[problem.begins].shape[-2:]
    else:
        n = arrays["Q" if "Q" in arrays else "X"].shape[-2]
        m = past + next(arrays[name] for name in ("K", "Y", "X") if name in arrays).shape[-2]
    queries, keys = query_labels(problem, n), key_labels(problem, n, m, past)
    return queries, None if problem.attention == "self" and keys == queries else keys


def past_count(problem: Problem) -> int:
    """How many keys of earlier steps stand in front."""
    past = problem.inputs.get("past_k", problem.inputs.get("past_v"))
    if not isinstance(past, Matrix) or past.array.ndim == 0:
        return 0
    if past.array.ndim == 1:
        return 1
    return int(past.array.shape[-1 if problem.layout == "columns" else -2])


def label_errors(problem: Problem, n: int | None, m: int | None) -> list[AttnError]:
    """Whether tokens and key_tokens are as many as queries and keys; a size that is not known yet is None."""
    errors: list[AttnError] = []
    try:
        if n is not None:
            query_labels(problem, n)
    except ShapeError as error:
        errors.append(error)
    try:
        if m is not None:
            key_labels(problem, m if n is None else n, m, past_count(problem))
    except ShapeError as error:
        errors.append(error)
    return errors


def query_labels(problem: Problem, n: int) -> list[str] | None:
    """The n labels of the queries, or None where nobody gave any."""
    if problem.tokens is not None:
        if len(problem.tokens) != n:
            raise _miscounted(problem, "tokens", problem.tokens, f"{n} queries")
        return problem.tokens
    return _from_files(problem, ("X", "Q"), n) or _of_scores(problem, n, queries=True)


def key_labels(problem: Problem, n: int, m: int, past: int) -> list[str] | None:
    """The labels of all m keys, or of the m - past new ones; None where nobody gave any."""
    if problem.key_tokens is not None:
        if len(problem.key_tokens) not in (m, m - past):
            raise _miscounted(problem, "key_tokens", problem.key_tokens, f"{m} keys" + f" ({past} past)" * (past > 0))
        return problem.key_tokens
    if problem.attention == "self" and problem.tokens is not None and len(problem.tokens) == n == m - past:
        return problem.tokens
    names = ("K", "X", "V") if problem.attention == "self" else ("K", "Y", "V")
    return _from_files(problem, names, m - past) or _of_scores(problem, m, queries=False)


def _from_files(problem: Problem, names: tuple[str, ...], count: int) -> list[str] | None:
    for name in names:
        matrix = problem.inputs.get(name)
        if isinstance(matrix, Matrix):
            labels = matrix.column_labels if problem.layout == "columns" else matrix.row_labels
            if labels is not None and len(labels) == count:
                return labels
    return None


def _of_scores(problem: Problem, count: int, *, queries: bool) -> list[str] | None:
    matrix = problem.inputs.get(problem.begins or "")
    if not isinstance(matrix, Matrix):
        return None
    labels = matrix.row_labels if queries == (problem.layout == "rows") else matrix.column_labels
    return labels if labels is not None and len(labels) == count else None


def _miscounted(problem: Problem, name: str, labels: list[str], wanted: str) -> ShapeError:
    return ShapeError(
        f"{name} has {len(labels)} label{'s' * (len(labels) != 1)}, but there are {wanted}",
        place=problem.places.get(name),
        hint="one label each; words are split at blanks (at commas where there is no blank)",
    )
