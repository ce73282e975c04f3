"""A seeded fuzzer: mutates every shipped stream, and what is imported and configured, and looks for what must not be.

    python tests/fuzz.py --seeds 0-15 --count 1000000 --jobs 2 --keep wrong

Each input is read whole and cut at one place: no exception, no hang, no difference. The same seeds and count give the
same inputs and, with the same code, the same digest, on any machine and with any number of jobs. `--count` is over all
seeds together. Not a test module: tests/test_fuzz.py runs a little of it, .ci/run more.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT)) if __name__ == "__main__" else None

from harness.dialects import BUILT_IN  # noqa: E402  # as a script it runs in a checkout that is not installed
from harness.errors import UsageError  # noqa: E402
from harness.events import Event  # noqa: E402
from harness.importers.base import dialect_of_path  # noqa: E402
from harness.importing import archive_of  # noqa: E402
from harness.jsontext import to_json  # noqa: E402
from harness.recording import Read, Recording  # noqa: E402
from harness.rules import lint  # noqa: E402
from harness.store import load  # noqa: E402
from harness.structure import read, signature  # noqa: E402

SECONDS = 5.0  # of processor time for one input: what takes longer hangs
DIALECTS = tuple(BUILT_IN)

VALUES: list[Any] = [
    None, "", "x", "STOP", "7", 0, 1, -1, 2.0, 1.5, 10**30, -(10**30), 1e308, float("nan"), True, False, [], {}, [1],
    [None], [{}], [[]], {"a": 1}, "{}", {"type": []}, {"type": "text", "text": "t"}, [{"text": "t"}], "\ud83d",
    "\udc00", "\0", {"message": "m", "code": 1}, {"": {"": ""}}, "tool_calls", "error", "\u2028", "}" * 9, "@deep",
]  # fmt: skip
DEEP = b"[" * 450 + b"]" * 450
BYTES = [
    b"\xff", b"\xc3", b"\xe2\x80\xa8", b"\xef\xbb\xbf", b"\0", b"\r", b"\n", b"\r\n", b"\n\n", b"\r\r", b":", b"data:",
    b"data: ", b"data: {}\n\n", b"data: [DONE]\n\n", b"event: error\n", b"id: \0\n", b"retry: 9\n", b": \n", b"}", b"{",
    b'"', b"\\", b"\\ud83d", b"\xed\xa0\xbd", b"\xf4\x90\x80\x80", b"\x1f\x8b", b"\x85", b"NaN", b"1e999", b"-0",
]  # fmt: skip
CONFIG = """\
providers:
  one:
    dialect: chat
    base_url: http://127.0.0.1:9/v1
    model: m
    headers: {x-team: "a"}
    request: {max_tokens: 3, tools: [{type: function}]}
    shapes:
      error: {request: {tool_choice: null}}
      logprobs: {skip: "not offered"}
    timeouts: {connect: 10, idle: 30}
    accept:
      - {rule: usage.position, reason: counted, until: 2027-06-30}
  two: {dialect: gemini, base_url: "https://host/v1", model: g, clients: [openai-python]}
