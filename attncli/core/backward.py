"""Soft alignment both ways: the same scores, normalized for each key over the queries as well.

Source: Parikh et al. 2016, A Decomposable Attention Model, arXiv:1606.01933 (there unscaled, without projections).
"""

from __future__ import annotations

from attncli.core.normalizers import weigh
from attncli.core.output import weighted_sum
from attncli.core.projections import join_heads, project, split_heads
from attncli.lazy import Array, np
from attncli.registry import LooseEntry as Entry


def backward(
    logits: Array, counted: Array, normalizer: Entry, kernel: bool, x: Array, weight: Array | None, heads: int | None
) -> dict[str, Array]:
    """The steps `weights_back` and `output_back`; a key that no query may see gets weights and output 0.

    logits, counted: (..., n, m)   kernel: the logits are logarithms of kernel values
    x: (..., n, d_x), the data of the queries   weight: W_V (d_x, d_v) or None
    ->   weights_back (..., m, n)   output_back (..., m, d_x), or (..., m, d_v) through W_V
    """
    counted = np.broadcast_to(counted, logits.shape).mT
    weights = weigh(normalizer, logits.mT, counted, kernel=kernel)
    values = project("V", x, weight, None)
    if heads is not None:
        values = split_heads("X", values, heads)
    result = weighted_sum(weights, values, counted)
    return {"weights_back": weights, "output_back": result if heads is None else join_heads(result)}
