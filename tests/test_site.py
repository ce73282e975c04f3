"""The site of mkdocs.yml: it builds strictly, has every page, looks as the pages do on GitHub, and loads nothing."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from commandline import harness
from reading import ROOT

pytestmark = pytest.mark.skipif(find_spec("mkdocs") is None, reason="the extra docs is not installed")

BESIDE = {"project.md": "README.md", **{name: name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")}}
SOURCES = {path.name: path for path in sorted((ROOT / "docs").glob("*.md"))} | {
    taken: ROOT / name for taken, name in BESIDE.items()
}


def build(folder: Path, into: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", into],
        cwd=folder, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    into = tmp_path_factory.mktemp("site")
    done = build(ROOT, into)
    assert done.returncode == 0, done.stderr
    return into


class Counter(HTMLParser):
    """How often each element stands in the body of a page, and the ids there."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.counts: dict[str, int] = {}
        self.ids: set[str] = set()
        self.text: list[str] = []
        self.feed(text[text.index('<div class="section" itemprop="articleBody">') : text.index("<footer>")])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.counts[tag] = self.counts.get(tag, 0) + 1
        self.ids |= {value for name, value in attrs if name == "id" and value}

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def prose(path: Path) -> Iterator[str]:
    """The lines of a page that are no code."""
    inside = False
    for line in path.read_text("utf-8").splitlines():
        if line.startswith("```"):
            inside = not inside
        elif not inside:
            yield line


@pytest.mark.parametrize("name", SOURCES)
def test_a_page_has_all_that_it_has_on_github(site: Path, name: str) -> None:
    page = "index.html" if name == "README.md" else name.replace(".md", ".html")
    found = Counter((site / page).read_text("utf-8"))
    lines = [*prose(SOURCES[name])]
    fences = sum(line.startswith("```") for line in SOURCES[name].read_text("utf-8").splitlines()) // 2
    tables = sum(bool(re.fullmatch(r"\|[-:| ]+\|", line)) for line in lines)
    items = sum(bool(re.match(r" *(?:[-*]|\d+\.) ", line)) for line in lines)
    headings = sum(bool(re.match(r"#{1,6} ", line)) for line in lines)
    assert found.counts.get("pre", 0) == fences
    assert found.counts.get("table", 0) == tables
    assert found.counts.get("li", 0) == items
    assert sum(found.counts.get(f"h{level}", 0) for level in range(1, 7)) == headings
    said = "".join(found.text)
    assert "](" not in re.sub(r"\]\(\?", "", said) or name == "python.md", "a link that came out as text"
    assert "\\<" not in said or fences


def test_nothing_is_loaded_from_another_host(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text("utf-8")
        assert re.findall(r'<(?:script|img|iframe|source)[^>]* src="(?:https?:)?//', text) == []
        assert re.findall(r'<link[^>]* href="(?:https?:)?//', text) == []
    for style in site.rglob("*.css"):
        assert re.findall(r"(?:@import|url\()\s*['\"]?(?:https?:)?//", style.read_text("utf-8")) == []


def test_it_can_be_searched(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text("utf-8"))
    found = {entry["location"].partition("#")[0] for entry in index["docs"] if "spinner" in entry["text"]}
    assert {"why.html", "rules.html"} <= found


def test_the_nav_has_every_page_once() -> None:
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"]
    listed: list[str] = []
    for entry in nav:
        ((_, below),) = entry.items()
        listed += [below] if isinstance(below, str) else [page for one in below for page in one.values()]
    assert sorted(listed) == sorted(SOURCES)
    assert [next(iter(entry)) for entry in nav[1:]] == ["Tutorial", "How to", "Reference", "Explanation"]


@pytest.mark.parametrize("link", ["[x](no-such-page.md)", "[x](why.md#no-such-heading)", "[x](schema/none.json)"])
def test_a_broken_link_fails_the_build(tmp_path: Path, link: str) -> None:
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    for path in (*BESIDE.values(), "mkdocs.yml", "tools/site_hooks.py"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    with (tmp_path / "docs" / "timing.md").open("a", encoding="utf-8") as page:
        page.write(f"\n{link}\n")
    done = build(tmp_path, tmp_path / "site")
    assert done.returncode != 0
    assert "timing.md" in done.stderr


def test_the_facts_in_the_explanation_are_facts() -> None:
    text = (ROOT / "docs" / "why.md").read_text("utf-8")
    sample = re.findall(r"```text\n(.*?)```", text, re.DOTALL)[0].splitlines()
    lines = harness("show", ROOT / "fixtures" / "vllm" / "text.sse", "--as", "structure").out.splitlines()
    shown = [line for line in sample if line != "..."]
    assert [line for line in lines if line in shown] == shown
    rules = {line["code"]: line["severity"] for line in harness("rules", "--json").objects}
    told = re.findall(r"\*\*(cosmetic|negotiable|fatal)\*\*\s*\(`([a-z.-]+)`\)", text)
    assert [(rules[code], code) for _, code in told] == told != []
