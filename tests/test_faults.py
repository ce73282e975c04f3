from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plans import BODY, EVENTS, HEAD, recorded
from reading import FIXTURES, fixture_of

from harness.dialects import BUILT_IN
from harness.error_forms import KINDS
from harness.errors import UsageError
from harness.events import Error
from harness.faults import FAULTS, Fault, apply, parse_fault
from harness.message import Message
from harness.recording import Recording
from harness.reduce import events_of, reduce
from harness.steps import RESET_SECONDS, Close, Head, Raw, Reset, Send, Step, Wait, body_of, heard, plan
from harness.store import load


def steps_of(text: str, body: bytes = BODY) -> list[Step]:
    return parse_fault(text).apply(plan(recorded(5, 20, len(body), body=body)))


def test_cut_and_reset_after_an_event_or_a_byte() -> None:
    assert steps_of("cut:event=1") == [HEAD, Send(BODY[:5]), Send(BODY[5 : len(EVENTS[0])]), Close(clean=False)]
    assert steps_of("cut:byte=7") == [HEAD, Send(BODY[:5]), Send(BODY[5:7]), Close(clean=False)]
    assert steps_of("cut:byte=5") == [HEAD, Send(BODY[:5]), Close(clean=False)]
    assert steps_of("cut:event=0") == [HEAD, Close(clean=False)]
    assert body_of(steps_of("cut:event=-1")) == EVENTS[0] + EVENTS[1]
    assert body_of(steps_of("cut:event=9")) == BODY
    assert body_of(steps_of("cut")) == BODY[: len(BODY) // 2]
    assert steps_of("reset:byte=5") == [HEAD, Send(BODY[:5]), Wait(RESET_SECONDS), Reset()]


def test_stall_goes_on_afterwards() -> None:
    assert steps_of("stall:byte=5,seconds=0.5") == [
        HEAD, Send(BODY[:5]), Wait(0.5), Send(BODY[5:20]), Send(BODY[20:]), Close(),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "left"),
    [
        (BODY, EVENTS[0] + EVENTS[1]),
        (b"data: x\n\ndata: [DONE]\n\ndata: y\n\n", b"data: x\n\ndata: y\n\n"),
        (b'event: message_stop\ndata: {"type":"message_stop"}\n\n', b""),
        (b'data: {"type":"a"}\n\ndata: {"type":"response.completed"}\n\n', b'data: {"type":"a"}\n\n'),
        (b'{"done":false}\n{"done":true}\n', b'{"done":false}\n'),
        (b"data: x\n\n", b"data: x\n\n"),
    ],
)
def test_drop_marker(body: bytes, left: bytes) -> None:
    steps = parse_fault("drop-marker").apply(plan(recorded(*range(3, len(body) + 1, 3), body=body)))
    assert body_of(steps) == left
    assert steps[-1] == Close()


def test_double_marker() -> None:
    assert body_of(steps_of("double-marker")) == BODY + EVENTS[2]
    anthropic = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
    assert body_of(steps_of("double-marker", b"data: x\n\n" + anthropic)) == b"data: x\n\n" + anthropic * 2
    assert body_of(steps_of("double-marker", b"data: x\n\n")) == b"data: x\n\n"


# A stream of our own in each dialect, with two calls where there is one such.
STREAMS = {
    **{dialect: fixture_of(dialect, "parallel-tools", "text") for dialect in BUILT_IN},
    "chat": "llamacpp/parallel-tools", "responses": "openai-responses/parallel-tools",
    "completions": "vllm-completions/text",
}  # fmt: skip


def stream(dialect: str) -> Recording:
    return load(FIXTURES / f"{STREAMS[dialect]}.sse").recording


def broken(dialect: str, *faults: str) -> Recording:
    """What a client hears of the dialect's stream with the faults."""
    whole = stream(dialect)
    return heard(apply([parse_fault(fault) for fault in faults], plan(whole)), whole)


def read(recording: Recording) -> Message:
    assert recording.dialect is not None
    return reduce(recording.body, recording.dialect).message()


