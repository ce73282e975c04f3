"""An accumulator for chat completions in fifty lines, as a target: a map from index to call.

cd docs/examples && harness check accumulator:accumulate --claims python.yaml
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any


def events(pieces: Iterable[bytes]) -> Iterator[str]:
    """The data of each server-sent event, wherever the pieces are cut."""
    held, data = list[bytes](), list[bytes]()
    for piece in pieces:
        held.append(piece)
        if b"\n" not in piece:  # joined once: a long line may come byte by byte
            continue
        *lines, rest = b"".join(held).split(b"\n")
        held = [rest]
        for line in lines:
            line = line.removesuffix(b"\r")
            if line.startswith(b"data:"):
                data.append(line[5:].removeprefix(b" "))
            elif not line and data:
                yield b"\n".join(data).decode("utf-8", "replace")
                data = []


def accumulate(pieces: Iterable[bytes]) -> dict[str, Any]:
    """The assistant message. Raises ValueError if the stream fails or ends too early."""
    text: list[str] = []
    calls: dict[int, dict[str, Any]] = {}
    done = False
    for data in events(pieces):
        if data == "[DONE]":
            done = True
            break
        if not data:
            continue
        chunk = json.loads(data)
        if "error" in chunk:
            raise ValueError(f"the server failed: {chunk['error']}")
        for choice in chunk["choices"]:
            if choice["index"] != 0:
                continue
            delta = choice["delta"] or {}
            text.append(delta.get("content") or "")
            for fragment in delta.get("tool_calls") or []:
                call = calls.setdefault(fragment["index"], {"id": "", "name": "", "pieces": []})
                function = fragment.get("function") or {}
                call["id"] = call["id"] or fragment.get("id") or ""  # set once, from a value that is not empty
                call["name"] = call["name"] or function.get("name") or ""
                call["pieces"].append(function.get("arguments") or "")
            done = done or bool(choice["finish_reason"])
    if not done:
        raise ValueError("the stream ended before the answer did")
    made = [
        {"id": call["id"], "type": "function",
         "function": {"name": call["name"], "arguments": "".join(call["pieces"])}}
        for _, call in sorted(calls.items())
    ]  # fmt: skip
    content = "".join(text)
    return {"role": "assistant", "content": content or (None if made else ""), "tool_calls": made}
