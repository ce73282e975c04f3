"""Event sequence x event sequence -> differences, aligned: one event more is one difference, wherever it stands.

Compared by position, one dropped event reads as hundreds of changes. So what both have at their ends is set aside, then
neighbouring pieces are merged into runs (where a server cuts its text says nothing), runs that occur once on both sides
anchor the rest, and what lies between anchors is aligned by value, then by shape. Linear but for that last step, which
is bounded: a gap with too many ways to align it is told as a whole.

Ids are compared for whether they are there, never for what they are. Offsets and the place of a cut are no difference.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any, Literal

import msgspec

from harness.events import Audio, Event, Item, Ping, Reasoning, Refusal, Start, Text, ToolCall, Unknown, Usage
from harness.jsontext import as_text

PAIRS = 200_000  # equal pairs in a gap: above it, finding the best alignment takes seconds
SHOWN = 80  # characters of a value in a span
# Members of raw JSON that differ from answer to answer of one server.
VOLATILE = frozenset({
    "id", "item_id", "call_id", "tool_use_id", "response_id", "signature", "encrypted_content", "obfuscation",
    "sequence_number", "created", "created_at", "completed_at",
})  # fmt: skip

PIECES = (Text, Reasoning, Refusal)


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """Neighbouring events of one side: `count` from number `first` (from 0), `length` bytes from byte `at`."""

    first: int
    count: int
    at: int
    length: int
    kinds: list[str]
    shown: str


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """Missing in the candidate, added by it, or changed. The side that has nothing there is null."""

    kind: Literal["missing", "added", "changed"]
    baseline: Span | None
    candidate: Span | None


class _Run:
    """Neighbouring events that say one thing. `shape` is what it is, `value` what it says."""

    __slots__ = ("count", "first", "shape", "value")

    def __init__(self, first: int, count: int, shape: Hashable, value: Hashable) -> None:
        self.first, self.count, self.shape, self.value = first, count, shape, value

    @property
    def key(self) -> Hashable:
        return (self.shape, self.value)


def align(baseline: Sequence[Event], candidate: Sequence[Event]) -> list[Difference]:
    """How the candidate's events differ from the baseline's, in order of the baseline. Raises nothing."""
    ours, theirs = _keys(baseline), _keys(candidate)
    low, i, j = _trimmed(ours, theirs, 0, len(ours), 0, len(theirs))
    if low in (i, j):
        return [_difference(baseline, (low, i), candidate, (low, j))] if low < i or low < j else []
    left, right = _runs(baseline, ours, low, i), _runs(candidate, theirs, low, j)
    out = []
    for (a1, a2), (b1, b2) in _gaps([run.key for run in left], [run.key for run in right]):
        # What differs in value is told run by run where both sides have a run of the same shape.
        for (c1, c2), (d1, d2) in _by_shape(left[a1:a2], right[b1:b2]):
            found = _events(left, a1 + c1, a1 + c2, i), _events(right, b1 + d1, b1 + d2, j)
            if c2 - c1 == d2 - d1 == 1 and left[a1 + c1].shape == right[b1 + d1].shape:
                found = _narrowed(ours, found[0], theirs, found[1])
            out.append(_difference(baseline, found[0], candidate, found[1]))
    return out


# -- keys and runs ---------------------------------------------------------------------------------------------------


def _keys(events: Sequence[Event]) -> list[tuple[Hashable, Hashable]]:
    """For each event, what it is and what it says; equal for events that mean the same."""
    places: dict[tuple[type, Any], int] = {}  # ids of items differ from answer to answer: the order they come in counts
    out: list[tuple[Hashable, Hashable]] = []
    for event in events:
        cls = type(event)
        if cls in PIECES:
            key = event.key  # type: ignore[union-attr]
            place = -1 if key is None else places.setdefault((cls, key), len(places))
            out.append(((cls, event.choice, place, event.whole), event.text))  # type: ignore[union-attr]
        elif cls is ToolCall:
            opens = bool(event.id), event.name  # type: ignore[union-attr]
            shape = (cls, event.choice, event.index, opens, event.whole, event.type)  # type: ignore[union-attr]
            out.append((shape, event.arguments or ""))  # type: ignore[union-attr]
        else:
            out.append(_rare(event))
    return out


def _rare(event: Event) -> tuple[Hashable, Hashable]:
    if isinstance(event, Start):
        return (Start, bool(event.id)), (event.model, event.role)
    if isinstance(event, Item):
        return (Item, event.choice, event.item_type, event.phase, bool(event.id)), _steady(event.raw)
    if isinstance(event, Usage):
        return (Usage,), (event.input_tokens, event.output_tokens)
    if isinstance(event, Unknown):
        return (Unknown, event.name), _steady(event.raw)
    if isinstance(event, Audio):
        return (Audio, event.choice, event.data is None), event.data or event.transcript or ""
    fields = {name: getattr(event, name) for name in event.__struct_fields__ if name not in ("at", "length")}
    return (type(event),), as_text(fields)


def _steady(raw: Any) -> str:
    """JSON text without the members that differ from answer to answer."""

    def without(value: Any) -> Any:
        if type(value) is dict:
            return {key: without(inner) for key, inner in sorted(value.items()) if key not in VOLATILE}
        return [without(inner) for inner in value] if type(value) is list else value

    return as_text(without(raw))


def _runs(
    events: Sequence[Event], keys: Sequence[tuple[Hashable, Hashable]], start: int, stop: int
) -> list[_Run]:  # fmt: skip
    """Pieces of one channel, of one call's arguments, and of sound, merged."""
    out: list[_Run] = []
    at = start
    while at < stop:
        event, (shape, value) = events[at], keys[at]
        end = at + 1
        if isinstance(event, ToolCall):
            said = [value]
            while end < stop and _goes_on(event, events[end]):
                said.append(keys[end][1])
                end += 1
            value = "".join(map(str, said))
        elif isinstance(event, (Audio, *PIECES)) and not getattr(event, "whole", False):
            while end < stop and keys[end][0] == shape:
                end += 1
            value = "".join(str(said) for _, said in keys[at:end])
        out.append(_Run(at, end - at, shape, value))
        at = end
    return out


