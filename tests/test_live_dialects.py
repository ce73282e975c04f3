"""One real llama.cpp server, asked in the four dialects it speaks: the same answers, and what each dialect does wrong.

The expected findings were read from the bytes of recordings of the server, before they were compared with anything.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from commandline import Done, harness
from llamacpp import llamacpp
from reading import ROOT

from harness.compare import compare
from harness.conventions import CONVENTIONS
from harness.endpoint import Endpoint
from harness.recorder import record
from harness.shapes import asked_of
from harness.structure import Structure, structure

pytestmark = pytest.mark.live

BASELINE = "llamacpp"
# The context overflows only while both endless answers run: on a busy machine one may end before the other begins.
ATTEMPTS = 3
SHAPES = {
    BASELINE: "text tool-call stop error parallel-tools reasoning structured multi-turn logprobs",
    "llamacpp-responses": "text tool-call error parallel-tools reasoning structured multi-turn",
    "llamacpp-anthropic": "text tool-call stop error parallel-tools reasoning structured multi-turn",
    "llamacpp-completions": "text stop error logprobs",
}
DIALECTS = {
    BASELINE: "chat", "llamacpp-responses": "responses", "llamacpp-anthropic": "anthropic",
    "llamacpp-completions": "completions",
}  # fmt: skip

# What a cutover from chat to each other dialect of the same server must be told: for each shape the exact findings, as
# (rule, severity). Where the baseline is right, a candidate's own faults count in full. A shape that is not here is
# skipped: the dialect, or llama.cpp in it, has no such thing.

# No event of Responses has a sequence_number or an output_index:
#   {"type":"response.output_text.delta","item_id":"msg_...","delta":"Hel"}
UNNUMBERED = [("responses.index-missing", "fatal"), ("responses.sequence-missing", "negotiable")]
# A call starts without its input:
#   {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"...","name":"get_weather"}}
NO_INPUT = [("anthropic.input-missing", "negotiable")]
# Block 1 starts while block 0 is open; both stop at the end:
#   ... {"type":"content_block_stop","index":0}, {"type":"content_block_stop","index":1}, message_delta
OVERLAP = [("anthropic.blocks-overlap", "negotiable")]
# Usage stands in the chunk with the reason, where Completions documents an extra chunk with "choices":[], as chat does:
#   {"choices":[{"text":"","index":0,"logprobs":null,"finish_reason":"stop"}], ... "usage":{"completion_tokens":53, ...
EARLY_USAGE = [("usage.position", "negotiable")]

EXPECTED: dict[str, dict[str, list[tuple[str, str]]]] = {
    "llamacpp-responses": {
        "text": UNNUMBERED,
        # after the last response.function_call_arguments.delta comes output_item.done: no ...arguments.done
        "tool-call": [*UNNUMBERED, ("responses.arguments-not-done", "negotiable")],
        # half an answer, then {"error":{"code":500,"message":"Context size has been exceeded.", ...}}: as the baseline
        "error": [],
        # two output_item.added, the arguments of both, then two output_item.done
        "parallel-tools": [
            *UNNUMBERED, ("responses.arguments-not-done", "negotiable"), ("responses.close-order", "cosmetic"),
        ],
        # response.reasoning_text.delta comes right after output_item.added, without content_part.added, and there is no
        # reasoning_text.done; the message is added before the reasoning item is done
        "reasoning": [
            *UNNUMBERED, ("responses.part-not-added", "fatal"), ("responses.text-not-done", "negotiable"),
            ("responses.close-order", "cosmetic"),
        ],
        "structured": UNNUMBERED,
        "multi-turn": UNNUMBERED,
    },
    "llamacpp-anthropic": {
        "text": [],
        "tool-call": NO_INPUT,
        # "delta":{"stop_reason":"end_turn","stop_sequence":"scripted"} in message_delta: hit, but not the reason
        "stop": [("anthropic.stop-sequence-reason", "negotiable")],
        # event: error / {"code":500,"message":"Context size has been exceeded.", ...}: told too, in another envelope
        "error": [],
        "parallel-tools": [*NO_INPUT, *OVERLAP],
        # the thinking block gets its (empty) signature after the text block was read to its end
        "reasoning": OVERLAP,
        "structured": [],
        "multi-turn": [],
    },
    "llamacpp-completions": {
        "text": EARLY_USAGE,
        "stop": EARLY_USAGE,
        "error": [],
        # "logprobs":{"content":[{"id":373,"token":"Hel", ...: chat's form, not tokens and token_logprobs
        "logprobs": [*EARLY_USAGE, ("completions.logprobs-form", "negotiable")],
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Its two slots share one context: two endless answers overflow it, which is the shape `error`."""
    with llamacpp("--ctx", "512", "--unified-kv") as url:
        yield f"{url}/v1"


