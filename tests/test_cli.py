"""Every verb from the outside: what it writes on stdout and stderr, and its exit code (contract: DESIGN, "CLI")."""

from __future__ import annotations

import ast
import io
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import pytest
from commandline import COMMAND, harness, harness_process
from reading import FIXTURES, QUIRKS, ROOT

from harness.catalogue import CATALOGUE
from harness.catalogue_varies import VARIES
from harness.cli import COMMANDS
from harness.cli import harness as root
from harness.cli.common import Choice, File
from harness.replay import Replay

TEXT = FIXTURES / "vllm" / "text.sse"
CALL = FIXTURES / "vllm" / "tool-call.sse"
CUT = QUIRKS / "048-no-done-marker.sse"
# What a terminal obeys or a reader cannot see: C0 but for LF and TAB, DEL, C1, line separators, direction overrides.
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
HOSTILE = "a\x1b[31mb\x9bc\u202ed\u2066e\x07f\u2028g\rh\x00i\x7fj"
VERBS = [verb for verb in COMMANDS if find_spec(f"harness.cli.{verb}") is not None]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def chat(*deltas: dict[str, Any], finish: str = "stop", **more: Any) -> bytes:
    """A chat stream of these deltas."""
    choices = [*({"index": 0, "delta": delta, "finish_reason": None} for delta in deltas),
               {"index": 0, "delta": {}, "finish_reason": finish}]  # fmt: skip
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m", **more}
    events = [b"data: " + json.dumps({**head, "choices": [choice]}).encode() + b"\n\n" for choice in choices]
    return b"".join(events) + b"data: [DONE]\n\n"


# -- help and usage -----------------------------------------------------------------------------------------------


def test_help_lists_the_verbs_and_exit_codes() -> None:
    done = harness("--help")
    assert (done.code, done.err) == (0, "")
    for verb, about in COMMANDS.items():
        assert re.search(rf"^ +{verb} +{re.escape(about)}$", done.out, re.M)
    exits = " ".join(done.out.split())
    assert "0 conforms, 1 differs, 2 usage or configuration, 3 not measured, 4 bug in us, 130 interrupted" in exits
    assert harness("-h") == done


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_verb_says_what_it_does_and_gives_an_example(verb: str) -> None:
    done = harness(verb, "--help")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"Usage: harness {verb} ")
    assert re.search(r"^  [A-Z][^\n]+", done.out, re.M)
    if verb != "demo":
        assert re.search(rf"^  harness {verb}\b", done.out, re.M), "an example"
    listed = done.out.partition("\nOptions:\n")[2]
    options = re.findall(r"^  (?:-\w, )?--[a-z-]+[^\n]*(?:\n {10,}[^\n]+)*", listed, re.M)
    assert options
    unexplained = [option for option in options if not re.search(r" [A-Z][^\n]*\.", " ".join(option.split()))]
    assert unexplained == []


def test_help_loads_no_verb_and_nothing_heavy() -> None:
    heavy = {"httpx", "deepdiff", "yaml", "asyncio", "harness.cli.gate", "harness.runs"}
    code = f"from harness.cli import run; import sys; run(['--help']); print({heavy} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()"


def test_a_word_that_is_no_choice_is_told_the_nearest_by_every_verb() -> None:
    for verb in VERBS:
        command = root.get_command(click.Context(root), verb)
        assert command is not None
        for param in command.params:
            if isinstance(param.type, click.Choice):
                assert isinstance(param.type, Choice), (verb, param.name)
            if isinstance(param.type, click.Path):
                assert isinstance(param.type, File), (verb, param.name)
    for arguments, near in [
        (("lint", "--fail-on", "fatl", TEXT), "fatal"), (("show", "--as", "evnts", TEXT), "events"),
        (("replay", "--pace", "fats"), "fast"), (("completion", "bsh"), "bash"),
    ]:  # fmt: skip
        assert f"; did you mean {near!r}? (see `harness {arguments[0]} --help`)" in harness(*arguments).failed(2)
    assert "did you mean" not in harness("show", "--as", "zzz", TEXT).failed(2)


