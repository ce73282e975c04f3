"""Responses in the state machine (machine.py): output items, matched by id, else by place and type.

Rules: cases/README, 8.
"""

from __future__ import annotations

from typing import Any

from harness.clients.drafting import Call, Drafting
from harness.clients.framing import fields_of, listed


class Item:
    """An output item of a response: its parts by channel and index, or a call."""

    def __init__(self, kind: Any, id: Any, place: Any) -> None:
        self.kind, self.id, self.place = kind, id, place
        self.parts: dict[tuple[str, Any], list[str]] = {}
        self.call = Call(None)
        self.done = False


CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
CHANNELS = {
    "output_text": "text", "text": "text", "refusal": "refusal",
    "reasoning_summary_text": "reasoning", "reasoning_text": "reasoning", "summary_text": "reasoning",
    "function_call_arguments": "arguments", "custom_tool_call_input": "arguments",
}  # fmt: skip


class Items(Drafting):
    """The items of a response, and what its events do to them."""

    def __init__(self, dialect: str) -> None:
        super().__init__(dialect)
        self.items: list[Item] = []

    def responses(self, payload: dict[str, Any]) -> None:
        """One event of the Responses API, by its type."""
        kind = str(payload.get("type")).removeprefix("response.")
        name, _, phase = kind.rpartition(".")
        if phase in ("delta", "done") and name in CHANNELS:
            self.piece(CHANNELS[name], phase, payload)
        elif kind in ("output_item.added", "output_item.done"):
            self.item(payload.get("item"), payload.get("output_index"), done=phase == "done")
        elif kind == "content_part.done":
            part = payload.get("part")
            if isinstance(part, dict) and part.get("type") in CHANNELS:
                value = part.get("text") or part.get("refusal")
                self.whole(CHANNELS[part["type"]], payload, value)
        elif kind in ("completed", "incomplete", "failed"):
            response = payload.get("response")
            self.over(kind, response if isinstance(response, dict) else {})

    def piece(self, channel: str, phase: str, payload: dict[str, Any]) -> None:
        """A delta, or the whole value that replaces the deltas."""
        if phase == "delta":
            self.pieces_of(channel, payload).append(self.delta_text(payload))
        else:
            self.whole(channel, payload, self.done_text(payload))

    def delta_text(self, payload: dict[str, Any]) -> str:
        names = ("delta", "text", "arguments", "part")
        return next((payload[name] for name in names if isinstance(payload.get(name), str)), "")

    def done_text(self, payload: dict[str, Any]) -> Any:
        return payload.get("text") or payload.get("arguments") or payload.get("input") or payload.get("refusal")

    def whole(self, channel: str, payload: dict[str, Any], value: Any) -> None:
        """A whole value replaces what was joined; an empty one replaces nothing."""
        if value and isinstance(value, str):
            self.pieces_of(channel, payload)[:] = [value]

    def pieces_of(self, channel: str, payload: dict[str, Any]) -> list[str]:
        """Where an event's value belongs: its item, and there its part."""
        kinds = {"arguments": tuple(CALLS), "reasoning": ("reasoning",)}.get(channel, ("message",))
        item = self.item_for(payload.get("item_id"), payload.get("output_index"), kinds)
        if item is None:
            item = self.opened(kinds[0], payload.get("item_id"), payload.get("output_index"))
        if channel == "arguments":
            return item.call.pieces
        index = payload.get("content_index", payload.get("summary_index"))
        return item.parts.setdefault((channel, index or 0), [])  # llama.cpp sends none: it is the first

    def item_for(self, id: Any, place: Any, kinds: tuple[Any, ...]) -> Item | None:
        """The item of this id, else the last one of these kinds at this place."""
        for item in reversed(self.items):
            if id and item.id == id:
                return item
        for item in reversed(self.items):
            if item.place == place and item.kind in kinds:
                return item
        return None

    def opened(self, kind: Any, id: Any, place: Any) -> Item:
        """A new item."""
        self.items.append(Item(kind, id, place))
        return self.items[-1]

    def item(self, sent: Any, place: Any, *, done: bool) -> None:
        """An item opened, or whole."""
        if not isinstance(sent, dict):
            return
        kind, id = sent.get("type"), sent.get("id")
        item = self.item_for(id, place, (kind,)) if done else None
        item = item or self.opened(kind, id, place)
        if done:
            self.closed(item)
        if kind in CALLS:
            item.call.kind = "custom" if kind == "custom_tool_call" else "function"
            self.identify(item.call, sent.get("call_id"))
            self.title(item.call, sent.get("name"))
            if value := sent.get(CALLS[kind]):
                item.call.pieces[:] = [value]
        for member in ("content", "summary"):
            for index, part in enumerate(listed(sent.get(member))):
                value = part.get("text") or part.get("refusal")
                channel = "reasoning" if kind == "reasoning" else CHANNELS.get(str(part.get("type")))
                if value and channel:
                    item.parts[channel, index] = [value]

    def closed(self, item: Item) -> None:
        """The item is done."""
        item.done = True

    def over(self, kind: str, response: dict[str, Any]) -> None:
        """One of the three terminals, with the response object."""
        for place, sent in enumerate(listed(response.get("output"))):
            self.item(sent, place, done=True)
        self.use(response.get("usage"), "input_tokens", "output_tokens")
        details = response.get("incomplete_details")
        reason = details.get("reason") if isinstance(details, dict) and kind == "incomplete" else None
        self.finished(self.draft(), reason or kind)
        if kind == "failed":
            self.fail(fields_of(response.get("error") or {}))
        else:
            self.end()

    def in_order(self) -> list[Item]:
        """The items by output index, then as they appeared."""
        return sorted(self.items, key=lambda item: item.place if isinstance(item.place, int) else len(self.items))

    def close(self) -> None:
        """The items become one choice's text, reasoning, refusal and calls."""
        draft = self.draft()
        add = {"text": self.say, "reasoning": self.think, "refusal": self.refuse}
        for item in self.in_order():
            for (channel, _), pieces in item.parts.items():
                add[channel]("".join(pieces), draft)
            if item.kind in CALLS:
                draft.calls.append(item.call)
