"""Facts of Responses streams: one fault one finding, told where it is; and none changes with wording, deltas or ids."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from functools import cache
from itertools import islice
from typing import Any

import pytest
from reading import FIXTURES, ROOT, quirk, quirks
from rewrites_responses import REWRITES
from strategies import COUNTED, RETYPED, ROLE, chunk, event, places, stream

from harness.asked import Asked
from harness.catalogue import CATALOGUE
from harness.compare import compare
from harness.findings import Severity, worst
from harness.recording import Read, Recording
from harness.rules import lint
from harness.structure import Structure, lines, structure

SHARED = ROOT.parent / "shared"  # the corpora; not part of a checkout
Payloads = list[dict[str, Any]]
Fault = Callable[[Payloads], Payloads | None]

# -- documented streams -------------------------------------------------------------------------------------------

USAGE = {"input_tokens": 9, "output_tokens": 5, "total_tokens": 14, "input_tokens_details": {"cached_tokens": 4}}
ARGUMENTS = {"function_call": "function_call_arguments", "custom_tool_call": "custom_tool_call_input"}
ADDED, DONE = "response.output_item.added", "response.output_item.done"


def message(*pieces: str, kind: str = "output_text") -> dict[str, Any]:
    """An item of text or refusal, with the pieces it is streamed in."""
    member = "refusal" if kind == "refusal" else "text"
    return {"type": "message", "role": "assistant", "content": [{"type": kind, member: pieces}]}


def thinking(*pieces: str, summary: bool = False) -> dict[str, Any]:
    parts = [{"type": "summary_text" if summary else "reasoning_text", "text": pieces}]
    return {"type": "reasoning", "summary": parts if summary else [], "content": [] if summary else parts}


def called(*pieces: str, kind: str = "function_call") -> dict[str, Any]:
    return {"type": kind, "name": "f", ("input" if kind == "custom_tool_call" else "arguments"): pieces}


def documented(*items: dict[str, Any], status: str = "completed", usage: Any = USAGE, **more: Any) -> Payloads:
    """The events of a response with these items, as the vendor sends them."""
    head = {"id": "resp_1", "object": "response", "model": "m-1"}
    out: Payloads = [
        {"type": f"response.{name}", "response": {**head, "status": "in_progress", "output": [], "usage": None}}
        for name in ("created", "in_progress")
    ]
    finished = [_item(out, place, item) for place, item in enumerate(items)]
    final = {**head, "status": status, "output": finished, "usage": usage, **more}
    out.append({"type": f"response.{status}", "response": final})
    return numbered(json.loads(json.dumps(out)))  # no two events hold one object: faults are done to one event


def _item(out: Payloads, place: int, item: dict[str, Any]) -> dict[str, Any]:
    kind, at = item["type"], {"item_id": f"{item['type'][:3]}_{place}", "output_index": place}
    opened = {"id": at["item_id"], **item, "status": "in_progress"}
    done = {**opened, "status": "completed"}
    if kind in ARGUMENTS:
        opened["call_id"] = done["call_id"] = f"call_{place}"
        member = "arguments" if kind == "function_call" else "input"
        opened[member], done[member] = "", "".join(item[member])
        out.append({"type": ADDED, "output_index": place, "item": opened})
        out += [{"type": f"response.{ARGUMENTS[kind]}.delta", **at, "delta": piece} for piece in item[member]]
        out.append({"type": f"response.{ARGUMENTS[kind]}.done", **at, member: done[member]})
    else:
        for name in {"content", "summary"} & item.keys():
            opened[name], done[name] = [], []
        out.append({"type": ADDED, "output_index": place, "item": opened})
        for name in ("summary", "content"):
            for number, part in enumerate(item.get(name, [])):
                numbers = {**at, f"{name}_index": number}
                done[name].append(_part(out, name, part, numbers))
    out.append({"type": DONE, "output_index": place, "item": done})
    return done


def _part(out: Payloads, name: str, part: dict[str, Any], numbers: dict[str, Any]) -> dict[str, Any]:
    family = "content_part" if name == "content" else "reasoning_summary_part"
    kind = {"summary_text": "reasoning_summary_text"}.get(part["type"], part["type"])
    member = "refusal" if kind == "refusal" else "text"
    whole = {**part, member: "".join(part[member])}
    out.append({"type": f"response.{family}.added", **numbers, "part": {**part, member: ""}})
    out += [{"type": f"response.{kind}.delta", **numbers, "delta": piece, "logprobs": []} for piece in part[member]]
    out.append({"type": f"response.{kind}.done", **numbers, member: whole[member]})
    out.append({"type": f"response.{family}.done", **numbers, "part": whole})
    return whole


def numbered(payloads: Payloads) -> Payloads:
    for number, payload in enumerate(payloads):
        payload["sequence_number"] = number
    return payloads


def body_of(payloads: Payloads) -> bytes:
    return b"".join(event(payload, str(payload.get("type", ""))) for payload in payloads)


LIMITED = documented(message("a"), status="incomplete", incomplete_details={"reason": "max_output_tokens"})
TEXT = documented(message("Hel", "lo ", "wörld \U0001f600"))
STREAMS: dict[str, Payloads] = {
    "text": TEXT,
    "refusal": documented(message("I can", "not", kind="refusal")),
    "two calls": documented(called('{"a"', ": 1}"), called("{", "}")),
    "all": documented(thinking("let me ", "see"), thinking("so", "me", summary=True), message("One ", "moment"),
                      called('{"city": ', '"Paris"}'), called("ls ", "-l", kind="custom_tool_call")),
    "a server's own tool": documented({"type": "web_search_call", "action": {}}, message("found")),
}  # fmt: skip


def facts(payloads: Payloads | bytes, asked: Asked | None = None, **more: Any) -> Structure:
    body = payloads if isinstance(payloads, bytes) else body_of(payloads)
    return structure(Recording(**{"body": body, "status": 200, "end": "eof", **more}), "responses", asked)


def told(found: Structure) -> list[str]:
    """The rules of the findings that are not cosmetic."""
    return [finding.rule for finding in lint(found) if finding.severity is not Severity.COSMETIC]


@pytest.mark.parametrize("name", STREAMS)
def test_a_documented_stream_has_no_finding(name: str) -> None:
    assert lint(facts(STREAMS[name])) == []


# -- labels of the cases ------------------------------------------------------------------------------------------


def _quirks() -> dict[str, tuple[dict[str, Any], bytes]]:
    found = {spec.stem: quirk(spec) for spec in quirks()}
    return {name: (case, body) for name, (case, body) in found.items() if case["family"] == "responses"}


@pytest.mark.parametrize("name", _quirks())
def test_labels_of_the_cases(name: str) -> None:
    """The worst finding is the label, and it is the only one that is not cosmetic."""
    case, body = _quirks()[name]
    found = facts(body)
    assert worst(lint(found)) == case["verdict"]
    assert len(told(found)) == (case["verdict"] != "cosmetic")


# -- one fault, one finding ---------------------------------------------------------------------------------------


def of_type(payloads: Payloads, *endings: str) -> Payloads:
    return [payload for payload in payloads if str(payload.get("type")).endswith(endings)]


def without(*endings: str) -> Fault:
    """The stream without events of these types; none if it has none."""

    def fault(payloads: Payloads) -> Payloads | None:
        left = [payload for payload in payloads if not str(payload.get("type")).endswith(endings)]
        return left if len(left) < len(payloads) else None

    return fault


def changed(ending: str, change: Callable[[dict[str, Any]], Any]) -> Fault:
    """The stream with `change` done to the events of a type; none if it changes nothing."""

    def fault(payloads: Payloads) -> Payloads | None:
        before = copy.deepcopy(payloads)
        for payload in of_type(payloads, ending):
            change(payload)
        return payloads if payloads != before else None

    return fault


def removed(*names: str) -> Callable[[dict[str, Any]], Any]:
    return lambda payload: [payload.pop(name, None) for name in names]


def _final(change: Callable[[dict[str, Any]], Any]) -> Fault:
    return changed("response.completed", lambda payload: change(payload["response"]))


def _created_late(payloads: Payloads) -> Payloads:
    payloads[:2] = payloads[1::-1]
    return payloads


def _index_zero(payloads: Payloads) -> Payloads | None:
    if len(of_type(payloads, "item.added")) < 2:
        return None
    for payload in payloads:
        if "output_index" in payload:
            payload["output_index"] = 0
    return payloads


def _index_moves(payload: dict[str, Any]) -> None:
    payload["output_index"] += 50


def _counts_from_one(payload: dict[str, Any]) -> None:
    if "content_index" in payload:
        payload["content_index"] += 1


def _other_text(payload: dict[str, Any]) -> None:
    payload["text"] += "!"


def _value_changed(response: dict[str, Any], value: str | None = None) -> None:
    """The first text or arguments of the output list."""
    for item in response["output"]:
        for part in item.get("content") or []:
            member = "refusal" if part["type"] == "refusal" else "text"
            part[member] = part[member] + "!" if value is None else value
            return
        if item.get("arguments"):
            item["arguments"] = '{"other": 1}' if value is None else value
            return


def _lacks_one(response: dict[str, Any]) -> None:
    if len(response["output"]) > 1:
        response["output"].pop()


def _done_first(payloads: Payloads) -> Payloads | None:
    """A done event before the last delta it sums up."""
    for place, payload in enumerate(payloads):
        if payload["type"].endswith((".output_text.done", "arguments.done")):
            payloads[place - 1], payloads[place] = payload, payloads[place - 1]
            return payloads
    return None


def _unknown(payloads: Payloads) -> Payloads:
    return [*payloads[:3], {"type": "response.sparkle"}, *payloads[3:]]


def _old_name(payload: dict[str, Any]) -> None:
    payload["type"] = payload["type"].replace("output_text", "text")


def _elsewhere(payload: dict[str, Any]) -> None:
    payload["text"] = payload.pop("delta")


def _message_only(change: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], Any]:
    return lambda payload: change(payload["item"]) if payload["item"]["type"] == "message" else None


def _named(ids: Callable[[str], str]) -> Callable[[dict[str, Any]], Any]:
    return lambda payload: payload["item"].update(id=ids(payload["item"]["id"]))


# What is done to a documented stream -> the rule that tells it.
FAULTS: dict[str, tuple[str, Fault]] = {
    "no created": ("responses.created-missing", without("response.created")),
    "created late": ("responses.created-missing", _created_late),
    "no terminal event": ("stream.cut", without("response.completed")),
    "no item added": ("responses.item-not-added", without("output_item.added")),
    "no item added nor done": ("responses.item-not-added", without("output_item.added", "output_item.done")),
    "no item done": ("responses.item-not-done", without("output_item.done")),
    "no part added": ("responses.part-not-added", without("content_part.added")),
    "no part done": ("responses.part-not-done", without("content_part.done")),
    "no part events": ("responses.part-not-added", without("content_part.added", "content_part.done")),
    "no text done": ("responses.text-not-done", without("text.done", "refusal.done")),
    "no arguments done": ("responses.arguments-not-done", without("arguments.done", "input.done")),
    "no arguments deltas": ("responses.arguments-only-done", without("arguments.delta", "input.delta")),
    "arguments in the item only": ("responses.arguments-only-done", without(
        "arguments.delta", "input.delta", "arguments.done", "input.done")),
    "no text deltas": ("responses.done-differs", without("output_text.delta")),
    "another text done": ("responses.done-differs", changed("output_text.done", _other_text)),
    "an empty text done": ("responses.done-differs", changed("output_text.done", lambda p: p.update(text=""))),
    "other arguments done": ("responses.done-differs", changed(
        "arguments.done", lambda p: p.update(arguments='{"b":2}'))),
    "an empty part done": ("responses.done-differs", changed("content_part.done", lambda p: p["part"].update(
        {("refusal" if p["part"]["type"] == "refusal" else "text"): ""}))),
    "a delta after done": ("responses.delta-after-done", _done_first),
    "an empty output": ("responses.output-empty", _final(lambda response: response.update(output=[]))),
    "no output": ("responses.output-empty", _final(removed("output"))),
    "no response": ("responses.output-empty", changed("response.completed", removed("response"))),
    "another final value": ("responses.final-differs", _final(_value_changed)),
    "an empty final value": ("responses.final-differs", _final(lambda response: _value_changed(response, ""))),
    "an item less at the end": ("responses.final-differs", _final(_lacks_one)),
    "an item more at the end": ("responses.final-differs", _final(lambda response: response["output"].append(
        {"type": "function_call", "id": "fc_9", "call_id": "call_9", "name": "f", "arguments": "{}"}))),
    "another status": ("responses.status-differs", _final(lambda response: response.update(status="incomplete"))),
    "another response id": ("responses.response-id-changes", _final(lambda response: response.update(id="resp_2"))),
    "another id at done": ("responses.id-changes", changed("output_item.done", _named(lambda name: f"{name}x"))),
    "another id in deltas": ("responses.id-changes", changed("delta", lambda p: p.update(item_id="other"))),
    "other ids at the end": ("responses.id-changes", _final(
        lambda response: [item.update(id=f"{item['id']}x") for item in response["output"]])),
    "one output_index for all": ("responses.index-shared", _index_zero),
    "no output_index": ("responses.index-missing", changed("", removed("output_index"))),
    "null for output_index": ("responses.index-missing", changed("delta", lambda p: p.update(output_index=None))),
    "an output_index that changes": ("responses.index-missing", changed("output_item.done", _index_moves)),
    "no content_index": ("responses.index-missing", changed("", removed("content_index"))),
    "content_index from one": ("responses.content-index-start", changed("", _counts_from_one)),
    "no content": ("responses.item-content-missing", changed("item.added", _message_only(removed("content")))),
    "null for content": ("responses.item-content-missing", changed("item.added", _message_only(
        lambda item: item.update(content=None)))),
    "an unknown event": ("responses.unknown-event", _unknown),
    "an old name": ("responses.deprecated-event", changed("output_text.delta", _old_name)),
    "a piece elsewhere": ("responses.piece-elsewhere", changed("output_text.delta", _elsewhere)),
    "no usage": ("usage.missing", _final(removed("usage"))),
    "usage all zero": ("usage.zero", _final(
        lambda response: response.update(usage={"input_tokens": 0, "output_tokens": 0}))),
    "no call id": ("tool.id-missing", changed("", lambda p: (
        [item.pop("call_id", None) for item in [p.get("item", {}), *p.get("response", {}).get("output", [])]]))),
}  # fmt: skip
# Faults in the numbering itself: the other streams are numbered anew, as a server would.
NUMBERS: dict[str, tuple[str, Callable[[int], int | None]]] = {
    "gaps": ("responses.sequence-gaps", lambda number: 2 * number),
    "standing still": ("responses.sequence-gaps", lambda number: 0),
    "none": ("responses.sequence-missing", lambda number: None),
    "some": ("responses.sequence-missing", lambda number: number if number % 2 else None),
}


def faulty(name: str, title: str) -> Payloads | None:
    return FAULTS[name][1](copy.deepcopy(STREAMS[title]))


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("renumbered", [True, False], ids=["renumbered", "as it was"])
def test_one_fault_one_finding(name: str, renumbered: bool) -> None:
    """What a relay drops leaves gaps in the numbering: these too are told by their cause."""
    tried = 0
    for title in STREAMS:
        payloads = faulty(name, title)
        if payloads is None:
            continue
        tried += 1
        found = facts(numbered(payloads) if renumbered else payloads)
        assert told(found) == [FAULTS[name][0]], title
    assert tried


@pytest.mark.parametrize("name", NUMBERS)
def test_one_finding_for_numbers(name: str) -> None:
    code, change = NUMBERS[name]
    for original in STREAMS.values():
        payloads = copy.deepcopy(original)
        for payload in payloads:
            number = change(payload.pop("sequence_number"))
            if number is not None:
                payload["sequence_number"] = number
        assert told(facts(payloads)) == [code]


def test_every_rule_of_this_dialect_is_told_by_some_stream() -> None:
    seen = {code for code, _ in [*FAULTS.values(), *NUMBERS.values()]}
    seen |= {"responses.close-order", "responses.incomplete"}
    assert {code for code in CATALOGUE if code.startswith("responses.")} <= seen


def test_names_of_events() -> None:
    body = body_of(TEXT)
    assert told(facts(re.sub(rb"event: [^\n]*\n", b"", body))) == ["sse.event-name-missing"]
    renamed = body.replace(b"event: response.output_text.delta", b"event: delta")
    assert told(facts(renamed)) == ["sse.event-name-differs"]
    unnamed = event({"type": "keepalive"}) + body
    assert told(facts(unnamed)) == [], "nobody waits for the name of an event that nobody knows"
    bare = re.sub(rb'"sequence_number": \d+', b'"x": 1', re.sub(rb"event: [^\n]*\n", b"", body))
    assert told(facts(bare)) == ["sse.event-name-missing"]


def test_unknown_events() -> None:
    for name, severity in (("keepalive", "cosmetic"), ("response.keepalive", "negotiable")):
        found = facts([TEXT[0], {"type": name}, *TEXT[1:]])
        assert [(finding.rule, finding.severity) for finding in lint(found)] == [("responses.unknown-event", severity)]
        assert found.get("responses.unknown-events") == {name: True}
    many = [TEXT[0], *({"type": f"x{number}"} for number in range(100)), *TEXT[1:]]
    assert len(facts(many).get("responses.unknown-events")) == 16, "a stranger decides how many there are"


def test_an_item_opened_in_the_middle_of_another() -> None:
    payloads = documented(called("{", "}"), called("{", "}"))
    second = next(place for place, payload in enumerate(payloads) if payload.get("output_index") == 1)
    payloads.insert(3, payloads.pop(second))
    found = facts(numbered(payloads))
    assert [finding.rule for finding in lint(found)] == ["responses.close-order"]
    assert found.get("responses.interleaved") is True


def test_an_index_opened_twice_is_shared_also_by_the_same_item() -> None:
    payloads = copy.deepcopy(TEXT)
    payloads.insert(3, copy.deepcopy(payloads[2]))
    assert told(facts(numbered(payloads))) == ["responses.index-shared"]


def test_an_item_that_is_whole_when_opened_owes_no_parts() -> None:
    item = {"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": "hi"}]}
    opened = [{"type": kind, "output_index": 0, "item": item} for kind in (ADDED, DONE)]
    final = {**TEXT[-1], "response": {**TEXT[-1]["response"], "output": [item]}}
    assert told(facts(numbered([*copy.deepcopy(TEXT[:2]), *opened, final]))) == []


def test_summaries_weigh_as_much_as_text() -> None:
    """OpenAI's SDK for Node keeps summaries by index and part, as it does reasoning text, and raises without."""
    for summary in (True, False):
        for fault in (without("part.added"), changed("", removed("summary_index", "content_index"))):
            payloads = fault(documented(thinking("a", "b", summary=summary)))
            assert payloads is not None
            (finding,) = [found for found in lint(facts(numbered(payloads))) if found.severity is not Severity.COSMETIC]
            assert finding.severity is Severity.FATAL


