"""Wrong clients for Responses, Anthropic, Gemini and Ollama: items, blocks, parts, lines. Each replaces one method.

For Responses the causes are those of SEEDS, B, "What goes wrong".
"""

from __future__ import annotations

import json
from typing import Any

from harness.clients.drafting import Draft
from harness.clients.machine import Machine
from harness.clients.machine_items import Item
from harness.clients.mistakes import wrong

RESPONSES, ANTHROPIC, GEMINI, OLLAMA = ("responses",), ("anthropic",), ("gemini",), ("ollama",)
WHOLE_VALUES = ("arguments", "input", "content", "summary")


# -- responses


@wrong(
    "ignores-done-values", "071-arguments-only-in-done", RESPONSES,
    about="Reads deltas only, and drops values that come whole in a done event.",
)  # fmt: skip
class IgnoresDoneValues(Machine):
    def whole(self, channel: str, payload: dict[str, Any], value: Any) -> None:
        """Values that come whole are not read."""

    def item(self, sent: Any, place: Any, *, done: bool) -> None:
        head = {key: value for key, value in sent.items() if key not in WHOLE_VALUES} if done else sent
        super().item(head, place, done=done)


@wrong(
    "ignores-item-id", "076-interleaved-calls-responses", RESPONSES,
    about="Adds each delta to the item opened last, so that interleaved items are mixed.",
)  # fmt: skip
class IgnoresItemId(IgnoresDoneValues):
    def pieces_of(self, channel: str, payload: dict[str, Any]) -> list[str]:
        last = {"item_id": self.items[-1].id} if self.items else {}
        return super().pieces_of(channel, {**payload, **last})


@wrong(
    "piece-elsewhere", "073-reasoning-summary-events", RESPONSES,
    about="Looks for the piece in `text` or `arguments`, not in `delta`, and finds none.",
)  # fmt: skip
class PieceElsewhere(IgnoresDoneValues):
    def delta_text(self, payload: dict[str, Any]) -> str:
        return payload.get("text") or payload.get("arguments") or ""


@wrong(
    "adds-done-values", "073-reasoning-summary-events", RESPONSES,
    about="Adds the whole value of a done event to the deltas, so that text comes again.",
)  # fmt: skip
class AddsDoneValues(IgnoresDoneValues):
    def whole(self, channel: str, payload: dict[str, Any], value: Any) -> None:
        self.pieces_of(channel, payload).append(value)


@wrong(
    "old-event-names", "073-reasoning-summary-events", RESPONSES,
    about="Listens for `response.text.delta` and the like, and hears no text from today's names.",
)  # fmt: skip
class OldEventNames(Machine):
    def responses(self, payload: dict[str, Any]) -> None:
        if not str(payload.get("type")).startswith(("response.output_text.", "response.content_part.")):
            super().responses(payload)

    def item(self, sent: Any, place: Any, *, done: bool) -> None:
        if sent.get("type") != "message":
            super().item(sent, place, done=done)


@wrong(
    "trusts-final-object", "066-completed-with-empty-output", RESPONSES,
    about="Takes the final object's output for the answer, even if it is empty.",
)  # fmt: skip
class TrustsFinalObject(Machine):
    def over(self, kind: str, response: dict[str, Any]) -> None:
        self.items.clear()
        super().over(kind, response)


@wrong(
    "keys-items-by-id", "067-item-id-changes", RESPONSES,
    about="Keys items by id alone, so that one item under three ids counts three times.",
)  # fmt: skip
class KeysItemsById(Machine):
    def item_for(self, id: Any, place: Any, kinds: tuple[Any, ...]) -> Item | None:
        return next((item for item in self.items if item.id == id), None)


@wrong(
    "keys-items-by-place", "068-output-index-shared-message-call", RESPONSES,
    about="Keys streamed items by output index alone, so that a call at a message's place is lost.",
)  # fmt: skip
class KeysItemsByPlace(Machine):
    def item_for(self, id: Any, place: Any, kinds: tuple[Any, ...]) -> Item | None:
        return next((item for item in self.items if item.place == place), None)

    def opened(self, kind: Any, id: Any, place: Any) -> Item:
        return self.item_for(id, place, ()) or super().opened(kind, id, place)

    def over(self, kind: str, response: dict[str, Any]) -> None:
        super().over(kind, {**response, "output": []})


