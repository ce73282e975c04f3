"""What can go wrong between a server and its client, by name. Pure.

A fault is a function from plan to plan (steps.py). To add one, write it under `@fault`: its parameters are what users
may set (`cut:event=3`), its docstring's first line is what they read.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, get_type_hints

import msgspec

from harness.errors import UsageError
from harness.jsontext import Undecodable, decode
from harness.steps import (
    RESET_SECONDS,
    STALL_SECONDS,
    Close,
    Head,
    Reset,
    Send,
    Step,
    Wait,
    body_of,
    event_ends,
    events_in,
    every,
    recut,
    split,
    without,
)

Size = Annotated[int, msgspec.Meta(ge=1)]
Status = Annotated[int, msgspec.Meta(ge=200, le=599)]
Retry = Annotated[int, msgspec.Meta(ge=0)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=86400)]
Factor = Annotated[float, msgspec.Meta(ge=0, le=1000)]


class FaultKind(msgspec.Struct, frozen=True):
    """A row of the table: what a fault does in one line, and what can be set (name to type)."""

    name: str
    about: str
    function: Callable[..., list[Step]]
    settings: dict[str, Any]
    required: frozenset[str]

    @property
    def usage(self) -> str:
        """How it is written: `cut[:event=,byte=]`."""
        settings = ",".join(f"{name.replace('_', '-')}=" for name in self.settings)
        return f"{self.name}:{settings}" if self.required else f"{self.name}[:{settings}]" if settings else self.name


FAULTS: dict[str, FaultKind] = {}


def fault(function: Callable[..., list[Step]]) -> Callable[..., list[Step]]:
    """Enter the function into FAULTS: name and settings from its signature, the line about it from its docstring."""
    parameters = list(inspect.signature(function).parameters.values())[1:]
    hints = get_type_hints(function, include_extras=True)
    name = function.__name__.replace("_", "-")
    FAULTS[name] = FaultKind(
        name, (function.__doc__ or "").partition("\n")[0], function,
        {p.name: hints[p.name] for p in parameters}, frozenset(p.name for p in parameters if p.default is p.empty),
    )  # fmt: skip
    return function


def _place(steps: Sequence[Step], event: int | None, byte: int | None) -> int:
    """The offset after so many events or bytes; negative ones count from the end. Without either: half the body."""
    if event is not None and byte is not None:
        raise UsageError("event and byte name one place: give one of them")
    body = body_of(steps)
    if event is not None:
        ends = [0, *event_ends(body)]
        place = event if event >= 0 else len(ends) - 1 + event
        return ends[min(max(place, 0), len(ends) - 1)]
    if byte is not None:
        return min(max(byte if byte >= 0 else len(body) + byte, 0), len(body))
    return len(body) // 2


@fault
def cut(steps: Sequence[Step], event: int | None = None, byte: int | None = None) -> list[Step]:
    """The connection closes after EVENT events or BYTE bytes (default: half the body); the body's end is not told."""
    return [*split(steps, _place(steps, event, byte))[0], Close(clean=False)]


@fault
def reset(steps: Sequence[Step], event: int | None = None, byte: int | None = None) -> list[Step]:
    """The connection is reset after EVENT events or BYTE bytes (default: half the body)."""
    return [*split(steps, _place(steps, event, byte))[0], Wait(RESET_SECONDS), Reset()]


@fault
def stall(
    steps: Sequence[Step], event: int | None = None, byte: int | None = None, seconds: Seconds = STALL_SECONDS
) -> list[Step]:
    """Silence for SECONDS (600) after EVENT events or BYTE bytes (default: half the body), then on as before."""
    before, after = split(steps, _place(steps, event, byte))
    return [*before, Wait(seconds), *after]


@fault
def drop_marker(steps: Sequence[Step]) -> list[Step]:
    """The event that marks the end ([DONE], message_stop, response.completed, done: true ...) is left out."""
    kept, dropped = list(steps), 0
    for event, end in events_in(body_of(steps)):
        if _is_marker(event.data):
            kept = without(kept, event.at - dropped, end - dropped)
            dropped += end - event.at
    return kept


def _is_marker(data: bytes) -> bool:
    """Whether the event is its dialect's regular end. Source: DESIGN, table of dialects."""
    if data.strip() == b"[DONE]":
        return True
    try:
        payload = decode(data)
    except Undecodable:
        return False
    ends = ("message_stop", "message-end", "response.completed", "response.incomplete", "response.failed")
    return isinstance(payload, dict) and (payload.get("type") in ends or payload.get("done") is True)


