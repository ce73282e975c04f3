"""How the command line behaves towards people: colours, --quiet and --verbose, completion, examples that run."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import click
import pytest
import yaml
from commandline import COMMAND, harness
from reading import CANONICAL, FIXTURES, QUIRKS, ROOT

from harness.adapters import SDKS
from harness.catalogue import CATALOGUE
from harness.cli import COMMANDS
from harness.cli import harness as command_line
from harness.cli.manners import painted
from harness.cli.names import PROGRAMS
from harness.conventions import CONVENTIONS
from harness.faults import FAULTS
from harness.recording import Recording
from harness.replay import Replay, read_fixtures
from harness.shapes import SHAPES

FATAL, NEGOTIABLE = QUIRKS / "048-no-done-marker.sse", FIXTURES / "vllm" / "stop.sse"
COLOURS = ("NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "TERM")
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
STAMP = re.compile(r"^\[ *\d+\.\d{3} s\] ")


def environment(**variables: str) -> dict[str, str]:
    """This process's, without what asks for colours or completion."""
    kept = {name: value for name, value in os.environ.items() if name not in COLOURS}
    return {**kept, "PYTHONPATH": str(ROOT), **variables}


def on_terminal(*arguments: object, **variables: str) -> str:
    """What a terminal is sent, both streams in one."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments)], stdin=theirs, stdout=theirs, stderr=theirs,
        env=environment(**{"TERM": "xterm", **variables}),
    )  # fmt: skip
    os.close(theirs)
    sent = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # Linux's way to say that the other side is closed
            break
        if not piece:
            break
        sent += piece
    os.close(ours)
    process.wait(30)
    return sent.decode().replace("\r\n", "\n")


def in_pipe(*arguments: object, **variables: str) -> str:
    with pytest.MonkeyPatch.context() as patch:
        for name in COLOURS:
            patch.delenv(name, raising=False)
        for name, value in variables.items():
            patch.setenv(name, value)
        return harness(*arguments).out


# -- colours ------------------------------------------------------------------------------------------------------


def test_a_terminal_gets_severities_in_colour_and_outcomes_bold() -> None:
    said = on_terminal("diff", FIXTURES / "vllm" / "text.sse", FIXTURES / "transformers" / "text.sse")
    assert ": \x1b[1mDIFFERS\x1b[0m\n" in said
    assert "  \x1b[31m\x1b[1mFATAL\x1b[0m end.marker-missing\n" in said
    assert "  \x1b[33mNEGOTIABLE\x1b[0m usage.position\n" in said
    assert "  cosmetic finish.key-absent: " in said
    plain = harness("diff", FIXTURES / "vllm" / "text.sse", FIXTURES / "transformers" / "text.sse").out
    assert ESCAPE.sub("", said) == plain, "the words are the same"


@pytest.mark.parametrize(
    "variables",
    [{"NO_COLOR": "1"}, {"NO_COLOR": "1", "FORCE_COLOR": "1", "CLICOLOR_FORCE": "1"}, {"CLICOLOR": "0"},
     {"TERM": "dumb"}],
    ids=str,
)  # fmt: skip
def test_a_terminal_gets_no_colour_where_it_is_not_wanted(variables: dict[str, str]) -> None:
    sent = on_terminal("lint", FATAL, **variables)
    assert "  FATAL end.marker-missing\n" in sent
    assert "\x1b" not in sent


def test_a_pipe_gets_none_unless_it_is_forced() -> None:
    for variables in ({}, {"FORCE_COLOR": "0"}, {"FORCE_COLOR": ""}, {"CLICOLOR": "1"}, {"NO_COLOR": ""}):
        assert "\x1b" not in in_pipe("lint", FATAL, TERM="xterm", **variables)
    for variables in ({"FORCE_COLOR": "1"}, {"CLICOLOR_FORCE": "1"}, {"FORCE_COLOR": "3", "TERM": "dumb"}):
        assert "\x1b[31m\x1b[1mFATAL\x1b[0m" in in_pipe("lint", FATAL, **variables)
    assert "\x1b" not in in_pipe("lint", FATAL, FORCE_COLOR="1", NO_COLOR="1")
    assert "\x1b" not in in_pipe("lint", FATAL, "--json", FORCE_COLOR="1"), "JSON never has any"


def test_what_is_painted_is_what_a_report_says_and_nothing_a_model_wrote() -> None:
    lines = {
        "a -> b: CONFORMS": "a -> b: \x1b[1mCONFORMS\x1b[0m",
        "mine:read: DIFFERS (3 right; 4 runs)": "mine:read: \x1b[1mDIFFERS\x1b[0m (3 right; 4 runs)",
        "tool-call: ok": "tool-call: \x1b[1mok\x1b[0m",
        "stop: not measured (no server)": "stop: \x1b[1mnot measured\x1b[0m (no server)",
        "stop, tool-call: not measured (no server)": "stop, tool-call: \x1b[1mnot measured\x1b[0m (no server)",
        "  ACCEPTED FATAL end.cut in text": "  ACCEPTED \x1b[31m\x1b[1mFATAL\x1b[0m end.cut in text",
        "end.marker-missing: fatal": "end.marker-missing: \x1b[31m\x1b[1mfatal\x1b[0m",
        "negotiable usage.position": "\x1b[33mnegotiable\x1b[0m usage.position",
        "    candidate at byte 3: FATAL end.marker-missing": "    candidate at byte 3: FATAL end.marker-missing",
        "    a FATAL thing": "    a FATAL thing",
        "  remark: FATAL": "  remark: FATAL",
    }
    for line, expected in lines.items():
        assert painted(line) == expected
    assert painted("\n".join(lines)) == "\n".join(lines.values())


def test_the_list_of_rules_is_in_colour() -> None:
    said = in_pipe("rules", FORCE_COLOR="1")
    painted_codes = re.findall(r"^\x1b\[(?:31m\x1b\[1mfatal|33mnegotiable)\x1b\[0m +(\S+)", said, re.M)
    assert painted_codes == [code for code, rule in CATALOGUE.items() if rule.severity.rank > 0]


# -- how much is told ---------------------------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with fixtures of `openai`, and both `openai` and `candidate` served on this machine."""
    with Replay({"candidate": _recordings("vllm")}) as server:
        folder = tmp_path / "fixtures" / "openai"
        folder.mkdir(parents=True)
        for shape in CANONICAL:
            shutil.copy(FIXTURES / "vllm" / f"{shape}.sse", folder)
        shutil.copy(FIXTURES / "transformers" / "text.sse", tmp_path / "answer.sse")
        entry = f'{{dialect: chat, base_url: "{server.base_url}", model: m}}'
        text = f"providers:\n  openai: {entry}\n  candidate: {entry}\n"
        (tmp_path / "providers.yaml").write_text(text, "utf-8")
        monkeypatch.chdir(tmp_path)
        yield tmp_path


