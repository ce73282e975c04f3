"""Parity: answers that were not streamed, read in every dialect, and compared with the stream of the same request."""

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
from llamacpp import llamacpp
from reading import FIXTURES, ROOT
from servers import RESET, Scripted, answer, chunked, json_answer

from harness.dialects import BUILT_IN
from harness.error_forms import error_body
from harness.jsontext import same_json
from harness.message import Message
from harness.reduce import reduce
from harness.store import load
from harness.whole import message_of_whole

LOCAL = ROOT.parent / "shared" / "corpus-local"  # recordings of real servers; not part of a checkout


def whole(dialect: str, body: Any) -> Message:
    return message_of_whole(body if isinstance(body, bytes) else json.dumps(body).encode(), dialect)


# -- reading ------------------------------------------------------------------------------------------------------

CALL = {"city": "Paris"}
TEXT_CALL = json.dumps(CALL)
ANSWERS: dict[str, Any] = {
    "chat": {
        "id": "c", "object": "chat.completion", "model": "m",
        "choices": [{"index": 0, "finish_reason": "tool_calls", "logprobs": None, "message": {
            "role": "assistant", "content": "Hi", "reasoning_content": "hm", "refusal": None, "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": TEXT_CALL}},
                {"id": "call_2", "type": "function", "function": {"name": "g", "arguments": "{}"}},
            ],
        }}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 5},
    },
    "responses": {
        "id": "r", "object": "response", "status": "completed", "usage": {"input_tokens": 3, "output_tokens": 5},
        "output": [
            {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "hm"}]},
            {"type": "message", "id": "m", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]},
            {"type": "function_call", "id": "fc", "call_id": "call_1", "name": "f", "arguments": TEXT_CALL},
            {"type": "function_call", "id": "fd", "call_id": "call_2", "name": "g", "arguments": "{}"},
        ],
    },
    "anthropic": {
        "id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "tool_use", "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "Hi"},
            {"type": "tool_use", "id": "call_1", "name": "f", "input": CALL},
            {"type": "tool_use", "id": "call_2", "name": "g", "input": {}},
        ],
        "usage": {"input_tokens": 3, "output_tokens": 5},
    },
    "gemini": {
        "candidates": [{"index": 0, "finishReason": "STOP", "content": {"role": "model", "parts": [
            {"text": "hm", "thought": True}, {"text": "Hi"},
            {"functionCall": {"id": "call_1", "name": "f", "args": CALL}},
            {"functionCall": {"id": "call_2", "name": "g", "args": {}}},
        ]}}],
        "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 5},
    },
    "ollama": {
        "model": "m", "done": True, "done_reason": "stop", "prompt_eval_count": 3, "eval_count": 5, "message": {
            "role": "assistant", "content": "Hi", "thinking": "hm", "tool_calls": [
                {"id": "call_1", "function": {"name": "f", "arguments": CALL}},
                {"id": "call_2", "function": {"name": "g", "arguments": {}}},
            ],
        },
    },
    "cohere": {
        "id": "x", "finish_reason": "TOOL_CALL", "usage": {"tokens": {"input_tokens": 3, "output_tokens": 5}},
        "message": {"role": "assistant", "tool_plan": "hm", "content": [{"type": "text", "text": "Hi"}], "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": TEXT_CALL}},
            {"id": "call_2", "type": "function", "function": {"name": "g", "arguments": "{}"}},
        ]},
    },
}  # fmt: skip


@pytest.mark.parametrize("dialect", ANSWERS)
def test_a_whole_answer_says_what_the_stream_would(dialect: str) -> None:
    found = whole(dialect, ANSWERS[dialect])
    thinks = "hm" if '"hm"' in json.dumps(ANSWERS[dialect]) else ""
    assert (found.text, found.reasoning, found.error) == ("Hi", thinks, None)
    assert [(call.index, call.id, call.name) for call in found.tool_calls] == [(0, "call_1", "f"), (1, "call_2", "g")]
    assert same_json(found.tool_calls[0].arguments, TEXT_CALL)
    assert found.tool_calls[1].arguments == "{}"
    assert (found.finish_reason, found.terminal) == ("tool_calls", "finish" if dialect == "gemini" else "done")
    assert found.usage is not None
    assert (found.usage.input_tokens, found.usage.output_tokens) == (3, 5)


