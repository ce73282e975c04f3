"""The round trip: from a Message to the next request's messages, and whether such messages are in order. Pure.

Source: SEEDS, section A, "The link", "Round trip", "Argument repair" and "Common mistakes". The id the LLM sent is the
only thing that ties a call to its result, so it stands on both sides exactly as sent, "" included.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NoReturn

import msgspec

from harness.jsontext import as_text, same_json
from harness.message import Call, Message

How = Literal["intact", "closed", "emptied"]


class Repaired(msgspec.Struct, frozen=True):
    """Arguments that parse as JSON, and how they came to: as they were, closers appended, or replaced by `{}`."""

    text: str
    how: How


class Repair(msgspec.Struct, frozen=True):
    """One call whose arguments were changed: its index in the message, and how."""

    index: int
    how: How


def repair_arguments(text: str) -> Repaired:
    """Arguments fit to be sent back: parsed; else with closers for the unmatched `{` and `[`; else `{}`.

    What parses is kept as it is, whatever its type; no string is closed and nothing is taken away.
    Source: SEEDS, section A, "Argument repair".
    """
    if _parses(text):
        return Repaired(text, "intact")
    closed = text + _closers(text)
    if closed != text and _parses(closed):
        return Repaired(closed, "closed")
    return Repaired("{}", "emptied")


def _closers(text: str) -> str:
    """What closes the `{` and `[` left open outside strings, innermost first."""
    open_: list[str] = []
    in_string = escaped = False
    for character in text:
        if in_string:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == '"':
                in_string = False
        elif character == '"':
            in_string = True
        elif character in "{[":
            open_.append("}" if character == "{" else "]")
        elif open_ and character == open_[-1]:
            open_.pop()
    return "".join(reversed(open_))


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


# Numbers are left as text: Python refuses whole numbers of more than 4300 digits, JSON does not.
_STRICT = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_refuse)


def _parses(text: str) -> bool:
    try:
        _STRICT.decode(text)
    except (ValueError, RecursionError):
        return False
    return True


class AssistantMessage(dict[str, Any]):
    """An assistant message in OpenAI form, ready for json.dumps. `repaired` lists the calls whose arguments were."""

    repaired: tuple[Repair, ...] = ()


def assistant_message(message: Message, repair: bool = False) -> AssistantMessage:
    """The message as it stands in the next request: content null beside calls without text, ids verbatim.

    With `repair`, arguments of function calls that do not parse are repaired; the Message itself is left as it is.
    """
    calls, repaired = [], []
    for call in message.tool_calls:
        if call.type == "custom":
            calls.append({"id": call.id, "type": "custom", "custom": {"name": call.name, "input": call.arguments}})
            continue
        fixed = repair_arguments(call.arguments) if repair else Repaired(call.arguments, "intact")
        if fixed.how != "intact":
            repaired.append(Repair(call.index, fixed.how))
        calls.append({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": fixed.text}})
    out = AssistantMessage(role="assistant", content=message.text or (None if calls or message.refusal else ""))
    out.repaired = tuple(repaired)
    if message.refusal:
        out["refusal"] = message.refusal
    if calls:
        out["tool_calls"] = calls
    return out


def tool_message(call: Call | Mapping[str, Any], content: str | list[Any]) -> dict[str, Any]:
    """The result of a call (of a Message, or an entry of `tool_calls`), tied to it by its id as sent, "" included."""
    return {"role": "tool", "tool_call_id": call.id if isinstance(call, Call) else call["id"], "content": content}


class Problem(msgspec.Struct, frozen=True):
    """Something wrong in a history: a code, the position in the list of messages it concerns, a sentence.

    What is missing at the end has the position after the last message. Codes:

    message-malformed        no object with a role
    assistant-missing        no assistant message, though one was read from the stream
    content-not-null         content beside calls that were sent without text
    text-altered             the content is not the text that was read
    call-lost, call-added    fewer or more calls than were read
    call-order               the calls read, in another order
    id-missing               a call, or a result, without an id member
    id-altered, id-invented  another id than the one sent; one where none was sent
    name-altered, type-altered, arguments-altered
    arguments-not-json       a function's arguments do not parse: the next request is rejected
    result-before-call       a result stands before the assistant message of its call
    result-missing           a call without a result before the next turn
    result-late              a result after the next turn has begun
    result-duplicate         a second result for the same call
    result-unknown           a result for an id that no call of this turn has
    result-order             results in another order than their calls
    result-empty             a result without content
    """

    code: str
    position: int
    message: str


class _Asked(msgspec.Struct):
    """A call as a history has it. `id` is None where there is no such member."""

    id: Any
    name: Any
    arguments: str
    type: str


class _Answered(msgspec.Struct):
    """A tool result as a history has it."""

    id: Any
    empty: bool


class _Turn(msgspec.Struct):
    """One message, whatever its form: results, then whether anything else is said, then calls."""

    role: str
    results: list[_Answered] = []
    speaks: bool = True
    calls: list[_Asked] = []
    text: str = ""
    content: Any = None


def check_history(messages: Sequence[Any], message: Message | None = None) -> list[Problem]:
    """What is wrong with a request's messages, in OpenAI form or Anthropic form (tool_use and tool_result blocks).

    `message` is what was read from the stream: the last assistant message is compared with it. Arguments may stand
    there as sent, written differently as JSON, or repaired. Returns nothing when all is in order; never raises.
    """
    problems: list[Problem] = []
    turns: list[tuple[int, _Turn]] = []
    for position, entry in enumerate(messages):
        if isinstance(entry, Mapping) and isinstance(entry.get("role"), str):
            turns.append((position, _turn(entry)))
        else:
            problems.append(Problem("message-malformed", position, f"message {position} is no object with a role"))
    problems += _links(turns, len(messages))
    if message is not None:
        last = next(((at, turn) for at, turn in reversed(turns) if turn.role == "assistant"), None)
        if last is None:
            problems.append(Problem("assistant-missing", len(messages), "there is no assistant message"))
        else:
            problems += _against(last[1], last[0], message)
    return sorted(problems, key=lambda problem: problem.position)


def _turn(entry: Mapping[str, Any]) -> _Turn:
    role, content = entry["role"], entry.get("content")
    turn = _Turn(role=role, results=[], calls=[], content=content)
    if role in ("tool", "function"):
        turn.results.append(_Answered(entry.get("tool_call_id"), content is None))
        turn.speaks = False
        return turn
    blocks = content if isinstance(content, list) else []
    for block in blocks:
        if not isinstance(block, Mapping):
            continue
        kind = block.get("type")
        if kind == "tool_result":
            turn.results.append(_Answered(block.get("tool_use_id"), False))
        elif kind == "tool_use":
            arguments = block.get("input", {})
            turn.calls.append(_Asked(block.get("id"), block.get("name"), as_text(arguments), "function"))
        elif isinstance(block.get("text"), str):
            turn.text += block["text"]
    if turn.results:
        turn.speaks = len(blocks) > len(turn.results)
    if isinstance(content, str):
        turn.text = content
    calls = entry.get("tool_calls")
    for call in calls if isinstance(calls, list) else []:
        call = call if isinstance(call, Mapping) else {}
        kind = call.get("type")
        kind = kind if isinstance(kind, str) else "function"
        body = call.get(kind)
        body = body if isinstance(body, Mapping) else {}
        arguments = body.get("input" if kind == "custom" else "arguments", "")
        text = arguments if isinstance(arguments, str) else as_text(arguments)
        turn.calls.append(_Asked(call.get("id"), body.get("name"), text, kind))
    return turn


def _links(turns: Sequence[tuple[int, _Turn]], end: int) -> Iterator[Problem]:
    """Calls and results: each call answered once, in order, after it was asked and before the next turn."""
    later = [call.id for _, turn in turns for call in turn.calls]
    asked: list[Any] = []  # ids of the last turn's calls
    answers: list[tuple[int, Any]] = []  # their results so far: position, id
    waiting = False  # whether results may still come
    for position, turn in turns:
        for result in turn.results:
            shown, given = _shown(result.id), [answer for _, answer in answers].count(result.id)
            if result.id is None:
                yield Problem("id-missing", position, "a tool result names no call")
            elif given < asked.count(result.id):
                answers.append((position, result.id))
                if not waiting:
                    yield Problem("result-late", position, f"the result for {shown} comes after the next turn")
            elif given:
                yield Problem("result-duplicate", position, f"a second result for {shown}")
            elif result.id in later:
                yield Problem("result-before-call", position, f"the result for {shown} comes before its call")
            else:
                yield Problem("result-unknown", position, f"a result for {shown}, which no call before it has")
            if result.empty:
                yield Problem("result-empty", position, f"the result for {shown} has no content")
        if waiting and (turn.speaks or turn.calls):
            yield from _unanswered(asked, answers, position)
            waiting = False
        if turn.calls:
            del later[: len(turn.calls)]
            yield from _calls(turn, position)
            asked, answers, waiting = [call.id for call in turn.calls if call.id is not None], [], True
    if waiting:
        yield from _unanswered(asked, answers, end)


def _calls(turn: _Turn, position: int) -> Iterator[Problem]:
    for call in turn.calls:
        if call.id is None:
            yield Problem("id-missing", position, f"the call of {_shown(call.name)} has no id member")
        if call.type == "function" and call.arguments and not _parses(call.arguments):
            text = f"the arguments of {_shown(call.name)} are not JSON: {_shown(call.arguments)}"
            yield Problem("arguments-not-json", position, text)
    if turn.content == "":
        yield Problem("content-not-null", position, "content is an empty text beside calls; it must be null")


def _unanswered(asked: Sequence[Any], answers: Sequence[tuple[int, Any]], position: int) -> Iterator[Problem]:
    """A turn is over: calls without a result, and results in another order than the calls."""
    rest = [answer for _, answer in answers]
    expected = []
    for call_id in asked:
        if call_id in rest:
            rest.remove(call_id)
            expected.append(call_id)
        else:
            yield Problem("result-missing", position, f"no result for the call {_shown(call_id)} before this place")
    for (at, answer), call_id in zip(answers, expected, strict=True):
        if answer != call_id:
            text = f"the result for {_shown(answer)} stands where that for {_shown(call_id)} is due"
            yield Problem("result-order", at, text)
            return


def _against(turn: _Turn, position: int, message: Message) -> Iterator[Problem]:
    """The assistant message of a history against the message that was read."""
    if turn.text != message.text:
        if turn.calls and not message.text:
            text = f"content is {_shown(turn.text)}; the calls came without text, so it must be null"
            yield Problem("content-not-null", position, text)
        else:
            text = f"content is {_shown(turn.text)}, the text read is {_shown(message.text)}"
            yield Problem("text-altered", position, text)
    read, kept = message.tool_calls, turn.calls
    for call in read[len(kept) :]:
        yield Problem("call-lost", position, f"the call {_shown(call.id)} of {_shown(call.name)} is missing")
    for added in kept[len(read) :]:
        yield Problem("call-added", position, f"a call {_shown(added.id)} of {_shown(added.name)} that was never sent")
    ids = [call.id for call in read], [call.id for call in kept]
    if ids[0] != ids[1] and sorted(map(repr, ids[0])) == sorted(map(repr, ids[1])):
        yield Problem("call-order", position, f"calls in the order {_shown(ids[1])}, sent as {_shown(ids[0])}")
        return
    for call, other in zip(read, kept, strict=False):
        if other.id is not None and other.id != call.id:
            code, text = "id-altered", f"the id {_shown(call.id)} has become {_shown(other.id)}"
            if not call.id:
                code, text = "id-invented", f"the id is {_shown(other.id)}, but none was sent: it must stay empty"
            yield Problem(code, position, text)
        if (other.name or "") != call.name:
            yield Problem("name-altered", position, f"the name {_shown(call.name)} has become {_shown(other.name)}")
        if other.type != call.type:
            yield Problem("type-altered", position, f"the type {call.type} has become {_shown(other.type)}")
        if not _same_arguments(call, other.arguments):
            text = f"the arguments {_shown(call.arguments)} have become {_shown(other.arguments)}"
            yield Problem("arguments-altered", position, text)


def _same_arguments(call: Call, arguments: str) -> bool:
    if call.type == "custom":
        return arguments == call.arguments
    return same_json(arguments, call.arguments) or same_json(arguments, repair_arguments(call.arguments).text)


def _shown(value: Any) -> str:
    """The value as JSON text, at most 80 characters of it."""
    text = as_text(value)
    return text if len(text) <= 80 else text[:77] + "..."
