"""`harness check`: both streams and the exit code, and that the options reports print exist."""

from __future__ import annotations

import json
import shlex
import sys
import time
from pathlib import Path

import pytest
from commandline import harness, harness_process

from harness.answers import CaseOutcome
from harness.cases import quirk_cases
from harness.cuts import FAMILIES
from harness.testing import clean_stream

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = "harness.targets:reference"
PIECES = """
import json
from harness.reduce import Reducer
import msgspec

def spoilt(pieces):  # decodes each piece by itself
    reducer = Reducer()
    for piece in pieces:
        reducer.feed(piece.decode("utf-8", "replace").encode())
    reducer.finish()
    return msgspec.to_builtins(reducer.message())

def careless(pieces):
    list(pieces)
    return {"role": "assistant", "content": ""}

def slow(pieces):
    import time
    time.sleep(0.5)

def payloads(given):
    return {"role": "assistant", "content": "".join(
        choice["delta"].get("content") or "" for payload in given for choice in payload.get("choices") or ())}
"""
COMMAND = """
import json, os, sys, urllib.request
def answered(body):
    text = "".join(
        choice["delta"].get("content") or ""
        for line in body.decode().splitlines() if line.startswith("data: {")
        for choice in json.loads(line[6:])["choices"])
    json.dump({"role": "assistant", "content": text}, sys.stdout)
if os.environ.get("BASE_URL"):
    url = os.environ["BASE_URL"] + "/chat/completions"
    answered(urllib.request.urlopen(urllib.request.Request(url, b"{}")).read())
else:
    import base64
    body = sys.stdin.buffer.read()
    if "--jsonl" in sys.argv:
        body = b"".join(base64.b64decode(json.loads(line)) for line in body.splitlines())
    answered(body)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to stand in: no providers.yaml, no fixtures."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def here(folder: Path, request: pytest.FixtureRequest) -> str:
    """A module of targets in the current folder, its name new in every test, so that none is imported twice."""
    name = f"targets_{abs(hash(request.node.nodeid))}"
    (folder / f"{name}.py").write_text(PIECES)
    return name


def test_the_reference_passes_every_case_at_every_cut() -> None:
    started = time.process_time()
    done = harness("check", REFERENCE)
    assert time.process_time() - started < 60
    assert (done.code, done.err) == (0, "")
    first = done.out.splitlines()[0]
    assert first.startswith(f"{REFERENCE}: CONFORMS (")
    report = harness("check", REFERENCE, "--json").one
    assert len(report["cases"]) == len(list(quirk_cases())) >= 101
    assert {case["outcome"] for case in report["cases"]} == {"right", "told"}
    assert report["cuts"] == list(FAMILIES)


def test_a_failure_is_shown_with_a_command_line_that_shows_it_again(here: str) -> None:
    done = harness("check", f"{here}:spoilt", "--case", "012*", "--timeout", "20")
    assert done.code == 1
    assert "WRONG   012-multibyte-utf8 (chat)" in done.out
    assert done.err == f"harness: {here}:spoilt: fails 012-multibyte-utf8\n"
    (line,) = [line.strip() for line in done.out.splitlines() if line.strip().startswith("$ ")]
    words = shlex.split(line[2:])
    assert words[:5] == ["harness", "check", f"{here}:spoilt", "--timeout", "20"]
    assert "at:" in words[-1]
    again = harness(*words[1:], "--json")
    assert again.code == 1
    (case,) = again.one["cases"]
    assert (case["case"], case["outcome"], case["runs"]) == ("012-multibyte-utf8", "wrong", 2)
    whole = harness("check", f"{here}:spoilt", "--case", "012*", "--cut", "whole")
    assert whole.code == 0


def test_claims_come_from_a_file_and_from_options(here: str, folder: Path) -> None:
    (folder / "claims.yaml").write_text(
        "dialects: [chat]\nfeatures: [refusal]\nknown_failures:\n  - {case: 0*, reason: careless}\n"
    )
    (case,) = harness("check", f"{here}:careless", "--claims", "claims.yaml", "--case", "001*", "--json").one["cases"]
    assert (case["outcome"], case["known"]) == ("wrong", "careless")
    done = harness("check", f"{here}:careless", "--case", "0*", "--cut", "whole", "--dialect", "chat", "--feature",
                   "refusal", "--json")  # fmt: skip
    report = done.one
    assert done.code == 1
    skipped = {case["case"] for case in report["cases"] if case["outcome"] == "skipped"}
    assert {"021-interleaved-parallel-calls", "066-completed-with-empty-output"} <= skipped
    assert report["counts"]["accepted-error"] >= 1
    failed = next(case for case in report["cases"] if case["case"] == "043-error-object-then-done")["failures"][0]
    assert "--dialect chat --feature refusal" in failed["repro"]


def test_payloads_and_the_time_limit_are_options(here: str) -> None:
    done = harness("check", f"{here}:payloads", "--payloads", "--case", "001*", "--json")
    assert done.code == 0
    assert done.one["not_observed"][0].startswith("cuts, framing and the end marker")
    slow = harness("check", f"{here}:slow", "--timeout", "0.05", "--case", "001*", "--json").one["cases"][0]
    assert (slow["outcome"], slow["runs"]) == (CaseOutcome.HUNG, 1)


@pytest.mark.parametrize("mode", ["", "--jsonl", "--http"])
def test_a_command_stands_after_two_dashes(mode: str, folder: Path) -> None:
    (folder / "target.py").write_text(COMMAND)
    options = [mode] if mode else []
    command = [sys.executable, "target.py", *(["--jsonl"] if mode == "--jsonl" else [])]
    cuts = ["--cut", "whole", "--cut", "line-ends"] if mode else []
    cases = ["--case", "001*", "--case", "004*"]
    done = harness("check", *options, *cases, *cuts, "--jobs", "2", "--json", "--", *command)
    report = done.one
    assert report["target"] == " ".join(command)
    assert {case["case"]: case["outcome"] for case in report["cases"]} == {
        "001-data-no-space": "wrong", "004-comment-keepalive": "right",
    }  # fmt: skip
    repro = shlex.split(report["cases"][0]["failures"][0]["repro"])
    assert repro[2:] == [*options, "--case", "001-data-no-space", "--cut", "whole", "--", *command]
    assert harness(*repro[1:]).code == done.code == 1


def test_a_command_that_breaks_on_any_stream_is_told_in_one_line(folder: Path) -> None:
    (folder / "broken.py").write_text("import sys\nopen('ran', 'a').write('x')\nsys.exit(7)\n")
    line = harness("check", "--", sys.executable, "broken.py").failed(2)
    assert line == (
        f"harness: {sys.executable} broken.py: the command fails at once: exit 7; run it by hand on one stream"
    )
    assert (folder / "ran").read_text() == "xxx"
    # One case that is asked for is a report, broken or not.
    done = harness("check", "--case", "001*", "--cut", "whole", "--http", "--", sys.executable, "broken.py")
    assert (done.code, "BROKE" in done.out) == (1, True)


def test_a_bare_fixture_is_a_case_once_its_message_is_expected(folder: Path) -> None:
    bare = folder / "fixtures" / "x" / "text.sse"
    bare.parent.mkdir(parents=True)
    bare.write_bytes(clean_stream("chat", {"text": "Hello", "finish_reason": "stop"}))
    asked = ["check", REFERENCE, "--no-quirks"]
    line = harness(*asked).failed(3)
    assert "nothing could be checked: fixtures without .expected.json: x/text; `harness expect --write " in line
    assert harness("expect", "--write", "fixtures/x/text.sse").code == 0
    done = harness(*asked, "--json")
    assert (done.code, [case["dialect"] for case in done.one["cases"]]) == (0, ["chat"])
    # Bytes that tell nothing are in the dialect of the folder's entry in providers.yaml.
    bare.write_bytes(b"data: [DONE]\n\n")
    assert harness("expect", "--write", "--dialect", "chat", "fixtures/x/text.sse").code == 0
    assert "fixtures that do not tell their dialect: x/text; name the dialect in providers.yaml" in harness(*asked).err
    (folder / "providers.yaml").write_text(
        "providers: {x: {dialect: chat, base_url: 'http://127.0.0.1:1/v1', model: m, auth: none}}\n"
    )
    assert [case["dialect"] for case in harness(*asked, "--json").one["cases"]] == ["chat"]


def test_the_projects_fixtures_are_checked_too(folder: Path) -> None:
    (folder / "providers.yaml").write_text(
        "providers:\n  p: {dialect: chat, base_url: http://127.0.0.1:9/v1, model: m, auth: none}\n"
    )
    (folder / "fixtures" / "p").mkdir(parents=True)
    body = (ROOT / "harness" / "quirks" / "004-comment-keepalive.sse").read_bytes()
    (folder / "fixtures" / "p" / "text.sse").write_bytes(body)
    (folder / "fixtures" / "p" / "text.json").write_text(json.dumps({"format": "sse-harness/1", "dialect": "chat"}))
    assert harness("expect", "fixtures/p/text.sse", "--write").code == 0
    (folder / "elsewhere").mkdir()

    def names(*options: str) -> list[str]:
        found = harness("check", REFERENCE, "--cut", "whole", "--json", *options).one["cases"]
        return [case["case"] for case in found if case["outcome"] != "skipped"]

    assert names("--no-quirks") == ["p/text"]
    assert names("--case", "p/*") == ["p/text"]
    assert len(names()) == len(names("--no-fixtures")) + 1
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder / "elsewhere")
        assert names("--no-quirks", "--config", "../providers.yaml") == ["p/text"]
    broken = harness("check", "harness.targets:payloads_of", "--config", "providers.yaml", "--case", "p/text", "--json")
    assert "--config providers.yaml --case p/text" in broken.one["cases"][0]["failures"][0]["repro"]


def test_the_client_model_that_a_target_behaves_like_is_named() -> None:
    for name in ("keys-by-id", "concatenates-names"):
        done = harness("check", f"client:{name}")
        assert done.code == 1
        (line,) = [line for line in done.out.splitlines() if line.startswith("your accumulator behaves like: ")]
        assert line == f"your accumulator behaves like: {name}"
        (likely, *_) = harness("check", f"client:{name}", "--json").one["diagnosis"]
        assert (likely["client"], likely["score"]) == (name, 1.0)
    some = harness("check", "client:keys-by-id", "--case", "02*")
    assert "behaves like" not in some.out  # a part of the quirks fits many models
    right = harness("check", "client:right-queries", "--json")
    assert (right.code, right.one["diagnosis"]) == (0, [])


def test_a_module_of_the_users_own_may_be_called_client(folder: Path) -> None:
    (folder / "client.py").write_text("def accumulate(pieces):\n    raise ValueError('mine')\n")
    with harness_process("check", "client:accumulate", "--case", "001*", "--json", cwd=folder) as process:
        (case,) = json.loads(process.communicate()[0])["cases"]
    assert case["failures"][0]["differences"] == ["ValueError: mine at client.py:2"]


def test_not_measured_is_exit_3() -> None:
    done = harness("check", REFERENCE, "--dialect", "cohere")
    assert done.failed(3) == (
        f"harness: {REFERENCE}: nothing could be checked: every case was skipped (see --dialect and --feature)"
    )
    assert "101 cases skipped" not in done.out
    assert "cases skipped: dialect chat is not claimed" in done.out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "name one target: package.module:callable, or a command after --"),
        (["x:y", "--", "true"], "name one target"),
        (["--"], "no command after --: write the target's there"),
        (["nonsense"], "target 'nonsense': write package.module:callable"),
        (["pkg/mine.py:accumulate"], "write the module as you would import it: pkg.mine:accumulate"),
        (["mine.py"], "write the module as you would import it: mine:accumulate"),
        (["no.such:thing"], "target no.such:thing: no module 'no'"),
        ([REFERENCE, "--jsonl"], "--jsonl is for a command after --"),
        (["--jsonl", "--http", "--", "true"], "choose one"),
        (["--payloads", "--", "true"], "--payloads is for a Python callable"),
        ([REFERENCE, "--no-quirks", "--no-fixtures"], "leave no case"),
        ([REFERENCE, "--case", "021"], "no case '021'"),
        ([REFERENCE, "--cut", "bits"], "no family of cuts 'bits'"),
        ([REFERENCE, "--dialect", "chatt"], "--dialect: 'chatt' is not known; did you mean 'chat'?"),
        ([REFERENCE, "--feature", "x"], "--feature: 'x' is not known"),
        ([REFERENCE, "--claims", "no.yaml"], "no.yaml"),
        ([REFERENCE, "--timeout", "0"], "Invalid value for '--timeout'"),
        (["--cut", "bytes", "--", sys.executable], "given each stream in one piece: leave --cut out"),
        (["sdk:openai-pyton"], "target sdk:openai-pyton: not known; did you mean 'openai-python'?"),
        (["client:keys-by-ids"], "not known; did you mean 'keys-by-id'? `harness check --list` names them"),
        (["client:keys-by-id", "--payloads"], "client:keys-by-id is given the stream: leave it out"),
        (["--", "no-such-command-anywhere"], "no such command"),
    ],
)
def test_slips_are_exit_2_in_one_line(arguments: list[str], says: str) -> None:
    assert says in harness("check", *arguments).failed(2)


def test_the_targets_with_names_are_listed() -> None:
    done = harness("check", "--list")
    listed = dict(line.split(maxsplit=1) for line in done.out.splitlines())
    assert (done.code, done.err) == (0, "")
    assert {"sdk:openai-python", "client:keys-by-id", "client:right-queries"} <= set(listed)
    assert listed["client:keys-by-id"].startswith("Keys calls by id")


def test_help_names_the_ways_to_be_given_a_target() -> None:
    done = harness("check", "--help")
    assert "harness check [OPTIONS] TARGET | -- COMMAND..." in done.out
    for option in ("--jsonl", "--http", "--payloads", "--claims", "--dialect", "--feature", "--case", "--cut",
                   "--timeout", "--json", "--no-quirks", "--no-fixtures", "--config", "--jobs", "--all",
                   "--list"):  # fmt: skip
        assert option in done.out
