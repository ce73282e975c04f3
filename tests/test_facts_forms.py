"""Chunks whose form was seen before: skipping their facts gives the structure that looking at all of them gives."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import FIXTURES, QUIRKS
from strategies import ASKED, PROFILE, SCRIPTS, bodies, stream

from harness.asked import Asked
from harness.errors import UsageError
from harness.facts.chat import ChatFacts
from harness.facts.forms import MOST
from harness.jsontext import to_json
from harness.recording import Recording
from harness.reduce import Reducer
from harness.store import load

CORPUS = Path(os.environ.get("HARNESS_CORPUS", "/nowhere"))


class LongWay(ChatFacts):
    """Every chunk's facts are looked at: forms are for ChatFacts itself."""


def facts_of(facts: ChatFacts, body: bytes, asked: Asked | None) -> tuple[str, dict[Any, Any], dict[Any, Any], Any]:
    """All that facts hold at the end."""
    facts.expect(asked)
    reducer = Reducer("chat", facts)
    reducer.feed(body)
    reducer.finish()
    facts.close(reducer, reducer.message(), Recording(body=body, end="eof"), asked)
    choices = [
        (number, choice.deltas, choice.roles[:2], choice.unset_roles, choice.finish, choice.last_text, choice.growing,
         choice.wires, [{**call, "name": str(call["name"])} for call in choice.calls.values()])
        for number, choice in facts.choices.items()
    ]  # fmt: skip
    return to_json(facts.tree), facts.where, facts.notes, (
        facts.grades, choices, facts.chunks, facts.objects, facts.usage_null, facts.payloads, facts.named,
        facts.last_at, facts.first_end, facts.stops and facts.stops.place,
    )  # fmt: skip


def same(body: bytes, asked: Asked | None = None) -> ChatFacts:
    short = ChatFacts()
    assert facts_of(short, body, asked) == facts_of(LongWay(), body, asked)
    return short


def stuttered(body: bytes, times: int) -> bytes:
    """Each block several times over, so that forms come again; the blocks at the end once."""
    blocks = body.replace(b"\r\n", b"\n").split(b"\n\n")
    return b"\n\n".join([block for block in blocks[:-2] for _ in range(times)] + blocks[-2:])


def chat_bodies() -> list[Path]:
    found = sorted([*QUIRKS.glob("*.sse"), *FIXTURES.glob("*/*.sse"), *CORPUS.glob("**/*.sse")])
    return [path for path in found if _dialect(path) == "chat"]


def _dialect(path: Path) -> str | None:
    try:
        return load(path).recording.dialect or ("chat" if b"chat.completion" in path.read_bytes() else None)
    except UsageError:
        return None


def test_recorded_streams_and_quirks() -> None:
    bodies = [path.read_bytes() for path in chat_bodies()]
    assert len(bodies) > 50
    known = 0
    for body in bodies:
        for asked in ASKED[2:4]:
            same(body, asked)
        for times in (2, 5):
            known += len(same(stuttered(body, times)).forms or ())
    assert known > 50  # the short way was taken at all


@PROFILE
@given(body=bodies(), times=st.integers(1, 4), asked=st.sampled_from(ASKED))
def test_whatever_a_server_sends(body: bytes, times: int, asked: Asked | None) -> None:
    same(stuttered(body, times), asked)


@PROFILE
@given(data=st.data())
def test_chunks_of_several_streams_mixed(data: st.DataObject) -> None:
    """Payloads of the scripts in any order, again and again: choices, calls and forms take turns."""
    payloads = [payload for name in sorted(SCRIPTS) for payload in SCRIPTS[name]]
    few = data.draw(st.lists(st.sampled_from(payloads), min_size=1, max_size=6))
    same(stream(*data.draw(st.lists(st.sampled_from(few), max_size=30))))


def chunk(delta: Any, number: Any = 0, **more: Any) -> dict[str, Any]:
    head = {"id": "c", "object": "chat.completion.chunk", "model": "m"}
    return {**head, "choices": [{"index": number, "delta": delta, "finish_reason": None}], **more}


def test_forms_are_each_choices_own() -> None:
    """A role again in one choice says nothing of another, though both chunks look alike."""
    role, text = {"role": "assistant", "content": "a"}, {"content": "b"}
    deltas = (role, text, text, role)
    found = same(stream(*[chunk(delta, 0) for delta in deltas], *[chunk(delta, 1) for delta in deltas]))
    assert [len(choice.roles) for choice in found.choices.values()] == [2, 2]


def test_forms_are_of_what_was_seen_before() -> None:
    """An empty role is noted once there was another, text once there was a finish."""
    empty, role = {"role": "", "content": "a"}, {"role": "assistant", "content": "b"}
    assert "role.null" in same(stream(*[chunk(delta) for delta in (empty, empty, empty, empty, role, empty)])).notes
    texts = [chunk({"content": text}) for text in ("a", "b", "c", "d")]
    finish = chunk({})
    finish["choices"][0]["finish_reason"] = "stop"
    assert "finish.content-after" in same(stream(*texts, finish, texts[0])).notes


@pytest.mark.parametrize("value", [None, "", 0, False, True, 1, 1.0, [], [1], {}, {"a": 1}, "x"])
@pytest.mark.parametrize("member", ["id", "model", "object", "created", "usage", "x_groq", "choices"])
def test_odd_members_between_regular_chunks(member: str, value: Any) -> None:
    texts = [chunk({"content": text}) for text in ("one", "two", "three", "four")]
    odd = [{**texts[0], member: value} for _ in range(3)]
    absent = {name: inner for name, inner in texts[0].items() if name != member}
    same(stream(*texts, *odd, *texts, absent, absent, *odd, *texts))


def test_a_stream_with_another_id_in_each_chunk_keeps_no_forms() -> None:
    found = same(stream(*[chunk({"content": f"word {number}"}, id=str(number)) for number in range(MOST + 20)]))
    assert found.forms is None


def test_text_that_needs_a_look_gets_one() -> None:
    """Half a character, a stop string and a text that grows are in the text itself."""
    texts = ["a", "b", "c", "\ud83d", "\ude00", "st", "op", "d"]
    body = stream(*[chunk({"content": text}) for text in texts])
    found = same(body, Asked(stop=("stop",)))
    assert "text.split-surrogate" in found.notes
    assert found.stops is not None
    assert found.stops.place is not None
    growing = [chunk({"content": "abcdefghijklmnop"[: 2 * number]}) for number in range(1, 9)]
    assert "text.cumulative" in same(stream(*growing)).notes
