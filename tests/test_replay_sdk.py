"""The openai SDK as the client of the replay server: what it makes of a stream is what we do, or differs where said."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from llamacpp import llamacpp

from harness.events import Error
from harness.message import Message
from harness.recording import Read, Recording
from harness.reduce import Reducer, events_of, reduce
from harness.replay import Replay, read_fixtures
from harness.steps import events_in

openai = pytest.importorskip("openai")

FIXTURES = Path(__file__).parent.parent / "fixtures"
ASKED = [{"role": "user", "content": "hi"}]

Reading = tuple[str, list[tuple[str, str, str]], str | None]  # text, (id, name, arguments) of each call, finish reason


def chat_fixtures() -> dict[str, Recording]:
    """Every chat fixture of the repository, by `provider/shape`."""
    return {
        f"{provider}/{shape}": recording
        for provider, shapes in read_fixtures(FIXTURES)[0].items() for shape, recording in shapes.items()
        if recording.dialect == "chat"
    }  # fmt: skip


RECORDED = chat_fixtures()
ANSWERS = [name for name, recording in RECORDED.items() if "/error" not in name and recording.end == "eof"]
ERRORS = [name for name in RECORDED if "/error" in name]


@contextmanager
def client(server: Replay, *, max_retries: int = 0, **options: Any) -> Iterator[Any]:
    with openai.OpenAI(base_url=server.base_url, api_key="none", max_retries=max_retries, **options) as client:
        yield client


@contextmanager
def replayed(recording: Recording, *faults: str, **options: Any) -> Iterator[Any]:
    """A client of a server that has this recording only."""
    with Replay({"p": {"text": recording}}, faults=faults) as server, client(server, **options) as found:
        yield found


def by_helper(client: Any, **more: Any) -> Reading:
    """What the SDK's own accumulator makes of the stream."""
    with client.chat.completions.stream(model="m", messages=ASKED, **more) as stream:
        for _ in stream:
            pass
        choice = stream.get_final_completion().choices[0]
    calls = [(call.id, call.function.name, call.function.arguments) for call in choice.message.tool_calls or []]
    return choice.message.content or "", calls, choice.finish_reason


def by_chunks(client: Any) -> Reading:
    """What a careful reader of the SDK's typed chunks makes of it: keyed by index, empty values ignored."""
    text, finish = "", None
    calls: dict[int | None, list[str]] = {}
    with client.chat.completions.create(model="m", messages=ASKED, stream=True) as stream:
        for chunk in stream:
            for choice in chunk.choices:
                text += choice.delta.content or ""
                finish = choice.finish_reason or finish
                for fragment in choice.delta.tool_calls or []:
                    call = calls.setdefault(fragment.index, ["", "", ""])
                    call[0] = call[0] or fragment.id or ""
                    call[1] = call[1] or fragment.function.name or ""
                    call[2] += fragment.function.arguments or ""
    return text, [(call[0], call[1], call[2]) for _, call in sorted(calls.items())], finish


def ours(message: Message) -> Reading:
    return message.text, [(call.id, call.name, call.arguments) for call in message.tool_calls], message.finish_raw


def as_the_sdk_reads(reduced: Reducer) -> Reading:
    """Our reading, but for the wire faults where the SDK's accumulator is known to go wrong."""
    text, calls, finish = ours(reduced.message())
    if "tool.index-reused" in {note.code for note in reduced.notes}:
        # keyed by index alone: calls that share one become one, with everything joined
        calls = [("".join(call[0] for call in calls), "".join(call[1] for call in calls),
                  "".join(call[2] for call in calls))]  # fmt: skip
    return text, calls, finish


@pytest.mark.parametrize("name", ANSWERS)
def test_the_sdk_reads_a_fixture_as_we_do(name: str) -> None:
    reduced = reduce(RECORDED[name].body)
    with replayed(RECORDED[name]) as client:
        assert by_helper(client) == as_the_sdk_reads(reduced)
        if "tool.index-reused" not in {note.code for note in reduced.notes}:
            assert by_chunks(client) == ours(reduced.message())


@pytest.mark.parametrize("name", ANSWERS)
def test_the_sdk_reads_the_same_one_byte_a_piece(name: str) -> None:
    with replayed(RECORDED[name], "pieces:size=1") as client:
        assert by_helper(client) == as_the_sdk_reads(reduce(RECORDED[name].body))