def test_arguments_that_do_not_parse_are_no_finding_here() -> None:
    """RULES, section 3: tool.arguments-not-json is of all dialects but this one."""
    found = facts(documented(called('{"a": ')))
    assert lint(found) == []
    assert found.get("tool.arguments-form") == {"not-json": True}


def test_an_old_plain_message() -> None:
    said = {"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": "hi"}]}
    final = {**TEXT[-1], "response": {**TEXT[-1]["response"], "output": [said]}}
    found = facts(numbered([*copy.deepcopy(TEXT[:2]), said, final]))
    assert told(found) == ["responses.deprecated-event"]
    assert found.get("responses.old-events") == {"message": True}


# -- what the official helper makes of it -------------------------------------------------------------------------

HELPER_RAISES = (
    "no created", "created late", "no item added", "no item added nor done", "no part added", "no part events",
    "another response id", "another id at done", "other ids at the end", "one output_index for all", "no output_index",
    "null for output_index", "no content_index", "content_index from one", "no content", "null for content",
    "a piece elsewhere", "no response",
)  # fmt: skip


def helped(payloads: Payloads) -> Any:
    """The final response of openai-python's own accumulator."""
    openai, httpx = pytest.importorskip("openai"), pytest.importorskip("httpx")
    head = {"content-type": "text/event-stream"}
    transport = httpx.MockTransport(lambda request: httpx.Response(200, content=body_of(payloads), headers=head))
    with httpx.Client(transport=transport) as http:
        client = openai.OpenAI(api_key="none", base_url="http://127.0.0.1/v1", http_client=http, max_retries=0)
        with client.responses.stream(model="m-1", input="hi") as events:
            for _ in events:
                pass
            return events.get_final_response()


