"""`harness gate` and `harness record` over real sockets: what a server can do, what is told, and where the bytes are.

Candidates are recorded fixtures played again (harness.replay) and scripted servers (servers.py).
"""

from __future__ import annotations

import base64
import json
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from commandline import Done, harness, harness_process
from reading import CANONICAL, FIXTURES, ROOT
from servers import RESET, Answer, Scripted, answer, chunked, closed_port, json_answer

from harness.recording import sha256
from harness.replay import Replay

VLLM = FIXTURES / "vllm"
TEXT, CALL = ((VLLM / f"{shape}.sse").read_bytes() for shape in ("text", "tool-call"))
HALF = TEXT[:5000].rpartition(b"data: ")[0]  # whole events
KEY = "sk-test-0123456789abcdef/XYZ+"
HTML = b"<html><body>\n<h1>500 Internal Server Error</h1>\n</body></html>\n"
EXPECTED: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "tests" / "expected_gates.yaml").read_text("utf-8"))
TODAY = datetime.now(UTC).date()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose baselines are all recorded fixtures; the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fixtures").mkdir()
    for provider in FIXTURES.iterdir():
        if provider.is_dir():
            (tmp_path / "fixtures" / provider.name).symlink_to(provider)
    # Links that leave the folder are refused, so the one that is used is a copy.
    for name in ("vllm", "llamacpp"):
        (tmp_path / "fixtures" / name).unlink(missing_ok=True)
        shutil.copytree(FIXTURES / name, tmp_path / "fixtures" / name)
    return tmp_path


def configure(folder: Path, url: str, **fields: Any) -> None:
    """providers.yaml with the provider `cand`."""
    timeouts = {"connect": 2, "first_event": 2, "idle": 0.3, "total": 10}
    entry = {"dialect": "chat", "base_url": url, "model": "tiny", "auth": "none", "timeouts": timeouts, **fields}
    (folder / "providers.yaml").write_text(yaml.safe_dump({"providers": {"cand": entry}}), "utf-8")


def gate(*arguments: object, shape: str | None = "text") -> Done:
    return harness("gate", "vllm", "cand", *(("--shape", shape) if shape else ()), *arguments)


def report(*arguments: object, shape: str | None = "text") -> dict[str, Any]:
    return gate("--json", *arguments, shape=shape).one


def rules(found: dict[str, Any]) -> dict[str, list[str]]:
    """Rules of the findings that fail, by shape."""
    return {
        shape["shape"]: [finding["rule"] for finding in shape["findings"] if finding["severity"] != "cosmetic"]
        for shape in found["shapes"]
    }


def named_in(line: str) -> list[Path]:
    """The paths of bodies that a line names."""
    return [Path(name) for name in re.findall(r"\.harness/[^\s,;)]+\.sse", line)]


