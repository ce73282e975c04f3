"""README and the other pages hold: commands exist, what can run runs, links lead somewhere, the sample is real."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest
from commandline import harness
from reading import CANONICAL, FIXTURES, ROOT

from harness.cli import harness as command_line

README = (ROOT / "README.md").read_text("utf-8")
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
NAMES = [str(path.relative_to(ROOT)) for path in PAGES]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`harness ([a-z][^`]*)`")


def commands(page: str) -> Iterator[list[str]]:
    """The words behind `harness` of every command in the page's blocks, as a shell takes them."""
    for language, text in FENCE.findall(page):
        if language not in ("sh", "console", "bash", ""):
            continue
        for line in text.replace("\\\n", " ").splitlines():
            if language == "console" and not line.startswith("$ "):
                continue
            command = line.removeprefix("$ ")
            if command.startswith(("harness ", "sse-harness ")):
                words = shlex.split(command, comments=True)
                yield words[1 : words.index("&")] if "&" in words else words[1:]


def verb(words: list[str]) -> click.Command | None:
    return command_line.get_command(click.Context(command_line), words[0])


def unknown(words: list[str]) -> list[str]:
    """What of a command does not exist: the verb, or options of it."""
    found = verb(words)
    if found is None:
        return [words[0]]
    words = words[: words.index("--")] if "--" in words else words
    options = {text for option in found.params if isinstance(option, click.Option) for text in option.opts}
    given = [word.partition("=")[0] for word in words[1:] if word.startswith("--")]
    return [option for option in given if option not in options | {"--help"}]


@cache
def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    text = FENCE.sub("", path.read_text("utf-8"))
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    plain = [LINK.sub("", heading).lower().replace(" ", "-") for heading in headings]
    return {re.sub(r"[^\w-]", "", heading) for heading in plain}


@pytest.mark.parametrize("name", NAMES)
def test_every_command_that_a_page_shows_exists(name: str) -> None:
    page = (ROOT / name).read_text("utf-8")
    wrong = {" ".join(words): missing for words in commands(page) if (missing := unknown(words))}
    assert wrong == {}


@pytest.mark.parametrize("name", NAMES)
def test_every_command_in_a_sentence_exists(name: str) -> None:
    page = FENCE.sub("", (ROOT / name).read_text("utf-8"))
    wrong = {}
    for text in CODE.findall(page):
        words = text.replace("\n", " ").split()
        if words[0] in command_line.list_commands(click.Context(command_line)) and (missing := unknown(words)):
            wrong[text] = missing
        elif verb(words) is None and words[0] != "harness":
            wrong[text] = words[:1]
    assert wrong == {}


def test_a_command_that_does_not_exist_is_seen() -> None:
    page = "```sh\nharness gate a b --nonsense\nharness dance # a verb\nharness check -- run --jsonl\n```\n"
    assert [unknown(words) for words in commands(page)] == [["--nonsense"], ["dance"], []]


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_somewhere(name: str) -> None:
    page = ROOT / name
    broken = []
    for link in LINK.findall(FENCE.sub("", page.read_text("utf-8"))):
        if link.startswith(("https://", "http://", "mailto:")):
            continue
        target, _, anchor = link.partition("#")
        path = (page.parent / target) if target else page
        if not path.exists() or (anchor and path.suffix == ".md" and anchor not in anchors(path)):
            broken.append(link)
    assert broken == []


def test_the_index_names_every_page_and_every_schema() -> None:
    linked = set(LINK.findall((ROOT / "docs" / "README.md").read_text("utf-8")))
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}
    schemas = {f"schema/{path.name}" for path in (ROOT / "docs" / "schema").iterdir()}
    assert (pages | schemas) - linked == set()


@pytest.mark.parametrize("marker", ["demo-command", "test-command"])
def test_the_marked_commands_are_found_as_ci_finds_them(marker: str) -> None:
    (line,) = re.findall(r"^readme\(\) .*$", (ROOT / ".ci" / "run").read_text("utf-8"), re.MULTILINE)
    done = subprocess.run(
        ["bash", "-euc", f"{line}\nreadme {marker}"], cwd=ROOT, capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout.startswith("python3 -m venv .venv && .venv/bin/pip install ")
    assert done.stdout.count("\n") == 1, "one line that can be pasted"
    block = re.search(rf"<!-- {marker} -->\n```sh\n(.*?)```", README, re.DOTALL)
    assert block is not None
    assert block[1] == done.stdout


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what the README's commands name: fixtures of `openai` and `candidate`, two files."""
    for name, source in (("openai", "vllm"), ("candidate", "transformers")):
        folder = tmp_path / "fixtures" / name
        folder.mkdir(parents=True)
        for shape in CANONICAL:
            shutil.copy(FIXTURES / source / f"{shape}.sse", folder)
    shutil.copy(FIXTURES / "vllm" / "text.sse", tmp_path / "old.sse")
    shutil.copy(FIXTURES / "transformers" / "text.sse", tmp_path / "new.sse")
    monkeypatch.chdir(tmp_path)
    return tmp_path


RUN = {"init": 0, "show": 0, "lint": 1, "diff": 1, "rules": 0}
"""The verbs of README that need no network and no key, and the exit code on the fixtures of `project`."""


def test_what_needs_no_network_runs(project: Path) -> None:
    ran = []
    for words in commands(README):
        if words[0] in RUN:
            done = harness(*(found for word in words for found in (sorted(map(str, project.glob(word))) or [word])))
            assert done.code == RUN[words[0]], (words, done)
            assert done.out
            ran.append(words[0])
    assert set(ran) == set(RUN)


def test_the_fault_that_the_readme_names_is_listed() -> None:
    (fault,) = [words[words.index("--fault") + 1] for words in commands(README) if "--fault" in words]
    done = harness("replay", "--list-faults")
    assert done.code == 0
    assert fault in [re.split(r"[\[: ]", line)[0] for line in done.out.splitlines()]


def test_the_rules_that_the_readme_names_exist() -> None:
    named = [words[words.index("--rule") + 1] for words in commands(README) if "--rule" in words]
    assert named
    assert [harness("rules", code).code for code in named] == [0] * len(named)


def test_the_sample_report_is_what_the_demo_prints() -> None:
    sample = FENCE.findall(README[README.index("## What it says") :])[0][1].splitlines()
    done = harness("demo")
    assert done.code == 0
    printed = done.out.splitlines()
    position = -1
    for line in filter(None, sample):
        pattern = ".*".join(re.escape(part.rstrip()) for part in re.split(r"(?<=[\w\"-])\.\.\.| \.\.\. ", line))
        where = [at for at in range(position + 1, len(printed)) if re.fullmatch(pattern, printed[at])]
        assert where, f"not printed any more, or in another order: {line}"
        position = where[0]
