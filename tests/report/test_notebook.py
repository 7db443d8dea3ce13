"""What a notebook shows of a Trace."""

from __future__ import annotations

from markdown_it import MarkdownIt

from attncli import attend

Q, K, V = [[1, 0], [0, 1]], [[1, 0], [0, 1], [1, 1]], [[1, 2], [3, 4], [5, 6]]


def test_tables_and_notes_in_html_and_markdown() -> None:
    trace = attend(Q, K, V, mask="causal", tokens=["<b>one</b>", "two"])
    shown = trace._repr_html_()
    assert shown is not None
    assert shown.count("<table>") == 2
    assert "&lt;b&gt;one&lt;/b&gt;" in shown
    assert "<b>" not in shown
    assert "note: causal: the scores are 2 x 3" in shown
    markdown = trace._repr_markdown_()
    assert markdown is not None
    page = MarkdownIt("commonmark").enable("table").render(markdown)
    assert page.count("<table>") == 2
    assert "<b>" not in page
    assert "0.3302" in page  # 1 / (1 + e^(1 / sqrt 2))


def test_what_is_offered_to_complete() -> None:
    assert not [name for name in dir(attend(Q, K, V)) if name.startswith("_")]
    assert {"weights", "output", "notes"} <= set(dir(attend(Q, K, V)))