def test_the_official_helper_reads_documented_streams() -> None:
    for payloads in STREAMS.values():
        assert len(helped(payloads).output) == len(payloads[-1]["response"]["output"])


@pytest.mark.parametrize("name", HELPER_RAISES)
def test_what_the_official_helper_raises_on_is_fatal(name: str) -> None:
    assert CATALOGUE[FAULTS[name][0]].severity is Severity.FATAL
    payloads = faulty(name, "all")
    assert payloads is not None
    with pytest.raises((RuntimeError, LookupError, TypeError, AttributeError)):
        helped(numbered(payloads))


# -- facts --------------------------------------------------------------------------------------------------------

SAYS: list[tuple[str, Payloads, dict[str, Any]]] = [
    ("text", TEXT, {
        "result": "ok", "end.marker": "present", "finish.value": {"completed": True}, "finish.class": {"stop": True},
        "responses.created": "first", "responses.terminal": "completed", "responses.status": "same",
        "responses.final": "same", "responses.response-id": "stable", "responses.sequence": "ok",
        "responses.item-id": "stable", "responses.output-index": "distinct", "responses.interleaved": False,
        "responses.done": "same", "responses.items-added": "all", "responses.items-done": "all",
        "responses.parts-added": "all", "responses.parts-done": "all", "responses.text-done": "all",
        "responses.arguments-deltas": None, "responses.unknown-events": None, "responses.old-events": None,
        "usage.present": True, "usage.zero": False, "usage.repeated": False, "usage.position": {"terminal": True},
        "usage.counters": {"input_tokens": True, "output_tokens": True, "total_tokens": True},
        "usage.details": {"input_tokens_details/cached_tokens": True}, "sse.event-names": "all", "choice.count": 1,
        "logprobs": False, "notes": None, "tool": None, "error": None,
    }),
    ("everything", STREAMS["all"], {
        "finish.class": {"tool_calls": True},
        "reasoning.field": {"reasoning_text": True, "reasoning_summary_text": True},
        "responses.arguments-deltas": "all", "responses.arguments-done": "all", "tool.type": {"custom": True},
        "tool.arguments-form": {"json": True, "free": True}, "tool.arguments-split": {"pieces": True},
    }),
    ("incomplete", LIMITED, {
        "finish.value": {"max_output_tokens": True}, "finish.class": {"length": True}, "end.marker": "present",
        "responses.terminal": "incomplete", "responses.status": "same",
    }),
    ("usage before the end", [{**TEXT[0], "response": {**TEXT[0]["response"], "usage": USAGE}}, *TEXT[1:]], {
        "usage.position": {"running": True, "terminal": True}, "usage.repeated": True,
    }),
    ("logprobs", [{**payload, "logprobs": [{"token": "a"}]} if "logprobs" in payload else payload for payload in TEXT],
     {"logprobs": True}),
    ("cut", TEXT[:5], {
        "result": "cut", "end.marker": "absent", "responses.terminal": "absent", "responses.items-done": "none",
        "responses.final": None,
    }),
    ("failed", [*TEXT[:5], {"type": "response.failed", "response": {
        "id": "resp_1", "status": "failed", "output": [], "error": {"code": "server_error", "message": "no"}}}], {
        "result": "error", "error.delivery": "terminal-event", "error.envelope": "error-object", "error.place": "mid",
        "error.beside-content": False, "error.fields": {"code": True, "message": True}, "error.code-type": "string",
        "end.marker": "present", "end.marker-after-error": None, "responses.terminal": "failed",
    }),
    ("an error event", [*TEXT[:3], {"type": "error", "code": "slow_down", "message": "no", "param": None}], {
        "error.delivery": "event-name", "error.envelope": "top-level", "error.fields": {"code": True, "message": True},
        "error.place": "first", "end.marker": "absent", "end.marker-after-error": False,
    }),
    ("an error event, then failed", [*TEXT[:3], {"type": "error", "error": {"type": "tokens", "message": "no"}},
                                     {"type": "response.failed", "response": {"id": "resp_1", "status": "failed"}}], {
        "error.delivery": "event-name", "error.envelope": "error-object",
        "error.fields": {"type": True, "message": True}, "end.marker-after-error": True,
    }),
    ("an error of no type", [*TEXT[:3], {"error": "no"}], {"error.delivery": "data", "error.envelope": "error-string"}),
    ("thinking in the item alone", (without("reasoning_text.delta", "reasoning_text.done", "content_part.added",
                                            "content_part.done")(documented(thinking("a"))) or []), {
        "reasoning.field": {"output_item": True}, "responses.done": "differs",
    }),
]  # fmt: skip