def test_a_file_that_may_not_be_read_says_what_to_do(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(folder / "a.sse", TEXT.read_bytes())
    refused = PermissionError(13, "Permission denied", str(file))

    def opened(path: Path, *arguments: Any, **named: Any) -> Any:
        if path.name == file.name:
            raise refused
        return io.open(path, *arguments, **named)  # noqa: UP020 (Path.open is this one)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", opened)  # as root all may be read
        for verb in (["lint"], ["show"], ["lint", "--secrets"]):
            told = harness(*verb, ".").failed(2)
            assert told == "harness: a.sse: cannot be read: Permission denied; check its permissions"
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert "a.sse' is not readable; check its permissions (see `harness lint --help`)" in harness(
        "lint", "a.sse"
    ).failed(2)


def test_version() -> None:
    done = harness("--version")
    assert re.fullmatch(r"harness, version \d+\.\d+\.\d+\S*\n", done.out)
    assert (done.code, done.err) == (0, "")


def test_without_a_verb_the_help_and_exit_2() -> None:
    done = harness()
    assert done.out == harness("--help").out
    assert done.failed(2) == "harness: name a verb (see `harness --help`)"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["recrod"], "harness: No such verb 'recrod'; did you mean 'record'? (see `harness --help`)"),
        (["nope"], "harness: No such verb 'nope' (see `harness --help`)"),
        (["--nope"], "harness: No such option"),
        (["gate", "a"], "harness gate: Missing argument 'CANDIDATE'. (see `harness gate --help`)"),
        (["gate", "a", "b", "c"], "harness gate: Got unexpected extra argument (c)"),
        (["gate", "a", "b", "--attempts", "0"], "harness gate: Invalid value for '--attempts': 0 is not in the range"),
        (["gate", "a", "b", "--fail-on", "bad"], "harness gate: Invalid value for '--fail-on': 'bad' is not one of"),
        (["record"], "harness record: Missing argument 'PROVIDER...'."),
        (["show"], "harness show: Missing argument 'FILE...'."),
        (["show", "x", "--as", "poem"], "harness show: Invalid value for '--as': 'poem' is not one of"),
        (["lint"], "harness lint: Missing argument 'FILE...'."),
        (["diff", "x"], "harness diff: Missing argument 'B'."),
        (["accept", "x.json"], "harness accept: Missing option '--reason'."),
        (["accept", "x.json", "--reason", "r", "--until", "soon"], "harness accept: Invalid value for '--until':"),
        (["replay", "--port", "x"], "harness replay: Invalid value for '--port': 'x' is not a valid integer range."),
    ],
    ids=" ".join,
)  # fmt: skip
def test_wrong_usage_is_one_line_and_exit_2(arguments: list[str], says: str) -> None:
    done = harness(*arguments)
    assert done.failed(2).startswith(says)
    assert done.out == ""


@pytest.mark.parametrize("verb", VERBS)
def test_an_unknown_option_is_one_line(verb: str) -> None:
    line = harness(verb, "--no-such-option").failed(2)
    assert re.match(rf"harness {verb}: No such option:? '?--no-such-option\b", line), "in the words of any click"


# -- show ---------------------------------------------------------------------------------------------------------


def test_show_message() -> None:
    done = harness("show", CALL)
    assert (done.code, done.err) == (0, "")
    assert done.out == (
        f"{CALL} (chat, by sidecar)\n"
        "finish: tool_calls (sent: tool_calls)\n"
        "call 0: id 'chatcmpl-tool-bcab95be3866d43c' name 'get_weather' arguments "
        '{"city": "Paris", "unit": "celsius"}\n'
        "terminal: done\n"
        "usage: 258 in, 28 out\n"
    )


def test_show_events_shows_the_empty_string_trap() -> None:
    done = harness("show", QUIRKS / "022-id-empty-on-continuation.sse", "--as", "events")
    assert (done.code, done.err) == (0, "")
    fragments = [line.split(maxsplit=2)[2] for line in done.out.splitlines() if " tool_call " in line]
    assert re.match(r"index=0 wire_index=0 id='\w+' name='\w+' arguments='", fragments[0])
    assert len(fragments) > 1
    assert all(re.match(r"index=0 wire_index=0 id='' name=\S+ arguments='", fragment) for fragment in fragments[1:])


