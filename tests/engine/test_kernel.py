"""The compiled engine against the definition in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attncli.engine.kernel import Softmax, _levels, attend_softmax, available
from tests.engine.reference import attention

pytestmark = pytest.mark.skipif(available() is None, reason="no compiler has built the engine")
DTYPES = ["float32", "float64"]


@pytest.fixture(params=list(_levels()))
def level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every instruction set that this processor has, in turn."""
    monkeypatch.setenv("ATTNCLI_ENGINE", request.param)
    assert available() == request.param
    return request.param


def numbers(*shape: int, dtype: str = "float32", seed: int = 0, size: float = 1) -> Any:
    return (np.random.default_rng((seed, *shape)).standard_normal(shape) * size).astype(dtype)


def compare(q: Any, k: Any, v: Any, *, scale: float = 1.0, **rules: Any) -> Any:
    """The engine's result, after all of it was compared with the definition."""
    expected = attention(q, k, v, scale=scale, **rules)
    got = attend_softmax(q, k, v, scale=scale, want_lse=True, **rules)
    assert not got.nonfinite.any()
    np.testing.assert_array_equal(got.empty, ~expected.sees)
    output = np.where(expected.sees[:, None], expected.output, 0)
    assert np.abs(got.output - output).max(initial=0) <= expected.bound
    lse = np.where(expected.sees | np.isfinite(expected.lse), expected.lse, -np.inf)
    finite = np.isfinite(lse)
    np.testing.assert_array_equal(np.isfinite(got.lse), finite)
    assert np.abs(got.lse[finite] - lse[finite]).max(initial=0) <= expected.bound
    for rows in Softmax(q, k, v, scale=scale, **rules).rows_of_weights(rows=1000):
        assert np.abs(rows.weights - expected.weights).max(initial=0) <= expected.bound
        assert rows.output.tobytes() == got.output.tobytes()
    return got


