"""Hostile streams and files: numbers, sizes and depths that nobody sends by accident; and keys that reach no file.

What must be linear is measured by what twice the input costs, in processor time.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from commandline import Done, harness, harness_process
from mutations import check
from reading import FIXTURES
from servers import Scripted, answer, chunked

from harness.dialects import BUILT_IN
from harness.errors import UsageError
from harness.jsontext import MAX_DEPTH, to_json
from harness.recording import Recording
from harness.rules import lint
from harness.secrets import MIN_LENGTH, credentials
from harness.store import load, take_path
from harness.structure import Reading, read, signature

DONE = b"data: [DONE]\n\n"


def event(payload: Any) -> bytes:
    return b"data: " + json.dumps(payload).encode() + b"\n\n"


def chunk(*choices: Any) -> dict[str, Any]:
    return {"id": "x", "object": "chat.completion.chunk", "model": "m", "choices": list(choices)}


def call(index: Any, **more: Any) -> dict[str, Any]:
    return {"index": index, "id": f"c{index}", "type": "function", "function": {"name": "f", "arguments": "{}"}, **more}


def judged(body: bytes, dialect: str = "chat") -> Reading:
    """All that `lint` and `show` do with a body."""
    reading = read(Recording(body=body, status=200, end="eof"), dialect)
    for finding in lint(reading.structure):
        assert len(finding.message) < 2000, "a report must stay readable"
    signature(reading.structure)
    to_json(reading.message).encode()
    return reading


# -- sizes

Maker = Callable[[int], bytes]


def choices_in_a_chunk(n: int) -> bytes:
    return event(chunk(*({"index": i, "delta": {"content": "x"}, "finish_reason": None} for i in range(n)))) + DONE


def choices_each(n: int) -> bytes:
    return b"".join(event(chunk({"index": i, "delta": {"content": "x"}})) for i in range(n)) + DONE


def one_choice_again(n: int) -> bytes:
    return event(chunk(*({"index": 0, "delta": {"content": "x"}} for _ in range(n)))) + DONE


def calls_in_a_delta(n: int) -> bytes:
    return event(chunk({"index": 0, "delta": {"tool_calls": [call(i) for i in range(n)]}})) + DONE


def calls_backwards(n: int) -> bytes:
    return b"".join(event(chunk({"index": 0, "delta": {"tool_calls": [call(n - i)]}})) for i in range(n)) + DONE


def one_index_many_ids(n: int) -> bytes:
    calls = (call(0, id=f"c{i}") for i in range(n))
    return b"".join(event(chunk({"index": 0, "delta": {"tool_calls": [one]}})) for one in calls) + DONE


def fragments(*functions: dict[str, Any], **more: Any) -> bytes:
    """One fragment of call 0 in each event."""
    entries = ({"index": 0, "function": function, **more} for function in functions)
    return b"".join(event(chunk({"index": 0, "delta": {"tool_calls": [entry]}})) for entry in entries)


def name_in_pieces(n: int) -> bytes:
    return fragments(*({"name": f"piece{i}"} for i in range(n))) + DONE


def name_and_arguments_in_pieces(n: int) -> bytes:
    return fragments(*({"name": f"n{i}", "arguments": "[[1,"} for i in range(n))) + DONE


def name_beside_each_piece_of_arguments(n: int) -> bytes:
    pieces = ['{"a": "', *["x } y"] * n, '"}']
    return fragments(*({"name": "f", "arguments": piece} for piece in pieces)) + DONE


def name_beside_blank_arguments(n: int) -> bytes:
    return fragments(*({"name": "f", "arguments": " "} for _ in range(n))) + DONE


def giant_id_that_changes(n: int) -> bytes:
    first = fragments({"name": "f", "arguments": ""}, id="i" * 40 * n)
    return first + b"".join(fragments({"arguments": "1"}, id=f"j{i}") for i in range(n)) + DONE


def giant_indexes(n: int) -> bytes:
    calls = [call(10**30), call(-1), call(-(10**30)), call(2**64)]
    return b"".join(
        event(chunk({"index": 10**30 - i, "delta": {"content": "x", "tool_calls": calls}})) for i in range(n // 4)
    )


def stray_lines(n: int) -> bytes:
    return b"a line that is no field\n" * n + DONE


def stray_braces(n: int) -> bytes:
    return b"{\n" + b"}\n" * n + b"{\n" * n + DONE


def open_braces(n: int) -> bytes:
    return b'{"a": [\n' + b"}\n" * n + DONE


def unterminated_lines(n: int) -> bytes:
    return b'data: {"a": 1}\n' * n


def glued_lines(n: int) -> bytes:
    return b"data: {}\n" * n + b"\n" + DONE


def unknown_keys(n: int) -> bytes:
    return event(chunk({"index": 0, "delta": {f"k{i}": "x" for i in range(n)}})) + DONE


def giant_key(n: int) -> bytes:
    return event({**chunk({"index": 0, "delta": {"k" * 40 * n: "x"}}), "t" * 40 * n: 1}) + DONE


def finish_reasons(n: int) -> bytes:
    return b"".join(event(chunk({"index": 0, "delta": {}, "finish_reason": f"r{i}"})) for i in range(n)) + DONE


def comments(n: int) -> bytes:
    return b": ping\n\n" * n + DONE


def carriage_returns(n: int) -> bytes:
    return b"\r" * n + b"data: {}\r" * n + DONE


MAKERS: list[Maker] = [
    choices_in_a_chunk, choices_each, one_choice_again, calls_in_a_delta, calls_backwards, one_index_many_ids,
    name_in_pieces, name_and_arguments_in_pieces, name_beside_each_piece_of_arguments, name_beside_blank_arguments,
    giant_id_that_changes,
    giant_indexes, stray_lines, stray_braces, open_braces, unterminated_lines, glued_lines, unknown_keys, giant_key,
    finish_reasons, comments, carriage_returns,
]  # fmt: skip
OTHER_MAKERS: dict[str, Callable[[int], bytes]] = {
    "anthropic": lambda n: b"".join(
        event({"type": "content_block_start", "index": i, "content_block": {"type": "tool_use", "id": f"t{i}",
               "name": "f", "input": {}}}) for i in range(n)),
    "responses": lambda n: b"".join(
        event({"type": "response.output_item.added", "output_index": 0, "item": {"type": "function_call",
               "id": f"i{i}", "call_id": f"c{i}", "name": "f", "arguments": ""}}) for i in range(n)),
    "gemini": lambda n: event({"candidates": [{"index": i, "content": {"parts": [{"text": "x"}, {"functionCall": {
        "name": "f", "args": {}}}]}} for i in range(n)]}),
    "ollama": lambda n: b"".join(
        json.dumps({"model": "m", "message": {"tool_calls": [{"function": {"name": "f", "arguments": {"a": i}}}]},
                    "done": False}).encode() + b"\n" for i in range(n)),
    "completions": lambda n: event({"object": "text_completion", "choices": [
        {"index": i, "text": "x"} for i in range(n)]}),
    "cohere": lambda n: b"".join(
        event({"type": "tool-call-start", "index": -i, "delta": {"message": {"tool_calls": {"id": f"c{i}",
               "type": "function", "function": {"name": "f", "arguments": ""}}}}}) for i in range(n)),
}  # fmt: skip


def seconds(body: bytes, dialect: str) -> float:
    begun = time.process_time()
    judged(body, dialect)
    return time.process_time() - begun


def is_linear(maker: Maker, dialect: str) -> bool:
    """Sixteen times as much takes far less than 256 times as long, with room for a busy machine and a few tries."""
    small, large = maker(1000), maker(16_000)
    return any(seconds(large, dialect) / max(seconds(small, dialect), 0.002) < 80 for _ in range(4))


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: str(maker.__name__))
def test_time_is_linear(maker: Maker) -> None:
    assert is_linear(maker, "chat")


@pytest.mark.parametrize("dialect", OTHER_MAKERS)
def test_time_is_linear_in_other_dialects(dialect: str) -> None:
    assert is_linear(OTHER_MAKERS[dialect], dialect)


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: str(maker.__name__))
def test_a_small_one_reads_the_same_however_it_is_cut(maker: Maker) -> None:
    for dialect in BUILT_IN:
        check(maker(12), dialect, 7)


def test_a_hundred_thousand_choices_and_stray_lines() -> None:
    message = judged(choices_in_a_chunk(100_000)).message
    assert len(message.choices) == 100_000
    reading = judged(stray_lines(100_000))
    assert "sse.unknown-field" in reading.structure.notes or reading.structure.notes


INDEXES = [10**30, -1, -(10**30), 2**63, 2**64, 1e30, 1e308, 0.5, True, "0", "x" * 9999, [], {}, None]


@pytest.mark.parametrize("index", INDEXES, ids=lambda index: repr(index)[:12])
@pytest.mark.parametrize("dialect", BUILT_IN)
def test_any_index_reads_and_can_be_written(dialect: str, index: Any) -> None:
    bodies = {
        "anthropic": [{"type": "content_block_start", "index": index, "content_block": {"type": "tool_use", "id": "t",
                       "name": "f", "input": {}}}, {"type": "content_block_delta", "index": index, "delta": {
                       "type": "input_json_delta", "partial_json": "{}"}}],
        "responses": [{"type": "response.output_text.delta", "output_index": index, "content_index": index,
                       "sequence_number": index, "delta": "x"}],
        "gemini": [{"candidates": [{"index": index, "content": {"parts": [{"text": "x"}]}}]}],
        "ollama": [{"model": "m", "message": {"content": "x", "tool_calls": [{"function": {"index": index,
                    "name": "f", "arguments": {}}}]}, "done": False, "eval_count": index}],
        "cohere": [{"type": "content-delta", "index": index, "delta": {"message": {"content": {"text": "x"}}}}],
    }  # fmt: skip
    payloads = bodies.get(dialect, [chunk({"index": index, "text": "x", "delta": {"tool_calls": [call(index)]}})])
    if dialect == "ollama":
        body = b"".join(json.dumps(payload).encode() + b"\n" for payload in payloads)
    else:
        body = b"".join(event(payload) for payload in payloads)
    check(body, dialect, 11)
    judged(body, dialect)


@pytest.mark.parametrize("depth", [MAX_DEPTH - 9, MAX_DEPTH + 1, 100_000])
@pytest.mark.parametrize("dialect", BUILT_IN)
def test_depth_is_bounded(dialect: str, depth: int) -> None:
    deep = b"[" * depth + b"]" * depth
    end = b"\n" if dialect == "ollama" else b"\n\n"
    start = b"" if dialect == "ollama" else b"data: "
    inside = (b'{"choices": ' + deep + b"}", b'{"delta": ' + deep + b', "type": "message_start"}')
    for body in (deep, *inside, b"[" * depth):
        judged(start + body + end, dialect)


# -- files


def test_names_that_would_leave_the_folder_are_refused(tmp_path: Path) -> None:
    for name in ("..", ".", "", "a/b", "/etc", "a\\b", "A", "a b", "a\0", "a\n", "x" * 5 + "/../y", "con:"):
        with pytest.raises(UsageError):
            take_path(tmp_path, name, "text")
        with pytest.raises(UsageError):
            take_path(tmp_path, "p", name)


def test_links_out_of_the_folder_and_circles_are_refused(tmp_path: Path) -> None:
    root, outside = tmp_path / "fixtures", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "text.sse").write_bytes(DONE)
    (root / "linked").symlink_to(outside)
    (root / "p").mkdir()
    (root / "p" / "text.sse").symlink_to(outside / "text.sse")
    (root / "round").symlink_to(root / "round")
    for provider in ("linked", "p", "round"):
        with pytest.raises(UsageError, match="link"):
            take_path(root, provider, "text")


@pytest.mark.parametrize("text", [
    '{"format": "sse-harness/1", "reads": [[-1, -1]]}', '{"format": "sse-harness/1", "reads": [[1e99, 1]]}',
    '{"format": "sse-harness/1", "reads": "x"}', '{"format": "sse-harness/1", "end": "well"}',
    '{"format": "sse-harness/1", "headers": {"a": 1}}', '{"format": "sse-harness/1", "status": "200"}',
    '{"format": "sse-harness/1", "dialect": "../x"}', '{"format": "sse-harness/1", "dialect": "\\u001b[31m"}',
    '{"format": "sse-harness/1", "request": {"body": ' + "[" * 2000 + "]" * 2000 + "}}", '{"format": "sse-harness/1"',
    '{"format": "sse-harness/99"}', "[" * 100_000, "null", '{"verdict": 1, "expect": 2}',
    '{"verdict": "fatal", "expect": {}, "family": "chat", "timing": [[1, -5]]}',
    '{"verdict": "fatal", "expect": {}, "family": "chat", "headers": {"content-encoding": "gzip"}}',
    '{"verdict": "fatal", "expect": {}, "family": "nope"}', '{"verdict": "fatal", "expect": {}, "timing": [[1e13, 1]]}',
])  # fmt: skip
def test_a_hostile_sidecar_is_refused_or_ignored_in_one_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / "text.sse"
    path.write_bytes(choices_each(2))
    path.with_suffix(".json").write_text(text)
    for verb in (("lint",), ("show",), ("show", "--as", "timeline"), ("lint", "--secrets"), ("expect", "--write")):
        done = harness(*verb, path)
        assert done.code in (0, 1, 2), done
        assert done.err.count("\n") <= 1
        assert "\x1b" not in done.err + done.out


def test_a_sidecar_that_claims_too_much_is_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "text.sse"
    path.write_bytes(DONE)
    path.with_suffix(".json").write_text('{"format": "sse-harness/1", "reads": [[5, 1], [99999999, 2]], "end": "eof"}')
    loaded = load(path)
    assert loaded.recording.reads == []
    assert loaded.warning is not None


# -- keys: whatever runs, no file holds one

KEY = 'sk-canary/"0123\\456789+abcdefghij'


def coded(key: str) -> list[bytes]:
    """In base64, with none to two bytes before it."""
    return [base64.b64encode(b"u:"[:before] + key.encode() + b"..") for before in (0, 1, 2)]


def echoes(key: str) -> list[bytes]:
    """The key as it is, as JSON has it, as JSON in JSON has it, and in base64."""
    return [key.encode(), json.dumps(key)[1:-1].encode(), json.dumps(json.dumps(key))[3:-3].encode(), *coded(key)]


def spellings(key: str) -> list[bytes]:
    """What no file may hold: of base64 what the key alone decides, and some characters less."""
    return [*echoes(key)[:3], *(form[4:-8] for form in coded(key))]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A current folder whose files are searched for the key at the end."""
    monkeypatch.chdir(tmp_path)
    for name in credentials(dict(os.environ)):
        monkeypatch.delenv(name)
    monkeypatch.setenv("CANARY_API_KEY", KEY)
    yield tmp_path
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    for path in files:
        data = path.read_bytes()
        for form in spellings(KEY):
            assert len(form) >= MIN_LENGTH
            assert form not in data, path