@pytest.mark.parametrize(("payloads", "says"), [row[1:] for row in SAYS], ids=[row[0] for row in SAYS])
def test_facts_of(payloads: Payloads, says: dict[str, Any]) -> None:
    found = facts(payloads)
    assert {path: found.get(path) for path in says} == says


@pytest.mark.parametrize("name", FAULTS)
def test_a_note_points_at_its_bytes(name: str) -> None:
    """At an event of the stream, or at what comes after the last."""
    payloads = faulty(name, "all") or faulty(name, "text")
    assert payloads is not None
    body = body_of(payloads)
    found = facts(body)
    for note in found.notes.values():
        piece = body[note.at : note.at + note.length]
        assert piece.startswith((b"event: ", b"data: ")) or not piece, note
        if note.code.startswith("responses.") and "{detail}" in CATALOGUE[note.code].says:
            assert note.detail, note


def test_the_place_is_that_of_the_first_event_with_the_fault() -> None:
    odd = {"type": "response.sparkle"}
    body = body_of([*TEXT[:2], {**odd, "first": 1}, odd, *TEXT[2:]])
    note = facts(body).notes["responses.unknown-event"]
    assert b'"first"' in body[note.at : note.at + note.length]


def test_the_body_of_a_refusal_is_no_stream() -> None:
    refused = facts(b'{"error": {"message": "no such model", "code": 1}}', status=404)
    assert refused.notes == {}
    assert refused.get("responses") is None
    assert facts(body_of(TEXT).replace(b"event: ", b"x: "), status=500).get("end.marker") == "present"


