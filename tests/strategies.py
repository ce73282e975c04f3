"""Chat streams to test with: builders for hand-written ones, and hypothesis strategies that bend them out of shape.

`bodies` starts from a realistic stream of SCRIPTS, deletes, doubles and retypes members of its payloads at any depth,
and lays the payloads out as a careless server would: any line end, BOM, comments, stray fields, missing blank lines.
`cut` cuts any body into pieces.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from harness.asked import Asked
from harness.recording import Read, Recording

# Derandomized, so that a run says the same everywhere; `HYPOTHESIS_PROFILE=search` looks further, and at random.
_QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
settings.register_profile(
    "stable", derandomize=True, database=None, deadline=None, max_examples=180, suppress_health_check=_QUIET
)
settings.register_profile("search", deadline=None, max_examples=5000, suppress_health_check=_QUIET)
PROFILE = settings.get_profile(os.environ.get("HYPOTHESIS_PROFILE", "stable"))

DONE = b"data: [DONE]\n\n"


# -- builders -----------------------------------------------------------------------------------------------------


def choice(delta: Any = None, finish: Any = None, number: int = 0, **more: Any) -> dict[str, Any]:
    """One entry of `choices`."""
    return {"index": number, "delta": {} if delta is None else delta, "finish_reason": finish, **more}


def chunk(delta: Any = None, finish: Any = None, number: int = 0, **more: Any) -> dict[str, Any]:
    """A documented chunk with one choice; `more` are members of the chunk and may replace `choices`."""
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1700000000, "model": "m-1"}
    return {**head, "choices": [choice(delta, finish, number)], **more}


def call(index: Any = 0, id: Any = None, name: Any = None, arguments: Any = None, **more: Any) -> dict[str, Any]:
    """One entry of `tool_calls`, without the members that are None."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    entry: dict[str, Any] = {"index": index, "id": id, "type": "function" if name is not None else None}
    return {**{key: value for key, value in entry.items() if value is not None}, "function": function, **more}


def calls(*entries: Any) -> dict[str, Any]:
    """A chunk whose delta has these calls and nothing else."""
    return chunk({"tool_calls": list(entries)})


ROLE = chunk({"role": "assistant", "content": ""})
STOP = chunk(finish="stop")
CALLED = chunk(finish="tool_calls")
TOKENS = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14, "prompt_tokens_details": {"cached_tokens": 4}}
COUNTED = chunk(choices=[], usage=TOKENS)


def event(payload: Any, name: str = "") -> bytes:
    """One server-sent event; bytes are data as they are."""
    data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return (f"event: {name}\n".encode() if name else b"") + b"data: " + data + b"\n\n"


def stream(*payloads: Any, done: bool = True) -> bytes:
    """A body: one event a payload, then `[DONE]`."""
    return b"".join(map(event, payloads)) + (DONE if done else b"")


# -- realistic streams --------------------------------------------------------------------------------------------


def _texts(*pieces: str, **more: Any) -> list[dict[str, Any]]:
    return [chunk({"content": piece}, **more) for piece in pieces]


def _opened(**more: Any) -> list[dict[str, Any]]:
    first = {"role": "assistant", "content": None, "tool_calls": [call(0, "call_a", "get_weather", "", **more)]}
    return [chunk(first), calls(call(0, arguments='{"city":')), calls(call(0, arguments=' "Paris"}'))]


TEXT = [ROLE, *_texts("Hel", "lo ", "wörld \U0001f600"), STOP]
TWO_CALLS = [
    *_opened(), calls(call(1, "call_b", "get_time", "")), calls(call(1, arguments='{"zone": [1, ')),
    calls(call(0, arguments=" "), call(1, arguments='"CET"]}')), CALLED, COUNTED,
]  # fmt: skip
ERROR = {"message": "overloaded", "type": "server_error", "param": None, "code": 503}

