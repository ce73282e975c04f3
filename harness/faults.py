"""What can go wrong between a server and its client, by name: the table of faults, and how one is written.

A fault is a function from plan to plan (steps.py). To add one, write it in faults_wire.py or faults_body.py and list it
at that module's end; then `python tools/fault_table.py` for docs/faults.md.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Annotated, Any, get_type_hints

import msgspec

from harness.errors import UsageError, suggestion
from harness.faults_body import BODY_FAULTS
from harness.faults_wire import WIRE_FAULTS
from harness.steps import Close, Head, Step

Times = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
FIRST_ONLY = {"rate-limit": 1}  # faults that only the first requests meet, if not told otherwise


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


def _kind(function: Callable[..., list[Step]]) -> FaultKind:
    """The row of a function: name and settings from its signature, the line about it from its docstring."""
    parameters = list(inspect.signature(function).parameters.values())[1:]
    hints = get_type_hints(function, include_extras=True)
    return FaultKind(
        function.__name__.replace("_", "-"), (function.__doc__ or "").partition("\n")[0], function,
        {p.name: hints[p.name] for p in parameters}, frozenset(p.name for p in parameters if p.default is p.empty),
    )  # fmt: skip


FAULTS: dict[str, FaultKind] = {kind.name: kind for kind in map(_kind, (*WIRE_FAULTS, *BODY_FAULTS))}


class Fault(msgspec.Struct, frozen=True):
    """A fault of the table with its settings. Every fault has `times` as well: only so many first requests meet it."""

    name: str
    settings: dict[str, Any] = {}

    @property
    def times(self) -> int | None:
        """How many first requests meet the fault, null if all do."""
        found: int | None = self.settings.get("times", FIRST_ONLY.get(self.name))
        return found

    def meets(self, request: int) -> bool:
        """Whether request number 1, 2 ... meets the fault."""
        return self.times is None or request <= self.times

    def apply(self, steps: Sequence[Step], request: int = 1) -> list[Step]:
        """The plan for request number 1, 2 ... with the fault, if it meets it.

        Raises UsageError if the settings contradict each other.
        """
        if not self.meets(request):
            return list(steps)
        settings = {name: value for name, value in self.settings.items() if name != "times"}
        return FAULTS[self.name].function(steps, **settings)

    def __str__(self) -> str:
        settings = ",".join(f"{name.replace('_', '-')}={_written(value)}" for name, value in self.settings.items())
        return f"{self.name}:{settings}" if settings else self.name


def _written(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _problem(exc: msgspec.ValidationError) -> str:
    """What is wrong with a value, in words for those who typed it."""
    text = str(exc)
    for kind, wanted in (("int", "a whole number"), ("float", "a number"), ("bool", "true or false")):
        if text.startswith((f"Expected `{kind}`", f"Expected `{kind} | null`")) and "<" not in text and ">" not in text:
            return f"must be {wanted}"
    return text


def apply(faults: Sequence[Fault], steps: Sequence[Step], request: int = 1) -> list[Step]:
    """The plan with all the faults, one after the other."""
    out = list(steps)
    for fault in faults:
        out = fault.apply(out, request)
    return out


def parse_fault(text: str) -> Fault:
    """Read `NAME` or `NAME:SETTING=VALUE,...`, as `cut:event=3`. Raises UsageError that says what there is."""
    name, _, rest = text.strip().partition(":")
    kind = FAULTS.get(name)
    if kind is None:
        near = suggestion(name, FAULTS)
        raise UsageError(f"no fault {name!r}{near or ':'} use one of {', '.join(FAULTS)}, for instance cut:event=3")
    settings: dict[str, Any] = {}
    types = {**kind.settings, "times": Times}
    for setting in rest.split(",") if rest else []:
        key, _, value = setting.partition("=")
        key = key.strip().replace("-", "_")
        if key not in types or key in settings:
            problem = "twice" if key in settings else "is unknown"
            raise UsageError(f"fault {text!r}: {key!r} {problem}: write {kind.usage}; every fault takes times= too")
        try:
            settings[key] = msgspec.convert(value.strip(), types[key], strict=False)
        except msgspec.ValidationError as exc:
            raise UsageError(f"fault {text!r}: {key}={value}: {_problem(exc)}") from exc
    if not settings.keys() >= kind.required:
        raise UsageError(f"fault {text!r}: {', '.join(kind.required - settings.keys())} is missing: write {kind.usage}")
    found = Fault(name, settings)
    try:
        found.apply([Head(200, {}), Close()])  # settings that contradict each other show here, not at the first request
    except UsageError as exc:
        raise UsageError(f"fault {text!r}: {exc}") from None
    return found
