"""What is told beside the verdicts: how numbers were rounded, rows that do not sum to 1, what was not checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from attncli.lazy import Array, np
from attncli.verify.verdicts import AGREES, NOT_MARKED, TRUNCATED, WRONG, StepMark
from attncli.verify.written import fixed, places_of, room_of

if TYPE_CHECKING:
    from attncli.verify.marking import Marking

Index: TypeAlias = tuple[int, ...]

_LISTED = 3  # rows of which the same is to be said
_NOISE = 2.0**-24  # of each number: what a sum may be off by the arithmetic of single precision alone


def remarks(marking: Marking) -> list[str]:
    """The notes of a check, in the order of the steps."""
    found = [*marking.notes]
    columns = marking.frame.trace.layout == "columns"
    for entry, mark in zip(marking.entries, marking.marks, strict=True):
        found += _rounding(mark)
        if entry.step in ("weights", "weights_back"):
            if marking.is_unchecked(entry):
                found.append(f"{mark.step}: written as whole numbers, which the right weights are not: "
                             "nothing was checked by them")  # fmt: skip
            elif marking.frame.sums_to_one:
                leading = marking.frame.trace.leading_names(entry.step)
                found += _row_sums(mark, leading, columns, marking.first_wrong)
                if entry.step in marking.adjusted:
                    found += _adjusted(mark, entry.shown(marking.adjusted[entry.step]), leading, columns)
        if mark.verdict == NOT_MARKED and not any(mark.step in note for note in marking.notes):
            found.append(f"{mark.step}: nothing was written, so nothing was marked")
        if mark.reason:
            found.append(f"{mark.step}: follows with {mark.reason}")
    if marking.explained_by_rounded_inputs():
        found.append(
            f"{marking.first_wrong}: rounded inputs would explain it (rounded_inputs: true takes each input with a "
            "decimal point as known to half a unit of its last place)"
        )
    return found


def _rounding(mark: StepMark) -> list[str]:
    """Whether numbers were cut, and which way ties went."""
    found = []
    codes, h, u, x = mark.codes, mark.hand, mark.unit, mark.exact
    cut = codes == TRUNCATED
    if cut.any():
        found.append(f"{mark.step}: {_counted(int(cut.sum()), 'number is', 'numbers are')} cut, not rounded "
                     f"({_first(mark, cut)})")  # fmt: skip
    tied = (codes == AGREES) & (np.abs(np.abs(h - x) - u / 2) <= 1e-4 * u) & (room_of(u * 0, h, x) < 1e-4 * u)
    if tied.any():
        h, u, x = h[tied], u[tied], x[tied]
        even = np.abs(np.rint(h / u) % 2) == 0
        up = np.abs(h) > np.abs(x)
        if up.all() and not even.all():
            found.append(f"{mark.step}: ties were rounded half-up ({_first(mark, tied)})")
        elif even.all() and not up.all():
            found.append(f"{mark.step}: ties were rounded half-even ({_first(mark, tied)})")
        elif not up.any():
            found.append(f"{mark.step}: ties were rounded down, as by cutting ({_first(mark, tied)})")
        elif not even.all():
            found.append(f"{mark.step}: ties were rounded now up, now down")
    return found


def _first(mark: StepMark, where: Array) -> str:
    """The first of some cells, as `0.0 for 0.0634`."""
    at = tuple(np.argwhere(where)[0])
    places = places_of(float(mark.unit[at]))
    return f"{fixed(float(mark.hand[at]), places)} for {fixed(float(mark.exact[at]), places + 3)}"


def _row_sums(mark: StepMark, leading: list[str], columns: bool, slipped: str | None) -> list[str]:
    """Rows of weights that are written in full and do not sum to 1. leading: what the axes in front count; slipped: the
    first wrong step."""
    h, u, codes = (array.mT if columns else array for array in (mark.hand, mark.unit, mark.codes))
    total, unit = h.sum(axis=-1), u.max(axis=-1, initial=0)
    off = (np.abs(total - 1) > np.maximum(unit / 2, _NOISE * h.shape[-1])) & np.any(h != 0, axis=-1)
    found: dict[str, list[tuple[Index, str]]] = {}
    for index in np.argwhere(off):
        at = tuple(int(i) for i in index)
        is_cut = total[at] < 1 and (codes[at] == TRUNCATED).any()
        is_far = abs(total[at] - 1) > u[at].sum() * (1 if is_cut else 0.5) * (1 + 1e-9)
        is_slip = is_far and codes[at].max() >= WRONG
        follows = is_far and slipped is not None and slipped != mark.step
        why = "" if is_slip else f"that follows from {slipped}" if follows else "cutting" if is_cut else "rounding"
        found.setdefault(why, []).append((at, fixed(float(total[at]), places_of(float(unit[at])))))
    told = []
    for why, rows in found.items():
        if len(rows) == 1:
            (at, summed), ending = rows[0], f": {why}" if why else ", not to 1"
            told.append(f"{_row(mark, at, leading, columns)} sums to {summed}{ending}")
        else:
            told.append(_rows_alike(mark, rows, columns, "do not sum to 1" + _because(why)))
    return told


def _because(why: str) -> str:
    return "" if not why else f": {why}" if why.startswith("that") else f", by {why}"


def _adjusted(mark: StepMark, cells: Array, leading: list[str], columns: bool) -> list[str]:
    """Numbers that are one unit off so that their row sums to 1, as displayed; `cells` says where."""
    h, u, x, cells = (array.mT if columns else array for array in (mark.hand, mark.unit, mark.exact, cells))
    rows: list[tuple[Index, str]] = []
    for index in np.argwhere(cells.any(axis=-1)):
        at = tuple(int(i) for i in index)
        off = []
        for place in np.flatnonzero(cells[at]):
            places = places_of(float(u[at][place]))
            off.append(f"{fixed(float(h[at][place]), places)} for {fixed(float(x[at][place]), places + 2)}")
        rows.append((at, " and ".join(off)))
    if len(rows) == 1:
        at, told = rows[0]
        return [f"{_row(mark, at, leading, columns)} is written so as to sum to 1: {told}, one unit off"]
    return [_rows_alike(mark, rows, columns, "are written so as to sum to 1, one unit off")] if rows else []


def _row(mark: StepMark, at: Index, leading: list[str], columns: bool) -> str:
    """`row 2`, or `weights_back: head 1, column 2`: a row of weights, as displayed."""
    names = [*leading, "column" if columns else "row"]
    where = ", ".join(f"{name} {i + 1}" for name, i in zip(names[-len(at) :], at, strict=True))
    return where if mark.step == "weights" else f"{mark.step}: {where}"


def _rows_alike(mark: StepMark, rows: list[tuple[Index, str]], columns: bool, what: str) -> str:
    """`weights: 46 rows do not sum to 1, by rounding: it (0.99), sat (1.01), on (0.99) and 43 more`."""
    labels = mark.column_labels if columns else mark.row_labels
    listed = []
    for (*leading, row), detail in rows[:_LISTED]:
        before = f"{','.join(str(i + 1) for i in leading)} " if leading else ""
        listed.append(f"{before}{labels[row]} ({detail})")
    more = f" and {len(rows) - _LISTED} more" if len(rows) > _LISTED else ""
    return f"{mark.step}: {len(rows)} {'columns' if columns else 'rows'} {what}: {', '.join(listed)}{more}"


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"