def _recordings(provider: str) -> dict[str, Recording]:
    found, _ = read_fixtures(FIXTURES / provider)
    return dict(found[provider])


@pytest.mark.parametrize("place", ["before", "after"])
def test_verbose_tells_each_request_answer_and_time_on_stderr(project: Path, place: str) -> None:
    words = ["gate", "openai", "candidate", "--shape", "text"]
    done = harness("-v", *words) if place == "before" else harness(*words, "--verbose")
    usual = harness(*words)
    assert (done.code, done.out) == (usual.code, usual.out)
    assert usual.err == ""
    lines = done.err.splitlines()
    assert all(STAMP.match(line) for line in lines)
    told = [STAMP.sub("", line) for line in lines]
    assert told[0] == "candidate/text ..."
    assert re.fullmatch(
        r"candidate/text: request 1 of 3 at most: POST 127\.0\.0\.1:\d+/v1/chat/completions, \d+ bytes", told[1]
    )
    size = (FIXTURES / "vllm" / "text.sse").stat().st_size
    assert re.fullmatch(
        rf"candidate/text: HTTP 200, {size} bytes in (1 read|\d+ reads), first \d\.\d+ s, last \d\.\d+ s, end eof",
        told[2],
    )
    assert told[3:] == ["exit 0"]
    stamps = [float(line[1:].split()[0]) for line in lines]
    assert stamps == sorted(stamps)


