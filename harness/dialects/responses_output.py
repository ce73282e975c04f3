"""The output items of a Responses stream: which item a value belongs to, and whether it says anything new.

Source: cases/README, rules 7 and 8: items are matched by id, else by output_index and type; done and completed values
replace joined deltas for the items they hold, empty ones replace nothing. All look-ups are by key, so that no order of
events makes reading quadratic.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

from harness.dialects.base import Notes, as_string
from harness.events import Event, Item, Reasoning, Refusal, Text, ToolCall
from harness.jsontext import as_text
from harness.sse import ServerSentEvent

CALL_VALUE = {"function_call": "arguments", "custom_tool_call": "input"}  # item type: the member with what is passed
# A piece whose item id is that of another type of item belongs to that item, if it can.
NEAR_TYPE = {
    "message": "reasoning", "reasoning": "message",
    "function_call": "custom_tool_call", "custom_tool_call": "function_call",
}  # fmt: skip


class Channel(NamedTuple):
    """One of the four kinds of content: its event, the type of item it belongs to, and the member that numbers it."""

    event: type[Text | Reasoning | Refusal]
    item_type: str
    numbered_by: str


TEXT = Channel(Text, "message", "content_index")
REFUSAL = Channel(Refusal, "message", "content_index")
REASONING = Channel(Reasoning, "reasoning", "content_index")
SUMMARY = Channel(Reasoning, "reasoning", "summary_index")
PART_CHANNEL = {
    "output_text": TEXT, "text": TEXT, "refusal": REFUSAL, "reasoning_text": REASONING, "summary_text": SUMMARY,
}  # fmt: skip


class Part:
    """A content part as joined so far. `placed` once an event with its key is out: its place in the text is fixed."""

    __slots__ = ("channel", "index", "key", "pieces", "placed")

    def __init__(self, channel: Channel, index: int, key: int) -> None:
        self.channel = channel
        self.index = index
        self.key = key
        self.pieces: list[str] = []
        self.placed = False

    def joined(self) -> str:
        if len(self.pieces) > 1:
            self.pieces = ["".join(self.pieces)]
        return self.pieces[0] if self.pieces else ""


class ItemState:
    """An output item as known so far; a call has its number (ours), id, name and arguments here."""

    __slots__ = ("announced", "call_id", "done", "name", "number", "parts", "pieces", "place", "type")

    def __init__(self, item_type: str, place: Any, number: int) -> None:
        self.type = item_type
        self.place = place
        self.number = number
        self.announced = False  # its output_item.added was read
        self.done = False
        self.parts: dict[Channel, dict[int, Part]] = {}
        self.call_id: str | None = None
        self.name: str | None = None
        self.pieces: list[str] = []

    def joined(self, channel: Channel) -> str:
        return "".join([part.joined() for part in self.parts.get(channel, {}).values()])

    def call_type(self) -> str:
        return "custom" if self.type == "custom_tool_call" else "function"


class Output:
    """All items of one response."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes
        self.items: list[ItemState] = []
        self.by_id: dict[tuple[str, str], ItemState] = {}  # (item id, type): the one opened last
        self.shared: set[tuple[str, str]] = set()  # those that several items have had
        self.by_place: dict[tuple[int, str], ItemState] = {}  # (output_index, type): the one opened last
        self.by_call_id: dict[str, ItemState] = {}
        self.latest: dict[str, ItemState] = {}  # type: the one opened last
        self.calls = 0
        self.keys = 0
        # Parts with nothing in them yet: they keep their place before parts opened later.
        self.waiting: dict[type, deque[Part]] = {Text: deque(), Reasoning: deque()}

    # Which item

    def open(self, kind: str, item_id: Any, place: Any) -> ItemState:
        """A new item."""
        state = ItemState(kind, place, self.calls)
        self.calls += kind in CALL_VALUE
        self.items.append(state)
        self.latest[kind] = state
        if type(item_id) is str and item_id:
            if (item_id, kind) in self.by_id:
                self.shared.add((item_id, kind))
            self.by_id[item_id, kind] = state
        if type(place) is int:
            self.by_place[place, kind] = state
        return state

    def find(self, payload: dict[str, Any], kind: str) -> ItemState:
        """The item a piece belongs to: by id, else by output_index and type, else (neither sent) the type's latest."""
        item_id, place = payload.get("item_id"), payload.get("output_index")
        state = self._by_id(item_id, kind, place) or self._by_id(item_id, NEAR_TYPE[kind], place)
        if state is None and type(place) is int:
            state = self.by_place.get((place, kind))
        elif state is None and not item_id:
            state = self.latest.get(kind)
        return state or self.open(kind, item_id, place)

    def added(self, item: dict[str, Any], kind: str, place: Any) -> ItemState:
        """The item of an added event: of a known id the same (also at another place), else a new one (case 068).

        One that pieces implied before is adopted, and another call under a known id is another item.
        """
        item_id = item.get("id")
        state = self._by_id(item_id, kind, place)
        if state is None and type(place) is int:
            used = self.by_place.get((place, kind))
            state = used if used is not None and not used.announced and not used.done else None
        if state is None or _two_calls(state, item):
            state = self.open(kind, item_id, place)
        elif type(place) is int:
            self.by_place[place, kind] = state
        state.announced = True
        return state

    def closed(self, item: dict[str, Any], kind: str, place: Any) -> ItemState:
        """The item of a done event."""
        state = self._by_id(item.get("id"), kind, place) or self._at_place(item, kind, place) or self._by_call(item)
        if state is None and type(place) is not int:
            latest = self.latest.get(kind)
            state = latest if latest is not None and not latest.done and not _two_calls(latest, item) else None
        if state is None:
            state = self.open(kind, item.get("id"), place)
        state.done = True
        return state

    def _by_id(self, item_id: Any, kind: str, place: Any) -> ItemState | None:
        """The item of that id; of several calls that share it the one at the place, else the latest."""
        if type(item_id) is not str:
            return None
        state = self.by_id.get((item_id, kind))
        if state is not None and type(place) is int and (item_id, kind) in self.shared:
            return self.by_place.get((place, kind), state)
        return state

    def _at_place(self, item: dict[str, Any], kind: str, place: Any) -> ItemState | None:
        state = self.by_place.get((place, kind)) if type(place) is int else None
        return None if state is None or _two_calls(state, item) else state

    def _by_call(self, item: dict[str, Any]) -> ItemState | None:
        call_id = item.get("call_id")
        return self.by_call_id.get(call_id) if type(call_id) is str and item["type"] in CALL_VALUE else None

    def final(self, output: Any, sse: ServerSentEvent, out: list[Event]) -> None:
        """A response's output list, each item settled with the one it is, or as a new one."""
        entries = [
            (place, item)
            for place, item in enumerate(output if type(output) is list else [])
            if type(item) is dict and type(item.get("type")) is str
        ]
        found = self._matched(entries)
        for place, item in entries:
            state = found.get(place)
            if state is None:
                state = self.open(item["type"], item.get("id"), place)
                if state.type not in CALL_VALUE:
                    out.append(Item(0, state.type, "final", as_string(item.get("id")), item, sse.at, sse.length))
            self.settle_item(state, item, place, sse, out)

    def _matched(self, entries: list[tuple[int, dict[str, Any]]]) -> dict[int, ItemState]:
        """The item of each entry: by id, else by call id, else in order if as many are left of the type, else by place.

        Order before place, as a position is no output_index: servers leave items out of the list.
        """
        found: dict[int, ItemState] = {}
        met: set[int] = set()

        def meet(place: int, item: dict[str, Any], state: ItemState | None, by_id: bool = False) -> None:
            if state is not None and id(state) not in met and (by_id or not _two_calls(state, item)):
                met.add(id(state))
                found[place] = state

        for place, item in entries:
            item_id = item.get("id")
            if type(item_id) is str and (item_id, item["type"]) not in self.shared:
                meet(place, item, self._by_id(item_id, item["type"], None), by_id=True)
        for place, item in entries:
            if place not in found:
                meet(place, item, self._by_call(item))
        left_of: dict[str, list[tuple[int, dict[str, Any]]]] = {}
        for place, item in entries:
            if place not in found:
                left_of.setdefault(item["type"], []).append((place, item))
        unmet_of: dict[str, list[ItemState]] = {kind: [] for kind in left_of}
        for state in self.items:
            if state.type in unmet_of and id(state) not in met:
                unmet_of[state.type].append(state)
        for kind, left in left_of.items():
            unmet = unmet_of[kind]
            if len(left) == len(unmet):
                for (place, item), state in zip(left, unmet, strict=True):
                    meet(place, item, state)
            for place, item in left:
                if place not in found:
                    meet(place, item, self._at_place(item, kind, place))
            rest = iter([state for state in unmet if id(state) not in met])
            for place, item in left:
                if place not in found:
                    meet(place, item, next(rest, None))
        return found

    # What its values say

    def settle_item(
        self, state: ItemState, item: dict[str, Any], place: Any, sse: ServerSentEvent, out: list[Event]
    ) -> None:  # fmt: skip
        """An item's own values, where they differ from what was joined for it."""
        kind = item.get("type")
        if kind in CALL_VALUE:
            self.settle_call(state, item, CALL_VALUE[kind], place, sse, out)
            return
        if kind not in ("message", "reasoning"):
            return
        values: dict[Channel, dict[int, str]] = {}
        for member, usual in (("summary", SUMMARY), ("content", TEXT if kind == "message" else REASONING)):
            parts = item.get(member)
            for index, part in enumerate(parts if type(parts) is list else [parts]):
                part_type = part.get("type") if type(part) is dict else None
                text = text_in(part)
                if not text or part_type in ("output_audio", "audio"):
                    continue
                channel = PART_CHANNEL.get(part_type, usual) if type(part_type) is str else usual
                if channel is TEXT and kind == "reasoning":  # so LiteLLM's bridge types the content of thinking
                    channel = REASONING
                values.setdefault(channel, {})[index] = text
        for channel, texts in values.items():
            self._settle_parts(state, channel, texts, sse, out)

    def _settle_parts(
        self, state: ItemState, channel: Channel, texts: dict[int, str], sse: ServerSentEvent, out: list[Event]
    ) -> None:  # fmt: skip
        value = "".join(texts.values())
        if value == state.joined(channel):
            return
        known = state.parts.get(channel, {})
        if not known and channel.event is Reasoning:
            other = SUMMARY if channel is REASONING else REASONING
            if value == state.joined(other):  # one value under two names counts once (cases/README, rule 4)
                return
        last = max(known, default=-1)
        if known.keys() <= texts.keys() and all(index in known or index > last for index in texts):
            for index, text in texts.items():
                self.settle(self.part(state, channel, index), text, sse, out)
        elif len(known) == len(texts):
            for part, text in zip(known.values(), texts.values(), strict=True):
                self.settle(part, text, sse, out)
        else:  # other parts than were streamed: the first holds it all
            first, *others = known.values()
            self.settle(first, value, sse, out)
            for part in others:
                self.settle(part, "", sse, out)
            state.parts[channel] = {first.index: first}

    def settle_call(
        self, state: ItemState, item: dict[str, Any], member: str, place: Any, sse: ServerSentEvent, out: list[Event]
    ) -> None:  # fmt: skip
        """The first fragment of a call, or a later one if it tells something new: id, name or arguments."""
        call_id, name = as_string(item.get("call_id")), as_string(item.get("name"))
        value = self.passed(item.get(member), sse)
        opens = state.call_id is None and not state.pieces
        if state.call_id and call_id and call_id != state.call_id:
            self.notes.add("tool.id-changes", sse.at, sse.length, f"{state.call_id!r} became {call_id!r}")
        new = bool(call_id and not state.call_id) or bool(name and name != state.name)
        if not opens and value:
            if len(state.pieces) > 1:
                state.pieces = ["".join(state.pieces)]
            value = value if state.pieces != [value] else None
        if opens or new or value:
            out.append(ToolCall(0, state.number, place, call_id, name, value if opens else value or None, not opens,
                                sse.at, sse.length, state.call_type()))  # fmt: skip
        if value:
            state.pieces = [value]
        state.name = name or state.name
        state.call_id = call_id or state.call_id or ""
        if state.call_id:
            self.by_call_id.setdefault(state.call_id, state)

    def passed(self, value: Any, sse: ServerSentEvent) -> str | None:
        """What is passed to a call, as text: an object is written as JSON."""
        if value is None or type(value) is str:
            return value
        self.notes.add("tool.arguments-object", sse.at, sse.length, as_text(value)[:80])
        return as_text(value)

    # Parts

    def part(self, state: ItemState, channel: Channel, index: Any) -> Part:
        """The part by its number; without one, the last of its kind. It is opened if need be."""
        parts = state.parts.setdefault(channel, {})
        if type(index) is not int:
            index = next(reversed(parts), 0)
        part = parts.get(index)
        if part is None:
            part = parts[index] = Part(channel, index, self.keys)
            self.keys += 1
            if channel.event in self.waiting:
                self.waiting[channel.event].append(part)
        return part

    def append(self, part: Part, piece: str, sse: ServerSentEvent, out: list[Event]) -> None:
        """A piece goes on the part."""
        if not part.placed:
            self._place(part, sse, out)
        part.pieces.append(piece)
        out.append(part.channel.event(0, piece, False, sse.at, sse.length, part.key))

    def settle(self, part: Part, text: str, sse: ServerSentEvent, out: list[Event]) -> None:
        """The part as a whole; an event only if it differs."""
        if text != part.joined():
            self._place(part, sse, out)
            part.pieces = [text] if text else []
            out.append(part.channel.event(0, text, True, sse.at, sse.length, part.key))

    def settle_part(
        self, payload: dict[str, Any], channel: Channel, text: str, sse: ServerSentEvent, out: list[Event]
    ) -> None:  # fmt: skip
        """The part that an event names, as a whole."""
        state, index = self.find(payload, channel.item_type), payload.get(channel.numbered_by)
        known = state.parts.get(channel, {})
        if len(known) == 1 and type(index) is int and index not in known and text == state.joined(channel):
            return  # numbered otherwise than its deltas
        self.settle(self.part(state, channel, index), text, sse, out)

    def _place(self, part: Part, sse: ServerSentEvent, out: list[Event]) -> None:
        """Before the first text of a part, parts of its kind opened before it get an empty one: the fold orders by it.

        Not for a refusal, as an empty one would be one.
        """
        part.placed = True
        waiting = self.waiting.get(part.channel.event)
        while waiting and (waiting[0].placed or waiting[0].key < part.key):
            other = waiting.popleft()
            if not other.placed:
                other.placed = True
                out.append(other.channel.event(0, "", False, sse.at, sse.length, other.key))


def _two_calls(state: ItemState, item: dict[str, Any]) -> bool:
    """Whether the ids of the calls tell item and state apart, whatever else they share."""
    call_id = item.get("call_id")
    return bool(state.call_id and call_id and call_id != state.call_id)


def text_in(value: Any) -> str | None:
    """A string as it is; of an object the first of its members that holds a text."""
    if type(value) is dict:
        found = (value.get(name) for name in ("text", "refusal", "transcript", "delta", "arguments", "input"))
        return next((text for text in found if type(text) is str), None)
    return value if type(value) is str else None