def _goes_on(call: ToolCall, event: Event) -> bool:
    """Whether the event is a further fragment of the call that says nothing but arguments."""
    return (
        isinstance(event, ToolCall) and event.choice == call.choice and event.index == call.index
        and not event.id and not event.name and not event.whole and event.type == call.type
    )  # fmt: skip


# -- alignment -------------------------------------------------------------------------------------------------------

Gap = tuple[tuple[int, int], tuple[int, int]]


def _trimmed(
    ours: Sequence[Any], theirs: Sequence[Any], a1: int, a2: int, b1: int, b2: int
) -> tuple[int, int, int]:  # fmt: skip
    """Where they first differ, counted from a1, and where the common end begins in each."""
    low, most = 0, min(a2 - a1, b2 - b1)
    while low < most and ours[a1 + low] == theirs[b1 + low]:
        low += 1
    while a2 > a1 + low and b2 > b1 + low and ours[a2 - 1] == theirs[b2 - 1]:
        a2 -= 1
        b2 -= 1
    return low, a2, b2


def _gaps(ours: list[Hashable], theirs: list[Hashable]) -> Iterator[Gap]:
    """What is not equal, between anchors: keys that occur once on both sides, in the longest common order."""
    low, a_end, b_end = _trimmed(ours, theirs, 0, len(ours), 0, len(theirs))
    a = b = low
    for anchor_a, anchor_b in [*_anchors(ours, theirs, low, a_end, b_end), (a_end, b_end)]:
        if anchor_a < a or anchor_b < b:
            continue  # taken by what followed an earlier anchor
        inner, i, j = _trimmed(ours, theirs, a, anchor_a, b, anchor_b)
        yield from _between(ours[a + inner : i], theirs[b + inner : j], a + inner, b + inner)
        a, b = anchor_a, anchor_b


def _anchors(ours: list[Hashable], theirs: list[Hashable], low: int, a_end: int, b_end: int) -> list[tuple[int, int]]:
    """Pairs of places, rising on both sides: the longest such chain (patience sorting)."""
    once_a, once_b = Counter(ours[low:a_end]), Counter(theirs[low:b_end])
    place = {key: n for n, key in enumerate(theirs[low:b_end], low) if once_b[key] == 1}
    pairs = [(n, place[key]) for n, key in enumerate(ours[low:a_end], low) if once_a[key] == 1 and key in place]
    ends: list[int] = []  # the smallest place in theirs that ends a chain of each length
    which: list[int] = []
    before = [-1] * len(pairs)
    for number, (_, there) in enumerate(pairs):
        length = bisect_left(ends, there)
        before[number] = which[length - 1] if length else -1
        if length == len(ends):
            ends.append(there)
            which.append(number)
        else:
            ends[length], which[length] = there, number
    chain, number = [], which[-1] if which else -1
    while number >= 0:
        chain.append(pairs[number])
        number = before[number]
    return chain[::-1]


