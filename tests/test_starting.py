"""`harness init`: what it writes can be used as it is, and what was there before stays as it was."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from commandline import COMMAND, harness
from reading import CANONICAL, FIXTURES, ROOT

from harness.config import load_project
from harness.presets import presets
from harness.replay import Replay


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def record(name: str = "openai", source: str = "vllm") -> None:
    """Fixtures, as if recorded."""
    Path("fixtures", name).mkdir(parents=True)
    for shape in CANONICAL:
        shutil.copy(FIXTURES / source / f"{shape}.sse", Path("fixtures", name))


def pytest_run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-W", "error", *arguments],
        capture_output=True, text=True, timeout=120, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False,
    )  # fmt: skip


def test_without_options_it_is_openai_and_a_candidate(folder: Path) -> None:
    done = harness("init")
    assert (done.code, done.err) == (0, "")
    assert "wrote providers.yaml\nwrote requests/chat/error.json\n" in done.out
    project = load_project(None, folder)
    assert list(project.providers) == ["openai", "candidate"]
    assert project.provider("openai").resolve({"OPENAI_API_KEY": "k" * 20}).base_url == "https://api.openai.com/v1"
    assert project.provider("candidate").resolve({}).base_url == "http://127.0.0.1:8080/v1"
    assert done.out[done.out.index("Next:") :].splitlines() == [
        "Next:",
        "  export OPENAI_API_KEY=...   # openai",
        "  export CANDIDATE_URL=...   # candidate, else http://127.0.0.1:8080/v1",
        "  export CANDIDATE_MODEL=...   # candidate, else local",
        "  harness doctor",
        "  harness record openai",
        "  harness gate openai candidate --report report.json",
        '  harness accept report.json --rule usage.position --reason "..." --write',
    ]


def test_quietly_it_tells_what_it_wrote_and_no_more() -> None:
    done = harness("init", "--quiet")
    assert done.code == 0
    assert done.out.splitlines()[-1] == "wrote .gitattributes"


def test_two_presets_of_two_dialects(folder: Path) -> None:
    done = harness("init", "--baseline", "openai", "--candidate", "anthropic", "--provider", "azure")
    assert done.code == 0
    assert list(load_project(None, folder).providers) == ["openai", "anthropic", "azure"]
    assert {path.name for path in Path("requests").iterdir()} == {"chat", "anthropic"}
    assert "harness gate openai anthropic" in done.out
    assert re.findall(r"export (\w+)", done.out) == [
        "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "AZURE_OPENAI_API_KEY", "AZURE_RESOURCE_NAME", "AZURE_DEPLOYMENT",
    ]  # fmt: skip


def test_every_comment_of_an_option_can_be_taken_away(folder: Path) -> None:
    assert harness("init").code == 0
    text = re.sub(r"^    # (?=[a-z]| )", "    ", Path("providers.yaml").read_text("utf-8"), flags=re.MULTILINE)
    Path("providers.yaml").write_text(text, "utf-8")
    provider = load_project(None, folder).provider("candidate")
    assert provider.api_key_env == "CANDIDATE_API_KEY"
    assert (provider.parallel, provider.caps.requests, len(provider.accept)) == (4, 40, 1)


def test_what_is_there_stays_as_it_is() -> None:
    mine = {
        "providers.yaml": "providers:\n  mine: {dialect: chat, base_url: 'http://127.0.0.1:1/v1', model: m}\n",
        "requests/chat/text.json": "{}", "tests/test_streams.py": "", ".github/workflows/harness-gate.yml": "name: x\n",
        ".gitignore": "*.pyc\n/.harness/\n", ".gitattributes": "*.png binary",
    }  # fmt: skip
    for name, text in mine.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text, "utf-8")
    done = harness("init", "--candidate", "groq")
    assert done.code == 0
    for name, text in mine.items():
        if name == ".gitattributes":
            assert Path(name).read_text("utf-8") == f"{text}\n*.sse -text\n"
            assert f'added {name} (the line "*.sse -text")' in done.out
        else:
            assert Path(name).read_text("utf-8") == text
            assert f"kept  {name}\n" in done.out
    assert "providers.yaml was there before; add to it, under `providers:`:\n" in done.out
    lines = done.out[done.out.index("`providers:`:\n") + 14 : done.out.index("\nNext:")]
    Path("providers.yaml").write_text(mine["providers.yaml"] + lines, "utf-8")
    assert list(load_project(None, Path.cwd()).providers) == ["mine", "openai", "groq"]


def test_a_second_time_everything_is_kept_and_nothing_is_to_be_added() -> None:
    assert harness("init").code == 0
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    done = harness("init")
    assert done.code == 0
    assert {line.split()[0] for line in done.out[: done.out.index("\nNext:")].splitlines()} == {"kept"}
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before


def test_below_a_repository_no_workflow_is_written() -> None:
    Path(".git").mkdir()
    Path("part").mkdir()
    os.chdir("part")
    done = harness("init")
    assert done.code == 0
    assert "left out .github/workflows/harness-gate.yml (not the repository's root" in done.out
    assert not Path(".github").exists()


@pytest.mark.parametrize("blocked", ["requests", "tests", ".github", ".gitignore"])
def test_a_folder_that_cannot_be_written_to_is_told_in_one_line(blocked: str) -> None:
    """A file where a folder belongs stops every user, root as well."""
    if blocked == ".gitignore":
        Path(blocked).mkdir()
    else:
        Path(blocked).write_text("", "utf-8")
    message = harness("init").failed(2)
    assert str(Path.cwd() / blocked) in message
    assert "cannot be written" in message


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(["--candidate", "grok"], "grok: no such preset; did you mean 'groq'? `harness init --list` shows them"),
     (["--provider", "nobody-knows"], "nobody-knows: no such preset; `harness init --list`"),
     (["--dialect", "chta"], "chat")],
)  # fmt: skip
def test_what_is_not_known_is_told_and_nothing_is_written(arguments: list[str], says: str) -> None:
    assert says in harness("init", *arguments).failed(2)
    assert list(Path().iterdir()) == []


def test_the_list_names_every_preset_and_its_key() -> None:
    done = harness("init", "--list")
    head, *rows = done.out.splitlines()
    assert head.split() == ["preset", "dialect", "key", "endpoint"]
    assert [row.split()[:3] for row in rows] == [
        [name, one.dialect, one.api_key_env or "-"] for name, one in presets().items()
    ]
    assert list(Path().iterdir()) == []


WAY = ["demo", "init", "export OPENAI_API_KEY", "doctor", "record openai", "gate openai candidate",
       "accept report.json"]  # fmt: skip
"""From nothing to what a team can live with: in these words wherever it is told."""


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md", "docs/ci.md"])
def test_the_way_is_the_same_everywhere(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    if page == "README.md":
        text = text[text.index("## Gate a cutover") :]
    if page == "docs/tutorial.md":
        text = text[text.index("## 6. Your own endpoints") :]
    told = [step for step in WAY if step != "demo" or page != "docs/tutorial.md"]
    if page == "docs/ci.md":
        text = text.replace("export the key", "export OPENAI_API_KEY")
        told.remove("doctor")
    where = [text.index(step if step.startswith("export") else f"harness {step}") for step in told]
    assert where == sorted(where)
    printed = harness("init").out
    steps = [step if step.startswith("export") else f"  harness {step}" for step in WAY[2:]]
    assert [printed.index(step) for step in steps] == sorted(printed.index(step) for step in steps)


# -- what is written, used ----------------------------------------------------------------------------------------


def test_the_sample_test_skips_until_there_are_fixtures_and_then_passes() -> None:
    assert harness("init").code == 0
    fresh = pytest_run("-rs")
    assert (fresh.returncode, "2 skipped" in fresh.stdout) == (0, True), fresh.stdout
    assert "not measured: `harness record openai` comes first" in fresh.stdout
    record()
    measured = pytest_run()
    assert (measured.returncode, "2 passed" in measured.stdout) == (0, True), measured.stdout


def test_the_sample_test_fails_on_a_stream_that_breaks_an_application() -> None:
    assert harness("init").code == 0
    record()
    body = Path("fixtures/openai/text.sse").read_bytes()
    Path("fixtures/openai/text.sse").write_bytes(body[: len(body) // 2])
    assert "1 failed, 1 passed" in pytest_run().stdout


@pytest.mark.parametrize(("candidate", "code"), [("vllm", 0), ("transformers", 1)])
def test_the_workflow_gates(candidate: str, code: int) -> None:
    assert harness("init").code == 0
    workflow: dict[str, Any] = yaml.safe_load(Path(".github/workflows/harness-gate.yml").read_text("utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    steps = workflow["jobs"]["gate"]["steps"]
    assert all("${{" not in step.get("run", "") for step in steps)
    assert all(re.fullmatch(r"actions/[a-z-]+@v\d+", step["uses"]) for step in steps if "uses" in step)
    (gate,) = (step for step in steps if step.get("run", "").startswith("harness "))
    assert gate["env"] == {name: f"${{{{ vars.{name} }}}}" for name in ("CANDIDATE_URL", "CANDIDATE_MODEL")}
    record()
    Path("bin").mkdir()
    Path("bin/harness").write_text(f"#!/bin/sh\nexec {COMMAND[0]} -c '{COMMAND[2]}' \"$@\"\n", "utf-8")
    Path("bin/harness").chmod(0o755)
    with Replay(FIXTURES / candidate) as server:
        done = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", gate["run"]], capture_output=True, text=True, timeout=60, check=False,
            env={**os.environ, "PATH": f"{Path.cwd() / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT),
                 "CANDIDATE_URL": server.base_url, "CANDIDATE_MODEL": ""},
        )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    assert sorted(path.name for path in Path("report").iterdir()) == ["gate.html", "gate.xml"]


def test_the_workflow_installs_what_it_is_told_and_no_package_by_its_name_alone() -> None:
    said = harness("init").out
    assert "wrote .github/workflows/harness-gate.yml (SSE_HARNESS at its top is yours to fill in" in said
    workflow: dict[str, Any] = yaml.safe_load(Path(".github/workflows/harness-gate.yml").read_text("utf-8"))
    assert workflow["env"] == {"SSE_HARNESS": ""}
    (install,) = (step["run"] for step in workflow["jobs"]["gate"]["steps"] if "pip install" in step.get("run", ""))
    Path("bin").mkdir()
    Path("bin/python").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n', "utf-8")
    Path("bin/python").chmod(0o755)

    def installed(what: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-eo", "pipefail", "-c", install], capture_output=True, text=True, timeout=60, check=False,
            env={**os.environ, "PATH": f"{Path.cwd() / 'bin'}:{os.environ['PATH']}", "SSE_HARNESS": what},
        )  # fmt: skip

    unset = installed("")
    assert unset.returncode != 0
    assert unset.stdout == ""
    assert "SSE_HARNESS: is empty, say at the top of this workflow what to install" in unset.stderr
    assert installed("./wheels/x y.whl").stdout.splitlines() == ["-m", "pip", "install", "./wheels/x y.whl"]


def test_no_page_installs_the_package_by_its_name_alone() -> None:
    for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "harness").rglob("*.py")]:
        assert "pip install sse-harness" not in path.read_text("utf-8"), path


def test_a_providers_yaml_that_cannot_be_read_is_told() -> None:
    Path("providers.yaml").write_text("providers: [\n", "utf-8")
    done = harness("init")
    assert done.code == 0
    first = done.out.splitlines()[0]
    assert first.startswith("kept  providers.yaml (it cannot be read: line 2, column 1: ")
    assert first.endswith("; mend it, then init again)")
    assert "add to it" not in done.out


def test_the_workflow_takes_keys_from_secrets() -> None:
    assert harness("init", "--candidate", "azure").code == 0
    text = Path(".github/workflows/harness-gate.yml").read_text("utf-8")
    assert "AZURE_OPENAI_API_KEY: ${{ secrets.AZURE_OPENAI_API_KEY }}" in text
    assert "AZURE_DEPLOYMENT: ${{ vars.AZURE_DEPLOYMENT }}" in text
