"""Wrong clients for tool calls in chat: whose fragment it is, ids and names, arguments. Each replaces one method.

Most stand in SEEDS, A, "Common mistakes", or are what its table of providers makes go wrong.
"""

from __future__ import annotations

import json
import re
from typing import Any

from harness.clients.drafting import Call, Draft
from harness.clients.framing import parses
from harness.clients.machine import Machine
from harness.clients.mistakes import wrong
from harness.clients.model import ALL

# -- whose fragment


@wrong(
    "keys-by-id", "021-interleaved-parallel-calls",
    about="Keys calls by id; fragments after the first have none, and become a call of their own.",
)  # fmt: skip
class KeysById(Machine):
    def call_for(self, entry: dict[str, Any], name: Any, draft: Draft) -> Call:
        sent = entry.get("id") or ""
        return next((call for call in draft.calls if call.id == sent), None) or draft.opened()


@wrong(
    "keys-by-index-alone", "016-index-zero-for-all-calls",
    about="Keys calls by index alone, so that calls which share one are glued together.",
)  # fmt: skip
class KeysByIndexAlone(Machine):
    def call_for(self, entry: dict[str, Any], name: Any, draft: Draft) -> Call:
        index = self.index_of(entry)
        same = [call for call in draft.calls if isinstance(index, int) and call.wire == index]
        return same[0] if same else super().call_for(entry, name, draft)


@wrong(
    "missing-index-is-zero", "018-index-missing-parallel-calls",
    about="Reads a missing index as 0, so that all calls without one are glued together.",
)  # fmt: skip
class MissingIndexIsZero(KeysByIndexAlone):
    def index_of(self, entry: dict[str, Any]) -> Any:
        return entry.get("index") or 0


@wrong(
    "index-required", "017-index-missing-single-call",
    about="Reads `index` as a member that is always there, and raises where it is not.",
)  # fmt: skip
class IndexRequired(Machine):
    def index_of(self, entry: dict[str, Any]) -> Any:
        return entry["index"]


@wrong(
    "index-never-null", "019-index-null",
    about="Reads `index` as a number wherever it is sent, and raises at null.",
)  # fmt: skip
class IndexNeverNull(Machine):
    def index_of(self, entry: dict[str, Any]) -> Any:
        return int(entry.get("index", 0))


@wrong(
    "index-as-subscript", "020-index-starts-at-one",
    about="Uses the index as a position in its list of calls, and raises at a gap.",
)  # fmt: skip
class IndexAsSubscript(Machine):
    def call_for(self, entry: dict[str, Any], name: Any, draft: Draft) -> Call:
        index = self.index_of(entry)
        if isinstance(index, int) and index > len(draft.calls):
            return draft.calls[index]
        return super().call_for(entry, name, draft)


@wrong(
    "appends-to-last", "021-interleaved-parallel-calls",
    about="Ignores the index, and adds every fragment without an id to the call opened last.",
)  # fmt: skip
class AppendsToLast(Machine):
    def index_of(self, entry: dict[str, Any]) -> Any:
        return None


@wrong(
    "keys-by-name", "098-parallel-calls-without-ids", ("gemini", "ollama"),
    about="Keys calls by function name, so that a second call of one function replaces the first.",
)  # fmt: skip
class KeysByName(Machine):
    def whole_call(self, draft: Draft, id: Any, name: Any, arguments: Any) -> None:
        draft.calls = [call for call in draft.calls if call.name != name]
        super().whole_call(draft, id, name, arguments)


@wrong(
    "one-call-only", "021-interleaved-parallel-calls", ALL,
    about="Expects one call at most, and drops every further one.",
)  # fmt: skip
class OneCallOnly(Machine):
    def listed_calls(self, draft: Draft) -> list[Call]:
        return super().listed_calls(draft)[:1]


@wrong(
    "first-entry-of-delta", "030-two-fragments-same-index-in-one-delta",
    about="Reads `tool_calls[0]` of each delta, and drops its further entries.",
)  # fmt: skip
class FirstEntryOfDelta(Machine):
    def fragments(self, entries: list[Any], draft: Draft) -> None:
        super().fragments(entries[:1], draft)


@wrong(
    "legacy-call-lost", "032-legacy-function-call",
    about="Knows `tool_calls` only, and drops a call sent as `function_call`.",
)  # fmt: skip
class LegacyCallLost(Machine):
    def legacy(self, body: dict[str, Any], draft: Draft) -> None:
        """The deprecated form is not read."""


# -- ids and names


@wrong(
    "overwrites-with-empty", "022-id-empty-on-continuation",
    about="Sets id and name whenever they are sent, so that a later `\"\"` wipes them out.",
)  # fmt: skip
class OverwritesWithEmpty(Machine):
    def identify(self, call: Call, sent: Any) -> None:
        if sent is not None:
            call.id = sent

    def title(self, call: Call, name: Any) -> None:
        if name is not None:
            call.name = name


@wrong(
    "concatenates-ids", "023-id-repeated-on-every-fragment",
    about="Joins ids like text, so that one sent with every fragment comes out many times.",
)  # fmt: skip
class ConcatenatesIds(Machine):
    def identify(self, call: Call, sent: Any) -> None:
        call.id += sent or ""


@wrong(
    "concatenates-names", "024-name-repeated-on-every-fragment",
    about="Joins names like text, so that one sent with every fragment comes out doubled.",
)  # fmt: skip
class ConcatenatesNames(Machine):
    def title(self, call: Call, name: Any) -> None:
        call.name += name or ""


