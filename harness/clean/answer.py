"""What a clean stream says: an Answer, made of an `expect` of cases/README, and mended where it did not end well."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import msgspec

from harness.errors import UsageError
from harness.facts import facts_for
from harness.history import repair_arguments
from harness.jsontext import Undecodable, as_text, decode

ID, MODEL, CREATED = "clean-1", "clean", 1700000000
MOST_PIECES, LEAST = 32, 4  # deltas of one text at most, and characters of each at least
GREETING = "Hello."

# How a dialect calls each reason. No row: by chat's names. Responses' stand for `completed` and the incomplete reason.
RAW = {
    "responses": {"stop": "completed", "tool_calls": "completed", "length": "max_output_tokens"},
    "anthropic": {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal"},
    "gemini": {"stop": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"},
    "ollama": {"tool_calls": "stop"},
    "cohere": {"stop": "COMPLETE", "tool_calls": "TOOL_CALL", "length": "MAX_TOKENS"},
}
WELL = ("stop", "length", "tool_calls", "content_filter")
CUT_SHORT = ("length", "content_filter")  # what stands in such an answer may be cut, and that is documented
# Dialects in which a call may go without an id.
NO_IDS = ("gemini", "ollama")
# What a dialect has no place for.
LACKS = {
    "anthropic": ("refusal", "choices"), "gemini": ("refusal",), "ollama": ("refusal", "choices"),
    "cohere": ("refusal", "choices"), "responses": ("choices",), "completions": ("refusal", "reasoning", "tool_calls"),
}  # fmt: skip


class Call(msgspec.Struct, kw_only=True):
    """A call. `id` is "" where none was sent; `type` is custom if free text is passed (Responses only)."""

    id: str = ""
    name: str = ""
    arguments: str = ""
    type: str = "function"


class Said(msgspec.Struct, kw_only=True):
    """What one choice says. `finish` is the reason as sent, null if none is."""

    choice: int = 0
    text: str = ""
    reasoning: str = ""
    refusal: str | None = None
    calls: list[Call] = []
    finish: str | None = None


class Answer(msgspec.Struct, kw_only=True):
    """All that a stream says. `ended`: its end marker is sent, where there is one. Usage: input and output tokens."""

    choices: list[Said]
    usage: tuple[int | None, int | None] | None = None
    error: dict[str, Any] | None = None
    ended: bool = True

    def expect(self, dialect: str) -> dict[str, Any]:
        """The right reading of its stream, as cases/README has it."""
        first, *others = (_reading(dialect, said) for said in self.choices)
        first.pop("choice")
        terminal = "done" if self.ended and dialect != "gemini" else "finish" if first["finish_raw"] else "truncated"
        usage = None if self.usage is None else dict(zip(("input_tokens", "output_tokens"), self.usage, strict=True))
        error = self.error and {name: self.error.get(name) for name in ("type", "code", "message")}
        found = {**first, "terminal": "error" if error else terminal, "usage": usage, "error": error}
        return {**found, "other_choices": others} if others else found


def _reading(dialect: str, said: Said) -> dict[str, Any]:
    normal = None if said.finish is None else normal_of(dialect, said.finish)
    if normal == "stop" and said.calls and facts_for(dialect).stop_means_calls:
        normal = "tool_calls"
    calls = [
        {"index": index, "id": call.id or None, "name": call.name or None, "arguments": call.arguments}
        for index, call in enumerate(said.calls)
    ]
    refused = {} if said.refusal is None else {"refusal": said.refusal}
    return {
        "choice": said.choice, "text": said.text, "reasoning": said.reasoning, **refused, "tool_calls": calls,
        "finish_reason": normal, "finish_raw": said.finish,
    }  # fmt: skip


# -- from an expect -----------------------------------------------------------------------------------------------


class _Call(msgspec.Struct, kw_only=True):
    id: str | None = None
    name: str | None = None
    arguments: str | None = None
    type: str = "function"


class _Choice(msgspec.Struct, kw_only=True):
    choice: int = 0
    text: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None
    finish_reason: str | None = None
    finish_raw: str | None = None


class _Expect(_Choice, kw_only=True):
    terminal: str | None = None
    usage: dict[str, int | None] | None = None
    error: dict[str, Any] | None = None
    other_choices: list[_Choice] = []


def answer_of(dialect: str, expect: Mapping[str, Any]) -> Answer:
    """The Answer that an `expect` describes, faithfully. Raises UsageError as `clean_stream` says."""
    try:
        found = msgspec.convert(dict(expect), _Expect)
    except msgspec.ValidationError as exc:
        raise UsageError(f"expect: {exc}; see the fields in cases/README") from exc
    for text in _texts(expect):
        try:
            text.encode()
        except UnicodeEncodeError:
            raise UsageError(f"expect: {text[:40]!a} holds half a character, which no clean stream does") from None
    counts = found.usage
    usage = None if counts is None else (counts.get("input_tokens"), counts.get("output_tokens"))
    choices = [_said(dialect, choice) for choice in (found, *found.other_choices)]
    for choice in choices:
        _check(dialect, choice, len(choices))
    ended = (found.terminal or "done") == "done" and dialect != "gemini"
    return Answer(choices=choices, usage=usage, error=found.error, ended=ended)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(inner)


def _said(dialect: str, choice: _Choice) -> Said:
    finish = choice.finish_raw
    if finish is None and choice.finish_reason is not None:
        finish = raw(dialect, choice.finish_reason)
    cut = normal_of(dialect, finish) not in ("stop", "tool_calls")
    calls = [
        Call(id=call.id or "", name=call.name or "", arguments=call.arguments or "",
             type=_type(dialect, call, cut))
        for call in choice.tool_calls or ()
    ]  # fmt: skip
    return Said(
        choice=choice.choice, text=choice.text or "", reasoning=choice.reasoning or "", refusal=choice.refusal,
        calls=calls, finish=finish,
    )  # fmt: skip


def _type(dialect: str, call: _Call, cut: bool) -> str:
    """What an expect does not say: in a Responses answer that ended well, arguments that are no JSON are free text."""
    free = dialect == "responses" and not cut and repair_arguments(call.arguments or "{}").how != "intact"
    return "custom" if free else call.type


def _check(dialect: str, said: Said, count: int) -> None:
    there = {"refusal": said.refusal, "reasoning": said.reasoning, "tool_calls": said.calls, "choices": count > 1}
    for name in LACKS.get(dialect, ()):
        if there[name]:
            what = "a second choice" if name == "choices" else name.replace("_", " ")
            raise UsageError(f"expect: dialect {dialect} has no place for {what}")
    if dialect != "responses" and any(call.type == "custom" for call in said.calls):
        raise UsageError(f"expect: dialect {dialect} has no documented stream of custom calls")


def normal_of(dialect: str, finish: str | None) -> str:
    """The normal form of a reason as the dialect reads it; "" if there is none."""
    table: dict[str, str] = import_module(f"harness.dialects.{dialect}").FINISH
    return table.get(finish, "other") if finish else ""


def raw(dialect: str, reason: str) -> str:
    """How the dialect calls a normal reason."""
    return RAW.get(dialect, {}).get(reason, reason)


# -- ended well ---------------------------------------------------------------------------------------------------


def ended_well(dialect: str, answer: Answer) -> Answer:
    """The answer with everything mended that a clean stream cannot have (`harness.clean.well_ended` has the list)."""
    facts = facts_for(dialect)
    choices = [_mended(dialect, said) for said in answer.choices]
    usage = answer.usage
    if usage is not None or facts.usage_always_due:
        given = usage or (None, None)
        usage = tuple(1 if count is None else count for count in given)  # type: ignore[assignment]
        if not any(usage or ()):
            usage = (1, 1)
    return Answer(choices=choices, usage=usage, ended=dialect != "gemini")


def _mended(dialect: str, said: Said) -> Said:
    facts = facts_for(dialect)
    normal = normal_of(dialect, said.finish)
    known = normal in WELL and raw(dialect, normal) in facts.documented_finish
    if not known or (normal == "stop" and said.calls) or (normal == "tool_calls" and not said.calls):
        normal = "tool_calls" if said.calls else "stop"
    finish = said.finish or ""
    told = "stop" if normal == "tool_calls" and facts.stop_means_calls else normal
    if normal_of(dialect, finish) != told or finish not in facts.documented_finish or finish == "function_call":
        finish = raw(dialect, normal)
    calls = [_mended_call(dialect, number, call, normal) for number, call in enumerate(said.calls, 1)]
    silent = not (said.text or said.reasoning or said.refusal or calls) and normal not in CUT_SHORT
    return msgspec.structs.replace(said, calls=calls, finish=finish, text=GREETING if silent else said.text)


def _mended_call(dialect: str, number: int, call: Call, reason: str) -> Call:
    arguments = call.arguments
    if call.type != "custom" and (reason not in CUT_SHORT or facts_for(dialect).object_arguments):
        arguments = repair_arguments(arguments or "{}").text
    call_id = call.id or ("" if dialect in NO_IDS else f"call_{number}")
    return Call(id=call_id, name=call.name or "unnamed", arguments=arguments, type=call.type)


# -- for the encoders ---------------------------------------------------------------------------------------------


def pieces(text: str) -> list[str]:
    """The text in deltas of one size, but for the last: at most MOST_PIECES, and of LEAST characters or more."""
    size = max(LEAST, -(-len(text) // MOST_PIECES))
    return [text[at : at + size] for at in range(0, len(text), size)]


def arguments_object(dialect: str, call: Call) -> dict[str, Any]:
    """The arguments for dialects in which they travel as an object. Raises UsageError if they are none."""
    try:
        value = decode((call.arguments or "{}").encode())
    except Undecodable:
        value = None
    if not isinstance(value, dict):
        shown = as_text(call.arguments[:60])
        raise UsageError(f"expect: arguments {shown} are no JSON object, as which they travel in dialect {dialect}")
    return value


def data(payload: Any, event: str = "") -> bytes:
    """One server-sent event."""
    name = f"event: {event}\n" if event else ""
    return f"{name}data: {as_text(payload)}\n\n".encode()
