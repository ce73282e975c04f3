"""What a target answered to a stream, and whether that is right. Pure.

A target answers with message JSON (DESIGN, "Reading, and the message") or an assistant message of OpenAI or Anthropic.
Rules of comparison: cases/README, "expect". Null, absent and empty are the same; ids and names are exact.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Literal

import msgspec

from harness.history import Problem, check_history
from harness.jsontext import as_text, same_json
from harness.message import Call, Message

FEATURES = (
    "tool_calls", "reasoning", "refusal", "choices", "finish_reason", "terminal", "usage", "error", "recovery",
)  # fmt: skip
"""What a target may claim. `recovery`: it reads what the standard drops, where that is unmistakable (cases/README)."""

FAILED = ("error", "truncated")
_ASSISTANT_SHOWS = frozenset({"tool_calls", "refusal"})


class CaseOutcome(StrEnum):
    """What one case came to, best first; a case over several cuts comes to its worst."""

    RIGHT = "right"
    TOLD = "told"  # a failed or cut stream, and the consumer was told: it raised, rejected, or the message says so
    SKIPPED = "skipped"
    WRONG = "wrong"
    RAISED = "raised"  # on a good stream
    BROKE = "broke"  # neither answer nor rejection: a crash, no JSON, too much output
    HUNG = "hung"
    ACCEPTED_TRUNCATION = "accepted-truncation"  # returned a cut answer as if it were whole
    ACCEPTED_ERROR = "accepted-error"  # returned normally from a stream that failed: the gravest fault

    @property
    def good(self) -> bool:
        """Whether a target may do this."""
        return self in (CaseOutcome.RIGHT, CaseOutcome.TOLD, CaseOutcome.SKIPPED)

    @property
    def rank(self) -> int:
        """0, 1, 2 ...: the worse the higher."""
        return list(CaseOutcome).index(self)


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """How one run of a target ended. `value` is what it returned if accepted, `reason` one line for everything else.

    `typed`: the target declares arguments to be text, so that an object among them is a difference.
    """

    state: Literal["accepted", "rejected", "broke", "hung"]
    value: Any = None
    reason: str = ""
    typed: bool = False


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """An outcome, what differs in short lines, and what was compared: features, and `messages` if there were any."""

    outcome: CaseOutcome
    differences: tuple[str, ...] = ()
    compared: frozenset[str] = frozenset()


class Expected(msgspec.Struct, kw_only=True):
    """The right reading of a stream: `expect` of a case, or the message of a fixture's `.expected.json`."""

    text: str = ""
    reasoning: str = ""
    refusal: str | None = None
    tool_calls: list[dict[str, Any]] = []
    finish_reason: str | None = None
    finish_raw: str | None = None
    terminal: str
    usage: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    other_choices: list[dict[str, Any]] = []
    choices: list[dict[str, Any]] = []

    def __post_init__(self) -> None:
        """A fixture lists every choice; what counts here are those beside choice 0."""
        if self.choices:
            self.other_choices = [choice for choice in self.choices if choice.get("choice") != 0]

    @property
    def failed(self) -> bool:
        """Whether the stream ends in an error or is cut, so that returning normally is wrong."""
        return self.terminal in FAILED

    def needs(self) -> set[str]:
        """Features without which a target cannot be asked at all."""
        return {name for name in ("tool_calls", "reasoning", "refusal") if getattr(self, name)} | (
            {"choices"} if self.other_choices else set()
        )


def members(answer: Answer) -> frozenset[str] | None:
    """The features whose members an accepted answer has, given as message JSON; None for any other answer."""
    try:
        reading = _reading(answer.value) if answer.state == "accepted" else None
    except _NoMessage:
        return None
    if reading is None or reading.message.get("role") == "assistant" or not reading.shows >= {"terminal"}:
        return None
    has = {name for name in FEATURES if name in reading.message}
    return frozenset(has | ({"finish_reason"} if "finish_raw" in reading.message else set()))


class _NoMessage(ValueError):
    """The value is in none of the forms; its text says what it is."""


class _Reading(msgspec.Struct, kw_only=True):
    """An answer's message as message JSON has it, what it can show, and the history it came with."""

    message: Mapping[str, Any]
    shows: frozenset[str]
    history: Any = None


