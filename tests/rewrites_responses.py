"""Rewrites of Responses streams that leave the structure as it is (RULES, section 1): bytes -> bytes.

As in `rewrites`, events that hold one JSON object on one data line are rewritten, and the rest stays byte for byte.
Done events and the final object say what the deltas add up to: wording is changed alike in all of them, and sequence
numbers go on counting.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from typing import Any

import rewrites
from rewrites import Chunk, Masker, chunks, rewrite

from harness.dialects.responses import OLD_NAMES

PIECE = ("delta", "sequence_number", "logprobs", "obfuscation")  # what tells two deltas of one part apart
IDS = ("id", "item_id", "call_id")
WORDING = ("text", "refusal", "delta", "input", "transcript", "summary", "content")


def _delta(payload: dict[str, Any]) -> str | None:
    """The piece of a delta event."""
    kind, piece = payload.get("type"), payload.get("delta")
    known = isinstance(kind, str) and kind.endswith(".delta")
    return piece if known and isinstance(piece, str) and not payload.get("error") else None


def _numbered(payload: dict[str, Any], by: int) -> dict[str, Any]:
    number = payload.get("sequence_number")
    return {**payload, "sequence_number": number + by} if type(number) is int else payload


def split(body: bytes) -> bytes:
    """Each delta in two."""
    added = 0

    def change(chunk: Chunk) -> list[dict[str, Any]]:
        nonlocal added
        first, piece = _numbered(chunk.payload, added), _delta(chunk.payload)
        if piece is None or len(piece) < 2:
            return [first]
        added += type(chunk.payload.get("sequence_number")) is int
        middle = len(piece) // 2
        second = _numbered(chunk.payload, added)
        return [{**first, "delta": piece[:middle]}, {**second, "delta": piece[middle:]}]

    return rewrite(body, change)


def merge(body: bytes) -> bytes:
    """Neighbouring deltas of one part in one."""
    pieces: dict[int, list[str]] = {}  # offset of the first delta of a group -> all its pieces
    dropped: set[int] = set()
    first: Chunk | None = None
    end = 0
    for chunk in chunks(body):
        piece = _delta(chunk.payload)
        alike = first is not None and piece is not None and _part(first.payload) == _part(chunk.payload)
        if alike and first is not None and piece is not None and not body[end : chunk.at].strip(b"\r\n"):
            pieces[first.at].append(piece)
            dropped.add(chunk.at)
        else:
            first = chunk if piece is not None else None
            if piece is not None:
                pieces[chunk.at] = [piece]
        end = chunk.at + chunk.length
    fewer = 0

    def change(chunk: Chunk) -> list[dict[str, Any]]:
        nonlocal fewer
        if chunk.at in dropped:
            fewer += type(chunk.payload.get("sequence_number")) is int
            return []
        payload = _numbered(chunk.payload, -fewer)
        return [{**payload, "delta": "".join(pieces[chunk.at])} if chunk.at in pieces else payload]

    return rewrite(body, change)


def _part(payload: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in payload.items() if key not in PIECE}


def rename(body: bytes) -> bytes:
    """Every id another one, the same for the same: of the response, its items and calls."""
    found: set[str] = set()

    def look(node: Any) -> None:
        if isinstance(node, dict):
            found.update(node[key] for key in IDS if isinstance(node.get(key), str))
        for inner in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
            look(inner)

    for chunk in chunks(body):
        look(chunk.payload)
    for number, name in enumerate(sorted(found - {""}, key=len, reverse=True)):
        body = body.replace(json.dumps(name).encode(), json.dumps(f"renamed-{number}").encode())
    return body


def letters(body: bytes) -> bytes:
    """Every letter of text and of what is passed to calls a `q`; JSON stays JSON."""
    maskers: dict[str, Masker] = {}

    def masked(node: Any, inside: bool = False) -> Any:
        if isinstance(node, dict):
            return {
                key: Masker().mask(value) if key == "arguments" and isinstance(value, str)
                else masked(value, inside or key in WORDING) if key in WORDING or not isinstance(value, str)
                else value
                for key, value in node.items()
            }  # fmt: skip
        if isinstance(node, list):
            return [masked(entry, inside) for entry in node]
        return re.sub(r"[^\W\d_]", "q", node) if inside and isinstance(node, str) else node

    def change(chunk: Chunk) -> list[dict[str, Any]]:
        payload = copy.deepcopy(chunk.payload)
        piece, kind = _delta(payload), payload.get("type")
        if piece is not None and "arguments" in str(OLD_NAMES.get(str(kind), kind)):
            owner = json.dumps([payload.get("item_id"), payload.get("output_index")])
            return [{**payload, "delta": maskers.setdefault(owner, Masker()).mask(piece)}]
        return [masked(payload)]

    return rewrite(body, change)


REWRITES: dict[str, Callable[[bytes], bytes]] = {
    "split": split, "merge": merge, "rename": rename, "shift": rewrites.shift, "letters": letters,
}  # fmt: skip
