"""Structure: a fact changes with neither wording, number of deltas, ids nor times. One by one, and on a line each."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import rewrites
from hypothesis import given
from reading import FIXTURES, ROOT, quirk, quirks
from strategies import (
    CALLED,
    COUNTED,
    ERROR,
    PROFILE,
    ROLE,
    SCRIPTS,
    STOP,
    TEXT,
    TOKENS,
    bodies,
    call,
    calls,
    choice,
    chunk,
    event,
    stream,
)

from harness.asked import Asked
from harness.events import Event, Text
from harness.recording import Recording
from harness.structure import Structure, lines, read, signature, structure

SHARED = ROOT.parent / "shared"  # the corpora; not part of a checkout


def _streams() -> dict[str, bytes]:
    """Every chat stream there is, by name: quirks, fixtures, and the corpora where they are."""
    found: dict[str, bytes] = {}
    for spec in quirks():
        case, body = quirk(spec)
        if case["family"] == "chat":
            found[spec.stem] = body
    for path in sorted(FIXTURES.glob("*/*.sse")):
        sidecar = path.with_suffix(".json")
        if not sidecar.exists() or json.loads(sidecar.read_bytes()).get("dialect") in ("chat", None):
            found[f"{path.parent.name}/{path.stem}"] = path.read_bytes()
    for path in sorted([*SHARED.glob("corpus-local/*/chat/*.sse"), *SHARED.glob("corpus/openai-chat/**/*.sse")]):
        found[str(path.relative_to(SHARED))] = path.read_bytes()
    return found


STREAMS = _streams()
REWRITES: dict[str, Callable[[bytes], bytes]] = {
    "split": rewrites.split, "merge": rewrites.merge, "rename": rewrites.rename, "shift": rewrites.shift,
    "letters": rewrites.letters,
}  # fmt: skip
# What a rewrite may change, on purpose (RULES, section 1).
MARKERS = {
    "wire.text.markup", "wire.text.think", "wire.notes.tool.markup-in-text", "wire.notes.reasoning.in-text",
}  # fmt: skip
SNAPSHOTS = {"wire.notes.text.cumulative"}
MAY_CHANGE = {
    "split": SNAPSHOTS,  # half a snapshot is none, and pieces of snapshots are none either
    "merge": SNAPSHOTS,
    "rename": set[str](),
    "shift": set[str](),
    # Markers are found by their letters; and when every letter is the same, any text that grows repeats the one before.
    "letters": MARKERS | SNAPSHOTS,
}
# Under four chunks whether usage is repeated is undecided; splitting decides it.
UNDECIDED = {"wire.usage.repeated", "wire.notes.usage.repeated"}


def facts(body: bytes, asked: Asked | None = None, **more: Any) -> Structure:
    return structure(Recording(**{"body": body, "status": 200, "end": "eof", **more}), "chat", asked)


def flat(structure: Structure, *, behaviour: bool = False) -> dict[str, str]:
    """Fact by path."""
    trees = [*lines(structure.wire, "wire"), *(lines(structure.behaviour, "behaviour") if behaviour else ())]
    return dict(line.split(" = ", 1) for line in trees)


@cache
def known(title: str) -> Structure:
    return facts(STREAMS[title])


def changed(name: str, before: Structure, after: Structure) -> dict[str, tuple[str | None, str | None]]:
    """The facts that a rewrite changed and must not have. Wording decides what a model's behaviour is called."""
    ours, theirs = (flat(side, behaviour=name != "letters") for side in (before, after))
    undecided = "undecided" in (before.get("usage.repeated"), after.get("usage.repeated"))
    allowed = MAY_CHANGE[name] | (UNDECIDED if undecided else set())
    differ = {path for path in {*ours, *theirs} - allowed if ours.get(path) != theirs.get(path)}
    return {path: (ours.get(path), theirs.get(path)) for path in sorted(differ)}


@pytest.mark.parametrize("name", REWRITES)
def test_structure_of_every_stream_is_the_same_after(name: str) -> None:
    wrong, rewritten = {}, 0
    for title, body in STREAMS.items():
        other = REWRITES[name](body)
        if other != body:
            rewritten += 1
            if differ := changed(name, known(title), facts(other)):
                wrong[title] = differ
    assert not wrong
    assert rewritten > len(STREAMS) // 4, "the rewrite does nothing"


