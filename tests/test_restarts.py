"""A stream that begins anew in mid-answer: told where the payloads say so, and never guessed from the text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mutations import ndjson, sse
from reading import FIXTURES

from harness.faults import parse_fault
from harness.recording import Recording
from harness.rules import lint
from harness.steps import body_of, plan
from harness.store import load
from harness.structure import structure

STARTS = {"anthropic": "anthropic.start-repeated"}
STREAMS = sorted(FIXTURES.glob("*/text.sse"))
SAY_SO = ("anthropic", "cohere", "gemini", "ollama", "responses")


def rules(body: bytes, dialect: str) -> list[str]:
    return [finding.rule for finding in lint(structure(Recording(body=body, status=200, end="eof"), dialect))]


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: str(path.parent.name))
def test_a_prefix_sent_again_is_told(path: Path) -> None:
    recording = load(path).recording
    dialect = recording.dialect or "chat"
    again = rules(body_of(parse_fault("repeat").apply(plan(recording))), dialect)
    assert "stream.restarted" not in rules(recording.body, dialect)
    if dialect in SAY_SO:
        assert STARTS.get(dialect, "stream.restarted") in again
    elif dialect == "chat":
        assert "role.repeated" in again
    else:
        assert again == rules(recording.body, dialect), "docs/faults.md says that nothing shows it"


def gemini(*chunks: tuple[str, int | None], **more: Any) -> bytes:
    """One chunk each of text and its count; the last has a finish reason."""
    payloads: list[dict[str, Any]] = []
    for text, count in chunks:
        payload: dict[str, Any] = {"candidates": [{"index": 0, "content": {"parts": [{"text": text}]}}], **more}
        if count is not None:
            payload["usageMetadata"] = {"promptTokenCount": 9, "candidatesTokenCount": count, "totalTokenCount": 9}
        payloads.append(payload)
    payloads[-1]["candidates"][0]["finishReason"] = "STOP"
    return sse(payloads)


@pytest.mark.parametrize("body", [
    gemini(("ha", 1), (" ha", 2), ("ha", 3)), gemini(("ha", None), ("ha", None), ("ha", 3)),
    gemini(("ha", 5), ("ho", 3), ("hi", 4)), gemini(("ha", 1), ("ha", 1), ("ha", 1)), gemini(("ha", 3), ("ho", 0)),
    gemini(("ha", -1), ("ho", -(10**30)), ("hu", -2)),
])  # fmt: skip
def test_what_gemini_may_honestly_send(body: bytes) -> None:
    """The same text again, counts of each chunk alone, and none."""
    assert "stream.restarted" not in rules(body, "gemini")


def test_another_answer_of_gemini_in_the_same_stream() -> None:
    first, second = gemini(("ha", 1), ("ho", 2), responseId="a"), gemini(("hi", 1), ("hu", 2), responseId="b")
    assert "stream.restarted" in rules(first.replace(b'"finishReason": "STOP"', b'"x": 1') + second, "gemini")


def test_a_relay_may_name_and_count_each_chunk_of_gemini_by_itself() -> None:
    counts = ((5, "a"), (3, "b"), (4, "c"), (2, "d"))
    parts = [gemini(("ha", count), responseId=name) for count, name in counts]
    body = b"".join(part.replace(b'"finishReason": "STOP"', b'"x": 1') for part in parts[:-1]) + parts[-1]
    assert "stream.restarted" not in rules(body, "gemini")


def lines(*times: Any) -> bytes:
    """One line each of a text that stays the same and its time; the last is done."""
    payloads: list[dict[str, Any]] = [
        {"model": "m", **({"created_at": time} if time else {}), "message": {"role": "assistant", "content": "ha"},
         "done": False}
        for time in times
    ]  # fmt: skip
    payloads[-1] |= {"done": True, "done_reason": "stop", "prompt_eval_count": 1, "eval_count": len(times)}
    return ndjson(payloads)


@pytest.mark.parametrize("times", [("a", "a", "a"), ("a", "b", "c"), ("a", "b", "b"), ("a", None, "a"), (None,) * 3])
def test_what_ollama_may_honestly_send(times: tuple[str | None, ...]) -> None:
    """One time for all lines, one for each, and none."""
    assert "stream.restarted" not in rules(lines(*times), "ollama")


@pytest.mark.parametrize("value", [["t"], {"t": 1}, 10**400, True, "x" * 100_000], ids=lambda value: str(type(value)))
def test_any_time_may_come_again(value: Any) -> None:
    body = lines("@", "b", "@").replace(b'"@"', b"1" + b"0" * 400 if value == 10**400 else json.dumps(value).encode())
    assert "stream.restarted" in rules(body, "ollama")


def test_two_starts_of_responses_and_cohere_are_one_finding() -> None:
    for name in ("openai-responses", "cohere"):
        for shape in ("text", "parallel-tools"):
            recording = load(FIXTURES / name / f"{shape}.sse").recording
            body = body_of(parse_fault("repeat").apply(plan(recording)))
            was = rules(recording.body, recording.dialect or "")
            assert [rule for rule in rules(body, recording.dialect or "") if rule not in was] == ["stream.restarted"]