@pytest.mark.parametrize("name", ERRORS)
def test_a_recorded_error_is_raised_as_the_sdk_raises_it(name: str) -> None:
    recording = RECORDED[name]
    message = reduce(recording.body).message()
    with replayed(recording) as client:
        if recording.status not in (None, 200):
            with pytest.raises(openai.APIStatusError) as by_status:
                by_chunks(client)
            assert by_status.value.status_code == recording.status
            assert message.error is not None
            assert message.error.message in by_status.value.message
        elif message.error is not None:
            with pytest.raises(openai.APIError) as in_stream:
                by_chunks(client)
            assert in_stream.value.message == told(recording.body)
        else:  # swallowed: the stream ends as if all were well
            assert by_chunks(client) == ours(message)


def told(body: bytes) -> str:
    """The message the SDK raises for the error in the body: the error object's own, else a phrase of its own."""
    (at,) = [event.at for event in events_of(body) if isinstance(event, Error)]
    payload = next(json.loads(event.data) for event, _ in events_in(body) if event.at == at)
    error = payload["error"]
    message = error.get("message") if isinstance(error, dict) else None
    return message if isinstance(message, str) and message else "An error occurred during streaming"


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


def fragment(arguments: str, index: int | None = 0, id: str | None = None, name: str | None = None) -> dict[str, Any]:
    """A chunk with one fragment of a call; members that are None are left out."""
    members = {"index": index, "id": id, "type": "function" if id else None}
    function = {"name": name, "arguments": arguments} if name else {"arguments": arguments}
    call = {**{key: value for key, value in members.items() if value is not None}, "function": function}
    return chunk(tool_calls=[call])


def stream(*payloads: Any, marker: bool = True) -> Recording:
    events = [b"data: " + json.dumps(payload).encode() + b"\n\n" for payload in payloads]
    return Recording(body=b"".join(events) + (b"data: [DONE]\n\n" if marker else b""), status=200, end="eof")


ROLE = chunk(role="assistant", content=None)
TEXT = stream(chunk(role="assistant", content=""), chunk(content='H"é'), chunk(content="\n😀"), chunk("stop"))
PARALLEL = stream(
    ROLE, fragment('{"a"', 0, "call_1", "f"), fragment('{"b"', 1, "call_2", "g"), fragment(":1}", 0),
    fragment(":2}", 1), chunk("tool_calls"),
)  # fmt: skip


@pytest.mark.parametrize("read", [by_helper, by_chunks])
@pytest.mark.parametrize(
    ("recording", "expected"),
    [
        (TEXT, ('H"é\n😀', [], "stop")),
        (PARALLEL, ("", [("call_1", "f", '{"a":1}'), ("call_2", "g", '{"b":2}')], "tool_calls")),
        # Faults of the wire that this SDK does not mind: no marker, no finish reason, no role.
        (stream(chunk(role="assistant", content="a"), chunk("stop"), marker=False), ("a", [], "stop")),
        (stream(chunk(role="assistant", content="a")), ("a", [], None)),
        (stream(chunk(content="a"), chunk("stop")), ("a", [], "stop")),
    ],
)
def test_streams_read_the_same_whole_and_in_bytes(
    recording: Recording, expected: Reading, read: Callable[[Any], Reading]
) -> None:
    assert ours(reduce(recording.body).message()) == expected
    for faults in ([], ["pieces"]):
        with replayed(recording, *faults) as client:
            assert read(client) == expected


