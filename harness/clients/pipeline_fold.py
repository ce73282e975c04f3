"""The fold at the end of the pipeline (pipeline.py): facts of any dialect to message JSON.

One table says how the values of a channel come together: pieces are collected, the first or last value stays.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

Place = tuple[Any, ...]
Where = tuple[int, str, Place]  # choice, channel, place


class Fact(NamedTuple):
    """One thing a payload says. `place` tells apart what is joined by itself, and orders it.

    With `whole` the value replaces what stands at its place, unless it is empty.
    """

    channel: str
    value: Any
    place: Place = ()
    choice: int = 0
    whole: bool = False


JOINED = ("text", "reasoning", "refusal", "arguments", "name")
LAST = ("finish", "input_tokens", "output_tokens", "end")
NORMAL = {
    "stop": "stop", "end_turn": "stop", "stop_sequence": "stop", "STOP": "stop", "completed": "stop", "eos": "stop",
    "length": "length", "max_tokens": "length", "MAX_TOKENS": "length", "max_output_tokens": "length",
    "tool_calls": "tool_calls", "tool_use": "tool_calls", "function_call": "tool_calls",
    "content_filter": "content_filter", "SAFETY": "content_filter", "RECITATION": "content_filter",
    "refusal": "content_filter", "error": "error", "failed": "error", "MALFORMED_FUNCTION_CALL": "error",
}  # fmt: skip


class Fold:
    """Takes facts, gives a message. `reasons_name_tools`: a finish reason of its own says that there are calls."""

    def __init__(self, reasons_name_tools: bool) -> None:
        self.reasons_name_tools = reasons_name_tools
        self.pieces: dict[Where, list[str]] = {}
        self.values: dict[Where, Any] = {}

    def take(self, fact: Fact) -> None:
        """One more fact."""
        where, value = (fact.choice, fact.channel, fact.place), fact.value
        if fact.channel in JOINED:
            if isinstance(value, str) and (value or not fact.whole):
                pieces = self.pieces.setdefault(where, [])
                if fact.whole:
                    pieces.clear()
                pieces.append(value)
        elif value not in (None, "") and (fact.channel in LAST or where not in self.values):
            self.values[where] = value
        if fact.channel == "id":
            self.pieces.setdefault((fact.choice, "arguments", fact.place), [])

    def joined(self, choice: int, channel: str) -> str:
        """A channel's places in order, each with its pieces."""
        found = sorted(where for where in self.pieces if where[:2] == (choice, channel))
        return _characters([piece for where in found for piece in self.pieces[where]])

    def message(self) -> dict[str, Any]:
        """Message JSON."""
        numbers = {0} | {choice for choice, *_ in [*self.pieces, *self.values]}
        choices = [self.choice(number) for number in sorted(numbers)]
        usage = {name: self.values.get((0, name, ())) for name in ("input_tokens", "output_tokens")}
        error = self.values.get((0, "error", ()))
        finished = any(choice["finish_raw"] for choice in choices)
        terminal = "done" if (0, "end", ()) in self.values else "finish" if finished else "truncated"
        return {
            **next(choice for choice in choices if choice["choice"] == 0), "choices": choices,
            "usage": usage if any(value is not None for value in usage.values()) else None, "error": error,
            "terminal": "error" if error else terminal,
        }  # fmt: skip

    def choice(self, number: int) -> dict[str, Any]:
        """One choice."""
        places = sorted(place for choice, channel, place in self.pieces if (choice, channel) == (number, "arguments"))
        raw = self.values.get((number, "finish", ()))
        reason = None if raw is None else NORMAL.get(raw, "other")
        if reason == "stop" and places and not self.reasons_name_tools:
            reason = "tool_calls"
        return {
            "choice": number, **{name: self.joined(number, name) for name in ("text", "reasoning", "refusal")},
            "tool_calls": [{"index": index, **self.call(number, place)} for index, place in enumerate(places)],
            "finish_reason": reason, "finish_raw": raw,
        }  # fmt: skip

    def call(self, number: int, place: Place) -> dict[str, Any]:
        """One call: a name or complete arguments sent once more count once."""
        name = ""
        for piece in self.pieces.get((number, "name", place), []):
            name = name if piece == name else name + piece
        *before, last = self.pieces[number, "arguments", place] or [""]
        arguments = _characters(before)
        if last != arguments or not _parses(arguments):
            arguments = _characters([*before, last])
        default = self.values.get((number, "default", place), "")
        return {"id": self.values.get((number, "id", place), ""), "name": name, "arguments": arguments or default}


def _parses(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _characters(pieces: list[str]) -> str:
    """The pieces joined, UTF-16 as JSON is: halves of a character that now stand side by side are one."""
    units = b"".join(piece.encode("utf-16-be", "surrogatepass") for piece in pieces)
    return units.decode("utf-16-be", "surrogatepass")
