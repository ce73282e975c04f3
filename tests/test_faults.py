from __future__ import annotations

import pytest
from plans import BODY, EVENTS, HEAD, recorded

from harness.errors import UsageError
from harness.faults import FAULTS, parse_fault
from harness.steps import RESET_SECONDS, Close, Head, Reset, Send, Step, Wait, body_of, plan


def steps_of(text: str) -> list[Step]:
    return parse_fault(text).apply(plan(recorded(5, 20, len(BODY))))


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
        ("cutt:event=3", "use one of cut, reset, stall, drop-marker, slow, pieces, status"),
        ("", "no fault ''"),
        ("cut:evnt=3", r"'evnt' is unknown: write cut\[:event=,byte=\]"),
        ("cut:event=3,event=4", "'event' twice"),
        ("cut:event=x", "event=x: Expected `int | null`"),
        ("cut:event=1,byte=1", "give one of them"),
        ("pieces:size=0", ">= 1"),
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