"""


class Input(NamedTuple):
    """One mutated input: what reads it (`stream`, `config`, or an importer), and for a stream its dialect and cut."""

    target: str
    dialect: str
    data: bytes
    cut: int


class Wrong(Exception):
    """What must not be: said in words."""


def shipped() -> list[tuple[str, bytes]]:
    """Every quirk and fixture, as dialect and body, by path. Codings are undone."""
    found = []
    for path in sorted([*(ROOT / "harness" / "quirks").glob("*.sse"), *(ROOT / "fixtures").rglob("*.sse")]):
        recording = load(path).recording
        found.append((recording.dialect or "chat", recording.body))
    return found


class Mutator:
    """Gives input after input; all chance comes from the seed."""

    def __init__(self, seed: int, streams: list[tuple[str, bytes]]) -> None:
        self.random = random.Random(f"sse-harness {seed}")
        self.streams = streams

    def __iter__(self) -> Iterator[Input]:
        while True:
            yield self.one()

    def one(self) -> Input:
        """The next input."""
        chance = self.random
        kind = chance.randrange(256)
        if kind == 0:
            return Input("config", "", self.mutated(CONFIG.encode()), 0)
        dialect, body = chance.choice(self.streams)
        if kind < 8:
            form = chance.choice(sorted(FORMS))
            data = FORMS[form](body[:4000] if form == "vcr" else body)
            return Input(form, dialect, self.mutated(data), 0)
        body = self.mutated(body)
        if kind < 16:
            dialect = chance.choice(DIALECTS)
        return Input("stream", dialect, body, chance.randrange(len(body) + 1))

    def mutated(self, body: bytes) -> bytes:
        """The body with one to three faults."""
        for _ in range(self.random.randrange(1, 4)):
            body = self.random.choice(self.FAULTS)(self, body)
        return body

    def place(self, body: bytes) -> int:
        return self.random.randrange(len(body) + 1)

    def flip(self, body: bytes) -> bytes:
        """One to four bytes changed."""
        if not body:
            return b"\n"
        out = bytearray(body)
        for _ in range(self.random.randrange(1, 5)):
            out[self.random.randrange(len(out))] ^= 1 << self.random.randrange(8)
        return bytes(out)

    def cut(self, body: bytes) -> bytes:
        """The end, the start or a stretch missing."""
        start, end = sorted((self.place(body), self.place(body)))
        return self.random.choice((body[:start], body[end:], body[:start] + body[end:]))

    def splice(self, body: bytes) -> bytes:
        """The start of this and the end of another."""
        other = self.random.choice(self.streams)[1]
        return body[: self.place(body)] + other[self.place(other) :][:20_000]

    def insert(self, body: bytes) -> bytes:
        """Bytes that mean something, or that mean nothing in UTF-8."""
        at = self.place(body)
        return body[:at] + self.random.choice(BYTES) * self.random.choice((1, 1, 1, 2, 70)) + body[at:]

    def line_ends(self, body: bytes) -> bytes:
        """CR or CRLF, from a place on or everywhere."""
        at = self.random.choice((0, self.place(body)))
        return body[:at] + body[at:].replace(b"\n", self.random.choice((b"\r", b"\r\n", b"\n\n", b"")))

    def lines(self, body: bytes) -> bytes:
        """A line deleted, doubled or moved."""
        lines = body.split(b"\n")
        one, other = self.random.randrange(len(lines)), self.random.randrange(len(lines))
        how = self.random.randrange(3)
        line = lines[one] if how == 1 else lines.pop(one)
        if how:
            lines.insert(other, line)
        return b"\n".join(lines)

    def member(self, body: bytes) -> bytes:
        """A member of a payload deleted, doubled, retyped or moved."""
        lines = body.split(b"\n")
        at = self.random.randrange(len(lines))
        start = lines[at].find(b"{")
        if not 0 <= start < 64:
            return self.insert(body)
        try:
            payload = json.loads(lines[at][start:])
        except (ValueError, RecursionError):
            return self.lines(body)
        places: list[tuple[Any, Any]] = []
        _members(payload, places)
        if not places:
            return self.lines(body)
        container, key = self.random.choice(places)
        how = self.random.randrange(4)
        if how == 0:
            del container[key]
        elif how == 1:
            container[key] = self.random.choice(VALUES)
        elif how == 2 and isinstance(container, list):
            container.insert(self.random.randrange(len(container) + 1), container[key])
        elif how == 2:
            # The same name twice: only text can say that.
            twice = json.dumps({key: self.random.choice(VALUES)})[1:-1]
            lines[at] = lines[at][: start + 1] + twice.encode() + b"," + lines[at][start + 1 :]
            return b"\n".join(lines)
        else:
            other, place = self.random.choice(places)
            if isinstance(other, dict) or place < len(other):
                other[place] = json.loads(json.dumps(container[key]))
        text = json.dumps(payload, ensure_ascii=self.random.random() < 0.5)
        lines[at] = lines[at][:start] + text.encode("utf-8", "surrogatepass").replace(b'"@deep"', DEEP)
        return b"\n".join(lines)

    FAULTS: tuple[Callable[[Mutator, bytes], bytes], ...] = (
        flip, cut, splice, insert, line_ends, lines, lines, member, member, member, member,
    )  # fmt: skip


def _members(value: Any, places: list[tuple[Any, Any]]) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            places.append((value, key))
            _members(inner, places)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            places.append((value, number))
            _members(inner, places)


def _vcr(body: bytes) -> bytes:
    lines = ["interactions:", "- request: {method: POST, uri: 'https://host/v1/chat/completions', body: '{}'}",
             "  response:", "    status: {code: 200, message: OK}", "    headers: {content-type: [text/event-stream]}",
             f"    body: {{string: !!binary {base64.b64encode(body).decode()}}}", "version: 1", ""]  # fmt: skip
    return "\n".join(lines).encode()


def _har(body: bytes) -> bytes:
    content = {"mimeType": "text/event-stream", "encoding": "base64", "text": base64.b64encode(body).decode()}
    request = {"method": "POST", "url": "https://host/v1/messages", "headers": [], "postData": {"text": "{}"}}
    response = {"status": 200, "headers": [{"name": "content-type", "value": "text/event-stream"}], "content": content}
    return json.dumps({"log": {"entries": [{"request": request, "response": response}]}}).encode()


def _curl(body: bytes) -> bytes:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    return head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)


FORMS: dict[str, Callable[[bytes], bytes]] = {"vcr": _vcr, "har": _har, "curl": _curl}


def reading(body: bytes, dialect: str, cuts: tuple[int, ...]) -> tuple[Any, ...]:
    """All that is read of a body in the pieces that end at the cuts."""
    reads = [Read(end=end, microseconds=0) for end in cuts]
    events: list[Event] = []
    found = read(Recording(body=body, reads=reads, status=200, end="eof"), dialect, None, events)
    structure = found.structure
    return events, found.message, structure.notes, structure.where, structure.grades, structure


def try_stream(data: bytes, dialect: str, cut: int) -> str:
    """Read a stream whole and cut; what it says, as text. Raises Wrong, or whatever the reader raised."""
    whole, halves = reading(data, dialect, (len(data),)), reading(data, dialect, (cut, len(data)))
    for one, other in zip(whole[:-1], halves[:-1], strict=True):
        if one != other and repr(one) != repr(other):  # as text, since a NaN is not equal to itself
            raise Wrong(f"cut at {cut}: {_first_difference(one, other)}")
    one, other = whole[-1], halves[-1]
    lines = signature(one)
    if (one.wire, one.behaviour) != (other.wire, other.behaviour) and lines != signature(other):
        raise Wrong(f"cut at {cut}: {_first_difference(lines, signature(other))}")
    for event in whole[0]:
        if not 0 <= event.at <= event.at + event.length <= len(data):
            raise Wrong(f"an event outside of the body: {event}")
    for finding in lint(whole[-1]):
        if not finding.message or any(not 0 <= e.at <= e.at + e.length <= len(data) for e in finding.evidence):
            raise Wrong(f"a finding that shows nothing: {finding}")
    text = to_json(whole[1])
    text.encode()
    return text


def _first_difference(one: Any, other: Any) -> str:
    if isinstance(one, list) and isinstance(other, list):
        pairs = [(a, b) for a, b in zip(one, other, strict=False) if repr(a) != repr(b)]
        one, other = pairs[0] if pairs else (len(one), len(other))
    return f"{one!r:.300} is not {other!r:.300}"


def try_config(data: bytes, folder: Path) -> str:
    """Read a settings file: it is refused in words, or taken."""
    from harness.config import load_project

    path = folder / "providers.yaml"
    path.write_bytes(data)
    try:
        return ",".join(load_project(path, folder).providers)
    except UsageError as exc:
        if "\n" in str(exc):
            raise Wrong(f"a refusal of several lines: {exc}") from exc
        return str(exc).replace(str(folder), "")


def try_import(data: bytes) -> str:
    """Read an archive: it is refused in one line, or what its entries hold is bytes that can be read."""
    try:
        found = archive_of(data, "it")
    except UsageError as exc:
        if "\n" in str(exc):
            raise Wrong(f"a refusal of several lines: {exc}") from exc
        return str(exc)
    told = []
    for entry in found.entries:
        if entry.body:
            told.append(try_stream(entry.body, dialect_of_path(entry.path) or "chat", len(entry.body) // 2))
        told.append(f"{entry.about} {entry.end} {entry.lost}")
    return "".join(told)


def attempt(made: Input, folder: Path) -> str:
    """One input, tried; what came of it, as text. Raises Wrong or whatever the code raised."""
    if made.target == "stream":
        return try_stream(made.data, made.dialect, made.cut)
    if made.target == "config":
        return try_config(made.data, folder)
    return try_import(made.data)


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raises Wrong once the block has used that much processor time: a busy machine is no hang."""

    def late(number: int, frame: FrameType | None) -> None:
        raise Wrong(f"more than {seconds:g} s of processor time")

    before = signal.signal(signal.SIGVTALRM, late)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