@pytest.mark.parametrize("dtype", DTYPES)
def test_all_sizes_and_widths(level: str, dtype: str) -> None:
    """Every number of queries and keys from 1 to 130, every width from 1 to 257, in some order of each."""
    for i in range(1, 258):
        n, m, d, d_v = 1 + i * 7 % 130, 1 + i * 11 % 130, i, 1 + i * 13 % 257
        q, k, v = numbers(n, d, dtype=dtype), numbers(m, d, dtype=dtype, seed=1), numbers(m, d_v, dtype=dtype, seed=2)
        compare(q, k, v, scale=d**-0.5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n", "m", "d", "d_v"), [(700, 900, 64, 64), (33, 2000, 300, 5), (0, 5, 3, 2), (3, 4, 0, 0)])
def test_large_narrow_and_empty(level: str, dtype: str, n: int, m: int, d: int, d_v: int) -> None:
    compare(numbers(n, d, dtype=dtype), numbers(m, d, dtype=dtype, seed=1), numbers(m, d_v, dtype=dtype, seed=2))


@pytest.mark.parametrize("size", [1e-12, 30.0])
@pytest.mark.parametrize("dtype", DTYPES)
def test_scores_from_tiny_to_steep(level: str, dtype: str, size: float) -> None:
    compare(numbers(50, 20, dtype=dtype, size=size), numbers(300, 20, dtype=dtype), numbers(300, 20, dtype=dtype))


@pytest.mark.parametrize("rising", [1, -1])
def test_scores_that_rise_and_fall_along_the_keys(level: str, rising: int) -> None:
    """The running maximum has to be followed through many tiles, or never."""
    steps = np.linspace(-400, 400, 1000, dtype=np.float32)[::rising, None]
    compare(np.ones((5, 1), np.float32), np.ascontiguousarray(steps), numbers(1000, 3))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_row_of_one_key_has_its_value_exactly(level: str, dtype: str) -> None:
    q, k, v = (numbers(131, 7, dtype=dtype, seed=i, size=50) for i in range(3))
    keys = np.random.default_rng(0).permutation(131)
    got = attend_softmax(q, k, v, scale=1.0, ranges=np.stack([keys, keys + 1], axis=1)[:, None])
    np.testing.assert_array_equal(got.output, v[keys])
    alone = attend_softmax(q, k[:1], v[:1], scale=3.0)
    np.testing.assert_array_equal(alone.output, np.broadcast_to(v[0], (131, 7)))
    by_table = attend_softmax(q, k, v, scale=1.0, shown=keys[:, None] == np.arange(131))
    np.testing.assert_array_equal(by_table.output, v[keys])


@pytest.mark.parametrize("dtype", DTYPES)
def test_exponentials_to_two_units_in_the_last_place(level: str, dtype: str) -> None:
    """A key of score 0 and one of -t, so far below that their sum is 1: its weight is 2^-t rounded."""
    t = np.random.default_rng(0).uniform(60, 120, 4000).astype(dtype)
    q, k, v = -t[:, None], np.array([[0], [1]], dtype), np.array([[0], [1]], dtype)
    got = attend_softmax(q, k, v, scale=np.log(2)).output[:, 0]
    exact = np.exp2(-t.astype(np.longdouble))
    assert np.abs((got - exact) / np.spacing(got)).max() <= 2


i = np.arange(300)
RANGES = {
    "causal": np.stack([0 * i, i + 1], 1)[:, None],
    "aligned to the end": np.stack([0 * i, i - 99], 1)[:, None],
    "window": np.stack([i - 20, i + 21], 1)[:, None],
    "length": np.array([[[0, 177]]]),
    "packed": np.stack([i // 70 * 70, i // 70 * 70 + 70], 1)[:, None],
    "first keys and window": np.stack([np.stack([0 * i, 0 * i + 4], 1), np.stack([i - 9, i + 1], 1)], 1),
    "none": np.zeros((300, 1, 2), int),
    "at random": np.random.default_rng(5).integers(-50, 400, (300, 3, 2)),
    "far apart": np.stack([np.stack([i // 9, i // 9 + 2], 1), np.stack([290 + 0 * i, 300 + 0 * i], 1)], 1),
}


@pytest.mark.parametrize("name", RANGES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_ranges_of_keys(level: str, dtype: str, name: str) -> None:
    q, k, v = (numbers(300, 24, dtype=dtype, seed=i) for i in range(3))
    compare(q, k, v, scale=0.2, ranges=RANGES[name])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(150, 260), (1, 260), (150, 1), (1, 1)])
def test_bias_and_tables_that_broadcast(level: str, dtype: str, shape: tuple[int, int]) -> None:
    q, k, v = numbers(150, 9, dtype=dtype), numbers(260, 9, dtype=dtype), numbers(260, 4, dtype=dtype)
    bias = numbers(*shape, dtype=dtype, size=3)
    shown = numbers(*shape) > -0.5
    compare(q, k, v, bias=bias)
    if shape[1] > 1:
        compare(q, k, v, bias=np.where(shown, bias, -np.inf).astype(dtype), shown=numbers(*shape, seed=3) < 2)
    compare(q, k, v, shown=shown)
    causal = np.stack([np.zeros(150, int), np.arange(1, 151)], axis=1)[:, None]
    compare(q, k, v, bias=bias, shown=shown, ranges=causal)
    compare(q, k, v, bias=np.asfortranarray(bias), shown=np.asfortranarray(shown), softcap=2.0, sink=0.3)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("softcap", [0.01, 1.0, 50.0, 1e4])
@pytest.mark.parametrize("size", [1e-6, 1.0, 40.0])
def test_soft_caps(level: str, dtype: str, softcap: float, size: float) -> None:
    """The bound holds for scores much smaller than the cap, where e^x - 1 has to keep its digits."""
    compare(numbers(90, 5, dtype=dtype, size=size), numbers(140, 5, dtype=dtype), numbers(140, 3), softcap=softcap)


@pytest.mark.parametrize("sink", [-200.0, 0.0, 5.0, 90.0, -np.inf])
def test_sinks(level: str, sink: float) -> None:
    q, k, v = (numbers(70, 6, seed=i, size=2) for i in range(3))
    compare(q, k, v, sink=sink)
    got = compare(q, k, v, sink=sink, ranges=np.stack([np.arange(70), np.arange(70) // 2 * 2 + 1], 1)[:, None])
    assert got.empty.any()
    np.testing.assert_allclose(got.lse[got.empty], sink, rtol=2e-7)


@pytest.mark.parametrize(("heads", "groups"), [(6, 2), (6, 6), (5, 3), (4, 1), (1, 3)])
def test_heads_and_what_broadcasts_over_them(level: str, heads: int, groups: int) -> None:
    q, k = numbers(2, heads, 40, 8), numbers(2, groups, 50, 8)
    v, bias = numbers(1, groups, 50, 3), numbers(heads, 1, 50)
    most = max(heads, groups)
    sink, shown = numbers(most), numbers(2, 1, 40, 50) > -1
    ranges = np.random.default_rng(0).integers(0, 51, (2, 1, 40, 2, 2))
    got = attend_softmax(q, k, v, scale=0.5, sink=sink, bias=bias, shown=shown, ranges=ranges, want_lse=True)
    assert got.output.shape == (2, most, 40, 3)
    for batch, h in np.ndindex(2, most):
        g = h * groups // most
        own = {"bias": bias[h * heads // most], "shown": shown[batch, 0], "ranges": ranges[batch, 0]}
        one = attention(q[batch, h * heads // most], k[batch, g], v[0, g], scale=0.5, sink=float(sink[h]), **own)
        assert np.abs(got.output[batch, h] - np.where(one.sees[:, None], one.output, 0)).max() <= one.bound
        assert np.abs(got.lse[batch, h] - one.lse).max() <= one.bound
        np.testing.assert_array_equal(got.empty[batch, h], ~one.sees)


def test_no_keys(level: str) -> None:
    got = attend_softmax(numbers(3, 4), numbers(0, 4), numbers(0, 2), scale=1.0, want_lse=True)
    assert got.empty.all()
    np.testing.assert_array_equal(got.output, np.zeros((3, 2)))
    np.testing.assert_array_equal(got.lse, np.full(3, -np.inf))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38])
@pytest.mark.parametrize("where", ["q", "k", "v"])
def test_rows_that_meet_what_is_not_finite_are_told(level: str, where: str, value: float) -> None:
    """And only these: all others are as if it were not there."""
    x = {name: numbers(200, 6, seed=i) for i, name in enumerate("qkv")}
    causal = np.stack([np.zeros(200, int), np.arange(1, 201)], axis=1)[:, None]
    clean = attend_softmax(**x, scale=1.0, ranges=causal)
    x[where][150, 2] = value
    shown = np.ones((200, 200), bool)
    shown[160] = np.arange(200) < 100
    got = attend_softmax(**x, scale=1.0, ranges=causal, shown=shown)
    met = np.arange(200) == 150 if where == "q" else (np.arange(200) >= 150) & (np.arange(200) != 160)
    np.testing.assert_array_equal(got.nonfinite, met)
    same = ~met & (np.arange(200) != 160)
    np.testing.assert_array_equal(got.output[same], clean.output[same])
    assert np.isfinite(got.output[160]).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, 3e38])
def test_a_bias_that_is_not_finite_is_told_where_it_is_seen(level: str, value: float) -> None:
    q, k, v, bias = numbers(40, 5), numbers(60, 5), numbers(60, 2), numbers(40, 60)
    clean = attend_softmax(q, k, v, scale=1.0, bias=bias)
    bias[7, 11], bias[9, 12] = value, value
    shown = np.ones((40, 60), bool)
    shown[9, 12] = False
    got = attend_softmax(q, k, v, scale=1.0, bias=bias, shown=shown)
    np.testing.assert_array_equal(np.flatnonzero(got.nonfinite), [7])
    others = ~np.isin(np.arange(40), [7, 9])
    np.testing.assert_array_equal(got.output[others], clean.output[others])
    behind = attend_softmax(q, k, v, scale=1.0, bias=bias, ranges=np.array([[[0, 11]]]))
    assert not behind.nonfinite.any()


@pytest.mark.parametrize("hide", [-np.inf, np.finfo(np.float32).min])
def test_a_bias_that_hides_all_keys_of_a_row_is_told(level: str, hide: float) -> None:
    q, k, v, bias = numbers(40, 5), numbers(60, 5), numbers(60, 2), numbers(40, 60)
    bias[3], bias[5, :30] = hide, hide
    got = attend_softmax(q, k, v, scale=1.0, bias=bias)
    np.testing.assert_array_equal(np.flatnonzero(got.nonfinite), [3])
    assert not got.empty.any()
    expected = attention(q, k, v, scale=1.0, bias=bias)
    rest = np.arange(40) != 3
    assert np.abs(got.output - expected.output)[rest].max() <= 4 * np.finfo(np.float32).eps * 70


def test_products_that_are_too_large_are_told(level: str) -> None:
    q, k = np.array([[1e25], [1.0]], np.float32), np.array([[1e25], [1e3]], np.float32)
    got = attend_softmax(q, k, np.ones((2, 1), np.float32), scale=1.0, ranges=np.array([[[0, 2]], [[1, 2]]]))
    np.testing.assert_array_equal(got.nonfinite, [True, False])
    steep = attend_softmax(np.ones((1, 1)), np.ones((1, 1)), np.ones((1, 1)), scale=1e300)
    assert steep.nonfinite.all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "rules",
    [
        {"scale": np.nan},
        {"scale": np.inf},
        {"softcap": np.nan},
        {"softcap": np.inf},
        {"sink": np.nan},
        {"sink": np.inf},
    ],
)
def test_rules_that_are_not_finite_leave_no_row(level: str, dtype: str, rules: dict[str, float]) -> None:
    q, k = np.zeros((3, 2), dtype), numbers(4, 2, dtype=dtype)
    assert attend_softmax(q, k, k, **{"scale": 1.0, **rules}).nonfinite.all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_rows_digits_depend_on_nothing_but_itself(level: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not on the rows beside it, on the block that it is in, nor on the threads."""
    q, k, v = numbers(700, 33, dtype=dtype, size=3), numbers(500, 33, dtype=dtype), numbers(500, 33, dtype=dtype)
    ranges = np.stack([np.zeros(700, int), np.arange(1, 701)], axis=1)[:, None]
    rules: dict[str, Any] = {"scale": 1.0, "softcap": 9.0, "sink": 0.1, "want_lse": True}
    whole = attend_softmax(q, k, v, ranges=ranges, **rules)
    for rows in ([0], [699], [1, 77, 400], list(range(100, 500))):
        some = attend_softmax(q[rows], k, v, ranges=ranges[rows], **rules)
        np.testing.assert_array_equal(some.output, whole.output[rows])
        np.testing.assert_array_equal(some.lse, whole.lse[rows])
    monkeypatch.setattr("attncli.engine.kernel._ALONE", 0)
    for threads in (1, 2, 7):
        monkeypatch.setattr("attncli.engine.kernel.thread_count", lambda threads=threads: threads)
        np.testing.assert_array_equal(attend_softmax(q, k, v, ranges=ranges, **rules).output, whole.output)


def test_vectors_of_any_width_give_the_same_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a multiply-add is one operation, as in all instruction sets but the oldest."""
    q, k, v = numbers(100, 70), numbers(300, 70), numbers(300, 70)
    outputs = set()
    for name in [name for name in _levels() if name != "x86-64"]:
        monkeypatch.setenv("ATTNCLI_ENGINE", name)
        outputs.add(attend_softmax(q, k, v, scale=0.3, softcap=5.0).output.tobytes())
    assert len(outputs) <= 1


def test_inputs_of_any_layout(level: str) -> None:
    q, k, v = (numbers(3, 50, 16, seed=i) for i in range(3))
    plain = attend_softmax(q, k, v, scale=1.0).output
    joined = [np.ascontiguousarray(x.swapaxes(0, 1)).swapaxes(0, 1) for x in (q, k, v)]  # heads beside each other
    raw = np.empty(q.nbytes + 1, np.uint8)
    unaligned = raw[1:].view(np.float32).reshape(q.shape)
    unaligned[...] = q
    frozen = [x.copy() for x in (q, k, v)]
    for x in frozen:
        x.flags.writeable = False
    ways = {
        "heads joined": joined,
        "columns first": [np.asfortranarray(x) for x in (q, k, v)],
        "every second": [np.repeat(x, 2, axis=-1)[..., ::2] for x in (q, k, v)],
        "backwards": [x[:, ::-1, ::-1].copy()[:, ::-1, ::-1] for x in (q, k, v)],
        "rows a page apart": [np.repeat(x, 64, axis=-1)[..., :16].copy() if x is q else _paged(x) for x in (q, k, v)],
        "unaligned": [unaligned, k, v],
        "big-endian": [x.astype(">f4") for x in (q, k, v)],
        "float64 keys": [q, k.astype(np.float64), v.astype(np.float64)],
        "read only": frozen,
    }
    ways["rows a page apart"][0] = _paged(q)
    for name, given in ways.items():
        np.testing.assert_array_equal(attend_softmax(*given, scale=1.0).output, plain, err_msg=name)


def _paged(x: Any) -> Any:
    """The same numbers in rows that begin at multiples of 4096 bytes, where caches collide."""
    room = np.zeros((*x.shape[:-1], 4096 // x.itemsize), x.dtype)
    room[..., : x.shape[-1]] = x
    return room[..., : x.shape[-1]]


def test_the_output_goes_where_it_is_wanted(level: str) -> None:
    q, k, v = (numbers(2, 70, 16, seed=i) for i in range(3))
    plain = attend_softmax(q, k, v, scale=1.0).output
    room = np.empty((70, 2, 16), np.float32)
    outs = {
        "joined": room.swapaxes(0, 1),
        "columns": np.empty((2, 16, 70), "f4").swapaxes(1, 2),
        "f8": np.empty((2, 70, 16)),
    }
    for name, out in outs.items():
        assert attend_softmax(q, k, v, scale=1.0, out=out).output is out
        np.testing.assert_array_equal(out, plain, err_msg=name)


def test_weights_row_block_by_row_block() -> None:
    q, k, v = numbers(3, 130, 8), numbers(1, 90, 8), numbers(1, 90, 5)
    whole = attend_softmax(q, k, v, scale=0.4, want_lse=True)
    seen = []
    for block in Softmax(q, k, v, scale=0.4).rows_of_weights(rows=50):
        unit = block.unit
        rows = slice(unit.start, unit.stop)
        expected = attention(q[unit.index][rows], k[0], v[0], scale=0.4)
        assert np.abs(block.weights - expected.weights).max() <= expected.bound
        np.testing.assert_allclose(block.weights.sum(axis=1), 1, rtol=1e-6)
        np.testing.assert_array_equal(block.output, whole.output[unit.index][rows])
        np.testing.assert_array_equal(block.lse, whole.lse[unit.index][rows])
        seen.append((*unit.index, unit.start, unit.stop))
    assert seen == [(h, a, b) for h in range(3) for a, b in ((0, 50), (50, 100), (100, 130))]


def test_weights_without_values() -> None:
    (block,) = Softmax(numbers(4, 3), numbers(5, 3, seed=1), scale=1.0).rows_of_weights()
    expected = attention(numbers(4, 3), numbers(5, 3, seed=1), numbers(5, 1), scale=1.0)
    assert np.abs(block.weights - expected.weights).max() <= expected.bound