@wrong(
    "name-from-opening", "025-name-after-arguments",
    about="Takes the name from a call's first fragment, and misses one that comes later.",
)  # fmt: skip
class NameFromOpening(Machine):
    def title(self, call: Call, name: Any) -> None:
        if not call.pieces:
            super().title(call, name)


@wrong(
    "waits-for-name", "025-name-after-arguments",
    about="Knows a call only once its name has come, and drops arguments sent before it.",
)  # fmt: skip
class WaitsForName(Machine):
    def argue(self, call: Call, piece: Any) -> None:
        if call.name:
            super().argue(call, piece)


@wrong(
    "invents-ids", "098-parallel-calls-without-ids", ALL,
    about="Makes up an id for a call that came without one; it must stay empty.",
)  # fmt: skip
class InventsIds(Machine):
    def listed_calls(self, draft: Draft) -> list[Call]:
        calls = super().listed_calls(draft)
        for number, call in enumerate(calls):
            call.id = call.id or f"call_{number:024}"
        return calls


@wrong(
    "replaces-ids", "029-whole-call-in-one-chunk", ALL,
    about="Gives every call an id of its own making, and forgets the one that was sent.",
)  # fmt: skip
class ReplacesIds(Machine):
    def listed_calls(self, draft: Draft) -> list[Call]:
        calls = super().listed_calls(draft)
        for number, call in enumerate(calls):
            call.id = f"call_{number:024}"
        return calls


# -- arguments


@wrong(
    "opening-arguments-lost", "029-whole-call-in-one-chunk",
    about="Takes a call's first fragment for its head only, and drops arguments there.",
)  # fmt: skip
class OpeningArgumentsLost(Machine):
    def fragment(self, entry: dict[str, Any], draft: Draft) -> None:
        before = len(draft.calls)
        super().fragment(entry, draft)
        for call in draft.calls[before:]:
            call.pieces.clear()


@wrong(
    "parses-early", "014-escaped-pair-cut-in-arguments", ("chat", "responses", "anthropic"),
    about="Parses arguments as they arrive, before the call is whole, and raises.",
)  # fmt: skip
class ParsesEarly(Machine):
    def argue(self, call: Call, piece: Any) -> None:
        super().argue(call, piece)
        if self.dialect == "chat" and piece:
            json.loads("".join(call.pieces))

    def piece(self, channel: str, phase: str, payload: dict[str, Any]) -> None:
        super().piece(channel, phase, payload)
        if channel == "arguments" and phase == "delta":
            json.loads("".join(self.pieces_of(channel, payload)))

    def block_delta(self, index: Any, delta: dict[str, Any]) -> None:
        super().block_delta(index, delta)
        if "partial_json" in delta:
            json.loads("".join(self.blocks[-1][2]))


@wrong(
    "arguments-of-one-fragment", "014-escaped-pair-cut-in-arguments",
    about="Parses the first fragment alone: the tool is called with `{}`.",
)  # fmt: skip
class ArgumentsOfOneFragment(Machine):
    def arguments_of(self, call: Call) -> str:
        first = next(filter(None, call.pieces), "")
        return first if parses(first) else "{}"


@wrong(
    "unescapes-fragments", "014-escaped-pair-cut-in-arguments",
    about="Undoes escapes in each fragment by itself: an emoji cut in two becomes U+FFFD.",
)  # fmt: skip
class UnescapesFragments(Machine):
    def argue(self, call: Call, piece: Any) -> None:
        if isinstance(piece, str):
            found = re.sub(r"\\u([0-9a-fA-F]{4})", lambda match: chr(int(match[1], 16)), piece)
            piece = found.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        super().argue(call, piece)


@wrong(
    "stringifies-arguments", "026-arguments-as-object",
    about="Turns an object of arguments into text as its language prints it, not JSON.",
)  # fmt: skip
class StringifiesArguments(Machine):
    def argue(self, call: Call, piece: Any) -> None:
        super().argue(call, piece if piece is None else str(piece))


@wrong(
    "null-as-text", "027-arguments-null-first",
    about="Joins missing arguments as text, so that they begin with `null` or `None`.",
)  # fmt: skip
class NullAsText(Machine):
    def argue(self, call: Call, piece: Any) -> None:
        super().argue(call, "null" if piece is None else piece)


@wrong(
    "keeps-repeated-arguments", "028-arguments-sent-again-at-end",
    about="Joins whatever comes, also complete arguments that are sent once more.",
)  # fmt: skip
class KeepsRepeatedArguments(Machine):
    def arguments_of(self, call: Call) -> str:
        return "".join(call.pieces)


@wrong(
    "drops-call-without-arguments", "031-call-without-arguments",
    about="Drops a call whose arguments are empty.",
)  # fmt: skip
class DropsCallWithoutArguments(Machine):
    def listed_calls(self, draft: Draft) -> list[Call]:
        return [call for call in super().listed_calls(draft) if any(call.pieces)]


@wrong(
    "parses-empty-arguments", "031-call-without-arguments",
    about="Parses empty arguments as JSON, and raises.",
)  # fmt: skip
class ParsesEmptyArguments(Machine):
    def arguments_of(self, call: Call) -> str:
        joined = super().arguments_of(call)
        return joined or str(json.loads(joined))


@wrong(
    "completes-arguments", "038-length-cuts-arguments",
    about="Repairs cut arguments while reading, so that nobody sees that they were cut.",
)  # fmt: skip
class CompletesArguments(Machine):
    def arguments_of(self, call: Call) -> str:
        return self.repaired(super().arguments_of(call))