def files(folder: Path) -> Iterator[Path]:
    """Every file that was written, but for fixtures that were there before."""
    return (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def served(replay: Replay) -> list[str]:
    return [exchange.shape for exchange in replay.journal]


# -- the main job -------------------------------------------------------------------------------------------------


def test_a_candidate_that_speaks_as_the_baseline_conforms(folder: Path) -> None:
    with Replay(VLLM) as server:
        configure(folder, server.base_url)
        done = gate(shape=None)
        assert served(server) == list(CANONICAL)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("vllm -> cand: CONFORMS\n")
    for shape in CANONICAL:
        assert f"\n{shape}: ok\n" in done.out
        kept = folder / ".harness" / "takes" / "cand" / f"{shape}.sse"
        assert kept.read_bytes() == (VLLM / f"{shape}.sse").read_bytes()
    assert "\nnot covered by this gate:\n" in done.out
    assert done.out.endswith("  wording, quality and speed of the answers\n")


def test_a_candidate_that_differs_is_exit_1_and_its_bytes_are_named(folder: Path) -> None:
    with Replay(FIXTURES / "transformers") as server:
        configure(folder, server.base_url)
        done = gate("--json", shape=None)
    line = done.failed(1)
    assert line.startswith("harness: vllm -> cand: text, tool-call differ (end.marker-missing, usage.position); ")
    assert done.one["outcome"] == "differs"
    assert rules(done.one)["stop"] == ["end.marker-missing", "stop.text-included", "usage.position"]
    paths = named_in(line)
    assert [path.stem for path in paths] == list(CANONICAL)
    for path in paths:
        assert path.read_bytes() == (FIXTURES / "transformers" / path.name).read_bytes()


@pytest.mark.parametrize("candidate", EXPECTED)
def test_cutovers_from_a_recorded_llamacpp(folder: Path, candidate: str) -> None:
    """The real servers' streams against a real baseline: exactly what was read from the bytes by hand."""
    shapes = [part for shape in CANONICAL for part in ("--shape", shape)]
    with Replay(FIXTURES / candidate) as server:
        configure(folder, server.base_url)
        done = harness("gate", "llamacpp", "cand", "--json", *shapes)
    assert done.code in (0, 1)
    for shape in done.one["shapes"]:
        found = sorted([finding["rule"], finding["severity"]] for finding in shape["findings"])
        assert found == sorted(EXPECTED[candidate][shape["shape"]])


def test_baseline_needs_no_entry_and_an_unset_variable_elsewhere_does_not_matter(folder: Path) -> None:
    with Replay(VLLM) as server:
        configure(folder, server.base_url)
        text = (folder / "providers.yaml").read_text("utf-8")
        other = "  other: {dialect: chat, base_url: '${NOT_SET_ANYWHERE}', model: m, api_key_env: NOR_THIS}\n"
        (folder / "providers.yaml").write_text(text + other, "utf-8")
        assert gate().code == 0


def test_the_config_is_found_in_a_parent_folder_and_can_be_named(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Replay(VLLM) as server:
        configure(folder, server.base_url)
        (folder / "deep" / "er").mkdir(parents=True)
        monkeypatch.chdir(folder / "deep" / "er")
        assert gate().code == 0
        monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
        assert gate().failed(2).startswith("harness: fixtures/vllm: no fixtures of the baseline 'vllm'; record it")
        assert gate("--config", folder / "providers.yaml").code == 0
        assert gate("--config", "nowhere.yaml").failed(2).startswith("harness: nowhere.yaml: no such file")
    assert (folder / ".harness" / "takes" / "cand" / "text.sse").is_file()


def test_a_plain_gate_runs_the_canonical_shapes_and_those_the_baseline_has(folder: Path) -> None:
    (folder / "requests" / "chat").mkdir(parents=True)
    request = json.loads((ROOT / "requests" / "chat" / "text.json").read_bytes())
    (folder / "requests" / "chat" / "my-shape.json").write_text(json.dumps({**request, "user": "me"}), "utf-8")
    shutil.copy(VLLM / "text.sse", folder / "fixtures" / "vllm" / "my-shape.sse")
    with Replay(VLLM) as server:
        configure(folder, server.base_url)
        found = report(shape=None)
        assert [shape["shape"] for shape in found["shapes"]] == [*CANONICAL, "my-shape"]
        assert found["outcome"] == "conforms"
        assert served(server) == [*CANONICAL, "text"]
        assert [shape["shape"] for shape in report("--shape", "stop", "--shape", "text")["shapes"]] == ["text", "stop"]


def test_the_request_is_the_shape_with_model_and_patches(folder: Path) -> None:
    with Scripted(answer(TEXT)) as server:
        configure(
            folder, server.url, model="mine", request={"max_tokens": 99},
            shapes={"text": {"request": {"seed": 7, "stream_options": None}}},
        )  # fmt: skip
        gate()
        shape = json.loads((ROOT / "requests" / "chat" / "text.json").read_bytes())
        del shape["stream_options"]
        assert server.bodies == [{**shape, "model": "mine", "max_tokens": 99, "seed": 7}]


def test_concurrent_copies_are_sent_and_the_first_is_recorded(folder: Path) -> None:
    failure = b'data: {"error": {"message": "m", "type": "t", "code": 500}}\n\n'
    with Scripted(chunked(HALF, 0.5, failure)) as server:  # the others are left alone once the first has ended
        configure(folder, server.url, shapes={"error": {"concurrent": 3}}, timeouts={"idle": 5})
        done = gate(shape="error")
        assert len(server.requests) == 3
    assert done.failed(1).startswith("harness: vllm -> cand: error differs (end.marker-after-error")
    assert (folder / ".harness" / "takes" / "cand" / "error.sse").is_file()


# -- what a server can do -----------------------------------------------------------------------------------------


def test_a_server_killed_in_mid_stream(folder: Path) -> None:
    process = harness_process("replay", VLLM, "--fault", "stall:byte=4000,seconds=60", cwd=folder)
    assert process.stdout is not None
    configure(folder, process.stdout.readline().split()[1], timeouts={"connect": 5, "first_event": 10, "idle": 10})

    def kill_when_half_is_there() -> None:
        end = time.monotonic() + 10
        while time.monotonic() < end:
            if any(path.stat().st_size == 4000 for path in (folder / ".harness" / "partial").glob("*.sse")):
                break
            time.sleep(0.01)
        process.kill()

    killer = threading.Thread(target=kill_when_half_is_there)
    killer.start()
    done = gate("--json")
    killer.join()
    process.communicate()
    line = done.failed(1)
    assert rules(done.one) == {"text": ["stream.cut"]}
    (path,) = named_in(line)
    assert path.parent == Path(".harness/failed/cand")
    assert path.read_bytes() == TEXT[:4000]
    assert json.loads(path.with_suffix(".json").read_bytes())["end"] in ("cut", "reset")
    assert list((folder / ".harness" / "partial").iterdir()) == []


FAILURES: dict[str, tuple[list[Any], int, str, bytes | None]] = {
    # answer, exit code, what the line says, bytes that are kept
    "stall": (chunked(TEXT[:3000], 30.0), 1, "text differs (stream.stalled)", TEXT[:3000]),
    "cut": (chunked(TEXT[:3000], whole=False), 1, "text differs (stream.cut)", TEXT[:3000]),
    "reset": (chunked(TEXT[:3000], RESET), 1, "text differs (stream.cut)", TEXT[:3000]),
    "401": (json_answer(401, {"error": "who?"}), 3, "text not measured (HTTP 401)", b'{"error": "who?"}'),
    "404": (json_answer(404, {"error": "no model"}), 3, "text not measured (HTTP 404)", b'{"error": "no model"}'),
    "500": (answer(HTML, 500, "text/html"), 3, "text not measured (HTTP 500)", HTML),
    "redirect": (answer(b"", 302, headers={"location": "http://127.0.0.1:9/"}), 3, "text not measured (HTTP 302)", b""),
    "400": (json_answer(400, {"error": "bad"}), 1, "text differs (http.rejected)", b'{"error": "bad"}'),
    "418": (json_answer(418, {"error": "tea"}), 1, "text differs (http.rejected)", b'{"error": "tea"}'),
    "no-event": (chunked(b": ping\n\n", 30.0), 3, "text not measured (no event came)", b": ping\n\n"),
    "no-response": ([30.0], 3, "no response from 127.0.0.1:", None),
    "no-http": ([b"SSH-2.0-OpenSSH\r\n"], 3, "text not measured (cand: 127.0.0.1:", None),
    "hang-up": ([], 3, "closed the connection without a response", None),
    "no-stream": (json_answer(200, {"choices": [{"message": {"content": "hi"}}]}), 1,
                  "text differs (stream.not-a-stream", b'{"choices": [{"message": {"content": "hi"}}]}'),
    "html-200": (answer(HTML, 200, "text/html"), 1, "text differs (stream.not-a-stream", HTML),
    "empty": (answer(), 1, "text differs (stream.empty)", b""),
    "called": (answer(CALL), 3, "text not measured (called a tool)", CALL),
    "no-call": (answer(TEXT.replace(b'"finish_reason":"stop"', b'"finish_reason":"tool_calls"')), 1,
                "text differs (finish.calls-without-call",
                TEXT.replace(b'"finish_reason":"stop"', b'"finish_reason":"tool_calls"')),
}  # fmt: skip


@pytest.mark.parametrize("name", FAILURES)
def test_what_a_server_can_do(folder: Path, name: str) -> None:
    script, code, says, kept = FAILURES[name]
    with Scripted(script) as server:
        timeouts = {"connect": 2, "first_event": 0.4, "idle": 0.3, "total": 10}
        configure(folder, server.url, timeouts=timeouts)
        done = gate("--json")
        assert len(server.requests) == 1
    line = done.failed(code)
    assert says in line
    assert done.one["outcome"] == ("differs" if code == 1 else "not-measured")
    (shape,) = done.one["shapes"]
    assert shape["outcome"] == done.one["outcome"]
    assert (shape["reason"] == "") is (code == 1)
    assert shape["takes"] == (0 if kept is None else 1)
    if kept is None:
        assert named_in(line) == []
        assert not any(path.suffix == ".sse" for path in (folder / ".harness").rglob("*"))
    else:
        (path,) = named_in(line)
        assert path.read_bytes() == kept
        assert json.loads(path.with_suffix(".json").read_bytes())["sha256"] == sha256(kept)
    text = gate_again(folder, script, timeouts)
    assert (text.code, text.out.splitlines()[0]) == (code, f"vllm -> cand: {done.one['outcome'].upper()}")


def gate_again(folder: Path, script: Answer, timeouts: dict[str, float]) -> Done:
    with Scripted(script) as server:
        configure(folder, server.url, timeouts=timeouts)
        done = gate()
    assert done.err.count("\n") == 1
    return done


def test_a_wrong_port(folder: Path) -> None:
    port = closed_port()
    configure(folder, f"http://127.0.0.1:{port}/v1")
    why = f"cand: cannot connect to 127.0.0.1:{port} (Connection refused): is the server running? check base_url"
    done = gate("--report", "report.md", shape=None)
    shapes = "text, tool-call, stop, error"
    assert done.failed(3) == f"harness: vllm -> cand: {shapes} not measured ({why})"
    assert all(result["reason"] == why for result in report(shape=None)["shapes"])
    written = Path("report.md").read_text("utf-8")
    assert written.count("cannot connect") == 1
    assert "\nNot measured: text, tool-call, stop, error: cand: cannot connect to 127.0.0.1:" in written
    text = harness("gate", "vllm", "cand").out
    assert text.splitlines()[:3] == ["vllm -> cand: NOT-MEASURED", "", f"{shapes}: not measured ({why})"]
    assert text.count("cannot connect") == 1
    assert f"\n  shapes {shapes}: not measured\n" in text
    assert f"\n  not exercised: {shapes}, " in text
    recorded = harness("record", "cand")
    assert recorded.failed(3).count("cannot connect") == 1
    assert recorded.out == "".join(f"cand/{shape}: not recorded\n" for shape in shapes.split(", "))


def test_an_unset_key_is_told_before_anything_is_sent(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CAND_KEY", raising=False)
    with Scripted(answer(TEXT)) as server:
        configure(folder, server.url, auth="bearer", api_key_env="CAND_KEY")
        line = gate().failed(2)
        assert line == (
            "harness: providers.yaml: providers.cand.api_key_env: the environment variable CAND_KEY is not set; "
            "it must hold the key"
        )
        configure(folder, "${CAND_URL}")
        assert "providers.cand.base_url: the environment variable CAND_URL is not set" in gate().failed(2)
        assert server.requests == []
    assert not (folder / ".harness").exists()


def test_a_typo_in_the_config_is_told_before_anything_is_sent(folder: Path) -> None:
    with Scripted(answer(TEXT)) as server:
        configure(folder, server.url, modle="tiny")
        says = "harness: providers.yaml: providers.cand.modle: unknown key; did you mean 'model'? allowed:"
        assert gate().failed(2).startswith(says)
        (folder / "providers.yaml").write_text("providers: [", "utf-8")
        assert gate().failed(2).startswith("harness: providers.yaml: ")
        assert server.requests == []


def test_names_nobody_knows_are_usage(folder: Path) -> None:
    configure(folder, "http://127.0.0.1:9/v1")
    for arguments, says in [
        (["vlm", "cand"], "fixtures/vlm: no fixtures of the baseline 'vlm'; check the name; did you mean 'vllm'? ("),
        (["vllm", "cnd"], "providers.yaml: no provider 'cnd'; did you mean 'cand'? there are: cand"),
        (["vllm", "cand", "--shape", "txet"], "requests/chat/txet.json: no such request file, here or shipped"),
        (["vllm", "cand", "--shape", "../text"], "'../text' cannot name a shape"),
        (["../vllm", "cand"], "'../vllm' cannot name a provider"),
        (["vllm", "cand", "--recorded"], "fixtures/cand: no fixtures of the candidate 'cand'; record it with"),
        (["vllm", "cnd", "--recorded"], "fixtures/cnd: no fixtures of the candidate 'cnd'; check the name"),
        (["vllm", "vllm", "--recorded", "--shape", "txet"], "--shape txet: no such shape; did you mean 'text'?"),
    ]:
        assert harness("gate", *arguments).failed(2).startswith(f"harness: {says}")
    assert harness("record", "cnd").failed(2).startswith("harness: providers.yaml: no provider 'cnd'")
    assert harness("record", "cand", "--shape", "txet").failed(2).startswith("harness: requests/chat/txet.json: no ")


def test_attempts_repeat_what_is_not_measured(folder: Path) -> None:
    busy = json_answer(429, {"error": {"message": "slow down"}}, retry_after="0")
    with Scripted(busy, busy, busy, answer(TEXT)) as server:  # the recorder itself repeats twice
        configure(folder, server.url)
        assert "text not measured (HTTP 429)" in gate().failed(3)
        assert len(server.requests) == 3
    with Scripted(busy, busy, busy, answer(TEXT)) as server:
        configure(folder, server.url)
        done = gate("--attempts", 2, "--json")
        assert len(server.requests) == 4
    assert (done.code, done.err, done.one["outcome"]) == (0, "", "conforms")
    assert done.one["shapes"][0]["reason"] == ""


def test_attempts_do_not_repeat_a_difference(folder: Path) -> None:
    with Scripted(chunked(TEXT[:3000], whole=False), answer(TEXT)) as server:
        configure(folder, server.url)
        assert "stream.cut" in gate("--attempts", 3).failed(1)
        assert len(server.requests) == 1


def test_an_interrupted_gate_keeps_what_had_come(folder: Path) -> None:
    with Scripted(chunked(TEXT[:3000], 30.0)) as server:
        configure(folder, server.url, timeouts={"idle": 30})
        process = harness_process("gate", "vllm", "cand", cwd=folder)
        until(lambda: any(path.stat().st_size == 3000 for path in (folder / ".harness" / "partial").glob("*.sse")))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    (body,) = (folder / ".harness" / "failed" / "cand").glob("*.sse")
    kept = body.relative_to(folder)
    assert (process.returncode, out) == (130, "")
    assert err == f"harness: interrupted; what had come is kept in {kept}\n"
    assert body.read_bytes() == TEXT[:3000]
    assert json.loads(body.with_suffix(".json").read_bytes())["end"] == "client-closed"


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


# -- the baseline -------------------------------------------------------------------------------------------------


def test_a_bare_stream_made_with_curl_gates_like_a_recorded_one(folder: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    with Replay(VLLM) as server:
        for shape in CANONICAL:
            with open(make(folder / "fixtures" / "bare") / f"{shape}.sse", "wb") as file:
                subprocess.run(
                    ["curl", "-sN", server.base_url + "/chat/completions", "-H", "content-type: application/json",
                     "--data", f"@{ROOT / 'requests' / 'chat' / shape}.json"], stdout=file, check=True, timeout=10,
                )  # fmt: skip
        configure(folder, server.base_url)
        assert harness("record", "cand").code == 0
    for name in ("vllm", "transformers", "litellm", "dynamo"):
        with Replay(FIXTURES / name) as server:
            configure(folder, server.base_url)
            bare, recorded = (harness("gate", baseline, "cand", "--json") for baseline in ("bare", "cand"))
        assert bare.code == recorded.code == (0 if name in ("vllm", "dynamo") else 1)
        for ours, theirs in zip(bare.one["shapes"], recorded.one["shapes"], strict=True):
            assert [found["rule"] for found in ours["findings"]] == [found["rule"] for found in theirs["findings"]]


def test_a_bare_baseline_may_be_of_another_dialect_than_the_candidate(folder: Path) -> None:
    bare = make(folder / "fixtures" / "bare")
    for shape in ("text", "tool-call", "error"):
        (bare / f"{shape}.sse").write_bytes((folder / "fixtures" / "vllm-anthropic" / f"{shape}.sse").read_bytes())
    with Replay(VLLM) as server:
        configure(folder, server.base_url)
        shapes = harness("gate", "bare", "cand", "--json", "--shape", "text", "--shape", "tool-call").one["shapes"]
    assert {shape["shape"]: shape["outcome"] for shape in shapes} == {"text": "conforms", "tool-call": "conforms"}


def test_every_recorded_provider_conforms_to_itself(folder: Path) -> None:
    shutil.rmtree(folder / "fixtures")
    shutil.copytree(FIXTURES, folder / "fixtures")
    for provider in sorted(path.name for path in FIXTURES.iterdir() if path.is_dir()):
        done = harness("gate", provider, provider, "--recorded", "--json", "--fail-on", "cosmetic")
        # Its upstream's failure is nowhere on the wire, so the shape was not exercised.
        not_exercised = ["error"] if provider == "litellm-over-anthropic" else []
        outcomes = {shape["shape"]: shape["outcome"] for shape in done.one["shapes"]}
        assert [shape for shape, outcome in outcomes.items() if outcome != "conforms"] == not_exercised, provider
        assert [finding["rule"] for shape in done.one["shapes"] for finding in shape["findings"]] == []


def make(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def test_the_request_of_the_candidate_stands_for_that_of_a_bare_baseline(folder: Path) -> None:
    """Usage is missing only where it was asked for: the baseline's own lack of it is no surprise then."""
    without = b"".join(event + b"\n\n" for event in TEXT.split(b"\n\n")[:-1] if b'"usage":{' not in event)
    make(folder / "fixtures" / "bare").joinpath("text.sse").write_bytes(without)
    with Scripted(answer(without)) as server:
        configure(folder, server.url)
        done = harness("gate", "bare", "cand", "--shape", "text", "--json")
    assert done.code == 0
    assert done.one["shapes"][0]["shared"] == ["usage.missing"]


def test_a_shape_without_a_baseline_is_not_measured_and_nothing_is_sent(folder: Path) -> None:
    (folder / "fixtures" / "vllm" / "stop.sse").unlink()
    with Replay(VLLM) as server:
        configure(folder, server.base_url)
        done = gate("--json", shape=None)
        assert served(server) == ["text", "tool-call", "error"]
    assert "stop not measured (the baseline has no fixture of it" in done.failed(3)
    assert done.one["outcome"] == "not-measured"


def test_a_baseline_that_is_no_answer_measures_nothing(folder: Path) -> None:
    body = folder / "fixtures" / "vllm" / "text.sse"
    body.with_suffix(".json").unlink()
    body.write_bytes(TEXT[:3000])
    with Replay(VLLM) as server:
        configure(folder, server.base_url)
        assert "text not measured (the baseline's stream is no answer (cut))" in gate().failed(3)


def test_a_baseline_that_was_changed_is_used_and_told(folder: Path) -> None:
    fixtures = folder / "fixtures" / "vllm"
    (fixtures / "text.sse").write_bytes(TEXT + b": edited\n\n")
    (fixtures / "stop.json").write_text("no sidecar", "utf-8")
    changed = "fixtures/vllm/text.sse: not the bytes that text.json describes (sha256 differs): its reads and end"
    odd = "fixtures/vllm/stop.json: not JSON, so not a sidecar of stop.sse; ignored"
    with Replay(VLLM) as server:
        configure(folder, server.base_url)
        done = gate("--json", "--report", "gate.md", "--report", "gate.html", shape=None)
    assert done.code == 0, "a warning is no difference"
    first, second = done.err.splitlines()
    assert {first.partition(" are")[0], second} == {f"harness: {changed}", f"harness: {odd}"}
    assert f"the baseline as it was recorded: {odd}" in done.one["not_covered"]
    assert sum(text.startswith(f"the baseline as it was recorded: {changed}") for text in done.one["not_covered"]) == 1
    for name in ("gate.md", "gate.html"):
        assert "the baseline as it was recorded" in Path(name).read_text("utf-8")
    (fixtures / "text.json").write_text('{"format": "sse-harness/1", "di', "utf-8")
    assert gate().failed(2).startswith("harness: fixtures/vllm/text.json: not JSON (")


@pytest.mark.parametrize("body", [b"", b"\n\n"])
@pytest.mark.parametrize("bare", [True, False])
def test_an_empty_baseline_is_no_norm(folder: Path, body: bytes, bare: bool) -> None:
    path = folder / "fixtures" / "vllm" / "text.sse"
    path.write_bytes(body)
    if bare:
        path.with_suffix(".json").unlink()
    configure(folder, "http://127.0.0.1:9/v1")
    remedy = "record it again with `harness record vllm --shape text --replace`"
    problem = f"harness: fixtures/vllm/text.sse: is empty; {remedy}"
    assert gate().failed(2) == problem
    assert gate("--allow-stale").failed(2) == problem


def test_a_refusal_without_a_body_is_a_norm_for_errors(folder: Path) -> None:
    path = folder / "fixtures" / "vllm" / "error.sse"
    path.write_bytes(b"")
    path.with_suffix(".json").write_text('{"format": "sse-harness/1", "dialect": "chat", "status": 400}', "utf-8")
    with Scripted(answer(status=400)) as server:
        configure(folder, server.url)
        assert gate(shape="error").code in (0, 1)


def test_several_takes_are_an_envelope(folder: Path) -> None:
    """What any take of the baseline shows is no difference; a fatal fault of a later take excuses nothing."""
    fixtures = folder / "fixtures" / "vllm"
    with Replay(FIXTURES / "litellm") as server:
        configure(folder, server.base_url)
        assert rules(report()) == {"text": ["usage.position"]}
        for suffix in ("sse", "json"):
            shutil.copy(FIXTURES / "litellm" / f"text.{suffix}", fixtures / f"text.2.{suffix}")
        found = report()
        assert found["outcome"] == "conforms"
        assert found["shapes"][0]["findings"] == []
    for suffix in ("sse", "json"):
        shutil.copy(FIXTURES / "transformers" / f"text.{suffix}", fixtures / f"text.2.{suffix}")
    with Replay(FIXTURES / "transformers") as server:
        configure(folder, server.base_url)
        assert rules(report()) == {"text": ["end.marker-missing", "usage.position"]}


def test_a_changed_request_file_is_refused_unless_stale_is_allowed(folder: Path) -> None:
    request = make(folder / "requests" / "chat") / "text.json"
    shutil.copy(ROOT / "requests" / "chat" / "text.json", request)
    with Replay(VLLM) as server:
        configure(folder, server.base_url)
        assert harness("record", "cand", "--shape", "text", "--takes", 2).code == 0
        arguments = ("gate", "cand", "cand", "--shape", "text")
        assert harness(*arguments).code == 0
        request.write_bytes(request.read_bytes() + b"\n")
        server.journal.clear()
        line = harness(*arguments).failed(2)
        assert line == (
            "harness: requests/chat/text.json: changed since fixtures/cand/text.sse was recorded; re-record with "
            "`harness record cand --shape text --takes 2 --replace`, or `--allow-stale`"
        )
        assert not server.journal
        assert harness(*arguments, "--allow-stale").code == 0
        assert harness("record", "cand", "--shape", "text", "--takes", 2, "--replace").code == 0
        assert harness(*arguments).code == 0


def test_a_sidecar_with_a_dialect_nobody_knows_is_usage(folder: Path) -> None:
    sidecar = folder / "fixtures" / "vllm" / "text.json"
    sidecar.write_text(sidecar.read_text("utf-8").replace('"dialect": "chat"', '"dialect": "klingon"'), "utf-8")
    configure(folder, "http://127.0.0.1:9/v1")
    assert gate().failed(2).startswith("harness: fixtures/vllm/text.json: dialect klingon: no such dialect")


def test_recorded_reads_the_candidate_from_fixtures_and_sends_nothing(folder: Path) -> None:
    shutil.copytree(FIXTURES / "litellm", folder / "fixtures" / "cand")
    with Replay(VLLM) as server:
        configure(folder, server.base_url, auth="bearer", api_key_env="NOT_SET_ANYWHERE")
        done = gate("--recorded", "--json", shape=None)
        assert not server.journal
    assert done.failed(1).startswith("harness: vllm -> cand: text, tool-call, stop differ (usage.position); ")
    assert named_in(done.err) == []
    assert not (folder / ".harness").exists()
    (folder / "providers.yaml").unlink()
    assert harness("gate", "vllm", "vllm", "--recorded").code == 0


# -- record -------------------------------------------------------------------------------------------------------


def test_record_writes_the_four_shapes_with_sidecars(folder: Path) -> None:
    with Replay(VLLM) as server:
        configure(folder, server.base_url)
        done = harness("record", "cand")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [f"cand/{shape}: fixtures/cand/{shape}.sse" for shape in CANONICAL]
    for shape in CANONICAL:
        path = folder / "fixtures" / "cand" / f"{shape}.sse"
        assert path.read_bytes() == (VLLM / f"{shape}.sse").read_bytes()
        sidecar = json.loads(path.with_suffix(".json").read_bytes())
        assert (sidecar["format"], sidecar["dialect"], sidecar["shape"]) == ("sse-harness/1", "chat", shape)
        assert (sidecar["status"], sidecar["end"], sidecar["provenance"]["kind"]) == (200, "eof", "recorded")
        request = (ROOT / "requests" / "chat" / f"{shape}.json").read_bytes()
        assert sidecar["request"]["shape_sha256"] == sha256(request)
        assert sidecar["request"]["body"] == {**json.loads(request), "model": "tiny"}
        assert sidecar["reads"][-1][0] == len(path.read_bytes())
    assert sorted(path.name for path in (folder / "fixtures" / "cand").iterdir()) == sorted(
        f"{shape}.{suffix}" for shape in CANONICAL for suffix in ("sse", "json")
    )
    assert harness("gate", "cand", "cand", "--recorded").code == 0


def test_record_several_takes_and_as_json(folder: Path) -> None:
    with Replay(VLLM) as server:
        configure(folder, server.base_url)
        done = harness("record", "cand", "--shape", "stop", "--shape", "text", "--takes", 2, "--json")
    assert done.code == 0
    assert done.objects == [
        {"provider": "cand", "shape": shape, "take": take, "good": True, "reason": "",
         "path": f"fixtures/cand/{shape}{'.2' if take == 2 else ''}.sse"}
        for shape in ("stop", "text") for take in (1, 2)
    ]  # fmt: skip


OVERLOADED = HALF + b'data: {"error": {"message": "overloaded"}}\n\n'
NOTHING = b"data: [DONE]\n\n"
BAD_TAKES: dict[str, tuple[list[Any], str, bytes]] = {
    # answer, what is told, bytes that are set aside
    "cut": (chunked(HALF, whole=False), "the stream ended as cut", HALF),
    "stall": (chunked(HALF, 30.0), "the stream ended as timeout:idle", HALF),
    "500": (answer(HTML, 500, "text/html"), "HTTP 500", HTML),
    "400": (json_answer(400, {"error": {"message": "no such parameter"}}),
            "the endpoint answered with an error (HTTP 400): no such parameter",
            b'{"error": {"message": "no such parameter"}}'),
    "error": (answer(OVERLOADED), "the endpoint answered with an error (HTTP 200): overloaded", OVERLOADED),
    "call": (answer(CALL), "called a tool", CALL),
    "nothing": (answer(NOTHING), "the stream is no answer (nothing)", NOTHING),
}  # fmt: skip


@pytest.mark.parametrize("replace", [[], ["--replace"]], ids=["plain", "replace"])
@pytest.mark.parametrize("name", BAD_TAKES)
def test_a_bad_take_never_replaces_a_good_fixture(folder: Path, name: str, replace: list[str]) -> None:
    script, reason, kept = BAD_TAKES[name]
    with Scripted(answer(TEXT), script) as server:
        configure(folder, server.url)
        assert harness("record", "cand", "--shape", "text").code == 0
        before = {path: path.read_bytes() for path in (folder / "fixtures" / "cand").iterdir()}
        done = harness("record", "cand", "--shape", "text", *replace)
    line = done.failed(3)
    assert line.startswith(f"harness: not recorded: cand/text: {reason} (bytes in .harness/failed/cand/text-")
    assert done.out == "cand/text: not recorded\n"
    assert {path: path.read_bytes() for path in (folder / "fixtures" / "cand").iterdir()} == before
    (path,) = named_in(line)
    assert path.read_bytes() == kept


def test_replacing_a_fixture_whose_structure_differs_needs_replace(folder: Path) -> None:
    reworded = TEXT.replace(b'"content":"Hel"', b'"content":"Yel"')
    other = (FIXTURES / "litellm" / "text.sse").read_bytes()
    with Scripted(answer(TEXT), answer(reworded), answer(other)) as server:
        configure(folder, server.url)
        record = ("record", "cand", "--shape", "text")
        body = folder / "fixtures" / "cand" / "text.sse"
        assert harness(*record).code == 0
        assert harness(*record).code == 0
        assert body.read_bytes() == reworded != TEXT
        line = harness(*record).failed(3)
        assert re.search(r"its structure differs from the fixture \([+-]wire\.[^)]+\); --replace takes it", line)
        assert body.read_bytes() == reworded
        (aside,) = named_in(line)
        assert aside.read_bytes() == other
        assert harness(*record, "--replace").code == 0
        assert body.read_bytes() == other
        assert json.loads(body.with_suffix(".json").read_bytes())["sha256"] == sha256(other)


def test_a_foreign_file_in_the_way_is_not_replaced(folder: Path) -> None:
    foreign = make(folder / "fixtures" / "cand") / "text.json"
    foreign.write_text('{"mine": true}', "utf-8")
    with Replay(VLLM) as server:
        configure(folder, server.base_url)
        line = harness("record", "cand", "--shape", "text").failed(2)
    assert line == "harness: fixtures/cand/text.json: not written by sse-harness, so not replaced; move it away"
    assert foreign.read_text("utf-8") == '{"mine": true}'
    (kept,) = (folder / ".harness" / "failed" / "cand").glob("*.sse")
    assert kept.read_bytes() == TEXT


def test_record_leaves_skipped_shapes_out(folder: Path) -> None:
    with Replay(VLLM) as server:
        configure(folder, server.base_url, shapes={"error": {"skip": "cannot be provoked"}})
        assert harness("record", "cand").out.count("\n") == 3
        skips = {shape: {"skip": "not today"} for shape in CANONICAL}
        configure(folder, server.base_url, shapes=skips)
        assert "cand: no canonical shape to record" in harness("record", "cand").failed(2)


# -- secrets ------------------------------------------------------------------------------------------------------


def spellings(key: str) -> list[bytes]:
    return [key.encode(), json.dumps(key).strip('"').replace("/", "\\/").encode(), base64.b64encode(key.encode()),
            key.replace("/", "%2F").replace("+", "%2B").encode()]  # fmt: skip


def echoing(how: str) -> Answer:
    message = f"Incorrect API key provided: {KEY}."
    if how == "stream":
        return answer(TEXT.replace(b'"content":"Hel"', b'"content":"' + KEY.encode() + b'"'))
    if how == "cut":
        return chunked(TEXT[:300], b"data: " + KEY.encode()[:-2], whole=False)
    if how == "pieces":
        return chunked(TEXT[:300], *(bytes([byte]) for byte in KEY.encode()), TEXT[300:])
    if how == "header":
        return answer(TEXT, headers={"server": KEY})
    if how == "error":
        return answer(b"data: " + json.dumps({"error": {"message": message}}).encode() + b"\n\n")
    return json_answer(int(how), {"error": {"message": message}})


@pytest.mark.parametrize("how", ["none", "stream", "cut", "pieces", "header", "error", "401", "400", "500"])
def test_a_key_reaches_no_file_and_no_stream(folder: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAND_KEY", KEY)
    with Scripted(answer(TEXT) if how == "none" else echoing(how)) as server:
        configure(folder, server.url, auth="bearer", api_key_env="CAND_KEY")
        runs = [gate("--report", "report.json"), gate("--json"), gate(), harness("record", "cand", "--shape", "text"),
                harness("record", "cand", "--shape", "text", "--json")]  # fmt: skip
        assert all(f"authorization: bearer {KEY}".encode().lower() in asked.lower() for asked in server.requests)
    codes = [done.code for done in runs]
    assert codes == [0] * 5 if how == "none" else set(codes) <= {1, 3}
    if how not in ("none", "cut"):
        assert codes == [3] * 5
        assert "the value of a key" in runs[0].err
        assert not list((folder / ".harness").rglob("*.sse"))
    written = list(files(folder))
    assert folder / "report.json" in written
    for form in spellings(KEY):
        assert [path for path in written if form in path.read_bytes()] == []
        assert [done for done in runs if form in (done.out + done.err).encode()] == []


def test_other_values_of_the_environment_reach_no_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In headers, queries and paths they are sent; the sidecar tells the path with the value masked."""
    values = {"ORG": "organisation-1234", "TENANT": "tenant-56789abc", "TOKEN": "query-token-def0"}
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    with Scripted(answer(TEXT)) as server:
        configure(
            folder, server.url, headers={"X-Org": "${ORG}"}, path="/${TENANT}/chat/completions",
            query={"api-token": "${TOKEN}"},
        )  # fmt: skip
        runs = [gate("--report", "report.json"), harness("record", "cand", "--shape", "text")]
        assert all(value.encode() in asked for value in values.values() for asked in server.requests)
    assert [done.code for done in runs] == [0, 0]
    for value in values.values():
        assert [path for path in files(folder) if value.encode() in path.read_bytes()] == []
    sidecar = json.loads((folder / "fixtures" / "cand" / "text.json").read_bytes())
    assert sidecar["request"]["path"] == "/v1/***/chat/completions"


# -- policy and reports -------------------------------------------------------------------------------------------


def judged(
    folder: Path, *entries: dict[str, Any], candidate: str = "litellm", shape: str | None = None
) -> tuple[Done, dict[str, str]]:
    """A gate with these acceptances, and what became of each, by rule."""
    with Replay(FIXTURES / candidate) as server:
        configure(folder, server.base_url, accept=list(entries))
        done = gate("--json", shape=shape)
    return done, {use["rule"]: use["state"] for use in done.one["acceptances"]}


POSITION = {"rule": "usage.position", "reason": "tokens are counted locally"}
AFTER_ERROR = {
    "rule": "end.marker-after-error", "severity": "fatal", "until": str(TODAY), "reason": "we stop at the error",
}  # fmt: skip
CODE_TYPE = {"rule": "error.code-type", "reason": "compared as text", "until": str(TODAY)}


def test_acceptances_that_cover_everything_pass(folder: Path) -> None:
    done, states = judged(folder, POSITION, AFTER_ERROR, CODE_TYPE)
    assert (done.code, done.err) == (0, "")
    assert states == dict.fromkeys(("usage.position", "end.marker-after-error", "error.code-type"), "used")
    (error,) = (shape for shape in done.one["shapes"] if shape["shape"] == "error")
    assert {finding["rule"]: finding["accepted"] for finding in error["findings"]} == {
        "end.marker-after-error": {"reason": "we stop at the error", "until": str(TODAY), "owner": None},
        "error.code-type": {"reason": "compared as text", "until": str(TODAY), "owner": None},
    }
    with Replay(FIXTURES / "litellm") as server:
        configure(folder, server.base_url, accept=[POSITION, AFTER_ERROR, CODE_TYPE])
        text = gate(shape=None)
    assert text.out.splitlines()[:2] == [
        "vllm -> cand: CONFORMS",
        f"  ACCEPTED FATAL end.marker-after-error in error until {TODAY}: we stop at the error",
    ]
    assert f"  NEGOTIABLE error.code-type (accepted until {TODAY}: compared as text)\n" in text.out


def test_a_fatal_finding_needs_severity_and_until(folder: Path) -> None:
    plain = {name: value for name, value in AFTER_ERROR.items() if name not in ("severity", "until")}
    done, states = judged(folder, POSITION, plain, CODE_TYPE)
    assert done.failed(1).startswith("harness: vllm -> cand: error differs (end.marker-after-error); ")
    assert states["end.marker-after-error"] == "used"
    configure(folder, "http://127.0.0.1:9/v1", accept=[{**plain, "severity": "fatal"}])
    assert "providers.cand.accept[0]: `until:` is missing" in gate().failed(2)


def test_expired_and_stale_acceptances_fail(folder: Path) -> None:
    yesterday = str(TODAY - timedelta(days=1))
    done, states = judged(folder, {**POSITION, "until": yesterday}, AFTER_ERROR, CODE_TYPE)
    assert states["usage.position"] == "expired"
    assert "text, tool-call, stop differ (usage.position)" in done.failed(1)
    assert "acceptance of usage.position is expired" in done.err
    stale = {"rule": "tool.id-missing", "reason": "was so once"}
    done, states = judged(folder, stale, candidate="vllm")
    assert states == {"tool.id-missing": "stale"}
    assert done.failed(1) == "harness: vllm -> cand: acceptance of tool.id-missing is stale"
    assert {shape["outcome"] for shape in done.one["shapes"]} == {"conforms"}
    # A run of one shape says nothing about the others.
    done, states = judged(folder, stale, candidate="vllm", shape="text")
    assert (done.code, states) == (0, {})
    done, states = judged(folder, {**stale, "shape": "text"}, candidate="vllm", shape="text")
    assert (done.code, states) == (1, {"tool.id-missing": "stale"})
    with Replay(VLLM) as server:
        configure(folder, server.base_url, accept=[stale])
        text = gate(shape=None).out
    told = ("acceptances that fail this gate:\n  stale tool.id-missing (all shapes): "
            "providers.yaml: providers.cand.accept[0]: it no longer occurs; delete it\n")  # fmt: skip
    assert f"\n{told}" in text


def test_the_owner_is_told_wherever_an_acceptance_is(folder: Path) -> None:
    yesterday = str(TODAY - timedelta(days=1))
    entries = [
        {**POSITION, "owner": "Ann"}, {**AFTER_ERROR, "owner": "Bob"}, {**CODE_TYPE, "owner": "Cy", "until": yesterday},
        {"rule": "tool.id-missing", "reason": "was so once", "owner": "Dee", "baseline": "vllm"},
    ]  # fmt: skip
    forms = [part for suffix in ("json", "md", "xml", "html") for part in ("--report", f"out/r.{suffix}")]
    with Replay(FIXTURES / "litellm") as server:
        configure(folder, server.base_url, accept=entries)
        done = gate(*forms, shape=None)
        annotated = gate("--annotate", shape=None).out
    line = done.failed(1)
    assert "acceptance of error.code-type is expired (owner Cy); acceptance of tool.id-missing is stale (own" in line
    told = [
        "  NEGOTIABLE usage.position (accepted, owner Ann: tokens are counted locally)",
        f"  ACCEPTED FATAL end.marker-after-error in error until {TODAY}, owner Bob: we stop at the error",
        "  expired error.code-type (all shapes; owner Cy): providers.yaml: providers.cand.accept[",
        "  stale tool.id-missing (all shapes, against vllm; owner Dee): providers.yaml: providers.cand.accept[",
    ]
    assert [line for line in told if f"\n{line}" not in done.out] == []
    found = json.loads((folder / "out" / "r.json").read_bytes())
    assert {(use["rule"], use["owner"], use["baseline"]) for use in found["acceptances"]} == {
        ("usage.position", "Ann", None), ("end.marker-after-error", "Bob", None), ("error.code-type", "Cy", None),
        ("tool.id-missing", "Dee", "vllm"),
    }  # fmt: skip
    findings = [finding for shape in found["shapes"] for finding in shape["findings"]]
    assert {finding["accepted"]["owner"] for finding in findings if finding["accepted"]} == {"Ann", "Bob"}
    for text in (annotated, *((folder / "out" / f"r.{suffix}").read_text("utf-8") for suffix in ("md", "xml"))):
        assert [name for name in ("Ann", "Bob", "Cy", "Dee") if f"owner {name}" not in text] == []
    page = (folder / "out" / "r.html").read_text("utf-8")
    assert [name for name in ("owner Ann", "owner Bob", ">Cy<", ">Dee<") if name not in page] == []


def test_an_acceptance_bound_to_a_baseline_is_none_of_another_gate(folder: Path) -> None:
    yesterday = str(TODAY - timedelta(days=1))
    with Replay(FIXTURES / "litellm") as server:
        configure(folder, server.base_url, accept=[{**POSITION, "baseline": "vllm"}])
        found = report()
        assert (found["outcome"], [use["state"] for use in found["acceptances"]]) == ("conforms", ["used"])
        # Against another baseline it tolerates nothing, and is neither used, stale nor expired.
        for entry in ({**POSITION, "baseline": "dynamo"}, {**POSITION, "baseline": "dynamo", "until": yesterday}):
            configure(folder, server.base_url, accept=[entry])
            found = report()
            assert (rules(found), found["acceptances"]) == ({"text": ["usage.position"]}, [])
    with Replay(VLLM) as server:
        configure(folder, server.base_url, accept=[{**POSITION, "baseline": "dynamo"}])
        assert (report()["outcome"], report()["acceptances"]) == ("conforms", [])
        configure(folder, server.base_url, accept=[{**POSITION, "baseline": "vllm", "shape": "text"}])
        assert [use["state"] for use in report()["acceptances"]] == ["stale"]
        configure(folder, server.base_url, accept=[{**POSITION, "baseline": "vlm"}])
        server.journal.clear()
        line = gate().failed(2)
        assert not server.journal
    assert line.startswith("harness: providers.yaml: providers.cand.accept[0].baseline: no provider 'vlm'; did you ")


def test_fail_on(folder: Path) -> None:
    with Replay(FIXTURES / "dynamo") as server:
        configure(folder, server.base_url)
        assert [gate("--fail-on", severity).code for severity in ("cosmetic", "negotiable", "fatal")] == [1, 0, 0]
        configure(folder, server.base_url, accept=[{"rule": "*", "shape": "text", "reason": "seen"}])
        assert gate("--fail-on", "cosmetic").code == 0


def test_skipped_shapes_show_and_all_skipped_is_not_measured(folder: Path) -> None:
    with Replay(VLLM) as server:
        configure(folder, server.base_url, shapes={"error": {"skip": "cannot be provoked"}})
        done = gate(shape=None)
        assert (done.code, done.err) == (0, "")
        assert "\nerror: skipped (cannot be provoked)\n" in done.out
        assert "  shape error: skipped (cannot be provoked)\n" in done.out
        assert served(server) == ["text", "tool-call", "stop"]
        configure(folder, server.base_url, shapes={shape: {"skip": "not today"} for shape in CANONICAL})
        server.journal.clear()
        done = gate("--json", shape=None)
        assert not server.journal
    assert (done.failed(3), done.one["outcome"]) == ("harness: vllm -> cand: not-measured", "not-measured")
    assert {shape["outcome"] for shape in done.one["shapes"]} == {"skipped"}


def test_what_differs_outweighs_what_was_not_measured(folder: Path) -> None:
    with Scripted(json_answer(401, {}), answer(TEXT[:3000])) as server:
        configure(folder, server.url)
        done = gate("--json", "--shape", "stop", shape="text")
    assert "text not measured (HTTP 401); stop differs (stream.cut)" in done.failed(1)


def test_a_report_of_another_kind_is_refused_before_anything_is_sent(folder: Path) -> None:
    with Scripted(answer(TEXT)) as server:
        configure(folder, server.url)
        for name in ("report.txt", "report", "report.JSON", ".json"):
            assert gate("--report", name).failed(2).startswith(f"harness: {name}: no report has ")
        assert server.requests == []


def test_a_report_that_cannot_be_written_does_not_lose_the_result(folder: Path) -> None:
    (folder / "file").write_text("", "utf-8")
    with Replay(VLLM) as server:
        configure(folder, server.base_url)
        done = gate("--report", "file/report.json", "--report", "good/report.json")
    assert done.failed(2).startswith("harness: file/report.json: the report cannot be written (")
    assert done.out.startswith("vllm -> cand: CONFORMS\n")
    assert json.loads((folder / "good" / "report.json").read_bytes())["outcome"] == "conforms"


def test_a_report_becomes_acceptances(folder: Path) -> None:
    with Replay(FIXTURES / "litellm") as server:
        configure(folder, server.base_url)
        assert gate("--report", "report.json", shape=None).code == 1
        line = harness("accept", "report.json", "--reason", "x").failed(2)
        assert line.startswith("harness: end.marker-after-error: fatal, so accepted by name only; give --rule end.ma")
        every = [part for rule in ("usage.*", "error.*", "end.marker-after-error") for part in ("--rule", rule)]
        done = harness("accept", "report.json", *every, "--reason", "read: by all", "--until", TODAY)
        assert (done.code, done.err) == (0, "")
        entries = yaml.safe_load(done.out)["providers"]["cand"]["accept"]
        text = (folder / "providers.yaml").read_text("utf-8") + done.out.partition("cand:\n")[2]
        (folder / "providers.yaml").write_text(text, "utf-8")
        assert gate(shape=None).code == 0
    assert {entry["rule"] for entry in entries} == {"usage.position", "end.marker-after-error", "error.code-type"}
    only = harness("accept", "report.json", "--rule", "usage.position", "--reason", "counted locally")
    (entry,) = {tuple(entry.items()) for entry in yaml.safe_load(only.out)["providers"]["cand"]["accept"][:1]}
    assert entry[0] == ("rule", "usage.position")
    chosen = ("accept", "report.json", "--rule", "usage.position", "--reason", "x")
    bound = harness(*chosen, "--owner", "a: b", "--baseline")
    for entry in yaml.safe_load(bound.out)["providers"]["cand"]["accept"]:
        assert (entry["owner"], entry["baseline"]) == ("a: b", "vllm")
    (folder / "report.html").write_text("<!doctype html>\n", "utf-8")
    for arguments, says in [
        (["report.json", "--reason", "x", "--owner", " "], "--owner: must name a person or team"),
        (["none.json", "--reason", "x"], "none.json: cannot be read"),
        (["report.json", "--reason", " "], "--reason: must say why"),
        (["report.json", "--reason", "x", "--rule", "nope"], "--rule nope: not among the failing findings"),
        (["report.html", "--reason", "x"], "report.html: a report to look at; give the .json one, of `"),
        (["providers.yaml", "--reason", "x"], "providers.yaml: not a report of `harness gate --report`"),
    ]:
        assert harness("accept", *arguments).failed(2).startswith(f"harness: {says}")


def test_where_nothing_is_at_all_the_way_to_begin_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    told = "harness: fixtures/a: no fixtures of the baseline 'a'; record it, or `harness init`"
    assert harness("gate", "a", "b").failed(2) == told
    (tmp_path / "providers.yaml").touch()
    told = "harness: providers.yaml: is empty; delete it, and have `harness init` write one"
    assert harness("gate", "a", "b").failed(2) == told


def test_a_bug_in_the_middle_leaves_the_bytes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr("harness.runs.taking.reading_of", broken)
    with Replay(VLLM) as server:
        configure(folder, server.base_url)
        assert gate().failed(4).startswith("harness: bug: RuntimeError: boom (please report it")
    (kept,) = (folder / ".harness" / "failed" / "cand").glob("*.sse")
    assert kept.read_bytes() == TEXT


def test_everything_written_is_private_and_out_of_commits(folder: Path) -> None:
    with Scripted(chunked(TEXT[:3000], whole=False)) as server:
        configure(folder, server.url)
        gate()
    assert (folder / ".harness").stat().st_mode & 0o077 == 0
    assert (folder / ".harness" / ".gitignore").read_text("ascii") == "*\n"


def test_no_variable_of_a_proxy_leads_a_loopback_request_away(folder: Path) -> None:
    with Replay(VLLM) as server:
        configure(folder, server.base_url)
        proxy = dict.fromkeys(("HTTP_PROXY", "http_proxy", "ALL_PROXY"), "http://127.0.0.1:9")
        process = harness_process("gate", "vllm", "cand", "--shape", "text", cwd=folder, env=proxy)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, ""), out


def test_an_acceptance_of_a_rule_that_does_not_exist_is_told_before_anything_is_sent(folder: Path) -> None:
    with Scripted(answer((FIXTURES / "vllm" / "text.sse").read_bytes())) as server:
        configure(folder, server.url, accept=[{"rule": "usage.postion", "reason": "r"}])
        done = harness("gate", "vllm", "cand")
        assert done.failed(2).endswith(
            "providers.cand.accept[0].rule: no rule 'usage.postion'; did you mean 'usage.position'? `harness rules` "
            "lists them"
        )
        configure(folder, server.url, accept=[{"rule": "usage.*", "reason": "r"}])
        assert "no rule" not in harness("gate", "vllm", "cand", "--shape", "text").err
        assert len(server.requests) == 1
