"""Softmax attention tile by tile, for scores that are dot products of finite numbers: what a row needs is a running
maximum, a running sum and a running output, so that no more than a tile of scores is ever held.

Letters: n queries, m keys, d_k, d_v widths; a tile is a x r queries by b x c keys, and lies with the keys first,
(b, a, c, r). Narrow ones are cut into parts of 64 x 128, since OpenBLAS does a product of fewer than a million steps
without packing its factors first, which is a seventh of the time of the large product.
"""

from __future__ import annotations

from attncli.core.blocks import Unit
from attncli.core.dots import LOG2_E, Dots
from attncli.core.workers import scratch
from attncli.lazy import Array, np


class Tiler:
    """The scratch memory of one thread, and the way through one block of queries."""

    def __init__(self, dots: Dots) -> None:
        self.dots = dots
        a, r, b, c = dots.sizes
        d_k, d_v = dots.widths
        dtype = dots.dtype
        self.scores = scratch((b * a * c * r,), dtype)
        self.parts = scratch((b, a, r, d_v), dtype)
        self.sums = scratch((b, a, 1, r), dtype)
        self.total, self.more = scratch((a, r, d_v), dtype), scratch((a, r, d_v), dtype)
        self.turned = scratch((a, d_k, r), dtype)
        self.padded_k, self.padded_v = scratch((b * c, d_k), dtype), scratch((b * c, d_v), dtype)
        self.ones = np.ones((1, c), dtype)

    def block(self, unit: Unit, output: Array) -> tuple[Array, Array]:
        """Fill the output (rows, d_v); log of the sum (rows, 1) and which queries see nothing (rows, 1)."""
        dots, sizes = self.dots, self.dots.sizes
        q, k, v = dots.own(unit.index)
        part = slice(unit.start, unit.stop)
        rows = unit.stop - unit.start
        a = -(-rows // sizes.r)
        self._turn(q[part], a)
        view = dots.view(unit) if dots.view else None
        bias = dots.bias(unit.index, part) if dots.bias else None
        lonely = _Lonely(rows) if dots.unshifted and (view is not None or k.shape[0] == 1) else None
        largest = np.full((a, sizes.r), -np.inf, dots.dtype)
        total, denominator = self.total[:a], np.zeros((a, sizes.r), dots.dtype)
        total[...] = 0
        m = k.shape[0]
        spans = view.spans(sizes.c, sizes.b) if view else _all_spans(m, sizes.b * sizes.c)
        for low, high, asked in spans:
            shown = view.shown(low, high) if view and asked else None
            if shown is not None and view and view.others and not shown.any():
                continue  # spans() knows of the rest
            b = -(-(high - low) // sizes.c)
            keys, values = (
                _padded(x[low:high], pad, b * sizes.c, dots.dtype)
                for x, pad in ((k, self.padded_k), (v, self.padded_v))
            )
            scores = self.scores[: b * a * sizes.c * sizes.r].reshape(b, a, sizes.c, sizes.r)
            np.matmul(keys.reshape(b, 1, sizes.c, keys.shape[1]), self.turned[:a], out=scores)
            tile_bias = None if bias is None else bias[:, low:high]
            hidden = self._hidden(shown, tile_bias, (rows, high - low), (a, b))
            if lonely is not None:
                lonely.see(shown, low, high)
            self._exponentials(scores, hidden, tile_bias, largest, total, denominator)
            parts = self.parts[:b, :a]
            np.matmul(scores.swapaxes(2, 3), values.reshape(b, 1, sizes.c, values.shape[1]), out=parts)
            np.add.reduce(parts, axis=0, out=self.more[:a])
            total += self.more[:a]
            sums = np.matmul(self.ones, scores, out=self.sums[:b, :a])
            denominator += np.add.reduce(sums, axis=(0, 2))
        below = denominator.reshape(-1, 1)[:rows]
        np.divide(total.reshape(-1, total.shape[-1])[:rows], np.where(below == 0, 1, below), out=output)
        if lonely is not None:
            lonely.settle(output, v)
        shift = 0 if dots.unshifted else largest.reshape(-1, 1)[:rows]
        return np.log(below) + shift, below == 0

    def _turn(self, q: Array, a: int) -> None:
        """q, scaled, with the features first: (a, d_k, r); rows that fill up the last part are zeros."""
        dots, r = self.dots, self.dots.sizes.r
        factor = dots.scale if dots.softcap is None else dots.scale / dots.softcap
        if dots.unshifted and dots.softcap is None:
            factor *= LOG2_E
        rows = q.shape[0]
        whole = rows // r
        scaled = q.astype(dots.dtype, copy=False) * dots.dtype.type(factor)
        self.turned[:whole] = scaled[: whole * r].reshape(whole, r, q.shape[1]).swapaxes(1, 2)
        if whole < a:
            self.turned[whole, :, : rows - whole * r] = scaled[whole * r :].T
            self.turned[whole, :, rows - whole * r :] = 0

    def _hidden(
        self, shown: Array | None, bias: Array | None, shape: tuple[int, int], parts: tuple[int, int]
    ) -> Array | None:
        """Where the tile is hidden, (b, a, c, r), by masks, by a bias of -inf, or for filling it up; None: nowhere."""
        (rows, keys), (a, b) = shape, parts
        r, c = self.dots.sizes.r, self.dots.sizes.c
        barred = None if bias is None else np.isneginf(bias)
        filled_up = keys < b * c
        if shown is None and not filled_up and (barred is None or not barred.any()):
            return None
        hidden = np.ones((b * c, a * r), bool)
        if shown is None:
            hidden[:keys, :rows] = False
        else:
            np.logical_not(np.broadcast_to(shown, shape).T, out=hidden[:keys, :rows])
        if barred is not None:
            hidden[:keys, :rows] |= barred.T
        return hidden.reshape(b, c, a, r).swapaxes(1, 2)

    def _exponentials(
        self, scores: Array, hidden: Array | None, bias: Array | None, largest: Array, total: Array, below: Array
    ) -> None:
        """e^s in place of the scores, 0 where hidden, in units of e^largest; what was summed so far, in its units."""
        dots = self.dots
        if dots.softcap is not None:
            np.tanh(scores, out=scores)
            scores *= dots.dtype.type(dots.softcap * (LOG2_E if dots.unshifted else 1))
        if dots.unshifted:
            np.exp2(scores, out=scores)
            if hidden is not None:
                np.copyto(scores, 0, where=hidden)
            return
        if bias is not None:
            self._add(scores, bias)
        if hidden is not None:
            np.copyto(scores, -np.inf, where=hidden)
        now = np.maximum(largest, np.maximum.reduce(scores, axis=(0, 2)))
        shift = np.where(np.isneginf(now), 0, now)
        scores -= shift[:, None, :]
        if dots.dtype.itemsize == 8:
            # NumPy's float64 exp is slow, one number at a time, where the result vanishes.
            np.maximum(scores, -700, out=scores)
        np.exp(scores, out=scores)
        if hidden is not None and dots.dtype.itemsize == 8:
            np.copyto(scores, 0, where=hidden)
        factor = np.exp(largest - shift)
        total *= factor[:, :, None]
        below *= factor
        largest[...] = now

    def _add(self, scores: Array, bias: Array) -> None:
        b, a, c, r = scores.shape
        rows, keys = bias.shape
        if (rows, keys) != (a * r, b * c):
            whole = np.zeros((a * r, b * c), self.dots.dtype)
            whole[: rows if rows > 1 else a * r, :keys] = bias
            bias = whole
        scores += bias.astype(self.dots.dtype, copy=False).reshape(a, r, b, c).transpose(2, 0, 3, 1)


class _Lonely:
    """Queries that see one key: their output is its value exactly, whatever e^s of their score is."""

    def __init__(self, rows: int) -> None:
        self.count = np.zeros(rows, dtype=int)
        self.key = np.zeros(rows, dtype=int)
        self.settled = False

    def see(self, shown: Array | None, low: int, high: int) -> None:
        """Count the keys that a tile shows, as long as some query has seen fewer than two."""
        if self.settled:
            return
        if shown is None:
            self.key[self.count == 0] = low
            self.count += high - low
            self.settled = high - low > 1
            return
        shown = np.broadcast_to(shown, (self.count.size, high - low))
        first = (self.count == 0) & shown.any(axis=1)
        self.key[first] = low + np.argmax(shown[first], axis=1)
        self.count += np.count_nonzero(shown, axis=1)
        self.settled = bool(self.count.min() > 1)

    def settle(self, output: Array, v: Array) -> None:
        """Put the value itself where a query saw one key."""
        alone = self.count == 1
        if not self.settled and alone.any():
            output[alone] = v[self.key[alone]]


def _padded(x: Array, pad: Array, size: int, dtype: np.dtype) -> Array:
    if x.shape[0] == size:
        return x.astype(dtype, copy=False)
    pad[: x.shape[0]] = x
    pad[x.shape[0] : size] = 0
    return pad[:size]


def _all_spans(m: int, width: int) -> list[tuple[int, int, bool]]:
    return [(low, min(low + width, m), False) for low in range(0, m, width)]