@pytest.mark.parametrize("dialect", STREAMS)
def test_the_finish_is_dropped_and_nothing_else(dialect: str) -> None:
    whole, without = read(stream(dialect)), read(broken(dialect, "drop-finish"))
    assert whole.finish_reason is not None
    assert (without.finish_reason, without.finish_raw) == (None, None)
    assert (without.text, without.tool_calls) == (whole.text, whole.tool_calls)


@pytest.mark.parametrize("dialect", STREAMS)
@pytest.mark.parametrize("fault", ["error:event=2", "error", "error:marker=true"])
def test_an_error_comes_in_the_dialects_own_shape(dialect: str, fault: str) -> None:
    recording = broken(dialect, fault)
    assert recording.end == "eof"
    (error,) = [event for event in events_of(recording.body, dialect) if isinstance(event, Error)]
    assert error.message
    assert read(recording).terminal == "error"
    marked = stream(dialect).body.endswith(b"[DONE]\n\n") and "marker" in fault
    assert recording.body.endswith(b"[DONE]\n\n") == marked


def test_an_error_has_the_line_ends_of_the_stream() -> None:
    body = b'data: {"candidates":[]}\r\n\r\ndata: {"candidates":[]}\r\n\r\n'
    sent = body_of(steps_of("error:event=1", body))
    assert sent.count(b"\n") == sent.count(b"\r\n") == 4