def test_verbose_tells_each_attempt_and_why(project: Path) -> None:
    (project / "providers.yaml").write_text(
        'providers: {candidate: {dialect: chat, base_url: "http://127.0.0.1:9/v1", model: m}}', "utf-8"
    )
    done = harness("gate", "openai", "candidate", "--shape", "text", "--attempts", "3", "--verbose")
    assert done.code == 3
    assert done.err.count("request 1 of 3 at most: POST 127.0.0.1:9/v1/chat/completions") == 3
    for number in (2, 3):
        assert f"candidate/text: attempt {number} of 3, as the one before measured nothing: candidate: c" in done.err
    assert done.err.splitlines()[-1].endswith("] exit 3")


def test_verbose_tells_that_a_busy_server_is_asked_again(project: Path) -> None:
    with Replay(FIXTURES / "vllm", faults=["rate-limit:retry-after=0,times=1"]) as server:
        (project / "providers.yaml").write_text(
            f'providers: {{candidate: {{dialect: chat, base_url: "{server.base_url}", model: m}}}}', "utf-8"
        )
        done = harness("gate", "openai", "candidate", "--shape", "text", "--verbose")
    assert done.code == 0
    assert "candidate/text: busy: the request is sent again after 0.0 s" in done.err
    assert "request 2 of 3 at most" in done.err