def judge(answer: Answer, expected: Expected, features: Collection[str] = FEATURES) -> Verdict:
    """The outcome of one run. What is not among the features, or not in the answer's form, is not compared."""
    if answer.state == "rejected":
        if expected.failed or expected.finish_reason == "error":
            return Verdict(outcome=CaseOutcome.TOLD)
        return Verdict(outcome=CaseOutcome.RAISED, differences=(answer.reason or "rejected without a reason",))
    if answer.state != "accepted":
        outcome = CaseOutcome.HUNG if answer.state == "hung" else CaseOutcome.BROKE
        return Verdict(outcome=outcome, differences=(answer.reason,))
    try:
        reading = _reading(answer.value)
    except _NoMessage as exc:
        return Verdict(outcome=CaseOutcome.BROKE, differences=(str(exc),))
    shows = reading.shows & frozenset(features)
    if expected.failed and not _says_so(reading.message):
        ends = "an error" if expected.terminal == "error" else "no end: it was cut"
        text = f"returned normally, but the stream has {ends}"
        outcome = CaseOutcome.ACCEPTED_ERROR if expected.terminal == "error" else CaseOutcome.ACCEPTED_TRUNCATION
        return Verdict(outcome=outcome, differences=(text,), compared=shows)
    found = list(_differences(reading.message, expected, shows))
    if answer.typed and "tool_calls" in shows:
        found += _objects_for_text(reading.message.get("tool_calls"))
    if reading.history is not None and not expected.failed:
        shows |= {"messages"}
        found += [f"messages[{problem.position}]: {problem.message}" for problem in _history(reading.history, expected)]
    good = CaseOutcome.TOLD if expected.failed else CaseOutcome.RIGHT
    return Verdict(outcome=CaseOutcome.WRONG if found else good, differences=tuple(found), compared=shows)


def _says_so(message: Mapping[str, Any]) -> bool:
    return message.get("terminal") in FAILED or bool(message.get("error")) or message.get("finish_reason") == "error"


def _reading(value: Any) -> _Reading:
    """The answer in one form, whatever form it came in. Raises _NoMessage."""
    try:
        return _read(value)
    except _NoMessage:
        raise
    except Exception as exc:  # an object of the target's own: whatever it does, it is no message
        text = f"returned a {type(value).__name__} that cannot be read: {type(exc).__name__}"
        raise _NoMessage(text) from exc


def _read(value: Any) -> _Reading:
    history: Any = None
    if isinstance(value, tuple) and len(value) == 2:
        value, history = value
    value = _plain(value)
    if isinstance(value, Mapping) and isinstance(value.get("message"), Mapping):
        history, value = value.get("messages", history), value["message"]
    if not isinstance(value, Mapping):
        shown = _short(value) if value is None or isinstance(value, str | int | float | list) else type(value).__name__
        raise _NoMessage(f"returned {shown}: return message JSON or an assistant message")
    history = value.get("messages", history)
    if history is not None:
        history = _plain(history)
        if not isinstance(history, list):
            raise _NoMessage(f"messages is {_short(history)}: return a list, the next request's history")
        history = [_plain(entry) for entry in history]
    if value.get("role") == "assistant":
        message = _from_assistant(value)
        shows = _ASSISTANT_SHOWS | ({"reasoning"} if message["reasoning"] else frozenset())
        return _Reading(message=message, shows=shows, history=history)
    if not value.keys() & {"text", "tool_calls", "terminal"}:
        members = ", ".join(map(str, list(value)[:6])) or "nothing"
        raise _NoMessage(f"an object with {members}: return message JSON (text, tool_calls, ...) or role: assistant")
    return _Reading(message=value, shows=frozenset(FEATURES) - {"recovery"}, history=history)


def _plain(value: Any) -> Any:
    """Records and the models of SDKs (pydantic) as plain values. Raises _NoMessage."""
    dump = getattr(value, "model_dump", None)
    try:
        if isinstance(value, msgspec.Struct):
            return msgspec.to_builtins(value)
        return dump(mode="json") if callable(dump) and not isinstance(value, type) else value
    except Exception as exc:  # an object of the target's own: whatever it does, it is no message
        raise _NoMessage(f"returned a {type(value).__name__} that cannot be read: {exc!r}") from exc


def _from_assistant(message: Mapping[str, Any]) -> dict[str, Any]:
    """An assistant message, OpenAI's or Anthropic's, as message JSON; `error` and the like are kept beside."""
    text: list[Any] = []
    reasoning: list[Any] = [message.get("reasoning_content") or message.get("reasoning") or ""]
    refusal: list[Any] = [message.get("refusal") or ""]
    calls: list[tuple[Any, Any, Any]] = []
    content = message.get("content")
    for part in content if isinstance(content, list) else [{"type": "text", "text": content or ""}]:
        part = part if isinstance(part, Mapping) else {"type": "text", "text": part}
        kind = part.get("type")
        if kind in ("text", "refusal", "thinking"):
            {"text": text, "refusal": refusal, "thinking": reasoning}[kind].append(part.get(kind))
        elif kind == "tool_use":
            calls.append((part.get("id"), part.get("name"), part.get("input", {})))
    asked = message.get("tool_calls")
    legacy = message.get("function_call")
    for call in asked if isinstance(asked, list) else []:
        call = call if isinstance(call, Mapping) else {}
        body = call.get("custom") or call.get("function")
        body = body if isinstance(body, Mapping) else {}
        calls.append((call.get("id"), body.get("name"), body.get("arguments", body.get("input", ""))))
    if isinstance(legacy, Mapping):
        calls.append((None, legacy.get("name"), legacy.get("arguments", "")))
    listed = [
        {"index": index, "id": call_id, "name": name, "arguments": arguments}
        for index, (call_id, name, arguments) in enumerate(calls)
    ]
    said = {key: message[key] for key in ("terminal", "error", "finish_reason") if key in message}
    return {**said, "text": _joined(text), "reasoning": _joined(reasoning), "refusal": _joined(refusal),
            "tool_calls": listed}  # fmt: skip


