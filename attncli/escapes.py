"""What comes from a file, its name or a label, as it is shown: what controls a terminal, or is not seen, is escaped."""

from __future__ import annotations

# Format characters are escaped: embeddings, overrides and isolates would reorder the numbers beside them, and others
# take no room. Not so the joiners, and these signs of Arabic and Syriac.
_JOINERS = frozenset("\u200c\u200d")
_SEEN = frozenset("\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2")
_UNSEEN = frozenset("\u034f\u115f\u1160\u3164\uffa0")
_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


def shown(text: str) -> str:
    r"""A user's text on one line: ESC is written `\x1b`, U+202E `\u202e`, a byte that is no UTF-8 `\udcff`."""
    if text.isascii() and text.isprintable():
        return text
    before = ["", *text]
    return "".join(_escape(each) if _is_control(each, last) else each for each, last in zip(text, before, strict=False))


def _is_control(character: str, before: str) -> bool:
    """Whether it moves or hides what stands beside it; joiners within words and pictures of other scripts stay."""
    if character.isascii():
        return not character.isprintable()
    if character in _JOINERS or "\U000e0020" <= character <= "\U000e007f":
        return not before or before.isascii()
    if character in _UNSEEN or 128 <= ord(character) < 160:
        return True
    from unicodedata import category

    return category(character) in ("Cf", "Zl", "Zp", "Cs") and character not in _SEEN


def _escape(character: str) -> str:
    code = ord(character)
    wide = f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"
    return _SHORT.get(character) or (f"\\x{code:02x}" if code < 256 else wide)