def test_show_structure_bytes_and_timeline(folder: Path) -> None:
    facts = harness("show", TEXT, "--as", "structure").out.splitlines()[1:]
    assert "wire.end.marker = present" in facts
    assert facts == sorted(facts)
    body = write(folder / "x.sse", b": ping\r\n\r\ndata: \xff\x1b\xe2\x80\xa8\n\ndata: [DONE]")
    done = harness("show", body, "--as", "bytes", "--dialect", "chat")
    assert done.out == (
        f"{body} (chat, by given)\n       0  : ping\\r\\n\n       8  \\r\\n\n"
        "      10  data: \\xff\\x1b\\xe2\\x80\\xa8\\n\n      22  \\n\n      23  data: [DONE]\n"
    )
    done = harness("show", body, "--as", "bytes", "--dialect", "chat", "--json")
    assert "".join(done.one["lines"]).encode(done.one["encoding"]) == body.read_bytes()
    assert harness("show", TEXT, "--as", "timeline").out.splitlines()[1].startswith("no times are known")
    timed = harness("show", QUIRKS / "064-buffered-by-proxy.sse", "--as", "timeline").out.splitlines()
    assert re.match(r" +\d+\.\d ms +\+ +\d+\.\d ms +\d+ bytes +\d+ events", timed[1])
    assert timed[2:6] == ["end: eof", "first byte 16.50 s, last byte 16.50 s", "first event 16.50 s at byte 0",
                          "first content 16.50 s at byte 182"]  # fmt: skip
    found = harness("show", QUIRKS / "064-buffered-by-proxy.sse", "--as", "timeline", "--json").one
    assert list(found) == ["file", "reads", "end", "events", "timing"]
    assert found["timing"]["first_content"] == {"microseconds": 16_500_000, "at": 182, "length": 167}
    assert found["reads"]
    assert set(found["events"][0]) == {"kind", "at", "length"}


def test_json_is_one_object_a_line_in_order_and_what_cannot_be_read_goes_to_stderr(folder: Path) -> None:
    ambiguous = write(folder / "done.sse", "data: [DONE]\n\n")
    for verb in ("show", "lint"):
        done = harness(verb, "--json", CALL, "missing.sse", TEXT, ambiguous, CUT)
        assert done.code == 2
        assert [found["file"] for found in done.objects] == [str(CALL), str(TEXT), str(CUT)]
        assert done.err.splitlines() == [
            "harness: missing.sse: cannot be read: No such file or directory",
            f"harness: {ambiguous}: nothing in it tells its dialect; name it with --dialect",
        ]
        text = harness(verb, CALL, "missing.sse", TEXT, ambiguous, CUT)
        assert (text.code, text.err) == (2, done.err)
        heads = [line for line in text.out.splitlines() if " (chat, by " in line]
        assert [head.partition(" (")[0] for head in heads] == [str(CALL), str(TEXT), str(CUT)]


@pytest.mark.parametrize("body", [b"", b"data: [DONE]\n\n", b"\n\n", b": ping\n\n", b"data: 1\n\n", b"<html></html>"])
@pytest.mark.parametrize("verb", ["show", "lint", "diff", "expect"])
def test_a_body_that_does_not_tell_its_dialect(folder: Path, verb: str, body: bytes) -> None:
    write(folder / "x.sse", body)
    write(folder / "x.expected.json", '{"structure_format": 1}')
    files = ["x.sse", TEXT] if verb == "diff" else ["x.sse"]
    done = harness(verb, *files)
    empty = "is empty; record it again, or if that is what was sent, name its dialect with --dialect"
    problem = "nothing in it tells its dialect; name it with --dialect" if body.strip() else empty
    assert done.failed(2) == f"harness: x.sse: {problem}"
    named = harness(verb, *files, "--dialect", "chat")
    assert named.code in (0, 1, 3)
    assert "--dialect" not in named.err


def test_dialect_overrides_the_sidecar_and_an_unknown_one_is_an_error() -> None:
    assert harness("show", TEXT, "--json").one["text"].startswith("Hello there!")
    done = harness("show", TEXT, "--json", "--dialect", "anthropic")
    assert (done.code, done.one["text"]) == (0, "")
    assert "(anthropic, by given)" in harness("show", TEXT, "--dialect", "anthropic").out
    for verb in ("show", "lint"):
        for name in ("klingon", "../chat", "base"):
            line = harness(verb, TEXT, "--dialect", name).failed(2)
            assert line.startswith(f"harness: {name}: no such dialect; there are chat, responses, anthropic, ")


def test_a_sidecar_with_a_dialect_nobody_knows_is_an_error(folder: Path) -> None:
    body = write(folder / "x.sse", TEXT.read_bytes())
    write(folder / "x.json", json.dumps({"format": "sse-harness/1", "dialect": "klingon"}))
    for arguments in (["show", body], ["lint", body], ["diff", body, TEXT]):
        assert harness(*arguments).failed(2).startswith("harness: klingon: no such dialect; ")
    assert harness("show", body, "--dialect", "chat").code == 0


def test_an_edited_body_is_one_warning_and_bytes_win(folder: Path) -> None:
    body = write(folder / "text.sse", TEXT.read_bytes().replace(b"Hel", b"HEL"))
    shutil.copy(TEXT.with_suffix(".json"), folder)
    for arguments in (["show", body], ["lint", body], ["diff", body, TEXT]):
        done = harness(*arguments)
        assert done.failed(0).startswith(f"harness: {body}: not the bytes that text.json describes (sha256 differs)")
    assert "HELlo" in harness("show", body).out


