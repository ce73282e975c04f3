"""Facts of an Anthropic Messages stream: its blocks, the members its start owes, where the counts are, how it ends.

Source: RULES, sections 1 and 3 (`anthropic.*`). The documented form is "Streaming messages"
(platform.claude.com/docs/en/build-with-claude/streaming); what raises was tried on the accumulators of Anthropic's
Python SDK 2.14 and TypeScript SDK 1.14.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from harness.asked import Asked
from harness.dialects.anthropic import BLOCKS, INPUT_BLOCKS, Anthropic
from harness.dialects.base import JSON_TYPES
from harness.events import Event, Reasoning, Text, ToolCall, Unknown
from harness.facts.base import Place
from harness.facts.counted import CountedFacts
from harness.findings import Severity
from harness.jsontext import as_text
from harness.message import Message
from harness.sse import ServerSentEvent

MEMBERS = ("id", "type", "role", "content", "model")
NULL_MEMBERS = ("stop_reason", "stop_sequence")  # documented as null in message_start
PIECES = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
CARRIERS = Anthropic.event_names - {"ping", "error"}  # events that nobody may lose
HOLDERS = frozenset({"message", "content_block", "delta"})  # members that say what an event is without its type
FORMS = {"absent": "has no", "null": "has null for its"}


class BlockFacts:
    """What one block has shown. `filled`: its input came with its start. `implied`: it was used without a start."""

    __slots__ = ("filled", "implied", "kind", "name", "place", "signed", "stopped")

    def __init__(self, kind: str, name: str, place: Place) -> None:
        self.kind, self.name, self.place = kind, name, place
        self.filled = self.implied = self.signed = self.stopped = False


class AnthropicFacts(CountedFacts):
    """Watches one message."""

    documented_finish: ClassVar[frozenset[str]] = frozenset({
        "end_turn", "stop_sequence", "max_tokens", "model_context_window_exceeded", "tool_use", "refusal", "pause_turn",
        "compaction",
    })  # fmt: skip
    running_total: ClassVar[bool] = True
    base_counters: ClassVar[tuple[str, ...]] = ("input_tokens", "output_tokens")

    def __init__(self) -> None:
        super().__init__()
        self.start = ""  # first, late or "" so far
        self.blocks: dict[Any, BlockFacts] = {}  # by index as sent
        self.open: dict[int, BlockFacts] = {}  # by number of the block
        self.last: BlockFacts | None = None
        self.opened = 0
        self.numbering = "none"
        self.reasoned = False  # a stop reason came: nothing but the end is due
        self.sequence_named = False
        self.delta_place: Place | None = None  # of the message_delta with the reason
        self.output_counted = False
        self.ping = self.text_seen = False

    def end_name(self) -> str:
        return "message_stop"

    def whole_call(self, fragment: ToolCall) -> None:
        """Input that stands in the start of its block: anthropic.input-in-start says so."""

    def chunk(self, payload: dict[str, Any], sse: ServerSentEvent, events: list[Event]) -> None:
        kind = payload.get("type")
        if kind != sse.event:
            kind = self._name(kind, payload, sse)
        if kind == "content_block_delta":
            self._delta(payload, sse, events)
            return
        place = (sse.at, sse.length)
        reader = READERS.get(kind) if type(kind) is str else None
        if reader is not None:
            if not self.start and kind not in ("message_start", "ping"):
                self.note("anthropic.start-missing", *place, f"first comes {kind}")
            reader(self, payload, place)
        for event in events:
            if type(event) is Unknown:
                self.note("anthropic.unknown-event", *place, event.name)

    def _name(self, kind: Any, payload: dict[str, Any], sse: ServerSentEvent) -> Any:
        """The `event:` line and the payload's type do not say the same; returns the type the dialect goes by.

        What is documented under neither name is an unknown event and nothing else: readers are told to ignore it.
        """
        place = (sse.at, sse.length)
        if not kind:
            if sse.event in CARRIERS or (not sse.event and not HOLDERS.isdisjoint(payload)):
                self.note("anthropic.type-missing", *place, sse.event or "without a name")
            return sse.event
        shown = kind if type(kind) is str else as_text(kind)
        if not sse.event:
            # Official readers skip an event without a name, whatever it holds (case 087).
            if shown in CARRIERS:
                self.note("sse.event-name-missing", *place, severity=Severity.FATAL)
        elif shown in CARRIERS or sse.event in CARRIERS:
            self.note("sse.event-name-differs", *place, f"{sse.event}, {shown}")
        return kind

    # -- the message ----------------------------------------------------------------------------------------------

    def _message_start(self, payload: dict[str, Any], place: Place) -> None:
        if self.start:
            self.note("anthropic.start-repeated", *place)
        else:
            self.start = "late" if "anthropic.start-missing" in self.notes else "first"
            self.where["anthropic.start"] = place
        message = payload.get("message")
        if type(message) is not dict:
            self._member("message", payload, place, "message_start", Severity.FATAL)
            return
        for name in MEMBERS:
            # Blocks are appended to `content`: without it official accumulators raise.
            self._member(name, message, place, "the message", Severity.FATAL if name == "content" else None)
        for name in NULL_MEMBERS:
            if name not in message:
                self.note("anthropic.message-members", *place, f"the message has no {name}", Severity.NEGOTIABLE)
        usage = message.get("usage")
        if self.count(usage, place):
            self.member("usage.position", "start", place)
        counts = usage if type(usage) is dict else {}
        if any(counts.get(name) is None for name in self.base_counters):
            missing = [name for name in self.base_counters if counts.get(name) is None]
            self.note("anthropic.usage-start", *place, " and ".join(missing))
        elif counts["input_tokens"] == 0 and not any(
            counts.get(name) for name in ("cache_read_input_tokens", "cache_creation_input_tokens")
        ):
            self.note("anthropic.usage-start-zero", *place)

    def _member(
        self, name: str, holder: dict[str, Any], place: Place, where: str, severity: Severity | None = None
    ) -> None:  # fmt: skip
        """Note a documented member that is absent or null; the worst is told."""
        if holder.get(name) is not None:
            return
        code, severity = "anthropic.message-members", severity or Severity.NEGOTIABLE
        if code in self.notes and severity.rank > self.grades[code].rank:
            del self.notes[code]
        self.note(code, *place, f"{where} {FORMS['null' if name in holder else 'absent']} {name}", severity)

    def _message_delta(self, payload: dict[str, Any], place: Place) -> None:
        delta = payload.get("delta")
        usage = payload.get("usage")
        if self.count(usage, place):
            self.member("usage.position", "delta", place)
        if type(usage) is dict:
            self.fact("usage.input-in-delta", usage.get("input_tokens") is not None, place)
            self.output_counted = self.output_counted or bool(usage.get("output_tokens"))
        if type(delta) is not dict:
            self._member("delta", payload, place, "message_delta", Severity.FATAL)
            return
        reason, sequence = delta.get("stop_reason"), delta.get("stop_sequence")
        if not reason:
            return
        self._unstopped("stopped after the stop reason, or never")
        self.reasoned, self.delta_place = True, place
        self.member("finish.place", "alone", place)
        self.fact("anthropic.stop-sequence-key", "stop_sequence" in delta, place)
        if "stop_sequence" not in delta:
            self.note("anthropic.stop-sequence-key", *place)
        elif sequence and reason != "stop_sequence":
            shown = reason if type(reason) is str else as_text(reason)
            self.note("anthropic.stop-sequence-reason", *place, f"{as_text(sequence)[:40]}, {shown}")
        self.sequence_named = reason == "stop_sequence" or bool(sequence)

    def _message_stop(self, payload: dict[str, Any], place: Place) -> None:
        self._unstopped("never stopped")

    def _ping(self, payload: dict[str, Any], place: Place) -> None:
        if not self.ping:
            self.ping = True
            self.where["anthropic.ping"] = place

    # -- blocks ---------------------------------------------------------------------------------------------------

    def _block_start(self, payload: dict[str, Any], place: Place) -> None:
        content, wire = payload.get("content_block"), payload.get("index")
        if type(content) is not dict:
            self._member("content_block", payload, place, "content_block_start", Severity.FATAL)
            return
        if self.reasoned:
            self.note("finish.content-after", *place)
        name = f"block {as_text(wire)}" if wire is not None else "a block without index"
        if self.open:
            other = next(iter(self.open.values()))
            self.note("anthropic.blocks-overlap", *place, f"{name} starts while {other.name} is open")
        key = _key(wire)
        before = self.blocks.get(key) if wire is not None else None
        if before is not None and not before.implied:
            self.numbering = "reused"  # the dialect notes it
        elif key != self.opened and before is None:
            if self.numbering != "reused":
                self.numbering = "gaps"
            self.note("anthropic.block-index-gap", *place, f"{name} where {self.opened} is due")
        elif self.numbering == "none":
            self.numbering = "dense"
        self.where.setdefault("anthropic.block-index", place)
        kind = content.get("type")
        block = BlockFacts(kind if type(kind) is str else "", name, place)
        self._opened(key, block)
        reader = STARTS.get(block.kind)
        if reader is not None:
            reader(self, content, block, place)
        elif block.kind in BLOCKS and block.kind != "redacted_thinking":
            self.content_seen = True  # the server's own work is an answer that the client must go on from

    def _opened(self, key: Any, block: BlockFacts) -> None:
        self.last = self.blocks[key] = block
        if not block.implied:
            self.open[self.opened] = block
        self.opened += 1

    def _text_start(self, content: dict[str, Any], block: BlockFacts, place: Place) -> None:
        # Pieces are added to the member: without it an official accumulator raises.
        self._member("text", content, place, "a text block", Severity.FATAL)
        if content.get("text"):
            self._text(place)
            self.note("anthropic.text-in-start", *place, as_text(content["text"])[:60])

    def _thinking_start(self, content: dict[str, Any], block: BlockFacts, place: Place) -> None:
        self._member("thinking", content, place, "a thinking block", Severity.FATAL)
        self.member("reasoning.field", "thinking", place)
        block.signed = bool(content.get("signature"))

    def _input_start(self, content: dict[str, Any], block: BlockFacts, place: Place) -> None:
        given = content.get("input")
        form = JSON_TYPES.get(type(given), "other") if "input" in content else "absent"
        if type(given) is dict:
            form = "filled" if given else "empty"
        self.member("anthropic.input", form, place)
        if given is None:
            self.note("anthropic.input-missing", *place, "null" if "input" in content else "absent")
        if block.kind != "tool_use":
            self.content_seen = True
            return
        if given:
            block.filled = True
            self.note("anthropic.input-in-start", *place, as_text(given)[:80], Severity.NEGOTIABLE)
        for name in ("id", "name"):
            value = content.get(name)
            form = "string" if value else "empty" if value == "" else "null" if name in content else "absent"
            self.member(f"tool.{name}.first", form, place)

    def _delta(self, payload: dict[str, Any], sse: ServerSentEvent, events: list[Event]) -> None:
        wire = payload.get("index")
        block = self.blocks.get(wire) if type(wire) is int else self._find(wire)
        if block is None or block.stopped or self.reasoned or len(payload) > 3:
            self._odd_delta(payload, wire, block, (sse.at, sse.length))
        if events:
            kind = type(events[0])
            if kind is Text:
                if not self.text_seen:
                    self._text((sse.at, sse.length))
                return
            if kind is Reasoning:
                return
        self._other_delta(payload, block, (sse.at, sse.length), events)

    def _text(self, place: Place) -> None:
        self.text_seen = True
        self.where.setdefault("text", place)

    def _find(self, wire: Any) -> BlockFacts | None:
        return self.last if wire is None else self.blocks.get(_key(wire))

    def _odd_delta(self, payload: dict[str, Any], wire: Any, block: BlockFacts | None, place: Place) -> None:
        if not self.start:
            self.note("anthropic.start-missing", *place, "first comes content_block_delta")
        if block is None:
            self._imply(wire, place)
        elif block.stopped:
            self.note("anthropic.delta-after-stop", *place, block.name)
        if self.reasoned:
            self.note("finish.content-after", *place)
        if payload.get("usage"):
            self.note("anthropic.usage-in-blocks", *place)

    def _imply(self, wire: Any, place: Place) -> None:
        """A block that was never started (the dialect notes a delta to it) has its number all the same."""
        block = BlockFacts("", f"block {as_text(wire)}", place)
        block.implied = True
        self._opened(_key(wire), block)

    def _other_delta(
        self, payload: dict[str, Any], block: BlockFacts | None, place: Place, events: list[Event]
    ) -> None:  # fmt: skip
        """A delta of anything but text and thinking, or an empty one."""
        if events and type(events[0]) is Unknown:
            self.note("anthropic.unknown-event", *place, events[0].name)
        delta = payload.get("delta")
        if type(delta) is not dict:
            return
        kind: Any = delta.get("type")
        member = PIECES.get(kind) if type(kind) is str else None
        if kind == "signature_delta":
            if block is not None:
                block.signed = block.signed or bool(delta.get("signature"))
        elif member is not None:
            # Pieces are added up as strings: anything else raises in official accumulators.
            self._member(member, delta, place, f"a {kind}", Severity.FATAL)
            if block is not None and block.filled and delta.get(member):
                # Two values for one input: readers of the start and of the deltas call with different ones, or glue.
                self.note("anthropic.input-in-start", *place, severity=Severity.FATAL)

    def _block_stop(self, payload: dict[str, Any], place: Place) -> None:
        wire = payload.get("index")
        block = self._find(wire)
        if block is None:
            self.note("anthropic.delta-wrong-block", *place, f"content_block_stop at index {as_text(wire)}: no block")
        elif block.stopped:
            self.note("anthropic.delta-after-stop", *place, f"{block.name} is stopped again")
        else:
            block.stopped = True
            for number in [number for number, other in self.open.items() if other is block]:
                del self.open[number]

    def _unstopped(self, how: str) -> None:
        for block in self.open.values():
            self.note("anthropic.block-not-stopped", *block.place, f"{block.name}: {how}")

    # -- the end --------------------------------------------------------------------------------------------------

    def closing(self, message: Message, asked: Asked | None) -> None:
        self.close_usage()
        signed = [block.signed for block in self.blocks.values() if block.kind == "thinking"]
        if signed:
            self.fact("reasoning.signature", all(signed), self.where.get("reasoning.field"))
        if self.sequence_named:
            # The stop sequence can be the very first thing the model says: empty, but the answer says why.
            self.notes.pop("stream.no-content", None)
        if not self.counted:
            for code in ("anthropic.usage-start", "anthropic.usage-start-zero"):
                self.notes.pop(code, None)  # usage.missing says it all
        elif self.delta_place is not None and not self.output_counted and self.tree.get("result") == "ok":
            self.note("anthropic.usage-delta", *self.delta_place)
        if not self.payloads:
            return
        self.fact("anthropic.start", self.start or "missing")
        self.fact("anthropic.ping", self.ping)
        self.fact("anthropic.block-index", self.numbering)
        stopped = ("never", "anthropic.block-not-stopped"), ("overlapping", "anthropic.blocks-overlap")
        how = next((word for word, code in stopped if code in self.notes), "before-next" if self.opened else "none")
        self.fact("anthropic.blocks-stopped", how)
        self.fact("anthropic.delta-fits", "anthropic.delta-wrong-block" not in self.notes)


def _key(wire: Any) -> Any:
    """An index as a key, as the dialect has it: 1, 1.0 and "1" are one."""
    if type(wire) is str:
        return int(wire) if wire.isdecimal() and len(wire) < 10 else wire
    return wire if type(wire) is int or type(wire) is float else as_text(wire)


READERS: dict[str, Callable[[AnthropicFacts, dict[str, Any], Place], None]] = {
    "message_start": AnthropicFacts._message_start,
    "content_block_start": AnthropicFacts._block_start,
    "content_block_stop": AnthropicFacts._block_stop,
    "message_delta": AnthropicFacts._message_delta,
    "message_stop": AnthropicFacts._message_stop,
    "ping": AnthropicFacts._ping,
}
STARTS: dict[str, Callable[[AnthropicFacts, dict[str, Any], BlockFacts, Place], None]] = {
    "text": AnthropicFacts._text_start,
    "thinking": AnthropicFacts._thinking_start,
    **dict.fromkeys(INPUT_BLOCKS, AnthropicFacts._input_start),
}
