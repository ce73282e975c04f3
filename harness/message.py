"""Fold events to a Message: what they add up to (contract: DESIGN, "Reading, and the message"; cases/README).

Pieces are collected and joined once. Text is never trimmed, deduplicated or rewritten. Ids are never made up.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from harness.events import Audio, End, Error, Event, Finish, Note, Reasoning, Refusal, Text, ToolCall, Usage
from harness.growing import joined_unless_same

_RAW_DECODER = json.JSONDecoder()


class Call(msgspec.Struct, kw_only=True):
    """A call the application must answer. `id` and `name` are "" where none was sent; `arguments` is never repaired."""

    index: int
    id: str
    name: str
    arguments: str
    type: str = "function"


class Choice(msgspec.Struct, kw_only=True):
    """What one choice adds up to. `finish_reason` is normalised, `finish_raw` the last non-empty one as sent."""

    choice: int
    text: str = ""
    reasoning: str = ""
    refusal: str | None = None
    tool_calls: list[Call] = []
    finish_reason: str | None = None
    finish_raw: str | None = None


class TokenCounts(msgspec.Struct, kw_only=True):
    """The last value sent for each count, null if none was."""

    input_tokens: int | None
    output_tokens: int | None


class Failure(msgspec.Struct, kw_only=True):
    """The error that was read, fields as sent, null where not."""

    type: Any
    code: Any
    message: Any


class Message(msgspec.Struct, kw_only=True):
    """What a stream adds up to: choice 0 at the top, every choice in `choices` (JSON contract of `harness show`).

    `terminal`: error | done | finish | truncated. `finish_reason` is normalised, `finish_raw` as it was sent. Pieces
    are joined, never trimmed or repaired; ids are never made up. `usage` counts tokens.
    """

    text: str = ""
    reasoning: str = ""
    refusal: str | None = None
    tool_calls: list[Call] = []
    finish_reason: str | None = None
    finish_raw: str | None = None
    terminal: str = "truncated"
    usage: TokenCounts | None = None
    error: Failure | None = None
    choices: list[Choice] = []
    notes: list[Note] = []


def heal(text: str) -> str:
    """Join the two halves of a character that came in two deltas; a half that stays alone is kept as it is."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return text


RUN = 1024  # fragments of one call: those that bring arguments alone are joined then, if nobody keeps the events
MANY = 4096  # pieces: joined then, since a piece of a word or two takes ten times its length as a string of its own


class _Channel:
    """Pieces of one channel of one choice, by item, in order of the items' first appearance."""

    __slots__ = ("by_key", "joined_so_far", "key", "pieces")

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.joined_so_far = 0  # the first pieces of the list, long ones that are not joined again
        self.key: str | int | None = None
        self.by_key: dict[str | int | None, list[str]] = {None: self.pieces}

    def add(self, event: Text | Reasoning | Refusal) -> None:
        if event.key != self.key:
            self.key = event.key
            self.pieces = self.by_key.setdefault(event.key, [])
            self.joined_so_far = len(self.pieces)
        if event.whole:
            self.pieces.clear()
            self.joined_so_far = 0
        self.pieces.append(event.text)
        if len(self.pieces) - self.joined_so_far > MANY:
            self.join()

    def join(self) -> None:
        """Make one of the pieces that came since the last time."""
        start = self.joined_so_far
        self.pieces[start:] = ["".join(self.pieces[start:])]
        self.joined_so_far = start + 1

    def joined(self) -> str:
        return heal("".join([piece for pieces in self.by_key.values() for piece in pieces]))


class Run(ToolCall, gc=False):
    """Fragments in a row that bring arguments alone, as one; `at` and `length` are those of the last."""

    parts: array[int] = array("Q")  # of each: characters, at, length

    def split(self) -> Iterator[ToolCall]:
        """The fragments."""
        start, text = 0, self.arguments or ""
        for size, at, length in zip(*(self.parts[first::3] for first in range(3)), strict=True):
            piece = text[start : start + size]
            yield ToolCall(self.choice, self.index, self.wire_index, None, None, piece, False, at, length, self.type)
            start += size


