"""Facts of Completions streams: those of chat's chunks, with the text in the choice and no roles, deltas or calls."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest
import rewrites
from reading import FIXTURES, ROOT
from rewrites import Chunk, chunks, rewrite
from strategies import DONE, ERROR, RETYPED, event, places, stream

from harness.asked import Asked
from harness.compare import compare
from harness.recording import Recording
from harness.rules import lint
from harness.structure import Structure, lines, structure

SHARED = ROOT.parent / "shared"  # the corpora; not part of a checkout
TOKENS = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}
LOGPROBS = {"tokens": ["a"], "token_logprobs": [-1.0]}


def choice(text: Any = "", finish: Any = None, number: int = 0, **more: Any) -> dict[str, Any]:
    return {"text": text, "index": number, "logprobs": None, "finish_reason": finish, **more}


def chunk(*choices: Any, **more: Any) -> dict[str, Any]:
    """A documented chunk."""
    head = {"id": "cmpl-1", "object": "text_completion", "created": 1700000000, "model": "m-1"}
    return {**head, "choices": list(choices), **more}


TEXT = [chunk(choice("Hel")), chunk(choice("lo ")), chunk(choice("wörld \U0001f600", "stop"))]
COUNTED = chunk(usage=TOKENS)


def facts(body: bytes, asked: Asked | None = None) -> Structure:
    return structure(Recording(body=body, status=200, end="eof"), "completions", asked)


def told(*payloads: Any, done: bool = True, asked: Asked | None = None) -> list[tuple[str, str]]:
    return [(finding.rule, finding.severity[0]) for finding in lint(facts(stream(*payloads, done=done), asked))]


def test_a_documented_stream_has_no_finding() -> None:
    """Text beside the finish reason is the vendor's own form here."""
    assert told(*TEXT) == []
    assert told(*TEXT, COUNTED, asked=Asked(usage=True)) == []
    two = chunk(choice("a"), choice("b", number=1))
    assert told(two, chunk(choice("", "length")), chunk(choice("", "stop", 1))) == []


SAYS: list[tuple[str, bytes, dict[str, Any]]] = [
    ("a documented stream", stream(*TEXT, COUNTED), {
        "result": "ok", "end.marker": "present", "finish.value": {"stop": True}, "finish.place": {"with-text": True},
        "finish.unfinished-form": {"null": True}, "text.first": {"string": True}, "text.type": {"string": True},
        "usage.present": True, "usage.position": {"extra:empty": True}, "usage.repeated": False, "usage.zero": False,
        "usage.counters": {"prompt_tokens": True, "completion_tokens": True, "total_tokens": True},
        "chunk.id": "stable", "chunk.object": "documented", "chunk.choices": {"list": True}, "choice.count": 1,
        "logprobs": False, "role": None, "tool": None, "chunk.delta": None, "notes": None,
    }),
    ("no text at first", stream(chunk({"index": 0, "finish_reason": None}), *TEXT), {"text.first": {"absent": True}}),
    ("null at first", stream(chunk(choice(None)), *TEXT), {"text.first": {"null": True}}),
    ("log probabilities", stream(chunk(choice("a", logprobs=LOGPROBS)), *TEXT), {"logprobs": True}),
    ("an error", stream(TEXT[0], {"error": ERROR}, done=False), {
        "result": "error", "error.delivery": "data", "error.envelope": "error-object", "error.place": "mid",
        "error.code-type": "number", "end.marker-after-error": False,
    }),
    ("an error in a choice", stream(TEXT[0], chunk(choice("a", error={"message": "no"}))), {
        "error.envelope": "error-object", "error.fields": {"message": True}, "error.beside-content": True,
    }),
]  # fmt: skip


@pytest.mark.parametrize(("body", "says"), [row[1:] for row in SAYS], ids=[row[0] for row in SAYS])
def test_facts_of(body: bytes, says: dict[str, Any]) -> None:
    found = facts(body)
    assert {path: found.get(path) for path in says} == says


