"""The plugin in pytest runs of their own, some of them with xdist, against a replay server on loopback."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import harness.pytest_items
import harness.pytest_streams  # noqa: F401
from harness.config import load_project
from harness.replay import Replay
from harness.runs.gate import gate
from harness.store import load

CANONICAL = ("text", "tool-call", "stop", "error")
FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
GATE = ("--harness-baseline", "vllm", "--harness-candidate", "candidate")
PROVIDERS = """
providers:
  candidate:
    dialect: chat
    base_url: {url}
    model: m
{more}
"""
# Without what takes long and has no part in this; and warnings are no errors, as they are in the run around it.
QUICK = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:anyio", "-W", "default")
EVERYWHERE = pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "xdist"])


class Folder:
    """A project in pytester's folder: the baseline's fixtures, and a candidate at the URL."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester, self.path = pytester, pytester.path
        self.fixtures("vllm")
        self.providers("http://127.0.0.1:9/v1")

    def fixtures(self, *names: str) -> None:
        for name in names:
            shutil.copytree(FIXTURES / name, self.path / "fixtures" / name)

    def providers(self, url: str, more: str = "") -> None:
        indented = "\n".join(f"    {line}" for line in more.splitlines())
        (self.path / "providers.yaml").write_text(PROVIDERS.format(url=url, more=indented))

    def run(self, *arguments: str) -> pytest.RunResult:
        return self.pytester.runpytest_inprocess(*QUICK, *arguments)

    def test(self, text: str, *arguments: str) -> pytest.RunResult:
        """Run this text as the project's only test file."""
        self.pytester.makepyfile(text)
        return self.run(*arguments)

    def gate(self, *arguments: str) -> dict[str, Any]:
        """What `harness gate --json` says."""
        code = "from harness.cli import main; main()"
        command = [sys.executable, "-c", code, "gate", "vllm", "candidate", "--json", *arguments]
        done = subprocess.run(command, cwd=self.path, capture_output=True, check=False, timeout=60)
        report: dict[str, Any] = json.loads(done.stdout)
        return report


