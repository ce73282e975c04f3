"""Where a file holds a key: in its bytes, escaped in its JSON, or split over the events of a stream; and masking it.

Three looks. At the bytes as they are. At every JSON string in them, decoded, and at JSON within that. At what the
events of a stream add up to: text, thinking, refusals, transcripts, the arguments of each call. Whatever is found is
told by the bytes it is made of, so that it can be masked there: with as many bytes as it had, so no offset changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from harness.errors import UsageError
from harness.events import Audio, Event, Reasoning, Refusal, Text, ToolCall
from harness.message import heal
from harness.reduce import events_of
from harness.secrets import forms_of, key_like

MASK = ord("*")  # in no form of a key, and itself in JSON strings, base64 aside
MAX_LEAKS = 100  # of one file: whoever has more has one cause
_DEPTH = 3  # JSON in JSON strings: arguments, and an error's message that quotes a body

_STRING = re.compile(r'"((?:[^"\\\x00-\x1f]|\\.)*+)"?')
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))", re.DOTALL)
_SHORT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_TELLING = frozenset({
    "arguments", "content", "delta", "input", "partial_json", "reasoning", "reasoning_content", "refusal", "text",
    "thinking", "tool_plan", "transcript",
})  # fmt: skip
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_KEPT = b" \t\r\n"  # not masked: line ends are framing

Span = tuple[int, int]  # from byte, to byte


class Leak(msgspec.Struct, frozen=True):
    """One key: what it is, in words that do not hold it, and the stretches of bytes it is made of, in order.

    `vague`: of an event it is a part of, only the whole is known.
    """

    what: str
    spans: tuple[Span, ...]
    vague: bool = False

    @property
    def at(self) -> int:
        """The first of its bytes."""
        return self.spans[0][0]


class _Mapped:
    """Text, and for each of its characters the bytes of the file it is written with: an escape may be split, too."""

    def __init__(self, text: str, spans: Sequence[tuple[Span, ...]] | None) -> None:
        self.text = text
        self._spans = spans  # None: character n is byte n

    def stretch(self, start: int, end: int) -> tuple[Span, ...]:
        """The bytes of the characters from start to end, neighbours joined."""
        if self._spans is None:
            return ((start, end),)
        return _joined(span for spans in self._spans[start:end] for span in spans)

    def strings(self) -> Iterator[_Mapped]:
        """The JSON strings in the text that are written with escapes, decoded: without any, they read as they are."""
        if "\\" not in self.text:
            return
        for match in _STRING.finditer(self.text):
            if "\\" in match[1]:
                yield self.decoded(match.start(1), match[1])

    def decoded(self, offset: int, raw: str) -> _Mapped:
        """The inside of a JSON string, which stands at the offset, without its escapes."""
        text: list[str] = []
        spans: list[tuple[Span, ...]] = []
        at = 0
        for match in _ESCAPE.finditer(raw):
            text.append(raw[at : match.start()])
            spans += [self.stretch(offset + index, offset + index + 1) for index in range(at, match.start())]
            code, short = match.groups()
            text.append(chr(int(code, 16)) if code else _SHORT.get(short, short))
            spans.append(self.stretch(offset + match.start(), offset + match.end()))
            at = match.end()
        text.append(raw[at:])
        spans += [self.stretch(offset + index, offset + index + 1) for index in range(at, len(raw))]
        return _Mapped("".join(text), spans)


def leaks_in(data: bytes, dialect: str | None = None, values: Mapping[str, str] | None = None) -> list[Leak]:
    """What looks like a key, or is one of the values (by the name of its variable), by place; at most MAX_LEAKS.

    With a dialect, the data is the body of a stream. Bytes beyond ASCII are looked at one by one.
    """
    known = [
        (f"the value of {name}", form.decode("latin-1"))
        for name, value in sorted((values or {}).items())
        for form in forms_of([value])
    ]
    whole = _Mapped(data.decode("latin-1"), None)
    found = [*_within(whole, known, _DEPTH)]
    if dialect is not None:
        for channel in _channels(events_of(data, dialect)):
            found += _split(data, channel, known)
    return _merged(found)[:MAX_LEAKS]


def _within(mapped: _Mapped, known: Sequence[tuple[str, str]], depth: int) -> Iterator[Leak]:
    for start, end, what in _matches(mapped.text, known):
        yield Leak(what, mapped.stretch(start, end))
    if depth:
        for inner in mapped.strings():
            yield from _within(inner, known, depth - 1)


def _matches(text: str, known: Sequence[tuple[str, str]]) -> Iterator[tuple[int, int, str]]:
    for what, form in known:
        at = text.find(form)
        while at >= 0:
            yield at, at + len(form), what
            at = text.find(form, at + len(form))
    for start, end, what in key_like(text):
        yield start, end, f"what looks like {what}"


def _channels(events: Iterable[Event]) -> list[list[tuple[Event, str]]]:
    """The pieces of each channel, in order. A piece that is a whole starts anew."""
    running: dict[tuple[object, ...], list[tuple[Event, str]]] = {}
    done: list[list[tuple[Event, str]]] = []
    for event in events:
        whole = False
        if isinstance(event, Text | Reasoning | Refusal):
            key: tuple[object, ...] = (type(event), event.choice, event.key)
            piece, whole = event.text, event.whole
        elif isinstance(event, ToolCall):
            key, piece, whole = (ToolCall, event.choice, event.index), event.arguments or "", event.whole
        elif isinstance(event, Audio):
            key, piece = (Audio, event.choice), event.transcript or ""
        else:
            continue
        if whole and key in running:
            done.append(running.pop(key))
        if piece:
            running.setdefault(key, []).append((event, piece))
    return done + list(running.values())


def _split(data: bytes, channel: Sequence[tuple[Event, str]], known: Sequence[tuple[str, str]]) -> Iterator[Leak]:
    """Keys of which no event has the whole: what is whole in one was found in its bytes."""
    if len(channel) < 2:
        return
    text = "".join([piece for _, piece in channel])
    if not any(True for _ in _within(_Mapped(text, None), known, 1)):
        return
    spans: list[tuple[Span, ...]] = []
    for event, piece in channel:
        spans += _written(data, event, piece)
    events = {(event.at, event.at + event.length) for event, _ in channel}
    for leak in _within(_Mapped(text, spans), known, 1):
        yield Leak(leak.what, leak.spans, vague=not events.isdisjoint(leak.spans))


def _written(data: bytes, event: Event, piece: str) -> Sequence[tuple[Span, ...]]:
    """The bytes each character of the piece is written with; all of the event's, where it is written otherwise."""
    here = (event.at, event.at + event.length)
    text = data[here[0] : here[1]].decode("utf-8", "replace")
    spans, at = [], event.at
    for character in text:
        size = len(character.encode())
        spans.append(((at, at + size),))
        at += size
    best = None
    if at == here[1]:  # else some of it is no UTF-8
        lines, name = _Mapped(text, spans), ""
        for match in _STRING.finditer(text):
            if len(match[1]) >= len(piece):
                found = _paired(lines.decoded(match.start(1), match[1]))
                # A short piece may be the value of another member, too.
                if found.text == piece and (best is None or name in _TELLING):
                    best = found
            name = match[1]
    return [(here,)] * len(piece) if best is None else [best.stretch(i, i + 1) for i in range(len(piece))]


