"""Real SDKs as targets: what each is known to do, with the case that shows it and the version that was measured."""

from __future__ import annotations

import gc
import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from commandline import harness

from harness.adapters import SDKS, node
from harness.adapters.base import Sdk
from harness.adapters.node import opened
from harness.adapters.served import SdkTarget, version_of
from harness.answers import Answer, CaseOutcome
from harness.cases import quirk_cases
from harness.claims import Claims
from harness.errors import UsageError
from harness.recording import Recording
from harness.runs.check import check
from harness.runs.check_report import CaseResult
from harness.serving import MOST_CUTS, serving
from harness.targets import Trial

CASES = {case.name[:3]: case.name for case in quirk_cases()}
FEW = ("whole", "bytes")
Says = tuple[str, str]  # outcome, and what a difference has in it


def needs(name: str) -> pytest.MarkDecorator:
    """Skip without the SDK: CI has those for Python, those for Node come with `npm ci` in tools/node."""
    sdk = SDKS[name]
    remedy = "npm ci in tools/node" if sdk.language == "node" else "the extra sdk"
    return pytest.mark.skipif(version_of(sdk) is None, reason=f"{sdk.package} is not installed: {remedy}")


def results(name: str, numbers: Sequence[str], cuts: Sequence[str] = FEW) -> dict[str, CaseResult]:
    report = check(SdkTarget(SDKS[name]), cases=[CASES[number] for number in numbers], cuts=cuts)
    return {result.case[:3]: result for result in report.cases}


def hold(name: str, known: dict[str, Says]) -> None:
    """Each case comes out as known, and for the reason that is known."""
    found = results(name, list(known))
    assert {number: str(result.outcome) for number, result in found.items()} == {
        number: outcome for number, (outcome, _) in known.items()
    }
    for number, (_, says) in known.items():
        told = [line for failed in found[number].failures for line in failed.differences]
        assert says in "\n".join(told), (number, told)


OPENAI_PYTHON = {
    "016": ("wrong", '[["call_acall_b","get_weatherget_weather"]]'),  # a reused index merges two calls, silently
    "017": ("raised", "TypeError: list indices must be integers"),  # a missing index
    "018": ("raised", "TypeError: list indices must be integers"),
    "019": ("raised", "TypeError: Unexpected, list delta entry `index` value is not an integer; None"),
    "020": ("raised", "IndexError: list index out of range"),  # the first index is 1
    "023": ("wrong", "call_1call_1call_1"),
    "024": ("wrong", "get_weatherget_weatherget_weather"),  # a repeated name doubles
    "026": ("wrong", '{"city":"Paris","days":2} is no text'),  # an object as arguments passes through
    "036": ("right", ""),  # no finish reason, and nobody is told
    "048": ("right", ""),
    "049": ("accepted-truncation", "returned normally, but the stream has no end"),
    "050": ("accepted-truncation", "returned normally, but the stream has no end"),
    "007": ("raised", "JSONDecodeError"),  # an event without data
    "010": ("raised", "JSONDecodeError"),
    "021": ("right", ""),
    "043": ("told", ""),
    "052": ("raised", "AttributeError"),
    "055": ("right", ""),
    "066": ("wrong", 'text: "" is not "Hello there."'),
    "067": ("raised", "identity changed"),
    "068": ("raised", "Duplicate response output index 0"),
    "073": ("right", ""),
    "076": ("right", ""),
    "081": ("raised", "Didn't receive a `response.completed` event"),
}


@needs("openai-python")
def test_check_reports_what_openai_pythons_accumulator_does_with_case_numbers_and_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cases = [part for number in OPENAI_PYTHON for part in ("--case", CASES[number])]
    cuts = [part for family in FEW for part in ("--cut", family)]
    done = harness("check", "sdk:openai-python", "--all", *cases, *cuts)
    assert done.code == 1
    lines = done.out.splitlines()
    assert lines[0].startswith("sdk:openai-python (openai 3.57.0): DIFFERS (")
    title = {"raised": "RAISED ON A GOOD STREAM", "wrong": "WRONG", "accepted-truncation": "ACCEPTED A TRUNCATION"}
    for number, (outcome, says) in OPENAI_PYTHON.items():
        at = [place for place, line in enumerate(lines) if f"   {CASES[number]} (" in line]
        if outcome in ("right", "told"):
            assert at == []
        else:
            assert lines[at[0]].startswith(f"  {title[outcome]}   {CASES[number]} (")
            assert says in "\n".join(lines[at[0] : at[0] + 8])
    assert f"    $ harness check sdk:openai-python --case {CASES['016']} --cut whole".strip() in done.out


