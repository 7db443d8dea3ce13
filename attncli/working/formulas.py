"""The formula of each step, as text and in LaTeX."""

from __future__ import annotations

from attncli.pipeline.normalizers import NORMALIZERS
from attncli.pipeline.scores import SCORES
from attncli.working.working import Working

_SCORES = {
    "dot": r"q \cdot k",
    "scaled-dot": r"q \cdot k",
    "general": r"q\,W\,k",
    "concat": r"v \cdot \tanh(W [q; k])",
    "additive": r"w_v \cdot \tanh(W_q q + W_k k)",
    "cosine": r"\frac{q \cdot k}{|q|\,|k|}",
    "gaussian": r"\exp\left(-\frac{|q - k|^2}{2 \sigma^2}\right)",
    "laplacian": r"\exp\left(-\frac{|q - k|}{\sigma}\right)",
    "boxcar": r"\left[\,|q - k| / r \le 1\right]",
    "triangular": r"\max\left(0, 1 - |q - k| / r\right)",
    "epanechnikov": r"\tfrac{3}{4} \max\left(0, 1 - |q - k|^2 / r^2\right)",
}
_NORMALIZERS = {
    "softmax": r"e^{s} / \textstyle\sum e^{s}",
    "sum": r"s / \textstyle\sum s",
    "hardmax": r"\text{1 for the largest, ties share}",
    "sparsemax": r"\max(0, s - \tau)",
    "sigmoid": r"1 / (1 + e^{-s})",
    "none": "s",
}


def formula(working: Working, step: str) -> tuple[str, str]:
    """The formula of a step in text and in LaTeX."""
    problem = working.problem
    if step in ("Q", "K", "V"):
        return _projection(working, step)
    if step in ("scores", "kernel"):
        return _score(working, step)
    if step == "scaled":
        if problem.scale is not None:
            return "scores × scale", r"\mathit{scores} \cdot \mathit{scale}"
        by_width = working.score is None or working.score.scaled
        by_heat = problem.temperature is not None
        below = " × ".join(["sqrt(d_k)"] * by_width + ["temperature"] * by_heat)
        drawn = r" \cdot ".join([r"\sqrt{d_k}"] * by_width + [r"\mathit{temperature}"] * by_heat)
        below = f"({below})" if " × " in below else below
        return f"scores / {below}", rf"\frac{{\mathit{{scores}}}}{{{drawn}}}"
    if step == "weights":
        name = working.trace.normalizer
        told = NORMALIZERS.find(name).formula if name in NORMALIZERS else name
        return told, _NORMALIZERS.get(name, rf"\text{{{name}}}")
    if step == "exp":
        return "e^s", "e^{s}"
    return {
        "capped": ("c tanh(s / c)", r"c \tanh(s / c)"),
        "biased": ("s + bias", r"s + \mathit{bias}"),
        "masked": ("s where visible", r"s \text{ where visible}"),
        "sum": ("sum of e^s over the keys", r"\textstyle\sum e^{s}"),
        "tau": ("(sum of the scores that stay - 1) / their number", r"\frac{\sum s - 1}{\text{number}}"),
        "heads": ("weights V", r"\mathit{weights} \cdot V"),
        "output": _output(working),
    }[step]


def _projection(working: Working, step: str) -> tuple[str, str]:
    data = "X" if step == "Q" or "Y" not in working.arrays else "Y"
    transposed = working.problem.weight_layout == "out-in"
    text, latex = data, data
    if f"W_{step}" in working.arrays:
        if working.problem.layout == "columns":
            text, latex = (f"W_{step} {data}", f"W_{step} {data}") if transposed else (f"W_{step}^T {data}",) * 2
        else:
            text, latex = (f"{data} W_{step}^T",) * 2 if transposed else (f"{data} W_{step}",) * 2
    if f"b_{step}" in working.arrays:
        text, latex = f"{text} + b_{step}", f"{latex} + b_{step}"
    return text, latex


def _score(working: Working, step: str) -> tuple[str, str]:
    if step == "scores" and "kernel" in working.arrays:
        return "ln(kernel)", r"\ln(\mathit{kernel})"
    name = working.score.name if working.score else "given"
    if name == "scaled-dot":
        name = "dot"
    return (SCORES.find(name).formula if name in SCORES else name), _SCORES.get(name, rf"\text{{{name}}}")


def _output(working: Working) -> tuple[str, str]:
    inner = "heads side by side" if working.several else "weights V"
    if "W_O" not in working.arrays and "b_O" not in working.arrays:
        drawn = r"\text{heads side by side}" if working.several else r"\mathit{weights} \cdot V"
        return inner, drawn
    through = "heads W_O" + (" + b_O" if "b_O" in working.arrays else "")
    return through, rf"\mathit{{heads}}\, W_O{' + b_O' if 'b_O' in working.arrays else ''}"
