"""`-o page.html`, read back by a parser and a browser: every number, its arithmetic, and nothing from elsewhere."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attncli import run
from tests.calling import ROOT, Result

Cli = Callable[..., Result]

HOSTILE = ["</script><script>alert(1)</script>", "<!--<script>", "\"'&amp;", "שלום", "a\u200bb", "x" * 300]


class Page(HTMLParser):
    """The tags that open, with their attributes, and the texts of scripts by their type."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: dict[str | None, str] = {}
        self.title = ""
        self._within: str | None = None
        self._type: str | None = None
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self._within, self._type = tag, dict(attrs).get("type")

    def handle_endtag(self, tag: str) -> None:
        self._within = None

    def handle_data(self, data: str) -> None:
        if self._within == "script":
            self.texts[self._type] = self.texts.get(self._type, "") + data
        elif self._within == "title":
            self.title += data

    @property
    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.texts["application/json"])
        return found

    def part(self, step: str, number: int = 0) -> dict[str, Any]:
        """One matrix of a step."""
        found: dict[str, Any] = next(each for each in self.data["steps"] if each["name"] == step)["parts"][number]
        return found


@pytest.fixture
def written(cli: Cli, tmp_path: Path) -> Any:
    """Writes a page with a command's arguments."""

    def write(*arguments: object) -> Page:
        path = tmp_path / "page.html"
        result = cli(*arguments, "-o", path, "--force")
        assert result.status == 0, result.err
        return Page(path)

    return write


def numbers(part: dict[str, Any]) -> np.ndarray:
    rows = [[float(x) for x in row if x is not None] for row in part["values"]]
    return np.array([row for row in rows if row])


@pytest.mark.parametrize(
    "sample", ["pronoun/problem", "07-causal-self-attention", "11-masked-lengths", "17-alibi", "20-grouped-qk-norm"]
)
def test_it_holds_every_number_of_the_trace(written: Any, sample: str) -> None:
    page, trace = written("run", ROOT / "samples" / f"{sample}.yaml"), run(ROOT / "samples" / f"{sample}.yaml")
    assert [step["name"] for step in page.data["steps"]] == trace.names(on_request=True)
    for name in trace.names(on_request=True):
        for number, address in enumerate(trace.parts(name)):
            part = page.part(name, number)
            rows, columns = ([i for i in part[at] if i is not None] for at in ("row_at", "column_at"))
            np.testing.assert_array_equal(numbers(part), trace[address][np.ix_(rows, columns)])
            if not part["left_out"]:
                assert numbers(part).shape == trace[address].shape
                assert (part["rows"], part["columns"]) == trace.labels(address)
            assert bool(part["left_out"]) == (max(trace[address].shape) > 128)  # of the trained encoder's features


@pytest.mark.parametrize("layout", ["rows", "columns"])
@pytest.mark.parametrize(("query", "key"), [(2, 3), (3, 1)])
def test_the_arithmetic_of_a_cell_is_what_explain_prints(
    cli: Cli, written: Any, tmp_path: Path, layout: str, query: int, key: int
) -> None:
    problem = tmp_path / "p.yaml"
    problem.write_text("attention: attend\nQ: [[1, 0, 2], [0, 3, 1]]\nK: [[1, 2, 0], [0, 1, 1]]\nV: [[1, 2, 5]]\n"
                       "layout: columns\n" if layout == "columns" else
                       "attention: attend\nQ: [[1, 0], [0, 3], [2, 1]]\nK: [[1, 0], [2, 1], [0, 1]]\n"
                       "V: [[1], [2], [5]]\n")  # fmt: skip
    page = written("run", problem)
    at = (key - 1, query - 1) if layout == "columns" else (query - 1, key - 1)
    place = f"k{key}, q{query}" if layout == "columns" else f"q{query}, k{key}"
    explained = cli("explain", problem, "--query", query, "--key", key).out
    for step in ("scores", "scaled", "exp", "weights"):
        told = page.part(step)["told"][at[0]][at[1]]
        assert f"  {step}[{place}] = {told}\n" in explained, step