SCRIPTS: dict[str, list[Any]] = {
    "text": [*TEXT, COUNTED],
    "empty": [],
    "nothing": [ROLE, STOP],
    "length": [ROLE, *_texts("Hel"), chunk(finish="length")],
    "filter": [chunk(choices=[], prompt_filter_results=[]), ROLE, chunk(finish="content_filter")],
    "snapshots": [ROLE, *_texts("The answer", "The answer is", "The answer is 42", "The answer is 42, or"), STOP],
    "surrogates": [ROLE, *_texts("a\ud83d", "\ude00b"), STOP],
    "tags": [ROLE, *_texts("<think>hm</think>", "<tool_call>{}</tool_call>"), STOP],
    "logprobs": [ROLE, chunk(choices=[choice({"content": "a"}, logprobs={"content": [{"token": "a", "logprob": -1}]})]),
                 STOP],
    "reasoning": [ROLE, chunk({"reasoning_content": "let me "}), chunk({"reasoning_content": "see"}), *TEXT[1:]],
    "reasoning-names": [ROLE, chunk({"reasoning": "hm", "reasoning_content": "hm"}), chunk({"thinking": "so"}),
                        chunk({"reasoning_details": [{"type": "reasoning.text", "text": "well"}]}), *TEXT[1:]],
    "calls": TWO_CALLS,
    "call-whole": [ROLE, calls(call(0, "call_a", "get_weather", '{"city": "Paris"}')), CALLED],
    "calls-unindexed": [ROLE, calls(call(None, "call_a", "f", '{"a"')), calls(call(None, arguments=":1}")),
                        calls(call(None, "call_b", "g", "{}")), CALLED],
    "calls-one-index": [ROLE, calls(call(0, "call_a", "f", "{}")), calls(call(0, "call_b", "g", "{}")), CALLED],
    "calls-reversed": [ROLE, calls(call(2, "call_c", "h", "{}")), calls(call(0, "call_a", "f", "{}")), CALLED],
    "call-emptied": [*_opened()[:2], calls(call(0, "", "", ' "Paris"}')), CALLED],
    "call-repeated": [*_opened()[:1], calls(call(0, "call_a", "get_weather", '{"city":')),
                      calls(call(0, "call_a", "get_weather", ' "Paris"}')), CALLED],
    "call-renamed": [*_opened()[:2], calls(call(0, "call_z", arguments=' "Paris"}')), CALLED],
    "call-name-split": [ROLE, calls(call(0, "call_a", "get_")), calls(call(0, name="weather", arguments="{}")), CALLED],
    "call-name-late": [ROLE, calls(call(0, "call_a", arguments="{")), calls(call(0, name="f", arguments="}")), CALLED],
    "call-doubled": [*_opened(), calls(call(0, arguments='{"city": "Paris"}')), CALLED],
    "call-cut": [*_opened()[:2], CALLED],
    "call-object": [ROLE, calls(call(0, "call_a", "f", {"city": "Paris"})), STOP],
    "call-no-arguments": [ROLE, calls(call(0, "call_a", "f", "")), CALLED],
    "call-nulls": [ROLE, calls({"index": 0, "id": None, "type": None, "function": {"name": None, "arguments": None}}),
                   calls(call(0, "call_a", "f", "{}")), CALLED],
    "call-twice-in-delta": [*_opened()[:1], calls(call(0, arguments="{"), call(0, arguments="}")), CALLED],
    "calls-one-id": [ROLE, calls(call(0, "call_a", "f", "{}"), call(1, "call_a", "g", "{}")), CALLED],
    "calls-no-list": [ROLE, chunk({"tool_calls": call(0, "call_a", "f", "{}")}), chunk({"tool_calls": []}), CALLED],
    "call-then-nulls": [*_opened()[:2], calls({"index": 0, "id": None, "type": "function",
                                               "function": {"name": None, "arguments": ' "Paris"}'}}), CALLED],
    "call-in-finish": [*_opened()[:2], chunk({"tool_calls": [call(0, arguments=' "Paris"}')]}, "tool_calls")],
    "calls-promised": [ROLE, *_texts("one moment"), CALLED],
    "legacy": [ROLE, chunk({"function_call": {"name": "f", "arguments": ""}}),
               chunk({"function_call": {"arguments": '{"a": 1}'}}), chunk(finish="function_call")],
    "custom": [ROLE, calls({"index": 0, "id": "call_a", "type": "custom", "custom": {"name": "run", "input": ""}}),
               calls({"index": 0, "custom": {"input": "SELECT 1"}}), CALLED],
    "refusal": [ROLE, chunk({"refusal": "I can"}), chunk({"refusal": "not"}), STOP],
    "parts": [ROLE, chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]}),
              chunk({"content": [{"type": "text", "text": "Hello"}, {"type": "image", "url": "x"}, "bare"]}), STOP],
    "audio": [ROLE, chunk({"audio": {"id": "audio_1", "transcript": "Hi"}}), chunk({"audio": {"data": "UklGRg=="}}),
              STOP],
    "choices": [chunk(choices=[choice({"role": "assistant", "content": ""}, number=n) for n in (0, 1)]),
                *(chunk({"content": piece}, number=n) for piece, n in (("a", 0), ("b", 1), ("c", 1), ("d", 0))),
                STOP, chunk(finish="length", number=1), COUNTED],
    "message": [chunk(choices=[{"index": 0, "delta": {"role": "assistant", "content": piece}, "finish_reason": None,
                                "message": {"role": "assistant", "content": "a" + piece}}]) for piece in ("b", "c")]
               + [STOP],
    "message-alone": [chunk(choices=[{"index": 0, "finish_reason": "stop", "message": {
        "content": "whole", "tool_calls": [call(0, "call_a", "f", "{}")]}}])],
    "finish-with-text": [ROLE, *_texts("Hel"), chunk({"content": "lo"}, finish="stop"), *_texts("!")],
    "finish-forms": [chunk({"role": "assistant"}, finish=""), *_texts("a"), STOP, chunk(finish="stop")],
    "finish-odd": [ROLE, *_texts("a"), chunk(finish="eos_token"), chunk(finish="error")],
    "finish-never": [ROLE, *_texts("a", "b")],
    "role-every": [chunk({"role": "assistant", "content": piece}) for piece in ("a", "b")] + [STOP],
    "role-forms": [chunk({"role": "assistant", "content": "a"}), chunk({"role": None, "content": "b"}), STOP],
    "identity": [chunk({"role": "assistant", "content": "a"}, id=""), chunk({"content": "b"}, id="other", model="m-2"),
                 chunk({"content": "c"}, object="chat.completion"), STOP],
    "nameless": [{"object": "text_completion", "choices": [choice({"role": "assistant", "content": "a"})]},
                 {"object": "text_completion", "choices": [choice(finish="stop")]}],
    "objects": [chunk({"role": "assistant", "content": "a"}, object=""), chunk(finish="stop", object="")],
    "choices-odd": [ROLE, chunk(choices=None), {"object": "chat.completion.chunk", "id": "chatcmpl-1"},
                    chunk(choices=["x"]), chunk(choices=[{"delta": {"content": "a"}}]), chunk(choices=[{"index": 0}]),
                    chunk(choices=[{"index": 0, "delta": None}]), chunk(choices=[choice("text")]),
                    chunk(choices={"0": choice()}), STOP],
    "usage-finish": [*TEXT[:-1], chunk(finish="stop", usage=TOKENS)],
    "usage-running": [chunk({"content": "a"}, usage=TOKENS) for _ in range(4)] + [chunk(finish="stop", usage=TOKENS)],
    "usage-choice": [*TEXT, chunk(usage=TOKENS)],
    "usage-no-choices": [*TEXT, {"usage": TOKENS}],
    "usage-in-choice": [*TEXT, chunk(choices=[choice(usage=TOKENS)])],
    "usage-vendor": [*TEXT, chunk(x_groq={"id": "req_1", "usage": TOKENS})],
    "usage-null": [chunk({"content": "a"}, usage=None), chunk(finish="stop", usage=None)],
    "usage-zero": [*TEXT, chunk(choices=[], usage={"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0})],
    "error-object": [*TEXT[:2], {"error": ERROR}],
    "error-string": [*TEXT[:2], {"error": "overloaded", "error_type": "overload"}],
    "error-top-level": [*TEXT[:2], {"object": "error", **ERROR}],
    "error-detail": [{"detail": "Not Found"}],
    "error-in-choice": [*TEXT[:2], chunk(choices=[choice(finish="error", error=ERROR)]), COUNTED],
    "error-vendor": [*TEXT[:2], chunk(x_groq={"error": "failed"})],
    "error-beside": [*TEXT[:2], chunk({"content": "a"}, error=ERROR)],
    "unknown": [*TEXT[:2], {"type": "annotation", "text": "x"}, chunk({"content": {"a": 1}}), STOP],
    "beside": [*TEXT[:2], chunk({"content": "a", "annotations": [{"type": "url_citation"}], "channel": "final"}),
               chunk({"reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]}), STOP],
}  # fmt: skip


# -- bending payloads ---------------------------------------------------------------------------------------------


class Twin(str):
    """A key beside its equal: a JSON object may name a member twice."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


NESTED = json.loads("[" * 40 + "]" * 40)
RETYPED: list[Callable[[Any], Any]] = [
    lambda value: None, lambda value: "", lambda value: [], lambda value: {}, lambda value: 0, lambda value: True,
    lambda value: 1.0, lambda value: -1, lambda value: 10**30, lambda value: float("nan"), lambda value: "\ud83d",
    lambda value: "text", lambda value: [value], lambda value: {"value": value}, lambda value: json.dumps(value),
    lambda value: copy.deepcopy(NESTED),
]  # fmt: skip


def places(node: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key or position) below the node, outermost first."""
    keys: Sequence[Any] = list(node) if isinstance(node, dict) else range(len(node))
    for key in keys:
        yield node, key
        if isinstance(node[key], dict | list):
            yield from places(node[key])


DELETE, DOUBLE = -2, -1


def _change(node: Any, key: Any, how: int) -> None:
    """Delete or double a member or entry, or give it another type (the place in RETYPED)."""
    if how == DELETE:
        del node[key]
    elif how == DOUBLE and isinstance(node, list):
        node.insert(key, copy.deepcopy(node[key]))
    elif how == DOUBLE:
        node[Twin(key)] = copy.deepcopy(node[key])
    else:
        node[key] = RETYPED[how](node[key])


def _bend(draw: st.DrawFn, payloads: list[Any]) -> None:
    found = list(places(payloads))
    if not found:
        return
    node, key = found[draw(st.integers(0, len(found) - 1))]
    how = draw(st.integers(DELETE - 1, len(RETYPED) - 1))
    if how < DELETE:  # what stands elsewhere
        other, place = found[draw(st.integers(0, len(found) - 1))]
        node[key] = copy.deepcopy(other[place])
    else:
        _change(node, key, how)


# -- layout -------------------------------------------------------------------------------------------------------

STRAY_LINES = [
    b": ping", b":", b"event: error", b"event: ping", b"event:", b"id: 7", b"id: a\0b", b"id", b"retry: 100",
    b"retry: soon", b"foo: bar", b"data", b"data:", b"data: ", b"data: [DONE]", b"data: [DONE] ", b"data:[DONE]",
    b"data: not json", b"data: null", b"data: 3", b'data: "text"', b"data: {", b"data: }", b"data: \xff\xfe",
    b'data: {"choices":[{"index":0,"delta":{"content":"\xe2\x82"}}]}', b'data: {"usage":{"prompt_tokens":NaN}}',
    b'data: {"choices":[{"index":0,"delta":{"content":"\xe2\x80\xa8\xc2\x85\x0b"}}]}', b'error: {"message":"x"}',
    b"error: broken", b'{"error": {"message": "bare"}}', b"{", b'"error": {"message": "pretty"}', b"}", b"plain text",
    b'{"object": "chat.completion", "choices": []}', b"data: " + b"[" * 5000, b"", b"\xef\xbb\xbf", b"\xff",
    b'data: {"choices":[{"index":0,"delta":{"tool_calls":' + b"[" * 900 + b"]" * 900 + b"}}]}",
    b"data: " + b'{"error":{"message":' * 400 + b'""' + b"}}" * 400, b": " + b"x" * 66_000,
]  # fmt: skip
LINE_ENDS = [(b"\n",), (b"\r\n",), (b"\r",), (b"\n", b"\r\n"), (b"\r", b"\n"), (b"\r\n", b"\r", b"\n")]


def _lines(payload: Any, style: str) -> list[bytes]:
    text = json.dumps(payload, ensure_ascii=style != "utf-8", indent=1 if style == "pretty" else None)
    lines = text.encode("utf-8", "replace").split(b"\n")
    head = {"named": [b"event: message"], "numbered": [b"id: 1"]}.get(style, [])
    return [*head, *((b"data:" if style == "no-space" else b"data: ") + line for line in lines), b""]


STYLES = ("plain", "plain", "utf-8", "no-space", "pretty", "named", "numbered")


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """A chat stream as a careless server sends it."""
    payloads = copy.deepcopy(SCRIPTS[draw(st.sampled_from(sorted(SCRIPTS)))])
    for _ in range(draw(st.integers(0, 3))):
        _bend(draw, payloads)
    style = draw(st.sampled_from(STYLES))
    lines = [line for payload in payloads for line in _lines(payload, style)]
    if draw(st.integers(0, 4)):
        lines += [b"data: [DONE]", b""]
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(lines)))
        lines[at:at] = [draw(st.sampled_from(STRAY_LINES)), b""][: draw(st.integers(1, 2))]
    blank = draw(st.integers(0, 9))
    if blank == 0:
        lines = [line for line in lines if line]
    elif blank == 1 and lines:
        del lines[draw(st.integers(0, len(lines) - 1))]
    ends = draw(st.sampled_from(LINE_ENDS))
    body = b"".join(line + ends[number % len(ends)] for number, line in enumerate(lines))
    if draw(st.integers(0, 9)) == 9:
        body = b"\xef\xbb\xbf" + body
    if draw(st.integers(0, 3)) == 3:
        body = body[: len(body) - draw(st.integers(0, 60))]
    return body


@st.composite
def cut(draw: st.DrawFn, body: bytes) -> list[bytes]:
    """The body in pieces: of one size, or cut at any places, empty pieces among them."""
    size = draw(st.integers(0, 9))
    if size and len(body) < 20_000:
        return [body[start : start + size] for start in range(0, len(body), size)]
    ends = sorted(draw(st.lists(st.integers(0, len(body)), max_size=8)))
    return [body[start:end] for start, end in zip([0, *ends], [*ends, len(body)], strict=True)]


# -- what is known beside the body --------------------------------------------------------------------------------

ASKED: list[Asked | None] = [
    None, None, Asked(usage=True), Asked(usage=False), Asked(tools=("get_weather",), tool_choice="auto", usage=True),
    Asked(tools=("f",), tool_choice="named", tool_name="f"), Asked(n=2, logprobs=True), Asked(stop=("lo",)),
    Asked(json_output=True, max_tokens=5),
]  # fmt: skip
HEADS: list[dict[str, Any]] = [
    {}, {}, {"status": 200, "headers": {"content-type": "text/event-stream; charset=utf-8"}},
    {"status": 200, "headers": {"content-type": "application/json"}}, {"status": 503},
    {"status": 200, "decoded_from": "gzip"},
]  # fmt: skip
ENDS = ["eof", "eof", "eof", "unknown", "cut", "reset", "timeout:idle", "timeout:first-event", "client-closed"]


def recording(pieces: Sequence[bytes], head: dict[str, Any], end: str, late: bool = False) -> Recording:
    """A recording read in these pieces. `late`: all at once, three seconds after the request."""
    reads, at = [], 0
    for piece in pieces:
        at += len(piece)
        reads.append(Read(at, 3_000_000 if late else 0))
    return Recording(body=b"".join(pieces), reads=reads, end=end, **head)


def bent_once() -> Iterator[tuple[str, bytes]]:
    """Each member of the scripts' payloads once deleted, once doubled and once of every other type; with what was done.

    A member with the same place (by names) and the same members beside it in several payloads is bent in the first.
    """
    seen: set[tuple[str, ...]] = set()
    for name, payloads in sorted(SCRIPTS.items()):
        for path in _paths(payloads):
            place = tuple(key for key in path if isinstance(key, str))
            beside: Any = payloads
            for key in path[:-1]:
                beside = beside[key]
            kind = (*place, "beside", *(beside if isinstance(beside, dict) else ()))
            if not place or kind in seen:
                continue
            seen.add(kind)
            for how in range(DELETE, len(RETYPED)):
                bent = copy.deepcopy(payloads)
                node = bent
                for key in path[:-1]:
                    node = node[key]
                _change(node, path[-1], how)
                yield f"{name}: {'.'.join(place)}: {how}", stream(*bent)


def _paths(node: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for key in list(node) if isinstance(node, dict) else range(len(node)):
        yield (*above, key)
        if isinstance(node[key], dict | list):
            yield from _paths(node[key], (*above, key))