@wrong(
    "known-events-only", "069-keepalive-event", RESPONSES,
    about="Raises at an event type it does not know, instead of skipping it.",
)  # fmt: skip
class KnownEventsOnly(Machine):
    def responses(self, payload: dict[str, Any]) -> None:
        kind = payload.get("type")
        if kind != "error" and not str(kind).startswith("response."):
            raise ValueError(f"unknown event {kind!r}")
        super().responses(payload)


@wrong(
    "part-must-be-added", "070-content-part-added-missing", RESPONSES,
    about="Raises at a text delta for a part that no event has opened.",
)  # fmt: skip
class PartMustBeAdded(Machine):
    added: frozenset[Any] = frozenset()

    def responses(self, payload: dict[str, Any]) -> None:
        part = payload.get("item_id"), payload.get("content_index")
        if payload.get("type") == "response.content_part.added":
            self.added |= {part}
        elif payload.get("type") == "response.output_text.delta" and part not in self.added:
            raise KeyError(f"no content part {part}")
        super().responses(payload)


@wrong(
    "checks-sequence", "072-sequence-gaps", RESPONSES,
    about="Raises at a gap in the sequence numbers.",
)  # fmt: skip
class ChecksSequence(Machine):
    number = -1

    def responses(self, payload: dict[str, Any]) -> None:
        self.number += 1
        if payload.get("sequence_number", self.number) != self.number:
            raise ValueError(f"event {self.number} is missing")
        super().responses(payload)


@wrong(
    "custom-calls-lost", "075-custom-tool-input", RESPONSES,
    about="Knows function calls only, and drops a custom tool's free-form call.",
)  # fmt: skip
class CustomCallsLost(Machine):
    def responses(self, payload: dict[str, Any]) -> None:
        if "custom_tool_call" not in str(payload.get("type")):
            super().responses(payload)

    def item(self, sent: Any, place: Any, *, done: bool) -> None:
        if sent.get("type") != "custom_tool_call":
            super().item(sent, place, done=done)


@wrong(
    "orders-by-done", "076-interleaved-calls-responses", RESPONSES,
    about="Lists items in the order in which they were done, not by output index.",
)  # fmt: skip
class OrdersByDone(Machine):
    def closed(self, item: Item) -> None:
        if not item.done:
            self.items.remove(item)
            self.items.insert(sum(other.done for other in self.items), item)
        super().closed(item)

    def in_order(self) -> list[Item]:
        return self.items


@wrong(
    "items-done-is-end", "077-completed-missing", RESPONSES,
    about="Takes a response for complete when all its items are done.",
)  # fmt: skip
class ItemsDoneIsEnd(Machine):
    def terminal(self) -> str:
        found = super().terminal()
        return "done" if found == "truncated" and all(item.done for item in self.items) else found


@wrong(
    "ignores-failed", "079-response-failed", RESPONSES,
    about="Does not know `response.failed`: it waits on, and never learns why.",
)  # fmt: skip
class IgnoresFailed(Machine):
    def over(self, kind: str, response: dict[str, Any]) -> None:
        if kind != "failed":
            super().over(kind, response)


@wrong(
    "ignores-incomplete", "081-response-incomplete", RESPONSES,
    about="Does not know `response.incomplete`: the answer never ends for it.",
)  # fmt: skip
class IgnoresIncomplete(Machine):
    def over(self, kind: str, response: dict[str, Any]) -> None:
        if kind != "incomplete":
            super().over(kind, response)


@wrong(
    "ignores-completed", "073-reasoning-summary-events", RESPONSES,
    about="Does not read `response.completed`: usage is lost, and the end.",
)  # fmt: skip
class IgnoresCompleted(Machine):
    def over(self, kind: str, response: dict[str, Any]) -> None:
        if kind != "completed":
            super().over(kind, response)


# -- anthropic


