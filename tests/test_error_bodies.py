"""Failures told by a message alone, as Cohere and API gateways do, and error values of any kind, in every dialect."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from mutations import check

from harness.clean import clean_stream
from harness.dialects import BUILT_IN
from harness.error_forms import KINDS, error_body, error_event
from harness.jsontext import to_json
from harness.message import Failure
from harness.recording import Recording
from harness.rules import lint
from harness.structure import Reading, read

PAGES: list[dict[str, Any]] = [
    {"message": "invalid api token"}, {"id": "a-1", "message": "model 'm' not found"},
    {"request_id": "r", "message": "Forbidden"},
]  # fmt: skip


def judged(body: bytes, dialect: str, status: int = 200) -> tuple[Reading, list[str]]:
    reading = read(Recording(body=body, status=status, end="eof"), dialect)
    return reading, [finding.rule for finding in lint(reading.structure)]


def event(payload: Any, dialect: str, name: str = "") -> bytes:
    data = json.dumps(payload).encode()
    if dialect == "ollama":
        return data + b"\n"
    return (f"event: {name}\n".encode() if name else b"") + b"data: " + data + b"\n\n"


@pytest.mark.parametrize("status", [200, 400, 401, 404, 429, 500])
@pytest.mark.parametrize("dialect", BUILT_IN)
def test_a_page_of_a_message_alone_is_an_error(dialect: str, status: int) -> None:
    for page in PAGES:
        for indent in (None, 2) if dialect != "ollama" else (None,):
            body = json.dumps(page, indent=indent).encode()
            for whole in (body, body + b"\n", body + b"\n\n"):
                reading, told = judged(whole, dialect, status)
                assert reading.message.error == Failure(type=None, code=None, message=page["message"])
                assert told == (["error.in-stream"] if status == 200 else [])
                assert reading.structure.wire["error"]["envelope"] == "top-level"
                check(whole, dialect, 3)


@pytest.mark.parametrize("dialect", BUILT_IN)
def test_what_else_has_a_message_is_no_error(dialect: str) -> None:
    """A text that is empty, of another type, or beside something else; an answer in front of it, or after it."""
    for page in ({"message": ""}, {"message": {"content": ""}}, {"message": None}, {"message": "hi", "role": "bot"}):
        assert judged(json.dumps(page).encode(), dialect)[0].message.error is None
    answer = clean_stream(dialect, {"text": "Hello."})
    if dialect != "ollama":
        for body in (b'{"message": "welcome"}\n' + answer, b'{"message": "welcome"}\n\n' + answer):
            reading, told = judged(body, dialect)
            assert (reading.message.error, reading.message.text) == (None, "Hello.")
            assert "error.in-stream" not in told


@pytest.mark.parametrize("dialect", [name for name in BUILT_IN if name != "ollama"])
def test_an_event_of_its_own_name_may_say_what_it_likes(dialect: str) -> None:
    answer = clean_stream(dialect, {"text": "Hello."})
    for name in ("progress", "ping", "keepalive"):
        reading, _ = judged(event({"message": "searching"}, dialect, name) + answer, dialect)
        assert (reading.message.error, reading.message.text) == (None, "Hello.")


@pytest.mark.parametrize("dialect", ["chat", "completions", "responses", "anthropic", "gemini"])
def test_a_message_among_the_events_of_others_is_unknown_and_ends_nothing(dialect: str) -> None:
    reading, _ = judged(event({"message": "one moment"}, dialect) + clean_stream(dialect, {"text": "Hello."}), dialect)
    assert (reading.message.error, reading.message.text) == (None, "Hello.")


@pytest.mark.parametrize("dialect", ["cohere", "ollama"])
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(next(iter(page))))
def test_a_message_among_the_events_is_an_error_where_each_event_has_a_form(dialect: str, page: dict[str, Any]) -> None:
    answer = clean_stream(dialect, {"text": "Hello there."})
    end = b"\n" if dialect == "ollama" else b"\n\n"
    cut = answer.index(end, answer.index(end) + 1) + len(end)
    for start in (b"", answer[:cut]):
        body = start + event(page, dialect)
        reading, told = judged(body, dialect)
        assert reading.message.error == Failure(type=None, code=None, message=page["message"])
        assert told == ["error.in-stream"]
        check(body, dialect, 3)


def test_a_payload_of_cohere_with_a_type_is_what_its_type_says() -> None:
    answer = clean_stream("cohere", {"text": "Hello."})
    for payload in ({"type": "debug", "message": "x"}, {"type": "content-start", "message": "x"}):
        assert judged(event(payload, "cohere") + answer, "cohere")[0].message.error is None


@pytest.mark.parametrize("dialect", BUILT_IN)
def test_what_we_write_as_an_error_is_read_as_one(dialect: str) -> None:
    for status in (*KINDS, 418):
        body = error_body(dialect, status)
        for answered in (200, status):
            reading, _ = judged(body, dialect, answered)
            assert reading.message.error is not None
            assert reading.message.error.message == json.loads(body).get("message", reading.message.error.message)
    reading, told = judged(error_event(dialect, 0), dialect)
    assert reading.message.error is not None
    assert told[0] == "error.in-stream"


WIDE = b"[" + b",".join([b'{"a": [1, 2]}'] * 4_000) + b"]"
VALUES = {
    "long number": b"1" + b"0" * 5000, "negative": b"-" + b"9" * 5000, "infinite": b"1e400", "nan": b"NaN",
    "deep": b"[" * 390 + b"]" * 390, "deep objects": b'{"a":' * 390 + b"1" + b"}" * 390, "wide": WIDE,
    "long": b'"' + b"x" * 1_000_000 + b'"', "surrogate": b'"\\ud83d"', "true": b"true", "list": b'["one", 2]',
}  # fmt: skip
PLACES = (
    b'{"error": @}', b'{"error": {"code": @}}', b'{"error": {"message": @}}', b'{"error": {"type": @}}',
    b'{"error": "x", "code": @, "error_type": @}', b'{"type": "error", "message": @}',
    b'{"object": "error", "detail": @}',
)  # fmt: skip


@pytest.mark.parametrize("dialect", BUILT_IN)
@pytest.mark.parametrize("value", VALUES)
def test_any_value_in_an_error_is_read_and_written(dialect: str, value: str) -> None:
    begun = time.process_time()
    for place in PLACES:
        payload = place.replace(b"@", VALUES[value])
        body = payload + b"\n" if dialect == "ollama" else b"event: error\ndata: " + payload + b"\n\n"
        reading, told = judged(body, dialect)
        to_json(reading.message).encode()
        assert told
    assert time.process_time() - begun < 10


def test_an_error_that_is_no_text_is_shown_as_json() -> None:
    for value, shown in ((["one", 2], '["one",2]'), (True, "true"), (7, "7")):
        error = judged(event({"error": value}, "chat"), "chat")[0].message.error
        assert error is not None
        assert error.message == shown


WELL: list[dict[str, Any]] = [
    {"code": 0, "message": "success"}, {"code": 200, "message": "y", "status": "OK"}, {"code": "0", "message": "x"},
    {"type": "ping", "message": "still here"}, {"status": "success", "message": "x", "code": None},
]  # fmt: skip
ILL: list[dict[str, Any]] = [
    {"code": 0, "message": "x", "type": "server_error"}, {"code": 500, "message": "x"}, {"code": [0], "message": "x"},
    {"status": "error", "message": "x"}, {"code": 2000, "message": "x"}, {"code": "", "status": 503, "message": "x"},
]  # fmt: skip


@pytest.mark.parametrize("dialect", BUILT_IN)
def test_an_envelope_that_says_all_is_well_is_no_error(dialect: str) -> None:
    answer = clean_stream(dialect, {"text": "Hello."})
    plain = judged(answer, dialect)[0].message
    for payload in WELL:
        message = judged(event(payload, dialect) + answer, dialect)[0].message
        assert (message.error, message.text, message.terminal) == (None, plain.text, plain.terminal)
    for payload in ILL:
        if dialect in ("responses", "anthropic", "cohere") and "type" in payload:
            continue  # a type is the name of an event there
        failure = judged(event(payload, dialect) + answer, dialect)[0].message.error
        assert failure is not None
        assert failure.message == "x"