def _paired(mapped: _Mapped) -> _Mapped:
    """The two halves of a character, escaped one by one, as the character."""
    if not _PAIR.search(mapped.text):
        return mapped
    text, spans, at = [], [], 0
    while at < len(mapped.text):
        size = 2 if _PAIR.match(mapped.text, at) else 1
        text.append(heal(mapped.text[at : at + size]))
        spans.append(mapped.stretch(at, at + size))
        at += size
    return _Mapped("".join(text), spans)


def _joined(spans: Iterable[Span]) -> tuple[Span, ...]:
    out: list[Span] = []
    for start, end in sorted(set(spans)):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(end, out[-1][1]))
        else:
            out.append((start, end))
    return tuple(out)


def _merged(found: Iterable[Leak]) -> list[Leak]:
    """One leak for what shares bytes: the same key is seen raw, decoded and joined. Told as what was seen first."""
    out: list[Leak] = []
    for leak in sorted(found, key=lambda leak: leak.spans):
        if out and any(a < d and c < b for a, b in out[-1].spans for c, d in leak.spans):
            before = out[-1]
            spans = _joined([*before.spans, *leak.spans])
            out[-1] = Leak(before.what, spans, vague=before.vague and leak.vague)
        else:
            out.append(leak)
    return out


def masked_bytes(data: bytes, leaks: Iterable[Leak]) -> bytes:
    """The data with every byte of the leaks as `*`, but for blanks and line ends. Its length stays.

    A vague leak stays as it is: masking it would undo the framing.
    """
    out = bytearray(data)
    for leak in leaks:
        for start, end in () if leak.vague else leak.spans:
            out[start:end] = bytes(byte if byte in _KEPT else MASK for byte in out[start:end])
    return bytes(out)


def without_leaks(data: bytes, dialect: str | None, values: Mapping[str, str], name: str) -> bytes:
    """The data, masked until nothing is found in it any more. Raises UsageError if that cannot be."""
    for _ in range(50):
        leaks = leaks_in(data, dialect, values)
        if not leaks:
            return data
        after = masked_bytes(data, leaks)
        if after == data:
            break
        data = after
    raise UsageError(f"{name}: a key in it cannot be masked; delete the file and record again")
