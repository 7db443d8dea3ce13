"""Masks drawn: which key each query sees."""

from __future__ import annotations

import re

from attncli.errors import UsageError
from attncli.lazy import Array, np
from attncli.pipeline.masking import ALIGNMENTS
from attncli.pipeline.masks import MASKS, Masks, ScoreShape, mask_spec, split_spec

_MOST = 40
_LAST_REAL = ALIGNMENTS[-1]  # also the name of the mask that says which that is
_SEEN, _HIDDEN = "\N{BLACK SQUARE}", "\N{MIDDLE DOT}"


def drawn_masks(sizes: str) -> str:
    """Each mask that can stand for itself, drawn for `NxM`: a row a query, a column a key. Raises UsageError."""
    found = re.fullmatch(r"\s*(\d{1,3})\s*[xX\N{MULTIPLICATION SIGN}]\s*(\d{1,3})\s*", sizes)
    n, m = (int(count) for count in found.groups()) if found else (0, 0)
    if not (2 <= n <= _MOST and 2 <= m <= _MOST):
        raise UsageError(f"--draw {sizes!r} is no size", hint=f"queries x keys, each from 2 to {_MOST}, as in 6x6")
    shape, parts = ScoreShape((), None, n, m), []
    for entry in MASKS:
        if entry.takes == "array":
            parts.append(f"{entry.spec}\n  {entry.formula}: whatever stands in the table\n")
            continue
        text = entry.drawn(n, m) if entry.drawn else entry.example or entry.name
        masks = Masks([mask_spec(*split_spec(text))], shape)
        parts.append(f"{masks.texts[0]}\n  {entry.formula}\n{_rows(masks.visible(), n, m)}")
        if entry.spec.endswith(f":{_LAST_REAL}"):
            ends = MASKS.find(_LAST_REAL)
            assert ends.drawn is not None
            last = Masks(
                [mask_spec(*split_spec(f"{text}:{_LAST_REAL}")), mask_spec(*split_spec(ends.drawn(n, m)))], shape
            )
            told = f"{' & '.join(last.texts)}\n  the last query stands at the last real key"
            parts.append(f"{told}\n{_rows(last.visible(), n, m)}")
    return "\n".join(parts)


def _rows(visible: Array, n: int, m: int) -> str:
    table = np.broadcast_to(visible, (1, n, m)).reshape(n, m)
    return "".join("  " + " ".join(_SEEN if seen else _HIDDEN for seen in row) + "\n" for row in table)