# Not renamed: in a bent stream an id may be the value of any other member too.
@pytest.mark.parametrize("name", sorted(REWRITES.keys() - {"rename"}))
def test_structure_of_a_bent_stream_is_the_same_after(name: str) -> None:
    @PROFILE
    @given(bodies())
    def run(body: bytes) -> None:
        assert not changed(name, facts(body), facts(REWRITES[name](body)))

    run()


def test_rewrites_do_what_they_say() -> None:
    """On one stream with text and a call: what is split is split, what is merged merged, and nothing else is."""
    body = stream(
        ROLE, chunk({"content": "Hello"}), chunk({"content": " you"}), calls(call(0, "call_a", "f", '{"k')),
        calls(call(0, arguments='ey": "wörd\\n')), calls(call(0, arguments='\\u00e9", "n": true}')), CALLED, COUNTED,
    )  # fmt: skip

    def said(body: bytes) -> dict[str, Any]:
        events: list[Event] = []
        message = read(Recording(body=body), "chat", None, events).message
        call = message.tool_calls[0]
        texts = [event.text for event in events if isinstance(event, Text)]
        return {"texts": texts, "id": call.id, "arguments": call.arguments, "chunks": body.count(b"data: ")}

    arguments = '{"key": "wörd\\n\\u00e9", "n": true}'
    before = {"texts": ["Hello", " you"], "id": "call_a", "arguments": arguments, "chunks": 9}
    assert said(body) == before
    assert said(rewrites.split(body)) == {**before, "texts": ["He", "llo", " y", "ou"], "chunks": 13}
    assert said(rewrites.merge(body)) == {**before, "texts": ["Hello you"], "chunks": 7}
    assert said(rewrites.rename(body)) == {**before, "id": "renamed-0"}
    assert b'"created": 1700000003' in rewrites.shift(body)
    masked = '{"qqq": "qqqq\\n\\u00e9", "q": true}'
    assert said(rewrites.letters(body)) == {**before, "texts": ["qqqqq", " qqq"], "arguments": masked}


# -- the facts, one by one ----------------------------------------------------------------------------------------