def test_a_broken_sidecar_is_an_error(folder: Path) -> None:
    body = write(folder / "x.sse", TEXT.read_bytes())
    write(folder / "x.json", '{"format": "sse-harness/1", "status": "well"}')
    assert harness("show", body).failed(2).startswith(f"harness: {folder}/x.json: Expected `int | null`, got `str`")


def test_a_folder_stands_for_the_streams_below_it_but_not_in_hidden_folders(folder: Path) -> None:
    for name in ("b/y.sse", "a.sse", "b/x.sse", ".harness/failed/p/z.sse", "b/.git/z.sse", "b/notes.txt"):
        write(folder / name, TEXT.read_bytes())
    done = harness("show", ".", "--json")
    assert (done.code, [found["file"] for found in done.objects]) == (0, ["a.sse", "b/x.sse", "b/y.sse"])
    assert [found["file"] for found in harness("lint", "b", "--json").objects] == ["b/x.sse", "b/y.sse"]
    inside = harness("show", ".harness", "--json")
    assert [found["file"] for found in inside.objects] == [".harness/failed/p/z.sse"]
    (folder / "empty").mkdir()
    done = harness("show", "--json", "empty", "a.sse")
    assert done.failed(2) == "harness: empty: a folder, and no .sse file in it; name a recording"
    assert [found["file"] for found in done.objects] == ["a.sse"]
    assert harness("diff", "b", "a.sse").failed(2) == "harness: b: a folder, name one of the recordings in it"


def test_files_are_named_as_they_were_given(folder: Path) -> None:
    write(folder / "sub" / "x.sse", TEXT.read_bytes())
    for given in ("sub/x.sse", "./sub/../sub/x.sse", str(folder / "sub" / "x.sse")):
        assert harness("show", given, "--json").one["file"] in (given, given.removeprefix("./"))
        assert harness("lint", given).out.startswith(given.removeprefix("./") + " (")