class Result(NamedTuple):
    """How a run went: inputs tried, by target; digest of inputs and readings; the inputs that went wrong, and how."""

    tried: Counter[str]
    digest: str
    wrong: list[tuple[int, int, Input, str]]


Share = tuple[int, int]  # a seed, and how many inputs of it
Part = tuple[Counter[str], dict[int, bytes], list[tuple[int, int, Input, str]]]


def fuzz(seeds: range, count: int, until: float | None = None, stop_at: int = 10, jobs: int = 1) -> Result:
    """Try `count` inputs, shared out over the seeds, by `jobs` processes.

    Each stops early at `until` (monotonic seconds) or after `stop_at` faults. A seed is one process's, and has a digest
    of its own, so that the result is the same however many there are.
    """
    shares = [(seed, (count - place + len(seeds) - 1) // len(seeds)) for place, seed in enumerate(seeds)]
    if jobs == 1:
        parts = [_tried(shares, until, stop_at)]
    else:
        with ProcessPoolExecutor(jobs) as pool:
            running = [pool.submit(_tried, shares[job::jobs], until, stop_at) for job in range(jobs)]
            parts = [done.result() for done in running]
    digests = {seed: digest for _, found, _ in parts for seed, digest in found.items()}
    return Result(
        sum((tried for tried, _, _ in parts), Counter()),
        hashlib.sha256(b"".join(digests[seed] for seed in seeds)).hexdigest(),
        sorted((one for _, _, wrong in parts for one in wrong), key=lambda one: one[:2]),
    )


def _tried(shares: Sequence[Share], until: float | None, stop_at: int) -> Part:
    """The shares of one process: the seeds in turns, so that a run cut short has had all of them."""
    streams = shipped()
    tried: Counter[str] = Counter()
    wrong: list[tuple[int, int, Input, str]] = []
    digests = {seed: hashlib.sha256() for seed, _ in shares}
    mutators = {seed: Mutator(seed, streams) for seed, _ in shares}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for number in range(max((count for _, count in shares), default=0)):
            for seed, count in shares:
                if number >= count:
                    continue
                made = mutators[seed].one()
                tried[made.target] += 1
                try:
                    with limited(SECONDS):
                        said = attempt(made, folder)
                except Exception as exc:
                    last = traceback.extract_tb(exc.__traceback__)[-1]
                    said = f"{type(exc).__name__}: {exc} ({Path(last.filename).name}:{last.lineno})"
                    wrong.append((seed, number, made, said))
                digests[seed].update(b"%b\0%d\0" % (made.data, made.cut) + said.encode("utf-8", "replace"))
                if len(wrong) >= stop_at or (until is not None and time.monotonic() > until):
                    return tried, {seed: digest.digest() for seed, digest in digests.items()}, wrong
    return tried, {seed: digest.digest() for seed, digest in digests.items()}, wrong


def _seeds(text: str) -> range:
    first, _, last = text.partition("-")
    found = range(int(first), int(last or first) + 1)
    if not found:
        raise ValueError(text)
    return found


def main() -> int:
    """Run from the command line; exit 1 if anything went wrong. Inputs that did are kept, and their paths told."""
    parser = argparse.ArgumentParser(
        description="Mutate all shipped streams, archives and settings, and read them, whole and cut.",
        epilog="The million that releases are tried with: --seeds 0-15 --count 1000000 --jobs 2 --keep wrong",
    )
    parser.add_argument("--seeds", type=_seeds, default=range(16), metavar="A-B", help="seeds, 0-15 by default")
    parser.add_argument("--count", type=int, default=20_000, help="inputs over all seeds together")
    parser.add_argument("--minutes", type=float, help="stop after so long: run the count it tells to get its digest")
    parser.add_argument("--jobs", type=int, default=1, help="processes; the digest is the same with any number")
    parser.add_argument("--keep", type=Path, help="folder for the inputs that went wrong")
    options = parser.parse_args()
    if options.jobs < 1 or (options.jobs > 1 and options.minutes):
        parser.error("--jobs takes 1 or more, and with --minutes only 1: each process would stop somewhere else")
    begun = time.monotonic()
    until = begun + 60 * options.minutes if options.minutes else None
    result = fuzz(options.seeds, options.count, until, jobs=options.jobs)
    for seed, number, made, said in result.wrong:
        sys.stdout.write(f"seed {seed}, input {number} ({made.target} {made.dialect}): {said!r:.600}\n")
        if options.keep:
            options.keep.mkdir(parents=True, exist_ok=True)
            (options.keep / f"{seed}-{number}-{made.target}-{made.dialect}-{made.cut}").write_bytes(made.data)
    shown = ", ".join(f"{name} {count}" for name, count in sorted(result.tried.items()))
    sys.stdout.write(
        f"{sum(result.tried.values())} inputs ({shown}) in {time.monotonic() - begun:.0f} s, "
        f"{len(result.wrong)} wrong, digest {result.digest}\n"
    )
    return 1 if result.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
