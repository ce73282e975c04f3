"""The output items of a Responses stream as its facts see them: opened, filled and closed, and under which index.

Items are matched by id and type, then by output_index and type, as in cases/README, rule 8. Unlike the dialect's Output
nothing of their content is kept. All look-ups are by key.
"""

from __future__ import annotations

from typing import Any

from harness.dialects.responses_output import CALL_VALUE, NEAR_TYPE
from harness.facts.base import Place


class PartFacts:
    """One content part: `numbered_by` is the member with its index (content_index or summary_index)."""

    __slots__ = ("added", "closed", "filled", "index", "numbered_by", "place", "text_done")

    def __init__(self, numbered_by: str, index: int, place: Place) -> None:
        self.numbered_by = numbered_by
        self.index = index
        self.place = place
        self.added = False  # its own added event was read
        self.closed = False
        self.filled = False  # it holds text
        self.text_done = False


class ItemFacts:
    """One output item. `index` is its output_index, null while none was sent."""

    __slots__ = (
        "added", "call_id", "closed", "deltas", "filled", "id", "index", "numbers", "parts", "place", "type",
        "value_done",
    )  # fmt: skip

    def __init__(self, item_type: str, item_id: str | None, index: int | None, place: Place) -> None:
        self.type = item_type
        self.id = item_id
        self.index = index
        self.place = place
        self.call_id: str | None = None
        self.added = False  # its output_item.added was read
        self.closed = False
        self.filled = False  # it holds text or arguments
        self.deltas = False  # arguments came in deltas
        self.value_done = False  # the done event of its arguments was read
        self.parts: dict[tuple[str, int], PartFacts] = {}
        self.numbers: dict[str, list[int]] = {"content_index": [], "summary_index": []}  # of the parts, as they came

    def part(self, numbered_by: str, index: int, place: Place) -> PartFacts:
        """The part under that number, opened if need be."""
        part = self.parts.get((numbered_by, index))
        if part is None:
            part = self.parts[numbered_by, index] = PartFacts(numbered_by, index, place)
            self.numbers[numbered_by].append(index)
        return part

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type} at output_index {self.index}"


class Items:
    """All items of one response, by what the stream calls them."""

    def __init__(self) -> None:
        self.all: list[ItemFacts] = []
        self.open: dict[int, ItemFacts] = {}  # those added and not yet closed, by identity
        self.at: dict[int, ItemFacts] = {}  # output_index: the item opened there last, of whatever type
        self.by_id: dict[tuple[str, str], ItemFacts] = {}
        self.by_place: dict[tuple[int, str], ItemFacts] = {}
        self.by_call: dict[str, ItemFacts] = {}
        self.latest: dict[str, ItemFacts] = {}

    def new(self, kind: str, item_id: Any, index: Any, place: Place) -> ItemFacts:
        """A new item."""
        known = item_id if type(item_id) is str and item_id else None
        item = ItemFacts(kind, known, index if type(index) is int else None, place)
        self.all.append(item)
        self.latest[kind] = item
        if known is not None:
            self.by_id[known, kind] = item
        self.stands_at(item, index)
        return item

    def stands_at(self, item: ItemFacts, index: Any) -> None:
        """The item is the one to be found at the index from here on."""
        if type(index) is int:
            self.at[index] = self.by_place[index, item.type] = item

    def of_id(self, item_id: Any, kind: str, index: Any) -> ItemFacts | None:
        """The item of that id and type; of several that share it the one at the index."""
        if type(item_id) is not str or not item_id:
            return None
        item = self.by_id.get((item_id, kind))
        if item is not None and type(index) is int and item.index != index:
            other = self.by_place.get((index, kind))
            return other if other is not None and other.id == item_id else item
        return item

    def of_piece(self, item_id: Any, kind: str, index: Any) -> ItemFacts | None:
        """The item a piece belongs to; None if nothing sent so far can be it."""
        near = NEAR_TYPE[kind]
        item = self.of_id(item_id, kind, index) or self.of_id(item_id, near, index)
        if item is None and type(index) is int:
            item = self.by_place.get((index, kind))
            if item is None and not item_id:
                item = self.by_place.get((index, near))
        elif item is None and not item_id:
            item = self.latest.get(kind)
        return item

    def of_done(self, item: dict[str, Any], kind: str, index: Any) -> ItemFacts | None:
        """The item that a done event closes; None if nothing sent so far can be it."""
        found = self.of_id(item.get("id"), kind, index)
        if found is None and type(index) is int:
            found = self.by_place.get((index, kind))
            found = None if found is not None and two_calls(found, item) else found
        if found is None and kind in CALL_VALUE and type(item.get("call_id")) is str:
            found = self.by_call.get(item["call_id"])
        if found is None and type(index) is not int:
            latest = self.latest.get(kind)
            found = latest if latest is not None and not latest.closed and not two_calls(latest, item) else None
        return found


def two_calls(known: ItemFacts, item: dict[str, Any]) -> bool:
    """Whether the ids of the calls tell the two apart, whatever else they share."""
    call_id = item.get("call_id")
    return bool(known.call_id and call_id and call_id != known.call_id)


def holds_value(item: dict[str, Any]) -> bool:
    """Whether an item as sent holds text or arguments of its own."""
    kind = item["type"]
    if kind in CALL_VALUE:
        return bool(item.get(CALL_VALUE[kind]))
    for member in ("content", "summary"):
        parts = item.get(member)
        for part in parts if type(parts) is list else [parts]:
            if type(part) is str and part:
                return True
            if type(part) is dict and any(part.get(name) for name in ("text", "refusal")):
                return True
    return False
