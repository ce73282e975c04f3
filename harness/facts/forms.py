"""Chunks of a form that was seen before: their facts are known, so only what counts must be counted.

Nearly all chunks of a chat stream differ in a piece of text alone. The form of a chunk is all of it that its facts
depend on: the members there are, the types of those whose type matters, the values of those whose value does, and what
was seen of the choice before. A second chunk of a form changes nothing but counters (tests/test_facts_forms.py holds it
against the long way). What has no form here goes the long way each time: several choices or events, a finish, usage, an
opened call, a text that may still be one that grows.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from harness.dialects.chat import REASONING_NAMES
from harness.events import Event, Reasoning, Text, ToolCall
from harness.facts.base import Facts
from harness.facts.marks import SURROGATE, whole_seconds
from harness.sse import ServerSentEvent

MOST = 64  # forms that are kept; a stream with more has no form to speak of, as one with another id in each chunk

_DELTA = frozenset({"role", "content", "tool_calls", "refusal", *REASONING_NAMES})


class ChoiceFacts:
    """What one choice has shown so far."""

    __slots__ = ("calls", "deltas", "finish", "growing", "last_text", "longest", "roles", "unset_roles", "wires")

    def __init__(self) -> None:
        self.deltas = 0
        self.roles: list[int] = []  # numbers of the deltas that had a role, at most three are kept
        self.unset_roles: set[str] = set()
        self.finish: str | None = None
        self.last_text = ""
        self.growing = 0  # deltas in a row that repeat all before them; -1 once one did not
        self.calls: dict[int, dict[str, Any]] = {}
        self.wires: list[Any] = []


class ChunkFacts(Facts):
    """Facts of chunks, of which most have a form that was seen before."""

    def __init__(self) -> None:
        super().__init__()
        self.choices: dict[int, ChoiceFacts] = {}
        self.chunks = 0
        self.objects = {"documented": 0, "other": 0, "missing": 0}  # chunks by what their `object` says
        self.usage_null = 0
        # The forms that were seen, and which of `objects` each counts for. None: all chunks go the long way.
        self.forms: dict[Hashable, str] | None = None

    def payload(self, payload: Any, sse: ServerSentEvent, events: list[Event], via: str) -> None:
        """One decoded payload, with the events it gave: what it changes, if its form was seen before."""
        found = form_of(self.choices, payload, events) if self.forms is not None and via == "data" else None
        if self.forms is None or found is None:
            super().payload(payload, sse, events, via)
            return
        form, choice, call = found
        try:
            counts_as = self.forms.get(form)
        except TypeError:  # a list or an object where a name is expected
            super().payload(payload, sse, events, via)
            return
        event: Any = events[0]
        text: str = event.text if call < 0 else event.arguments
        if counts_as is None or not (text.isascii() or SURROGATE.search(text) is None):
            before = dict(self.objects)
            super().payload(payload, sse, events, via)
            if len(self.forms) >= MOST:
                self.forms = None
            else:
                self.forms[form] = next(name for name, count in self.objects.items() if count != before[name])
            return
        self.payloads += 1
        if sse.event:
            self.named += 1
        self.last_at = sse.at
        if self.stops is not None and type(event) is Text and not event.choice:
            self.stops.add(event, (sse.at, sse.length))
        self.chunks += 1
        self.objects[counts_as] += 1
        if "usage" in payload:
            self.usage_null += 1
        choice.deltas += 1
        if call >= 0:
            known = choice.calls[call]
            known["deltas"] += 1
            known["fragments"] += 1


def form_of(
    choices_seen: dict[int, ChoiceFacts], payload: Any, events: list[Event]
) -> tuple[Hashable, ChoiceFacts, int] | None:  # fmt: skip
    """The form of a chunk, its choice, and the index of the call it continues (-1: none). None if it has no form."""
    if len(events) != 1 or type(payload) is not dict:
        return None
    event, choices, usage = events[0], payload.get("choices"), payload.get("usage")
    if usage or type(choices) is not list or len(choices) != 1 or "x_groq" in payload:
        return None
    choice = choices[0]
    if type(choice) is not dict or "message" in choice or "usage" in choice:
        return None
    number, delta, kind = choice.get("index"), choice.get("delta"), type(event)
    if type(number) is not int or type(delta) is not dict:
        return None
    seen = choices_seen.get(number)
    finish = choice.get("finish_reason")
    if seen is None or not seen.deltas or finish:
        return None
    call = -1
    what: Hashable
    if kind is Text:
        if seen.growing >= 0:
            return None
    elif kind is ToolCall:
        entries = delta.get("tool_calls")
        if type(entries) is not list or len(entries) != 1 or type(entries[0]) is not dict or len(entries[0]) != 2:
            return None
        body, call = entries[0].get("function"), event.index  # type: ignore[union-attr]
        if (
            type(entries[0].get("index")) is not int or type(body) is not dict or len(body) != 1
            or type(body.get("arguments")) is not str or call not in seen.calls
        ):  # fmt: skip
            return None
    elif kind is not Reasoning:
        return None
    if event.choice != number:  # type: ignore[union-attr]
        return None
    if len(delta) == 1:
        name, value = next(iter(delta.items()))
        what = name, type(value), not value
    else:
        what = tuple([(name, type(value), not value) for name, value in delta.items()])
    if not _DELTA.issuperset(delta):
        return None
    return (
        payload.get("id"), payload.get("model"), payload.get("object"), whole_seconds(payload.get("created", 0)),
        kind, number, what, tuple(choice), finish, not choice.get("logprobs"), seen.finish is None, len(seen.roles),
    ), seen, call  # fmt: skip
