"""Facts of the output items of a Responses stream, their parts and pieces, and of the final object against them.

Source: RULES, sections 1 and 3 (`responses.*`). Whether a done event or the final object says something new is read off
the dialect's events: it gives one only for a value that differs from what was streamed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from harness.dialects.responses import CALL_MEMBERS, TEXT_MEMBERS
from harness.dialects.responses_output import (
    CALL_VALUE,
    PART_CHANNEL,
    REASONING,
    REFUSAL,
    SUMMARY,
    TEXT,
    Channel,
    text_in,
)  # fmt: skip
from harness.events import Event, Reasoning, Refusal, Text, ToolCall
from harness.facts.base import Place
from harness.facts.counted import CountedFacts
from harness.facts.responses_items import ItemFacts, Items, PartFacts, holds_value, two_calls

BARE = ("message", "reasoning")  # types of items that say nothing without a value in them
FIELDS = {TEXT: "", REFUSAL: "", REASONING: "reasoning_text", SUMMARY: "reasoning_summary_text"}


class OutputFacts(CountedFacts):
    """What happened to the items. Every method takes a payload, its place in the body, and the events it gave."""

    def __init__(self) -> None:
        super().__init__()
        self.items = Items()
        self.index_forms: set[str] = set()
        self.terminal = ""  # the status that the terminal event stands for
        self.final = ""  # how the final object's output compares: same, differs, empty or absent

    # -- items ----------------------------------------------------------------------------------------------------

    def _added(self, payload: dict[str, Any], place: Place, events: list[Event], _: None) -> None:
        item, index = payload.get("item"), payload.get("output_index")
        if type(item) is not dict or type(item.get("type")) is not str:
            return
        kind = item["type"]
        known = self.items.of_id(item.get("id"), kind, index)
        taken = self.items.at.get(index) if type(index) is int else None
        if known is not None and two_calls(known, item):
            known = None
        if known is None and taken is not None and taken.type == kind and not taken.added and not taken.closed:
            known = taken  # pieces implied it
        # Whether of another item or of the same once more: readers keyed by the index see two.
        shared = taken is not None and (taken is not known or known.added)
        if shared:
            self.index_forms.add("shared")
            again = f"{taken} again" if taken is known else f"{kind} and {taken}"
            self.note("responses.index-shared", *place, again)
        state = known or self.items.new(kind, item.get("id"), index, place)
        if shared:
            self.items.stands_at(state, index)
        else:
            self._index(state, index, place)
        if not state.closed:
            other = next((other for other in self.items.open.values() if other is not state), None)
            if other is not None:
                self.note("responses.close-order", *place, f"{kind} before the end of {other}")
            self.items.open[id(state)] = state
        state.added = True
        self.where.setdefault("responses.items-added", place)
        self._told(state, item)
        content = item.get("content")
        if kind == "message" and type(content) is not list:
            self.note("responses.item-content-missing", *place)
        for number, part in enumerate(content if type(content) is list else ()):
            opened = state.part("content_index", number, place)
            opened.added = opened.closed = opened.text_done = True  # whole from the start
            opened.filled = bool(text_in(part))

    def _told(self, state: ItemFacts, item: dict[str, Any]) -> None:
        """What an item as sent says of itself."""
        state.filled = state.filled or holds_value(item)
        call_id = item.get("call_id")
        if type(call_id) is str and call_id and not state.call_id:
            state.call_id = call_id
            self.items.by_call.setdefault(call_id, state)

    def _closed(self, payload: dict[str, Any], place: Place, events: list[Event], _: None) -> None:
        item, index = payload.get("item"), payload.get("output_index")
        if type(item) is not dict or type(item.get("type")) is not str:
            return
        kind = item["type"]
        state = self.items.of_done(item, kind, index)
        if state is None:
            state = self._implied(kind, item.get("id"), index, place)
        self._identity(state, item.get("id"), place)
        self._index(state, index, place)
        if kind == "reasoning" and not state.filled and holds_value(item):
            self.member("reasoning.field", "output_item", place)
        self._done(state.filled, holds_value(item), state.type in CALL_VALUE, place, events)
        self._told(state, item)
        state.closed = True
        self.where.setdefault("responses.items-done", place)
        self.items.open.pop(id(state), None)

    def _implied(self, kind: str, item_id: Any, index: Any, place: Place) -> ItemFacts:
        self.note("responses.item-not-added", *place, kind)
        return self.items.new(kind, item_id, index, place)

    def _identity(self, state: ItemFacts, item_id: Any, place: Place) -> None:
        if type(item_id) is not str or not item_id:
            return
        if state.id is None:
            state.id = item_id
            self.items.by_id[item_id, state.type] = state
        elif item_id != state.id:
            self.note("responses.id-changes", *place, f"{state.id[:60]} became {item_id[:60]}")

    def _index(self, state: ItemFacts, index: Any, place: Place) -> None:
        if type(index) is not int:
            self.index_forms.add("missing")
            self.note("responses.index-missing", *place, "no output_index")
        elif state.index is None:
            state.index = index
            self.items.stands_at(state, index)
        elif state.index != index and self.items.by_place.get((index, state.type)) is not state:
            self.index_forms.add("changes")
            self.note("responses.index-missing", *place, f"output_index {state.index} became {index}")
            self.items.stands_at(state, index)

    def _owner(self, payload: dict[str, Any], kind: str, place: Place) -> ItemFacts:
        """The item that a piece belongs to."""
        item_id, index = payload.get("item_id"), payload.get("output_index")
        state = self.items.of_piece(item_id, kind, index)
        if state is None:
            state = self._implied(kind, item_id, index, place)
        self._identity(state, item_id, place)
        self._index(state, index, place)
        return state

    # -- parts and pieces -----------------------------------------------------------------------------------------

    def _of_part(self, state: ItemFacts, payload: dict[str, Any], numbered_by: str, place: Place) -> PartFacts:
        index = payload.get(numbered_by)
        if type(index) is not int:
            self.note("responses.index-missing", *place, f"no {numbered_by}")
            index = state.numbers[numbered_by][-1] if state.numbers[numbered_by] else 0
        due = len(state.numbers[numbered_by])
        if index != due and (numbered_by, index) not in state.parts:
            self.note("responses.content-index-start", *place, f"{numbered_by} {index} where {due} is due")
        return state.part(numbered_by, index, place)

    def _part(self, payload: dict[str, Any], place: Place, events: list[Event], about: tuple[str, str]) -> None:
        """content_part and reasoning_summary_part, added and done."""
        usual, phase = about
        part = payload.get("part")
        named = part.get("type") if type(part) is dict else None
        kind = named if type(named) is str else usual
        channel = PART_CHANNEL.get(kind, TEXT)
        state = self._owner(payload, channel.item_type, place)
        numbered_by = "summary_index" if usual == "summary_text" else "content_index"
        found = self._of_part(state, payload, numbered_by, place)
        if phase == "added":
            found.added = True
            self.where.setdefault("responses.parts-added", place)
        else:
            self._used(found, str(payload.get("type")), place)
            found.closed = True
            self.where.setdefault("responses.parts-done", place)
            self._done(found.filled, bool(text_in(part) or payload.get("text")), False, place, events)
        if says_something(events) or (text_in(part) and kind in PART_CHANNEL):
            found.filled = state.filled = True

    def _used(self, part: PartFacts, what: str, place: Place) -> None:
        if not part.added:
            self.note("responses.part-not-added", *place, f"{what} at {part.numbered_by} {part.index}")

    def _delta(self, payload: dict[str, Any], place: Place, events: list[Event], channel: Channel) -> None:
        state = self._owner(payload, channel.item_type, place)
        part = self._of_part(state, payload, channel.numbered_by, place)
        self._used(part, str(payload.get("type")), place)
        if part.text_done or part.closed or state.closed:
            self.note("responses.delta-after-done", *place, str(payload.get("type")))
        if events:
            part.filled = state.filled = True
            self._channel(channel, place)

    def _channel(self, channel: Channel, place: Place) -> None:
        if FIELDS[channel]:
            self.member("reasoning.field", FIELDS[channel], place)
        elif channel is TEXT:
            self.where.setdefault("text", place)

    def _text_done(self, payload: dict[str, Any], place: Place, events: list[Event], channel: Channel) -> None:
        state = self._owner(payload, channel.item_type, place)
        part = self._of_part(state, payload, channel.numbered_by, place)
        self._used(part, str(payload.get("type")), place)
        says = any(text_in(payload.get(name)) for name in TEXT_MEMBERS)
        self._done(part.filled, says, False, place, events)
        part.text_done = True
        self.where.setdefault("responses.text-done", place)
        if says:
            part.filled = state.filled = True
            self._channel(channel, place)

    def _message(self, payload: dict[str, Any], place: Place, events: list[Event], _: None) -> None:
        """The old plain message: an item in full, or a piece of one. Nothing else is due for it."""
        state = self.items.latest.get("message")
        if state is None or type(payload.get("content")) is list:
            state = self.items.new("message", payload.get("id"), None, place)
        state.added = state.closed = True
        state.filled = state.filled or says_something(events)

    def _call_delta(self, payload: dict[str, Any], place: Place, events: list[Event], kind: str) -> None:
        state = self._owner(payload, kind, place)
        if state.value_done or state.closed:
            self.note("responses.delta-after-done", *place, str(payload.get("type")))
        if events:
            state.deltas = state.filled = True
            self.where.setdefault("responses.arguments-deltas", place)

    def _call_done(self, payload: dict[str, Any], place: Place, events: list[Event], kind: str) -> None:
        state = self._owner(payload, kind, place)
        says = any(payload.get(name) for name in CALL_MEMBERS)
        self._done(state.filled, says, True, place, events)
        state.value_done = True
        self.where.setdefault("responses.arguments-done", place)
        state.filled = state.filled or says

    def _done(self, filled: bool, says: bool, call: bool, place: Place, events: list[Event]) -> None:
        """A done event against what came before: another value, none where there was one, or the first for text.

        The first value of a call is told as responses.arguments-only-done.
        """
        if filled and not says:
            self.note("responses.done-differs", *place, "it is empty")
        elif says_something(events) and (filled or not call):
            self.note("responses.done-differs", *place, "another value" if filled else "no deltas before it")

    # -- the final object -----------------------------------------------------------------------------------------

    def _final(self, output: Any, place: Place, events: list[Event]) -> None:
        """Whether the output of the terminal event is what was streamed. Bare items count on neither side."""
        entries = [
            item for item in (output if type(output) is list else ())
            if type(item) is dict and type(item.get("type")) is str
        ]  # fmt: skip
        streamed = Counter(said for item in self.items.all for said in _said(item.type, item.filled))
        if not entries:
            self.final = "empty" if type(output) is list else "absent"
            if streamed:
                self.note("responses.output-empty", *place, f"output is {self.final}")
            return
        kept = Counter(said for item in entries for said in _said(item["type"], holds_value(item)))
        self._final_ids(entries, place)
        lacking, more = streamed - kept, kept - streamed
        if lacking or more or says_something(events):
            said = [f"lacks {name}" for name in lacking] + [f"adds {name}" for name in more]
            self.note("responses.final-differs", *place, ", ".join(said) or "other values")
            self.final = "differs"
        else:
            self.final = "same"

    def _final_ids(self, entries: list[dict[str, Any]], place: Place) -> None:
        """An entry under an id that no item of its type has, where such an item is left over, is that item."""
        told = {(item["id"], item["type"]) for item in entries if type(item.get("id")) is str}
        left = {item.type: item.id for item in self.items.all if item.id and (item.id, item.type) not in told}
        for item_id, kind in told:
            if item_id and (item_id, kind) not in self.items.by_id and kind in left:
                self.note("responses.id-changes", *place, f"{(left[kind] or '')[:60]} became {item_id[:60]}")

    # -- the end --------------------------------------------------------------------------------------------------

    def _close_items(self) -> None:
        items = self.items.all
        if not items:
            return
        ids = [item.id is not None for item in items]
        changes = "responses.id-changes" in self.notes
        self.fact("responses.item-id", "changes" if changes else "stable" if all(ids) else "missing")
        forms = [form for form in ("shared", "missing", "changes") if form in self.index_forms]
        self.fact("responses.output-index", forms[0] if forms else "distinct")
        self.fact("responses.interleaved", "responses.close-order" in self.notes)
        self.fact("responses.done", "differs" if "responses.done-differs" in self.notes else "same")
        parts = [part for item in items for part in item.parts.values()]
        texts = [part for part in parts if part.filled]
        closable = [part for part in parts if part.added and part.numbered_by == "content_index"]
        calls = [item for item in items if item.type in CALL_VALUE and item.filled]
        for path, flags in (
            ("items-added", [item.added for item in items]), ("items-done", [item.closed for item in items]),
            ("parts-added", [part.added for part in parts]), ("parts-done", [part.closed for part in closable]),
            ("text-done", [part.text_done for part in texts]), ("arguments-deltas", [item.deltas for item in calls]),
            ("arguments-done", [item.value_done for item in calls]),
        ):  # fmt: skip
            if flags:
                self.fact(f"responses.{path}", "all" if all(flags) else "some" if any(flags) else "none")
        for item in calls:
            if item.type == "custom_tool_call":
                self.member("tool.type", "custom", item.place)
            if not item.deltas:
                self.note("responses.arguments-only-done", *item.place, str(item))
        if not self.terminal:
            return  # a stream that broke off owes no done events
        for item in items:
            if not item.closed:
                self.note("responses.item-not-done", *item.place, str(item))
            for part in item.parts.values():
                said = f"{part.numbered_by} {part.index} of {item}"
                if not part.closed and part.added and part.numbered_by == "content_index":
                    # Summaries are closed by their text's done event too (case 073).
                    self.note("responses.part-not-done", *part.place, said)
                if part.filled and not part.text_done:
                    self.note("responses.text-not-done", *part.place, said)
            if item.deltas and not item.value_done:
                self.note("responses.arguments-not-done", *item.place, str(item))


def _said(kind: str, filled: bool) -> Iterator[str]:
    """What an item is counted as when the final object is held against what was streamed."""
    if kind not in BARE:
        yield kind
    if filled and (kind in BARE or kind in CALL_VALUE):
        yield f"a value of {kind}"


def says_something(events: Iterable[Event]) -> bool:
    """Whether the dialect took text or arguments from the payload."""
    for event in events:
        kind = type(event)
        if kind is Text or kind is Reasoning or kind is Refusal:
            return True
        if isinstance(event, ToolCall) and event.arguments:
            return True
    return False