CALL = call(0, "call_a", "f", "{}")
SURE = {"content": [{"token": "a", "logprob": -1}]}
# Name, body, and facts as told() writes them: `path=value`, a set as its members, `-` for no such fact.
SAYS: list[tuple[str, bytes, str]] = [
    ("a documented stream", stream(*TEXT, COUNTED),
     "result=ok end.marker=present end.state=eof http.status=200 sse.line-endings=lf sse.comments=no "
     "sse.data-space=yes sse.event-names=none finish.value=stop finish.class=stop finish.place=alone "
     "finish.unfinished-form=null role.pattern=first text.first=empty text.type=string text.markup=no text.think=no "
     "chunk.id=stable chunk.model=stable chunk.object=documented chunk.choices=list chunk.delta=object choice.count=1 "
     "logprobs=no usage.present=yes usage.zero=no usage.repeated=no usage.position=extra:empty "
     "usage.counters=completion_tokens,prompt_tokens,total_tokens usage.details=prompt_tokens_details/cached_tokens "
     "notes=- tool=- error=-"),
    ("two calls", stream(*SCRIPTS["calls"]),
     "tool.index=present tool.numbering=dense tool.id.first=string tool.id.later=absent tool.name.first=string "
     "tool.name.later=absent tool.type-form=present tool.arguments-type=string tool.arguments-form=json "
     "tool.arguments-split=pieces finish.class=tool_calls"),
    ("a call in one piece", stream(ROLE, calls(CALL), CALLED), "tool.arguments-split=whole"),
    ("a call in the finish chunk", stream(ROLE, chunk({"tool_calls": [CALL]}, "tool_calls")), "finish.place=with-call"),
    ("a fragment in the finish chunk",
     stream(SCRIPTS["calls"][0], chunk({"tool_calls": [call(0, arguments="{}")]}, "tool_calls")),
     "finish.place=with-fragment"),
    ("text in the finish chunk", stream(*SCRIPTS["finish-with-text"]), "finish.place=with-text"),
    ("no index", stream(ROLE, calls(call(None, "call_a", "f", "{}")), CALLED), "tool.index=absent tool.numbering=none"),
    ("an index as text", stream(ROLE, calls(call("0", "call_a", "f", "{}")), CALLED), "tool.index=other-type"),
    ("one index for two calls", stream(*SCRIPTS["calls-one-index"]), "tool.numbering=reused"),
    ("an index from one", stream(ROLE, calls(call(1, "call_a", "f", "{}")), CALLED), "tool.numbering=offset"),
    ("holes", stream(ROLE, calls(CALL, call(2, "call_b", "g", "{}")), CALLED), "tool.numbering=sparse"),
    ("emptied ids", stream(*SCRIPTS["call-emptied"]), "tool.id.later=absent,empty"),
    ("repeated ids", stream(*SCRIPTS["call-repeated"]), "tool.id.later=same tool.name.later=same"),
    ("another id", stream(*SCRIPTS["call-renamed"]), "tool.id.later=absent,other"),
    ("arguments cut by the limit", stream(ROLE, calls(call(0, "call_a", "f", '{"a')), chunk(finish="length")),
     "tool.arguments-form=cut"),
    ("broken arguments", stream(ROLE, calls(call(0, "call_a", "f", '{"a')), CALLED), "tool.arguments-form=not-json"),
    ("no arguments", stream(*SCRIPTS["call-no-arguments"]), "tool.arguments-form=empty tool.arguments-split=-"),
    ("a custom call", stream(*SCRIPTS["custom"]), "tool.type=custom tool.arguments-form=free tool.arguments-split=-"),
    ("a legacy call", stream(*SCRIPTS["legacy"]), "tool.type=legacy finish.class=tool_calls"),
    ("content as parts", stream(*SCRIPTS["parts"]), "text.type=list"),
    ("reasoning under two names", stream(ROLE, chunk({"reasoning": "a", "reasoning_content": "a"}), STOP),
     "reasoning.field=reasoning,reasoning_content"),
    ("reasoning_details alone", stream(ROLE, chunk({"reasoning_details": [{"text": "a"}]}), STOP),
     "reasoning.field=reasoning_details"),
    ("reasoning_details beside", stream(ROLE, chunk({"reasoning": "a", "reasoning_details": [{"text": "a"}]}), STOP),
     "reasoning.field=reasoning"),
    ("reasoning_details that nobody can read", stream(ROLE, chunk({"reasoning_details": [{"data": "a"}]}), STOP),
     "reasoning.field=-"),
    ("two choices", stream(*SCRIPTS["choices"]), "choice.count=2 choice.shared-chunk=yes finish.value=length,stop"),
    ("role in every delta", stream(*SCRIPTS["role-every"]), "role.pattern=repeated"),
    ("no role", stream(chunk({"content": "a"}), STOP), "role.pattern=never"),
    ("a late role", stream(chunk({"content": "a"}), chunk({"role": "assistant"}), STOP), "role.pattern=late"),
    ("null roles", stream(*SCRIPTS["role-forms"]), "role.pattern=first role.unset-form=null"),
    ("no content at first", stream(chunk({"role": "assistant"}), *TEXT[1:]), "text.first=absent"),
    ("null at first", stream(chunk({"role": "assistant", "content": None}), *TEXT[1:]), "text.first=null"),
    ("finish reason absent", stream(chunk(choices=[{"index": 0, "delta": {}}]), STOP), "finish.unfinished-form=absent"),
    ("usage in the finish chunk", stream(*SCRIPTS["usage-finish"]), "usage.position=finish"),
    ("running usage", stream(*SCRIPTS["usage-running"]), "usage.position=finish,running usage.repeated=yes"),
    ("usage with a choice", stream(*SCRIPTS["usage-choice"]), "usage.position=extra:choice"),
    ("usage without choices", stream(*SCRIPTS["usage-no-choices"]), "usage.position=extra:missing"),
    ("usage in a choice", stream(*SCRIPTS["usage-in-choice"]), "usage.position=in-choice"),
    ("usage under a vendor's name", stream(*SCRIPTS["usage-vendor"]), "usage.position=vendor"),
    ("usage in a short stream", stream(ROLE, chunk(finish="stop", usage=TOKENS)), "usage.repeated=undecided"),
    ("usage all zero", stream(*SCRIPTS["usage-zero"]), "usage.present=yes usage.zero=yes"),
    ("no usage", stream(*TEXT), "usage.present=no usage.zero=- usage.position=-"),
    ("names that change", stream(*SCRIPTS["identity"]),
     "chunk.id=partly-empty chunk.model=changes chunk.object=partly"),
    ("an error object", stream(*SCRIPTS["error-object"], done=False),
     "result=error error.delivery=data error.place=mid error.beside-content=no error.envelope=error-object "
     "error.fields=code,message,type error.code-type=number end.marker-after-error=no"),
    ("an error string", stream({"error": "no"}),
     "error.envelope=error-string error.place=first error.fields=- end.marker-after-error=yes"),
    ("an error at top level", stream(*SCRIPTS["error-top-level"]), "error.envelope=top-level"),
    ("an error as named event", event(ERROR, "error"), "error.delivery=event-name sse.event-names=all"),
    ("an error as text", event(b"overloaded", "error"), "error.delivery=event-name error.envelope=text"),
    ("an error under a field", b'error: {"message":"no"}\n\n', "error.delivery=field"),
    ("a bare error", b'{"error": {"message": "no"}}', "error.delivery=bare"),
    ("an unterminated error", b'data: {"error": {"message": "no"}}', "error.delivery=unterminated"),
    ("an error after the finish", stream(*TEXT, {"error": "late"}), "error.place=after-finish"),
    ("an error beside content", stream(ROLE, chunk({"content": "a"}, error=ERROR)), "error.beside-content=yes"),
    ("a cut stream", stream(*SCRIPTS["finish-never"], done=False), "result=cut end.marker=absent"),
    ("nothing", stream(ROLE, STOP), "result=nothing"),
    ("CR and comments", b": hi\r\n" + stream(*TEXT).replace(b"\n", b"\r").replace(b"data: ", b"data:"),
     "sse.line-endings=cr,crlf sse.comments=yes sse.data-space=no"),
    ("logprobs", stream(*SCRIPTS["logprobs"]), "logprobs=yes"),
    ("logprobs beside the reason", stream(ROLE, chunk(choices=[choice({}, "stop", logprobs=SURE)])),
     "logprobs=yes finish.place=alone finish.value=stop"),
    ("logprobs and text beside it", stream(ROLE, chunk(choices=[choice({"content": "a"}, "length", logprobs=SURE)])),
     "logprobs=yes finish.place=with-text finish.value=length"),
    ("logprobs null", stream(ROLE, chunk(choices=[choice({"content": "a"}, logprobs=None)]), STOP), "logprobs=no"),
    ("a message beside deltas", stream(*SCRIPTS["message"]), "chunk.message=beside"),
    ("a message alone", stream(*SCRIPTS["message-alone"]), "chunk.message=instead chunk.delta=missing"),
    ("odd choices", stream(*SCRIPTS["choices-odd"]),
     "chunk.choices=list,missing,null,other chunk.delta=missing,null,object,string"),
]  # fmt: skip


