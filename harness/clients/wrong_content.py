"""Wrong clients for what a choice says: chunks and choices, text, reasoning, refusal. Each replaces one method."""

from __future__ import annotations

import json
import re
from typing import Any

from harness.clients.drafting import Draft
from harness.clients.framing import decoded, fields_of
from harness.clients.machine import Machine
from harness.clients.mistakes import wrong
from harness.clients.model import ALL

CHUNK_MEMBERS = {"id", "object", "created", "model", "choices", "usage", "system_fingerprint", "service_tier"}


@wrong(
    "choices-0-unseen", "039-usage-chunk-without-choices",
    about="Takes `choices[0]` of every chunk, and raises at the usage chunk, which has none.",
)  # fmt: skip
class Choices0Unseen(Machine):
    def choices_of(self, chunk: dict[str, Any]) -> list[Any]:
        return [chunk["choices"][0]]


@wrong(
    "no-choices-ends", "051-first-chunk-without-choices",
    about="Takes a chunk without choices for the end of the stream.",
)  # fmt: skip
class NoChoicesEnds(Machine):
    def chat(self, chunk: dict[str, Any]) -> None:
        super().chat(chunk)
        if not chunk.get("choices"):
            self.end()


@wrong(
    "mixes-choices", "055-two-choices-interleaved", ("chat", "gemini"),
    about="Ignores the choice index, so that the texts of two choices become one.",
)  # fmt: skip
class MixesChoices(Machine):
    def draft(self, choice: Any = 0) -> Draft:
        return super().draft(0)


@wrong(
    "first-choice-only", "055-two-choices-interleaved",
    about="Reads choice 0 and drops every other one.",
)  # fmt: skip
class FirstChoiceOnly(Machine):
    def choice(self, choice: dict[str, Any]) -> None:
        if not choice.get("index"):
            super().choice(choice)


@wrong(
    "delta-never-null", "052-delta-null-at-finish",
    about="Takes the delta for an object always, and raises where it is null.",
)  # fmt: skip
class DeltaNeverNull(Machine):
    def delta_of(self, choice: dict[str, Any], draft: Draft) -> Any:
        return choice["delta"]


@wrong(
    "role-required", "053-role-missing",
    about="Refuses a message for which no delta named a role.",
)  # fmt: skip
class RoleRequired(Machine):
    role: Any = None

    def delta(self, delta: dict[str, Any], draft: Draft) -> None:
        self.role = self.role or delta.get("role")
        super().delta(delta, draft)

    def close(self) -> None:
        if self.drafts and not self.role:
            raise ValueError("no delta had a role")


@wrong(
    "one-chunk-id", "054-chunk-id-changes",
    about="Keeps the first chunk's id, and drops chunks with another one.",
)  # fmt: skip
class OneChunkId(Machine):
    id: Any = None

    def chat(self, chunk: dict[str, Any]) -> None:
        self.id = self.id or chunk.get("id")
        if chunk.get("id") == self.id:
            super().chat(chunk)


@wrong(
    "known-members-only", "062-padding-field",
    about="Validates chunks strictly, and raises at a member the schema does not name.",
)  # fmt: skip
class KnownMembersOnly(Machine):
    def chat(self, chunk: dict[str, Any]) -> None:
        if unknown := chunk.keys() - CHUNK_MEMBERS:
            raise ValueError(f"unexpected members: {', '.join(sorted(unknown))}")
        super().chat(chunk)


@wrong(
    "checks-object", "051-first-chunk-without-choices",
    about="Raises at a chunk whose `object` is not `chat.completion.chunk`.",
)  # fmt: skip
class ChecksObject(Machine):
    def chat(self, chunk: dict[str, Any]) -> None:
        if chunk.get("object") != "chat.completion.chunk":
            raise ValueError(f"no chunk, but {chunk.get('object')!r}")
        super().chat(chunk)


@wrong(
    "created-is-integer", "105-created-as-text",
    about="Has `created` as an integer in its type of a chunk, and raises at any other value.",
)  # fmt: skip
class CreatedIsInteger(Machine):
    def chat(self, chunk: dict[str, Any]) -> None:
        created = chunk.get("created", 0)
        if type(created) is not int:
            raise ValueError(f"created is no integer: {created!r}")
        super().chat(chunk)


# -- text


@wrong(
    "skips-null-content", "021-interleaved-parallel-calls",
    about="Skips the first delta without content, which is the one with the call's id.",
)  # fmt: skip
class SkipsNullContent(Machine):
    skipped = False

    def delta(self, delta: dict[str, Any], draft: Draft) -> None:
        if delta.get("content") is None and not self.skipped:
            self.skipped = True
        else:
            super().delta(delta, draft)


@wrong(
    "text-only", "029-whole-call-in-one-chunk",
    about="Reads `delta.content` and nothing else: no call ever arrives.",
)  # fmt: skip
class TextOnly(Machine):
    def fragments(self, entries: list[Any], draft: Draft) -> None:
        """Calls are not read."""


