"""Escapes and encodings of labels, each function by itself."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli.escapes import shown as escape_controls
from attncli.report.markup import escape_latex, escape_markdown


def test_what_markdown_takes_for_markup_is_escaped() -> None:
    assert escape_markdown(r"*a* `b` \ <i> &amp; W_Q") == r"\*a\* \`b\` \\ \<i\> \&amp; W\_Q"
    assert escape_markdown("[CLS] [/b] :smile:") == "[CLS] [/b] :smile:"
    assert escape_markdown("[a](b)") == r"[a]\(b)"


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"])))
def test_markdown_escapes_can_be_undone(text: str) -> None:
    escaped = escape_markdown(text)
    assert re.sub(r"\\([\\|`*_<>&~$#(])", r"\1", escaped) == text
    assert not re.search(r"(?<!\\)(\\\\)*[|`*_<>&~$#]", escaped)


def test_latex_escapes() -> None:
    assert escape_latex(r"50% of $x_1^2 & {#} ~ \x1b") == (
        r"50\% of \$x\_1\textasciicircum{}2 \& \{\#\} \textasciitilde{} \textbackslash{}x1b"
    )
    assert escape_latex("--- ''") == "-{}-{}- '{}'"
    assert escape_latex("a-b, <|end|>") == r"a-b, \textless{}\textbar{}end\textbar{}\textgreater{}"


@pytest.mark.parametrize("code", [*range(32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x2028])
def test_control_characters_are_escaped(code: int) -> None:
    shown = escape_controls(f"a{chr(code)}b")
    assert shown.isprintable()
    assert shown[:2] == "a\\"
    assert shown.encode().decode("unicode_escape") == f"a{chr(code)}b"
