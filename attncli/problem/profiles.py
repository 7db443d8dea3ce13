"""The rules of named systems, one row each: what `--like NAME` sets as defaults."""

from __future__ import annotations

from typing import NamedTuple

from attncli.pipeline.scores import SCORES


class Profile(NamedTuple):
    """What a system does where it was left unsaid; about says where the numbers come from.

    axes: the order of Q, K, V and the output, "" for the one that is usual here.
    """

    about: str
    score: str = ""
    mask_value: float = float("-inf")
    empty_rows: str = "zero"
    causal: str = "top-left"
    weight_layout: str = "in-out"
    axes: str = ""

    def rules(self) -> dict[str, str | float]:
        """The rules by name, without the sentence about them."""
        rules = self._asdict()
        del rules["about"]
        rules["score"] = self.score or SCORES.default.name
        return rules


# float32's largest number, of which jax takes 0.7.
_FLOAT32_MAX = (2 - 2**-23) * 2.0**127

PROFILES: dict[str, Profile] = {
    "torch-sdpa": Profile("torch.nn.functional.scaled_dot_product_attention", weight_layout="out-in"),
    "torch-mha": Profile(
        "torch.nn.MultiheadAttention, scaled by one head's width", empty_rows="nan", weight_layout="out-in"
    ),
    "flex": Profile("torch.nn.attention.flex_attention", weight_layout="out-in"),
    "jax": Profile("jax.nn.dot_product_attention", mask_value=-0.7 * _FLOAT32_MAX, empty_rows="uniform", axes="bthd"),
    "keras": Profile("keras.layers.Attention", score="dot", mask_value=-1e9, empty_rows="uniform"),
    "keras-mha": Profile("keras.layers.MultiHeadAttention, scaled by key_dim", axes="bthd"),
    "onnx": Profile("the Attention operator of ONNX 1.23, scaled by one head's width"),
    "d2l": Profile("Dive into Deep Learning", mask_value=-1e6, empty_rows="uniform", weight_layout="out-in"),
    "transformer": Profile("Vaswani et al. 2017, arXiv:1706.03762"),
    "flash": Profile("FlashAttention", causal="bottom-right", weight_layout="out-in", axes="bthd"),
}