@fault
def slow(steps: Sequence[Step], factor: Factor = 1.0, gap: Seconds = 0.1) -> list[Step]:
    """Every wait is FACTOR (1) times as long, and at least GAP (0.1) seconds pass before each piece."""
    out: list[Step] = []
    pending = 0.0
    for step in steps:
        if isinstance(step, Wait):
            pending += step.seconds * factor
            continue
        if isinstance(step, Send):
            pending = max(pending, gap)
        if pending:
            out.append(Wait(pending))
        out.append(step)
        pending = 0.0
    return out


@fault
def pieces(steps: Sequence[Step], size: Size = 1) -> list[Step]:
    """The body comes in pieces of SIZE (1) bytes."""
    return recut(steps, every(size, len(body_of(steps))))


@fault
def status(
    steps: Sequence[Step],
    code: Status,
    body: Literal["json", "html", "none"] = "json",
    retry_after: Retry | None = None,
) -> list[Step]:
    """CODE answers in place of the recording, with an error object, a gateway's page (BODY=html) or nothing (none)."""
    headers = {"content-type": "text/html" if body == "html" else "application/json"}
    if retry_after is not None:
        headers["retry-after"] = str(retry_after)
    kind, text = ERRORS.get(code, ("api_error", "Replayed failure"))
    content = {
        "json": json.dumps({"error": {"message": text, "type": kind, "param": None, "code": kind}}).encode(),
        "html": f"<html><head><title>{code} {text}</title></head><body><h1>{code} {text}</h1></body></html>\n".encode(),
        "none": b"",
    }[body]
    return [Head(code, headers), *([Send(content)] if content else []), Close()]


ERRORS = {
    400: ("invalid_request_error", "Bad request"),
    401: ("invalid_api_key", "Incorrect API key provided"),
    403: ("permission_error", "Not allowed"),
    404: ("not_found_error", "The model does not exist"),
    413: ("request_too_large", "Request too large"),
    422: ("invalid_request_error", "Unprocessable request"),
    429: ("rate_limit_exceeded", "Rate limit reached"),
    500: ("server_error", "Internal server error"),
    502: ("bad_gateway", "Bad gateway"),
    503: ("overloaded_error", "Overloaded"),
    504: ("gateway_timeout", "Gateway timeout"),
}


class Fault(msgspec.Struct, frozen=True):
    """A fault of the table with its settings."""

    name: str
    settings: dict[str, Any] = {}

    def apply(self, steps: Sequence[Step]) -> list[Step]:
        """The plan with the fault. Raises UsageError if the settings contradict each other."""
        return FAULTS[self.name].function(steps, **self.settings)

    def __str__(self) -> str:
        settings = ",".join(f"{name.replace('_', '-')}={value}" for name, value in self.settings.items())
        return f"{self.name}:{settings}" if settings else self.name


def parse_fault(text: str) -> Fault:
    """Read `NAME` or `NAME:SETTING=VALUE,...`, as `cut:event=3`. Raises UsageError that says what there is."""
    name, _, rest = text.strip().partition(":")
    kind = FAULTS.get(name)
    if kind is None:
        raise UsageError(f"no fault {name!r}: use one of {', '.join(FAULTS)}, for instance cut:event=3")
    settings: dict[str, Any] = {}
    for setting in rest.split(",") if rest else []:
        key, _, value = setting.partition("=")
        key = key.strip().replace("-", "_")
        if key not in kind.settings or key in settings:
            problem = "twice" if key in settings else "is unknown"
            raise UsageError(f"fault {text!r}: {key!r} {problem}: write {kind.usage}")
        try:
            settings[key] = msgspec.convert(value.strip(), kind.settings[key], strict=False)
        except msgspec.ValidationError as exc:
            raise UsageError(f"fault {text!r}: {key}={value}: {exc}") from exc
    if not settings.keys() >= kind.required:
        raise UsageError(f"fault {text!r}: {', '.join(kind.required - settings.keys())} is missing: write {kind.usage}")
    found = Fault(name, settings)
    try:
        found.apply([Head(200, {}), Close()])  # settings that contradict each other show here, not at the first request
    except UsageError as exc:
        raise UsageError(f"fault {text!r}: {exc}") from None
    return found
