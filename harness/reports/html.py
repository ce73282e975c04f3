"""Pages: self-contained HTML for reports. No network, no fonts, no images; light and dark; filters; prints well.

Nothing that a server, a model or a user wrote can become markup: text is escaped where it enters the page, by `tag`,
and control characters come out as visible escapes. A policy in the page allows its own style and script and nothing
else, so that what gets past the escaping still cannot run or call out. Without JavaScript everything is shown.

    tag("p", "told by ", tag("b", name), class_="note")        one element; children are text unless they are Markup
    page("Title", tag("p", ...), filter_bar([...]), ...)       the whole document

Filters (page.js): an element with `data-item` is shown while, for each filter with a choice, it or something in it
has that value: `data-severity="fatal"` for a filter named "severity". A filter that `hides` works on columns: a `th`
with `data-client="x"` and its column are shown while x is chosen, and what is hidden has no say in other filters.
With `data-aside` an item follows the filters that hide, and no other. A `data-group` without a shown item is hidden.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import msgspec

from harness.reports.text import clean

HERE = Path(__file__).resolve().parent
VOID = frozenset(("br", "hr", "input", "link", "meta", "wbr"))
_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9-]*")
_LINK = re.compile(r"(https?://|#)", re.IGNORECASE)


class Markup(str):
    """HTML that goes into a page as it is. Only `tag` and `page` make it."""

    __slots__ = ()


Node = Markup | str | int | None | Iterable["Node"]
"""A child: Markup as it is, text and numbers escaped, None nothing, and lists of these."""


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """One value of a filter. `mark` is a short sign before the label; `kind` colours it, as `badge` does."""

    value: str
    label: str
    mark: str = ""
    kind: str = ""
    about: str = ""


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """A filter by one attribute, `data-<name>`. `hides`: it works on columns (see above). `folded`: closed at first."""

    name: str
    label: str
    options: Sequence[Option]
    hides: bool = False
    folded: bool = False


def tag(element: str, /, *children: Node, **attributes: str | int | bool | None) -> Markup:
    """An element. `class_` is the attribute class, `data_x` data-x; None and False leave one out, True is bare.

    Raises ValueError for a name that is none, and for a link that is neither http(s) nor within the page.
    """
    parts = [element]
    for key, value in attributes.items():
        name = key.rstrip("_").replace("_", "-")
        if not _NAME.fullmatch(name) or name.lower().startswith("on") or name.lower() == "style":
            raise ValueError(f"attribute {name!r}: the page's policy lets it do nothing")
        if value is None or value is False:
            continue
        if name in ("href", "src") and not _LINK.match(str(value)):
            raise ValueError(f"link {value!r}: must be http(s) or #")
        parts.append(name if value is True else f'{name}="{_escaped(str(value))}"')
    if not _NAME.fullmatch(element):
        raise ValueError(f"element {element!r}: is no name")
    inner = "".join(_inner(children))
    return Markup(f"<{' '.join(parts)}>" if element in VOID else f"<{' '.join(parts)}>{inner}</{element}>")


def _inner(nodes: Iterable[Node]) -> Iterable[str]:
    for node in nodes:
        if isinstance(node, Markup):
            yield node
        elif isinstance(node, str | int):
            yield _escaped(str(node))
        elif node is not None:
            yield from _inner(node)


def _escaped(text: str) -> str:
    return html.escape(clean(text), quote=True)


def page(title: str, *body: Node, about: Node = None) -> str:
    """The document. `about` stands under the title."""
    style, script = _asset("page.css"), _asset("page.js")
    own = f"style-src {_digest(style)}; script-src {_digest(script)}"
    policy = f"default-src 'none'; {own}; base-uri 'none'; form-action 'none'"
    head = tag(
        "head", tag("meta", charset="utf-8"), tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"), tag("title", title), tag("style", Markup(style)),
    )  # fmt: skip
    top = tag("header", tag("h1", title), tag("p", about, class_="about") if about is not None else None)
    content = tag("body", top, tag("main", *body), _note_panel(), tag("script", Markup(script)))
    return f"<!doctype html>\n{tag('html', head, content, lang='en')}\n"


@cache
def _asset(name: str) -> str:
    return (HERE / name).read_text("utf-8")


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _note_panel() -> Markup:
    """Where page.js shows the note of a button with `data-note`."""
    return tag(
        "aside", tag("h2", id="note-title"), tag("button", "Close", type="button", id="note-close"),
        tag("pre", id="note-text"), id="note", hidden=True, aria_live="polite",
    )  # fmt: skip


def badge(text: str, kind: str = "") -> Markup:
    """A small coloured label. `kind` is a severity, an outcome of a gate or of a case, or "" for none of these."""
    return tag("span", text, class_=f"badge {kind or 'plain'}")


def prose(text: str) -> list[Node]:
    """A sentence with its `code` set as code."""
    return [tag("code", part) if number % 2 else part for number, part in enumerate(text.split("`"))]


def facts(pairs: Iterable[tuple[str, Node]]) -> Markup:
    """What the report is about, as names and values."""
    return tag("dl", [tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs], class_="facts")


def table(
    head: Sequence[Node], rows: Iterable[Node], *, kind: str = "", caption: str = "", low: bool = False
) -> Markup:  # fmt: skip
    """A table that scrolls by itself. `head` are the cells of its head, `th` elements or text; `rows` are `tr`s.

    `low`: one that stands above what matters, and takes a part of the window only.
    """
    cells = [cell if isinstance(cell, Markup) else tag("th", cell, scope="col") for cell in head]
    label = caption or None
    inner = tag("table", tag("thead", tag("tr", cells)), tag("tbody", rows), class_=kind or None, aria_label=label)
    return tag("div", inner, class_="scroll low" if low else "scroll", tabindex=0, role="region", aria_label=label)


def note_button(text: str, *, title: str, note: str, **attributes: str | int | bool | None) -> Markup:
    """A button that shows a note: what there is to say about a cell. Without JavaScript the note is its tooltip."""
    return tag("button", text, type="button", title=f"{title}\n{note}", data_note=note, data_title=title, **attributes)


def code(text: str) -> Markup:
    """Bytes or a command line, lines kept."""
    return tag("pre", tag("code", text))


def bar(parts: Iterable[tuple[str, int]], label: str) -> Markup:
    """Shares of a whole as one stacked bar: (kind, count) from left to right."""
    counted = [(kind, count) for kind, count in parts if count]
    total = sum(count for _, count in counted) or 1
    rects, at = [], 0
    for kind, count in counted:
        width = max(round(1000 * count / total), 1)
        rects.append(tag("rect", x=at, y=0, width=width, height=10, class_=kind))
        at += width
    box = f"0 0 {max(at, 1)} 10"
    return tag("svg", rects, viewBox=box, preserveAspectRatio="none", role="img", aria_label=label, class_="bar")


def filter_bar(filters: Sequence[Filter], *, search: str = "", unit: str = "rows") -> Markup:
    """The filters of the page, hidden until page.js runs. `search` is the label of a field that finds text in items."""
    groups = [_filter(one) for one in filters if one.options]
    if search:
        groups.append(tag("label", search, tag("input", type="search", id="search", autocomplete="off"), class_="find"))
    shown = tag("output", id="shown", data_unit=unit)
    clear = tag("button", "Show all", type="button", id="clear")
    return tag("form", groups, tag("p", shown, clear, class_="shown"), class_="filters", id="filters", hidden=True)


def _filter(one: Filter) -> Markup:
    buttons = [
        tag(
            "button", tag("span", option.mark, class_=f"mark {option.kind}") if option.mark else None,
            option.label, type="button", title=option.about or None, aria_pressed="false",
            data_filter=one.name, data_value=option.value, data_hides=one.hides,
        )
        for option in one.options
    ]  # fmt: skip
    if one.folded:
        summary = tag("summary", one.label, tag("span", data_chosen=one.name))
        return tag("details", summary, tag("div", buttons, class_="options"), class_="filter")
    label = f"filter-{one.name}"
    return tag("div", tag("span", one.label, id=label), tag("div", buttons, class_="options"), class_="filter",
               role="group", aria_labelledby=label)  # fmt: skip


def legend(options: Iterable[Option]) -> Markup:
    """What the marks mean."""
    return tag("dl", [
        tag("div", tag("dt", tag("span", option.mark, class_=f"mark {option.kind}"), option.label),
            tag("dd", option.about))
        for option in options
    ], class_="legend")  # fmt: skip