def _join_run(fragments: list[ToolCall]) -> None:
    """Make one of the fragments at the end that bring nothing but arguments; the first of the call stays as it is."""
    start = len(fragments)
    while start > 1 and _is_plain(fragments[start - 1]):
        start -= 1
    run = fragments[start:]
    if len(run) > 1:
        parts = array("Q", [number for one in run for number in (len(one.arguments or ""), one.at, one.length)])
        last, text = run[-1], "".join([one.arguments for one in run if one.arguments])
        wire, at, length = last.wire_index, last.at, last.length
        fragments[start:] = [Run(last.choice, last.index, wire, None, None, text, False, at, length, last.type, parts)]


def _is_plain(fragment: ToolCall) -> bool:
    return type(fragment) is ToolCall and not (fragment.id or fragment.name or fragment.whole)


class _ChoiceFold:
    __slots__ = ("calls", "finish_raw", "finish_reason", "reasoning", "refusal", "refused", "text")

    def __init__(self) -> None:
        self.text = _Channel()
        self.reasoning = _Channel()
        self.refusal = _Channel()
        self.refused = False
        self.calls: dict[int, list[ToolCall]] = {}
        self.finish_reason: str | None = None
        self.finish_raw: str | None = None


class MessageFold:
    """Takes events in order; `finish()` once, then `message()`. If nobody else keeps them, it joins what it can."""

    def __init__(self) -> None:
        self.kept = True  # by the caller: they get their final index from `finish`
        self.choices: dict[int, _ChoiceFold] = {}
        self.usage: TokenCounts | None = None
        self.error: Failure | None = None
        self.ended = False
        self.finished = False

    def extend(self, events: Iterable[Event]) -> None:
        """Fold the events in."""
        choices, channel, kept = self.choices, None, self.kept
        for event in events:
            kind = type(event)
            if kind is Text:
                fold = choices.get(event.choice)  # type: ignore[union-attr]
                if fold is None:
                    fold = choices[event.choice] = _ChoiceFold()  # type: ignore[union-attr]
                channel = fold.text
                if event.key is channel.key and not event.whole:  # type: ignore[union-attr]
                    channel.pieces.append(event.text)  # type: ignore[union-attr]
                else:
                    channel.add(event)  # type: ignore[arg-type]
            elif kind is ToolCall or kind is Reasoning or kind is Refusal or kind is Finish:
                fold = choices.get(event.choice)  # type: ignore[union-attr]
                if fold is None:
                    fold = choices[event.choice] = _ChoiceFold()  # type: ignore[union-attr]
                if kind is ToolCall:
                    fragments = fold.calls.get(event.index)  # type: ignore[union-attr]
                    if fragments is None:
                        fragments = fold.calls[event.index] = []  # type: ignore[union-attr]
                    fragments.append(event)  # type: ignore[arg-type]
                    if not kept and len(fragments) % RUN == 0:
                        _join_run(fragments)
                elif kind is Reasoning:
                    fold.reasoning.add(event)  # type: ignore[arg-type]
                elif kind is Refusal:
                    fold.refused = True
                    fold.refusal.add(event)  # type: ignore[arg-type]
                else:
                    self.finished = True
                    fold.finish_reason, fold.finish_raw = event.reason, event.raw  # type: ignore[union-attr]
            else:
                self._rare(event)
        if channel is not None and len(channel.pieces) - channel.joined_so_far > MANY:
            channel.join()

    def _rare(self, event: Event) -> None:
        if isinstance(event, Usage):
            if event.input_tokens is None and event.output_tokens is None:
                return
            now = self.usage or TokenCounts(input_tokens=None, output_tokens=None)
            self.usage = TokenCounts(
                input_tokens=now.input_tokens if event.input_tokens is None else event.input_tokens,
                output_tokens=now.output_tokens if event.output_tokens is None else event.output_tokens,
            )
        elif isinstance(event, Error):
            if self.error is None:
                self.error = Failure(type=event.type, code=event.code, message=event.message)
        elif isinstance(event, End):
            self.ended = True
        elif isinstance(event, Audio) and event.choice not in self.choices:
            self.choices[event.choice] = _ChoiceFold()

    def finish(self) -> None:
        """The stream has ended: number the calls 0, 1, 2 ... by wire index, then by appearance."""
        for fold in self.choices.values():
            order = sorted(fold.calls.values(), key=_wire_order)
            if [fragments[0].index for fragments in order] != list(range(len(order))):
                for index, fragments in enumerate(order):
                    for fragment in fragments:
                        fragment.index = index
            fold.calls = dict(enumerate(order))

    def message(self, notes: Sequence[Note] = ()) -> Message:
        """The message so far; after `finish()`, the message."""
        found = [_choice(number, fold) for number, fold in sorted(self.choices.items())]
        first = next((choice for choice in found if choice.choice == 0), None) or Choice(choice=0)
        if self.error is not None:
            terminal = "error"
        elif self.ended:
            terminal = "done"
        else:
            terminal = "finish" if self.finished else "truncated"
        return Message(
            text=first.text, reasoning=first.reasoning, refusal=first.refusal, tool_calls=first.tool_calls,
            finish_reason=first.finish_reason, finish_raw=first.finish_raw, terminal=terminal, usage=self.usage,
            error=self.error, choices=found, notes=list(notes),
        )  # fmt: skip


