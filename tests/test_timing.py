"""Timing: what came when, held-back streams, and limits that a provider's entry sets, in a gate over real sockets."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from commandline import Done, harness
from hypothesis import given
from hypothesis import strategies as st
from reading import FIXTURES, QUIRKS
from servers import Scripted, chunked

from harness.findings import Finding
from harness.recording import Read, Recording
from harness.reduce import events_of
from harness.replay import Replay
from harness.reports.timing import timing_lines
from harness.rules import lint
from harness.store import load
from harness.structure import read
from harness.thresholds import slow
from harness.timing import Burst, KeepAlives, Moment, Silence, Thresholds, Timing, held_back, measure


def event(text: str) -> bytes:
    return b'data: {"choices":[{"index":0,"delta":{"content":"%b"},"finish_reason":null}]}\n\n' % text.encode()


ROLE = b'data: {"id":"a","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}\n\n'
LAST = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


def timed(*pieces: tuple[float, bytes], headers: dict[str, str] | None = None) -> Recording:
    """A recording whose pieces came so many seconds after the request."""
    body, reads = b"", []
    for seconds, piece in pieces:
        body += piece
        reads.append(Read(end=len(body), microseconds=round(seconds * 1e6)))
    return Recording(body=body, reads=reads, status=200, headers=headers or {}, end="eof", dialect="chat")


def timing_of(recording: Recording) -> Timing:
    found = measure(recording, events_of(recording.body))
    assert found is not None
    return found


# -- facts --------------------------------------------------------------------------------------------------------


def test_what_came_when() -> None:
    words = [event("a"), event("b"), event("c")]
    recording = timed((0.5, b": hi\n\n"), (1.0, ROLE), (1.2, words[0]), (4.0, words[1] + words[2]), (4.01, LAST))
    found = timing_of(recording)
    assert (found.first_byte, found.last_byte) == (500_000, 4_010_000)
    role, first = 6, 6 + len(ROLE)
    assert found.first_event == Moment(microseconds=1_000_000, at=role, length=len(ROLE) - 1)
    assert found.first_content == Moment(microseconds=1_200_000, at=first, length=len(words[0]) - 1)
    second = first + len(words[0])
    assert found.longest_gap == Silence(
        microseconds=2_800_000, since=1_200_000, at=second, length=len(words[1]) - 1
    )  # fmt: skip
    assert found.keep_alives == KeepAlives(count=1)
    assert [burst.start for burst in found.bursts] == [500_000, 1_000_000, 1_200_000, 4_000_000]
    assert found.bursts[-1] == Burst(
        start=4_000_000, end=4_010_000, at=second, length=len(recording.body) - second, reads=2, events=4
    )  # fmt: skip


def test_an_event_has_come_when_its_last_byte_has() -> None:
    word = event("a")
    found = timing_of(timed((1.0, word[:20]), (3.0, word[20:] + LAST)))
    assert (found.first_byte, found.first_content) == (
        1_000_000, Moment(microseconds=3_000_000, at=0, length=len(word) - 1)
    )  # fmt: skip


def test_comments_and_pings_are_keep_alives_and_no_events() -> None:
    ping = b'event: ping\ndata: {"type": "ping"}\n\n'
    start = b'event: message_start\ndata: {"type": "message_start", "message": {"id": "m", "role": "assistant"}}\n\n'
    recording = timed((1.0, ping), (3.0, b": a\n: b\n\n"), (4.0, ping), (9.0, start))
    recording.dialect = "anthropic"
    found = measure(recording, events_of(recording.body, "anthropic"))
    assert found is not None
    assert found.keep_alives == KeepAlives(count=4, cadence=1_500_000, longest=2_000_000)
    assert found.first_event is not None
    assert (found.first_event.microseconds, found.longest_gap) == (9_000_000, None)


def test_without_reads_nothing_is_known() -> None:
    bare = Recording(body=ROLE + LAST, status=200, end="eof")
    assert measure(bare, events_of(bare.body)) is None
    assert slow(bare, "chat", Thresholds(first_byte=0.001)) == []


def test_events_beyond_the_reads_are_not_timed() -> None:
    recording = timed((1.0, ROLE))
    recording.body += event("a")
    found = timing_of(recording)
    assert found.first_event is not None
    assert found.first_content is None


def test_relay_headers_are_facts() -> None:
    headers = {"cache-control": "No-Cache, no-transform", "x-accel-buffering": "no", "server": "x"}
    recording = timed((0.1, ROLE + LAST), headers=headers)
    assert timing_of(recording).headers == {"x-accel-buffering": "no", "cache-control": "No-Cache, no-transform"}
    wire = read(recording, "chat").structure.wire["http"]
    assert wire["cache-control"] == {"no-cache": True, "no-transform": True}
    assert wire["x-accel-buffering"] == "no"
    assert {"cache-control", "x-accel-buffering"}.isdisjoint(read(timed((0.1, ROLE + LAST)), "chat").structure.wire)


def test_the_text_says_it_all() -> None:
    words = [(3.0 + number, event("a")) for number in range(9)]
    recording = timed((0.5, b": hi\n\n: ho\n\n"), (1.0, b": hi\n\n"), (2.5, ROLE), *words)
    recording.headers = {"x-accel-buffering": "no\x1b"}
    assert list(timing_lines(timing_of(recording))) == [
        "first byte 500.0 ms, last byte 11.00 s",
        "first event 2.50 s at byte 18",
        f"first content 3.00 s at byte {18 + len(ROLE)}",
        f"longest gap between events 1.00 s, from 3.00 s, until byte {18 + len(ROLE) + len(event('a'))}",
        "bursts 12",
        "  500.0 ms to 500.0 ms: 12 bytes, 0 events, 1 read",
        "  1.00 s to 1.00 s: 6 bytes, 0 events, 1 read",
        f"  2.50 s to 2.50 s: {len(ROLE)} bytes, 1 event, 1 read",
        *(f"  {3 + n}.00 s to {3 + n}.00 s: {len(event('a'))} bytes, 1 event, 1 read" for n in range(5)),
        "  and 4 more",
        "keep-alives 3, every 500.0 ms, at most 500.0 ms apart",
        "x-accel-buffering: no\\x1b",
    ]


@given(
    st.lists(st.tuples(st.integers(0, 80), st.integers(0, 5_000_000)), min_size=1, max_size=12),
    st.sampled_from(["chat", "anthropic", "ollama"]),
    st.binary(max_size=400) | st.just(ROLE + event("a") + b": x\n\n" + event("b") + LAST),
)  # fmt: skip
def test_measuring_copes_with_any_body_and_any_reads(
    steps: list[tuple[int, int]], dialect: str, body: bytes
) -> None:
    reads, end, now = [], 0, 0
    for size, wait in steps:
        end, now = min(end + size, len(body)), now + wait
        reads.append(Read(end=end, microseconds=now))
    recording = Recording(body=body, reads=reads, status=200, end="eof")
    found = measure(recording, events_of(body, dialect))
    assert found is not None
    assert found.first_byte <= found.last_byte == now
    assert sum(burst.length for burst in found.bursts) == end
    assert sum(burst.reads for burst in found.bursts) == len(reads)
    assert list(timing_lines(found))
    for finding in slow(recording, dialect, Thresholds(first_byte=1, first_event=1, first_content=1, gap=1, total=1)):
        (evidence,) = finding.evidence
        assert 0 <= evidence.at <= evidence.at + evidence.length <= len(body)
        assert finding.candidate > 1


# -- held back ----------------------------------------------------------------------------------------------------


def told(recording: Recording) -> list[str]:
    return [finding.rule for finding in lint(read(recording, "chat").structure) if finding.rule.startswith("timing")]


WORDS = [event("word") for _ in range(40)]
WHOLE = ROLE + b"".join(WORDS) + LAST


def paced(start: float, gap: float, words: list[bytes]) -> Recording:
    return timed(*((start + number * gap, piece) for number, piece in enumerate([ROLE, *words, LAST])))


LATE: dict[str, tuple[Recording, bool]] = {
    "one read": (timed((2.0, WHOLE)), True),
    "one read, in time": (timed((1.99, WHOLE)), False),
    "a few reads at once": (timed((5.0, WHOLE[:999]), (5.01, WHOLE[999:2000]), (5.04, WHOLE[2000:])), True),
    "a long answer, emptied word by word": (paced(9, 0.0005, WORDS * 10), True),
    "a fast server after a long prompt": (paced(9, 0.02, WORDS), False),
    "a very fast one, and a long answer": (paced(2.5, 0.0005, WORDS * 20), False),
    "in two bursts": (timed((5.0, WHOLE[:999]), (5.2, WHOLE[999:])), False),
    "kept alive meanwhile": (timed((0.5, b": hi\n\n"), (1.5, b": hi\n\n"), (2.5, WHOLE)), True),
    "the role came early": (timed((0.5, ROLE), (2.5, WHOLE[len(ROLE) :])), False),
    "no more than an error": (timed((3.0, b'data: {"error": {"message": "m"}}\n\n')), False),
}  # fmt: skip


@pytest.mark.parametrize("name", LATE)
def test_a_stream_that_was_held_back(name: str) -> None:
    recording, held = LATE[name]
    assert told(recording) == (["timing.one-burst"] if held else [])


def test_a_ping_that_is_an_event_of_its_own_hides_no_buffer() -> None:
    body = (FIXTURES / "vllm-anthropic" / "text.sse").read_bytes()
    ping = b'event: ping\ndata: {"type":"ping"}\n\n'
    recording = timed((0.5, ping), (3.0, body))
    notes = read(recording, "anthropic").structure.notes
    assert notes["timing.one-burst"].detail == "3.0 s"


def test_reads_that_do_not_reach_the_end_tell_nothing() -> None:
    reads = [Read(end=50, microseconds=3_000_000)]
    assert held_back(reads, 100, 20, 5) is None
    assert held_back(reads, 50, 20, 5) == 3_000_000
    assert held_back(reads, 50, 20, 2) is None
    assert held_back([], 0, 0, 5) is None


def test_the_label_of_case_064_holds() -> None:
    loaded = load(QUIRKS / "064-buffered-by-proxy.sse")
    (finding,) = [found for found in lint(read(loaded.recording, "chat").structure) if found.severity != "cosmetic"]
    assert (finding.rule, finding.severity) == ("timing.one-burst", "negotiable")
    assert "after 16.5 s" in finding.message


# -- limits -------------------------------------------------------------------------------------------------------


def limited(recording: Recording, **limits: float) -> list[Finding]:
    return slow(recording, "chat", Thresholds(**limits), take=3)


def test_what_is_later_than_allowed_is_a_finding() -> None:
    recording = timed((0.5, b": hi\n\n"), (1.0, ROLE), (1.2, event("a")), (4.0, event("b")), (4.5, LAST))
    assert limited(recording) == []
    assert limited(recording, first_byte=0.5, first_event=1, first_content=1.2, gap=2.8, total=4.5) == []
    found = limited(recording, first_byte=0.4, first_event=0.9, first_content=1.1, gap=2.5, total=4.4)
    assert [(finding.rule, finding.baseline, finding.candidate) for finding in found] == [
        ("timing.first-byte", 0.4, 0.5), ("timing.first-event", 0.9, 1.0), ("timing.first-content", 1.1, 1.2),
        ("timing.gap", 2.5, 2.8), ("timing.total", 4.4, 4.5),
    ]  # fmt: skip
    for finding in found:
        assert finding.severity == "negotiable"
        assert finding.path == finding.rule.replace("-", "_")
        (evidence,) = finding.evidence
        assert (evidence.side, evidence.take) == ("candidate", 3)
    gap = found[3]
    assert gap.message == (
        "no event came for 2.8 s, longer than the 2.5 s allowed: the answer stutters, and an idle timeout fires in the "
        "middle of it"
    )
    assert recording.body[gap.evidence[0].at :][: gap.evidence[0].length] == event("b").strip() + b"\n"


def test_what_never_came_is_not_late() -> None:
    recording = timed((9.0, b'data: {"error": {"message": "m"}}\n\n'))
    assert [found.rule for found in limited(recording, first_content=1, gap=1)] == []


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(FIXTURES / "vllm", tmp_path / "fixtures" / "vllm")
    return tmp_path


def configure(folder: Path, url: str, **fields: Any) -> None:
    entry = {"dialect": "chat", "base_url": url, "model": "tiny", "auth": "none", **fields}
    (folder / "providers.yaml").write_text(yaml.safe_dump({"providers": {"cand": entry}}), "utf-8")


def gate(*arguments: object) -> Done:
    return harness("gate", "vllm", "cand", "--shape", "text", *arguments)


def test_thresholds_are_judged_in_a_gate_and_are_off_by_default(folder: Path) -> None:
    text = (folder / "fixtures" / "vllm" / "text.sse").read_bytes()
    half = text[:5000].rpartition(b"data: ")[0]
    with Scripted(chunked(0.3, half, 0.5, text[len(half) :])) as server:
        configure(folder, server.url)
        assert gate("--json").one["outcome"] == "conforms"
        configure(folder, server.url, thresholds={"first_event": 0.2, "first_content": 10, "gap": 0.4})
        done = gate("--json")
        assert "text differs (timing.first-event, timing.gap); bytes in" in done.failed(1)
        first, gap = done.one["shapes"][0]["findings"]
        assert 0.3 <= first["candidate"] < gap["candidate"] + first["candidate"]
        assert 0.45 <= gap["candidate"] < 5
        assert (first["baseline"], gap["baseline"], gap["path"]) == (0.2, 0.4, "timing.gap")
        assert gap["evidence"] == [
            {"side": "candidate", "take": 1, "at": len(half), "length": gap["evidence"][0]["length"]}
        ]  # fmt: skip
        accepted = {"rule": "timing.*", "reason": "a slow machine"}
        configure(folder, server.url, thresholds={"first_event": 0.2, "gap": 0.4}, accept=[accepted])
        assert gate("--json").one["outcome"] == "conforms"


def test_a_recorded_candidate_is_judged_by_its_sidecars_times(folder: Path) -> None:
    shutil.copytree(folder / "fixtures" / "vllm", folder / "fixtures" / "cand")
    sidecar = folder / "fixtures" / "cand" / "text.json"
    told = json.loads(sidecar.read_bytes())
    size = (folder / "fixtures" / "cand" / "text.sse").stat().st_size
    told["reads"] = [[300, 1_500_000], [size, 1_600_000]]
    sidecar.write_text(json.dumps(told), "utf-8")
    configure(folder, "http://127.0.0.1:9", thresholds={"first_byte": 1.4, "gap": 0.2})
    (finding,) = gate("--recorded", "--json").one["shapes"][0]["findings"]
    assert (finding["rule"], finding["candidate"]) == ("timing.first-byte", 1.5)


def test_a_header_that_relays_obey_is_remarked_when_it_is_lost(folder: Path) -> None:
    loaded = {shape: load(FIXTURES / "vllm" / f"{shape}.sse").recording for shape in ("text",)}
    loaded["text"].headers["x-accel-buffering"] = "no"
    with Replay({"vllm": loaded}) as server:
        configure(folder, server.base_url)
        assert harness("record", "cand", "--shape", "text").code == 0
        shutil.move(folder / "fixtures" / "cand", folder / "fixtures" / "base")
    with Replay(FIXTURES / "vllm") as server:
        configure(folder, server.base_url)
        shape = harness("gate", "base", "cand", "--shape", "text", "--json").one["shapes"][0]
    assert (shape["outcome"], shape["findings"]) == ("conforms", [])
    (remark,) = shape["remarks"]
    assert remark.startswith("X-Accel-Buffering: no comes from the baseline and not from the candidate")