def test_of_each_head_and_sequence_the_right_cell_is_told(cli: Cli, written: Any, tmp_path: Path) -> None:
    problem = tmp_path / "p.yaml"
    values = np.random.default_rng(4).integers(-3, 4, size=(2, 3, 4)).tolist()
    problem.write_text(json.dumps({"attention": "self", "X": values, "heads": 2}))
    page = written("run", problem)
    explained = cli("explain", problem, "--query", "3", "--key", "2").out
    sections = re.split(r"\nsequence \d, head \d\n", explained)[1:]
    assert len(sections) == 4
    for number, section in enumerate(sections):
        part = page.part("weights", number)
        assert (part["sequence"], part["head"]) == (number // 2 + 1, number % 2 + 1)
        assert f"weights[q3, k2] = {part['told'][2][1]}\n" in section


def test_a_hidden_cell_says_by_what_and_is_marked(written: Any) -> None:
    page = written("attend", "[[1, 2]]", "[[1, 0], [0, 1]]", "--mask", "causal:top-left")
    assert page.part("masked")["told"][0] == [None, "-inf   (hidden by causal:top-left)"]
    assert page.part("masked")["hidden"] == [[1]]
    assert page.part("masked")["values"][0][1] == "-inf"
    assert page.part("weights")["shown"] == [["1.0000", "·"]]


def test_what_the_hand_wrote_stands_beside_the_right_number(written: Any) -> None:
    page = written("run", ROOT / "samples" / "hand" / "homework.yaml")
    assert page.part("scaled")["told"][1][2] == "2 / sqrt(2) = 1.4142   (written: 1.00)"


def test_hostile_labels_stay_text(cli: Cli, tmp_path: Path) -> None:
    path, tokens = tmp_path / "page.html", tmp_path / "tokens.txt"
    tokens.write_text("\n".join(HOSTILE), encoding="utf-8")
    problem = tmp_path / "p.yaml"
    problem.write_text(f"title: {json.dumps(HOSTILE[0])}\nX: {np.eye(6, dtype=int).tolist()}\nattention: self\n")
    result = cli("run", problem, "--tokens", f"@{tokens}", "-o", path)
    assert result.status == 0, result.err
    page = Page(path)
    assert page.tags.count("script") == 2
    assert page.title == HOSTILE[0]
    labels = page.part("weights")["rows"]
    assert labels[:4] == HOSTILE[:4]
    assert labels[5] == HOSTILE[5]
    assert not {"<", ">"} & set(page.texts["application/json"])


def test_nothing_comes_from_elsewhere(written: Any) -> None:
    page = written("run", ROOT / "samples" / "07-causal-self-attention.yaml")
    assert not {"src", "href", "srcset", "action"} & {name for name, _ in page.attributes}
    assert not {"link", "img", "iframe", "object", "base"} & set(page.tags)
    script, style = page.texts[None], (ROOT / "attncli" / "report" / "page.html").read_text(encoding="utf-8")
    assert not re.search(r"url\(|@import|fetch\(|XMLHttpRequest|innerHTML|insertAdjacentHTML|eval\(", script + style)
    policy = dict(page.attributes)["content"]
    assert policy is not None
    assert policy.startswith("default-src 'none'")


def test_the_bytes_are_the_same_and_few_besides_the_data(cli: Cli, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a.html", "b.html")]
    for path in paths:
        assert cli("attend", "[[1, 2]]", "[[1, 0], [0, 1]]", "-o", path).status == 0
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert len(paths[0].read_bytes()) - len(Page(paths[0]).texts["application/json"]) < 200_000


@pytest.mark.parametrize(("count", "shown"), [(128, 128), (129, 11)])
def test_up_to_128_tokens_stand_there_whole(written: Any, tmp_path: Path, count: int, shown: int) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(1).normal(size=(count, 1)))
    page = written("attend", tmp_path / "x.npy", tmp_path / "x.npy", "--show", "weights")
    part = page.part("weights")
    assert (len(part["rows"]), len(part["columns"]), len(part["values"])) == (shown, shown, shown)
    assert bool(part["told"]) == (count == 128)
    assert ("rows 6-124 of 129" in part["left_out"]) == (count == 129)
    assert any("attncli explain" in note for note in page.data["notes"]) == (count == 129)


@pytest.mark.parametrize("arguments", [("-o", "weights={}"), ("-o", "{}")])
def test_of_one_step_and_of_stages_there_are_documents(cli: Cli, tmp_path: Path, arguments: tuple[str, str]) -> None:
    path = tmp_path / "report.html"
    sample = "13-scaled-dot" if "=" in arguments[1] else "22-differential"
    result = cli("run", ROOT / "samples" / f"{sample}.yaml", "-o", arguments[1].format(path))
    assert result.status == 0, result.err
    page = Page(path)
    assert "table" in page.tags
    assert "script" not in page.tags


def test_a_dry_run_tells_of_it_and_writes_nothing(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    result = cli("attend", "[[1]]", "[[1]]", "-o", path, "--dry-run")
    assert result.status == 0, result.err
    assert "page.html: a page of Q, K, scores, scaled" in result.out
    assert not path.exists()


# -- in a browser ----------------------------------------------------------------------------------------------------


@pytest.fixture
def browser() -> Any:
    """Chromium: the system's own where there is one, else that of playwright."""
    from shutil import which

    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as started:
        found = started.chromium.launch(executable_path=which("chromium"), args=["--no-sandbox"])
        yield found
        found.close()


def opened(browser: Any, path: Path, **options: Any) -> tuple[Any, list[str]]:
    """The page in the browser, and what it asked for or complained of beside itself."""
    tab, noise = browser.new_page(**options), []
    tab.on("console", lambda message: noise.append(message.text))
    tab.on("pageerror", lambda error: noise.append(str(error)))
    tab.on("request", lambda request: noise.append(request.url) if request.url != path.as_uri() else None)
    tab.on("dialog", lambda dialog: (noise.append(dialog.message), dialog.dismiss()))
    tab.goto(path.as_uri())
    tab.locator("section").nth(len(Page(path).data["steps"]) - 1).wait_for(state="attached")
    return tab, noise


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 820, 1400])
def test_a_browser_shows_what_explain_prints(cli: Cli, written: Any, tmp_path: Path, browser: Any, width: int) -> None:
    homework = ROOT / "samples" / "hand" / "homework.yaml"
    written("run", homework)
    tab, noise = opened(browser, tmp_path / "page.html", viewport={"width": width, "height": 800})
    explained = cli("explain", homework, "--query", "cat", "--key", "sat").out
    for step in ("scores", "scaled", "exp", "weights"):
        tab.locator(f"section[aria-label={step}] td[data-r='1'][data-c='2']").hover()
        assert f"  {tab.locator('#told .formula').text_content()}\n" in explained
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert noise == []