# -- comparison ---------------------------------------------------------------------------------------------------


def differences(baseline: Structure, candidate: Structure, shape: str = "") -> list[tuple[str, str]]:
    return [(finding.rule, finding.severity[0]) for finding in compare([baseline], candidate, shape=shape).findings]


def test_a_limit_used_up_and_not_told() -> None:
    asked = Asked(max_tokens=5)
    told_so = facts(LIMITED, asked)
    assert differences(told_so, facts(documented(message("a")), asked)) == [("finish.length-hidden", "f")]
    assert differences(told_so, facts(documented(message("a")), Asked(max_tokens=6))) == [], "it ended by itself"
    other = documented(message("a"))
    other[-1]["response"]["status"] = "incomplete"
    assert differences(told_so, facts(other, asked)) == [("responses.status-differs", "n")]
    assert differences(facts(documented(message("a")), asked), told_so) == [], "incomplete is a documented end"


def test_a_documented_end_is_never_a_difference() -> None:
    """RULES, section 2: what one helper mishandles is told by lint alone, also across dialects."""
    asked = Asked(max_tokens=5)
    limited, whole = facts(LIMITED, asked), facts(documented(message("a")), Asked(max_tokens=6))
    assert told(limited) == ["responses.incomplete"]
    chat = structure(Recording(body=stream(ROLE, chunk({"content": "a"}), chunk(finish="length"), COUNTED)), "chat")
    assert differences(whole, limited) == differences(chat, limited) == []