@pytest.mark.parametrize("index", [None, 1])
def test_an_index_that_is_missing_or_starts_at_one_breaks_the_sdks_accumulator(index: int | None) -> None:
    recording = stream(ROLE, fragment('{"a"', index, "call_1", "f"), fragment(":1}", index), chunk("tool_calls"))
    expected = ("", [("call_1", "f", '{"a":1}')], "tool_calls")
    assert ours(reduce(recording.body).message()) == expected
    with replayed(recording) as client:
        # It uses the index as a position in a list. Its chunks still hold everything.
        with pytest.raises((TypeError, IndexError), match="list ind"):
            by_helper(client)
        assert by_chunks(client) == expected


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ({"message": "Context size exceeded", "type": "server_error", "code": 500}, "Context size exceeded"),
        ("Context size exceeded", "An error occurred during streaming"),  # a string: the SDK knows only objects
        ({"detail": "Context size exceeded"}, "An error occurred during streaming"),
    ],
)
def test_an_error_after_200_is_raised_after_what_came_before(error: Any, message: str) -> None:
    recording = stream(chunk(role="assistant", content="half"), {"error": error}, marker=False)
    assert told(recording.body) == message
    with (
        replayed(recording) as client,
        client.chat.completions.create(model="m", messages=ASKED, stream=True) as chunks,
    ):
        assert next(chunks).choices[0].delta.content == "half"
        with pytest.raises(openai.APIError) as raised:
            next(chunks)
    assert raised.value.message == message
    assert raised.value.body == error


@pytest.mark.parametrize(
    ("fault", "raised", "cause"),
    [
        ("cut:event=2", "APIConnectionError", "RemoteProtocolError"),
        ("cut:event=0", "APIConnectionError", "RemoteProtocolError"),
        ("reset:event=2", "APIConnectionError", "ReadError"),
        ("stall:event=2,seconds=60", "APITimeoutError", "ReadTimeout"),
        ("status:code=401", "AuthenticationError", "NoneType"),
        ("status:code=429,retry-after=0", "RateLimitError", "NoneType"),
        ("status:code=500", "InternalServerError", "NoneType"),
        ("status:code=502,body=html", "InternalServerError", "NoneType"),
    ],
)
def test_faults_reach_the_sdk_as_what_they_are(fault: str, raised: str, cause: str) -> None:
    seconds = 0.3 if fault.startswith("stall") else 30.0
    with replayed(PARALLEL, fault, timeout=seconds) as client, pytest.raises(openai.APIError) as found:
        by_chunks(client)
    assert type(found.value).__name__ == raised
    assert type(found.value.__cause__).__name__ == cause


def test_the_sdk_retries_against_the_server() -> None:
    with Replay({"p": {"text": TEXT}}, faults=["status:code=429,retry-after=0"]) as server:
        with client(server, max_retries=1) as sdk, pytest.raises(openai.RateLimitError):
            by_chunks(sdk)
        assert [exchange.status for exchange in server.journal] == [429, 429]


def test_the_sdk_lists_models() -> None:
    with Replay({"p": {"text": TEXT}}) as server, client(server) as sdk:
        assert [model.id for model in sdk.models.list()] == ["p"]


@pytest.mark.live
@pytest.mark.parametrize("more", [{}, {"tools": [{"type": "function", "function": {"name": "get_weather"}}]}])
def test_a_live_stream_reads_the_same_when_replayed(more: dict[str, Any]) -> None:
    asked = {"model": "tiny", "messages": ASKED, "stream": True, **more}
    with llamacpp() as url, openai.OpenAI(base_url=url + "/v1", api_key="none") as live:
        with httpx.stream("POST", url + "/v1/chat/completions", json=asked) as response:
            pieces = list(response.iter_raw())
            headers = dict(response.headers)
        said = by_helper(live, **more)
    ends = [sum(map(len, pieces[: number + 1])) for number in range(len(pieces))]
    reads = [Read(end, 1000 * number) for number, end in enumerate(ends)]
    recording = Recording(body=b"".join(pieces), reads=reads, status=200, headers=headers, end="eof")
    with Replay({"p": {"text": recording}}, pace="recorded") as server:
        with client(server) as sdk:
            again = by_helper(sdk)
        assert again == ours(reduce(recording.body).message())
        assert without_ids(again) == without_ids(said)  # ids are the server's own, new with every answer
        with httpx.stream("POST", server.base_url + "/chat/completions", json=asked) as response:
            assert list(response.iter_raw()) == pieces
            assert response.headers["content-type"] == headers["content-type"]


def without_ids(reading: Reading) -> Any:
    text, calls, finish = reading
    assert all(id for id, _, _ in calls)
    return text, [call[1:] for call in calls], finish


def test_fixtures_are_there() -> None:
    """The tests above run over what is found: finding nothing would pass."""
    assert len(ANSWERS) >= 24
    assert len(ERRORS) >= 8