def told(value: Any) -> str:
    """A fact in a word."""
    if isinstance(value, dict):
        return ",".join(sorted(value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else str(value)


@pytest.mark.parametrize(("body", "says"), [row[1:] for row in SAYS], ids=[row[0] for row in SAYS])
def test_facts_of(body: bytes, says: str) -> None:
    found = facts(body)
    wanted = dict(fact.split("=") for fact in says.split(" "))
    assert {path: told(found.get(path)) for path in wanted} == wanted


def test_facts_of_the_response_head() -> None:
    body = b'{"error": {"message": "no such model", "code": "model_not_found"}}'
    refused = facts(body, status=404, headers={"content-type": "application/json"})
    says = {"result": "error", "http.status": 404, "http.media-type": "application/json", "error.delivery": "status",
            "error.envelope": "error-object", "error.place": None, "end.marker": "not-due"}  # fmt: skip
    assert {path: refused.get(path) for path in says} == says
    for other in (b"<html>\n<p>no", b"no\r\n", b"data: no\n\n", b""):
        assert facts(other, status=502).notes == {}, "the body of a refusal is no stream, and not judged as one"
    assert refused.notes == {}
    assert refused.get("sse") is None
    assert facts(b"", status=502).get("error.envelope") == "none"
    assert facts(b"<html>", status=502).get("error.envelope") == "text"
    packed = facts(stream(*TEXT), headers={"content-type": "text/event-stream"}, decoded_from="gzip")
    assert packed.get("http.content-encoding") == "gzip"


def test_limit_reached_is_a_fact_only_where_the_request_set_one() -> None:
    body = stream(*TEXT, COUNTED)  # five output tokens
    limits = [facts(body, Asked(max_tokens=limit)).get("limit.reached") for limit in (4, 5, 6, 0)]
    assert limits == [True, True, False, None]


def test_behaviour_is_apart_from_the_wire() -> None:
    entries = [call(0, "call_a", "f", '{"a": 1, "b": [true], "c": null}'), call(1, "call_b", "g", "not json")]
    body = stream(ROLE, chunk({"content": "Let me see"}), calls(*entries), chunk({"reasoning": "hm"}), CALLED)
    assert facts(body).behaviour == {
        "tools": {"f": {"a": {"number": True}, "b": {"array": True}, "c": {"null": True}}, "g": {}},
        "channels": {"text": True, "reasoning": True}, "calls": 2, "prose-before-call": True,
    }  # fmt: skip
    assert facts(stream(*TEXT)).behaviour == {"channels": {"text": True}, "calls": 0, "prose-before-call": False}


def test_a_fact_points_at_its_bytes() -> None:
    body = stream(*SCRIPTS["calls"])
    found = facts(body)
    for path, text in (("tool.index", b'"call_a"'), ("usage.position", b'"usage"'), ("finish.value", b'"tool_calls"}')):
        at, length = found.where[path]
        assert text in body[at : at + length], path


def test_a_signature_has_one_fact_a_line_in_order() -> None:
    found = signature(facts(stream(*TEXT)))
    assert found == sorted(found)
    assert "wire.end.marker = present" in found
    assert "wire.http.status = 200" in found
    assert "wire.sse.comments = false" in found
    assert "behaviour.calls = 0" in found
    assert all("\n" not in line for line in found)


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ("present", "p.k = present"), ("extra:empty", "p.k = extra:empty"), ("true", 'p.k = "true"'), ("", 'p.k = ""'),
        ("null", 'p.k = "null"'), ("two words", 'p.k = "two words"'), ("1", 'p.k = "1"'), ("a\nb", 'p.k = "a\\nb"'),
        (True, "p.k = true"), (None, "p.k = null"), (3, "p.k = 3"), ({}, "p.k = {}"), ({"a": {"b": 1}}, "p.k.a.b = 1"),
    ],
)  # fmt: skip
def test_values_are_told_apart_in_a_line(value: Any, line: str) -> None:
    assert list(lines({"k": value}, "p")) == [line]


def test_a_path_that_is_not_there_has_the_default() -> None:
    found = facts(stream(*TEXT))
    assert found.get("tool.index", "none") == "none"
    assert found.get("result.deeper", 0) == 0


@pytest.mark.parametrize("name", [17, 1.5, True, ["get"], {"get": 1}])
def test_a_name_that_is_no_text_after_one_that_is(name: Any) -> None:
    calls: list[dict[str, Any]] = [
        {"index": 0, "id": "a", "type": "function", "function": {"name": "get", "arguments": ""}},
        {"index": 0, "function": {"name": name, "arguments": "{}"}},
    ]
    chunks = [{"id": "c", "choices": [{"index": 0, "delta": {"tool_calls": [call]}}]} for call in calls]
    body = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)
    assert "tool.name-split" in facts(body).notes
