"""The action and the nightly workflow do what they say: their scripts run here, against servers of this host."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest
import yaml
from reading import CANONICAL, FIXTURES, ROOT
from servers import Scripted, json_answer

from harness.cli import harness as command_line
from harness.errors import Exit
from harness.replay import Replay
from harness.reports import FORMS

ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
NIGHTLY: dict[str, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / "nightly.yml").read_text("utf-8"))


class Ran(NamedTuple):
    """How a step ended: exit code, what it logged, and its outputs."""

    code: int
    log: str
    outputs: dict[str, str]


def steps() -> list[dict[str, Any]]:
    jobs = [job for path in WORKFLOWS for job in yaml.safe_load(path.read_text("utf-8"))["jobs"].values()]
    return [*ACTION["runs"]["steps"], *(step for job in jobs for step in job["steps"])]


def step(of: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """The step with that id or name."""
    return next(found for found in of if name in (found.get("id"), found.get("name")))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with the fixtures of `old`; on PATH this harness, and a `gh` that writes down what it is told."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bin").mkdir()
    commands = {
        "harness": f'exec {sys.executable} -c "from harness.cli import main; main()" "$@"',
        "python": f'exec {sys.executable} "$@"',
        "gh": f'printf "%s\\n" "$@" >> {tmp_path}/gh.txt; cp drift.md {tmp_path}/gh.md',
    }
    for name, line in commands.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{line}\n", "utf-8")
        (tmp_path / "bin" / name).chmod(0o755)
    work = tmp_path / "work"
    (work / "fixtures" / "old").mkdir(parents=True)
    for shape in CANONICAL:
        (work / "fixtures" / "old" / f"{shape}.sse").write_bytes((FIXTURES / "vllm" / f"{shape}.sse").read_bytes())
    monkeypatch.chdir(work)
    return tmp_path


def run(folder: Path, script: str, **variables: str) -> Ran:
    """Run a step's script as GitHub's runner does."""
    outputs, summary = folder / "outputs.txt", folder / "summary.md"
    outputs.write_text("", "utf-8")
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script], capture_output=True, text=True, timeout=120,
        env={**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT),
             "GITHUB_OUTPUT": str(outputs), "GITHUB_STEP_SUMMARY": str(summary), "GIT_CONFIG_GLOBAL": os.devnull,
             **variables},
    )  # fmt: skip
    found = dict(line.split("=", 1) for line in outputs.read_text("utf-8").splitlines())
    return Ran(done.returncode, done.stdout + done.stderr, found)


def configure(**urls: str) -> None:
    providers = {
        name: {"dialect": "chat", "model": "tiny", "base_url": url, "api_key_env": "OLD_KEY"}
        for name, url in urls.items()
    }
    Path("providers.yaml").write_text(yaml.safe_dump({"providers": providers}), "utf-8")


# -- what holds for all of them -----------------------------------------------------------------------------------


def test_no_script_is_put_together_from_what_others_write() -> None:
    for found in steps():
        assert "${{" not in found.get("run", ""), "pass it as a variable, under `env`"


def test_actions_of_others_are_pinned_to_a_version() -> None:
    for found in steps():
        used = found.get("uses", "actions/checkout@v4")
        known = r"(actions/[a-z-]+|github/codeql-action/upload-sarif)@v\d+|pypa/gh-action-pypi-publish@release/v\d+"
        assert re.fullmatch(known, used)


def test_workflows_say_what_they_may_do_and_end_by_themselves() -> None:
    for path in WORKFLOWS:
        workflow = yaml.safe_load(path.read_text("utf-8"))
        assert workflow["permissions"], path
        assert all(job["timeout-minutes"] <= 30 for job in workflow["jobs"].values()), path


def test_the_action_declares_what_it_uses() -> None:
    used = set(re.findall(r"inputs\.([a-z-]+)", (ROOT / "action.yml").read_text("utf-8")))
    assert used == set(ACTION["inputs"])
    assert {"baseline", "candidate", "shapes", "report"} <= used
    required = {name for name, given in ACTION["inputs"].items() if given.get("required")}
    assert required == {name for name, given in ACTION["inputs"].items() if "default" not in given}
    given = {f"${{{{ inputs.{name} }}}}" for name in used - {"sarif"}}
    assert set(step(ACTION["runs"]["steps"], "gate")["env"].values()) == given


def test_code_scanning_is_told_only_when_it_is_asked_for() -> None:
    (upload,) = (found for found in ACTION["runs"]["steps"] if "upload-sarif" in found.get("uses", ""))
    assert "inputs.sarif == 'true'" in upload["if"]
    assert ACTION["inputs"]["sarif"]["default"] == "false", "it needs a permission that not every job has"
    assert upload["with"]["sarif_file"] == "${{ inputs.report }}/gate.sarif"
    assert "security-events: write" in DOCS


# -- the action ---------------------------------------------------------------------------------------------------

GATE: str = step(ACTION["runs"]["steps"], "gate")["run"]
DEFAULTS = {name.upper(): given.get("default", "") for name, given in ACTION["inputs"].items()}


def gate(folder: Path, server: Replay | Scripted, **inputs: str) -> Ran:
    configure(new=server.base_url if isinstance(server, Replay) else server.url)
    return run(folder, GATE, **{**DEFAULTS, "BASELINE": "old", "CANDIDATE": "new", "OLD_KEY": "k" * 20, **inputs})


def test_a_candidate_that_conforms(folder: Path) -> None:
    with Replay(FIXTURES / "vllm") as server:
        done = gate(folder, server)
    assert (done.code, done.outputs) == (0, {"outcome": "conforms"})
    assert done.log == "::notice title=old -> new::conforms\n"
    assert sorted(path.name for path in Path("harness-report").iterdir()) == [
        "gate.html", "gate.json", "gate.md", "gate.sarif", "gate.xml",
    ]  # fmt: skip
    assert (folder / "summary.md").read_bytes() == Path("harness-report/gate.md").read_bytes()


def test_a_candidate_that_differs_in_the_shapes_that_are_asked_for(folder: Path) -> None:
    with Replay(FIXTURES / "transformers") as server:
        done = gate(folder, server, SHAPES="text, stop", REPORT="out")
        assert [exchange.shape for exchange in server.journal] == ["text", "stop"]
    assert (done.code, done.outputs) == (1, {"outcome": "differs"})
    assert "::error title=fatal end.marker-missing (stop)::" in done.log
    assert [shape["shape"] for shape in json.loads(Path("out/gate.json").read_bytes())["shapes"]] == ["text", "stop"]


def test_a_candidate_that_cannot_be_measured(folder: Path) -> None:
    with Scripted(json_answer(401, {"error": "who?"})) as server:
        done = gate(folder, server, SHAPES="text", ATTEMPTS="2")
        assert len(server.requests) == 2
    assert (done.code, done.outputs) == (3, {"outcome": "not-measured"})
    assert "::warning title=text not measured::HTTP 401" in done.log


def test_inputs_that_make_no_sense_end_with_a_line_and_run_nothing(folder: Path) -> None:
    with Replay(FIXTURES / "vllm") as server:
        for inputs, says in (
            ({"BASELINE": "--help"}, "no fixtures of the baseline '--help'"),
            ({"SHAPES": "$(touch hacked) *"}, "cannot name a shape"),
            ({"CANDIDATE": "; touch hacked"}, "no provider '; touch hacked'"),
            ({"CONFIG": "nowhere.yaml"}, "nowhere.yaml: no such file"),
        ):
            done = gate(folder, server, **inputs)
            assert (done.code, done.outputs) == (2, {"outcome": ""})
            assert says in done.log
    assert not Path("hacked").exists()
    assert not (folder / "summary.md").exists(), "nothing of an earlier run is told"


# -- the nightly workflow -----------------------------------------------------------------------------------------

DRIFT = NIGHTLY["jobs"]["drift"]
COMPARE: str = step(DRIFT["steps"], "compare")["run"]
RECORD: str = step(DRIFT["steps"], "Record again and open a pull request")["run"]
NAMES = {"PROVIDER": "old", "KEY_NAME": "OLD_KEY"}


def git(*arguments: str) -> str:
    return subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main", *arguments],
        capture_output=True, text=True, check=True, env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull},
    ).stdout  # fmt: skip


def test_each_provider_is_in_providers_yaml_with_the_key_it_names() -> None:
    known = yaml.safe_load((ROOT / "providers.yaml").read_text("utf-8"))["providers"]
    for entry in DRIFT["strategy"]["matrix"]["include"]:
        assert known[entry["provider"]]["api_key_env"] == entry["key"]
        assert (ROOT / "fixtures" / entry["provider"]).is_dir()


def test_without_its_secret_a_provider_is_left_out(folder: Path) -> None:
    done = run(folder, COMPARE, KEY="", **NAMES)
    assert (done.code, done.outputs) == (0, {})
    assert done.log == "::notice title=old::no secret OLD_KEY, so nothing is compared\n"


def test_nothing_is_done_about_a_provider_that_streams_as_before_or_is_down(folder: Path) -> None:
    with Replay(FIXTURES / "vllm") as server:
        configure(old=server.base_url)
        same = run(folder, COMPARE, KEY="k" * 20, **NAMES)
    assert (same.code, same.outputs) == (0, {})
    with Scripted(json_answer(404, {"error": "gone"})) as down:
        configure(old=down.url)
        missed = run(folder, COMPARE, KEY="k" * 20, **NAMES)
    assert (missed.code, missed.outputs) == (0, {})
    assert "::warning title=text not measured::HTTP 404" in missed.log
    Path("providers.yaml").write_text("providers: [", "utf-8")
    assert run(folder, COMPARE, KEY="k" * 20, **NAMES).code == 2


def test_a_provider_that_drifted_is_recorded_again_and_a_diff_is_opened(folder: Path) -> None:
    with Replay(FIXTURES / "transformers") as server:
        configure(old=server.base_url)
        Path(".gitignore").write_text(".harness/\ndrift.*\n", "utf-8")
        git("init", "--bare", str(folder / "origin"))
        for arguments in (["init"], ["add", "."], ["commit", "-m", "fixtures"]):
            git(*arguments)
        git("remote", "add", "origin", str(folder / "origin"))
        compared = run(folder, COMPARE, KEY="k" * 20, **NAMES)
        assert (compared.code, compared.outputs) == (0, {"shapes": "text tool-call stop error"})
        for night in (1, 2):
            done = run(folder, RECORD, KEY="k" * 20, SHAPES="text stop", GH_TOKEN="t", **NAMES)
            assert done.code == 0, done.log
            told = (folder / "gh.txt").read_text("utf-8").splitlines()
            assert told[-8:] == [
                "pr", "create", "--head", "drift/old", "--title", "old streams differently: text stop", "--body-file",
                "drift.md",
            ]  # fmt: skip
            assert len(told) == 8 * night, "one that is open is brought up to date"
            git("switch", "main")
    changed = git("diff", "--name-only", "main", "origin/drift/old").split()
    recorded = [f"fixtures/old/{shape}.{kind}" for shape in ("stop", "text") for kind in ("json", "sse")]
    assert changed == sorted([*recorded, *(f"fixtures/old/{shape}.expected.json" for shape in CANONICAL)])
    diff = git("diff", "main", "origin/drift/old", "--", "fixtures/old/text.expected.json")
    assert '+    "wire.end.marker = absent"' in diff
    assert (folder / "gh.md").read_text("utf-8").startswith("# ❌ differs: old → old\n")
    assert "k" * 20 not in git("log", "-p", "origin/drift/old")


def test_what_is_no_good_take_is_no_diff(folder: Path) -> None:
    with Scripted(json_answer(429, {"error": "slow down"}, retry_after="0")) as server:
        configure(old=server.url)
        Path(".gitignore").write_text(".harness/\ndrift.*\n", "utf-8")
        git("init")
        for shape in CANONICAL:
            subprocess.run([str(folder / "bin" / "harness"), "expect", "--write", f"fixtures/old/{shape}.sse",
                            "--dialect", "chat"], check=True, capture_output=True)  # fmt: skip
        git("add", ".")
        git("commit", "-m", "fixtures")
        done = run(folder, RECORD, KEY="k" * 20, SHAPES="text", GH_TOKEN="t", **NAMES)
    assert done.code == 0
    assert "::warning title=old::drifted (text), but no good take could be recorded" in done.log
    assert not (folder / "gh.txt").exists()


# -- docs/ci.md ---------------------------------------------------------------------------------------------------

DOCS = (ROOT / "docs" / "ci.md").read_text("utf-8")


def test_the_workflow_in_the_docs_uses_the_action_as_it_is() -> None:
    blocks = re.findall("```yaml\n(.*?)```", DOCS, re.DOTALL)
    assert len(blocks) == 2, "docs/ci.md has two yaml blocks: GitHub's workflow, then GitLab's; write others as text"
    github, gitlab = map(yaml.safe_load, blocks)
    given = github["jobs"]["gate"]["steps"][1]["with"]
    required = {name for name, entry in ACTION["inputs"].items() if entry.get("required")}
    assert required <= set(given) <= set(ACTION["inputs"])
    for name in ACTION["inputs"]:
        assert f"`{name}`" in DOCS or name in given
    assert gitlab["gate"]["allow_failure"] == {"exit_codes": int(Exit.NOT_MEASURED)}
    written = re.findall(r"--report (\S+)", gitlab["gate"]["script"][1])
    assert {gitlab["gate"]["artifacts"]["reports"]["junit"], *gitlab["gate"]["artifacts"]["paths"]} == set(written)


def test_the_commands_in_the_docs_exist() -> None:
    """Those in policy.md run in test_story.py."""
    scripts = "\n".join([DOCS, GATE, COMPARE, RECORD])
    lines = re.findall(r"(?:^|[\s/'])harness ([a-z]+ [^\n']*)", scripts)
    assert {line.partition(" ")[0] for line in lines} == {"gate", "record", "expect"}
    context = click.Context(command_line)
    for line in lines:
        verb, _, rest = line.partition(" ")
        command = command_line.get_command(context, verb)
        assert command is not None, line
        known = {option for parameter in command.params for option in parameter.opts}
        assert set(re.findall(r"(?<!\S)--[a-z-]+", rest)) <= known, line
    for suffix in FORMS:
        assert f"`{suffix}`" in DOCS


def test_the_exit_codes_in_the_docs_are_those() -> None:
    rows = dict(re.findall(r"^\| (\d) \| ([a-z ,]+) \|", DOCS, re.MULTILINE))
    names = {Exit.CONFORMS: "conforms", Exit.DIFFERS: "differs", Exit.USAGE: "usage or configuration",
             Exit.NOT_MEASURED: "not measured, nothing differs"}  # fmt: skip
    assert rows == {str(int(code)): name for code, name in names.items()}
