from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness import reduce
from harness.errors import NotMeasured, UsageError
from harness.findings import Severity
from harness.recording import Recording
from harness.store import load
from harness.structure import read
from harness.testing import Facts, Stream, differences, explanation, quirk, structure

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"


def stream(name: str, *, live: bool = False, more: tuple[str, ...] = ()) -> Stream:
    recording = load(FIXTURES / f"{name}.sse").recording
    return Stream(name=name, recording=recording, dialect="chat", reading=read(recording, "chat"), live=live,
                  more=tuple(stream(other).structure for other in more))  # fmt: skip


def rules(one: Facts, other: Facts) -> list[str]:
    return [finding.rule for finding in differences(one, other) if finding.severity is not Severity.COSMETIC]


def test_equal_is_what_has_cosmetic_findings_at_most() -> None:
    dynamo, vllm = structure(stream("dynamo/tool-call")), structure(stream("vllm/tool-call"))
    assert dynamo == vllm
    assert [finding.severity for finding in differences(dynamo, vllm)] == [Severity.COSMETIC]
    assert structure(stream("transformers/tool-call")) != vllm


def test_the_left_side_is_the_candidate() -> None:
    """That one gains what the other lacks is no finding."""
    transformers, vllm = structure(stream("transformers/text")), structure(stream("vllm/text"))
    assert rules(transformers, vllm) == ["end.marker-missing", "usage.position"]
    assert "end.marker-missing" not in rules(vllm, transformers)


def test_of_a_live_stream_and_a_fixture_the_live_one_is_the_candidate() -> None:
    live, fixture = structure(stream("transformers/text", live=True)), structure(stream("vllm/text"))
    assert rules(live, fixture) == rules(fixture, live) == ["end.marker-missing", "usage.position"]
    assert (live == fixture, fixture == live) == (False, False)
    first = next(explanation(fixture, live))
    assert first == "the structure of <live transformers/text> is not that of <recorded vllm/text>"


def test_what_varies_among_the_takes_of_a_fixture_is_no_difference() -> None:
    candidate = structure(stream("litellm/text"))
    assert rules(candidate, structure(stream("vllm/text"))) == ["usage.position"]
    assert candidate == structure(stream("vllm/text", more=("litellm/text",)))


def test_failures_compare_by_their_errors() -> None:
    assert rules(structure(stream("transformers/error")), structure(stream("vllm/error"))) == [
        "end.marker-after-error", "error.envelope",
    ]  # fmt: skip
    assert structure(stream("vllm/text")) != structure(stream("vllm/error"))  # error.swallowed


def test_where_the_baseline_is_no_answer_nothing_was_measured() -> None:
    with pytest.raises(NotMeasured, match="against <recorded a body>: the baseline's stream is no answer"):
        assert structure(stream("vllm/text")) == structure(b": nothing yet\n\n", "chat")


def test_bodies_recordings_and_paths_are_read() -> None:
    path = FIXTURES / "vllm" / "text.sse"
    recording = load(path).recording
    for of in (path, str(path), recording, recording.body):
        assert structure(of) == structure(stream("vllm/text"))
    assert repr(structure(path)) == f"<structure of recorded {path}>"
    assert repr(structure(recording)) == "<structure of recorded a recording of text>"
    with pytest.raises(UsageError, match="--dialect"):
        structure(b"data: [DONE]\n\n")
    assert structure(Recording(body=b"data: [DONE]\n\n", end="eof"), "chat").stream.dialect == "chat"


def test_structures_are_no_keys_and_equal_nothing_else() -> None:
    one = structure(stream("vllm/text"))
    assert one != one.stream.structure
    assert one != "text"
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)


def test_an_explanation_says_all_findings_first_and_cleans_what_servers_wrote() -> None:
    recording = load(FIXTURES / "vllm" / "text.sse").recording
    body = recording.body.replace(b'"finish_reason":"stop"', b'"finish_reason":"\\u001b[31mred"')
    evil = structure(msgspec.structs.replace(recording, body=body, reads=[]))
    head, first, empty, *rest = explanation(evil, structure(recording))
    assert head.endswith("is not that of <recorded a recording of text>")
    assert first.startswith("NEGOTIABLE finish.unknown-value: ")
    assert empty == ""
    assert rest[0] == "NEGOTIABLE finish.unknown-value"
    assert any(line.startswith("  candidate at byte ") and "red" in line for line in rest)
    assert "\x1b" not in "".join([head, first, *rest])


