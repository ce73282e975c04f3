"""The page builder: nothing becomes markup that was not meant to, and a page needs nothing but itself."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.reports.html import (
    VOID,
    Filter,
    Markup,
    Option,
    badge,
    bar,
    code,
    facts,
    filter_bar,
    legend,
    note_button,
    page,
    prose,
    table,
    tag,
)
from harness.reports.text import clean

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
HOSTILE = "</script><script>document.title='bad'</script><img src=x onerror=document.title='bad'>\"'`\x1b[31m\u202e"


class Reader(HTMLParser):
    """Elements, attributes and text of a page; raises if an element is not closed where it should be."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@given(st.text(), st.text())
def test_text_stays_text_wherever_it_stands(child: str, value: str) -> None:
    made = Reader(tag("p", child, title=value, data_x=value))
    assert made.elements == [("p", {"title": clean(value), "data-x": clean(value)})]
    assert made.text == clean(child)


def test_children_and_attributes() -> None:
    assert tag("p", "a<b", 3, None, [tag("b", "c"), ["d"]], class_="x", hidden=True, id=None, title=False) == (
        '<p class="x" hidden>a&lt;b3<b>c</b>d</p>'
    )
    assert tag("br") == "<br>"
    assert tag("td", tabindex=0) == '<td tabindex="0"></td>'
    assert tag("a", "x", href="#place") == '<a href="#place">x</a>'
    assert tag("p", prose("say `a<b` twice")) == "<p>say <code>a&lt;b</code> twice</p>"


@pytest.mark.parametrize(
    ("element", "attributes"),
    [
        ("p", {"onclick": "x()"}), ("p", {"style": "color: red"}), ("p", {"a b": "x"}), ("p><b", {}),
        ("a", {"href": "javascript:alert(1)"}), ("a", {"href": " javascript:x"}), ("img", {"src": "data:text/html,x"}),
    ],
)  # fmt: skip
def test_what_could_run_is_refused(element: str, attributes: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"attribute|element|link"):
        tag(element, **attributes)


def sample() -> str:
    """A page with one of everything, and hostile text in every place that takes text."""
    options = [Option(value="fatal", label=HOSTILE, mark="F", kind="fatal", about=HOSTILE),
               Option(value="cosmetic", label="cosmetic")]  # fmt: skip
    who = [Option(value="a", label="a"), Option(value="b", label="b")]
    heads = ["x", tag("th", "a", data_client="a"), tag("th", "b", data_client="b")]

    def row(name: str, severity: str, outcome: str) -> Markup:
        cells = [tag("td", note_button("W", title=HOSTILE, note=HOSTILE), data_outcome="wrong"),
                 tag("td", ".", data_outcome=outcome)]  # fmt: skip
        return tag("tr", tag("th", name), cells, data_item=True, data_severity=severity, id=name)

    rows = [row("one", "fatal", "raised"), row("two", "cosmetic", "right")]
    return page(
        HOSTILE, facts([("a", HOSTILE), ("b", badge(HOSTILE, "fatal"))]), code(HOSTILE), legend(options),
        bar([("right", 3), ("told", 0), ("wrong", 1)], HOSTILE),
        filter_bar([
            Filter(name="severity", label=HOSTILE, options=options),
            Filter(name="outcome", label="o", options=[Option(value="raised", label="raised")]),
            Filter(name="client", label="c", options=who, hides=True, folded=True),
            Filter(name="none", label="none", options=[]),
        ], search="Find"),
        tag("section", table(heads, rows, kind="grid", caption=HOSTILE), data_group=True, id="group"),
        about=HOSTILE,
    )  # fmt: skip


def test_a_page_needs_nothing_but_itself_and_lets_nothing_else_run() -> None:
    text = sample()
    made = Reader(text)
    names = [name for name, _ in made.elements]
    assert "img" not in names
    assert names.count("script") == names.count("style") == 1
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert not [attrs for _, attrs in made.elements if {"src", "href", "style"} & attrs.keys()]
    assert not re.search(r"url\(|@import|https?://", text)
    policy = next(attrs["content"] for _, attrs in made.elements if attrs.get("http-equiv") is not None) or ""
    assert policy.startswith("default-src 'none'; ")
    for element, directive in (("script", "script-src"), ("style", "style-src")):
        inner = text.partition(f"<{element}>")[2].partition(f"</{element}>")[0]
        digest = base64.b64encode(hashlib.sha256(inner.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy


def test_a_bar_fills_its_width_and_leaves_out_nothing() -> None:
    rects = [attrs for name, attrs in Reader(bar([("right", 1), ("told", 1), ("wrong", 1)], "x")).elements
             if name == "rect"]  # fmt: skip
    assert [(rect["x"], rect["width"], rect["class"]) for rect in rects] == [
        ("0", "333", "right"), ("333", "333", "told"), ("666", "333", "wrong"),
    ]  # fmt: skip
    assert Reader(bar([], "x")).elements[0][0] == "svg"


def test_style_knows_every_kind_that_reports_colour() -> None:
    from harness.answers import CaseOutcome
    from harness.findings import Outcome, Severity

    style = (Path(__file__).parent.parent / "harness" / "reports" / "page.css").read_text("utf-8")
    for kind in [*CaseOutcome, *Outcome, *Severity]:
        assert re.search(rf"\.{kind}\b", style), kind


def rendered(path: Path, choice: str, tmp_path: Path) -> str:
    """The page as it stands after its script ran, opened with a choice of filters in its address."""
    assert CHROMIUM is not None
    done = subprocess.run(
        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", f"{path.as_uri()}{choice}"],
        capture_output=True, timeout=60, check=True, env={**os.environ, "HOME": str(tmp_path)},
    )  # fmt: skip
    return done.stdout.decode()


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_a_browser_filters_and_runs_nothing_foreign(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(sample(), "utf-8")

    def seen(choice: str = "") -> tuple[set[str], str]:
        text = rendered(path, choice, tmp_path)
        made = Reader(text)
        title = re.search("<title>(.*?)</title>", text, re.DOTALL)
        assert title is not None
        assert title[1] != "bad"
        assert next(attrs for name, attrs in made.elements if name == "form").keys() == {"class", "id"}
        hidden = {attrs["id"] or "" for _, attrs in made.elements if "hidden" in attrs and attrs.get("id")}
        shown = re.search('<output[^>]*>(.*?)</output>', text)
        assert shown is not None
        return hidden - {"note"}, shown[1]

    assert seen() == (set(), "2 of 2 rows")
    assert seen("#severity=fatal") == ({"two"}, "1 of 2 rows")
    assert seen("#severity=fatal+cosmetic") == (set(), "2 of 2 rows")
    assert seen("#outcome=raised") == ({"two"}, "1 of 2 rows")
    assert seen("#outcome=raised&client=a") == ({"one", "two", "group"}, "0 of 2 rows")  # only b raised
    assert seen("#text=TWO") == ({"one"}, "1 of 2 rows")
    assert seen("#severity=nonsense&other=x") == (set(), "2 of 2 rows")
