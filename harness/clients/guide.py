"""The two small accumulators that people write first (SEEDS, A), each with and without a guard against empty strings.

They read chat, know tool calls and text, key calls by index and stop at a finish reason; nothing else is in them. The
guard is `if id` instead of `if id is not None`. With it they assemble every call as OpenAI streams it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from harness.clients.mistakes import wrong

CALLS_ONLY = ("tool_calls",)


def _choices(body: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The first choice of each chunk, up to the one with a finish reason or the end."""
    rest = b""
    for piece in body:
        *lines, rest = (rest + piece).split(b"\n") if b"\n" in piece else [rest + piece]
        for line in lines:
            data = line.strip().removeprefix(b"data:").strip()
            if data == b"[DONE]":
                return
            if not line.startswith(b"data:") or not data:
                continue
            choices = json.loads(data).get("choices")
            if choices:
                yield choices[0]
                if choices[0].get("finish_reason"):
                    return


def _assistant(text: str, calls: list[tuple[str, str, str]]) -> dict[str, Any]:
    entries = [
        {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
        for id, name, arguments in calls
    ]
    message: dict[str, Any] = {"role": "assistant", "content": text or (None if calls else "")}
    return message | ({"tool_calls": entries} if entries else {})


@wrong(
    "guide-lists", "016-index-zero-for-all-calls", features=CALLS_ONLY,
    about="A dict of lists joined at the end, with a guard against empty strings; keyed by index alone.",
)  # fmt: skip
class GuideLists:
    """Index → id, name, list of pieces."""

    guarded = True

    @classmethod
    def sent(cls, value: Any) -> bool:
        """Whether an id or a name is to be taken over."""
        return bool(value) if cls.guarded else value is not None

    @classmethod
    def run(cls, body: Iterable[bytes], dialect: str) -> dict[str, Any]:
        """An assistant message."""
        text: list[str] = []
        calls: dict[int, dict[str, Any]] = {}
        for choice in _choices(body):
            delta = choice.get("delta") or {}
            text.append(delta.get("content") or "")
            for entry in delta.get("tool_calls") or []:
                call = calls.setdefault(entry["index"], {"id": "", "name": "", "pieces": []})
                function = entry.get("function") or {}
                if cls.sent(entry.get("id")):
                    call["id"] = entry["id"]
                if cls.sent(function.get("name")):
                    call["name"] = function["name"]
                call["pieces"].append(function.get("arguments") or "")
        found = [call for _, call in sorted(calls.items())]
        return _assistant("".join(text), [(call["id"], call["name"], "".join(call["pieces"])) for call in found])


@wrong(
    "guide-lists-unguarded", "022-id-empty-on-continuation", features=CALLS_ONLY,
    about="A dict of lists joined at the end, without a guard against empty strings: `\"\"` wipes out the id.",
)  # fmt: skip
class GuideListsUnguarded(GuideLists):
    guarded = False


@wrong(
    "guide-strings", "016-index-zero-for-all-calls", features=CALLS_ONLY,
    about="A map of strings that grow, with a guard against empty strings; keyed by index alone.",
)  # fmt: skip
class GuideStrings(GuideLists):
    """Index → strings that grow."""

    @classmethod
    def run(cls, body: Iterable[bytes], dialect: str) -> dict[str, Any]:
        """An assistant message."""
        text = ""
        ids: dict[int, str] = {}
        names: dict[int, str] = {}
        arguments: dict[int, str] = {}
        for choice in _choices(body):
            delta = choice.get("delta") or {}
            text += delta.get("content") or ""
            for entry in delta.get("tool_calls") or []:
                index, function = entry["index"], entry.get("function") or {}
                if cls.sent(entry.get("id")):
                    ids[index] = entry["id"]
                if cls.sent(function.get("name")):
                    names[index] = function["name"]
                # As a template string does it: whatever is no text is printed.
                arguments[index] = f"{arguments.get(index, '')}{function.get('arguments') or ''}"
        return _assistant(text, [(ids.get(at, ""), names.get(at, ""), arguments[at]) for at in sorted(arguments)])


@wrong(
    "guide-strings-unguarded", "022-id-empty-on-continuation", features=CALLS_ONLY,
    about="A map of strings that grow, without a guard against empty strings: `\"\"` wipes out the id.",
)  # fmt: skip
class GuideStringsUnguarded(GuideStrings):
    guarded = False
