"""`harness plan`, caps that stop a run, and shapes that are asked at once: over real sockets."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from commandline import Done, harness, harness_process
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from reading import CANONICAL, FIXTURES, ROOT
from servers import Scripted, answer, chunked, closed_port, json_answer

from harness.errors import NotMeasured
from harness.replay import Replay
from harness.runs.sending import Allowance, in_order

VLLM = FIXTURES / "vllm"
TEXT = (VLLM / "text.sse").read_bytes()
SCHEMA = Draft202012Validator(json.loads((ROOT / "docs" / "schema" / "plan.schema.json").read_bytes()))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(VLLM, tmp_path / "fixtures" / "vllm")
    return tmp_path


def configure(folder: Path, url: str, **fields: Any) -> None:
    timeouts = {"connect": 2, "first_event": 5, "idle": 5, "total": 10}
    entry = {"dialect": "chat", "base_url": url, "model": "tiny", "auth": "none", "timeouts": timeouts, **fields}
    (folder / "providers.yaml").write_text(yaml.safe_dump({"providers": {"cand": entry}}), "utf-8")


def plan(*arguments: object) -> dict[str, Any]:
    done = harness("plan", *arguments, "--json")
    assert (done.code, done.err) == (0, "")
    SCHEMA.validate(done.one)
    return done.one


def gate(*arguments: object) -> Done:
    return harness("gate", "vllm", "cand", *arguments)


# -- the plan -----------------------------------------------------------------------------------------------------


def test_a_plan_is_what_a_gate_then_sends(folder: Path) -> None:
    with Replay(VLLM) as server:
        configure(folder, server.base_url, shapes={"error": {"concurrent": 3}, "stop": {"skip": "not offered"}})
        planned = plan("vllm", "cand", "--samples", 2)
        assert not server.journal
        assert planned["baseline"] == "vllm"
        assert {request["shape"]: request["requests"] for request in planned["requests"]} == {
            "text": 2, "tool-call": 2, "error": 6, "stop": 0,
        }  # fmt: skip
        assert planned["requests"][-1]["skipped"] == "not offered"
        gate("--samples", 2)
        asked = [exchange.shape for exchange in server.journal]
        for request in planned["requests"]:
            assert asked.count(request["shape"]) == request["requests"]
        assert planned["providers"][0]["requests"] == len(asked) == 10


def test_a_plan_is_what_record_then_sends(folder: Path) -> None:
    with Replay(VLLM) as server:
        configure(folder, server.base_url)
        planned = plan("cand", "--takes", 3, "--shape", "text", "--shape", "stop")
        assert (planned["baseline"], not server.journal) == (None, True)
        assert harness("record", "cand", "--takes", 3, "--shape", "text", "--shape", "stop").code == 0
        assert [exchange.shape for exchange in server.journal] == [
            request["shape"] for request in planned["requests"] for _ in range(request["requests"])
        ]


def test_a_plan_of_parity_is_what_is_then_sent(folder: Path) -> None:
    with Scripted(answer(TEXT), json_answer(200, {"choices": []})) as server:
        configure(folder, server.url)
        planned = plan("vllm", "cand", "--parity", "--shape", "text", "--shape", "error")
        assert [(request["shape"], request["streamed"], request["requests"]) for request in planned["requests"]] == [
            ("text", True, 1), ("text", False, 1), ("error", True, 1),
        ]  # fmt: skip
        gate("--parity", "--shape", "text")
        sizes = [len(request.partition(b"\r\n\r\n")[2]) for request in server.requests]
        assert sizes == [request["input_tokens"] for request in planned["requests"][:2]]


def test_ceilings_and_cost(folder: Path) -> None:
    prices = {"input": 2.0, "output": 10.0}
    shapes = {"stop": {"request": {"max_tokens": 50, "n": 2}}, "error": {"concurrent": 2}}
    configure(folder, "http://127.0.0.1:9", request={"max_tokens": 100}, shapes=shapes, prices=prices)
    planned = plan("vllm", "cand", "--samples", 3)
    found = {request["shape"]: request for request in planned["requests"]}
    assert {shape: request["output_tokens"] for shape, request in found.items()} == {
        "text": 300, "tool-call": 300, "stop": 300, "error": 600,
    }  # fmt: skip
    for request in found.values():
        assert request["cost"] == pytest.approx((request["input_tokens"] * 2 + request["output_tokens"] * 10) / 1e6)
    (sums,) = planned["providers"]
    assert sums["requests"] == 3 * 5
    assert sums["output_tokens"] == 1500
    assert sums["cost"] == pytest.approx(sum(request["cost"] for request in found.values()))
    (line,) = [line for line in harness("plan", "vllm", "cand").out.splitlines() if line.startswith("  text: ")]
    given, cost = found["text"]["input_tokens"] // 3, found["text"]["cost"] / 3
    assert line == f"  text: 1 request, at most {given} tokens in, at most 100 tokens out, at most {cost:.6g}"


def test_without_a_limit_the_cost_is_not_known(folder: Path) -> None:
    configure(folder, "http://127.0.0.1:9", prices={"input": 1, "output": 1}, caps={"cost": 5})
    (sums,) = plan("vllm", "cand")["providers"]
    assert (sums["output_tokens"], sums["cost"]) == (None, None)
    (stop,) = sums["stops"]
    assert stop.startswith("caps.cost: the most they may cost is not known")
    assert "no limit on tokens out" in harness("plan", "vllm", "cand").out
    # Where answers are free, what goes in is all that counts.
    configure(folder, "http://127.0.0.1:9", prices={"input": 1, "output": 0}, caps={"cost": 5})
    assert plan("vllm", "cand")["providers"][0]["cost"] > 0


LIMITS = {
    "chat": "{max_tokens: N}", "completions": None, "responses": "{max_output_tokens: N}",
    "anthropic": None, "gemini": "{generationConfig: {maxOutputTokens: N}}", "ollama": "{options: {num_predict: N}}",
    "cohere": "{max_tokens: N}",
}  # fmt: skip


@pytest.mark.parametrize("dialect", LIMITS)
def test_what_would_make_the_most_known_is_told_in_the_words_of_the_dialect(folder: Path, dialect: str) -> None:
    configure(folder, "http://127.0.0.1:9", dialect=dialect)
    limit = LIMITS[dialect]  # the others' requests have one
    prices = "cost unknown: set `prices: {input: N, output: N}`, for a million tokens"
    (sums,) = plan("cand", "--shape", "text")["providers"]
    assert sums["advice"] == ([f"no limit on tokens out: set `request: {limit}`"] if limit else []) + [prices]
    text = harness("plan", "cand", "--shape", "text").out
    assert text.endswith("".join(f"  {advice}\n" for advice in sums["advice"]))
    if limit:  # doing so helps
        request = yaml.safe_load(limit.replace("N", "7"))
        configure(folder, "http://127.0.0.1:9", dialect=dialect, request=request, prices={"input": 1, "output": 2})
        (sums,) = plan("cand", "--shape", "text")["providers"]
        assert (sums["output_tokens"], sums["advice"]) == (7, [])


def test_caps_that_would_stop_the_run_are_told(folder: Path) -> None:
    configure(
        folder, "http://127.0.0.1:9", request={"max_tokens": 1000}, prices={"input": 0, "output": 1000},
        caps={"requests": 3, "cost": 3.5}, parallel=2,
    )  # fmt: skip
    (sums,) = plan("vllm", "cand")["providers"]
    assert sums["stops"] == [
        "caps.requests: 4 requests are planned, 3 allowed", "caps.cost: they may cost 4, 3.5 allowed",
    ]  # fmt: skip
    text = harness("plan", "vllm", "cand").out.splitlines()
    assert text[0] == "gate vllm -> cand: 4 requests, 2 shapes at once"
    assert text[-4:] == [
        "  caps.requests: 3", "  caps.cost: 3.5", "  would stop: caps.requests: 4 requests are planned, 3 allowed",
        "  would stop: caps.cost: they may cost 4, 3.5 allowed",
    ]  # fmt: skip


def test_no_key_is_needed_to_plan_and_its_lack_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CAND_KEY", raising=False)
    configure(folder, "${CAND_URL}/v1", auth="bearer", api_key_env="CAND_KEY", request={"max_tokens": 5})
    (sums,) = plan("vllm", "cand")["providers"]
    assert (sums["requests"], sums["output_tokens"]) == (4, 20)
    assert sums["stops"] == [
        "providers.yaml: providers.cand.base_url: the environment variable CAND_URL is not set; set it, or give a "
        "default: ${CAND_URL:-...}"
    ]
    monkeypatch.setenv("CAND_URL", f"http://127.0.0.1:{closed_port()}")
    monkeypatch.setenv("CAND_KEY", "sk-test-0123456789abcdef")
    done = harness("plan", "vllm", "cand", "--json")
    assert done.one["providers"][0]["stops"] == []
    assert "0123456789abcdef" not in done.out


def test_which_plan_it_is(folder: Path) -> None:
    configure(folder, "http://127.0.0.1:9")
    text = (folder / "providers.yaml").read_text("utf-8")
    (folder / "providers.yaml").write_text(text + text.partition("\n")[2].replace("cand:", "vllm:"), "utf-8")
    assert plan("vllm", "cand")["baseline"] == "vllm"
    assert plan("vllm")["baseline"] is None
    both = plan("vllm", "cand", "--record")
    assert (both["baseline"], [provider["provider"] for provider in both["providers"]]) == (None, ["vllm", "cand"])
    assert plan("cand", "vllm")["baseline"] is None  # no fixtures of cand
    assert "gate vllm -> cand" in harness("plan", "vllm", "cand").out
    assert "record cand: 4 requests" in harness("plan", "cand").out


def test_a_shape_without_a_baseline_sends_nothing(folder: Path) -> None:
    (folder / "fixtures" / "vllm" / "stop.sse").unlink()
    configure(folder, "http://127.0.0.1:9")
    planned = plan("vllm", "cand")
    assert planned["requests"][-1]["skipped"] == "the baseline has no fixture of it"
    assert planned["providers"][0]["requests"] == 3


def test_names_nobody_knows_are_usage(folder: Path) -> None:
    configure(folder, "http://127.0.0.1:9")
    assert "providers.yaml: no provider 'cnd'; did you mean 'cand'?" in harness("plan", "cnd").failed(2)
    assert harness("plan", "vllm", "cand", "--shape", "txet").failed(2).startswith("harness: requests/chat/txet.json:")
    assert harness("plan").failed(2)


# -- caps ---------------------------------------------------------------------------------------------------------


def served(server: Replay) -> list[str]:
    return [exchange.shape for exchange in server.journal]


def test_a_cap_on_requests_stops_a_gate(folder: Path) -> None:
    with Replay(VLLM) as server:
        configure(folder, server.base_url, caps={"requests": 3})
        done = gate("--json", "--attempts", 2)
        assert served(server) == ["text", "tool-call", "stop"]
    outcomes = {shape["shape"]: shape["outcome"] for shape in done.one["shapes"]}
    assert outcomes == {"text": "conforms", "tool-call": "conforms", "stop": "conforms", "error": "not-measured"}
    says = "error not measured (stopped by caps.requests of cand: 3 of 3 requests are sent; raise the cap"
    assert says in done.failed(3)


def test_copies_sent_at_once_count_each(folder: Path) -> None:
    with Replay(VLLM) as server:
        configure(folder, server.base_url, caps={"requests": 4}, shapes={"error": {"concurrent": 2}})
        assert gate().code == 3
        assert served(server) == ["text", "tool-call", "stop"]


def test_a_cap_stops_record_and_says_which_takes_are_missing(folder: Path) -> None:
    with Replay(VLLM) as server:
        configure(folder, server.base_url, caps={"requests": 3})
        done = harness("record", "cand", "--shape", "text", "--shape", "stop", "--takes", 2)
        assert served(server) == ["text", "text", "stop"]
    assert "not recorded: cand/stop: stopped by caps.requests of cand: 3 of 3 requests are sent" in done.failed(3)
    assert sorted(path.name for path in (folder / "fixtures" / "cand").glob("*.sse")) == [
        "stop.sse", "text.2.sse", "text.sse"
    ]  # fmt: skip


def test_a_repeated_request_counts(folder: Path) -> None:
    """The recorder asks again after a 429; at the cap it does not."""
    busy = json_answer(429, {"error": {"message": "slow down"}}, retry_after="0")
    with Scripted(busy) as server:
        configure(folder, server.url, caps={"requests": 2})
        assert "text not measured (stopped by caps.requests of cand: 2 of 2 requests are sent" in gate(
            "--shape", "text", "--attempts", 3
        ).failed(3)
        assert len(server.requests) == 2
    with Scripted(busy, answer(TEXT)) as server:
        configure(folder, server.url, caps={"requests": 2})
        assert gate("--shape", "text").code == 0


def test_a_cap_on_cost_counts_what_the_answers_say(folder: Path) -> None:
    """53 tokens out at a million each: 53 an answer, in place of the 100 that it might have been."""
    with Scripted(answer(TEXT)) as server:
        prices = {"input": 0, "output": 1_000_000}
        configure(folder, server.url, request={"max_tokens": 100}, prices=prices, caps={"cost": 206})
        done = gate("--shape", "text", "--samples", 5)
        assert len(server.requests) == 3
    says = "2 of 5 samples: stopped by caps.cost of cand: 159 of 206 is spent and the next request may cost 100; raise"
    assert says in done.failed(3)


def test_without_usage_the_bytes_of_the_answer_are_the_bound(folder: Path) -> None:
    without = b"".join(event + b"\n\n" for event in TEXT.split(b"\n\n")[:-1] if b'"usage":{' not in event)
    with Scripted(answer(without)) as server:
        configure(folder, server.url, prices={"input": 0, "output": 1_000_000}, caps={"cost": 150})
        gate("--shape", "text", "--samples", 5)
        assert len(server.requests) == 2  # 138 bytes of text, then over the cap


def test_a_free_cap_stops_at_once_where_nothing_is_free(folder: Path) -> None:
    with Scripted(answer(TEXT)) as server:
        configure(folder, server.url, prices={"input": 1, "output": 1}, caps={"cost": 0})
        assert "stopped by caps.cost" in gate("--shape", "text").failed(3)
        assert server.requests == []


def test_the_whole_answer_of_parity_counts(folder: Path) -> None:
    with Scripted(answer(TEXT)) as server:
        configure(folder, server.url, caps={"requests": 1})
        line = gate("--shape", "text", "--parity").failed(3)
        assert "text not measured (parity: stopped by caps.requests of cand: 1 of 1 requests are sent" in line
        assert len(server.requests) == 1


# -- at once ------------------------------------------------------------------------------------------------------


def test_shapes_are_asked_at_once_and_told_in_order(folder: Path) -> None:
    with Replay(VLLM, faults=["stall:byte=100,seconds=0.6"]) as server:
        configure(folder, server.base_url)
        started = time.monotonic()
        one_by_one = gate("--json").one
        alone = time.monotonic() - started
        configure(folder, server.base_url, parallel=4)
        started = time.monotonic()
        at_once = gate("--json").one
        together = time.monotonic() - started
        assert sorted(served(server)[4:]) == sorted(CANONICAL)
    assert [shape["shape"] for shape in at_once["shapes"]] == list(CANONICAL)
    assert at_once["shapes"] == one_by_one["shapes"]
    assert at_once["outcome"] == "conforms"
    assert together < alone - 1


def test_a_shape_that_is_a_load_of_its_own_is_asked_alone(folder: Path) -> None:
    with Replay(VLLM, faults=["stall:byte=100,seconds=0.3"]) as server:
        configure(folder, server.base_url, parallel=4, shapes={"text": {"concurrent": 2}})
        found = gate("--json").one
        assert [shape["shape"] for shape in found["shapes"]] == list(CANONICAL)
        assert served(server)[-2:] == ["text", "text"]
    assert found["outcome"] == "conforms"


def test_record_asks_shapes_at_once_and_tells_them_in_order(folder: Path) -> None:
    with Replay(VLLM, faults=["stall:byte=100,seconds=0.3"]) as server:
        configure(folder, server.base_url, parallel=3)
        done = harness("record", "cand", "--takes", 2)
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        f"cand/{shape}: fixtures/cand/{shape}{take}.sse" for shape in CANONICAL for take in ("", ".2")
    ]
    for shape in CANONICAL:
        assert (folder / "fixtures" / "cand" / f"{shape}.2.sse").read_bytes() == (VLLM / f"{shape}.sse").read_bytes()


def test_caps_hold_for_shapes_asked_at_once(folder: Path) -> None:
    with Replay(VLLM, faults=["stall:byte=100,seconds=0.2"]) as server:
        configure(folder, server.base_url, parallel=4, caps={"requests": 2})
        done = gate("--json")
        assert len(server.journal) == 2
    assert sorted(shape["outcome"] for shape in done.one["shapes"]) == [
        "conforms", "conforms", "not-measured", "not-measured"
    ]  # fmt: skip


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("verb", [("gate", "vllm", "cand"), ("record", "cand")], ids=["gate", "record"])
def test_ctrl_c_ends_every_stream_and_keeps_what_had_come(
    folder: Path, verb: tuple[str, ...], number: signal.Signals
) -> None:
    half = TEXT[:3000]
    with Scripted(chunked(half, 30.0)) as server:
        configure(folder, server.url, parallel=4, timeouts={"idle": 30})
        process = harness_process(*verb, cwd=folder)
        until(lambda: _sizes(folder) == [3000] * 4 or process.poll() is not None)
        assert process.poll() is None
        process.send_signal(number)
        started = time.monotonic()
        out, err = process.communicate(timeout=25)
        assert time.monotonic() - started < 20  # not the 30 s for which each stream would be waited for
    assert (process.returncode, out, err.count("\n")) == (130, "", 1)
    bodies = sorted((folder / ".harness" / "failed" / "cand").glob("*.sse"))
    says, _, named = err.rstrip("\n").partition(" kept in ")
    assert says == "harness: interrupted; what had come is"
    assert sorted(named.split(", ")) == [str(body.relative_to(folder)) for body in bodies]
    assert [body.read_bytes() for body in bodies] == [half] * 4
    assert {json.loads(body.with_suffix(".json").read_bytes())["end"] for body in bodies} == {"client-closed"}


def _sizes(folder: Path) -> list[int]:
    return [path.stat().st_size for path in (folder / ".harness" / "partial").glob("*.sse")]


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_failure_of_one_ends_the_others() -> None:
    allowance, ended = Allowance(), threading.Event()

    def breaks() -> str:
        time.sleep(0.1)
        raise OSError("no space left")

    def waits() -> str:
        allowance.started(ended.set)
        return "ended" if ended.wait(10) else "hung"

    started = time.monotonic()
    with pytest.raises(OSError, match="no space"):
        in_order([breaks, waits, waits], 3, allowance)
    assert time.monotonic() - started < 5
    with pytest.raises(NotMeasured, match="stopped"):  # and nothing follows
        asyncio.run(allowance.sleep(0))
