"""Hostile streams and files: numbers, sizes and depths that nobody sends by accident.

What must be linear is measured by what twice the input costs, in processor time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commandline import harness
from mutations import check

from harness.dialects import BUILT_IN
from harness.errors import UsageError
from harness.jsontext import MAX_DEPTH, to_json
from harness.recording import Recording
from harness.rules import lint
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