def test_a_pipe_is_a_file_like_any_other(folder: Path) -> None:
    """`harness diff <(curl -sN ...) b.sse`: what is read once must do for all."""
    done = subprocess.run(
        ["bash", "-c", '"$0" "$1" "$2" diff <(cat "$3") "$4"; "$0" "$1" "$2" show /dev/stdin --json < "$3"', *COMMAND,
         TEXT, FIXTURES / "transformers" / "text.sse"], capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "FATAL end.marker-missing" in done.stdout
    assert "baseline at byte 9941: data: " in done.stdout
    assert json.loads(done.stdout.splitlines()[-1])["file"] == "/dev/stdin"
    assert done.stderr == ""


# -- lint and diff ------------------------------------------------------------------------------------------------


def test_lint_fails_from_fatal_unless_told_otherwise() -> None:
    negotiable, cosmetic = FIXTURES / "vllm" / "stop.sse", CALL
    runs: list[tuple[list[object], int, str]] = [
        ([CUT], 1, "differs"),
        ([negotiable], 0, "conforms"),
        ([negotiable, "--fail-on", "negotiable"], 1, "differs"),
        ([cosmetic, "--fail-on", "negotiable"], 0, "conforms"),
        ([cosmetic, "--fail-on", "cosmetic"], 1, "differs"),
        ([TEXT, "--fail-on", "cosmetic"], 0, "conforms"),
    ]
    for arguments, code, outcome in runs:
        done = harness("lint", "--json", *arguments)
        assert (done.code, done.one["outcome"], done.err) == (code, outcome, "")
        assert harness("lint", *arguments).code == code


def test_lint_text() -> None:
    done = harness("lint", CUT, TEXT, CALL)
    assert done.code == 1
    assert done.out.splitlines()[:5] == [
        f"{CUT} (chat, by sidecar)",
        "  FATAL end.marker-missing",
        "    [DONE] never came: a UI that waits for it shows a spinner that never stops",
        "    -> have the server send it, or stop at the finish reason",
        done.out.splitlines()[4],
    ]
    assert re.match(r'    at byte \d+: data: \{"', done.out.splitlines()[4])
    assert done.out.splitlines()[-4:-1] == [
        f"{TEXT} (chat, by sidecar)", "  no findings", f"{CALL} (chat, by sidecar)",
    ]  # fmt: skip
    assert done.out.splitlines()[-1].startswith("  cosmetic tool.arguments-key-absent: ")


def test_one_file_that_differs_does_not_hide_one_that_cannot_be_read() -> None:
    for files in ([CUT, "missing.sse"], ["missing.sse", CUT]):
        assert harness("lint", *files).failed(2) == "harness: missing.sse: cannot be read: No such file or directory"


def test_diff_fails_from_negotiable_unless_told_otherwise() -> None:
    vllm, litellm, other = (FIXTURES / name / "text.sse" for name in ("vllm", "litellm", "transformers"))
    runs: list[tuple[list[object], int, str]] = [
        ([vllm, vllm], 0, "conforms"),
        ([vllm, litellm], 1, "differs"),
        ([vllm, litellm, "--fail-on", "fatal"], 0, "conforms"),
        ([vllm, other, "--fail-on", "fatal"], 1, "differs"),
        ([FIXTURES / "openai" / "text.sse", vllm], 0, "conforms"),
        ([FIXTURES / "openai" / "text.sse", vllm, "--fail-on", "cosmetic"], 1, "differs"),
    ]
    for arguments, code, outcome in runs:
        done = harness("diff", "--json", *arguments)
        assert (done.code, done.one["outcome"], done.err) == (code, outcome, "")
        text = harness("diff", *arguments)
        assert (text.code, text.err) == (code, "")
        assert text.out.splitlines()[0] == f"{arguments[0]} -> {arguments[1]}: {outcome.upper()}"
    assert harness("diff", vllm, vllm).out.splitlines()[1] == "  no findings"
    assert "  NEGOTIABLE usage.position\n" in harness("diff", vllm, litellm).out


def test_diff_with_a_baseline_that_is_no_answer_measures_nothing() -> None:
    done = harness("diff", QUIRKS / "049-cut-between-events.sse", TEXT, "--json")
    why = "the baseline's stream is no answer (cut); give two recordings of answers"
    assert done.failed(3).endswith(f"not measured: {why}")
    assert done.one == {"outcome": "not-measured", "findings": [], "events": None}
    assert harness("diff", QUIRKS / "049-cut-between-events.sse", TEXT).out.endswith(": NOT-MEASURED\n")
    assert harness("diff", "missing.sse", TEXT).failed(2) == (
        "harness: missing.sse: cannot be read: No such file or directory"
    )


def test_a_bare_file_made_with_curl_works_in_show_lint_and_diff(folder: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    with Replay(FIXTURES / "transformers") as server:
        request = Path(__file__).parent.parent / "requests" / "chat" / "tool-call.json"
        with open("old.sse", "wb") as file:
            subprocess.run(
                ["curl", "-sN", server.base_url + "/chat/completions", "-H", "content-type: application/json",
                 "--data", f"@{request}"], stdout=file, check=True, timeout=10,
            )  # fmt: skip
    fixture = FIXTURES / "transformers" / "tool-call.sse"
    assert Path("old.sse").read_bytes() == fixture.read_bytes()
    found = harness("show", "old.sse", "--json").one
    assert found["tool_calls"] == harness("show", fixture, "--json").one["tool_calls"] != []
    assert "(chat, by content)" in harness("show", "old.sse").out
    rules = [[finding["rule"] for finding in harness("lint", file, "--json").one["findings"]]
             for file in ("old.sse", fixture)]  # fmt: skip
    assert rules[0] == rules[1] != []
    for files in (["old.sse", fixture], [fixture, "old.sse"]):
        assert harness("diff", *files, "--fail-on", "cosmetic").code == 0


# -- expect, rules, accept, replay --------------------------------------------------------------------------------


def test_expect_writes_then_verifies_then_shows_what_changed(folder: Path) -> None:
    body = write(folder / "text.sse", TEXT.read_bytes())
    shutil.copy(TEXT.with_suffix(".json"), folder)
    done = harness("expect", body)
    assert done.failed(2) == (
        f"harness: {folder}/text.expected.json: no expectation beside text.sse; "
        f"write it with `harness expect --write {body}`"
    )
    assert harness("expect", "--write", body).out == f"{body}: written\n"
    assert harness("expect", "--write", body).out == f"{body}: unchanged\n"
    done = harness("expect", body)
    assert (done.code, done.out, done.err) == (0, f"{body}: as expected\n", "")
    (folder / "text.json").unlink()
    body.write_bytes(TEXT.read_bytes().replace(b"data: [DONE]\n\n", b"").replace(b"scripted", b"SCRIPTED"))
    done = harness("expect", body)
    assert (done.code, done.err) == (1, "")
    lines = done.out.splitlines()
    assert lines[0] == f"{body}: differs"
    assert '-    "wire.end.marker = present",' in lines
    assert '+    "wire.end.marker = absent",' in lines
    assert len(lines) < 60
    write(folder / "text.expected.json", "{")
    assert "not readable as JSON" in harness("expect", body).failed(2)
    write(folder / "text.expected.json", '{"structure_format": 99}')
    assert "structure_format is not 1" in harness("expect", body).failed(2)


def test_expect_goes_on_after_a_file_it_cannot_verify(folder: Path) -> None:
    body = write(folder / "text.sse", TEXT.read_bytes())
    harness("expect", "--write", body)
    done = harness("expect", "missing.sse", body)
    assert done.failed(2).startswith("harness: missing.expected.json: no expectation")
    assert done.out == f"{body}: as expected\n"


def test_show_of_a_sidecar_names_the_body(folder: Path) -> None:
    write(folder / "x.sse", TEXT.read_bytes())
    sidecar = write(folder / "x.json", b'{"format": "sse-harness/1", "dialect": "chat"}')
    assert harness("show", sidecar).failed(2) == f"harness: {sidecar}: this is a sidecar; name {folder / 'x.sse'}"
    assert harness("show", folder / "x.sse").code == 0


def test_diff_says_that_two_shapes_were_asked_for(folder: Path) -> None:
    paths = [write(folder / f"{name}.sse", TEXT.read_bytes()) for name in ("one", "two")]
    for path, shape in zip(paths, ("text", "stop"), strict=True):
        sidecar = {"format": "sse-harness/1", "dialect": "chat", "shape": shape}
        write(path.with_suffix(".json"), json.dumps(sidecar))
    done = harness("diff", *paths)
    assert (done.code, done.err) == (
        0, f"harness: {paths[0]} is of shape text, {paths[1]} of stop: what differs may come from what was asked\n"
    )  # fmt: skip
    assert harness("diff", paths[0], paths[0]).err == ""


def test_rules_say_where_their_severity_is_another() -> None:
    assert "  may be worse: fatal where the baseline sends" in harness("rules", "end.marker-after-error").out
    assert "  may be milder: negotiable where only events" in harness("rules", "sse.data-not-json").out
    assert "may be" not in harness("rules", "end.marker-missing").out
    for code, (severity, _) in VARIES.items():
        assert severity is not CATALOGUE[code].severity
    graded: set[str] = set()
    for path in sorted((ROOT / "harness" / "facts").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            text = ast.unparse(node)
            if isinstance(node, ast.Call) and text.startswith("self.note('") and "Severity." in text:
                graded.add(text.split("'")[1])
            if isinstance(node, ast.Assign) and text.startswith("self.grades['"):
                graded.add(text.split("'")[1])
    assert graded
    assert graded <= VARIES.keys()


def test_rules() -> None:
    done = harness("rules")
    assert (done.code, done.err) == (0, "")
    assert [line.split()[1] for line in done.out.splitlines()] == list(CATALOGUE)
    for code in CATALOGUE:
        one = harness("rules", code)
        assert (one.code, one.err) == (0, "")
        assert one.out.startswith(f"{code}: {CATALOGUE[code].severity}\n")
        assert "  remedy: " in one.out
        assert not re.search("[<{](detail|baseline|candidate|lost)", one.out)
        assert one.out.endswith("\n  all rules: docs/rules.md\n")
    assert "the finish reason is the candidate's value where the baseline says another; " in done.out
    for asked in ("usage", "usage.*", "usage."):
        some = harness("rules", asked)
        assert some.out.splitlines() == [line for line in done.out.splitlines() if line.split()[1].startswith("usage.")]
    assert [rule["code"] for rule in harness("rules", "*.missing", "--json").objects] == [
        code for code in CATALOGUE if code.endswith(".missing")
    ]
    done = harness("rules", "tool.index-reusd")
    assert done.failed(2).startswith("harness: tool.index-reusd: no such rule; near it: tool.index-reused, ")
    none = "harness: zzz: no such rule; near it: none; `harness rules` lists them all"
    assert harness("rules", "zzz").failed(2) == none


def test_replay_lists_its_faults_and_refuses_what_it_cannot_serve(folder: Path) -> None:
    done = harness("replay", "--list-faults")
    assert (done.code, done.err) == (0, "")
    assert re.search(r"^cut\[:event=,byte=\] +\S", done.out, re.M)
    assert harness("replay", "nowhere").failed(2).startswith("harness: nowhere: no fixtures here")
    assert harness("replay").failed(2).startswith("harness: fixtures: no fixtures here")
    assert harness("replay", FIXTURES, "--fault", "nope").failed(2).startswith("harness: no fault 'nope': use one of ")
    with Replay(FIXTURES) as server:
        line = harness("replay", FIXTURES, "--port", server.port).failed(2)
        assert line == f"harness: port {server.port}: Address already in use; choose another, or 0 for any that is free"


@pytest.mark.parametrize(
    ("stop", "code", "err"), [(signal.SIGINT, 130, "harness: interrupted\n"), (signal.SIGTERM, 0, "")]
)
def test_replay_serves_until_it_is_stopped(folder: Path, stop: signal.Signals, code: int, err: str) -> None:
    process = harness_process("replay", FIXTURES / "vllm", cwd=folder)
    assert process.stdout is not None
    word, _, url = process.stdout.readline().strip().partition(" ")
    assert word == "READY"
    done = subprocess.run(
        [sys.executable, "-c", "import sys, httpx; print(httpx.post(sys.argv[1], json={'messages': []}).text)",
         f"{url}/chat/completions"], capture_output=True, text=True, check=True, timeout=20,
    )  # fmt: skip
    assert done.stdout.rstrip("\n") == TEXT.read_text("utf-8").rstrip("\n")
    process.send_signal(stop)
    out, errors = process.communicate(timeout=10)
    assert (process.returncode, out, errors) == (code, "", err)


# -- both streams, whatever happens -------------------------------------------------------------------------------


def hostile_bodies() -> dict[str, bytes]:
    function = {"name": HOSTILE, "arguments": f'{{"a": "{HOSTILE}'}
    call = {"index": 0, "id": HOSTILE, "type": "function", "function": function}
    return {
        "text": chat({"role": HOSTILE, "content": HOSTILE}, id=HOSTILE, model=HOSTILE),
        "reasoning": chat({"role": "assistant", "reasoning_content": HOSTILE, "refusal": HOSTILE, HOSTILE: HOSTILE}),
        "call": chat({"role": "assistant", "tool_calls": [call]}, finish="tool_calls"),
        "finish": chat({"role": "assistant", "content": "x"}, finish=HOSTILE),
        "error": chat({"content": "x"})
        + b'data: {"error": {"message": "m", "type": "t"}}\n\n'
        + b"data: " + json.dumps({"error": {"message": HOSTILE, "type": HOSTILE, "code": HOSTILE}}).encode() + b"\n\n",
        "first-error": b"data: " + json.dumps({"error": {"message": HOSTILE, "code": HOSTILE}}).encode() + b"\n\n",
        "no-json": b"data: " + HOSTILE.replace("\r", "").encode() + b"\n\n" + chat({"content": "x"}),
        "bare": HOSTILE.encode() + b"\n\n" + chat({"content": "x"}),
        "raw": chat({"role": "assistant", "content": "a"}).replace(b'"a"', '"\u202e\x7f\x9b\u2028"'.encode()),
        "unknown": b"event: " + HOSTILE.replace("\r", "").encode() + b"\n" + chat({"content": "x"}),
    }  # fmt: skip


@pytest.mark.parametrize("name", hostile_bodies())
def test_what_a_model_writes_never_moves_the_terminal(folder: Path, name: str) -> None:
    body = write(folder / "x.sse", hostile_bodies()[name])
    arguments: list[list[object]] = [["show", body, "--as", view, "--dialect", "chat"]
                                     for view in ("events", "message", "structure", "timeline", "bytes")]  # fmt: skip
    arguments += [["lint", body, "--dialect", "chat"], ["diff", TEXT, body, "--dialect", "chat"],
                  ["diff", body, TEXT, "--dialect", "chat"]]  # fmt: skip
    for command in arguments:
        for done in (harness(*command), harness(*command, "--json")):
            assert done.code in (0, 1, 3)
            assert UNSEEN.search(done.out) is None, command
            assert UNSEEN.search(done.err) is None, command


def test_json_escapes_what_text_leaves_out_and_says_the_same(folder: Path) -> None:
    body = write(folder / "x.sse", hostile_bodies()["text"])
    assert harness("show", body, "--json").one["text"] == HOSTILE
    assert "text: a\\x1b[31mb\\x9bc\\u202ed\\u2066e\\x07f\\u2028g\\x0dh\\x00i\\x7fj\n" in harness("show", body).out
    lone = write(folder / "y.sse", chat({"content": "half \ud83d of it"}))
    assert harness("show", lone, "--json").one["text"] == "half \ud83d of it"
    assert "text: half \\ud83d of it\n" in harness("show", lone).out


def test_a_file_name_never_moves_the_terminal(folder: Path) -> None:
    body = write(folder / "\x1b[31m.sse", TEXT.read_bytes())
    assert harness("show", body).out.startswith(f"{folder}/\\x1b[31m.sse (chat")
    assert harness("show", "\x1b[2J").failed(2) == "harness: \\x1b[2J: cannot be read: No such file or directory"
    assert harness("show", "a\nb").failed(2) == "harness: a\\nb: cannot be read: No such file or directory"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "utf-8"])
def test_json_is_utf_8_and_text_can_be_written_whatever_the_locale(folder: Path, encoding: str) -> None:
    for arguments in (["show", str(TEXT), "--json"], ["show", str(TEXT)], ["rules"]):
        done = subprocess.run(
            [*COMMAND, *arguments], capture_output=True, env={**os.environ, "PYTHONIOENCODING": encoding}, check=True
        )
        assert done.stderr == b""
        if "--json" in arguments:
            assert "café, 世界 and 😀" in json.loads(done.stdout)["text"]


@pytest.mark.parametrize(
    "arguments", [["show", str(FIXTURES), "--json"], ["lint", str(FIXTURES)], ["rules"], ["gate", "-h"]], ids=" ".join
)
def test_a_closed_pipe_is_no_failure(arguments: list[str]) -> None:
    process = subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert (process.stderr.read(), process.wait(20)) == (b"", 0)
    process.stderr.close()


def test_nobody_on_stderr_changes_no_result() -> None:
    read, written = os.pipe()
    os.close(read)
    done = subprocess.run([*COMMAND, "show", "missing.sse"], stdout=subprocess.PIPE, stderr=written, check=False)
    os.close(written)
    assert done.returncode == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("argument", ["rules", "--help", "--version"])
def test_a_full_disk_is_said_in_one_line(argument: str) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*COMMAND, argument], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        2, "harness: standard output cannot be written: No space left on device; check the disk or device\n"
    )  # fmt: skip


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_under_stderr_changes_no_result() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*COMMAND, "show", "missing.sse"], stdout=subprocess.PIPE, stderr=full, check=False)
    assert (done.returncode, done.stdout) == (2, b"")