@pytest.fixture(scope="module")
def project(server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with this repository's providers.yaml, the server recorded in its four dialects."""
    folder = tmp_path_factory.mktemp("dialects")
    (folder / "providers.yaml").write_bytes((ROOT / "providers.yaml").read_bytes())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LLAMACPP_URL", server)
        for provider, shapes in SHAPES.items():
            options = [part for shape in shapes.split() for part in ("--shape", shape)]
            for _ in range(ATTEMPTS):
                done = harness("record", provider, *options, "--config", folder / "providers.yaml")
                if done.code == 0:
                    break
            assert (done.code, done.err) == (0, "")
        yield folder


def gate(project: Path, baseline: str, candidate: str) -> Done:
    config = project / "providers.yaml"
    return harness("gate", baseline, candidate, "--json", "--attempts", ATTEMPTS, "--config", config)


def found(report: Mapping[str, Any]) -> dict[str, list[tuple[str, str]]]:
    return {
        shape["shape"]: sorted((finding["rule"], finding["severity"]) for finding in shape["findings"])
        for shape in report["shapes"] if shape["outcome"] != "skipped"
    }  # fmt: skip


def calls(message: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(call["name"], json.loads(call["arguments"])) for call in message["tool_calls"]]


@pytest.mark.parametrize("shape", SHAPES[BASELINE].split())
def test_one_script_reads_alike_in_every_dialect(project: Path, shape: str) -> None:
    """Text, thinking and calls to the letter, whatever carries them; but for ids, which each request has of its own."""
    said = {
        provider: harness("show", project / "fixtures" / provider / f"{shape}.sse", "--json").one
        for provider, shapes in SHAPES.items() if shape in shapes.split()
    }  # fmt: skip
    ours = said.pop(BASELINE)
    if shape == "error":
        for message in (ours, *said.values()):
            assert message["error"]["message"] == "Context size has been exceeded."
            assert message["text"].startswith("tick tock tick tock ")
        return
    assert ours["text"] or ours["tool_calls"]
    for provider, theirs in said.items():
        assert calls(theirs) == calls(ours)
        assert all(call["id"] for call in theirs["tool_calls"])
        for member in ("text", "reasoning", "refusal", "finish_reason", "terminal"):
            assert theirs[member] == ours[member], f"{provider}: {member}"
        assert theirs["usage"]["output_tokens"] == ours["usage"]["output_tokens"]


@pytest.mark.parametrize("candidate", EXPECTED)
def test_a_cutover_to_another_dialect_is_told_its_faults(project: Path, candidate: str) -> None:
    done = gate(project, BASELINE, candidate)
    report = done.one
    assert found(report) == {shape: sorted(rows) for shape, rows in EXPECTED[candidate].items()}
    skipped = {shape["shape"] for shape in report["shapes"] if shape["outcome"] == "skipped"}
    assert skipped == {*SHAPES[BASELINE].split()} - EXPECTED[candidate].keys()
    assert done.code == 1
    for shape in report["shapes"]:
        if shape["outcome"] != "skipped":
            assert shape["remarks"][-1].startswith(f"not comparable between chat and {DIALECTS[candidate]}: ")
            assert shape["shared"] == (["error.in-stream"] if shape["shape"] == "error" else [])
            for finding in shape["findings"]:
                assert finding["evidence"][-1]["length"] > 0


@pytest.mark.parametrize("baseline", EXPECTED)
def test_the_way_back_is_free(project: Path, baseline: str) -> None:
    """Chat has what each other dialect has, and faults of the baseline are none of the candidate's."""
    done = gate(project, baseline, BASELINE)
    assert (done.code, done.err) == (0, "")
    rows = {row for rows in found(done.one).values() for row in rows}
    assert rows <= {("reasoning.field-extension", "cosmetic")}


@pytest.mark.parametrize("dialect", EXPECTED)
def test_each_dialect_conforms_to_itself(project: Path, dialect: str) -> None:
    done = gate(project, dialect, dialect)
    assert (done.code, done.err) == (0, "")
    assert {*map(tuple, found(done.one).values())} == {()}


# The same request in each dialect, cut after 8 tokens.
HI = [{"role": "user", "content": "hi"}]
CUT = {
    "chat": {"messages": HI, "stream_options": {"include_usage": True}, "max_tokens": 8},
    "responses": {"input": "hi", "max_output_tokens": 8},
    "anthropic": {"messages": HI, "max_tokens": 8},
    "completions": {"prompt": "<|user|>hi<|end|>\n<|assistant|><|s:text|>", "max_tokens": 8},
}  # fmt: skip


def cut_answer(server: str, dialect: str) -> Structure:
    body = {"model": "tiny", "stream": True, **CUT[dialect]}
    url = server + CONVENTIONS[dialect].path
    headers = {"content-type": "application/json"}
    recording = record(Endpoint(url=url, headers=headers, body=json.dumps(body).encode(), dialect=dialect))
    return structure(recording, dialect, asked_of(dialect, body))


def test_an_answer_that_was_cut_is_told_where_its_dialect_hides_it(server: str) -> None:
    """Responses: `response.completed`, status completed, and 8 output tokens of a longer text."""
    baseline = cut_answer(server, "chat")
    assert baseline.get("finish.value") == {"length": True}
    told = {}
    for dialect in ("responses", "anthropic", "completions"):
        candidate = cut_answer(server, dialect)
        assert candidate.get("limit.reached") is True
        told[dialect] = {finding.rule for finding in compare([baseline], candidate).findings}
    assert "finish.length-hidden" in told["responses"]
    assert not {"finish.length-hidden", "finish.differs"} & (told["anthropic"] | told["completions"])