FAULTS: list[tuple[str, list[Any], bool, Asked | None, list[tuple[str, str]]]] = [
    ("no end marker", TEXT, False, None, [("end.marker-missing", "f")]),
    ("no finish reason", TEXT[:2], True, None, [("finish.missing", "f")]),
    ("cut", TEXT[:2], False, None, [("stream.cut", "f")]),
    ("nothing", [chunk(choice("", "stop"))], True, None, [("stream.no-content", "f")]),
    ("a reason of chat", [chunk(choice("a", "tool_calls"))], True, None, [("finish.calls-without-call", "f")]),
    ("an unknown reason", [chunk(choice("a", "eos"))], True, None, [("finish.unknown-value", "n")]),
    ("two reasons", [*TEXT, chunk(choice("", "stop"))], True, None, [("finish.repeated", "n")]),
    ("text after the reason", [*TEXT, chunk(choice("late"))], True, None, [("finish.content-after", "n")]),
    ("an empty reason", [chunk(choice("a", "")), *TEXT], True, None, [("finish.empty-string", "n")]),
    ("no key for the reason", [chunk({"index": 0, "text": "a"}), *TEXT], True, None, [("finish.key-absent", "c")]),
    ("another id", [TEXT[0], {**TEXT[1], "id": "cmpl-2"}, TEXT[2]], True, None, [("chunk.id-changes", "f")]),
    ("no choices", [TEXT[0], {key: value for key, value in TEXT[1].items() if key != "choices"}, TEXT[2]], True, None,
     [("chunk.choices-missing", "f")]),
    ("an empty list of choices", [TEXT[0], chunk(), *TEXT[1:]], True, None, [("chunk.choices-empty", "n")]),
    ("no index", [chunk({"text": "a", "finish_reason": None}), *TEXT], True, None,
     [("chunk.choice-index-missing", "n")]),
    ("another object", [{**payload, "object": "chat.completion.chunk"} for payload in TEXT], True, None,
     [("chunk.object", "n")]),
    ("usage asked for", TEXT, True, Asked(usage=True), [("usage.missing", "n")]),
    ("usage in the last chunk", [*TEXT[:2], {**TEXT[2], "usage": TOKENS}], True, None, [("usage.position", "n")]),
    ("running usage", [{**payload, "usage": TOKENS} for payload in [*TEXT[:2], *TEXT]], True, None,
     [("usage.repeated", "n")]),
    ("usage all zero", [*TEXT, chunk(usage=dict.fromkeys(TOKENS, 0))], True, None, [("usage.zero", "n")]),
    ("fewer choices", TEXT, True, Asked(n=2), [("choice.missing", "f")]),
    ("no log probabilities", TEXT, True, Asked(logprobs=True), [("logprobs.missing", "f")]),
    ("log probabilities as in chat", [chunk(choice("a", logprobs={"content": [{"token": "a", "logprob": -1}]})), *TEXT],
     True, Asked(logprobs=True), [("completions.logprobs-form", "n")]),
    ("the stop string", TEXT, True, Asked(stop=("lo",)), [("stop.text-included", "n")]),
    ("snapshots", [*(chunk(choice("The answer is 42"[:end])) for end in (10, 13, 15, 16)), chunk(choice("", "stop"))],
     True, None, [("text.cumulative", "f")]),
    ("text as a list", [chunk(choice(["a"])), *TEXT], True, None, [("text.not-a-string", "f")]),
    ("an error", [TEXT[0], {"error": ERROR}], False, None, [("error.in-stream", "f")]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("payloads", "done", "asked", "want"), [row[1:] for row in FAULTS], ids=[row[0] for row in FAULTS]
)
def test_one_fault_one_finding(
    payloads: list[Any], done: bool, asked: Asked | None, want: list[tuple[str, str]]
) -> None:  # fmt: skip
    assert told(*payloads, done=done, asked=asked) == want


def test_a_stop_string_in_the_text_is_shown_where_it_is_complete() -> None:
    pieces = ["one two th", "re", "e four", " three"]
    body = stream(*(chunk(choice(piece)) for piece in pieces), chunk(choice("", "stop")))
    for cut in (body, body.replace(b"\n", b"\r\n")):
        seen = facts(cut, asked=Asked(stop=("never", "three")))
        note = seen.notes["stop.text-included"]
        assert b"e four" in cut[note.at : note.at + note.length]
        assert b'"re"' not in cut[note.at : note.at + note.length]


def test_the_sentence_names_the_object_of_this_dialect() -> None:
    (finding,) = lint(facts(stream(*({**payload, "object": "x"} for payload in TEXT))))
    assert "text_completion" in finding.message
    assert "chat" not in finding.message


def test_differences() -> None:
    ours = facts(stream(*TEXT, COUNTED))
    rows = [
        (stream(*TEXT, COUNTED, done=False), [("end.marker-missing", "f")]),
        (stream(*TEXT), [("usage.missing", "n")]),
        (stream(*TEXT[:2], {**TEXT[2], "usage": TOKENS}), [("usage.position", "n")]),
        (stream(chunk(choice("")), *TEXT, COUNTED), [("chunk.first-content", "c")]),
        (stream(*TEXT[:2], chunk(choice("", "length")), COUNTED), []),
    ]
    for body, want in rows:
        assert [(finding.rule, finding.severity[0]) for finding in compare([ours], facts(body)).findings] == want


# -- what must not show -------------------------------------------------------------------------------------------


def _text(payload: dict[str, Any]) -> str | None:
    """The text of a chunk that goes on."""
    choices = payload.get("choices")
    only = choices[0] if isinstance(choices, list) and len(choices) == 1 else None
    goes_on = isinstance(only, dict) and not only.get("finish_reason") and not payload.get("error")
    return only["text"] if goes_on and only is not None and isinstance(only.get("text"), str) else None


def _with(payload: dict[str, Any], text: str) -> dict[str, Any]:
    return {**payload, "choices": [{**payload["choices"][0], "text": text}]}


def split(body: bytes) -> bytes:
    """Each piece of text in two; not the one beside the finish reason."""

    def change(chunk: Chunk) -> list[dict[str, Any]] | None:
        text = _text(chunk.payload)
        if text is None or len(text) < 2:
            return None
        return [_with(chunk.payload, half) for half in (text[: len(text) // 2], text[len(text) // 2 :])]

    return rewrite(body, change)


def merge(body: bytes) -> bytes:
    """Neighbouring pieces of one choice in one, in pairs; four chunks stay, or usage.repeated is undecided."""
    found = [piece for piece in chunks(body) if _text(piece.payload)]
    joined: dict[int, str] = {}
    dropped: set[int] = set()
    for one, other in zip(found[4::2], found[5::2], strict=False):
        alike = one.payload["choices"][0].get("index") == other.payload["choices"][0].get("index")
        if alike and not body[one.at + one.length : other.at].strip(b"\r\n"):
            joined[one.at] = (_text(one.payload) or "") + (_text(other.payload) or "")
            dropped.add(other.at)

    def change(chunk: Chunk) -> list[dict[str, Any]] | None:
        if chunk.at in dropped:
            return []
        return [_with(chunk.payload, joined[chunk.at])] if chunk.at in joined else None

    return rewrite(body, change)


def letters(body: bytes) -> bytes:
    """Every letter of the text a `q`."""

    def change(chunk: Chunk) -> list[dict[str, Any]]:
        payload = copy.deepcopy(chunk.payload)
        for entry in payload.get("choices") or []:
            if isinstance(entry, dict) and isinstance(entry.get("text"), str):
                entry["text"] = re.sub(r"[^\W\d_]", "q", entry["text"])
        return [payload]

    return rewrite(body, change)


REWRITES: dict[str, Callable[[bytes], bytes]] = {
    "split": split, "merge": merge, "rename": rewrites.rename, "shift": rewrites.shift, "letters": letters,
}  # fmt: skip


def _streams() -> dict[str, bytes]:
    """Every stream there is, by name: fixtures, and the corpora where they are."""
    found = {"documented": stream(*TEXT, COUNTED)}
    for path in sorted(FIXTURES.glob("*/*.sse")):
        sidecar = path.with_suffix(".json")
        if sidecar.exists() and json.loads(sidecar.read_bytes()).get("dialect") == "completions":
            found[f"{path.parent.name}/{path.stem}"] = path.read_bytes()
    for pattern in ("corpus-local/*/completions/*.sse", "corpus/openai-completions/**/*.sse"):
        found |= {str(path.relative_to(SHARED)): path.read_bytes() for path in sorted(SHARED.glob(pattern))}
    return found


STREAMS = _streams()


@pytest.mark.parametrize("name", REWRITES)
def test_structure_of_every_stream_is_the_same_after(name: str) -> None:
    wrong, rewritten = {}, 0
    for title, body in STREAMS.items():
        other = REWRITES[name](body)
        rewritten += other != body
        ours, theirs = (dict(line.split(" = ", 1) for line in lines(facts(it).wire, "wire")) for it in (body, other))
        undecided = ours.get("wire.usage.repeated") == "undecided"
        allowed = {"wire.usage.repeated", "wire.notes.usage.repeated"} if undecided else set[str]()
        differ = {path for path in {*ours, *theirs} - allowed if ours.get(path) != theirs.get(path)}
        if differ:
            wrong[title] = {path: (ours.get(path), theirs.get(path)) for path in sorted(differ)}
    assert wrong == {}
    assert rewritten > len(STREAMS) / 2


def test_whatever_a_member_holds_a_stream_conforms_to_itself() -> None:
    """Every member once removed, and once of every other type."""
    payloads = [chunk(choice("a", logprobs=LOGPROBS)), chunk(choice("b", "stop")), COUNTED]
    for place in range(len(list(places(payloads)))):
        for how in range(-1, len(RETYPED)):
            bent = copy.deepcopy(payloads)
            node, key = next(islice(places(bent), place, None))
            if how < 0:
                del node[key]
            else:
                node[key] = RETYPED[how](node[key])
            found = facts(b"".join(map(event, bent)) + DONE)
            assert compare([found], found).findings == []
