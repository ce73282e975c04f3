"""Where a body may be cut on the network: families of cuts by name, pieces, the smallest cut that still fails. Pure.

A cut is an offset with bytes on both sides. A family is all cuts of a kind at once, so that one run sees them all:

    whole              none
    recorded           where the client read when it was recorded
    bytes              everywhere; in the middle of a long run of plain characters every 997 bytes
    line-ends          after each line end
    inside-crlf        between CR and LF
    inside-characters  between the bytes of one character (UTF-8)
    inside-escapes     within a JSON escape (\\n, \\u00e9), and between two that make one character
    after-colon        between a field's colon and its value, before and after the space
    seeded:N           at random, the same for the same N
    at:A,B,...         at the offsets given

Source: cases/README, rule 2: where the bytes are cut must make no difference.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

from harness.errors import UsageError

FAMILIES = (
    "whole", "recorded", "bytes", "line-ends", "inside-crlf", "inside-characters", "inside-escapes", "after-colon",
    "seeded:1", "seeded:2", "seeded:3",
)  # fmt: skip
MAX_SEED = 10**9

_LINE_END = re.compile(rb"\r\n|\r|\n")
_INSIDE_CHARACTER = re.compile(rb"[\x80-\xbf]")
_ESCAPES = re.compile(rb"(?:\\(?:u[0-9a-fA-F]{4}|[^u]))+")
PLAIN = 4096  # bytes of a run from which on it is long: nothing in it that a reader could take for anything but text
EDGE = 64  # bytes at both ends of a long run that are cut one by one all the same
STRIDE = 997  # bytes between cuts in the middle of a long run; a prime, so that no buffer size hides behind it
_PLAIN = re.compile(rb"[^\r\n\\\":,{}\[\]\x80-\xff]{%d,}" % PLAIN)
_FIELD = re.compile(rb"(?:^|[\r\n])(?:\xef\xbb\xbf)?(?:data|event|id|retry):( ?)")


def offsets(body: bytes, family: str, reads: Iterable[int] = ()) -> list[int]:
    """The family's cuts in this body, ascending, each once; none if it has no such place.

    `reads` are the offsets at which recorded reads ended. Raises UsageError for a family that does not exist.
    """
    name, colon, setting = family.partition(":")
    if name == "seeded" and colon:
        found: Iterable[int] = _seeded(len(body), _number(family, setting))
    elif name == "at" and colon:
        found = [_number(family, part) for part in setting.split(",")]
        if beyond := [cut for cut in found if not 0 < cut < len(body)]:
            raise UsageError(f"cut {family}: {beyond[0]} is not within the body; use offsets from 1 to {len(body) - 1}")
    elif family == "recorded":
        found = reads
    elif family in _PLACES:
        found = _PLACES[family](body)
    else:
        known = ", ".join([*dict.fromkeys(known for known in FAMILIES if ":" not in known), "seeded:N", "at:A,B,..."])
        raise UsageError(f"no family of cuts {family!r}: use one of {known}")
    return sorted({cut for cut in found if 0 < cut < len(body)})


def _number(family: str, text: str) -> int:
    if not re.fullmatch("[0-9]{1,10}", text) or int(text) > MAX_SEED:
        example = "seeded:1" if family.startswith("seeded") else "at:12,40"
        raise UsageError(f"cut {family!r}: {text!r} is not a number from 0 to {MAX_SEED}; write it as {example}")
    return int(text)


def _seeded(size: int, seed: int) -> Iterator[int]:
    # random() alone is promised to be the same in every version of Python
    rng, at = random.Random(seed), 0
    while at < size:
        at += 1 + int(rng.random() ** 2 * 48)
        yield at


def _escapes(body: bytes) -> Iterator[int]:
    """Every place within a run of escapes: a pair such as \\ud83d\\ude00 is one character."""
    for match in _ESCAPES.finditer(body):
        yield from range(match.start() + 1, match.end())


def _bytes(body: bytes) -> Iterator[int]:
    """Every place; but single bytes in the middle of plain characters say nothing more, and cost a reader that
    searches its whole buffer at each piece the square of the line's length."""
    at = 1
    for match in _PLAIN.finditer(body):
        first, last = match.start() + EDGE, match.end() - EDGE
        yield from range(at, first)
        yield from range(first, last, STRIDE)
        at = last
    yield from range(at, len(body))


def _after_colon(body: bytes) -> Iterator[int]:
    for match in _FIELD.finditer(body):
        yield match.start(1)
        yield match.end()


_PLACES: dict[str, Callable[[bytes], Iterable[int]]] = {
    "whole": lambda body: (),
    "bytes": _bytes,
    "line-ends": lambda body: (match.end() for match in _LINE_END.finditer(body)),
    "inside-crlf": lambda body: (match.start() + 1 for match in re.finditer(rb"\r\n", body)),
    "inside-characters": lambda body: (match.start() for match in _INSIDE_CHARACTER.finditer(body)),
    "inside-escapes": _escapes,
    "after-colon": _after_colon,
}


def pieces(body: bytes, cuts: Sequence[int]) -> list[bytes]:
    """The body cut at the offsets (ascending). An empty body is no piece at all."""
    return [body[start:end] for start, end in pairwise([0, *cuts, len(body)]) if end > start]


def shrink(fails: Callable[[list[int]], bool], cuts: Sequence[int], limit: int = 100) -> list[int]:
    """A smallest part of the cuts that still fails: taking any one away makes it pass.

    `fails` is asked at most `limit` times; when that is not enough the smallest found so far is returned. The cuts
    given are taken to fail. Source: Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input".
    """
    kept = list(cuts)
    asked = 0

    def failing(candidates: Iterable[list[int]]) -> list[int] | None:
        nonlocal asked
        for candidate in candidates:
            if asked >= limit:
                return None
            asked += 1
            if fails(candidate):
                return candidate
        return None

    if not kept or failing([[]]) is not None:
        return []
    parts = 2
    while len(kept) > 1 and asked < limit:
        size = -(-len(kept) // parts)
        subsets = [kept[start : start + size] for start in range(0, len(kept), size)]
        found = failing(subsets)
        if found is not None:
            kept, parts = found, 2
            continue
        if parts > 2:  # of two halves, one's complement is the other
            rests = ([cut for other in subsets if other is not subset for cut in other] for subset in subsets)
            found = failing(rests)
        if found is not None:
            kept, parts = found, max(parts - 1, 2)
        elif size == 1:
            break
        else:
            parts = min(parts * 2, len(kept))
    return kept


def written(cuts: Sequence[int]) -> str:
    """The cuts as a family's name that `offsets` reads: `at:12,40`, or `whole` for none."""
    return "at:" + ",".join(map(str, cuts)) if cuts else "whole"