def test_a_stream_holds_what_the_recording_says() -> None:
    one = stream("vllm/tool-call")
    assert one.body == one.recording.body
    assert one.message.tool_calls[0].name == "get_weather"
    assert [event.at for event in one.events] == sorted(event.at for event in one.events)
    assert one.events is one.events
    assert one.structure.get("end.marker") == "present"


# -- quirks ----------------------------------------------------------------------------------------------------------

INTERLEAVED = quirk("021-interleaved-parallel-calls")
ERROR = quirk("043-error-object-then-done")


def ours(body: Iterator[bytes]) -> Any:
    return reduce(b"".join(body)).message()


def by_arrival(body: Iterator[bytes]) -> Any:
    """The classic mistake: all pieces of arguments go to the call that came last."""
    message = ours(body)
    message.tool_calls[-1].arguments = "".join(call.arguments for call in message.tool_calls)
    message.tool_calls[0].arguments = ""
    return message


def raising(body: Iterator[bytes]) -> Any:
    raise ValueError("the server\x1b failed")


def test_what_a_reader_does_not_claim_skips() -> None:
    def text_only(body: Iterator[bytes]) -> dict[str, Any]:
        return {"text": "", "terminal": "done"}

    text_only.dialects, text_only.features = ("chat",), ()  # type: ignore[attr-defined]
    with pytest.raises(pytest.skip.Exception, match="needs tool_calls, which is not claimed"):
        INTERLEAVED.differences(text_only)
    with pytest.raises(pytest.skip.Exception, match="dialect anthropic is not claimed"):
        quirk("089-no-message-stop").differences(text_only)
    assert quirk("012-multibyte-utf8").differences(text_only) != []


def test_what_a_readers_answers_never_hold_is_not_compared() -> None:
    def short(body: Iterator[bytes]) -> dict[str, Any]:
        message = msgspec.to_builtins(ours(body))
        return {name: message[name] for name in ("text", "tool_calls", "terminal")}

    counted = quirk("039-usage-chunk-without-choices")
    assert counted.expect["usage"]
    assert counted.differences(short) == []
    assert counted.differences(lambda body: {**short(body), "usage": None}) != []


def test_a_right_reader_has_no_differences() -> None:
    assert INTERLEAVED.differences(ours) == ERROR.differences(ours) == []


def test_a_wrong_one_is_told_what_differs() -> None:
    found = INTERLEAVED.differences(by_arrival, size=5)
    assert [line.split(":")[0] for line in found] == ["arguments of call 0", "arguments of call 1"]


def test_raising_is_right_where_the_stream_fails_and_returning_as_if_it_had_not_is_wrong() -> None:
    assert ERROR.differences(raising) == []
    assert INTERLEAVED.differences(raising) == [
        "raised on a stream that ends well: ValueError: the server\\x1b failed; what is odd in it: "
        "argument fragments of two calls interleaved (clean)"
    ]
    (line,) = ERROR.differences(lambda body: {"role": "assistant", "content": "Hel"})
    assert line == "returned normally, but the stream has an error"


def test_an_answer_that_is_no_message_is_a_difference() -> None:
    (line,) = INTERLEAVED.differences(lambda body: None)
    assert line.startswith("returned null: return message JSON")


def test_a_quirk_says_what_it_is_and_cuts_its_body() -> None:
    assert (INTERLEAVED.dialect, INTERLEAVED.verdict) == ("chat", Severity.COSMETIC)
    assert len(INTERLEAVED.expect["tool_calls"]) == 2
    assert INTERLEAVED.pieces() == [bytes([byte]) for byte in INTERLEAVED.body]
    assert INTERLEAVED.pieces(10**6) == [INTERLEAVED.body]
    assert quirk("065-gzip-encoded-body").body.startswith(b"data: ")
    with pytest.raises(ValueError, match="must not be zero"):
        INTERLEAVED.pieces(0)


def test_a_quirk_that_does_not_exist_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match=r"999-none\.sse: cannot be read"):
        quirk("999-none")
