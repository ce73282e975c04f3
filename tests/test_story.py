"""A cutover as a team lives through it: a candidate that differs, what is accepted, fixed and forgotten; and mishaps.

Real sockets and the command line. The baseline's four streams are made up (harness.testing.clean_stream), and so are
the candidate's, each with one fault put in by hand.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from commandline import Done, harness
from reading import CANONICAL, ROOT
from servers import Answer, Scripted, answer, chunked, json_answer

from harness.config import load_project
from harness.providers import Acceptance
from harness.testing import clean_stream

TODAY = datetime.now(UTC).date()
YESTERDAY, TOMORROW = TODAY - timedelta(days=1), TODAY + timedelta(days=1)
USAGE = {"input_tokens": 9, "output_tokens": 4}
CALL = {"id": "call_1", "name": "get_weather", "arguments": '{"city": "Paris", "unit": "celsius"}'}
FAILURE = {"type": "server_error", "code": 500, "message": "full"}
SAYS: dict[str, dict[str, Any]] = {
    "text": {"text": "Good morning from the pier.", "usage": USAGE},
    "tool-call": {"tool_calls": [CALL], "usage": USAGE},
    "stop": {"text": "one two three ", "usage": USAGE},
    "error": {"text": "Good mo", "terminal": "error", "error": FAILURE},
}
OLD = {shape: clean_stream("chat", says, well_ended=shape != "error") for shape, says in SAYS.items()}


def bent(shape: str, old: bytes, new: bytes) -> bytes:
    """A stream of the baseline with one thing put otherwise."""
    assert old in OLD[shape]
    return OLD[shape].replace(old, new)


# What the candidate does: keep-alive comments (cosmetic), the empty-string trap (negotiable), no end marker (fatal).
COSMETIC = {"text": b": keep-alive\n\n" + OLD["text"]}
NEGOTIABLE = {"tool-call": bent("tool-call", b'{"index":0,"function":{"arguments":"',
                                b'{"index":0,"id":"","function":{"arguments":"')}  # fmt: skip
FATAL = {"stop": bent("stop", b"data: [DONE]\n\n", b"")}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the old provider's fixtures, bare as curl leaves them; the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fixtures" / "old").mkdir(parents=True)
    for shape, body in OLD.items():
        (tmp_path / "fixtures" / "old" / f"{shape}.sse").write_bytes(body)
    return tmp_path


def configure(url: str) -> None:
    """providers.yaml as a team writes it; what it has accepted before stays."""
    path = Path("providers.yaml")
    entry: dict[str, Any] = {"dialect": "chat", "model": "tiny", "auth": "none", "base_url": url,
                             "timeouts": {"connect": 2, "first_event": 5, "idle": 0.4, "total": 20}}  # fmt: skip
    if path.is_file():
        was = yaml.safe_load(path.read_text("utf-8"))["providers"]["new"]
        entry |= {"accept": was["accept"]} if "accept" in was else {}
    path.write_text(yaml.safe_dump({"providers": {"new": entry}}, sort_keys=False), "utf-8")


def gate(answers: Mapping[str, Answer], *arguments: object) -> Done:
    """Gate a candidate that gives these answers, and the baseline's own to every other shape."""
    script = [answers.get(shape) or answer(OLD[shape]) for shape in CANONICAL]
    with Scripted(*script) as server:
        configure(server.url)
        done = harness("gate", "old", "new", "--json", "--report", "report.json", *arguments)
        assert len(server.requests) == len(CANONICAL)
    return done


def streams(*faults: Mapping[str, bytes]) -> dict[str, Answer]:
    """A candidate with these faults."""
    return {shape: answer(body) for fault in faults for shape, body in fault.items()}


def findings(done: Done) -> list[tuple[str, str, str, bool]]:
    """Shape, rule, severity of each finding, and whether it is accepted."""
    return [
        (shape["shape"], found["rule"], found["severity"], found["accepted"] is not None)
        for shape in done.one["shapes"]
        for found in shape["findings"]
    ]


def states(done: Done) -> list[tuple[str, str]]:
    return [(use["rule"], use["state"]) for use in done.one["acceptances"]]


