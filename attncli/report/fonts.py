"""Fonts in which a picture can show its labels: matplotlib's own, and for what it lacks those that the system has."""

from __future__ import annotations

from typing import Any

OWN = "DejaVu Sans"
_FIRST = (
    "noto sans",
    "source han",
    "nanum",
    "malgun",
    "wenquanyi",
    "droid",
    "microsoft",
    "pingfang",
    "apple",
    "hiragino",
)


def families(text: str) -> tuple[list[str], list[str]]:
    """The names of the fonts that show the text, in their order; and the characters that none of them has."""
    from matplotlib import font_manager

    lacking = _lacking(font_manager.findfont(OWN), {c for c in text if c.isprintable() and not c.isspace()})
    found = [OWN]
    if not lacking:
        return found, []
    fonts = sorted(font_manager.fontManager.ttflist, key=lambda font: (_rank(font), font.name, font.fname))
    for font in fonts:
        if "last resort" in font.name.lower().replace("lastresort", "last resort"):
            continue  # it has a box for everything
        left = _lacking(font.fname, lacking)
        if len(left) < len(lacking) and font.name not in found:
            found.append(font.name)
            lacking = left
        if not lacking:
            break
    return found, sorted(lacking)


def _rank(font: Any) -> tuple[bool, bool, int]:
    """Upright and regular ones first, of those the well-known."""
    name = font.name.lower()
    known = next((i for i, prefix in enumerate(_FIRST) if name.startswith(prefix)), len(_FIRST))
    return font.style != "normal", str(font.weight) not in ("400", "normal", "regular"), known


def _lacking(file: str, characters: set[str]) -> set[str]:
    """Those of the characters that a font does not have; all of them where it cannot be read."""
    from matplotlib.font_manager import get_font

    try:
        font = get_font(file)
    except (OSError, RuntimeError):
        return characters
    return {character for character in characters if not font.get_char_index(ord(character))}