@wrong(
    "start-usage", "082-usage-cumulative", ANTHROPIC,
    about="Reads usage at the start only, where the output count is that of the first token.",
)  # fmt: skip
class StartUsage(Machine):
    def end_usage(self, usage: Any) -> None:
        """Usage at the end is not read."""


@wrong(
    "end-usage", "082-usage-cumulative", ANTHROPIC,
    about="Reads usage at the end only: the input tokens read zero.",
)  # fmt: skip
class EndUsage(Machine):
    def start_usage(self, usage: Any) -> None:
        """Usage at the start is not read."""


@wrong(
    "input-deltas-only", "085-full-input-in-block-start", ANTHROPIC,
    about="Reads a call's input from deltas only: where it comes whole the tool gets `{}`.",
)  # fmt: skip
class InputDeltasOnly(Machine):
    def start_input(self, block: dict[str, Any]) -> Any:
        return {}


@wrong(
    "block-index-as-position", "086-block-index-gap", ANTHROPIC,
    about="Uses the block index as a position in its list, and raises at a gap.",
)  # fmt: skip
class BlockIndexAsPosition(Machine):
    def block_start(self, index: Any, block: dict[str, Any]) -> None:
        if index != len(self.blocks):
            raise IndexError(f"block {index} after {len(self.blocks)} blocks")
        super().block_start(index, block)


@wrong(
    "first-block-only", "084-empty-tool-input", ANTHROPIC,
    about="Reads `content[0]`, and drops every further block.",
)  # fmt: skip
class FirstBlockOnly(Machine):
    def close(self) -> None:
        del self.blocks[1:]
        super().close()


@wrong(
    "signature-as-thinking", "090-thinking-with-signature", ANTHROPIC,
    about="Adds the signature of a thinking block to the thinking.",
)  # fmt: skip
class SignatureAsThinking(Machine):
    def block_delta(self, index: Any, delta: dict[str, Any]) -> None:
        if "signature" in delta:
            delta = {"type": "thinking_delta", "thinking": delta["signature"]}
        super().block_delta(index, delta)


# -- gemini and ollama


@wrong(
    "parts-required", "093-parts-missing-safety", GEMINI,
    about="Reads `content.parts` as always there, and raises in a chunk that has only a reason.",
)  # fmt: skip
class PartsRequired(Machine):
    def parts_of(self, candidate: dict[str, Any]) -> list[Any]:
        return list(candidate["content"]["parts"])


@wrong(
    "first-part-only", "095-thought-parts", GEMINI,
    about="Reads `parts[0]` of each chunk, and drops every further part.",
)  # fmt: skip
class FirstPartOnly(Machine):
    def parts_of(self, candidate: dict[str, Any]) -> list[Any]:
        return super().parts_of(candidate)[:1]


@wrong(
    "part-is-text", "092-finish-chunk-without-content", GEMINI,
    about="Takes every part for a text, and raises at a function call.",
)  # fmt: skip
class PartIsText(Machine):
    def part(self, part: dict[str, Any], draft: Draft) -> None:
        super().part({**part, "text": part["text"]}, draft)


@wrong(
    "empty-part-is-call", "096-signature-on-empty-part", GEMINI,
    about="Tells parts apart by whether their text is empty, takes an empty one for a call, and raises.",
)  # fmt: skip
class EmptyPartIsCall(Machine):
    def part(self, part: dict[str, Any], draft: Draft) -> None:
        super().part(part if part.get("text") else {"functionCall": part["functionCall"]}, draft)


@wrong(
    "calls-in-done-line", "099-tool-calls-before-done", OLLAMA,
    about="Looks for calls in the last line only, and drops those that came before.",
)  # fmt: skip
class CallsInDoneLine(Machine):
    def calls_of(self, payload: dict[str, Any], message: dict[str, Any]) -> list[Any]:
        return super().calls_of(payload, message) if payload.get("done") else []


@wrong(
    "arguments-are-text", "099-tool-calls-before-done", OLLAMA + GEMINI,
    about="Parses arguments as JSON text, and raises at an object.",
)  # fmt: skip
class ArgumentsAreText(Machine):
    def whole_call(self, draft: Draft, id: Any, name: Any, arguments: Any) -> None:
        super().whole_call(draft, id, name, json.loads(arguments))