def test_completions_and_several_choices() -> None:
    body = {"object": "text_completion", "usage": {"prompt_tokens": 1, "completion_tokens": 2},
            "choices": [{"index": 0, "text": "a", "finish_reason": "stop"},
                        {"index": 1, "text": "b", "finish_reason": "length"}]}  # fmt: skip
    found = whole("completions", body)
    assert [(choice.text, choice.finish_raw) for choice in found.choices] == [("a", "stop"), ("b", "length")]
    chat = {"choices": [{"index": n, "message": {"content": t}, "finish_reason": "stop"} for n, t in enumerate("ab")]}
    assert [choice.text for choice in whole("chat", chat).choices] == ["a", "b"]


def test_how_an_answer_ended() -> None:
    cut = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "output": []}
    found = whole("responses", cut)
    assert (found.finish_raw, found.finish_reason) == ("max_output_tokens", "length")
    failed = {"status": "failed", "error": {"code": "server_error", "message": "sorry"}, "output": []}
    assert whole("responses", failed).terminal == "error"
    assert whole("anthropic", {"content": [], "stop_reason": "refusal"}).finish_reason == "content_filter"
    blocked = {"promptFeedback": {"blockReason": "SAFETY"}}
    assert whole("gemini", blocked).finish_reason == "content_filter"


ERRORS: dict[str, Any] = {
    "chat": {"error": {"message": "no", "type": "t", "code": 400}},
    "completions": {"error": {"message": "no"}},
    "responses": {"error": {"message": "no", "type": "t"}},
    "anthropic": {"type": "error", "error": {"type": "t", "message": "no"}},
    "gemini": {"error": {"code": 400, "status": "T", "message": "no"}},
    "ollama": {"error": "no"},
    "cohere": {"id": "x", "message": "no", "code": 3},
}


@pytest.mark.parametrize("dialect", BUILT_IN)
def test_an_error_body_of_ours_is_an_error(dialect: str) -> None:
    found = whole(dialect, error_body(dialect, 500))
    assert (found.terminal, found.error is None) == ("error", False)


@pytest.mark.parametrize("dialect", ERRORS)
def test_an_error_body_is_an_error(dialect: str) -> None:
    found = whole(dialect, ERRORS[dialect])
    assert found.error is not None
    assert found.error.message == "no"


@pytest.mark.parametrize("body", [b"", b"<html>", b"[1]", b"null", b'"x"', b"{", b"data: {}\n\n"])
def test_what_is_no_json_object_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match="no JSON object"):
        whole("chat", body)
    with pytest.raises(ValueError, match="dialect klingon are read as streams only"):
        whole("klingon", b"{}")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just("tool_use"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["choices", "message", "content", "tool_calls", "output", "status", "type", "usage", "parts",
                         "candidates", "finish_reason", "error", "text", "function", "index", "arguments"]),
        inner, max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@given(st.sampled_from(list(BUILT_IN)), st.dictionaries(
    st.sampled_from(["choices", "message", "content", "output", "status", "candidates", "usage", "error", "done"]), JSON
))  # fmt: skip
def test_any_object_is_read(dialect: str, body: dict[str, Any]) -> None:
    assert whole(dialect, body).terminal in ("error", "done", "finish", "truncated")


def test_real_servers_answer_the_same_both_ways() -> None:
    """Recordings of the same request, streamed and not, from real servers; known differences are named."""
    if not LOCAL.is_dir():
        pytest.skip("the recordings of real servers are not here")
    known = {"litellm-1.106.12/messages": "input tokens", "llama-cpp-python-0.3.36/chat": "streams have no usage"}
    compared = 0
    for path in sorted(LOCAL.rglob("*_nostream.body")):
        dialect = {"messages": "anthropic"}.get(path.parent.name, path.parent.name)
        shape = path.name.removesuffix("_nostream.body")
        stream = path.with_name(f"{shape}_usage.sse")
        stream = stream if stream.is_file() else path.with_name(f"{shape}.sse")
        if not stream.is_file():
            continue
        ours, theirs = reduce(stream.read_bytes(), dialect).message(), whole(dialect, path.read_bytes())
        assert (ours.text, ours.reasoning, ours.finish_raw) == (theirs.text, theirs.reasoning, theirs.finish_raw), path
        assert [(call.name, call.arguments) for call in ours.tool_calls] == [
            (call.name, call.arguments) for call in theirs.tool_calls
        ], path
        assert theirs.notes == [] or dialect == "anthropic", path
        if str(path.parent.relative_to(LOCAL)) not in known:
            assert ours.usage == theirs.usage, path
        compared += 1
    assert compared > 20


