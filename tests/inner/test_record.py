"""A record behaves as the dataclass that it is to type checkers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from attncli.record import record


def _point(decorate: Callable[[type], type]) -> Any:
    class Point:
        x: int
        y: int = 2
        names: list[str] = dataclasses.field(default_factory=list)
        seen: bool = dataclasses.field(default=False, init=False)

    return decorate(Point)


def _call(made: Any, *values: Any, **named: Any) -> Any:
    try:
        one = made(*values, **named)
        return one.x, one.y, one.names, one.seen
    except TypeError:
        return TypeError


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ((1,), {}),
        ((1, 3), {"names": ["a"]}),
        ((), {"x": 1}),
        ((), {}),
        ((1,), {"x": 2}),
        ((1, 2, [], 4), {}),
        ((), {"z": 1}),
    ],
)
def test_it_is_made_as_a_dataclass_is(values: tuple[Any, ...], named: dict[str, Any]) -> None:
    assert _call(_point(record), *values, **named) == _call(_point(dataclasses.dataclass), *values, **named)


def test_many_are_made_as_one_is() -> None:
    point = _point(record)
    made = [point(i, names=[str(i)]) for i in range(300)]
    assert [(each.x, each.y, each.names, each.seen) for each in made] == [(i, 2, [str(i)], False) for i in range(300)]
    assert made[299] == point(299, 2, ["299"])
    with pytest.raises(TypeError):
        point(1, x=2)


def test_each_has_a_list_of_its_own_and_is_compared_by_its_fields() -> None:
    point = _point(record)
    one, other = point(1), point(1)
    assert one == other
    one.names.append("a")
    assert one != other
    assert one != 1
    assert repr(other).endswith("Point(x=1, y=2, names=[], seen=False)")
    with pytest.raises(TypeError):
        hash(one)


def test_the_functions_of_dataclasses_know_it() -> None:
    point = _point(record)
    assert [each.name for each in dataclasses.fields(point)] == ["x", "y", "names", "seen"]
    changed = dataclasses.replace(point(1, names=["a"]), y=5)
    assert dataclasses.asdict(changed) == {"x": 1, "y": 5, "names": ["a"], "seen": False}
    assert dataclasses.is_dataclass(point)
    plain = _point(dataclasses.dataclass)
    assert str(point.__dataclass_params__) == str(plain.__dataclass_params__)


def test_fields_of_a_base_come_first() -> None:
    base = _point(record)

    class Far(base):  # type: ignore[valid-type,misc]
        z: int = 3

    far = record(Far)(1, 2, ["a"], 4)
    assert (far.x, far.names, far.z) == (1, ["a"], 4)
    assert dataclasses.replace(far, z=5).z == 5


def test_arrays_are_compared_cell_by_cell() -> None:
    import numpy as np

    point = _point(record)
    one, other = point(np.array([1, np.nan]), [np.ones(2)]), point(np.array([1, np.nan]), [np.ones(2)])
    assert one == other
    other.y[0][1] = 2
    assert one != other
    assert point(np.ones(2)) != point(np.ones(3))
