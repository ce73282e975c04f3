"""The envelope: several takes of a baseline hold sets of values, several samples of a candidate are each compared."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml
from commandline import Done, harness
from reading import FIXTURES
from servers import Scripted, answer, chunked, json_answer
from strategies import CALLED, COUNTED, ERROR, ROLE, SCRIPTS, STOP, TEXT, call, calls, chunk, stream

from harness.asked import Asked
from harness.compare import Comparison, compare
from harness.findings import Severity
from harness.recording import Recording
from harness.replay import Replay
from harness.store import load
from harness.structure import Structure, structure

# -- sets of values -----------------------------------------------------------------------------------------------


def of(body: bytes, asked: Asked | None = None, **more: Any) -> Structure:
    return structure(Recording(**{"body": body, "status": 200, "end": "eof", **more}), "chat", asked)


def told(found: Comparison) -> dict[str, str]:
    assert found.not_measured == ""
    return {finding.rule: finding.severity[0] for finding in found.findings}


CLEAN = stream(*TEXT, COUNTED)
ON_FINISH = stream(*TEXT[:-1], {**STOP, "usage": COUNTED["usage"]})
FAILED = stream(*TEXT[:2], {"error": ERROR}, done=False)
FAILED_NAMED = FAILED.replace(b'data: {"error"', b'event: error\ndata: {"error"')
assert FAILED_NAMED != FAILED


def test_a_value_that_any_take_has_is_no_difference() -> None:
    assert told(compare([of(CLEAN)], of(ON_FINISH))) == {"usage.position": "n"}
    assert told(compare([of(CLEAN), of(ON_FINISH)], of(ON_FINISH))) == {}
    assert told(compare([of(CLEAN), of(CLEAN), of(ON_FINISH)], of(ON_FINISH))) == {}


def test_a_third_value_is_a_difference_from_the_first_take() -> None:
    third = stream(*TEXT, {**COUNTED, "choices": [{"index": 0, "delta": {}, "finish_reason": None}]})
    found = compare([of(CLEAN), of(ON_FINISH)], of(third))
    assert told(found) == {"usage.position": "n"}
    (finding,) = found.findings
    assert (finding.baseline, finding.candidate) == (["extra:empty"], ["extra:choice"])
    assert finding.evidence[0].take == 1


def test_a_note_that_any_take_has_is_no_difference_and_is_shared() -> None:
    twice = stream(ROLE, chunk({"role": "assistant", "content": "a"}), STOP, COUNTED)
    assert told(compare([of(CLEAN)], of(twice))) == {"role.repeated": "n"}
    found = compare([of(CLEAN), of(twice)], of(twice))
    assert (told(found), found.shared) == ({}, ["role.repeated"])


def test_every_joined_take_conforms_to_its_envelope() -> None:
    """Whatever a good stream is like: an envelope that holds it excuses all but what is fatal."""
    streams = {name: of(stream(*script)) for name, script in SCRIPTS.items() if "error" not in name}
    good = {name: one for name, one in streams.items() if one.get("result") == "ok"}
    compared = 0
    for one, other in combinations(list(good.values())[::6], 2):
        alone = compare([one], other)
        within = compare([one, other], other)
        if any(finding.severity is Severity.FATAL for finding in alone.findings):
            continue
        compared += 1
        assert within.findings == []
    assert compared > 10


def test_a_take_that_was_cut_widens_nothing() -> None:
    cut = CLEAN[: CLEAN.index(b'"usage"')].rpartition(b"data: ")[0]
    cut = cut.rpartition(b"data: ")[0]  # neither the finish reason nor the end
    assert of(cut).get("result") == "cut"
    assert told(compare([of(CLEAN), of(cut)], of(cut))) == {"stream.cut": "f"}
    stalled = of(cut, end="timeout:idle")
    assert told(compare([of(CLEAN), stalled], stalled)) == {"stream.stalled": "f"}
    # What else is in it counts as little.
    odd = of(cut.replace(b'"object":"chat.completion.chunk"', b'"object":"chunk"'))
    assert told(compare([of(CLEAN), odd], of(ON_FINISH))) == {"usage.position": "n"}


def test_a_take_that_failed_widens_nothing() -> None:
    assert told(compare([of(CLEAN), of(FAILED)], of(FAILED))) == {"error.in-stream": "f"}


def test_a_take_with_a_fatal_fault_of_its_own_widens_nothing() -> None:
    unmarked = stream(*TEXT[:-1], {**STOP, "usage": COUNTED["usage"]}, done=False)
    found = told(compare([of(CLEAN), of(unmarked)], of(unmarked)))
    assert found == {"end.marker-missing": "f", "usage.position": "n"}
    assert told(compare([of(CLEAN), of(unmarked)], of(ON_FINISH))) == {"usage.position": "n"}


def test_what_the_first_take_has_is_the_norm_though_it_is_fatal() -> None:
    unmarked = stream(*TEXT, COUNTED, done=False)
    found = compare([of(unmarked), of(CLEAN)], of(unmarked))
    assert (told(found), found.shared) == ({}, ["end.marker-missing"])


def test_a_fault_that_is_worse_than_in_the_first_take_is_excused_by_no_other() -> None:
    """No id is negotiable for one call and fatal for two: a second take with two does not make it right."""
    one = stream(ROLE, calls({**call(0, "", "f", "{}")}), CALLED, COUNTED)
    two = stream(ROLE, calls(call(0, "", "f", "{}")), calls(call(1, "", "g", "{}")), CALLED, COUNTED)
    assert told(compare([of(one)], of(two)))["tool.id-missing"] == "f"
    assert told(compare([of(one), of(two)], of(two)))["tool.id-missing"] == "f"


def test_a_fatal_difference_is_excused_by_no_further_take() -> None:
    """How an error arrives: a baseline that varies is no licence, as clients were written for the first take."""
    assert told(compare([of(FAILED)], of(FAILED_NAMED), shape="error"))["error.delivery"] == "f"
    found = compare([of(FAILED), of(FAILED_NAMED)], of(FAILED_NAMED), shape="error")
    assert told(found)["error.delivery"] == "f"
    plain = FAILED.replace(b'"error": {', b'"error": "x", "more": {').replace(b'"error":{', b'"error":"x","more":{')
    assert told(compare([of(FAILED), of(plain)], of(plain), shape="error")) == {"error.envelope": "f"}


def test_the_order_of_further_takes_does_not_matter() -> None:
    third = stream(ROLE, chunk({"role": "assistant", "content": "a"}), STOP, COUNTED)
    takes = [of(ON_FINISH), of(third), of(stream(*TEXT))]
    for candidate in (*takes, of(CLEAN)):
        found = {str(told(compare([of(CLEAN), *order], candidate))) for order in (takes, takes[::-1])}
        assert len(found) == 1


# -- takes that are recorded --------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(FIXTURES / "vllm", tmp_path / "fixtures" / "vllm")
    return tmp_path


def configure(folder: Path, url: str, **fields: Any) -> None:
    timeouts = {"connect": 2, "first_event": 5, "idle": 0.4, "total": 10}
    entry = {"dialect": "chat", "base_url": url, "model": "tiny", "auth": "none", "timeouts": timeouts, **fields}
    (folder / "providers.yaml").write_text(yaml.safe_dump({"providers": {"cand": entry}}), "utf-8")


def body_of(provider: str, shape: str = "text") -> bytes:
    return (FIXTURES / provider / f"{shape}.sse").read_bytes()


VLLM, LITELLM, UNMARKED = (body_of(name) for name in ("vllm", "litellm", "transformers"))
CUT = VLLM[:5000].rpartition(b"data: ")[0]


def test_takes_are_fixtures_and_a_bad_one_leaves_the_others(folder: Path) -> None:
    with Scripted(answer(VLLM), chunked(CUT, whole=False), answer(LITELLM), answer(VLLM)) as server:
        configure(folder, server.url)
        done = harness("record", "cand", "--shape", "text", "--takes", 3)
        assert done.failed(3).startswith("harness: not recorded: cand/text: the stream ended as cut (bytes in ")
        there = folder / "fixtures" / "cand"
        assert {path.name: path.read_bytes() for path in there.glob("*.sse")} == {
            "text.sse": VLLM, "text.3.sse": LITELLM,
        }  # fmt: skip
        assert gate("cand", "--recorded").code == 0
    with Replay(FIXTURES / "litellm") as live:
        configure(folder, live.base_url)
        assert gate("cand").code == 0
        assert gate("vllm").code == 1


def gate(baseline: str, *arguments: object, shape: str = "text") -> Done:
    return harness("gate", baseline, "cand", "--shape", shape, *arguments)


def test_a_cut_take_at_rest_does_not_widen_a_gate(folder: Path) -> None:
    (folder / "fixtures" / "vllm" / "text.2.sse").write_bytes(CUT)
    with Scripted(chunked(CUT, whole=False)) as server:
        configure(folder, server.url)
        assert "text differs (stream.cut)" in gate("vllm").failed(1)


# -- samples ------------------------------------------------------------------------------------------------------


def shape_of(done: Done) -> dict[str, Any]:
    (shape,) = done.one["shapes"]
    assert isinstance(shape, dict)
    return shape


def test_a_finding_says_in_how_many_samples_it_is(folder: Path) -> None:
    with Scripted(answer(VLLM), answer(LITELLM), answer(UNMARKED)) as server:
        configure(folder, server.url)
        done = gate("vllm", "--samples", 3, "--json", "--report", "report.md")
        assert len(server.requests) == 3
    shape = shape_of(done)
    assert (done.code, shape["outcome"], shape["takes"], shape["reason"]) == (1, "differs", 3, "")
    found = {finding["rule"]: finding for finding in shape["findings"]}
    assert list(found)[:2] == ["end.marker-missing", "usage.position"]
    fatal, usage = found["end.marker-missing"], found["usage.position"]
    assert fatal["message"].endswith("a spinner that never stops (in 1 of 3 samples)")
    assert usage["message"].endswith(" (in 2 of 3 samples)")
    assert [evidence["take"] for evidence in fatal["evidence"] if evidence["side"] == "candidate"] == [3]
    assert [evidence["take"] for evidence in usage["evidence"] if evidence["side"] == "candidate"] == [2]
    at, length = (fatal["evidence"][-1][key] for key in ("at", "length"))
    assert UNMARKED[at : at + length].startswith(b"data: ")
    kept = folder / ".harness" / "takes" / "cand"
    assert [(kept / name).read_bytes() for name in ("text.sse", "text.2.sse", "text.3.sse")] == [
        VLLM, LITELLM, UNMARKED
    ]  # fmt: skip
    for name in ("text.sse", "text.2.sse", "text.3.sse"):
        assert f".harness/takes/cand/{name}" in done.err
    assert "in 2 of 3 samples" in (folder / "report.md").read_text("utf-8")


def test_samples_that_are_all_alike_say_so(folder: Path) -> None:
    with Scripted(answer(LITELLM)) as server:
        configure(folder, server.url)
        shape = shape_of(gate("vllm", "--samples", 2, "--json"))
        assert {finding["message"].rpartition(" (")[2] for finding in shape["findings"]} == {"in 2 of 2 samples)"}
        found = gate("vllm", "--json").one
        assert not any("sample" in finding["message"] for finding in found["shapes"][0]["findings"])
        assert "how much the candidate varies: one sample only of text" in found["not_covered"]
        several = gate("vllm", "--json", "--samples", 2).one["not_covered"]
        assert not any(line.startswith("how much the candidate varies") for line in several)


def test_of_several_severities_the_worst_is_told(folder: Path) -> None:
    """No id: negotiable with one call, fatal with two."""
    one = stream(ROLE, calls(call(0, "", "f", "{}")), CALLED, COUNTED)
    two = stream(ROLE, calls(call(0, "", "f", "{}")), calls(call(1, "", "g", "{}")), CALLED, COUNTED)
    with Scripted(answer(one), answer(two), answer(one)) as server:
        configure(folder, server.url)
        shape = shape_of(gate("vllm", "--samples", 3, "--json", shape="tool-call"))
    (finding,) = [finding for finding in shape["findings"] if finding["rule"] == "tool.id-missing"]
    assert finding["severity"] == "fatal"
    assert finding["evidence"][-1]["take"] == 2
    assert "in 3 of 3 samples" in finding["message"]


def test_an_acceptance_holds_for_all_samples(folder: Path) -> None:
    with Scripted(answer(VLLM), answer(LITELLM)) as server:
        configure(folder, server.url, accept=[{"rule": "usage.position", "reason": "counted locally"}])
        assert gate("vllm", "--samples", 2).code == 0


@pytest.mark.parametrize(
    ("answers", "code", "reason", "taken", "asked"),
    [
        # No verdict: a third of what was asked for is not known.
        ([VLLM, body_of("vllm", "tool-call"), VLLM], 3, "1 of 3 samples: called a tool", 3, 3),
        ([VLLM, 401, 401], 3, "2 of 3 samples: HTTP 401", 3, 3),
        # What differs differs, whatever the others would have said.
        ([401, UNMARKED, VLLM], 1, "1 of 3 samples: HTTP 401", 3, 3),
        ([401, body_of("vllm", "tool-call"), VLLM], 3, "1 of 3 samples: HTTP 401; 1 of 3 samples: called a tool", 3, 3),
        # Nobody answers: no further sample is tried.
        ([VLLM, None], 3, "2 of 3 samples: cand: 127.0.0.1:", 1, 2),
    ],
)
def test_samples_that_measure_nothing(
    folder: Path, answers: Sequence[bytes | int | None], code: int, reason: str, taken: int, asked: int
) -> None:
    script = [
        json_answer(body, {"error": "x"}) if isinstance(body, int) else answer(body) if body else []
        for body in answers
    ]  # fmt: skip
    with Scripted(*script) as server:
        configure(folder, server.url)
        done = gate("vllm", "--samples", 3, "--json")
        assert len(server.requests) == asked
    shape = shape_of(done)
    assert done.code == code, done
    assert shape["reason"].startswith(reason)
    assert shape["takes"] == taken
    assert shape["outcome"] == ("differs" if code == 1 else "not-measured")


def test_attempts_are_made_for_each_sample(folder: Path) -> None:
    other = body_of("vllm", "tool-call")
    with Scripted(*(answer(body) for body in (VLLM, other, VLLM, other, other, VLLM))) as server:
        configure(folder, server.url)
        done = gate("vllm", "--samples", 3, "--attempts", 3, "--json")
        assert len(server.requests) == 6
    assert (done.code, shape_of(done)["takes"], shape_of(done)["reason"]) == (0, 3, "")


def test_samples_of_a_recorded_candidate_are_its_takes(folder: Path) -> None:
    there = folder / "fixtures" / "cand"
    there.mkdir()
    for name, body in (("text.sse", VLLM), ("text.2.sse", LITELLM)):
        (there / name).write_bytes(body)
    configure(folder, "http://127.0.0.1:9")
    assert gate("vllm", "--recorded").code == 0
    shape = shape_of(gate("vllm", "--recorded", "--samples", 2, "--json"))
    assert (shape["outcome"], shape["takes"]) == ("differs", 2)
    assert "1 of 2 samples" in shape["findings"][0]["message"]
    line = gate("vllm", "--recorded", "--samples", 3, "--fail-on", "fatal").failed(3)
    assert "1 of 3 samples: the candidate has no take 3 of it (`harness record cand --shape text --takes 3`)" in line


def test_a_baseline_with_takes_and_a_candidate_with_samples(folder: Path) -> None:
    """All that the candidate does in three samples lies in what the baseline did in two takes."""
    for suffix in ("sse", "json"):
        shutil.copy(FIXTURES / "litellm" / f"text.{suffix}", folder / "fixtures" / "vllm" / f"text.2.{suffix}")
    with Scripted(answer(LITELLM), answer(VLLM), answer(LITELLM)) as server:
        configure(folder, server.url)
        shape = shape_of(gate("vllm", "--samples", 3, "--json"))
    assert (shape["outcome"], shape["findings"], shape["takes"]) == ("conforms", [], 3)


def test_evidence_of_every_sample_points_into_its_bytes(folder: Path) -> None:
    with Scripted(answer(UNMARKED), answer(LITELLM), answer(VLLM)) as server:
        configure(folder, server.url)
        shape = shape_of(gate("vllm", "--samples", 3, "--json"))
    bodies = [UNMARKED, LITELLM, VLLM]
    for finding in shape["findings"]:
        for evidence in finding["evidence"]:
            body = bodies[evidence["take"] - 1] if evidence["side"] == "candidate" else VLLM
            assert evidence["at"] + evidence["length"] <= len(body)
    sidecar = json.loads((folder / ".harness" / "takes" / "cand" / "text.2.json").read_bytes())
    assert sidecar["shape"] == "text"
    assert load(folder / ".harness" / "takes" / "cand" / "text.2.sse").warning is None
