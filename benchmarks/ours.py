"""The reader: parse, reduce, reduce with structure, against R; how it grows, and what it keeps."""

from __future__ import annotations

import tracemalloc

from benchmarks.reference import Folded, reference, same
from benchmarks.streams import DIALECTS, cut, huge, stream
from benchmarks.timing import ratio, seconds
from harness.events import Event
from harness.recording import Recording
from harness.reduce import Reducer
from harness.sse import SSEParser
from harness.structure import read


def parsed(pieces: list[bytes]) -> None:
    parser = SSEParser()
    for piece in pieces:
        parser.feed(piece)
    parser.finish()


def reduced(pieces: list[bytes], family: str) -> tuple[Folded, list[Event]]:
    """All of it: every event kept, the notes, the message."""
    reducer, events = Reducer(DIALECTS[family]), list[Event]()
    for piece in pieces:
        events += reducer.feed(piece)
    events += reducer.finish()
    message = reducer.message()
    tools = [[call.name, call.arguments] for call in message.tool_calls]
    return {"text": message.text, "tools": tools, "finish": message.finish_raw}, events


def with_structure(body: bytes, family: str) -> None:
    """What `harness lint` reads of a file: the message, and every fact of the wire."""
    read(Recording(body=body, end="eof"), DIALECTS[family], None, None)


def parse_ratio(family: str, count: int, pieces: str) -> float:
    held = cut(stream(family, count), pieces)
    return ratio(lambda: parsed(held), lambda: reference(held, family))


def reduce_ratio(family: str, count: int, pieces: str) -> float:
    held = cut(stream(family, count), pieces)
    assert same(reduced(held, family)[0], held, family), f"{family}: not the message R gives"
    return ratio(lambda: reduced(held, family), lambda: reference(held, family))


def structure_ratio(family: str, count: int) -> float:
    body = stream(family, count)
    held = cut(body, "4k")
    return ratio(lambda: with_structure(body, family), lambda: reference(held, family))


def growth(family: str, few: int, many: int) -> float:
    """CPU per event of a stream of `many` chunks, in units of that of a stream of `few`."""
    short, long = cut(stream(family, few), "4k"), cut(stream(family, many), "4k")
    return ratio(lambda: reduced(long, family), lambda: reduced(short, family), runs=3) * few / many


def huge_growth(small: int, large: int) -> float:
    """CPU for one event of `large` MB in units of that for one of `small` MB."""
    little, much = cut(huge(small), "4k"), cut(huge(large), "4k")
    return ratio(lambda: reduced(much, "chat_text"), lambda: reduced(little, "chat_text"), runs=3)


def kilobytes_kept(family: str, count: int) -> float:
    """Memory for each event kept, its text and the message's pieces included."""
    held = cut(stream(family, count), "4k")
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        kept = reduced(held, family)
        return (tracemalloc.get_traced_memory()[0] - before) / len(kept[1]) / 1024
    finally:
        tracemalloc.stop()


def megabytes_a_second(family: str, count: int) -> float:
    """For orientation only: it is this machine's, and this hour's."""
    body = stream(family, count)
    held = cut(body, "4k")
    return len(body) / 1e6 / seconds(lambda: reduced(held, family), runs=3)