# -- gates --------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("vllm", "vllm-anthropic", "gemini", "ollama-native"):
        shutil.copytree(FIXTURES / name, tmp_path / "fixtures" / name)
    return tmp_path


def configure(folder: Path, url: str, **fields: Any) -> None:
    timeouts = {"connect": 2, "first_event": 0.5, "idle": 0.5, "total": 4}
    entry = {"dialect": "chat", "base_url": url, "model": "tiny", "auth": "none", "timeouts": timeouts, **fields}
    (folder / "providers.yaml").write_text(yaml.safe_dump({"providers": {"cand": entry}}), "utf-8")


def gate(shape: str = "text", *arguments: object, baseline: str = "vllm") -> Done:
    return harness("gate", baseline, "cand", "--shape", shape, "--parity", *arguments)


def unstreamed(provider: str, shape: str) -> dict[str, Any]:
    """The answer that a stream of chat would have been."""
    message = reduce(load(FIXTURES / provider / f"{shape}.sse").recording.body).message()
    assert message.usage is not None
    calls = [
        {"id": "call_other", "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in message.tool_calls
    ]
    return {
        "object": "chat.completion", "choices": [{"index": 0, "finish_reason": message.finish_raw, "message": {
            "role": "assistant", "content": message.text or None, "tool_calls": calls or None,
        }}],
        "usage": {"prompt_tokens": message.usage.input_tokens, "completion_tokens": message.usage.output_tokens},
    }  # fmt: skip


def stream_of(shape: str) -> bytes:
    return (FIXTURES / "vllm" / f"{shape}.sse").read_bytes()


@pytest.mark.parametrize("shape", ["text", "tool-call", "stop"])
def test_answers_that_say_the_same_conform(folder: Path, shape: str) -> None:
    with Scripted(answer(stream_of(shape)), json_answer(200, unstreamed("vllm", shape))) as server:
        configure(folder, server.url, request={"seed": 1})
        done = gate(shape)
        assert (done.code, done.err) == (0, "")
        streamed, whole_ = server.bodies
        assert whole_ == {key: value for key, value in streamed.items() if key != "stream_options"} | {"stream": False}
        assert b"accept: application/json" in server.requests[1].lower()
    kept = folder / ".harness" / "takes" / "cand"
    assert json.loads((kept / f"{shape}-whole.sse").read_bytes()) == unstreamed("vllm", shape)
    assert json.loads((kept / f"{shape}-whole.json").read_bytes())["request"]["body"]["stream"] is False


def altered(shape: str, **changes: Any) -> dict[str, Any]:
    body = unstreamed("vllm", shape)
    choice = body["choices"][0]
    choice["message"].update(changes.pop("message", {}))
    choice.update({key: value for key, value in changes.items() if key == "finish_reason"})
    body.update({key: value for key, value in changes.items() if key != "finish_reason"})
    return body


def calling(**changes: Any) -> dict[str, Any]:
    (call,) = unstreamed("vllm", "tool-call")["choices"][0]["message"]["tool_calls"]
    function = {**call["function"], **{key: value for key, value in changes.items() if key != "id"}}
    return {"message": {"tool_calls": [{**call, "id": changes.get("id", "call_x"), "function": function}]}}


DIFFERENCES: dict[str, tuple[str, dict[str, Any], str, str]] = {
    # shape, what the whole answer says otherwise, the rule, how bad
    "text": ("text", {"message": {"content": "Hello there! This is a tiny model."}}, "parity.text", "negotiable"),
    "more text": ("stop", {"message": {"content": "Hello there! This is a small s"}}, "parity.text", "negotiable"),
    "finish": ("text", {"finish_reason": "length"}, "parity.finish", "negotiable"),
    "usage": ("text", {"usage": {"prompt_tokens": 7, "completion_tokens": 54}}, "parity.usage", "negotiable"),
    "no usage": ("text", {"usage": None}, "parity.usage", "negotiable"),
    "no call": ("tool-call", {"message": {"tool_calls": None}}, "parity.calls", "fatal"),
    "another tool": ("tool-call", calling(name="get_time"), "parity.calls", "fatal"),
    "other arguments": ("tool-call", calling(arguments='{"city":"Rome"}'), "parity.calls", "fatal"),
    "no id": ("tool-call", calling(id=""), "parity.calls", "fatal"),
}  # fmt: skip


@pytest.mark.parametrize("name", DIFFERENCES)
def test_what_the_two_answers_do_not_have_in_common(folder: Path, name: str) -> None:
    shape, changes, rule, severity = DIFFERENCES[name]
    with Scripted(answer(stream_of(shape)), json_answer(200, altered(shape, **changes))) as server:
        configure(folder, server.url)
        done = gate(shape, "--json")
    assert f"{shape} differs ({rule})" in done.failed(1)
    (finding,) = [found for found in done.one["shapes"][0]["findings"] if found["severity"] != "cosmetic"]
    assert (finding["rule"], finding["severity"], finding["path"]) == (rule, severity, rule)
    assert finding["baseline"] != finding["candidate"]
    (evidence,) = finding["evidence"]
    assert (evidence["side"], evidence["take"]) == ("candidate", 1)
    assert stream_of(shape)[evidence["at"] :].startswith(b"data: ")
    assert len(finding["message"]) < 1000


def test_arguments_are_compared_as_json(folder: Path) -> None:
    spaced = altered("tool-call", **calling(arguments='{ "unit": "celsius", "city": "Paris" }'))
    with Scripted(answer(stream_of("tool-call")), json_answer(200, spaced)) as server:
        configure(folder, server.url)
        assert gate("tool-call").code == 0


def test_a_long_text_is_shown_from_its_first_difference_on(folder: Path) -> None:
    changed = unstreamed("vllm", "text")
    text = changed["choices"][0]["message"]["content"]
    changed["choices"][0]["message"]["content"] = text[:80] + "X" + text[81:]
    with Scripted(answer(stream_of("text")), json_answer(200, changed)) as server:
        configure(folder, server.url)
        (finding,) = gate("text", "--json").one["shapes"][0]["findings"]
    assert finding["baseline"].startswith(f"...{text[60:80]}X")
    assert finding["candidate"].startswith(f"...{text[60:80]}{text[80]}")


NO_ANSWER: dict[str, tuple[Any, str]] = {
    "refused": (json_answer(400, {"error": {"message": "no"}}), "HTTP 400 for the request that is not streamed"),
    "error": (json_answer(200, {"error": {"message": "sorry"}}), "the answer that is not streamed is an error: sorry"),
    "a stream": (answer(stream_of("text")), "the answer is no JSON object"),
    "cut": (chunked(b'{"choices": [', RESET, whole=False), "the answer that is not streamed ended as reset"),
    "nothing": ([], "cand: 127.0.0.1:"),
}


@pytest.mark.parametrize("name", NO_ANSWER)
def test_a_second_answer_that_cannot_be_compared_is_not_measured(folder: Path, name: str) -> None:
    second, says = NO_ANSWER[name]
    with Scripted(answer(stream_of("text")), second) as server:
        configure(folder, server.url)
        done = gate("text", "--json")
    assert f"text not measured (parity: {says}" in done.failed(3)
    assert not list((folder / ".harness" / "partial").iterdir())


def test_it_may_take_as_long_as_the_whole_stream(folder: Path) -> None:
    """No event comes for longer than the timeouts between events: there are none in an answer that comes whole."""
    body = json.dumps(unstreamed("vllm", "text")).encode()
    with Scripted(answer(stream_of("text")), chunked(0.9, body, media="application/json")) as server:
        configure(folder, server.url)
        assert gate("text").code == 0


def test_a_stream_that_went_wrong_is_not_asked_for_again(folder: Path) -> None:
    with Scripted(chunked(stream_of("text")[:3000], whole=False)) as server:
        configure(folder, server.url)
        assert "text differs (stream.cut)" in gate("text").failed(1)
        assert len(server.requests) == 1
    with Scripted(answer((FIXTURES / "vllm" / "error.sse").read_bytes())) as server:
        configure(folder, server.url)
        assert gate("error").code == 0
        assert len(server.requests) == 1


def test_parity_of_recordings_is_refused(folder: Path) -> None:
    configure(folder, "http://127.0.0.1:9")
    assert gate("text", "--recorded").failed(2).startswith("harness: --parity asks the candidate again")


def test_a_key_in_the_whole_answer_leaves_nothing_on_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-test-0123456789abcdef"
    monkeypatch.setenv("CAND_KEY", key)
    leaky = unstreamed("vllm", "text") | {"key": key}
    with Scripted(answer(stream_of("text")), json_answer(200, leaky)) as server:
        configure(folder, server.url, auth="bearer", api_key_env="CAND_KEY")
        assert "parity: " in gate("text").failed(3)
        assert key.encode() in server.requests[1]
    for path in (folder / ".harness").rglob("*"):
        assert not path.is_file() or key.encode() not in path.read_bytes()


def test_other_dialects_are_asked_in_their_own_way(folder: Path) -> None:
    message = reduce((FIXTURES / "vllm-anthropic" / "text.sse").read_bytes(), "anthropic").message()
    assert message.usage is not None
    body = {
        "type": "message", "content": [{"type": "text", "text": message.text}], "stop_reason": message.finish_raw,
        "usage": {"input_tokens": message.usage.input_tokens, "output_tokens": message.usage.output_tokens},
    }  # fmt: skip
    stream = (FIXTURES / "vllm-anthropic" / "text.sse").read_bytes()
    with Scripted(answer(stream), json_answer(200, body)) as server:
        configure(folder, server.url, dialect="anthropic")
        assert gate(baseline="vllm-anthropic").code == 0
        assert [body["stream"] for body in server.bodies] == [True, False]
    stream = (FIXTURES / "gemini" / "text.sse").read_bytes()
    parts = reduce(stream, "gemini").message()
    assert parts.usage is not None
    answered = {
        "candidates": [{"content": {"parts": [{"text": parts.text}]}, "finishReason": parts.finish_raw}],
        "usageMetadata": {"promptTokenCount": parts.usage.input_tokens,
                          "candidatesTokenCount": parts.usage.output_tokens},
    }  # fmt: skip
    with Scripted(answer(stream), json_answer(200, answered)) as server:
        configure(folder, server.url, dialect="gemini", query={"v": "a b"})
        assert gate(baseline="gemini").code == 0
        lines = [request.partition(b" HTTP/1.1")[0].decode() for request in server.requests]
        assert lines == [
            "POST /v1/models/tiny:streamGenerateContent?alt=sse&v=a%20b", "POST /v1/models/tiny:generateContent?v=a%20b"
        ]  # fmt: skip
        assert server.bodies[0] == server.bodies[1]
        assert "stream" not in server.bodies[1]
    lines_ = (FIXTURES / "ollama-native" / "text.sse").read_bytes()
    told = reduce(lines_, "ollama").message()
    done = json.loads(lines_.splitlines()[-1]) | {"message": {"role": "assistant", "content": told.text}}
    with Scripted(answer(lines_, media="application/x-ndjson"), json_answer(200, done)) as server:
        configure(folder, server.url, dialect="ollama")
        assert gate(baseline="ollama-native").code == 0
        assert server.bodies[1]["stream"] is False


@pytest.mark.live
def test_llamacpp_answers_the_same_both_ways(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "providers.yaml").write_bytes((ROOT / "providers.yaml").read_bytes())
    with llamacpp() as url:
        monkeypatch.setenv("LLAMACPP_URL", f"{url}/v1")
        shapes = ("--shape", "text", "--shape", "tool-call")
        assert harness("record", "llamacpp", *shapes).code == 0
        done = harness("gate", "llamacpp", "llamacpp", *shapes, "--parity", "--json", "--fail-on", "cosmetic")
        for dialect in ("anthropic", "responses"):
            assert harness("record", f"llamacpp-{dialect}", "--shape", "text").code == 0
            there = harness(
                "gate", f"llamacpp-{dialect}", f"llamacpp-{dialect}", "--shape", "text", "--parity", "--json"
            )  # fmt: skip
            assert (there.code, there.one["shapes"][0]["findings"]) == (0, []), there
    assert (done.code, done.err) == (0, "")
    for shape in done.one["shapes"]:
        assert (shape["outcome"], shape["findings"]) == ("conforms", [])
    text, call = (
        message_of_whole((folder / ".harness" / "takes" / "llamacpp" / f"{shape}-whole.sse").read_bytes(), "chat")
        for shape in ("text", "tool-call")
    )
    assert text.text.startswith("Hello there! This is a small scripted model.")
    assert same_json(call.tool_calls[0].arguments, '{"city": "Paris", "unit": "celsius"}')
