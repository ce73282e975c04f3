"""The message in the making, and the next request: the upper half of the state machine (machine.py).

Each step is a method of its own, so that a wrong client can replace exactly one. Rules: cases/README, "expect";
SEEDS, A, "Round trip" and "Argument repair".
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from harness.clients.framing import Framing, parses

NORMAL = {
    reason: normal
    for normal, reasons in {
        "stop": "stop end_turn stop_sequence STOP completed eos",
        "length": "length max_tokens MAX_TOKENS max_output_tokens",
        "tool_calls": "tool_calls tool_use function_call",
        "content_filter": "content_filter SAFETY RECITATION refusal",
        "error": "error failed MALFORMED_FUNCTION_CALL",
    }.items()
    for reason in reasons.split()
}
NO_TOOL_REASON = ("responses", "gemini", "ollama")


def healed(pieces: Iterable[str]) -> str:
    """The pieces joined; two halves of one character, sent in two pieces, form it."""
    return "".join(pieces).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


class Call:
    """A call in the making. `wire` is its index as sent, None without one."""

    def __init__(self, wire: int | None) -> None:
        self.wire, self.id, self.name, self.kind = wire, "", "", "function"
        self.pieces: list[str] = []


class Draft:
    """One choice in the making: pieces of each channel, calls as they appeared, the finish reason as sent."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.reasoning: list[str] = []
        self.refusal: list[str] = []
        self.calls: list[Call] = []
        self.finish = ""

    def opened(self, wire: int | None = None) -> Call:
        """A new call."""
        self.calls.append(Call(wire))
        return self.calls[-1]


class Drafting(Framing):
    """Drafts by choice, usage and error; `answer()` makes the message of them."""

    def __init__(self, dialect: str) -> None:
        super().__init__(dialect)
        self.drafts: dict[int, Draft] = {}
        self.usage: dict[str, Any] = {"input_tokens": None, "output_tokens": None}

    def draft(self, choice: Any = 0) -> Draft:
        """The draft of a choice."""
        return self.drafts.setdefault(choice if isinstance(choice, int) else 0, Draft())

    def say(self, text: str, draft: Draft) -> None:
        draft.text.append(text)

    def think(self, text: str, draft: Draft) -> None:
        draft.reasoning.append(text)

    def refuse(self, text: str, draft: Draft) -> None:
        draft.refusal.append(text)

    def identify(self, call: Call, sent: Any) -> None:
        """The first id that is not empty stays."""
        if sent and not call.id:
            call.id = sent

    def title(self, call: Call, name: Any) -> None:
        """A name in pieces is joined; one equal to the whole name so far is a repeat."""
        if name and name != call.name:
            call.name += name

    def argue(self, call: Call, piece: Any) -> None:
        """A piece of the arguments; an object is written as JSON."""
        if piece is not None:
            call.pieces.append(piece if isinstance(piece, str) else json.dumps(piece, ensure_ascii=False))

    def finished(self, draft: Draft, reason: Any) -> None:
        """A finish reason: the last that is not empty counts."""
        if reason and isinstance(reason, str):
            draft.finish = reason

    def use(self, usage: Any, input_name: str, output_name: str) -> None:
        """Usage under these names: the last value sent for each count stays."""
        if isinstance(usage, dict):
            for ours, theirs in (("input_tokens", input_name), ("output_tokens", output_name)):
                if usage.get(theirs) is not None:
                    self.usage[ours] = usage[theirs]

    def terminal(self) -> str:
        if self.error is not None:
            return "error"
        if self.ended:
            return "done"
        return "finish" if any(draft.finish for draft in self.drafts.values()) else "truncated"

    def reason_of(self, draft: Draft) -> str | None:
        """The finish reason, normalised."""
        if not draft.finish:
            return None
        normal = NORMAL.get(draft.finish, "other")
        return "tool_calls" if normal == "stop" and draft.calls and self.dialect in NO_TOOL_REASON else normal

    def listed_calls(self, draft: Draft) -> list[Call]:
        """The calls by wire index, then as they appeared."""
        numbered = [call for call in draft.calls if call.wire is not None]
        return sorted(numbered, key=lambda call: call.wire or 0) + [call for call in draft.calls if call.wire is None]

    def arguments_of(self, call: Call) -> str:
        """The pieces joined; the whole value sent once more is a repeat."""
        joined = ""
        for piece in call.pieces:
            if not (piece and piece == joined and call.kind == "function" and parses(joined)):
                joined += piece
        return healed([joined])

    def message(self, number: int, draft: Draft) -> dict[str, Any]:
        """One choice."""
        calls = [
            {"index": index, "id": call.id, "name": call.name, "arguments": self.arguments_of(call), "type": call.kind}
            for index, call in enumerate(self.listed_calls(draft))
        ]
        return {
            "choice": number, "text": healed(draft.text), "reasoning": healed(draft.reasoning),
            "refusal": healed(draft.refusal) or None, "tool_calls": calls,
            "finish_reason": self.reason_of(draft), "finish_raw": draft.finish or None,
        }  # fmt: skip

    def close(self) -> None:
        """The body has ended: what is kept by items or blocks goes into the draft."""

    def answer(self) -> dict[str, Any]:
        """Message JSON: choice 0 at the top, every choice in `choices`, and `messages`."""
        self.close()
        first = self.draft()
        choices = [self.message(number, draft) for number, draft in sorted(self.drafts.items())]
        top = self.message(0, first)
        usage = self.usage if any(value is not None for value in self.usage.values()) else None
        return {
            **top, "terminal": self.terminal(), "usage": usage, "error": self.error, "choices": choices,
            "messages": self.messages(top),
        }  # fmt: skip

    # -- the next request

    def messages(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        """What came before, the assistant message, and a made-up result for each call, in order."""
        results = [self.result(call) for call in message["tool_calls"]]
        return [{"role": "user", "content": "Go on."}, self.assistant(message), *results]

    def assistant(self, message: dict[str, Any]) -> dict[str, Any]:
        """The assistant message: ids as sent, content null beside calls without text."""
        calls = message["tool_calls"]
        out: dict[str, Any] = {"role": "assistant", "content": message["text"] or (None if calls else "")}
        if calls:
            out["tool_calls"] = [self.asked(call) for call in calls]
        return out

    def asked(self, call: dict[str, Any]) -> dict[str, Any]:
        """One call of the assistant message."""
        if call["type"] == "custom":
            return {"id": call["id"], "type": "custom", "custom": {"name": call["name"], "input": call["arguments"]}}
        function = {"name": call["name"], "arguments": self.repaired(call["arguments"])}
        return {"id": call["id"], "type": "function", "function": function}

    def repaired(self, arguments: str) -> str:
        """Arguments that parse: as they are, with the closers they lack, or `{}` (SEEDS, A, "Argument repair")."""
        if parses(arguments):
            return arguments
        opened: list[str] = []
        quoted = escaped = False
        for character in arguments:
            if quoted:
                quoted = escaped or character != '"'
                escaped = character == "\\" and not escaped
            elif character == '"':
                quoted = True
            elif character in "{[":
                opened.append("}" if character == "{" else "]")
            elif character in "}]" and opened:
                opened.pop()
        closed = arguments + "".join(reversed(opened))
        return closed if parses(closed) else "{}"

    def result(self, call: dict[str, Any]) -> dict[str, Any]:
        """A call's result, tied to it by its id."""
        return {"role": "tool", "tool_call_id": call["id"], "content": "done"}
