"""YAML as plain values, from a file that nobody vouches for: no tags that make objects, no recursion, within limits.

Built from the parser's events, so depth costs no stack. An alias shares what it stands for, and counts as often as it
is used: a bomb of aliases is refused while it is small.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any

import yaml

from harness.errors import UsageError

MAX_DEPTH = 60
MAX_NODES = 2_000_000  # aliases counted as often as they are used

_INT = re.compile(r"[-+]?(0|[1-9][0-9]{0,17})")
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLS = {"true": True, "True": True, "false": False, "False": False}


def yaml_value(data: bytes, name: str) -> Any:
    """The first document: dicts with text keys, lists, text, whole numbers, true, false, null, and `!!binary` bytes.

    Any other tag, those of Python objects too, is passed over: its value comes as plain data. Raises UsageError.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise UsageError(f"{name}: byte {exc.start} is no UTF-8; a cassette is text, with !!binary for bytes") from exc
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return _Builder(name).build(yaml.parse(text, Loader=loader))
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        where = f"line {mark.line + 1}: " if mark else ""
        raise UsageError(f"{name}: {where}{' '.join((exc.problem or 'is not YAML').split())}") from exc
    except yaml.YAMLError as exc:
        raise UsageError(f"{name}: is not YAML: {' '.join(str(exc).split())[:200]}") from exc


class _Open:
    """A collection being built. `key` waits for its value; `size` counts nodes, aliases with what they stand for."""

    __slots__ = ("anchor", "items", "key", "pairs", "size")

    def __init__(self, anchor: str | None, mapping: bool) -> None:
        self.anchor = anchor
        self.pairs: dict[str, Any] | None = {} if mapping else None
        self.items: list[Any] = []
        self.key: str | None = None
        self.size = 1


class _Builder:
    def __init__(self, name: str) -> None:
        self.name = name
        self.stack: list[_Open] = []
        self.anchors: dict[str, tuple[Any, int]] = {}  # value and size

    def build(self, events: Any) -> Any:
        for event in events:
            kind = type(event)
            if kind is yaml.ScalarEvent:
                done = self.add(self.scalar(event), 1, event.anchor, event)
            elif kind is yaml.AliasEvent:
                if event.anchor not in self.anchors:
                    raise self.error(event, "an alias of what is not there, or of what it stands in")
                value, size = self.anchors[event.anchor]
                done = self.add(value, size, None, event)
            elif kind in (yaml.MappingStartEvent, yaml.SequenceStartEvent):
                self.stack.append(_Open(event.anchor, kind is yaml.MappingStartEvent))
                if len(self.stack) > MAX_DEPTH:
                    raise self.error(event, f"nested more than {MAX_DEPTH} deep")
                continue
            elif kind in (yaml.MappingEndEvent, yaml.SequenceEndEvent):
                closed = self.stack.pop()
                value = closed.items if closed.pairs is None else closed.pairs
                done = self.add(value, closed.size, closed.anchor, event)
            else:
                continue
            if done is not None:
                return done[0]
        return None

    def add(self, value: Any, size: int, anchor: str | None, event: Any) -> tuple[Any] | None:
        """Put a finished value where it belongs; it comes back if it is the document."""
        if anchor is not None:
            self.anchors[anchor] = (value, size)
        if not self.stack:
            return (value,)
        place = self.stack[-1]
        place.size += size
        if place.size > MAX_NODES:
            raise self.error(event, f"more than {MAX_NODES} values, aliases counted")
        if place.pairs is None:
            place.items.append(value)
        elif place.key is None:
            place.key = value if isinstance(value, str) else repr(value)[:100]
        else:
            place.pairs[place.key], place.key = value, None
        return None

    def scalar(self, event: Any) -> Any:
        text: str = event.value
        if event.tag in ("!binary", "tag:yaml.org,2002:binary"):
            try:
                return base64.b64decode(re.sub(r"\s", "", text), validate=True)
            except (binascii.Error, ValueError) as exc:
                raise self.error(event, f"!!binary that is no base64 ({exc})") from exc
        if event.style or not event.implicit[0]:  # quoted, a block, or with a tag
            return text
        if text in _NULLS:
            return None
        if _INT.fullmatch(text):
            return int(text)
        return _BOOLS.get(text, text)

    def error(self, event: Any, problem: str) -> UsageError:
        return UsageError(f"{self.name}: line {event.start_mark.line + 1}: {problem}")