@wrong(
    "trims-deltas", "011-whitespace-only-deltas", ALL,
    about="Trims every delta, so that words run together.",
)  # fmt: skip
class TrimsDeltas(Machine):
    def say(self, text: str, draft: Draft) -> None:
        super().say(text.strip(), draft)


@wrong(
    "skips-blank-deltas", "011-whitespace-only-deltas", ALL,
    about="Skips deltas that are only blanks, so that spaces and line breaks vanish.",
)  # fmt: skip
class SkipsBlankDeltas(Machine):
    def say(self, text: str, draft: Draft) -> None:
        if text.strip():
            super().say(text, draft)


@wrong(
    "skips-seen-deltas", "011-whitespace-only-deltas", ALL,
    about="Skips a delta with a text it has had before, taking it for a repeat.",
)  # fmt: skip
class SkipsSeenDeltas(Machine):
    def say(self, text: str, draft: Draft) -> None:
        if text not in draft.text:
            super().say(text, draft)


@wrong(
    "guesses-snapshots", "058-cumulative-content",
    about="Takes a delta that begins with all before it for a snapshot, and rewrites text.",
)  # fmt: skip
class GuessesSnapshots(Machine):
    def say(self, text: str, draft: Draft) -> None:
        so_far = "".join(draft.text)
        if so_far and text.startswith(so_far):
            draft.text.clear()
        super().say(text, draft)


@wrong(
    "adds-message-copy", "056-growing-message-beside-delta",
    about="Adds the message that a chunk has beside its delta, so that text comes twice.",
)  # fmt: skip
class AddsMessageCopy(Machine):
    def delta_of(self, choice: dict[str, Any], draft: Draft) -> dict[str, Any]:
        copy = choice.get("message")
        self.content(copy.get("content") if isinstance(copy, dict) else None, draft)
        return super().delta_of(choice, draft)


@wrong(
    "content-is-text", "057-content-as-parts-thinking",
    about="Takes content for a text always, and raises when it joins a list of parts.",
)  # fmt: skip
class ContentIsText(Machine):
    def content(self, content: Any, draft: Draft) -> None:
        if content is not None:
            draft.text.append(content)


@wrong(
    "markup-as-call", "033-tool-markup-in-content",
    about="Makes a call of `<tool_call>` in the text, though the wire says text.",
)  # fmt: skip
class MarkupAsCall(Machine):
    def message(self, number: int, draft: Draft) -> dict[str, Any]:
        message = super().message(number, draft)
        text, _, markup = message["text"].partition("<tool_call>")
        call = decoded(markup.partition("</tool_call>")[0])
        if isinstance(call, dict):
            asked = {"index": 0, "id": "", "name": call["name"], "arguments": json.dumps(call["arguments"])}
            message |= {"text": text, "tool_calls": [asked | {"type": "function"}]}
        return message


@wrong(
    "guesses-errors", "046-error-disguised-as-answer", ALL,
    about="Takes a text with the word `error` in it for a failure.",
)  # fmt: skip
class GuessesErrors(Machine):
    def say(self, text: str, draft: Draft) -> None:
        super().say(text, draft)
        if "error" in text.lower():
            self.fail(fields_of(text))


# -- reasoning and refusal


@wrong(
    "one-reasoning-name", "060-reasoning-field-renamed",
    about="Knows `reasoning_content` only, and drops thinking under any other name.",
)  # fmt: skip
class OneReasoningName(Machine):
    reasoning_names = ("reasoning_content",)


@wrong(
    "reasoning-lost", "073-reasoning-summary-events", ALL,
    about="Reads no reasoning: the channel is not there for it.",
)  # fmt: skip
class ReasoningLost(Machine):
    def think(self, text: str, draft: Draft) -> None:
        """Thinking is not read."""


@wrong(
    "reasoning-as-text", "095-thought-parts", ALL,
    about="Adds thinking to the answer, so that users see it.",
)  # fmt: skip
class ReasoningAsText(Machine):
    def think(self, text: str, draft: Draft) -> None:
        self.say(text, draft)


@wrong(
    "splits-think-tags", "061-inline-think-tags", ALL,
    about="Cuts `<think>` out of the text by itself, though the wire says text.",
)  # fmt: skip
class SplitsThinkTags(Machine):
    def message(self, number: int, draft: Draft) -> dict[str, Any]:
        message = super().message(number, draft)
        thought = re.findall("<think>(.*?)</think>", message["text"], re.DOTALL)
        message["reasoning"] += "".join(thought)
        message["text"] = re.sub("<think>.*?</think>", "", message["text"], flags=re.DOTALL)
        return message


@wrong(
    "refusal-lost", "059-refusal-delta", ("chat", "responses"),
    about="Knows no refusal, and shows an empty answer instead.",
)  # fmt: skip
class RefusalLost(Machine):
    def refuse(self, text: str, draft: Draft) -> None:
        """Refusals are not read."""


@wrong(
    "refusal-as-text", "059-refusal-delta", ("chat", "responses"),
    about="Adds the refusal to the answer, as if it were one.",
)  # fmt: skip
class RefusalAsText(Machine):
    def refuse(self, text: str, draft: Draft) -> None:
        self.say(text, draft)