def test_half_an_event_and_then_an_error_is_one_broken_line() -> None:
    body = body_of(steps_of("half-event:event=0"))
    assert body.startswith(EVENTS[0][: len(EVENTS[0]) // 2] + b'data: {"error":')
    assert body.endswith(b"\n\n")
    assert body_of(steps_of("half-event:event=9")) == body_of(steps_of("error:event=9"))


def test_noise_is_the_same_every_time() -> None:
    noise = body_of(steps_of("garbage:event=1,size=9"))[len(EVENTS[0]) :][:9]
    assert body_of(steps_of("garbage:event=1,size=9")) == EVENTS[0] + noise + EVENTS[1] + EVENTS[2]
    assert len(set(noise)) > 5


def test_half_a_character_stands_in_a_text() -> None:
    first, second = (f'data: {{"type":"x","delta":"{text}"}}\n\n'.encode() for text in "ab")
    assert body_of(steps_of("invalid-utf8:event=0", first + second)) == first.replace(b'"a', b'"\xe2\x82a') + second
    assert body_of(steps_of("invalid-utf8", first + second)) == first + second.replace(b'"b', b'"\xe2\x82b')
    assert body_of(steps_of("invalid-utf8:event=2")) == EVENTS[0] + EVENTS[1] + b"\xe2\x82" + EVENTS[2]


def test_a_bad_retry_starts_over() -> None:
    assert body_of(steps_of("repeat:event=1")) == EVENTS[0] + BODY
    assert steps_of("repeat:byte=7") == [
        HEAD, Send(BODY[:5]), Send(BODY[5:7]), Send(BODY[:5]), Send(BODY[5:20]), Send(BODY[20:]), Close(),
    ]  # fmt: skip


@pytest.mark.parametrize("dialect", STREAMS)
def test_calls_share_an_index_where_they_have_one(dialect: str) -> None:
    recording, reduced = stream(dialect), reduce(broken(dialect, "reuse-index").body, dialect)
    if dialect in ("gemini", "ollama", "completions"):
        assert broken(dialect, "reuse-index").body == recording.body
        return
    assert len(read(recording).tool_calls) == 2
    assert broken(dialect, "reuse-index").body != recording.body
    found = read(recording)
    assert [(call.name, call.arguments) for call in reduced.message().tool_calls] == [
        (call.name, call.arguments) for call in found.tool_calls
    ], "names and ids still tell them apart"


def test_comments_and_blank_lines() -> None:
    assert body_of(steps_of("comments:event=1,count=2")) == EVENTS[0] + b": keep-alive\n\n" * 2 + EVENTS[1] + EVENTS[2]
    flooded = broken("ollama", "comments:count=5")
    assert flooded.body.count(b"\n") == stream("ollama").body.count(b"\n") + 5
    assert read(flooded).tool_calls == read(stream("ollama")).tool_calls


def test_bom_and_line_ends() -> None:
    assert body_of(steps_of("bom")) == b"\xef\xbb\xbf" + BODY
    assert body_of(steps_of("crlf")) == BODY.replace(b"\n", b"\r\n")
    mixed = b"data: a\r\ndata: b\n\r\n"
    assert body_of(steps_of("crlf", mixed)) == b"data: a\r\ndata: b\r\n\r\n"
    assert Send(BODY[:5]) in steps_of("crlf")


def test_one_huge_event_says_the_same() -> None:
    body = body_of(steps_of("huge-event:event=0,size=70000"))
    assert body.startswith(b'data: {"padding":"xxxx')
    assert len(body) == len(BODY) + 70000 + len('"padding":"",')
    assert body_of(steps_of("huge-event:event=2")) == BODY  # [DONE] is no JSON
    for dialect in STREAMS:
        assert read(broken(dialect, "huge-event")).tool_calls == read(stream(dialect)).tool_calls


def test_gzip_is_flushed_with_each_piece_and_heard_as_it_was() -> None:
    steps = steps_of("gzip")
    assert steps[0] == Head(200, HEAD.headers | {"content-encoding": "gzip"})
    assert gzip.decompress(body_of(steps)) == BODY
    kept = heard(steps)
    assert (kept.body, kept.decoded_from, kept.end) == (BODY, "gzip", "eof")
    assert [read.end for read in kept.reads] == [5, 20, len(BODY)]
    both = [parse_fault("cut:byte=20"), parse_fault("gzip")]
    assert heard(apply(both, plan(recorded(5, 20, len(BODY))))).end == "cut"


def test_a_broken_chunk_ends_what_can_be_read() -> None:
    steps = steps_of("bad-chunks:byte=7")
    assert steps == [HEAD, Send(BODY[:5]), Send(BODY[5:7]), Raw(b"no size\r\n"), Close(clean=False)]
    assert (heard(steps).body, heard(steps).end) == (BODY[:7], "protocol-error")


def test_a_head_and_nothing_else() -> None:
    assert steps_of("nothing") == [HEAD, Wait(600.0), Close()]
    assert steps_of("nothing:seconds=0") == [HEAD, Close()]
    assert steps_of("media-type:value=text/html") == [
        Head(200, {"content-type": "text/html"}), Send(BODY[:5]), Send(BODY[5:20]), Send(BODY[20:]), Close(),
    ]  # fmt: skip


def test_a_page_says_200() -> None:
    head, send, close = steps_of("page")
    assert (head, close) == (Head(200, {"content-type": "text/html"}), Close())
    assert isinstance(send, Send)
    assert send.data.startswith(b"<html>")
    head, send, _ = steps_of("page:body=json")
    assert isinstance(send, Send)
    assert json.loads(send.data)["error"]["message"] == "Internal server error"


@pytest.mark.parametrize("dialect", STREAMS)
@pytest.mark.parametrize("code", [*KINDS, 418])
def test_a_status_has_the_dialects_own_error(dialect: str, code: int) -> None:
    body: dict[str, Any] = json.loads(broken(dialect, f"status:code={code}").body)
    forms = {
        "anthropic": {"type", "error"}, "cohere": {"message"},
        **{name: {"error"} for name in ("chat", "responses", "completions", "ollama", "gemini")},
    }  # fmt: skip
    assert body.keys() == forms.get(dialect, body.keys())
    assert reduce(json.dumps(body).encode(), dialect).message().error is not None
    if dialect == "gemini":
        assert body["error"]["code"] == code
        assert body["error"]["status"].isupper()


def test_a_fault_meets_only_so_many_requests() -> None:
    steps = plan(recorded(5))
    fault = parse_fault("bom:times=2")
    assert [body_of(fault.apply(steps, request))[:3] for request in (1, 2, 3)] == [b"\xef\xbb\xbf"] * 2 + [BODY[:3]]
    limited = parse_fault("rate-limit")
    assert [limited.apply(steps, request)[0] == HEAD for request in (1, 2)] == [False, True]
    assert [parse_fault("rate-limit:times=3").meets(request) for request in (1, 3, 4)] == [True, True, False]
    assert str(fault) == "bom:times=2"


BODIES = st.one_of(st.binary(max_size=200), st.sampled_from([stream(dialect).body[:3000] for dialect in STREAMS]))


NAMES = st.sampled_from([name for name in FAULTS if name != "status"])


@given(BODIES, st.lists(st.integers(0, 3000)).map(sorted), NAMES)
def test_any_body_can_be_broken(body: bytes, ends: list[int], name: str) -> None:
    settings = {"size": 10} if name == "huge-event" else {"count": 3} if name == "comments" else {}
    steps = Fault(name, settings).apply(plan(recorded(*ends, body=body)))
    assert isinstance(steps[0], Head)
    assert isinstance(steps[-1], Close | Reset)
    assert all(step.data for step in steps if isinstance(step, Send))
    kept = heard(steps)
    assert kept.end in ("eof", "cut", "reset", "protocol-error", "timeout:idle", "timeout:first-event")
    assert [read.end for read in kept.reads] == sorted({read.end for read in kept.reads})


def test_slow_stretches_waits_and_parts_pieces() -> None:
    steps = plan(recorded(5, 20, len(BODY), step=100_000), pace="recorded")
    slowed = parse_fault("slow:factor=3,gap=0").apply(steps)
    waits = [step.seconds for step in slowed if isinstance(step, Wait)]
    assert waits == pytest.approx([0.3, 0.3, 0.3])
    assert steps_of("slow:gap=0.5") == [
        HEAD, Wait(0.5), Send(BODY[:5]), Wait(0.5), Send(BODY[5:20]), Wait(0.5), Send(BODY[20:]), Close(),
    ]  # fmt: skip


def test_pieces_of_one_byte() -> None:
    sends = [step.data for step in steps_of("pieces") if isinstance(step, Send)]
    assert sends == [bytes([byte]) for byte in BODY]


def test_status_takes_the_place_of_the_recording() -> None:
    head, send, close = steps_of("status:code=429,retry-after=0")
    assert head == Head(429, {"content-type": "application/json", "retry-after": "0"})
    assert isinstance(send, Send)
    assert b'"Rate limit reached"' in send.data
    assert close == Close()
    assert steps_of("status:code=502,body=html")[0] == Head(502, {"content-type": "text/html"})
    assert steps_of("status:code=599,body=none") == [Head(599, {"content-type": "application/json"}), Close()]


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_is_described_and_reads_back(name: str) -> None:
    kind = FAULTS[name]
    assert kind.about.endswith(".")
    text = f"{name}:code=500" if kind.required else name
    assert str(parse_fault(text)) == text
    assert kind.usage.startswith(name)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("cutt:event=3", "use one of cut, reset, stall, nothing, slow, drip, .*, huge-event, for instance cut:event=3"),
        ("", "no fault ''"),
        ("cut:evnt=3", r"'evnt' is unknown: write cut\[:event=,byte=\]"),
        ("cut:event=3,event=4", "'event' twice"),
        ("cut:event=x", "event=x: must be a whole number$"),
        ("stall:seconds=soon", "seconds=soon: must be a number$"),
        ("cutt", "no fault 'cutt'; did you mean 'cut'\\? use one of cut"),
        ("cut:event=1,byte=1", "give one of them"),
        ("pieces:size=0", ">= 1"),
        ("bom:size=1", "'size' is unknown: write bom; every fault takes times= too"),
        ("bom:times=-1", ">= 0"),
        ("media-type:value=text", "matching regex"),
        ("media-type:value=a/b\r\nc: d", "matching regex"),
        ("error:marker=perhaps", "must be true or false$"),
        ("slow:factor=nan", ">= 0"),
        ("stall:seconds=inf", "<= 86400"),
        ("status", "code is missing: write status:code=,body=,retry-after="),
        ("status:code=99", ">= 200"),
        ("status:code=429,body=xml", "Invalid enum value"),
        ("status:code=429,retry-after=a\r\nb", "retry_after"),
    ],
)
def test_a_bad_fault_is_a_usage_error_that_says_what_there_is(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse_fault(text)