def test_usage_before_the_end_only() -> None:
    payloads = copy.deepcopy(TEXT)
    payloads[1]["response"]["usage"] = payloads[-1]["response"].pop("usage")
    found = facts(payloads)
    (finding,) = lint(found)
    assert finding.rule == "usage.position"
    assert "the terminal event" in finding.message
    assert differences(facts(TEXT), found) == [("usage.position", "n")]
    repeated = copy.deepcopy(TEXT)
    repeated[1]["response"]["usage"] = USAGE
    assert differences(facts(TEXT), facts(repeated)) == [("usage.repeated", "n")]


def test_thinking_under_another_name() -> None:
    text, summary = facts(documented(thinking("a"))), facts(documented(thinking("a", summary=True)))
    assert differences(summary, text) == [("reasoning.field", "n")]
    both = facts(documented(thinking("a"), thinking("b", summary=True)))
    assert differences(text, both) == []


def test_carriers_of_an_error() -> None:
    rows = {name: facts(payloads) for name, payloads, _ in SAYS}
    assert differences(rows["failed"], rows["an error event"], "error") == [
        ("error.delivery", "f"), ("error.envelope", "f")]  # fmt: skip
    assert differences(rows["an error event, then failed"], rows["an error event"], "error") == [
        ("end.marker-after-error", "f"), ("error.envelope", "f")]  # fmt: skip
    assert differences(rows["failed"], rows["text"], "error") == [("error.swallowed", "f")]
    assert differences(rows["failed"], rows["failed"], "error") == []