def _joined(parts: Sequence[Any]) -> Any:
    """The texts joined; the parts themselves if one is no text, so that the difference shows it."""
    return "".join(parts) if all(isinstance(part, str) for part in parts) else list(parts)


def _differences(got: Mapping[str, Any], want: Expected, shows: Collection[str]) -> Iterator[str]:
    fields = ["text", *(name for name in ("reasoning", "refusal", "finish_reason", "terminal") if name in shows)]
    if "finish_reason" in shows and "finish_raw" in got:
        fields.append("finish_raw")
        if "finish_reason" not in got:
            fields.remove("finish_reason")
    for name in fields:
        if (got.get(name) or None) != (getattr(want, name) or None):
            yield _line(name, got.get(name), getattr(want, name))
    if "tool_calls" in shows:
        yield from _call_differences("", got.get("tool_calls"), want.tool_calls)
    for name in ("usage", "error"):
        ours, theirs = got.get(name), getattr(want, name)
        if name in shows and not _holds(ours, theirs):
            yield _line(name, ours, theirs)
    if "choices" in shows:
        yield from _choice_differences(got.get("choices"), want.other_choices)


def _holds(got: Any, want: Mapping[str, Any] | None) -> bool:
    """Whether `got` has all that is wanted; more members change nothing, and members that are all null are nothing."""
    if isinstance(got, Mapping) and all(value is None for value in got.values()):
        got = None
    if not want or not isinstance(got, Mapping):
        return not want and not got
    return all(got.get(key) == value for key, value in want.items())


def _choice_differences(got: Any, want: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    entries = [entry for entry in got if isinstance(entry, Mapping)] if isinstance(got, list) else []
    others = {as_text(entry.get("choice")): entry for entry in entries if entry.get("choice") != 0}
    wanted = {as_text(entry["choice"]): entry for entry in want}
    if sorted(others) != sorted(wanted):
        yield _line("choices beside 0", sorted(others), sorted(wanted))
        return
    for number, theirs in wanted.items():
        if (others[number].get("text") or "") != (theirs.get("text") or ""):
            yield _line(f"text of choice {number}", others[number].get("text"), theirs.get("text"))
        yield from _call_differences(
            f" of choice {number}", others[number].get("tool_calls"), theirs.get("tool_calls") or []
        )


def _call_differences(place: str, got: Any, want: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    got = got or []
    if not isinstance(got, list) or not all(isinstance(call, Mapping) for call in got):
        yield _line(f"tool_calls{place}", got, [dict(call) for call in want])
        return
    keys = [[(call.get("id") or None, call.get("name") or None) for call in calls] for calls in (got, want)]
    if keys[0] != keys[1]:
        yield _line(f"tool_calls{place} (id, name)", keys[0], keys[1])
        return
    for index, (ours, theirs) in enumerate(zip(got, want, strict=True)):
        if ours.get("index", index) != theirs.get("index", index):
            yield _line(f"index of call {index}{place}", ours.get("index"), theirs.get("index"))
        given = _arguments(ours.get("arguments"))
        if not same_json(given, theirs.get("arguments") or ""):
            yield _line(f"arguments of call {index}{place}", given, theirs.get("arguments"))


def _objects_for_text(calls: Any) -> Iterator[str]:
    """Arguments that are no text: json.loads of them raises in whoever believes the declared type."""
    for index, call in enumerate(calls if isinstance(calls, list) else []):
        value = call.get("arguments") if isinstance(call, Mapping) else None
        if value is not None and not isinstance(value, str):
            yield f"arguments of call {index}: {_short(value)} is no text, but declared to be"


def _arguments(value: Any) -> str:
    """Arguments as text; an object, as Anthropic's `input`, as JSON text."""
    return value if isinstance(value, str) else "" if value is None else as_text(value)


def _history(messages: list[Any], expected: Expected) -> list[Problem]:
    calls = [
        Call(index=index, id=call["id"] or "", name=call["name"] or "", arguments=call["arguments"] or "",
             type=call.get("type", "function"))
        for index, call in enumerate(expected.tool_calls)
    ]  # fmt: skip
    problems = check_history(messages, Message(text=expected.text, tool_calls=calls))
    typed = all("type" in call for call in expected.tool_calls)
    return [problem for problem in problems if typed or problem.code != "type-altered"]


def _line(name: str, got: Any, want: Any) -> str:
    """`text: "Hel" is not "Hello"`, long texts from shortly before the first difference on."""
    if isinstance(got, str) and isinstance(want, str):
        same = next((i for i, (one, other) in enumerate(zip(got, want, strict=False)) if one != other), None)
        start = max((min(len(got), len(want)) if same is None else same) - 20, 0)
        if start and max(len(got), len(want)) > 60:
            return f"{name}: ...{_short(got[start:])} is not ...{_short(want[start:])}"
    return f"{name}: {_short(got)} is not {_short(want)}"


def _short(value: Any) -> str:
    text = as_text(value)
    return text if len(text) <= 100 else text[:97] + "..."