def configured(folder: Path, url: str) -> None:
    entry = "    dialect: chat\n    base_url: {url}\n    api_key_env: CANARY_API_KEY\n    model: m\n"
    text = "providers:\n" + "".join(f"  {name}:\n" + entry.format(url=url) for name in ("base", "candidate"))
    (folder / "providers.yaml").write_text(text)


def quiet(done: Done) -> Done:
    for form in spellings(KEY):
        assert form.decode() not in done.out + done.err
    return done


GOOD = (FIXTURES / "vllm" / "text.sse").read_bytes()
REPORTS = ("json", "md", "xml", "html")


def test_no_file_of_record_and_gate_holds_the_key(project: Path) -> None:
    with Scripted(answer(GOOD)) as server:
        configured(project, server.url)
        assert quiet(harness("record", "base", "--shape", "text")).code == 0
        reports = [argument for suffix in REPORTS for argument in ("--report", f"report.{suffix}")]
        assert quiet(harness("gate", "base", "candidate", "--shape", "text", *reports)).code in (0, 1)
        assert all(f"Bearer {KEY}".encode() in request for request in server.requests)
    assert all((project / f"report.{suffix}").is_file() for suffix in REPORTS)
    assert quiet(harness("show", "fixtures/base/text.sse", "--as", "bytes")).code == 0


