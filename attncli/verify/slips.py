"""Slips in single cells: a product, a sign or a term in one sum, two cells or rows exchanged.

Entries as in `mistakes.py`. In the wrong step itself, only the wrong cells are looked at; a slip in an unwritten
step may be in any of its cells, and all of them are tried as one stack.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

from attncli.lazy import Array, np
from attncli.pipeline.heads import join_heads
from attncli.pipeline.steps import NAMED_STEPS
from attncli.verify.given import Given
from attncli.verify.mistakes import Change, Changes, mistake, number

_PRODUCTS = ("Q", "K", "V", "scores", "heads", "output")
_CELLS = tuple(
    name
    for name, entry in NAMED_STEPS.items()
    if entry.line not in ("data", "back") and "feature" not in entry.axes[:1] and name not in ("sum", "lse")
)
_UNLIKE = ("Q", "K", "V", "scores", "weights")
_MOST = 3000  # slips that are tried in one unwritten step


@dataclass(frozen=True)
class Product:
    """A step that is left right (+ a constant): left (R, ..., n, t), right (..., t, m), names of its terms."""

    left: Array
    right: Array
    terms: list[str]


def product_of(given: Given, step: str) -> Product | None:
    """The matrix product that a step is; None where it is none."""
    inputs, frame = given.frame.inputs, given.frame
    if step in ("Q", "K", "V"):
        weight, source = inputs.get(f"W_{step}"), frame.source(step)
        if weight is None or source not in given or f"past_{step.lower()}" in inputs or not frame.joined:
            return None
        return Product(given[source], weight, _numbered("feature", len(weight)))
    if step == "scores":
        if given.begin is not None or "q" not in given or not frame.score.dots:
            return None
        return Product(given["q"], given["k"].mT, _numbered("feature", given["k"].shape[-1]))
    if step == "heads":
        return Product(given["weights"], given["v"], list(given.exact.key_labels))
    if "W_O" not in inputs and given.heads == 1:
        return Product(given["weights"][..., 0, :, :], given["v"][..., 0, :, :], list(given.exact.key_labels))
    if "W_O" in inputs and "heads" in given:
        return Product(join_heads(given["heads"]), inputs["W_O"], _numbered("feature", len(inputs["W_O"])))
    return None


def _numbered(what: str, count: int) -> list[str]:
    return [f"{what} {i + 1}" for i in range(count)]


Differ = Callable[[Array, Array], Array]  # what a slip in the term a x b adds to the sum


def _in_terms(given: Given, differ: Differ, text: Callable[[float, float], str]) -> Changes:
    """The slip in each term of each cell: of the one wrong cell, or of all cells of an unwritten step."""
    for step in _tried(given, _PRODUCTS):
        product = product_of(given, step)
        if product is None:
            continue
        # (R, ..., n, m, t)
        a, b = np.broadcast_arrays(product.left[..., :, None, :], product.right.mT[..., None, :, :])
        added = differ(a, b)
        places = _wrong_only(given, step, np.argwhere(added[0]))
        if not 0 < len(places) <= _MOST:
            continue
        at = (slice(None), *places.T)
        stack = _with_deltas(given[step], places[:, :-1], added[at])
        yield Change({step: stack}, _teller(given, step, places, a[0], b[0], product, text), step, step == given.target)


def _wrong_only(given: Given, step: str, places: Array) -> Array:
    """Of places (L, axes after R, and more) those in the one wrong cell, if it is the wrong step; all of another."""
    if step != given.target:
        return places
    wrong = np.argwhere(given.wrong)
    return places[(places[:, : wrong.shape[1]] == wrong[0]).all(axis=1)] if len(wrong) == 1 else places[:0]


def _tried(given: Given, steps: tuple[str, ...]) -> list[str]:
    """Of unwritten steps only those that are no copies of each other: a scale or a mask moves no slip."""
    unwritten = given.open.intersection(_UNLIKE) if given.deep else ()
    return [step for step in steps if step in given and (step == given.target or step in unwritten)]


def _with_deltas(array: Array, places: Array, deltas: Array) -> Array:
    """A stack (L, R, ...) of the array, each with one cell changed. places: (L, axes after R)   deltas: (R, L)"""
    stack = np.repeat(array[None], len(places), axis=0)
    if stack.shape[1] < len(deltas):
        stack = np.repeat(stack, len(deltas), axis=1)
    stack[(np.arange(len(places)), slice(None), *places.T)] += deltas.T
    return stack


def _teller(
    given: Given, step: str, places: Array, a: Array, b: Array, product: Product, text: Callable[[float, float], str]
) -> Callable[[int], str]:
    def tell(index: int) -> str:
        place = tuple(places[index])
        what = text(float(a[place]), float(b[place]))
        return f"{step}, {cell_name(given, step, place[:-1])}: {what} ({product.terms[place[-1]]})"

    return tell


def cell_name(given: Given, step: str, cell: tuple[int, ...]) -> str:
    """`q1, k2`, before it the head or sequence where there are any."""
    rows, columns = given.labels(step)
    names = given.exact.leading_names(step)
    leading = cell[:-2]
    if given.exact.heads is None and given.frame.axes(step) == given.frame.sequences + 3:
        leading = leading[:-1]
    told = [f"{name} {i + 1}" for name, i in zip(names, leading[len(leading) - len(names) :], strict=True)]
    column = columns[cell[-1]]
    return ", ".join([*told, rows[cell[-2]], f"feature {column}" if "feature" in given.exact.axes(step) else column])


def _times(a: float, b: float) -> str:
    left, right = number(a), number(b)
    return f"{left} x {f'({right})' if b < 0 else right}"


@mistake("term-left-out", at=_PRODUCTS, simplicity=3, local=True)
def term_left_out(given: Given) -> Changes:
    """One term of a sum was left out."""
    yield from _in_terms(given, lambda a, b: -a * b, lambda a, b: f"the term {_times(a, b)} was left out")
    yield from _left_out_of_sum(given)


@mistake("product-sign", at=_PRODUCTS, simplicity=4, local=True)
def product_sign(given: Given) -> Changes:
    """One product was added with the wrong sign."""
    yield from _in_terms(given, lambda a, b: -2 * a * b, lambda a, b: f"the product {_times(a, b)} has the wrong sign")


@mistake("product-wrong", at=_PRODUCTS, simplicity=5, local=True)
def product_wrong(given: Given) -> Changes:
    """One product was calculated wrongly: added in place of multiplied, or counted twice."""
    yield from _in_terms(
        given,
        lambda a, b: a + b - a * b,
        lambda a, b: f"the product {_times(a, b)} was taken as {number(a + b)}, which is the sum",
    )
    yield from _in_terms(given, lambda a, b: a * b, lambda a, b: f"the product {_times(a, b)} was counted twice")


def _left_out_of_sum(given: Given) -> Changes:
    """One exponential that is missing in the sum of its row."""
    if "sum" not in given.open or not given.deep or not given.exponentials or given.begin == "weights":
        return
    exponentials = given["exp"]
    cells = np.argwhere(exponentials[0] > 0)
    if not 0 < len(cells) <= _MOST or not np.isfinite(exponentials).all():
        return
    rows = np.concatenate([cells[:, :-1], np.zeros_like(cells[:, :1])], axis=1)
    total = _with_deltas(exponentials.sum(axis=-1, keepdims=True), rows, -exponentials[(slice(None), *cells.T)])

    def tell(index: int) -> str:
        name = cell_name(given, "weights", tuple(cells[index]))
        return given.displayed("{}: this exponential was left out of the sum of its row").format(f"sum, {name}")

    yield Change({"sum": total, "exp": np.broadcast_to(exponentials, (len(cells), *exponentials.shape))}, tell, "sum")


@mistake("cell-sign", at=_CELLS, simplicity=3, local=True)
def cell_sign(given: Given) -> Changes:
    """One cell has the wrong sign."""
    for step in _tried(given, _CELLS):
        array = given[step]
        places = _wrong_only(given, step, np.argwhere((array[0] != 0) & np.isfinite(array[0])))
        if not 0 < len(places) <= _MOST:
            continue
        stack = _with_deltas(array, places, -2 * array[(slice(None), *places.T)])

        def tell(index: int, step: str = step, places: Array = places) -> str:
            return f"{step}, {cell_name(given, step, tuple(places[index]))}: the sign is wrong"

        yield Change({step: stack}, tell, step, step == given.target)


@mistake("rows-exchanged", at=_CELLS, simplicity=3, local=True)
def rows_exchanged(given: Given) -> Changes:
    """Two rows, or two columns, were exchanged."""
    for step in _tried(given, _CELLS):
        array = given[step]
        for axis, what in ((-2, "rows"), (-1, "columns")):
            if what == "columns" and step != given.target:
                continue
            pairs = list(combinations(range(array.shape[axis]), 2))
            if not pairs or len(pairs) > _MOST // 10:
                continue
            swapped = []
            for one, other in pairs:
                order = list(range(array.shape[axis]))
                order[one], order[other] = other, one
                swapped.append(np.take(array, order, axis=axis))
            names = given.labels(step)[0 if axis == -2 else 1]

            def tell(
                index: int, step: str = step, what: str = what, pairs: list[tuple[int, int]] = pairs,
                names: list[str] = names,
            ) -> str:  # fmt: skip
                one, other = pairs[index]
                return f"{step}: the {given.displayed(what)} {names[one]} and {names[other]} were exchanged"

            yield Change({step: np.stack(swapped)}, tell, step)


@mistake("cells-exchanged", at=_CELLS, simplicity=3, local=True)
def cells_exchanged(given: Given) -> Changes:
    """Two cells were exchanged."""
    for step in _tried(given, _CELLS):
        array = given[step]
        cells = np.argwhere(given.wrong if step == given.target else np.isfinite(array[0]))
        if step == given.target and len(cells) != 2:
            continue
        one, other = np.triu_indices(len(cells), 1)
        here, there = cells[one], cells[other]
        unlike = array[(0, *here.T)] != array[(0, *there.T)]
        here, there = here[unlike], there[unlike]
        if not 0 < len(here) <= _MOST:
            continue
        stack = np.repeat(array[None], len(here), axis=0)
        rows = np.arange(len(here))
        stack[(rows, slice(None), *here.T)] = array[(slice(None), *there.T)].T
        stack[(rows, slice(None), *there.T)] = array[(slice(None), *here.T)].T

        def tell(index: int, step: str = step, here: Array = here, there: Array = there) -> str:
            names = [cell_name(given, step, tuple(cells[index])) for cells in (here, there)]
            return f"{step}: the cells ({names[0]}) and ({names[1]}) were exchanged"

        yield Change({step: stack}, tell, step, step == given.target)
