import json
import re
import time

import pytest

from harness.clean import clean_stream
from harness.dialects import BUILT_IN
from harness.events import Finish, ToolCall
from harness.findings import Severity
from harness.recording import Recording
from harness.reduce import events_of, reduce
from harness.rules import lint
from harness.structure import structure


def chunk(**choice: object) -> str:
    choice = {"index": 0, "delta": {}, "finish_reason": None, **choice}
    return "data: " + json.dumps({"id": "c1", "object": "chat.completion.chunk", "model": "m", "choices": [choice]})


def test_seed_keepalive_comment_no_blank_lines_and_arguments_split_at_offset_4() -> None:
    """The migration diary's own test (SEEDS C): the joined arguments parse and the finish reason is seen."""
    arguments = '{"city": "Paris"}'
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": ""}}
    fragments = [{"index": 0, "function": {"arguments": part}} for part in (arguments[:4], arguments[4:])]
    lines = [
        ": ping",
        chunk(delta={"role": "assistant", "content": None, "tool_calls": [call]}),
        *(chunk(delta={"tool_calls": [fragment]}) for fragment in fragments),
        chunk(finish_reason="tool_calls"),
        "data: [DONE]",
    ]
    body = "\n".join(lines).encode()
    message = reduce(body).message()
    assert [json.loads(call.arguments) for call in message.tool_calls] == [{"city": "Paris"}]
    assert (message.finish_reason, message.terminal) == ("tool_calls", "done")
    events = events_of(body)
    assert [event.arguments for event in events if isinstance(event, ToolCall)] == ["", '{"ci', 'ty": "Paris"}']
    assert [event.raw for event in events if isinstance(event, Finish)] == ["tool_calls"]
    assert {note.code for note in message.notes} >= {"sse.events-glued"}


# -- payloads that noise has made part of an unknown field

PIECE = b'data: {"choices": [{"index": 0, "delta": {"content": "lost"}, "finish_reason": null}]}'


def stream(line: bytes) -> bytes:
    """A whole answer with this line in the middle."""
    ends = (chunk(delta={"role": "assistant", "content": "Hello"}), chunk(finish_reason="stop"), "data: [DONE]")
    head, *tail = (end.encode() + b"\n\n" for end in ends)
    return head + line + b"\n\n" + b"".join(tail)


@pytest.mark.parametrize("line", [
    b"\x00\x01" + PIECE, b"\xff\xfe:\x80" + PIECE, b"ping" + PIECE, b"WARN: slow upstream" + PIECE, b"data" + PIECE,
    b"ping" + PIECE.replace(b"data: ", b"data:"), b"pingdata: [DONE]", b"a data: b data: c" + PIECE,
    b'\x00data: {"anything": 1}', b"{" + PIECE,
])  # fmt: skip
def test_a_payload_swallowed_by_noise_is_told_and_not_read(line: bytes) -> None:
    reduced = reduce(stream(line))
    note = next(note for note in reduced.notes if note.code == "sse.data-swallowed")
    assert stream(line)[note.at : note.at + note.length] == line
    assert reduced.message().text == "Hello"
    told = lint(structure(Recording(body=stream(line), status=200, end="eof"), "chat"))
    assert [(finding.rule, finding.severity) for finding in told if finding.severity is not Severity.COSMETIC] == [
        ("sse.data-swallowed", Severity.FATAL)
    ]


@pytest.mark.parametrize("line", [
    b'metadata: {"a": 1}', b'x-data: {"usage": {"prompt_tokens": 3}}', b"userdata: hello", b"data-more: [1, 2]",
    b"debug: " + PIECE, b"debug:" + PIECE, b": " + PIECE, b"\x00\x01 no payload", b"metadata: {}",
    b"pingdata: null", b'errordata: {"message": "x", "code": 1}', b"\x00\x01data: half {", b"idata",
])  # fmt: skip
def test_honest_fields_and_plain_noise_stay_cosmetic(line: bytes) -> None:
    found = lint(structure(Recording(body=stream(line), status=200, end="eof"), "chat"))
    assert {finding.severity for finding in found} <= {Severity.COSMETIC}


@pytest.mark.parametrize("dialect", [name for name in BUILT_IN if name != "ollama"])
def test_a_piece_of_text_is_known_in_every_dialect_behind_a_word(dialect: str) -> None:
    body = clean_stream(dialect, {"text": "Hello there. And more."})
    for found in re.finditer(rb"(?m)^data: .*?(?:there|more).*$", body):
        noisy = body[: found.start()] + b"ping" + body[found.start() :]
        assert "sse.data-swallowed" in {note.code for note in reduce(noisy, dialect).notes}


def test_looking_for_a_swallowed_payload_costs_no_more_than_the_line() -> None:
    for line in (b"x" + b"data:" * 400_000, b"x" + b'data: {"a' * 200_000, b"xdata: " + b"[" * 2_000_000):
        begun = time.process_time()
        reduce(stream(line))
        assert time.process_time() - begun < 2
