"""The pictures of README and docs show what the commands print today, and load nothing."""

from __future__ import annotations

import sys
from xml.etree import ElementTree as ET

import pytest
from reading import ROOT

sys.path.insert(0, str(ROOT / "tools"))
from pictures import COLUMNS, PICTURES, drawings, terminal

REDRAW = "run python tools/pictures.py"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def drawn() -> dict[str, str]:
    return drawings()


def test_they_are_not_stale(drawn: dict[str, str]) -> None:
    stale = [name for name, text in drawn.items() if (PICTURES / name).read_text("utf-8") != text]
    assert stale == [], REDRAW


def test_each_is_shown_somewhere_and_says_what_it_shows() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    text = "".join(page.read_text("utf-8") for page in pages)
    for path in sorted(PICTURES.iterdir()):
        assert f"pictures/{path.name})" in text, f"{path.name} is on no page"


def test_they_are_drawings_of_text_alone(drawn: dict[str, str]) -> None:
    for name, text in drawn.items():
        tags = {element.tag.removeprefix(SVG) for element in ET.fromstring(text).iter()}
        assert tags <= {"svg", "style", "rect", "text", "tspan"}, name
        assert "url(" not in text, f"{name} would load something"


def test_what_is_printed_is_drawn_as_it_is_and_marked() -> None:
    root = ET.fromstring(terminal("harness x", f"  FATAL a<b & \"c\"\n{'-' * 2 * COLUMNS}\n  cosmetic d: e"))
    lines = ["".join(row.itertext()) for row in root.iter(f"{SVG}text")]
    assert lines == ["$ harness x", '  FATAL a<b & "c"', "-" * COLUMNS, "  cosmetic d: e"]
    marked = {span.text: span.get("class") for span in root.iter(f"{SVG}tspan")}
    assert marked == {"$ harness x": "prompt", "FATAL": "fatal", "  cosmetic d: e": "faint"}