def _between(ours: list[Hashable], theirs: list[Hashable], a: int, b: int) -> Iterator[Gap]:
    """The unequal parts of a gap that begins at a and b."""
    if not ours and not theirs:
        return
    if ours and theirs and _pairs(ours, theirs) <= PAIRS:
        for tag, i1, i2, j1, j2 in SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
            if tag != "equal":
                yield (a + i1, a + i2), (b + j1, b + j2)
    else:
        yield (a, a + len(ours)), (b, b + len(theirs))


def _pairs(ours: Sequence[Hashable], theirs: Sequence[Hashable]) -> int:
    counts = Counter(theirs)
    return sum(number * counts[key] for key, number in Counter(ours).items())


def _by_shape(left: list[_Run], right: list[_Run]) -> Iterator[Gap]:
    """A gap told run by run: those of the same shape as pairs, the rest as missing, added or replaced."""
    ours, theirs = [run.shape for run in left], [run.shape for run in right]
    if not left or not right or _pairs(ours, theirs) > PAIRS:
        yield (0, len(left)), (0, len(right))
        return
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        if tag != "equal":
            yield (i1, i2), (j1, j2)
            continue
        for step in range(i2 - i1):
            if left[i1 + step].value != right[j1 + step].value:
                yield (i1 + step, i1 + step + 1), (j1 + step, j1 + step + 1)


# -- telling ---------------------------------------------------------------------------------------------------------


def _events(runs: list[_Run], start: int, stop: int, end: int) -> tuple[int, int]:
    """Numbers of the events that runs start..stop hold; `end` is where the last run ends."""
    return (runs[start].first if start < len(runs) else end), (runs[stop].first if stop < len(runs) else end)


def _narrowed(
    ours: Sequence[tuple[Hashable, Hashable]], left: tuple[int, int],
    theirs: Sequence[tuple[Hashable, Hashable]], right: tuple[int, int],
) -> tuple[tuple[int, int], tuple[int, int]]:  # fmt: skip
    """Of two runs of the same shape, the events that hold what differs: at least one on each side."""
    if left[1] - left[0] == right[1] - right[0] == 1:
        return left, right
    one, other = ("".join(str(said) for _, said in keys[start:stop]) for keys, (start, stop) in
                  ((ours, left), (theirs, right)))  # fmt: skip
    same = _common(one, other)
    after = _common(one[same:][::-1], other[same:][::-1])
    return _holding(ours, left, same, len(one) - after), _holding(theirs, right, same, len(other) - after)


def _common(one: str, other: str) -> int:
    """Characters at the beginning that both have."""
    return next((n for n, (x, y) in enumerate(zip(one, other, strict=False)) if x != y), min(len(one), len(other)))


def _holding(
    keys: Sequence[tuple[Hashable, Hashable]], run: tuple[int, int], begin: int, end: int
) -> tuple[int, int]:  # fmt: skip
    """The events of the run that hold its characters begin..end."""
    seen, first, last = 0, run[1] - 1, run[0] + 1
    for number in range(*run):
        if seen <= begin:
            first = number
        if seen < end:
            last = number + 1
        seen += len(str(keys[number][1]))
    return first, max(first + 1, last)


def _difference(
    baseline: Sequence[Event], ours: tuple[int, int], candidate: Sequence[Event], theirs: tuple[int, int]
) -> Difference:  # fmt: skip
    left, right = _span(baseline, *ours), _span(candidate, *theirs)
    if left is None:
        return Difference(kind="added", baseline=None, candidate=right)
    return Difference(kind="missing" if right is None else "changed", baseline=left, candidate=right)


def _span(events: Sequence[Event], start: int, stop: int) -> Span | None:
    if start == stop:
        return None
    held = events[start:stop]
    at, end = min(event.at for event in held), max(event.at + event.length for event in held)
    kinds = list(dict.fromkeys(str(event.__struct_config__.tag) for event in held))
    return Span(first=start, count=stop - start, at=at, length=end - at, kinds=kinds, shown=_shown(held))


def _shown(events: Sequence[Event]) -> str:
    """The beginning of what the events say."""
    out, size = [], 0
    for event in events:
        said = ""
        if isinstance(event, PIECES):
            said = event.text
        elif isinstance(event, ToolCall):
            said = (f"{event.name}(" if event.name else "") + (event.arguments or "")
        elif not isinstance(event, Ping):
            fields = {name: getattr(event, name) for name in event.__struct_fields__ if name not in ("at", "length")}
            said = as_text(fields)
        out.append(said)
        size += len(said)
        if size > SHOWN:
            break
    return "".join(out)[:SHOWN]