def test_one_cause_is_one_difference() -> None:
    ours = facts(TEXT)
    unnamed = facts(re.sub(rb"event: [^\n]*\n", b"", body_of(TEXT)))
    assert differences(ours, unnamed) == [("sse.event-name-missing", "n")], "not the event names as well"
    pieces = documented(called("{", "}"))
    whole = without("arguments.delta")(pieces)
    assert whole is not None
    assert differences(facts(pieces), facts(whole)) == [("responses.arguments-only-done", "n")]


@pytest.mark.parametrize("name", FAULTS)
def test_a_difference_shows_both_sides(name: str) -> None:
    """What only the candidate does is told with the bytes of both, and what both do is shared."""
    title = "all" if faulty(name, "all") is not None else "text"
    payloads = faulty(name, title)
    assert payloads is not None
    clean, other = facts(STREAMS[title]), facts(payloads)
    for finding in compare([clean], other).findings:
        if finding.rule.startswith("responses."):
            assert [evidence.side for evidence in finding.evidence] == ["baseline", "candidate"], finding
    assert compare([other], other).findings == []


# -- what must not show -------------------------------------------------------------------------------------------


def _streams() -> dict[str, bytes]:
    """Every stream there is, by name: those above, quirks, fixtures, and the corpora where they are."""
    found = {name: body_of(payloads) for name, payloads in STREAMS.items()}
    found |= {name: body for name, (_, body) in _quirks().items()}
    for path in sorted(FIXTURES.glob("*/*.sse")):
        sidecar = path.with_suffix(".json")
        if sidecar.exists() and json.loads(sidecar.read_bytes()).get("dialect") == "responses":
            found[f"{path.parent.name}/{path.stem}"] = path.read_bytes()
    for pattern in ("corpus-local/*/responses/*.sse", "corpus/openai-responses/**/*.sse"):
        found |= {str(path.relative_to(SHARED)): path.read_bytes() for path in sorted(SHARED.glob(pattern))}
    return found


