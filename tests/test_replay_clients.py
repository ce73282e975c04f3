"""Real clients of the replay server: each gets the bytes of the file, or reads them as is expected.

Those that are not installed are skipped.
"""

from __future__ import annotations

import asyncio
import base64
import json
import resource
import shutil
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest
from reading import FIXTURES

from harness.answers import CaseOutcome, judge
from harness.cases import fixture_cases
from harness.conventions import CONVENTIONS
from harness.endpoint import Endpoint
from harness.recorder import arecord
from harness.recording import Read, Recording
from harness.replay import Replay
from harness.runs.check import target_of
from harness.store import load
from harness.targets import Trial

NAMES = sorted(
    f"{path.parent.name}/{path.stem}" for path in FIXTURES.glob("*/*.sse")
    if path.parent.name in ("vllm", "vllm-responses", "anthropic", "gemini", "ollama-native", "cohere")
)  # fmt: skip

# fetch in Node: every chunk of every URL it is given, in base64.
FETCH = """
const urls = JSON.parse(process.argv[1])
const bodies = []
for (const url of urls) {
  const headers = {'content-type': 'application/json'}
  const response = await fetch(url, {method: 'POST', body: '{"stream":true}', headers})
  const pieces = []
  for await (const piece of response.body) pieces.push(Buffer.from(piece))
  bodies.push([response.status, Buffer.concat(pieces).toString('base64')])
}
console.log(JSON.stringify(bodies))
"""


def url_of(server: Replay, name: str, recording: Recording) -> str:
    provider, _, shape = name.partition("/")
    return server.url(provider, shape) + CONVENTIONS[recording.dialect or "chat"].path.replace("{model}", "m")


def recordings() -> dict[str, Recording]:
    return {name: load(FIXTURES / f"{name}.sse").recording for name in NAMES}


def test_fixtures_of_every_dialect_are_asked_for() -> None:
    found = {recording.dialect for recording in recordings().values()}
    assert found == {"chat", "responses", "anthropic", "gemini", "ollama", "cohere"}


def test_httpx_gets_the_bytes_of_every_fixture() -> None:
    with Replay(FIXTURES) as server, httpx.Client() as client:
        for name, recording in recordings().items():
            response = client.post(url_of(server, name, recording), json={})
            assert (name, response.status_code) == (name, recording.status or 200)
            assert response.content == recording.body


def test_curl_gets_the_bytes_of_every_fixture(tmp_path: Path) -> None:
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("curl is not installed")
    with Replay(FIXTURES) as server:
        found = recordings()
        wanted = [part for number, (name, recording) in enumerate(found.items())
                  for part in ("-o", str(tmp_path / str(number)), url_of(server, name, recording))]  # fmt: skip
        subprocess.run([curl, "-sSN", "--data", "{}", *wanted], check=True, timeout=60)
    for number, recording in enumerate(found.values()):
        assert (tmp_path / str(number)).read_bytes() == recording.body


def test_fetch_in_node_gets_the_bytes_of_every_fixture() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not installed")
    with Replay(FIXTURES, pieces=97) as server:
        found = recordings()
        urls = [url_of(server, name, recording) for name, recording in found.items()]
        command = [node, "--input-type=module", "-e", FETCH, json.dumps(urls)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    for (status, body), recording in zip(json.loads(done.stdout), found.values(), strict=True):
        assert (status, base64.b64decode(body)) == (recording.status or 200, recording.body)


@pytest.mark.parametrize(
    ("sdk", "package", "provider"),
    [
        ("openai-python", "openai", "vllm"), ("openai-python", "openai", "vllm-responses"),
        ("anthropic-python", "anthropic", "anthropic"), ("google-genai", "google.genai", "gemini"),
        ("httpx-sse", "httpx_sse", "vllm"), ("openai-node", "", "vllm"),
    ],
)  # fmt: skip
def test_sdks_read_replayed_streams_as_is_expected(sdk: str, package: str, provider: str) -> None:
    if package:
        pytest.importorskip(package)
    elif shutil.which("node") is None or not (FIXTURES.parent / "tools" / "node" / "node_modules").is_dir():
        pytest.skip("Node or its packages are not installed")
    target = target_of(f"sdk:{sdk}")
    cases = [case for case in fixture_cases(FIXTURES)[0] if case.name in (f"{provider}/text", f"{provider}/tool-call")]
    assert len(cases) == 2
    for case in cases:
        trial = Trial(case=case.name.replace("/", "-"), dialect=case.dialect, recording=case.recording)
        verdict = judge(target.run(trial), case.expected, target.claims.features or ())
        assert (case.name, verdict.outcome, verdict.differences) == (case.name, CaseOutcome.RIGHT, ())


def test_two_hundred_recordings_at_once_in_one_process_are_each_exact() -> None:
    count = 200
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 4096), hard), hard))
    bodies = [b"".join(b'data: {"stream":%d,"event":%d}\n\n' % (number, event) for event in range(20))
              for number in range(count)]  # fmt: skip
    sent = {
        f"s{number}": Recording(
            body=body, status=200, end="eof",
            reads=[Read(len(body) * part // 20, 10_000 * part) for part in range(1, 21)],
        )
        for number, body in enumerate(bodies)
    }  # fmt: skip
    sinks: list[list[bytes]] = [[] for _ in bodies]

    async def all_of_them(server: Replay) -> list[Recording]:
        return await asyncio.gather(*(
            arecord(Endpoint(url=server.url("p", f"s{number}") + "/chat/completions", body=b"{}"), sink=sink.append)
            for number, sink in enumerate(sinks)
        ))  # fmt: skip

    with Replay({"p": sent}, pace="recorded") as server:
        kept: list[Any] = asyncio.run(all_of_them(server))
        assert [exchange.outcome for exchange in server.journal] == ["completed"] * count
    assert [recording.body for recording in kept] == bodies
    assert [b"".join(sink) for sink in sinks] == bodies
    assert {recording.end for recording in kept} == {"eof"}
    for recording in kept:
        assert [read.end for read in recording.reads] == sorted({read.end for read in recording.reads})
