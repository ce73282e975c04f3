"""Verbs that look at files alone, as functions: what they open, how they know the dialect, what they say and write."""

from __future__ import annotations

import json
import os
import shutil
import socket
from pathlib import Path

import pytest
from commandline import harness
from reading import FIXTURES, QUIRKS

from harness.errors import UsageError
from harness.findings import Outcome, Severity
from harness.reduce import events_of
from harness.runs.files import (
    diff_files,
    expand,
    expected_of,
    lint_file,
    message_json,
    open_file,
    verify_expected,
    write_expected,
)
from harness.store import expected_path
from harness.structure import STRUCTURE_FORMAT, signature

TEXT, CALL = FIXTURES / "vllm" / "text.sse", FIXTURES / "vllm" / "tool-call.sse"


def copied(source: Path, folder: Path, *, sidecar: bool = True) -> Path:
    """The fixture in another folder, with its sidecar or bare."""
    shutil.copy(source, folder)
    if sidecar:
        shutil.copy(source.with_suffix(".json"), folder)
    return folder / source.name


# -- expand -------------------------------------------------------------------------------------------------------


def test_expand_keeps_the_order_given_and_sorts_within_folders(tmp_path: Path) -> None:
    for name in ("z/b.sse", "z/a.sse", "z/y/c.sse", "z/a.json", "y.sse", "z/.hidden/d.sse", "z/.e.sse", "none/x.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    z, none = tmp_path / "z", tmp_path / "none"
    below = [z / ".e.sse", z / "a.sse", z / "b.sse", z / "y" / "c.sse"]
    assert list(expand([z])) == below
    assert list(expand([tmp_path / "y.sse", z, tmp_path / "missing", tmp_path / "y.sse"])) == [
        tmp_path / "y.sse", *below, tmp_path / "missing", tmp_path / "y.sse",
    ]  # fmt: skip
    assert list(expand([z / ".hidden"])) == [z / ".hidden" / "d.sse"]
    assert list(expand([none])) == [none]


def test_what_has_no_end_is_left_out_of_a_folder_but_not_what_is_broken(tmp_path: Path) -> None:
    copied(TEXT, tmp_path)
    os.mkfifo(tmp_path / "pipe.sse")
    for name, target in (("zero", "/dev/zero"), ("fifo", "pipe.sse"), ("gone", "nowhere"), ("self", "self.sse")):
        (tmp_path / f"{name}.sse").symlink_to(target)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket.sse"))
        assert [path.name for path in expand([tmp_path])] == ["gone.sse", "self.sse", "text.sse"]
    assert list(expand([tmp_path / "pipe.sse"])) == [tmp_path / "pipe.sse"]


def test_a_folder_is_no_recording(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"a folder, and no \.sse file in it; name a recording$"):
        open_file(tmp_path)
    copied(TEXT, tmp_path)
    with pytest.raises(UsageError, match=r"a folder, name one of the recordings in it$"):
        open_file(tmp_path)


# -- open_file ----------------------------------------------------------------------------------------------------


def test_the_dialect_is_given_or_the_sidecars_or_told_by_the_content(tmp_path: Path) -> None:
    def known(path: Path, dialect: str | None = None) -> tuple[str, str]:
        shown = open_file(path, dialect)
        return shown.dialect, shown.known_by

    bare = copied(TEXT, tmp_path, sidecar=False)
    assert known(TEXT) == ("chat", "sidecar")
    assert known(TEXT, "anthropic") == ("anthropic", "given")
    assert known(bare) == ("chat", "content")
    bare.with_suffix(".json").write_text('{"format": "sse-harness/1", "dialect": null}', "utf-8")
    assert known(bare) == ("chat", "content")
    bare.with_suffix(".json").write_text('{"format": "sse-harness/1", "dialect": "responses"}', "utf-8")
    assert known(bare) == ("responses", "sidecar")
    assert known(QUIRKS / "049-cut-between-events.sse") == ("chat", "sidecar")


def test_events_are_kept_only_where_they_are_asked_for() -> None:
    assert open_file(CALL).events == []
    assert open_file(CALL, keep_events=True).events == events_of(CALL.read_bytes(), "chat")


def test_the_request_in_the_sidecar_says_what_was_asked(tmp_path: Path) -> None:
    """Usage is missing only if it was asked for; a bare file's request is not known."""
    path = tmp_path / "x.sse"
    events = TEXT.read_bytes().split(b"\n\n")
    path.write_bytes(b"\n\n".join(event for event in events if b'"usage":{' not in event))

    def missing() -> bool:
        return "usage.missing" in open_file(path).reading.structure.notes

    assert not missing()
    for asked in (True, False):
        body = {"stream": True, "stream_options": {"include_usage": asked}}
        sidecar = {"format": "sse-harness/1", "dialect": "chat", "request": {"body": body}}
        path.with_suffix(".json").write_text(json.dumps(sidecar), "utf-8")
        assert missing() is asked


# -- message, lint, diff ------------------------------------------------------------------------------------------


def test_message_json_is_the_file_and_then_the_message() -> None:
    found = message_json(CALL, open_file(CALL).reading.message)
    assert list(found)[:2] == ["file", "text"]
    assert found["file"] == str(CALL)
    assert found["tool_calls"][0]["id"] == "chatcmpl-tool-bcab95be3866d43c"


@pytest.mark.parametrize(
    ("fail_on", "outcome"),
    [(Severity.FATAL, Outcome.CONFORMS), (Severity.NEGOTIABLE, Outcome.DIFFERS), (Severity.COSMETIC, Outcome.DIFFERS)],
)
def test_lint_file(fail_on: Severity, outcome: Outcome) -> None:
    shown, findings, found = lint_file(FIXTURES / "vllm" / "stop.sse", None, fail_on)
    assert ([finding.rule for finding in findings], found) == (["finish.with-content"], outcome)
    assert shown.dialect == "chat"
    (evidence,) = findings[0].evidence
    assert b'"content":"l "' in shown.loaded.recording.body[evidence.at : evidence.at + evidence.length]


def test_diff_files_compares_answers_with_answers_and_failures_with_failures() -> None:
    def compared(one: str, other: str, fail_on: Severity = Severity.NEGOTIABLE) -> tuple[Outcome, list[str]]:
        found = diff_files(FIXTURES / f"{one}.sse", FIXTURES / f"{other}.sse", None, fail_on)
        assert found.reason == ""
        return found.outcome, [finding.rule for finding in found.findings]

    assert compared("vllm/text", "vllm/text") == (Outcome.CONFORMS, [])
    assert compared("vllm/text", "litellm/text")[0] is Outcome.DIFFERS
    assert compared("vllm/text", "litellm/text", Severity.FATAL)[0] is Outcome.CONFORMS
    assert compared("vllm/error", "litellm/error")[1] == ["end.marker-after-error", "error.code-type"]
    assert compared("vllm/error", "vllm/text")[1] == ["error.swallowed"]
    assert compared("vllm/text", "vllm/error")[1] == ["error.in-stream"]


def test_diff_files_says_when_there_is_nothing_to_compare_with() -> None:
    found = diff_files(QUIRKS / "049-cut-between-events.sse", TEXT, None, Severity.NEGOTIABLE)
    assert (found.outcome, found.findings) == (Outcome.NOT_MEASURED, [])
    assert found.reason == "the baseline's stream is no answer (cut)"
    assert found.candidate.loaded.path == TEXT


# -- expectations -------------------------------------------------------------------------------------------------


def test_an_expectation_is_the_message_and_the_signature(tmp_path: Path) -> None:
    path = copied(CALL, tmp_path)
    assert write_expected(path) is True
    assert write_expected(path) is False
    text = expected_path(path).read_bytes()
    assert text.endswith(b"}\n")
    assert b"\r" not in text
    found = json.loads(text)
    shown = open_file(path)
    assert found["structure_format"] == STRUCTURE_FORMAT
    assert found["structure"] == signature(shown.reading.structure) == sorted(found["structure"])
    assert found["message"]["tool_calls"][0]["name"] == "get_weather"
    assert not {"file", "notes"} & set(found["message"])
    assert found == json.loads(json.dumps(expected_of(shown)))
    assert verify_expected(path) == []


def test_what_changed_is_told_line_by_line(tmp_path: Path) -> None:
    path = copied(TEXT, tmp_path, sidecar=False)
    write_expected(path)
    path.write_bytes(path.read_bytes().replace(b'"role":"assistant",', b""))
    difference = verify_expected(path)
    assert difference[:2] == [f"--- {expected_path(path)}", f"+++ {path} today"]
    assert [line for line in difference[2:] if line[0] in "+-"] == [
        '+    "wire.notes.role.missing = true",',
        '-    "wire.role.pattern = first",',
        '+    "wire.role.pattern = never",',
    ]
    write_expected(path)
    assert verify_expected(path) == []


def test_an_expectation_that_is_missing_broken_or_old_is_usage(tmp_path: Path) -> None:
    path = copied(TEXT, tmp_path)
    with pytest.raises(UsageError, match=r"no expectation beside text\.sse; write it with `harness expect --write"):
        verify_expected(path)
    for text, says in [
        ("{", "not readable as JSON"), ("[]", "structure_format is not"), ("[" * 100_000, "not readable as JSON"),
        ('{"structure_format": 0, "structure": []}', "structure_format is not"),
    ]:  # fmt: skip
        expected_path(path).write_text(text, "utf-8")
        with pytest.raises(UsageError, match=says):
            verify_expected(path)
    expected_path(path).unlink()
    expected_path(path).mkdir()
    with pytest.raises(UsageError, match="no expectation beside"):
        verify_expected(path)
    with pytest.raises(UsageError, match="cannot be written"):
        write_expected(path)


def test_expectations_hold_what_no_text_file_could(tmp_path: Path) -> None:
    """Half a character, NaN and control characters are written, read back and verified."""
    path = tmp_path / "x.sse"
    deltas = ['{"role":"assistant","content":"a\\ud83d\\u001b"}', '{"content":"\\u2028\x7f"}']
    events = "".join(f'data: {{"choices":[{{"index":0,"delta":{delta}}}],"usage":{{"x":NaN}}}}\n\n' for delta in deltas)
    path.write_text(events, "utf-8")
    write_expected(path)
    assert verify_expected(path) == []
    assert json.loads(expected_path(path).read_text("utf-8"))["message"]["text"] == "a\ud83d\x1b\u2028\x7f"


# -- paths that cannot be looked at -------------------------------------------------------------------------------

TOO_LONG = "x" * 300


@pytest.mark.parametrize("verb", [("lint",), ("show",), ("expect",), ("expect", "--write"), ("lint", "--secrets")])
@pytest.mark.parametrize("name", [f"{TOO_LONG}.sse", f"{'y' * 251}.sse"], ids=["too long", "too long for a sidecar"])
def test_a_name_that_is_too_long_hides_no_other_file(tmp_path: Path, verb: tuple[str, ...], name: str) -> None:
    """The body's own name may do where that of a file beside it does not."""
    good = copied(TEXT, tmp_path)
    write_expected(good)
    bad = tmp_path / name
    if len(name) <= 255:
        bad.write_bytes(TEXT.read_bytes())
    done = harness(*verb, bad, good)
    assert done.code in (0, 2)
    assert "bug" not in done.err
    assert (done.code == 2) == (len(name) > 255 or verb[0] == "expect")
    assert harness(*verb, bad, good).out.endswith(harness(*verb, good).out)


@pytest.mark.parametrize(
    "arguments",
    [("replay", TOO_LONG), ("diff", TOO_LONG, TOO_LONG), ("record", "a", "--config", TOO_LONG),
     ("record", "a", "--shape", TOO_LONG), ("plan", "a", "b", "--shape", TOO_LONG)],
)  # fmt: skip
def test_a_path_that_cannot_be_looked_at_is_no_bug(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    provider = {"dialect": "chat", "base_url": "http://127.0.0.1:9/v1", "model": "m"}
    (tmp_path / "providers.yaml").write_text(json.dumps({"providers": {"a": provider, "b": provider}}), "utf-8")
    monkeypatch.chdir(tmp_path)
    assert TOO_LONG in harness(*arguments).failed(2)


@pytest.mark.parametrize("arguments", [("doctor",), ("init",), ("gate", "a", "b")])
def test_a_current_folder_that_is_gone_is_no_bug(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert harness(*arguments).failed(2) == "harness: the current folder is gone; change into one"
    assert harness("lint", TEXT, "--fail-on", "fatal").code in (0, 1)
