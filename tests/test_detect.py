"""Detection tells the right dialect or refuses: over every fixture, quirk and stream of the corpora, and over noise."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st
from reading import FIXTURES, ROOT, quirk, quirks

from harness.detect import LOOK_AT, detect
from harness.dialects import BUILT_IN
from harness.errors import UsageError
from harness.store import load

SHARED = ROOT.parent / "shared"
CORPUS, LOCAL = SHARED / "corpus", SHARED / "corpus-local"  # not part of a checkout
FAMILIES = {
    "openai-chat": "chat", "openai-responses": "responses", "anthropic-messages": "anthropic", "gemini": "gemini",
    "ollama-native": "ollama", "openai-completions": "completions", "cohere-v2": "cohere",
}  # fmt: skip
FOLDERS = {"chat": "chat", "completions": "completions", "responses": "responses", "messages": "anthropic"}


class Known(NamedTuple):
    """A body and the dialect it is written in, null if that is none of ours."""

    name: str
    body: bytes
    dialect: str | None


BLANK = b"\xef\xbb\xbf \t\r\n"


def told(body: bytes) -> str | None:
    """The dialect, or null for a refusal, which must name the file and the remedy."""
    said = ""
    try:
        return detect(body, "x.sse")
    except UsageError as exc:
        said = str(exc)
    empty = "is empty; record it again, or if that is what was sent, name its dialect with --dialect"
    problem = "nothing in it tells its dialect; name it with --dialect" if body.strip(BLANK) else empty
    assert said == f"x.sse: {problem}"
    return None


def ours() -> Iterator[Known]:
    for path in sorted(FIXTURES.glob("*/*.sse")):
        recording = load(path).recording
        yield Known(f"{path.parent.name}/{path.stem}", recording.body, recording.dialect)
    for spec in quirks():
        case, body = quirk(spec)
        yield Known(spec.stem, body, case["family"])


def corpus() -> Iterator[Known]:
    for line in (CORPUS / "MANIFEST.jsonl").read_text("utf-8").splitlines():
        entry = json.loads(line)
        yield Known(entry["id"], (ROOT.parent / entry["file"]).read_bytes(), FAMILIES.get(entry["family"]))


def local() -> Iterator[Known]:
    for path in sorted(LOCAL.rglob("*.sse")):
        yield Known(str(path.relative_to(LOCAL)), path.read_bytes(), FOLDERS[path.parent.name])


def refused(known: Iterator[Known]) -> list[Known]:
    """Those that are refused; all others must be told right."""
    out, wrong = [], []
    for one in known:
        found = told(one.body)
        if found is None:
            out.append(one)
        elif found != one.dialect:
            wrong.append(f"{one.name}: {found} is not {one.dialect}")
    assert wrong == []
    return out


def test_fixtures_and_quirks_are_told_right_or_refused() -> None:
    seen = refused(ours())
    assert {name.name for name in seen} >= {"047-only-done-marker", "045-error-in-unknown-field"}
    for one in seen:
        # What tells nothing: no event but the marker, or an error that every dialect might have sent.
        assert one.name.endswith("/error") or one.name.startswith(("045-", "047-")), one.name


@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus is not here")
def test_the_corpus_is_told_right_or_refused() -> None:
    seen = refused(corpus())
    foreign = sum(one.dialect is None for one in corpus())
    assert sum(one.dialect is None for one in seen) == foreign > 0, "what is none of ours is refused, all of it"
    assert [one.name for one in seen if one.dialect is not None and b'data: {"error":' not in one.body] == []


@pytest.mark.skipif(not LOCAL.exists(), reason="the recordings of real servers are not here")
def test_recordings_of_real_servers_are_told_right_or_refused() -> None:
    for one in refused(local()):
        assert Path(one.name).stem.startswith("err_"), one.name


def chunk(**members: object) -> bytes:
    return b"data: " + json.dumps(members).encode() + b"\n\n"


@pytest.mark.parametrize(
    ("body", "dialect"),
    [
        (b"", None),
        (b"\n\n\n", None),
        (b": ping\n\n", None),
        (b"data: [DONE]\n\n", None),
        (b"data: {}\n\ndata: []\n\ndata: null\n\ndata: 1\n\n", None),
        (b"<html></html>", None),
        (b"plain text", None),
        (b'{"error": {"message": "no"}}', None),
        (chunk(error={"message": "no"}), None),
        (chunk(type="ping"), None),
        (chunk(type="completion", completion=" Hi"), None),
        (chunk(choices=[]), None),
        (b'{"model": "m", "message": {"content": "a"}, "done": false}\n', "ollama"),
        (b'\xef\xbb\xbf{"model": "m", "response": "a", "done": true}', "ollama"),
        (b'data: {"model": "m", "message": {"content": "a"}, "done": false}\n\n', None),  # not as Ollama frames it
        # The first payload that tells counts, whatever comes before.
        (chunk(type="ping") + chunk(type="message_start", message={}), "anthropic"),
        (b": hi\n\nevent: x\ndata: not json\n\n" + chunk(choices=[{"index": 0, "delta": {}}]), "chat"),
        (chunk(choices=[], prompt_filter_results=[]) + chunk(choices=[{"delta": {}}]), "chat"),
        (chunk(choices=[{"text": "a"}]), "completions"),
        (chunk(object="text_completion", choices=[]), "completions"),
        (chunk(type="response.text.delta", delta="a"), "responses"),
        (chunk(type="error", error={"type": "overloaded_error", "message": "m"}), "anthropic"),
        (chunk(type="error", code="c", message="m"), None),
        (chunk(type="message-start", id="1"), "cohere"),
        (chunk(promptFeedback={"blockReason": "SAFETY"}), "gemini"),
        # However it is framed: any line end, no blank lines, the last line unfinished, one payload on several lines.
        (b'data:{"choices":[{"delta":{}}]}', "chat"),
        (b'data: {"choices":\r\ndata: [{"delta":{}}]}\r\n\r\n', "chat"),
        (b'\xef\xbb\xbfdata: {"x":1}\rdata: {"choices":[{"delta":{}}]}\r', "chat"),
        # No stream at all, but it tells who wrote it: lint then says what is wrong.
        (b'{"id": "1", "object": "chat.completion", "choices": [{"message": {"content": "hi"}}]}', "chat"),
        (b'{\n "object": "chat.completion",\n "choices": [\n {"message": {}}\n ]\n}\n', "chat"),
    ],
)  # fmt: skip
def test_what_tells_and_what_does_not(body: bytes, dialect: str | None) -> None:
    assert told(body) == dialect


def test_only_the_start_is_looked_at() -> None:
    """A body of a gigabyte is told by its first megabyte."""
    event = chunk(choices=[{"delta": {"content": "x" * 1000}}])
    assert told(event * 5000) == "chat"
    assert told(b": " + b"x" * LOOK_AT + b"\n\n" + event) is None


@strategies.PROFILE
@given(st.one_of(st.binary(max_size=200), strategies.bodies(), st.sampled_from([spec.stem for spec in quirks()])))
def test_nothing_makes_it_raise_anything_else(body: bytes | str) -> None:
    data = body if isinstance(body, bytes) else quirk(Path(quirks()[0].parent / f"{body}.json"))[1][:-7]
    assert told(data) in (None, *BUILT_IN)