@pytest.fixture(scope="module", autouse=True)
def loaded(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A run within this process forgets the modules that it was the first to load. The imports and a gate load them."""
    folder = tmp_path_factory.mktemp("loaded")
    shutil.copytree(FIXTURES / "vllm", folder / "fixtures" / "vllm")
    with Replay(FIXTURES / "vllm") as server:
        (folder / "providers.yaml").write_text(PROVIDERS.format(url=server.base_url, more=""))
        gate(load_project(None, folder), "vllm", "candidate", shapes=["text"], environ={})


@pytest.fixture
def folder(pytester: pytest.Pytester) -> Folder:
    return Folder(pytester)


@pytest.fixture
def transformers() -> Iterator[Replay]:
    with Replay(FIXTURES / "transformers") as server:
        yield server


@pytest.fixture
def vllm() -> Iterator[Replay]:
    with Replay(FIXTURES / "vllm") as server:
        yield server


def words(result: pytest.RunResult) -> str:
    return result.stdout.str() + result.stderr.str()


# -- the gate --------------------------------------------------------------------------------------------------------


@EVERYWHERE
def test_findings_are_those_of_harness_gate(folder: Folder, transformers: Replay, workers: tuple[str, ...]) -> None:
    folder.providers(transformers.base_url, "accept: [{rule: usage.position, reason: counted here}]")
    result = folder.run(*GATE, *workers, "--harness-report", "out/report.json")
    assert result.ret == 1
    result.assert_outcomes(failed=4, passed=1)  # four shapes, and the acceptances
    assert but_times(json.loads((folder.path / "out" / "report.json").read_text())) == but_times(folder.gate())


def but_times(report: dict[str, Any]) -> dict[str, Any]:
    """The report without what it suggests about timeouts, which hangs on how fast this run was."""
    kept = [sentence for sentence in report["cutover"] if not sentence.startswith("timeouts: ")]
    return {**report, "cutover": kept}


def test_a_failure_shows_the_findings_with_the_bytes_of_both_sides_and_no_traceback(
    folder: Folder, transformers: Replay
) -> None:
    folder.providers(transformers.base_url)
    result = folder.run(*GATE, "--harness-shape", "stop")
    result.stdout.fnmatch_lines([
        "stop differs: end.marker-missing, stop.text-included, usage.position",
        "  FATAL end.marker-missing",
        "    -> *",
        '    baseline at byte *: data: [[]DONE[]]',
        '    candidate at byte *: data: {"id":*"usage":{*}}',
        "  NEGOTIABLE stop.text-included",
        "  cosmetic chunk.first-content: *",
        f"  the candidate's bytes are in {folder.path}/.harness/takes/candidate/stop.sse",
        "FAILED harness::vllm->candidate::stop - Failed: stop differs: end.marker*",
    ])  # fmt: skip
    assert "Traceback" not in words(result)
    assert ".py:" not in words(result)


def test_a_candidate_that_conforms_passes_without_any_test_file(folder: Folder, vllm: Replay) -> None:
    folder.providers(vllm.base_url)
    result = folder.run(*GATE)
    assert result.ret == 0
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["vllm -> candidate: CONFORMS", "not covered by this gate:", "  shapes not run: *"])


def test_node_ids_follow_the_gate_and_select_as_others_do(folder: Folder, vllm: Replay) -> None:
    folder.providers(vllm.base_url)
    folder.pytester.makepyfile("def test_mine():\n    pass")
    ids = [f"harness::vllm->candidate::{shape}" for shape in ("text", "tool-call", "stop", "error")]
    own = "test_node_ids_follow_the_gate_and_select_as_others_do.py::test_mine"
    assert folder.run(*GATE, "--collect-only", "-q").outlines[:5] == [own, *ids]
    for selection, count in ((("-k", "harness"), 4), (("-k", "tool-call or stop"), 2), (("-m", "sse"), 4)):
        folder.run(*GATE, *selection).assert_outcomes(passed=count, deselected=5 - count)
    folder.run(*GATE, "-k", "test_mine").assert_outcomes(passed=1, deselected=4)


def test_the_shapes_asked_for_in_the_order_given(folder: Folder, vllm: Replay) -> None:
    folder.providers(vllm.base_url)
    result = folder.run(*GATE, "--harness-shape", "stop", "--harness-shape=text", "-v")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["harness::vllm->candidate::stop PASSED*", "harness::vllm->candidate::text PASSED*"])
    assert [exchange.shape for exchange in vllm.journal] == ["stop", "text"]


@EVERYWHERE
def test_not_measured_fails_unless_it_may_be_skipped(folder: Folder, workers: tuple[str, ...]) -> None:
    result = folder.run(*GATE, *workers)
    assert result.ret == 1
    result.assert_outcomes(failed=4)
    result.stdout.fnmatch_lines(["not measured: text: candidate: cannot connect to 127.0.0.1:9 (*)*"])
    result = folder.run(*GATE, "--harness-unmeasured=skip", "-rs")
    assert result.ret == 0
    result.assert_outcomes(skipped=4)
    result.stdout.fnmatch_lines(["SKIPPED*: not measured: text: candidate: cannot connect*"])
    result.stdout.fnmatch_lines(["vllm -> candidate: NOT-MEASURED"])


def test_an_unmeasured_shape_is_attempted_again(folder: Folder) -> None:
    no_call = load(FIXTURES / "vllm" / "text.sse").recording
    with Replay({"p": {"tool-call": no_call}}) as server:
        folder.providers(server.base_url)
        result = folder.run(*GATE, "--harness-shape", "tool-call", "--harness-attempts", "3")
    result.stdout.fnmatch_lines(["not measured: tool-call: answered without calling the tool"])
    assert len(server.journal) == 3


def test_a_skipped_shape_is_a_skip_with_its_reason(folder: Folder, vllm: Replay) -> None:
    folder.providers(vllm.base_url, "shapes: {stop: {skip: no stop strings here}}")
    result = folder.run(*GATE, "-rs")
    assert result.ret == 0
    result.assert_outcomes(passed=3, skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED*: stop: no stop strings here"])
    result.stdout.fnmatch_lines(["  shape stop: skipped (no stop strings here)"])


@EVERYWHERE
def test_a_run_without_evidence_does_not_pass(folder: Folder, workers: tuple[str, ...]) -> None:
    skips = ", ".join(f"{name}: {{skip: later}}" for name in CANONICAL)
    folder.providers("http://127.0.0.1:9/v1", f"shapes: {{{skips}}}")
    result = folder.run(*GATE, *workers)
    assert result.ret == 1
    result.assert_outcomes(skipped=4, failed=1)
    result.stdout.fnmatch_lines(["not measured: every shape is skipped, so nothing says that the candidate conforms"])
    result.stdout.fnmatch_lines(["vllm -> candidate: NOT-MEASURED"])
    assert folder.gate()["outcome"] == "not-measured"
    assert folder.run(*GATE, *workers, "--harness-unmeasured=skip").ret == 0, "which says that this is fine"


def test_a_recorded_candidate_needs_neither_server_nor_providers(folder: Folder) -> None:
    folder.fixtures("transformers")
    (folder.path / "providers.yaml").unlink()
    pair = ("--harness-baseline", "vllm", "--harness-candidate", "transformers")
    result = folder.run(*pair, "--harness-recorded", "--harness-report", "report.md")
    result.assert_outcomes(failed=4)
    assert "end.marker-missing" in (folder.path / "report.md").read_text()
    # Cosmetic and negotiable findings alone: what fails is the caller's to say.
    shutil.copytree(FIXTURES / "litellm", folder.path / "fixtures" / "candidate")
    for least, outcome in (("cosmetic", "failed"), ("negotiable", "failed"), ("fatal", "passed")):
        result = folder.run(*GATE, "--harness-recorded", "--harness-shape=text", "--harness-fail-on", least)
        result.assert_outcomes(**{outcome: 1})


def test_findings_that_pass_are_shown_on_demand(folder: Folder) -> None:
    shutil.copytree(FIXTURES / "litellm", folder.path / "fixtures" / "candidate")
    result = folder.run(*GATE, "--harness-recorded", "--harness-shape=text", "--harness-fail-on=fatal", "-rP")
    result.stdout.fnmatch_lines(["*Captured findings call*", "  NEGOTIABLE usage.position", "  cosmetic *"])


def test_a_changed_request_file_stops_the_run_unless_allowed(folder: Folder, vllm: Replay) -> None:
    folder.providers(vllm.base_url)
    sidecar = folder.path / "fixtures" / "vllm" / "text.json"
    value = json.loads(sidecar.read_text())
    value["request"]["shape_sha256"] = "0" * 64
    sidecar.write_text(json.dumps(value))
    result = folder.run(*GATE)
    assert result.ret == 4
    assert "re-record with `harness record vllm --shape text --replace`, or `--allow-stale`" in result.stderr.str()
    folder.run(*GATE, "--harness-allow-stale").assert_outcomes(passed=4)


def test_what_a_model_wrote_reaches_the_terminal_without_its_control_characters(folder: Folder) -> None:
    recording = load(FIXTURES / "vllm" / "text.sse").recording
    body = recording.body.replace(b'"finish_reason":"stop"', b'"finish_reason":"\\u001b[31mred\\u202e\\ud800"')
    assert body != recording.body
    with Replay({"p": {"text": msgspec.structs.replace(recording, body=body, reads=[])}}) as server:
        folder.providers(server.base_url)
        result = folder.run(*GATE, "--harness-shape=text")
    result.stdout.fnmatch_lines(["  NEGOTIABLE finish.unknown-value", "*x1b*red*"])
    assert "\x1b" not in words(result)
    assert "\u202e" not in words(result)


def test_the_report_is_written_although_the_run_stops_early(folder: Folder, transformers: Replay) -> None:
    folder.providers(transformers.base_url)
    folder.run(*GATE, "-x", "--harness-report", "report.json").assert_outcomes(failed=1)
    report = json.loads((folder.path / "report.json").read_text())
    assert [shape["shape"] for shape in report["shapes"]] == ["text"]


def test_a_report_that_cannot_be_written_fails_the_run(folder: Folder, vllm: Replay) -> None:
    folder.providers(vllm.base_url)
    (folder.path / "report.json").mkdir()
    result = folder.run(*GATE, "--harness-report", "report.json")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*report.json: the report cannot be written*"])


# -- acceptances -----------------------------------------------------------------------------------------------------

ACCEPTED = """
accept:
  - {rule: end.marker-missing, severity: fatal, reason: we stop at the finish, until: 2999-01-01}
  - {rule: usage.position, reason: counted here}
  - {rule: stop.text-included, shape: stop, reason: cut by us}
  - {rule: "*", shape: error, severity: fatal, reason: handler rewritten, until: 2999-01-01}
"""


def test_what_is_accepted_passes_and_is_shown_fatal_first(folder: Folder, transformers: Replay) -> None:
    folder.providers(transformers.base_url, ACCEPTED)
    result = folder.run(*GATE)
    assert result.ret == 0
    result.assert_outcomes(passed=5)
    result.stdout.fnmatch_lines(
        [
            "vllm -> candidate: CONFORMS",
            "  ACCEPTED FATAL end.marker-missing in text until 2999-01-01: we stop at the finish",
            "  ACCEPTED FATAL error.envelope in error until 2999-01-01: handler rewritten",
            "  accepted negotiable usage.position in text: counted here",
            "not covered by this gate:",
        ]
    )


@pytest.mark.parametrize(
    ("entry", "workers", "complaint"),
    [
        ("{rule: role.missing, reason: x}", (), "stale role.missing (all shapes): *: it no longer occurs; delete it"),
        ("{rule: role.missing, reason: x}", ("-n2",), "stale role.missing (all shapes): *it no longer occurs; *"),
        ("{rule: role.missing, shape: text, reason: x}", (), "stale role.missing (text): *it no longer occurs; *"),
        ("{rule: end.*, reason: x, until: 2020-01-01}", (), "expired end.[*] (all shapes): *its last day was 2020-*"),
    ],
    ids=["stale", "stale, xdist", "stale in one shape", "expired"],
)
def test_a_stale_or_expired_acceptance_fails_by_itself(
    folder: Folder, vllm: Replay, entry: str, workers: tuple[str, ...], complaint: str
) -> None:
    folder.providers(vllm.base_url, f"accept: [{entry}]")
    result = folder.run(*GATE, *workers, "--junitxml=junit.xml")
    assert result.ret == 1
    result.assert_outcomes(passed=4, failed=1)
    result.stdout.fnmatch_lines([
        complaint,
        "vllm -> candidate: DIFFERS",
        "acceptances that fail this gate:", f"  {complaint}",
        "FAILED harness::vllm->candidate::acceptances - Failed: *",
    ])  # fmt: skip
    junit = (folder.path / "junit.xml").read_text()
    assert 'name="acceptances"' in junit
    assert f"{complaint.split()[0]} {'end' if 'end' in entry else 'role'}." in junit
    assert '"findings"' not in junit  # what travels with the test reports is no property of theirs


@EVERYWHERE
def test_owners_are_told_and_what_is_bound_to_another_baseline_does_not_count(
    folder: Folder, transformers: Replay, workers: tuple[str, ...]
) -> None:
    bound = "{rule: %s, reason: x, baseline: dynamo, owner: Eve%s}"
    more = "\n".join(f"  - {bound % pair}" for pair in [("role.missing", ""), ("end.*", ", until: 2020-01-01")])
    entry = ACCEPTED.replace("reason: counted here", "reason: counted here, owner: Ann, baseline: vllm")
    entry = entry.replace("reason: we stop", "owner: Bob, reason: we stop") + more
    folder.fixtures("dynamo")
    folder.providers(transformers.base_url, entry + "\n  - {rule: tool.id-missing, reason: x, owner: Dee}")
    result = folder.run(*GATE, *workers, "--harness-report", "report.json")
    result.assert_outcomes(passed=4, failed=1)
    result.stdout.fnmatch_lines(
        [
            "  ACCEPTED FATAL end.marker-missing in text until 2999-01-01, owner Bob: we stop at the finish",
            "  accepted negotiable usage.position in text, owner Ann: counted here",
            "acceptances that fail this gate:",
            "  stale tool.id-missing (all shapes; owner Dee): *it no longer occurs; delete it",
        ]
    )
    assert "Eve" not in words(result)
    found = json.loads((folder.path / "report.json").read_bytes())
    assert found["acceptances"] == folder.gate()["acceptances"]


@EVERYWHERE
@pytest.mark.parametrize(
    ("entry", "selection"),
    [
        ("{rule: role.missing, reason: x}", ("-k", "text")),
        ("{rule: role.missing, reason: x}", ("--harness-shape", "text")),
        ("{rule: role.missing, shape: stop, reason: x}", ("-k", "text")),
        ("{rule: role.missing, shape: '*t*', reason: x}", ("-k", "text")),
    ],
)
def test_an_acceptance_is_not_stale_before_all_its_shapes_were_measured(
    folder: Folder, vllm: Replay, entry: str, selection: tuple[str, ...], workers: tuple[str, ...]
) -> None:
    folder.providers(vllm.base_url, f"accept: [{entry}]")
    result = folder.run(*GATE, *selection, *workers)
    assert result.ret == 0
    assert result.parseoutcomes()["passed"] == 1


@EVERYWHERE
def test_what_was_not_measured_makes_nothing_stale(folder: Folder, vllm: Replay, workers: tuple[str, ...]) -> None:
    """Of four shapes one is not measured: what is about that one as well may be needed still."""
    (folder.path / "fixtures" / "vllm" / "stop.sse").unlink()
    entries = [
        "{rule: role.missing, reason: x}", "{rule: end.marker-missing, shape: stop, reason: x}",
        "{rule: tool.id-missing, shape: 't*', reason: x}", "{rule: finish.missing, shape: error, reason: x}",
    ]  # fmt: skip
    folder.providers(vllm.base_url, f"accept: [{', '.join(entries[:2])}]")
    measured = ("--harness-unmeasured=skip", *workers)
    assert folder.run(*GATE, *measured).ret == 0
    folder.providers(vllm.base_url, f"accept: [{', '.join(entries)}]")
    result = folder.run(*GATE, *measured, "--harness-report", "report.json")
    result.assert_outcomes(passed=3, skipped=1, failed=1)
    stale = [("tool.id-missing", "t*", "stale"), ("finish.missing", "error", "stale")]
    for report in (json.loads((folder.path / "report.json").read_bytes()), folder.gate()):
        assert [(use["rule"], use["shape"], use["state"]) for use in report["acceptances"]] == stale


@EVERYWHERE
def test_a_run_that_stops_early_makes_nothing_stale_that_is_about_the_rest(
    folder: Folder, transformers: Replay, workers: tuple[str, ...]
) -> None:
    folder.providers(transformers.base_url, "accept: [{rule: role.missing, reason: x}]")
    result = folder.run(*GATE, *workers, "-x")
    assert result.ret != 0
    assert "acceptances that fail this gate" not in words(result)
    assert "::acceptances" not in words(result)


# -- usage errors ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "more", "complaint"),
    [
        (("--harness-baseline=vllm", "--harness-candidate=candidat"), "", "did you mean 'candidate'?"),
        (("--harness-baseline=vlm", "--harness-candidate=candidate"), "", "no fixtures of the baseline 'vlm'"),
        (GATE, "modle: m", "providers.candidate.modle: unknown key; did you mean 'model'?"),
        (GATE, "api_key_env: NO_SUCH_KEY", "NO_SUCH_KEY is not set"),
        ((*GATE, "--harness-shape=tolcall"), "", "no such request file, here or shipped; did you mean 'tool-call'?"),
        ((*GATE, "--harness-config=none.yaml"), "", "none.yaml: no such file"),
        ((*GATE, "--harness-report=report.txt"), "", "no report has the suffix '.txt'"),
        (GATE[:2], "", "a gate needs both --harness-baseline and --harness-candidate"),
        (GATE[2:], "", "a gate needs both --harness-baseline and --harness-candidate"),
        (("--harness-recorded",), "", "--harness-recorded: a gate needs both"),
        ((*GATE, "-n", "2", "--harness-shape=tolcall"), "", "did you mean 'tool-call'?"),  # no worker is started
    ],
)
def test_usage_errors_are_one_line_and_exit_code_4(
    folder: Folder, arguments: tuple[str, ...], more: str, complaint: str
) -> None:
    folder.providers("http://127.0.0.1:9/v1", more)
    result = folder.run(*arguments)
    assert result.ret == 4
    (line,) = [line for line in result.errlines if line]
    assert line.startswith("ERROR: ")
    assert complaint in line
    assert result.outlines == []


@pytest.mark.parametrize("value", ["0", "21", "many", "-1"])
def test_attempts_are_1_to_20(folder: Folder, value: str) -> None:
    result = folder.run(*GATE, f"--harness-attempts={value}")
    assert result.ret == 4
    assert f"'{value}' is not a number from 1 to 20" in result.stderr.str()


# -- without the options ---------------------------------------------------------------------------------------------


def test_without_its_options_the_plugin_collects_and_loads_nothing(folder: Folder) -> None:
    folder.pytester.makepyfile(
        """
        import pathlib, sys

        def test_loaded(request):
            names = sorted(sys.modules)
            name = "without" if request.config.pluginmanager.is_blocked("sse_harness") else "with"
            pathlib.Path(name).write_text("\\n".join(names))
        """
    )
    for arguments in ((), ("-p", "no:sse_harness")):
        folder.pytester.runpytest_subprocess(*arguments).assert_outcomes(passed=1)
    ours = {*(folder.path / "with").read_text().split()} - {*(folder.path / "without").read_text().split()}
    assert ours == {"harness", "harness.pytest_plugin"}
    assert folder.run("-k", "no_such_test", "--harness-unmeasured=skip").ret == 5


# -- recorded, live, structure ---------------------------------------------------------------------------------------


def test_recorded_and_live_streams_compare_by_structure(folder: Folder, transformers: Replay, vllm: Replay) -> None:
    folder.providers(vllm.url("vllm"))
    shutil.copytree(FIXTURES / "vllm", folder.path / "fixtures" / "candidate")
    result = folder.test(
        """
        import pytest
        from harness import structure

        @pytest.mark.sse(provider="candidate")
        class TestCandidate:
            @pytest.mark.sse(shape="tool-call")
            def test_the_same(self, recorded, live):
                assert structure(live) == structure(recorded)
                assert live.body == recorded.body == open("fixtures/vllm/tool-call.sse", "rb").read()
                assert recorded.message.tool_calls[0].name == "get_weather"
                assert recorded.events == live.events
                assert recorded.structure.wire == live.structure.wire
                assert (repr(live), repr(recorded)) == ("<live candidate/tool-call>", "<recorded candidate/tool-call>")
        """
    )
    result.assert_outcomes(passed=1)
    assert (folder.path / ".harness" / "takes" / "candidate" / "tool-call.sse").is_file()
    folder.providers(transformers.url("transformers"))
    result = folder.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([
        ">*assert structure(live) == structure(recorded)",
        "E*assert the structure of <live candidate/tool-call> is not that of <recorded candidate/tool-call>",
        "E*FATAL end.marker-missing: [[]DONE[]] never came*",
        "E*NEGOTIABLE usage.position: *",
    ])  # fmt: skip
    folder.run("-vv").stdout.fnmatch_lines([
        "E*FATAL end.marker-missing",
        "E*baseline at byte *: data: [[]DONE[]]",
        'E*candidate at byte *: data: {"id"*',
    ])  # fmt: skip


def test_without_a_provider_in_the_marker_the_gates_ends_are_meant(
    folder: Folder, transformers: Replay
) -> None:  # fmt: skip
    folder.providers(transformers.base_url)
    text = """
        import pytest
        from harness import structure

        @pytest.mark.sse(shape="text")
        def test_cutover(recorded, live):
            assert (repr(recorded), repr(live)) == ("<recorded vllm/text>", "<live candidate/text>")
            assert structure(live) != structure(recorded)
        """
    folder.test(text, *GATE, "-k", "cutover").assert_outcomes(passed=1, deselected=4)
    result = folder.run()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*provider is missing (or run with --harness-baseline and --harness-candidate)"])


LIVE = """
    import pytest

    @pytest.mark.sse(provider="candidate", shape="tool-call")
    def test_live(live):
        raise AssertionError("reached")
    """


@pytest.mark.parametrize(
    ("url", "more", "arguments", "complaint"),
    [
        ("http://127.0.0.1:9/v1", "", (), "cannot connect to 127.0.0.1:9 (*"),
        ("https://llm.invalid/v1", "", (), "the endpoint is not on this machine; --harness-live lets tests call it"),
        ("https://llm.invalid/v1", "api_key_env: NO_SUCH_KEY", ("--harness-live",), "*NO_SUCH_KEY is not set*"),
    ],
    ids=["no server", "not on this machine", "no key"],
)
def test_live_that_is_not_measured_fails_unless_it_may_be_skipped(
    folder: Folder, url: str, more: str, arguments: tuple[str, ...], complaint: str
) -> None:
    folder.providers(url, more)
    result = folder.test(LIVE, *arguments)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"not measured: candidate/tool-call: *{complaint}"])
    assert "another exception" not in words(result)
    folder.run(*arguments, "--harness-unmeasured=skip").assert_outcomes(skipped=1)


def test_live_may_call_another_machine_with_the_option(folder: Folder) -> None:
    folder.providers("https://llm.invalid/v1", "timeouts: {connect: 5, total: 5}")
    result = folder.test(LIVE, "--harness-live")
    result.stdout.fnmatch_lines(["not measured: candidate/tool-call: candidate: *llm.invalid*"])


def test_live_is_attempted_again_until_the_shape_is_exercised(folder: Folder) -> None:
    no_call = load(FIXTURES / "vllm" / "text.sse").recording
    with Replay({"p": {"tool-call": no_call}}) as server:
        folder.providers(server.base_url)
        result = folder.test(LIVE, "--harness-attempts=2")
    result.stdout.fnmatch_lines(["not measured: candidate/tool-call: answered without calling the tool"])
    assert len(server.journal) == 2


def test_live_of_a_skipped_shape_is_skipped(folder: Folder) -> None:
    folder.providers("http://127.0.0.1:9/v1", "shapes: {tool-call: {skip: no tools}}")
    result = folder.test(LIVE, "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED*: candidate/tool-call: no tools"])


def test_an_answer_where_the_fixture_failed_is_a_difference(folder: Folder) -> None:
    answered = load(FIXTURES / "vllm" / "text.sse").recording
    shutil.copytree(FIXTURES / "vllm", folder.path / "fixtures" / "candidate")
    with Replay({"p": {"error": answered}}) as server:
        folder.providers(server.base_url)
        result = folder.test(
            """
            import pytest
            from harness import structure

            @pytest.mark.sse(provider="candidate", shape="error")
            def test_error(live, recorded):
                assert structure(live) == structure(recorded)
            """
        )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*FATAL error.swallowed: *"])


@pytest.mark.parametrize(
    ("marker", "complaint"),
    [
        ("", "recorded needs @pytest.mark.sse(provider=..., shape=...): provider is missing*"),
        ("@pytest.mark.sse(provider='vllm')", "recorded needs *: shape is missing"),
        ("@pytest.mark.sse(provider='vllm', shape=3)", "recorded needs *: shape is missing"),
        ("@pytest.mark.sse(provder='vllm', shape='text')", "marker sse: unknown 'provder'; did you mean 'provider'?*"),
        ("@pytest.mark.sse('vllm', 'text')", "marker sse: name its values: sse(provider=..., shape=...)"),
        ("@pytest.mark.sse(provider='other', shape='text')", "*other: no fixture of text; `harness record other --sh*"),
        ("@pytest.mark.sse(provider='vlm', shape='text')", "*vlm: no fixtures of vlm; did you mean 'vllm'?"),
        ("@pytest.mark.sse(provider='../vllm', shape='text')", "'../vllm' cannot name a provider: *"),
    ],
)
def test_errors_in_the_marker_are_one_line(folder: Folder, marker: str, complaint: str) -> None:
    result = folder.test(f"import pytest\n\n{marker}\ndef test_it(recorded):\n    pass", "--strict-markers")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"*{complaint}"])
    assert "Traceback" not in words(result)
    assert "another exception" not in words(result)


def test_a_broken_fixture_is_an_error_and_an_edited_one_a_warning(folder: Folder) -> None:
    text = """
        import pytest

        @pytest.mark.sse(provider="vllm", shape="text")
        def test_it(recorded):
            pass
        """
    body = folder.path / "fixtures" / "vllm" / "text.sse"
    body.write_bytes(body.read_bytes() + b"\n")
    result = folder.test(text)
    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(["*not the bytes that text.json describes*"])
    body.with_suffix(".json").write_text('{"format": "sse-harness/1", "end": "nonsense"}')
    result = folder.run()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*text.json: end is 'nonsense'*"])


# -- quirks ----------------------------------------------------------------------------------------------------------


def test_four_lines_run_every_quirk_against_ones_own_code(folder: Folder) -> None:
    (folder.path / "mine.py").write_text("from harness.targets import reference as accumulate")
    result = folder.test(
        """
        from mine import accumulate

        def test_accumulate(sse_quirk):
            assert sse_quirk.differences(lambda body: accumulate(body, sse_quirk.dialect)) == []
        """,
        "-q",
    )
    result.assert_outcomes(passed=len(list((FIXTURES.parent / "harness" / "quirks").glob("*.sse"))))


def test_quirks_of_the_markers_dialects_in_the_order_of_their_names(folder: Folder) -> None:
    text = """
        import pytest

        @pytest.mark.sse(dialect=["gemini", "ollama"])
        def test_it(sse_quirk):
            assert sse_quirk.dialect in ("gemini", "ollama")
            assert b"".join(sse_quirk.pieces(7)) == sse_quirk.body
            assert {len(piece) for piece in sse_quirk.pieces(7)[:-1]} == {7}
            assert sse_quirk.expect["terminal"] and sse_quirk.verdict and sse_quirk.fault
            assert repr(sse_quirk) == f"<quirk {sse_quirk.name}>"
        """
    result = folder.test(text, "-v")
    quirks = sorted((FIXTURES.parent / "harness" / "quirks").glob("*.json"))
    names = [path.stem for path in quirks if json.loads(path.read_text())["family"] in ("gemini", "ollama")]
    result.assert_outcomes(passed=len(names))
    result = folder.test(text.replace("gemini", "gemni"))
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*::test_it: marker sse: no quirks of dialect gemni; there are some of: anthropic, *"])


def test_the_bodies_of_recordings_without_a_sidecar_are_streams_too(folder: Folder) -> None:
    (folder.path / "fixtures" / "vllm" / "text.json").unlink()
    result = folder.test(
        """
        import pytest

        @pytest.mark.sse(provider="vllm", shape="text")
        def test_it(recorded):
            assert recorded.dialect == "chat" and recorded.message.terminal == "done"
        """
    )
    result.assert_outcomes(passed=1)


# -- docs/pytest.md --------------------------------------------------------------------------------------------------

DOCS = (FIXTURES.parent / "docs" / "pytest.md").read_text("utf-8")
MY_AGENT = """
import msgspec

from harness import reduce
from harness.detect import detect

def accumulate(pieces):
    body = b"".join(pieces)
    try:
        dialect = detect(body)
    except Exception:
        dialect = "chat"
    return msgspec.to_builtins(reduce(body, dialect).message())
"""


def test_the_examples_in_the_docs_run(folder: Folder, vllm: Replay) -> None:
    folder.fixtures("openai")
    folder.providers(vllm.base_url)
    shutil.copytree(FIXTURES / "vllm", folder.path / "fixtures" / "candidate")
    (folder.path / "my_agent.py").write_text(MY_AGENT)
    examples = re.findall("```python\n(.*?)```", DOCS, re.DOTALL)
    for number, example in enumerate(examples):
        (folder.path / f"test_example_{number}.py").write_text(example)
    result = folder.run("--strict-markers", "-q")
    assert result.ret == 0, words(result)
    assert {line.split("::")[0] for line in folder.run("--collect-only", "-q").outlines if "::" in line} == {
        f"test_example_{number}.py" for number in range(len(examples))
    }


def test_every_option_is_in_the_docs_and_in_the_help(folder: Folder) -> None:
    shown = set(re.findall("--harness-[a-z-]+", folder.run("--help").stdout.str()))
    assert set(re.findall("--harness-[a-z-]+", DOCS)) == shown
    folder.run("--markers").stdout.fnmatch_lines(["@pytest.mark.sse(provider, shape, dialect, fault): *"])