@needs("openai-python")
def test_openai_python_sees_the_same_wherever_the_stream_is_cut() -> None:
    for number, result in results("openai-python", ["002", "012", "014", "024", "055", "073"], [
        "whole", "bytes", "inside-crlf", "inside-characters", "inside-escapes", "after-colon", "seeded:1",
    ]).items():  # fmt: skip
        assert result.runs > 1
        assert {failed.smallest for failed in result.failures} <= {"whole"}, number


@needs("anthropic-python")
def test_anthropic_python() -> None:
    hold("anthropic-python", {
        "082": ("right", ""), "083": ("told", ""), "084": ("right", ""), "085": ("right", ""),
        "086": ("raised", "IndexError"),  # block indexes with a gap
        "087": ("raised", "AssertionError"),  # without `event:` lines it sees nothing
        "088": ("raised", "JSONDecodeError"), "089": ("right", ""), "090": ("right", ""),
    })  # fmt: skip


@needs("google-genai")
def test_google_genai() -> None:
    found = results("google-genai", [number for number in CASES if "091" <= number <= "098"])
    assert {str(result.outcome) for number, result in found.items() if number != "094"} == {"right"}
    assert found["094"].outcome is CaseOutcome.TOLD


@needs("httpx-sse")
def test_httpx_sse_and_json() -> None:
    hold("httpx-sse", {
        "001": ("right", ""), "002": ("right", ""), "005": ("right", ""), "009": ("right", ""), "013": ("right", ""),
        "003": ("wrong", 'text: " there." is not "Hello there."'),  # the byte order mark spoils the first event
        "007": ("raised", "JSONDecodeError"), "010": ("raised", "JSONDecodeError"),
        "008": ("wrong", "Hello there. Bye."), "045": ("accepted-error", "the stream has an error"),
        "049": ("told", ""), "073": ("right", ""), "078": ("raised", "JSONDecodeError"),
        "088": ("raised", "JSONDecodeError"), "090": ("right", ""), "095": ("right", ""),
    })  # fmt: skip


@needs("openai-node")
def test_openai_node() -> None:
    hold("openai-node", {
        "001": ("right", ""), "003": ("right", ""), "015": ("right", ""), "021": ("right", ""),
        "016": ("wrong", '[["call_b","get_weather"]]'), "017": ("wrong", "[] is not"),
        "020": ("raised", "Cannot read properties of undefined"), "024": ("right", ""),
        "026": ("wrong", "[object Object]"), "036": ("raised", "missing finish_reason for choice 0"),
        "043": ("told", ""), "048": ("right", ""), "049": ("told", ""), "053": ("raised", "missing role for choice 0"),
        "056": ("wrong", "Hello there. there."), "066": ("wrong", 'text: "" is not "Hello there."'),
        "073": ("right", ""), "075": ("right", ""), "077": ("accepted-truncation", "returned normally"),
    })  # fmt: skip


@needs("ai-sdk")
def test_ai_sdk() -> None:
    hold("ai-sdk", {
        "001": ("right", ""), "016": ("right", ""), "017": ("right", ""), "020": ("right", ""), "021": ("right", ""),
        "018": ("wrong", "Asia/Tokyo"), "026": ("raised", "AI_TypeValidationError"),
        "032": ("wrong", "[] is not"), "036": ("raised", "ended without a finish reason"), "043": ("told", ""),
        "049": ("told", ""), "057": ("right", ""), "060": ("right", ""),
    })  # fmt: skip


def trial(body: bytes = b"data: [DONE]\n\n", **changes: object) -> Trial:
    return Trial(case="c", dialect="chat", recording=msgspec.structs.replace(Recording(body=body), **changes))


@needs("openai-python")
def test_an_error_status_and_a_broken_connection_are_rejections() -> None:
    target = SdkTarget(SDKS["openai-python"])
    refused = target.run(trial(b'{"error":{"message":"no such model"}}', status=404))
    assert (refused.state, refused.reason[:13]) == ("rejected", "NotFoundError")
    assert "no such model" in refused.reason
    assert target.run(trial(b'data: {"choices":[]}\n\n', end="cut")).state == "rejected"
    assert target.run(trial(b'data: {"choices":[]}\n\n', end="timeout:idle")).state == "rejected"


