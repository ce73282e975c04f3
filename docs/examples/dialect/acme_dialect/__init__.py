"""Acme's talk protocol as a dialect of sse-harness: payloads named by `t`, and BYE at the end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.events import Event, Finish, Start, Text, ToolCall, Unknown, Usage
from harness.plugin import (
    ASKED_ROWS,
    C,
    Convention,
    Dialect,
    F,
    Facts,
    Plugin,
    Rule,
    as_string,
    as_text,
    integer,
)
from harness.sse import ServerSentEvent

FINISH = {"done": "stop", "cut": "length", "calls": "tool_calls"}


class Acme(Dialect):
    """One method reads a payload. It must cope with whatever a server may send."""

    name = "acme"
    marker = b"BYE"

    def __init__(self) -> None:
        super().__init__()
        self.calls: dict[int, tuple[int, str]] = {}  # by `n`: our number of the call, and its id
        self.opened = 0

    def read(self, payload: Any, sse: ServerSentEvent, out: list[Event]) -> None:
        at, length = sse.at, sse.length
        get = payload.get if isinstance(payload, dict) else {}.get
        kind = get("t")
        if kind == "open":
            out.append(Start(as_string(get("id")), as_string(get("model")), None, at, length))
        elif kind == "say":
            out.append(Text(0, as_string(get("s")) or "", False, at, length))
        elif kind == "call":
            self.call(payload, at, length, out)
        elif kind == "close":
            why = as_string(get("why")) or ""
            self.finished = True
            out.append(Finish(0, FINISH.get(why, "other"), why, at, length))
            if "in" in payload or "out" in payload:  # only where a count was sent
                out.append(Usage(integer(get("in")), integer(get("out")), payload, at, length))
        elif kind == "fail":
            self.fail(payload, sse, out)  # finds type, code and message; nothing counts after it
        else:
            out.append(Unknown(as_string(kind) or "payload", payload, at, length))

    def call(self, payload: dict[str, Any], at: int, length: int, out: list[Event]) -> None:
        """A piece goes to the call of its `n`; a new id under a known `n` opens a call all the same."""
        call_id, name, number = as_string(payload.get("id")), as_string(payload.get("name")), integer(payload.get("n"))
        if number is None:
            self.notes.add("tool.index-missing", at, length)
        key = -1 if number is None else number
        index, known = self.calls.get(key, (self.opened, ""))
        if call_id and known and call_id != known:
            self.notes.add("tool.index-reused", at, length, f"index {key}: {known!r}, {call_id!r}")
            index = self.opened
        self.opened = max(self.opened, index + 1)
        self.calls[key] = (index, call_id or known)
        arguments = payload.get("args")
        if arguments is not None and not isinstance(arguments, str):
            self.notes.add("tool.arguments-object", at, length)
            arguments = as_text(arguments)
        out.append(ToolCall(0, index, number, call_id, name, arguments, False, at, length))


class AcmeFacts(Facts):
    """What this dialect has to tell beside framing, end, errors, text and calls, which are told of all."""

    documented_finish = frozenset(FINISH)

    def chunk(self, payload: dict[str, Any], sse: ServerSentEvent, events: list[Event]) -> None:
        place = (sse.at, sse.length)
        if self.payloads == 1 and payload.get("t") != "open":
            self.note("acme.open-missing", *place, as_string(payload.get("t")) or "no t")
        if "mood" in payload:
            self.fact("acme.mood", True, place)


PLUGIN = Plugin(
    dialect=Acme,
    facts=AcmeFacts,
    rules=[
        Rule("acme.open-missing", F, "note", "the talk begins with {detail}, not with open; its client hangs up",
             "have the server send open first"),
        Rule("acme.mood", C, "diff", "pieces carry a mood on one side only; readers are told to ignore it",
             "ignore it", path="acme.mood"),
    ],
    convention=Convention(path="/talk", auth="header:x-acme-key"),
    asked=replace(ASKED_ROWS["anthropic"], said=("turns",)),  # a request looks like Anthropic's, but for `turns`
    requests=Path(__file__).parent / "requests",
)  # fmt: skip