def test_verbose_tells_no_key(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-" + "q7" * 12
    monkeypatch.setenv("SOME_KEY", key)
    with Replay(FIXTURES / "vllm") as server:
        base = server.base_url.replace("/v1", "/vllm/v1")
        (project / "providers.yaml").write_text(
            f'providers: {{candidate: {{dialect: chat, base_url: "{base}", model: m, api_key_env: SOME_KEY, '
            f'query: {{key: "${{SOME_KEY}}"}}}}}}', "utf-8",
        )  # fmt: skip
        done = harness("gate", "openai", "candidate", "--shape", "text", "-v")
    assert done.code == 0, done
    assert "request 1 of 3" in done.err
    assert key not in done.out + done.err


def test_quiet_leaves_results_and_failures(project: Path) -> None:
    (project / "fixtures" / "openai" / "text.json").write_text(
        '{"format": "sse-harness/1", "dialect": "chat", "sha256": "0"}', "utf-8"
    )
    for words in (["show", "fixtures/openai/text.sse"], ["lint", "fixtures/openai/text.sse"],
                  ["diff", "fixtures/openai/text.sse", "answer.sse"]):  # fmt: skip
        usual, quiet = harness(*words), harness(*words, "--quiet")
        assert usual.err.startswith("harness: fixtures/openai/text.sse: not the bytes")
        assert (quiet.code, quiet.out, quiet.err) == (usual.code, usual.out, "")
        assert harness("-q", *words) == quiet
    assert harness("-q", "show", "missing.sse").failed(2) == harness("show", "missing.sse").failed(2)
    told, quiet = harness("demo"), harness("demo", "-q")
    assert quiet.code == told.code == 0
    assert set(quiet.out.splitlines()) < set(told.out.splitlines())
    assert "Next: " not in quiet.out


def test_a_terminal_is_told_how_far_we_are_unless_quiet(project: Path) -> None:
    words = ["gate", "openai", "candidate", "--shape", "text"]
    assert "candidate/text ...\n" in on_terminal(*words)
    assert "candidate/text ...\n" not in on_terminal(*words, "--quiet")


def test_both_are_a_contradiction() -> None:
    for words in (["-q", "-v", "rules"], ["-q", "rules", "-v"], ["rules", "-v", "-q"]):
        assert "--quiet and --verbose: choose one of them" in harness(*words).failed(2)
    assert harness("-q", "rules", "tool.index-reused", "-q").code == 0
    assert harness("rules", "tool.index-reused", "-v").err.endswith("] exit 0\n")
    assert harness("rules", "tool.index-reused").err == "", "of one run only"


@pytest.mark.parametrize("verb", COMMANDS)
def test_the_words_are_the_same_for_every_verb(verb: str) -> None:
    help_text = " ".join(harness(verb, "--help").out.split())
    assert "-q, --quiet Only results and failures: no progress, no warnings." in help_text
    assert "-v, --verbose Tell each request, attempt and answer, with times." in help_text


def test_help_takes_little_time() -> None:
    """The least of several runs, against those of a bare interpreter: 0.10 s of CPU and no more."""

    def cpu(*command: str) -> float:
        before = os.times()
        subprocess.run(command, capture_output=True, check=True, env=environment(), timeout=60)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    bare = min(cpu(sys.executable, "-c", "pass") for _ in range(5))
    helped = min(cpu(*COMMAND, "--help") for _ in range(5))
    assert helped - bare <= 0.10


# -- completion ---------------------------------------------------------------------------------------------------


def offered(words: str, program: str = "harness") -> list[str]:
    """What bash is offered for the last of the words, by click's protocol."""
    given = words.split(" ")
    variable = f"_{program.upper().replace('-', '_')}_COMPLETE"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(variable, "bash_complete")
        patch.setenv("COMP_WORDS", words)
        patch.setenv("COMP_CWORD", str(len(given) - 1))
        done = harness()
    assert (done.code, done.err) == (0, "")
    return [line.partition(",")[2] or line.partition(",")[0] for line in done.out.splitlines()]


def test_verbs_and_options_are_completed() -> None:
    assert offered("harness g") == ["gate"]
    assert offered("sse-harness re", "sse-harness") == ["record", "replay"]
    assert set(COMMANDS) <= set(offered("harness "))
    assert offered("harness gate --re") == ["--recorded", "--report"]
    assert offered("harness lint --fail-on f") == ["fatal"]
    assert offered("harness show ") == ["file"], "files are the shell's business"


def test_names_are_completed(project: Path) -> None:
    assert offered("harness record ") == ["openai", "candidate"]
    assert offered("harness record openai ") == ["candidate"]
    assert offered("harness gate ") == ["openai"], "the baseline has fixtures"
    assert offered("harness gate openai c") == ["candidate"]
    assert offered("harness gate openai candidate --shape ") == list(SHAPES)
    assert offered("harness gate openai candidate --shape text --shape t") == ["tool-call"]
    assert offered("harness proxy o") == ["openai"]
    assert offered("harness plan openai ") == ["candidate"]
    assert offered("harness import x --provider c") == ["candidate"]


def test_what_the_package_knows_is_completed() -> None:
    assert offered("harness rules tool.") == [code for code in CATALOGUE if code.startswith("tool.")]
    assert offered("harness accept x.json --rule ") == list(CATALOGUE)
    for verb in ("replay x", "check a:b"):
        assert offered(f"harness {verb} --fault ") == list(FAULTS)
    for verb in ("show x", "lint x", "diff a b", "expect x", "check a:b", "import x"):
        assert offered(f"harness {verb} --dialect ") == list(CONVENTIONS)
    assert offered("harness check sdk") == [f"sdk:{name}" for name in SDKS]


def test_a_broken_project_offers_nothing_and_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "providers.yaml").write_text("providers: [", "utf-8")
    assert offered("harness record ") == []
    assert offered("harness gate ") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_printed_for_both_names_and_a_shell_takes_it(shell: str, tmp_path: Path) -> None:
    done = harness("completion", shell)
    assert (done.code, done.err) == (0, "")
    for program in PROGRAMS:
        assert f"_{program.upper().replace('-', '_')}_COMPLETE={shell}_complete" in done.out
    script = tmp_path / "script"
    script.write_text(done.out, "utf-8")
    if shutil.which(shell) is None:
        return  # its own tests are click's
    subprocess.run([shell, "-n", script], check=True, timeout=30)