ALL = _streams()
# Markers are found by their letters (RULES, section 1).
MARKERS = {"wire.text.markup", "wire.text.think", "wire.notes.tool.markup-in-text", "wire.notes.reasoning.in-text"}


def flat(found: Structure, *, behaviour: bool) -> dict[str, str]:
    """Fact by path."""
    trees = [*lines(found.wire, "wire"), *(lines(found.behaviour, "behaviour") if behaviour else ())]
    return dict(line.split(" = ", 1) for line in trees)


@cache
def known(title: str) -> Structure:
    return facts(ALL[title])


@pytest.mark.parametrize("name", REWRITES)
def test_structure_of_every_stream_is_the_same_after(name: str) -> None:
    wrong = {}
    for title, body in ALL.items():
        ours, theirs = (
            flat(found, behaviour=name != "letters") for found in (known(title), facts(REWRITES[name](body)))
        )
        allowed = MARKERS if name == "letters" else set[str]()
        differ = {path for path in {*ours, *theirs} - allowed if ours.get(path) != theirs.get(path)}
        if differ:
            wrong[title] = {path: (ours.get(path), theirs.get(path)) for path in sorted(differ)}
    assert wrong == {}


def test_the_rewrites_do_rewrite() -> None:
    body = body_of(STREAMS["all"])
    count = body.count(b".delta\n")
    assert REWRITES["split"](body).count(b".delta\n") == 2 * count
    assert REWRITES["merge"](body).count(b".delta\n") == count // 2
    assert b"call_3" not in REWRITES["rename"](body)
    masked = REWRITES["letters"](body)
    assert b"moment" not in masked
    assert b'{\\"qqqq\\": \\"qqqqq\\"}' in masked


def test_pieces_of_the_body_do_not_show() -> None:
    for title in [*STREAMS, *_quirks()]:
        body = ALL[title]
        for size in (1, 7, 100):
            reads = [Read(min(end, len(body)), end) for end in range(size, len(body) + size, size)]
            cut = facts(body, reads=reads)
            assert (cut.wire, cut.notes) == (known(title).wire, known(title).notes), (title, size)


def test_whatever_a_member_holds_a_stream_conforms_to_itself() -> None:
    """Every member once removed, and once of each of several types."""
    payloads = documented(thinking("a", summary=True), message("b"), called("{}"))
    count = len(list(places(payloads)))
    assert count > 200
    for place in range(count):
        for how in (-1, *range(0, len(RETYPED), 2)):
            bent = copy.deepcopy(payloads)
            node, key = next(islice(places(bent), place, None))
            if how < 0:
                del node[key]
            else:
                node[key] = RETYPED[how](node[key])
            found = facts(b"".join(map(event, bent)))
            assert compare([found], found).findings == []
            assert {finding.rule for finding in lint(found)} <= found.notes.keys()
