"""Structure: the comparable facts of one stream (DESIGN, "Structure, rules, severity"; RULES, section 1).

A small tree of maps and plain values in two parts: `wire` is compared, `behaviour` is what the model chose. Sets are
maps to true. Wording, number of deltas, ids, times and cuts leave it as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from harness.asked import Asked
from harness.events import Event, Note
from harness.facts import facts_for
from harness.facts.base import Place
from harness.findings import Severity
from harness.jsontext import as_text
from harness.message import Message, complete_at
from harness.recording import Recording
from harness.reduce import Reducer

STRUCTURE_FORMAT = 1
_WORD = re.compile(r"[A-Za-z][\w.:+/-]*")


class Structure(msgspec.Struct, kw_only=True):
    """The facts of one stream. `where` maps a path below wire to (at, length); `notes` holds the note of each code.

    `grades` are severities that this stream gives a code other than the catalogue's.
    """

    dialect: str
    wire: dict[str, Any]
    behaviour: dict[str, Any]
    where: dict[str, Place]
    notes: dict[str, Note]
    grades: dict[str, Severity]
    size: int
    asked: Asked | None = None

    def get(self, path: str, default: Any = None) -> Any:
        """The value at a dotted path below wire."""
        node: Any = self.wire
        for part in path.split("."):
            if not isinstance(node, dict) or part not in node:
                return default
            node = node[part]
        return node


class Reading(msgspec.Struct, kw_only=True):
    """A recording, read: its message and its structure."""

    message: Message
    structure: Structure


def read(
    recording: Recording, dialect: str, asked: Asked | None = None, events: list[Event] | None = None
) -> Reading:  # fmt: skip
    """Reduce a recording once, in pieces, to message and structure. `events`, if given, receives every event.

    `asked` is what the request asked for: it decides what is owed. Raises UsageError: no such dialect.
    """
    facts = facts_for(dialect)
    facts.expect(asked)
    reducer = Reducer(dialect, facts)
    reducer.fold.kept = events is not None
    for piece in recording.in_pieces():
        found = reducer.feed(piece)
        if events is not None:
            events.extend(found)
    found = reducer.finish()
    if events is not None:
        events.extend(found)
    message = reducer.message()
    facts.close(reducer, message, recording, asked)
    structure = Structure(
        dialect=dialect, wire=facts.tree, behaviour=behaviour_of(message), where=facts.where, notes=facts.notes,
        grades=facts.grades, size=len(recording.body), asked=asked,
    )  # fmt: skip
    return Reading(message=message, structure=structure)


def structure(recording: Recording, dialect: str, asked: Asked | None = None) -> Structure:
    """The structure of a recording."""
    return read(recording, dialect, asked).structure


def behaviour_of(message: Message) -> dict[str, Any]:
    """What the model chose: channels, calls, tools and their argument types. Shown, never a finding by itself."""
    tree: dict[str, Any] = {}
    channels: dict[str, bool] = {}
    calls = 0
    for choice in message.choices:
        for name in ("text", "reasoning", "refusal"):
            if getattr(choice, name):
                channels[name] = True
        for call in choice.tool_calls:
            calls += 1
            tools = tree.setdefault("tools", {}).setdefault(call.name, {})
            end = complete_at(call.arguments)
            decoded = msgspec.json.decode(call.arguments) if end is not None and _plain(call.arguments) else None
            if isinstance(decoded, dict):
                for key, value in decoded.items():
                    tools.setdefault(key, {})[_type(value)] = True
    tree["channels"] = channels
    tree["calls"] = calls
    tree["prose-before-call"] = bool(calls and message.text.strip())
    return tree


def _plain(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return False
    return True


def _type(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    return {str: "string", int: "number", float: "number", dict: "object", list: "array"}.get(type(value), "null")


def lines(tree: dict[str, Any], prefix: str) -> Iterator[str]:
    """One fact a line, `path = value`: a bare word as it is, anything else as JSON (DESIGN, `.expected.json`)."""
    for key in sorted(tree):
        value = tree[key]
        path = f"{prefix}.{key}"
        if isinstance(value, dict) and value:
            yield from lines(value, path)
        elif isinstance(value, str) and _WORD.fullmatch(value) and value not in ("true", "false", "null"):
            yield f"{path} = {value}"
        else:
            yield f"{path} = {as_text(value)}"


def signature(structure: Structure) -> list[str]:
    """All facts of the stream, sorted: what `.expected.json` holds under "structure"."""
    return sorted([*lines(structure.wire, "wire"), *lines(structure.behaviour, "behaviour")])