def test_bash_completes(tmp_path: Path, project: Path) -> None:
    """The script, sourced by a real bash that then asks as it does at a press of Tab."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "harness").write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n', "utf-8")
    (tmp_path / "bin" / "harness").chmod(0o755)
    script = """
    eval "$(harness completion bash)"
    complete -p harness sse-harness
    COMP_WORDS=(harness gate openai c) COMP_CWORD=3
    _harness_completion harness
    echo "${COMPREPLY[@]}"
    """
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-c", script], capture_output=True, text=True, timeout=60, cwd=project,
        env=environment(PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}"),
    )  # fmt: skip
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "complete -o nosort -F _harness_completion harness",
        "complete -o nosort -F _sse_harness_completion sse-harness",
        "candidate",
    ]


@pytest.mark.parametrize(
    "variables",
    [{}, {"COMP_WORDS": "harness"}, {"COMP_WORDS": "harness", "COMP_CWORD": "x"},
     {"COMP_WORDS": "harness 'lint", "COMP_CWORD": "1" * 5000}],
)  # fmt: skip
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_that_does_not_say_what_it_asks_is_told_nothing(
    shell: str, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_HARNESS_COMPLETE", f"{shell}_complete")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    done = harness()
    assert done.code in (0, 2)
    assert done.err == ""


def test_a_shell_that_is_not_known_is_exit_2() -> None:
    done = subprocess.run(COMMAND, capture_output=True, text=True, env=environment(_HARNESS_COMPLETE="csh_complete"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "'csh' is not one of" in harness("completion", "csh").failed(2)


# -- the examples of each help ------------------------------------------------------------------------------------


def examples(verb: str) -> list[list[str]]:
    """The words behind `harness` of each example in a verb's help."""
    found = command_line.get_command(click.Context(command_line), verb)
    assert found is not None
    lines = re.findall(r'^ *(?:eval "\$\()?(harness [^\n)]*)', (found.help or "").partition("\b\n")[2], re.M)
    return [shlex.split(line, comments=True)[1:] for line in lines]


@pytest.mark.parametrize("verb", COMMANDS)
def test_every_example_is_understood(verb: str) -> None:
    """Whatever it would do, its words are those of the verb. Where it can be done here, it is, below."""
    assert examples(verb), f"harness {verb} --help has no example"
    for words in examples(verb):
        name, *rest = [word for word in words if word != ">"]
        rest = rest[: words.index(">") - 1] if ">" in words else rest
        found = command_line.get_command(click.Context(command_line), name)
        assert found is not None
        with found.make_context(name, rest, parent=click.Context(command_line, info_name="harness")) as ctx:
            assert ctx.params is not None


SERVING = {"replay", "proxy"}
TARGETS = {"check", "matrix"}  # they run accumulators, here on one case
CODES = {"diff": {0, 1}, "lint": {0, 1}, "doctor": {0, 1, 3}}  # of the others' examples in `project`: 0