@pytest.mark.browser
def test_the_keyboard_reaches_every_cell(written: Any, tmp_path: Path, browser: Any) -> None:
    written("run", ROOT / "samples" / "07-causal-self-attention.yaml")
    tab, noise = opened(browser, tmp_path / "page.html")
    where = "(() => { const at = document.activeElement.dataset, table = document.activeElement.closest('table');" \
            "return table && [table.dataset.step, at.r, at.c].join() })()"  # fmt: skip
    reached = set()
    for _ in range(2 * tab.locator("table").count() + 2):
        tab.keyboard.press("Tab")
        if tab.evaluate(where) is None:
            continue
        rows, columns = tab.evaluate("(() => { const rows = document.activeElement.closest('tbody').rows;"
                                     "return [rows.length, rows[0].cells.length - 1] })()")  # fmt: skip
        for row in range(rows):
            tab.keyboard.press("Home")
            for column in range(columns):
                reached.add(tab.evaluate(where))
                if column < columns - 1:
                    tab.keyboard.press("ArrowRight")
            if row < rows - 1:
                tab.keyboard.press("ArrowDown")
    assert len(reached) == tab.locator("td[data-r]").count()
    assert noise == []


@pytest.mark.browser
def test_choosing_changes_tables_and_lines(written: Any, tmp_path: Path, browser: Any) -> None:
    written("run", ROOT / "samples" / "20-grouped-qk-norm.yaml")
    tab, noise = opened(browser, tmp_path / "page.html")
    lines = tab.locator("section[aria-label=weights] svg line")
    before = lines.count()
    tab.select_option("#choose-head", "2")
    tab.locator("section[aria-label=weights] h2", has_text="head 2").wait_for()
    second = Page(tmp_path / "page.html").part("weights", 1)
    cells = tab.locator("section[aria-label=weights] td[data-r]").all_text_contents()
    assert cells == [text for row in second["shown"] for text in row]
    tab.select_option("#choose-query", "1")
    tab.locator("section[aria-label=weights] th.chosen").wait_for()
    assert 0 < lines.count() < before
    assert noise == []


@pytest.mark.browser
def test_a_browser_shows_hostile_labels_as_text(cli: Cli, tmp_path: Path, browser: Any) -> None:
    path, tokens = tmp_path / "page.html", tmp_path / "tokens.txt"
    tokens.write_text("\n".join(HOSTILE), encoding="utf-8")
    np.savetxt(tmp_path / "x.csv", np.eye(6), delimiter=",")
    assert cli("self", tmp_path / "x.csv", "--tokens", f"@{tokens}", "-o", path).status == 0
    tab, noise = opened(browser, path)
    shown = tab.locator("section[aria-label=weights] tbody th").all_text_contents()
    assert shown == Page(path).part("weights")["rows"]
    assert tab.locator("script").count() == 2
    assert noise == []