@pytest.mark.parametrize(("arguments", "code"), [(["rules"], 0), (["show", str(TEXT)], 0), (["show", "missing"], 2)])
@pytest.mark.parametrize("streams", [(1,), (2,), (0, 1, 2)], ids=str)
def test_closed_streams_change_no_result(arguments: list[str], code: int, streams: tuple[int, ...]) -> None:
    closing = "import os, sys\nfor number in map(int, sys.argv[1].split()): os.close(number)\n"
    command = [sys.executable, "-c", closing + "os.execv(sys.argv[2], sys.argv[2:])", " ".join(map(str, streams))]
    done = subprocess.run([*command, *COMMAND, *arguments], capture_output=True, check=False)
    assert done.returncode == code
    assert bool(done.stderr) == (code == 2 and 2 not in streams)
    assert bool(done.stdout) == (code == 0 and 1 not in streams)


def test_a_bug_is_exit_4_and_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("first line\nsecond \x1b[31m")

    monkeypatch.setattr("harness.cli.show.open_file", broken)
    assert harness("show", TEXT).failed(4) == (
        "harness: bug: RuntimeError: first line\\nsecond \\x1b[31m "
        "(please report it; HARNESS_TRACEBACK=1 shows where)"
    )
    monkeypatch.setenv("HARNESS_TRACEBACK", "1")
    with pytest.raises(RuntimeError):
        harness("show", TEXT)