@pytest.mark.parametrize("verb", sorted(COMMANDS.keys() - SERVING - TARGETS))
def test_the_examples_of_a_help_run(verb: str, project: Path) -> None:
    for name in ("direct.sse", "through-proxy.sse"):
        shutil.copy(FIXTURES / "vllm" / "text.sse", project / name)
    (project / "fixtures" / "candidate").mkdir()
    shutil.copy(FIXTURES / "vllm" / "text.sse", project / "fixtures" / "candidate")
    for name, verbs in {"candidate": ("gate", "plan"), "openai": ("record", "import")}.items():
        if verb in verbs:
            shutil.rmtree(project / "fixtures" / name)
    if verb == "expect":
        for path in sorted((project / "fixtures" / "openai").glob("*.sse")):
            assert harness("expect", "--write", path).code == 0
    if verb == "accept":
        shutil.copy(FIXTURES / "litellm" / "text.sse", project / "fixtures" / "candidate" / "text.sse")
        report = project / "report.json"
        harness("gate", "openai", "candidate", "--recorded", "--shape", "text", "--report", report)
    if verb == "import":
        cassettes = project / "tests" / "cassettes"
        cassettes.mkdir(parents=True)
        _cassette(cassettes / "test_tools.yaml")
        _har(project / "session.har")
    for words in examples(verb):
        if words[0] != verb:  # `accept` starts with the gate whose report it takes
            continue
        given = words[: words.index(">")] if ">" in words else words
        given = ["1000000" if word == "500" else word for word in given]  # a slow reader takes its time
        done = harness(*(found for word in given for found in (sorted(project.glob(word)) if "*" in word else [word])))
        assert done.code in CODES.get(verb, {0}), (words, done)
        assert done.out


@pytest.mark.parametrize("verb", sorted(SERVING))
def test_the_examples_of_servers_serve(verb: str, project: Path) -> None:
    for words in examples(verb):
        given = [re.sub(r"^80\d\d$", "0", word) for word in words]  # any port that is free here
        process = subprocess.Popen(
            [*COMMAND, *given], env=environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )  # fmt: skip
        assert process.stdout is not None
        line = process.stdout.readline()
        process.terminate()
        _, err = process.communicate(timeout=30)
        assert line.startswith("READY http://127.0.0.1:"), (words, err)


@pytest.mark.parametrize("verb", sorted(TARGETS))
def test_the_examples_of_targets_run(verb: str, project: Path) -> None:
    package = project / "mypackage"
    package.mkdir()
    shutil.copy(ROOT / "docs" / "examples" / "accumulator.py", package / "streams.py")
    shutil.copy(ROOT / "docs" / "examples" / "accumulator.mjs", project)
    ran = 0
    for words in examples(verb):
        needed = {
            "node": shutil.which("node"),
            "sdk:openai-python": find_spec("openai"),
            "openai-python": find_spec("openai"),
            "openai-node": (ROOT / "tools" / "node" / "node_modules" / "openai").is_dir(),
        }
        if not all(needed.get(word, True) for word in words):
            continue
        at = words.index("--") if "--" in words else len(words)
        given = [*words[:at], "--case", "036*", *words[at:]]
        done = subprocess.run([*COMMAND, *given], env=environment(), text=True, capture_output=True, timeout=60)
        assert done.returncode in (0, 1), (words, done)
        assert done.stdout
        ran += 1
    assert ran


def _cassette(path: Path) -> None:
    body = (FIXTURES / "openai" / "tool-call.sse").read_text("utf-8")
    exchange = {
        "request": {"method": "POST", "uri": "https://api.openai.com/v1/chat/completions", "body": "{}", "headers": {}},
        "response": {"status": {"code": 200, "message": "OK"}, "body": {"string": body},
                     "headers": {"content-type": ["text/event-stream"]}},
    }  # fmt: skip
    path.write_text(yaml.safe_dump({"interactions": [exchange], "version": 1}), "utf-8")


def _har(path: Path) -> None:
    body = (FIXTURES / "openai" / "text.sse").read_text("utf-8")
    entry = {
        "startedDateTime": "2027-01-01T00:00:00.000Z", "time": 1,
        "request": {"method": "POST", "url": "https://api.example.org/v1/chat/completions", "headers": []},
        "response": {"status": 200, "headers": [{"name": "content-type", "value": "text/event-stream"}],
                     "content": {"mimeType": "text/event-stream", "text": body}},
    }  # fmt: skip
    path.write_text(json.dumps({"log": {"version": "1.2", "entries": [entry] * 3}}), "utf-8")