def test_claims_narrow_what_an_sdk_reads_and_cannot_widen_it() -> None:
    made = Sdk(name="x", package="pytest", language="python", module="httpx_sse_json", dialects=("chat", "gemini"),
               features=("tool_calls",), drives="")  # fmt: skip
    target = SdkTarget(made, claims=Claims(dialects=("chat",), options=("--dialect", "chat")))
    assert (target.claims.dialects, target.claims.features) == (("chat",), ("tool_calls",))
    assert target.command(["--case", "y"]) == ["harness", "check", "sdk:x", "--dialect", "chat", "--case", "y"]
    with pytest.raises(UsageError, match="sdk:x: does not read ollama; it reads chat, gemini"):
        SdkTarget(made, claims=Claims(dialects=("ollama",)))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"package": "no-such-package-here"}, r"sdk:x: no-such-package-here is not installed; .*'\.\[sdk\]'"),
        ({"language": "node", "package": "no-such"}, "sdk:x: no-such is not installed; .*`npm ci` in tools/node"),
        ({"package": "pytest", "module": "no_such"}, "sdk:x: cannot be imported"),
    ],
)
def test_a_missing_sdk_is_named_with_the_way_to_install_it(changes: dict[str, str], says: str) -> None:
    made = Sdk(name="x", package="x", language="python", module="x", dialects=("chat",), features=(), drives="")
    with pytest.raises(UsageError, match=says):
        SdkTarget(msgspec.structs.replace(made, **changes))


def test_very_many_cuts_are_thinned_out_evenly() -> None:
    import httpx

    body = b"data: " + b"x" * 3 * MOST_CUTS + b"\n\n"
    cuts = range(1, len(body))
    with serving(Trial(case="c", dialect="chat", recording=Recording(body=body), cuts=cuts)) as url:
        assert httpx.post(url + "/chat/completions", json={}).content == body


ECHO = """
import {{ createInterface }} from "node:readline";
for await (const line of createInterface({{ input: process.stdin }})) {{
  const asked = JSON.parse(line);
  {does}
}}
"""
ANSWERS = 'process.stdout.write(JSON.stringify({ value: { text: asked.url, finish_raw: "stop" } }) + "\\n");'


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
@pytest.mark.parametrize(
    ("does", "expected"),
    [
        (ANSWERS, Answer(state="accepted", value={"text": "u", "finish_raw": "stop", "finish_reason": "stop"})),
        ('process.stdout.write(\'{"rejected": "Error: no"}\\n\');', Answer(state="rejected", reason="Error: no")),
        ('process.stdout.write(\'{"failed": "what?"}\\n\');',
         Answer(state="broke", reason="the Node worker failed: what?")),
        ("process.exit(3);", Answer(state="broke", reason="the Node worker failed: it ended")),
        ('process.stdout.write("nonsense\\n");', Answer(state="broke", reason="the Node worker failed: it ended")),
        ('process.stdout.write("[]\\n");', Answer(state="broke", reason="the Node worker failed: it ended")),
        ("for (;;);", Answer(state="hung", reason="not done after 1 seconds")),
    ],
)  # fmt: skip
def test_the_node_worker_answers_or_is_ended(
    does: str, expected: Answer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node, "TOOLS", tmp_path)
    (tmp_path / "worker.mjs").write_text(ECHO.format(does=does))
    read = opened(SDKS["openai-node"], 1.0)
    assert read("u", "chat") == expected
    (tmp_path / "worker.mjs").write_text(ECHO.format(does=ANSWERS))
    again = read("v", "chat")  # a worker that was lost is started anew
    assert again == expected or again.value["text"] == "v"
    del read
    gc.collect()  # ends the worker: a process left running is a warning, and warnings are errors here


def test_a_node_package_is_found_in_a_checkout_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "CHECKOUT", tmp_path)
    assert node.installed("openai") is None
    monkeypatch.setattr(node, "TOOLS", tmp_path)
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "node_modules" / "p").mkdir(parents=True)
    (tmp_path / "node_modules" / "p" / "package.json").write_text('{"version": "1.2.3"}')
    assert node.installed("p") == ("1.2.3" if shutil.which("node") else None)
    assert node.installed("q") is None
