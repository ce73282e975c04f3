"""How a reading is compared with what a stream case expects: the rules of cases/README.md, written once.

`differences` says in words what a message lacks; no words, no difference. `read` reads a body whole or in pieces.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.events import Event
from harness.jsontext import to_json
from harness.reduce import Reducer

ROOT = Path(__file__).resolve().parent.parent
QUIRKS = ROOT / "harness" / "quirks"
FIXTURES = ROOT / "fixtures"
CANONICAL = ("text", "tool-call", "stop", "error")
SCALARS = ("text", "reasoning", "finish_reason", "finish_raw", "terminal")


def quirks() -> list[Path]:
    """The `.json` files of the quirk corpus, sorted."""
    return sorted(QUIRKS.glob("*.json"))


def fixture_of(dialect: str, *shapes: str) -> str:
    """`provider/shape` of a fixture in the dialect: the first shape that one of its providers has, by name."""
    found = {
        path.relative_to(FIXTURES).with_suffix("").as_posix()
        for path in FIXTURES.glob("*/*.sse") if json.loads(path.with_suffix(".json").read_bytes())["dialect"] == dialect
    }  # fmt: skip
    for shape in shapes:
        for name in sorted(found):
            if name.endswith(f"/{shape}"):
                return name
    raise AssertionError(f"fixtures/ has no {' and no '.join(shapes)} in the dialect {dialect}: add one")


def quirk(spec: Path) -> tuple[dict[str, Any], bytes]:
    """A case, and its body with the content coding undone that its headers name (the fault of case 065)."""
    case: dict[str, Any] = json.loads(spec.read_bytes())
    body = spec.with_suffix(".sse").read_bytes()
    coding = (case.get("headers") or {}).get("content-encoding")
    return case, gzip.decompress(body) if coding == "gzip" else body


def pieces(body: bytes, size: int) -> Iterator[bytes]:
    """The body in pieces of `size` bytes."""
    return (body[start : start + size] for start in range(0, len(body), size))


def read(body: bytes, dialect: str, size: int | None = None) -> tuple[dict[str, Any], list[Event]]:
    """Message (as its JSON) and events of a body, fed whole or in pieces of `size` bytes."""
    reducer = Reducer(dialect)
    events: list[Event] = []
    for piece in pieces(body, size or max(len(body), 1)):
        events += reducer.feed(piece)
    events += reducer.finish()
    return json.loads(to_json(reducer.message())), events


def same_arguments(got: str | None, want: str | None) -> bool:
    """Equal as JSON values when both parse, an empty string counting as {}; else equal as text."""
    if got == want:
        return True
    try:
        return bool(json.loads(got or "{}") == json.loads(want or "{}"))
    except ValueError:
        return False


def differences(got: dict[str, Any], want: dict[str, Any]) -> list[str]:
    """What of `expect` a message (as JSON) does not have. Null, absent and empty are the same."""
    found = [f"{field}: {got.get(field)!r} is not {want.get(field)!r}" for field in SCALARS
             if (got.get(field) or None) != (want.get(field) or None)]  # fmt: skip
    if "refusal" in want and got.get("refusal") != want["refusal"]:
        found.append(f"refusal: {got.get('refusal')!r} is not {want['refusal']!r}")
    found += _call_differences(got.get("tool_calls") or [], want["tool_calls"])
    for field in ("usage", "error"):
        ours, theirs = got.get(field), want[field]
        if (ours is None) != (theirs is None) or any((ours or {}).get(key) != theirs[key] for key in theirs or {}):
            found.append(f"{field}: {ours!r} is not {theirs!r}")
    if "other_choices" in want:
        others = [choice for choice in got["choices"] if choice["choice"] != 0]
        if len(others) != len(want["other_choices"]):
            return [*found, f"choices: {len(others)} besides 0, not {len(want['other_choices'])}"]
        for ours, theirs in zip(others, want["other_choices"], strict=True):
            found += [
                f"choice {theirs['choice']}: {key}: {ours[key]!r} is not {value!r}"
                for key, value in theirs.items()
                if key != "tool_calls" and ours[key] != value
            ]
            found += _call_differences(ours["tool_calls"], theirs["tool_calls"])
    return found


def _call_differences(got: list[dict[str, Any]], want: list[dict[str, Any]]) -> list[str]:
    keys = [[(call["index"], call["id"] or None, call["name"] or None) for call in calls] for calls in (got, want)]
    if keys[0] != keys[1]:
        return [f"tool_calls: {keys[0]} is not {keys[1]}"]
    return [
        f"arguments of call {theirs['index']}: {ours['arguments']!r} is not {theirs['arguments']!r}"
        for ours, theirs in zip(got, want, strict=True)
        if not same_arguments(ours["arguments"], theirs["arguments"])
    ]