def _wire_order(fragments: list[ToolCall]) -> tuple[bool, int]:
    """Sort key: calls with a numeric wire index by it, before those without; sorting is stable for the rest."""
    wire = fragments[0].wire_index
    numbered = type(wire) is int
    return (not numbered, wire if numbered else 0)


def _choice(number: int, fold: _ChoiceFold) -> Choice:
    calls = [
        Call(index=index, id=first_id(fragments), name=joined_name(fragments), type=fragments[0].type,
             arguments=join_arguments(fragments)[0])
        for index, fragments in sorted(fold.calls.items())
    ]  # fmt: skip
    return Choice(
        choice=number, text=fold.text.joined(), reasoning=fold.reasoning.joined(),
        refusal=fold.refusal.joined() if fold.refused else None, tool_calls=calls,
        finish_reason=fold.finish_reason, finish_raw=fold.finish_raw,
    )  # fmt: skip


def first_id(fragments: Iterable[ToolCall]) -> str:
    """The first non-empty id sent, else "" (SEEDS A: the id is sacred)."""
    return next((fragment.id for fragment in fragments if fragment.id), "")


def joined_name(fragments: Iterable[ToolCall]) -> str:
    """Name pieces joined; a piece equal to the whole name so far is a repeat (case 024)."""
    named = [fragment for fragment in fragments if fragment.name]
    start = next((i for i in range(len(named) - 1, -1, -1) if named[i].whole), 0)
    return joined_unless_same([fragment.name or "" for fragment in named[start:]])


def join_arguments(fragments: Sequence[ToolCall]) -> tuple[str, ToolCall | None]:
    """The arguments' text, and the fragment that goes on after the JSON value was complete (or None).

    A complete value sent once more is a repeat and counts once (case 028); anything else that follows is kept.
    """
    start = next((i for i in range(len(fragments) - 1, -1, -1) if fragments[i].whole and fragments[i].arguments), 0)
    fragments = fragments[start:]
    joined = "".join([fragment.arguments for fragment in fragments if fragment.arguments])
    if fragments and fragments[0].type == "custom":
        return heal(joined), None
    end = complete_at(joined)
    if end is None or not joined[end:].strip():
        return heal(joined), None
    seen, culprit = 0, fragments[-1]
    for fragment in fragments:
        before, seen = seen, seen + len(fragment.arguments or "")
        if seen > end and joined[end:seen].strip():
            culprit = fragment
            if isinstance(fragment, Run):
                for culprit in fragment.split():
                    before += len(culprit.arguments or "")
                    if before > end and joined[end:before].strip():
                        break
            break
    value, rest = joined[:end], joined[end:].strip()
    while rest.startswith(value.strip()):
        rest = rest[len(value.strip()) :].strip()
    return heal(joined if rest else value), culprit


def complete_at(text: str) -> int | None:
    """Where the first JSON object or array in the text ends; None if it does not (yet), or is something else."""
    start = len(text) - len(text.lstrip())
    if text[start : start + 1] not in ("{", "["):
        return None
    try:
        return _RAW_DECODER.raw_decode(text, start)[1]
    except (ValueError, RecursionError):
        return None