@pytest.mark.parametrize("form", range(len(echoes(KEY))))
def test_a_server_that_echoes_the_key_in_two_reads_leaves_none(project: Path, form: int) -> None:
    echoed = event(chunk({"index": 0, "delta": {"content": "you sent @"}})).replace(b"@", echoes(KEY)[form])
    with Scripted(answer(GOOD), chunked(GOOD[:200], echoed[:-20], 0.1, echoed[-20:] + GOOD[200:])) as server:
        configured(project, server.url)
        assert quiet(harness("record", "base", "--shape", "text")).code == 0
        assert quiet(harness("record", "candidate", "--shape", "text")).code == 3
        reports = [argument for suffix in REPORTS for argument in ("--report", f"report.{suffix}")]
        assert quiet(harness("gate", "base", "candidate", "--shape", "text", *reports)).code == 3
    assert not list(project.rglob("candidate/**/*.sse"))


def test_no_file_of_an_error_that_tells_the_key_holds_it(project: Path) -> None:
    told = json.dumps({"error": {"message": f"Incorrect API key provided: {KEY}"}}).encode()
    with Scripted(answer(GOOD), answer(told, 401, "application/json")) as server:
        configured(project, server.url)
        assert quiet(harness("record", "base", "--shape", "text")).code == 0
        reports = [argument for suffix in REPORTS for argument in ("--report", f"report.{suffix}")]
        quiet(harness("gate", "base", "candidate", "--shape", "text", *reports))
        quiet(harness("record", "candidate", "--shape", "error"))