def test_want_of_memory_is_no_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object, **kwargs: object) -> None:
        raise MemoryError

    monkeypatch.setattr("harness.cli.lint.tell_each", full)
    assert "not enough memory" in harness("lint", "x.sse").failed(2)


def test_a_broken_pipe_that_is_not_ours_is_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe to somebody else must not pass for success."""

    def broken(*_: object, **__: object) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("harness.cli.show.open_file", broken)
    assert harness("show", TEXT).failed(4).startswith("harness: bug: BrokenPipeError")


def test_ctrl_c_is_exit_130_and_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("harness.cli.lint.lint_file", interrupted)
    assert harness("lint", TEXT).failed(130) == "harness: interrupted"


def test_progress_is_for_terminals(folder: Path) -> None:
    (folder / "fixtures").symlink_to(FIXTURES)
    arguments = ["gate", "vllm", "litellm", "--recorded"]
    assert harness(*arguments).err.count("\n") == 1
    terminal, end = pty.openpty()
    process = subprocess.Popen([*COMMAND, *arguments], cwd=folder, stdout=subprocess.DEVNULL, stderr=end)
    os.close(end)
    seen = b""
    while piece := _piece(terminal):
        seen += piece
    assert process.wait(20) == 1
    os.close(terminal)
    lines = seen.decode().splitlines()
    assert lines[:-1] == [f"litellm/{shape} ..." for shape in ("text", "tool-call", "stop", "error")]


def _piece(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux says so when the other end is closed
        return b""
