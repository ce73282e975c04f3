"""docs/python.md: the examples as they stand in docs/examples/, and every public name from its docstring."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

import harness
from harness import pytest_plugin, testing

EXAMPLES = Path(__file__).resolve().parent.parent / "docs" / "examples"
# Where a docstring takes its rule from.
SOURCE = re.compile(r"\s*(?:\((?:(?:contract: )?DESIGN|SEEDS)[^)]*\)|Source: [^.]*\.(?:\s|$))")
WIDTH = 100  # columns of a signature on one line

HEAD = """\
# Python

<!-- Written by tools/generate_docs.py: do not edit. -->

Everything the command line does is made of these. `import harness` loads nothing; a name is loaded when it is first
used. All of it is typed (`py.typed`). What cannot be done is an exception, below `harness.HarnessError`, whose text is
one line with place and remedy ([exit-codes.md](exit-codes.md#from-python)); a difference between streams is a finding,
never an exception. Nothing that a server can send raises.

The package logs each request and answer at INFO, below the logger `harness`, without keys, headers and bodies.

## Two endpoints, compared

[examples/compare_endpoints.py](examples/compare_endpoints.py):
"""

ASYNC = """
## Several at once, and a server that breaks

[examples/record_at_once.py](examples/record_at_once.py):
"""

GROUPS: dict[str, tuple[str, list[str]]] = {
    "Record": ("One request, and the bytes of its answer.", ["Endpoint", "record", "arecord", "Recording", "load"]),
    "Read": (
        "From bytes to events, to what they add up to, to the facts that are compared.",
        ["reduce", "Reducer", "events_of", "Message", "read", "structure"],
    ),
    "Compare": (
        "From facts to findings.",
        ["compare", "lint", "gate", "load_project", "Finding", "Severity", "Outcome", "Report"],
    ),
    "Replay": ("A server on this machine that plays recordings again.", ["replay", "Replay"]),
    "Histories": (
        "What an application sends back after a tool call.", ["assistant_message", "tool_message", "check_history"],
    ),
    "Errors": (
        "Each carries the exit code that the command line ends with as `exit_code`.",
        ["HarnessError", "UsageError", "ConfigError", "NotMeasured", "RecordingError"],
    ),
}  # fmt: skip

TYPES = """
## Types

What functions above take and give. They are imported from where they live, for annotations.

| type | from | what it is |
|---|---|---|"""
LISTED: dict[str, str] = {
    "Timeouts": "endpoint", "Read": "recording", "Sent": "recording", "Provenance": "recording", "Loaded": "store",
    "Call": "message", "Choice": "message", "TokenCounts": "message", "Failure": "message", "Note": "events",
    "Reading": "structure", "Structure": "structure", "Facts": "testing", "Comparison": "compare", "Gated": "runs.gate",
    "Project": "config", "ShapeResult": "findings", "Evidence": "findings", "Accepted": "findings",
    "Exchange": "replay", "Problem": "history",
}  # fmt: skip

TESTING = "`from harness.testing import ...`: for tests ([pytest.md](pytest.md))."
FIXTURES = "Arguments of your tests, by the marker `sse` ([pytest.md](pytest.md#fixtures-in-your-own-tests))."


def python() -> Iterator[str]:
    """docs/python.md."""
    yield HEAD
    yield _program("compare_endpoints.py")
    yield ASYNC
    yield _program("record_at_once.py")
    listed = [name for _, names in GROUPS.values() for name in names]
    assert sorted(listed) == sorted(harness.__all__), "every name stands in one group"
    for title, (about, names) in GROUPS.items():
        yield f"\n## {title}\n\n{about}"
        for name in names:
            yield from _entry("harness", name, getattr(harness, name))
    yield f"\n## harness.testing\n\n{TESTING}"
    for name in testing.__all__:
        if name not in harness.__all__:
            yield from _entry("harness.testing", name, getattr(testing, name))
    yield TYPES
    for name, home in LISTED.items():
        about = _prose(getattr(import_module(f"harness.{home}"), name)).partition("\n\n")[0].replace("|", "\\|")
        yield f"| `{name}` | `harness.{home}` | {' '.join(about.split())} |"
    yield f"\n## Pytest fixtures and marker\n\n{FIXTURES}"
    for name in ("recorded", "live", "replayed", "sse_quirk"):
        yield f"\n### {name}\n\n{_prose(inspect.unwrap(getattr(pytest_plugin, name)))}"
    yield "\n### sse, the marker\n\n```python\n@pytest.mark.sse(provider=..., shape=..., dialect=..., fault=...)\n```\n"
    yield f"{pytest_plugin.MARKER.partition(': ')[2].capitalize()}."


def _program(name: str) -> str:
    return f"```python\n{(EXAMPLES / name).read_text('utf-8').rstrip()}\n```"


def _entry(home: str, name: str, thing: Any) -> Iterator[str]:
    """One name: how it is called or made, what it says, and the members of a class."""
    yield f"\n### {name}\n\n```python\n{_shown(f'{home}.{name}', thing)}\n```\n\n{_prose(thing)}"
    if inspect.isclass(thing):
        for member, found in _members(thing):
            yield f"\n**`{_member(member, found)}`** {_prose(_function(found))}"


def _shown(name: str, thing: Any) -> str:
    if inspect.isclass(thing):
        if issubclass(thing, msgspec.Struct):
            fields = [_field(field) for field in msgspec.structs.fields(thing)]
            return _wrapped(f"{name}(", ["*", *fields], ")")
        if hasattr(thing, "__members__"):
            return f"{name}: {', '.join(str(member) for member in thing.__members__.values())}"
        if issubclass(thing, Exception):
            base = thing.__base__
            return f"class {name}({base.__name__ if base is not None else ''})"
    return _signature(name, thing)


def _field(field: msgspec.structs.FieldInfo) -> str:
    kind = _type(field.type)
    if field.default is not msgspec.NODEFAULT:
        return f"{field.encode_name}: {kind} = {_value(field.default)}"
    if field.default_factory is not msgspec.NODEFAULT:
        return f"{field.encode_name}: {kind} = {_value(field.default_factory())}"
    return f"{field.encode_name}: {kind}"


def _value(value: Any) -> str:
    return repr(value) if not hasattr(value, "value") else repr(value.value)


def _type(kind: Any) -> str:
    text = kind.__name__ if inspect.isclass(kind) and not getattr(kind, "__args__", None) else str(kind)
    return re.sub(r"\b(?:harness|typing|collections)\.(?:\w+\.)*", "", text).replace("NoneType", "None")


def _signature(name: str, thing: Any) -> str:
    signature = inspect.signature(thing)
    parameters: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not any(part.startswith("*") for part in parameters):
            parameters.append("*")
        parameters.append(_parameter(parameter))
    made = "" if inspect.isclass(thing) or signature.return_annotation is signature.empty else (
        f" -> {_type(signature.return_annotation)}"
    )  # fmt: skip
    return _wrapped(f"{'async ' if inspect.iscoroutinefunction(thing) else ''}{name}(", parameters, f"){made}")


def _parameter(parameter: inspect.Parameter) -> str:
    star = "*" if parameter.kind is parameter.VAR_POSITIONAL else ""
    kind = "" if parameter.annotation is parameter.empty else f": {_type(parameter.annotation)}"
    default = parameter.default
    if default is parameter.empty:
        return f"{star}{parameter.name}{kind}"
    shown = "..." if callable(default) else _value(default)
    return f"{parameter.name}{kind} = {shown}"


def _wrapped(start: str, parts: list[str], end: str) -> str:
    """On one line if it fits, else a part a line."""
    line = f"{start}{', '.join(parts)}{end}"
    return line if len(line) <= WIDTH else "\n".join([start, *(f"    {part}," for part in parts), end])


def _members(cls: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties that are ours, in the order of the source."""
    seen: set[str] = set()
    for owner in cls.__mro__:
        if not owner.__module__.startswith("harness"):
            continue
        for name, found in vars(owner).items():
            ours = isinstance(found, property | cached_property) or inspect.isfunction(found)
            if not name.startswith("_") and ours and name not in seen:
                seen.add(name)
                yield name, found


def _function(found: Any) -> Any:
    return found.fget if isinstance(found, property) else getattr(found, "func", found)


def _member(name: str, found: Any) -> str:
    if isinstance(found, property | cached_property):
        returns = inspect.signature(_function(found)).return_annotation
        return f".{name}: {_type(returns)}"
    return " ".join(_signature(f".{name}", found).split())


def _prose(thing: Any) -> str:
    """The docstring as Markdown: its own line ends are kept, but for what says where a rule comes from."""
    text = SOURCE.sub("", inspect.getdoc(thing) or "").strip()
    return re.sub(r"(?<![`\w])<(?=\w)", "\\<", text)