def test_a_cutover(project: Path) -> None:
    # A first look: three differences, one of each kind, and no green light.
    first = gate(streams(COSMETIC, NEGOTIABLE, FATAL))
    assert first.failed(1).startswith("harness: old -> new: tool-call differs (tool.id-on-continuation); stop differs ")
    assert findings(first) == [
        ("text", "sse.comments", "cosmetic", False),
        ("tool-call", "tool.id-on-continuation", "negotiable", False),
        ("stop", "end.marker-missing", "fatal", False),
    ]

    # The team can live with the negotiable one, for now. A fatal one is accepted only on purpose and for a time.
    accept = ("accept", "report.json", "--reason", "our accumulator keeps the first id", "--write")
    assert "end.marker-missing: fatal, so accepted by name only" in harness(*accept).failed(2)
    assert "end.marker-missing: fatal" in harness(*accept, "--rule", "*").failed(2)
    named = harness(*accept, "--rule", "end.marker-missing").failed(2)
    assert "a fatal finding is accepted for a time only" in named
    assert harness(*accept, "--rule", "tool.id-on-continuation", "--until", TOMORROW).code == 0
    second = gate(streams(COSMETIC, NEGOTIABLE, FATAL))
    assert second.failed(1).startswith("harness: old -> new: stop differs (end.marker-missing)")
    assert [found[3] for found in findings(second)] == [False, True, False]
    assert states(second) == [("tool.id-on-continuation", "used")]

    # The vendor sends the marker: go.
    third = gate(streams(COSMETIC, NEGOTIABLE))
    assert (third.code, third.err, third.one["outcome"]) == (0, "", "conforms")
    assert [found[:2] for found in findings(third)] == [
        ("text", "sse.comments"), ("tool-call", "tool.id-on-continuation"),
    ]  # fmt: skip

    # The vendor mends the ids as well: what was accepted no longer occurs, and an acceptance nobody needs must go.
    fourth = gate(streams(COSMETIC))
    assert "acceptance of tool.id-on-continuation is stale" in fourth.failed(1)
    assert (fourth.one["outcome"], states(fourth)) == ("differs", [("tool.id-on-continuation", "stale")])
    one_shape = gate_one("text")
    assert (one_shape.code, states(one_shape)) == (0, []), "one shape alone does not say so"

    # It was back the next day, and nobody had decided anew by the date that was set.
    text = Path("providers.yaml").read_text("utf-8")
    Path("providers.yaml").write_text(text.replace(str(TOMORROW), str(YESTERDAY)), "utf-8")
    fifth = gate(streams(NEGOTIABLE))
    line = fifth.failed(1)
    assert "tool-call differs (tool.id-on-continuation); acceptance of tool.id-on-continuation is expired" in line
    assert states(fifth) == [("tool.id-on-continuation", "expired")]
    (found,) = fifth.one["shapes"][1]["findings"]
    assert found["message"].endswith(f" (acceptance expired, its last day was {YESTERDAY})")
    place = "providers.yaml: providers.new.accept[0]"
    assert fifth.one["acceptances"][0]["place"] == place
    told = f"expired tool.id-on-continuation (tool-call): {place}: its last day was {YESTERDAY}; give a later until, or"
    assert told in text_of("text")


def gate_one(shape: str) -> Done:
    with Scripted(answer(OLD[shape])) as server:
        configure(server.url)
        return harness("gate", "old", "new", "--json", "--shape", shape)


def text_of(shape: str) -> str:
    with Scripted(answer(OLD[shape])) as server:
        configure(server.url)
        return harness("gate", "old", "new", "--shape", shape).out


def test_a_fatal_finding_that_is_accepted_heads_the_report_until_its_day(project: Path) -> None:
    gate(streams(FATAL))
    accept = ("accept", "report.json", "--rule", "end.marker-missing", "--reason", "ends at the reason", "--write")
    assert harness(*accept, "--until", TODAY).code == 0
    done = gate(streams(FATAL))
    assert (done.code, findings(done)) == (0, [("stop", "end.marker-missing", "fatal", True)])
    with Scripted(*(answer({**OLD, **FATAL}[shape]) for shape in CANONICAL)) as server:
        configure(server.url)
        lines = harness("gate", "old", "new").out.splitlines()
    assert lines[:2] == ["old -> new: CONFORMS",
                         f"  ACCEPTED FATAL end.marker-missing in stop until {TODAY}: ends at the reason"]  # fmt: skip