def test_no_file_of_an_import_holds_the_key(project: Path) -> None:
    body = GOOD.replace(b'"content":"', b'"content":"' + json.dumps(KEY)[1:-1].encode() + b" ", 1)
    request = {"method": "POST", "url": f"http://h/v1/chat/completions?k={KEY}", "postData": {"text": KEY}}
    har = {"log": {"entries": [{"request": request, "response": {"status": 200, "content": {"text": body.decode()}}}]}}
    archive = project / "it.har"
    archive.write_text(json.dumps(har))
    assert quiet(harness("import", archive)).code == 3
    assert quiet(harness("import", archive, "--mask")).code == 0
    archive.unlink()


@pytest.mark.parametrize("form", [None, *range(len(echoes(KEY)))])
def test_no_file_of_the_proxy_holds_the_key(project: Path, form: int | None) -> None:
    parts = [GOOD]
    if form is not None:
        echoed = event(chunk({"index": 0, "delta": {"content": "you sent @"}})).replace(b"@", echoes(KEY)[form])
        parts = [GOOD[:200], echoed[:-20], echoed[-20:] + GOOD[200:]]
    with Scripted(chunked(*parts)) as server:
        configured(project, server.url)
        with harness_process("proxy", "base", "--shape", "text", cwd=project) as process:
            try:
                assert process.stdout is not None
                ready = process.stdout.readline()
                assert ready.startswith("READY "), ready
                body = json.dumps({"model": "m", "stream": True, "user": KEY, "messages": []}).encode()
                headers = {"authorization": f"Bearer {KEY}"}
                url = f"{ready.split()[1]}/chat/completions"
                assert httpx.post(url, content=body, headers=headers, trust_env=False, timeout=30).status_code == 200
            finally:
                process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=30)
        quiet(Done(process.returncode, out, err))
    assert (form is None) == bool(list(project.rglob("text*.sse"))), "a stream that holds the key is not kept"
