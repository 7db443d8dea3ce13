"""The search for a habit: something unwritten that was rounded on the way, the same in every cell of a step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attncli.lazy import Array, np
from attncli.verify.flow import Hand
from attncli.verify.habits import GRID, Habit, HabitFlow, Habits
from attncli.verify.sheet import Entry
from attncli.verify.written import near

if TYPE_CHECKING:
    from attncli.verify.marking import Marking

_BY_KEY = ("X", "Y", "K", "V", "weights_back", "output_back")
_MOST = 6
_LARGEST = 5000  # terms in a row: beyond that, no hand calculated it, and the search would take seconds


def habit_of(marking: Marking, entry: Entry, unexplained: Array) -> Habit | None:
    """The habit by which every number of this step follows, or None.

    Tried from the hand's numbers as written; and for a hand that kept all digits, from the inputs and its slips: then
    the habit must explain what it wrote before, too. unexplained: the cells that need it, which are looked at first.
    """
    used = entry.written.unit[~entry.written.blank & (entry.written.unit > 0)]
    if not used.size or _terms(marking) > _LARGEST:
        return None
    places = int(np.rint(-np.log10(used.min())))
    habits = Habits(_places(places))
    single = habits.single(places)
    found = _search(marking, habits, entry, marking.bases.points, [], unexplained, single)
    if found is None and not marking.bases.exactly:
        slips = marking.bases.slips
        consistent = [earlier for earlier in marking.earlier if earlier.step not in slips]
        found = _search(marking, habits, entry, slips, consistent, unexplained, single)
    return found


def _terms(marking: Marking) -> int:
    """How many terms the sums of one row have, together: what is computed once for each habit."""
    trace = marking.frame.trace
    widths = [trace.rows(name).shape[-1] for name in ("X", "Y", "K", "V") if name in trace]
    return marking.frame.m * max(widths, default=1)


def _places(places: int) -> list[int]:
    """p from 1 up. A few beyond the written places change nothing that is seen; and from seven on it was no hand, but
    single precision, that rounded on the way."""
    return list(range(1, min(max(places, 1) + 2, _MOST) + 1))


def _search(
    marking: Marking,
    habits: Habits,
    entry: Entry,
    hand: dict[str, Hand[Array]],
    consistent: list[Entry],
    unexplained: Array,
    single: Array,
) -> Habit | None:
    """Row by row, the worst first, so that most habits are ruled out by a single row."""
    fits: Array = np.ones((1,) * GRID, dtype=bool)
    for row in _worst_first(unexplained) if entry.step not in _BY_KEY else [None]:
        flow = HabitFlow(marking.frame, habits, hand, row, frozenset(earlier.step for earlier in consistent))
        with np.errstate(all="ignore"):
            flow.target(entry.step)
            for marked in (entry, *consistent):
                if marked.step in flow.raw:
                    fits = fits & _explained(marking, marked, flow.raw[marked.step], row, single)
        if not fits.any():
            return None
    # Where nothing could be rounded there is no habit to tell of.
    return habits.simplest(fits) if fits.ndim == GRID and fits.size > 1 else None


def _explained(marking: Marking, entry: Entry, x: Array, row: int | None, single: Array) -> Array:
    """Which habits give every number of the entry (of one row, if one is named): booleans with the habits' axes.

    Weights that were adjusted so as to sum to 1 may be one unit off, under the plainest habits.
    """
    adjusted = marking.adjusted_rows(entry.step, entry.written)

    def part(array: Array) -> Array:
        return array if row is None or entry.step in _BY_KEY else array[..., row : row + 1, :]

    written = entry.written.changed(part)
    match = written.reproduced(x)
    explained = _all(match, written.value.ndim)
    if adjusted is not None:
        close = part(adjusted) & near(written, x, x)
        explained = np.where(single, explained | _all(match | close, written.value.ndim), explained)
    return explained


def _all(match: Array, axes: int) -> Array:
    """Whether all of a step matches, for each habit."""
    padded: Array = match.reshape((1,) * (GRID + axes - match.ndim) + match.shape)
    every: Array = np.asarray(padded.all(axis=tuple(range(GRID, GRID + axes))))
    return every


def _worst_first(unexplained: Array) -> list[int]:
    """The rows, those with the most unexplained cells first."""
    counts = unexplained.sum(axis=-1).reshape(-1, unexplained.shape[-2]).sum(axis=0)
    return [int(row) for row in np.argsort(-counts, kind="stable")]