HTTP_429 = json_answer(429, {"error": {"message": "slow down", "type": "rate_limit_error"}}, retry_after="0")
NO_TOOLS = json_answer(400, {"error": {"message": "tools: unknown field", "type": "invalid_request_error"}})
NO_STREAM = json_answer(200, {"object": "chat.completion", "choices": [{"index": 0, "message": {"content": "Hello."}}]})
MISHAPS: dict[str, tuple[dict[str, Answer], int, str]] = {
    "answered without the tool": ({"tool-call": answer(OLD["text"])}, 3,
                                  "tool-call not measured (answered without calling the tool)"),
    "`tools` rejected": ({"tool-call": NO_TOOLS}, 1, "tool-call differs (http.rejected)"),
    "JSON instead of a stream": ({"text": NO_STREAM}, 1, "text differs (stream.not-a-stream"),
    "stalls in mid-answer": ({"text": chunked(OLD["text"][:600], 30.0)}, 1, "text differs (stream.stalled)"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISHAPS)
def test_a_mishap(project: Path, name: str) -> None:
    answers, code, says = MISHAPS[name]
    done = gate(answers)
    assert says in done.failed(code)
    outcomes = [shape["outcome"] for shape in done.one["shapes"]]
    assert outcomes.count("conforms") == len(CANONICAL) - 1, "the other shapes are judged all the same"
    assert done.one["outcome"] == {1: "differs", 3: "not-measured"}[code]


def test_too_many_requests_throughout(project: Path) -> None:
    with Scripted(HTTP_429) as server:
        configure(server.url)
        done = harness("gate", "old", "new", "--json")
        assert len(server.requests) > len(CANONICAL), "it is tried again, but not for ever"
    assert "text, tool-call, stop, error not measured (HTTP 429)" in done.failed(3)
    assert done.one["outcome"] == "not-measured"
    assert findings(done) == []


def test_what_is_not_measured_does_not_hide_what_differs(project: Path) -> None:
    done = gate({"text": answer(OLD["tool-call"]), **streams(FATAL)})
    line = done.failed(1)
    assert "text not measured (called a tool)" in line
    assert "stop differs (end.marker-missing)" in line


def test_a_second_attempt_measures_what_the_first_did_not(project: Path) -> None:
    script = [answer(OLD["tool-call"]), answer(OLD["text"]), *(answer(OLD[shape]) for shape in CANONICAL[1:])]
    with Scripted(*script) as server:
        configure(server.url)
        assert harness("gate", "old", "new", "--attempts", 2).code == 0
        assert len(server.requests) == len(CANONICAL) + 1


# -- docs/policy.md -----------------------------------------------------------------------------------------------

POLICY = (ROOT / "docs" / "policy.md").read_text("utf-8")
FAULTS = {"cosmetic": COSMETIC, "negotiable": NEGOTIABLE, "fatal": FATAL}


def test_the_story_in_the_docs_is_what_happens(project: Path) -> None:
    """Each console block, run against a candidate with the faults that the comment above it names."""
    blocks = re.findall(r"<!-- candidate: (.*?) -->\n```console\n(.*?)```", POLICY, re.DOTALL)
    assert len(blocks) == POLICY.count("```console")
    for told, block in blocks:
        faults, _, day = told.partition("; ")
        if day:
            text = Path("providers.yaml").read_text("utf-8")
            Path("providers.yaml").write_text(text.replace(str(TOMORROW), str(YESTERDAY)), "utf-8")
        bodies = {**OLD, **{shape: body for name in faults.split() for shape, body in FAULTS[name].items()}}
        code = 0
        for part in block.replace("2027-06-30", str(TOMORROW)).split("$ ")[1:]:
            command, *expected = part.split("\n")
            if command == "echo $?":
                assert expected == [str(code), ""]
                continue
            with Scripted(*(answer(bodies[shape]) for shape in CANONICAL)) as server:
                configure(server.url)
                done = harness(*shlex.split(command)[1:])
            code = done.code
            assert matches((done.out + done.err).split("\n"), expected), f"$ {command}\n{done.out}{done.err}"


def matches(lines: list[str], expected: list[str]) -> bool:
    """Whether the lines are as expected: `...` alone stands for any lines, and at the end of a line for its rest."""
    if not expected:
        return not lines
    first, *rest = expected
    if first.strip() == "...":
        return any(matches(lines[skipped:], rest) for skipped in range(len(lines) + 1))
    if not lines or not (lines[0] == first or (first.endswith("...") and lines[0].startswith(first[:-3]))):
        return False
    return matches(lines[1:], rest)


def test_the_entries_in_the_docs_are_valid_and_every_key_is_explained(project: Path) -> None:
    (example,) = re.findall("```yaml\n(.*?)```", POLICY, re.DOTALL)
    Path("providers.yaml").write_text(example, "utf-8")
    accept = load_project(Path("providers.yaml"), project).provider("candidate").accept
    assert [entry.rule for entry in accept] == ["usage.position", "tool.*", "end.marker-missing"]
    explained = re.findall(r"^\| `([a-z]+)` \|", POLICY, re.MULTILINE)
    assert sorted(explained) == sorted(field.name for field in fields(Acceptance) if field.name != "place")
