"""Facts of a Completions stream, the legacy endpoint: those of chat's chunks, with the text in the choice itself.

There are no roles, deltas or calls. The last piece of text comes with the finish reason: that is the documented form.
Source: RULES, sections 1 and 3; OpenAI API reference, "The completion object".
"""

from __future__ import annotations

from typing import Any, ClassVar

from harness.asked import Asked
from harness.events import Event, ToolCall
from harness.facts.base import Place
from harness.facts.chat import FORMS, ChatFacts
from harness.facts.forms import ChoiceFacts
from harness.findings import Severity
from harness.jsontext import as_text
from harness.message import Message


class CompletionsFacts(ChatFacts):
    """Watches one Completions stream."""

    documented_finish: ClassVar[frozenset[str]] = frozenset({"stop", "length", "content_filter"})
    chunk_object: ClassVar[str] = "text_completion"

    def _choice(
        self, facts: ChoiceFacts, number: int, choice: dict[str, Any], calls: list[ToolCall], events: list[Event],
        place: Place,
    ) -> None:  # fmt: skip
        text = choice.get("text")
        facts.deltas += 1
        if facts.deltas == 1:
            first = "absent" if "text" not in choice else "empty" if text == "" else FORMS.get(type(text), "other")
            self.member("text.first", first, place)
        if text:
            self.member("text.type", FORMS.get(type(text), "other"), place)
        if logprobs := choice.get("logprobs"):
            self.logprobs = True
            self.where.setdefault("logprobs", place)
            if not (type(logprobs) is dict and "tokens" in logprobs):
                self.note("completions.logprobs-form", *place, f"{as_text(logprobs)[:40]} ...")
        self._finish(facts, choice, calls, self._content(facts, number, events, place), place)

    def nested_error(self, payload: dict[str, Any]) -> Any:
        """An error may stand in a choice."""
        choices = payload.get("choices")
        found = (choice.get("error") for choice in choices if type(choice) is dict) if type(choices) is list else ()
        return next((error for error in found if error), None)

    def closing(self, message: Message, asked: Asked | None) -> None:
        self.notes.pop("finish.with-content", None)
        super().closing(message, asked)
        if "chunk.object" in self.notes:
            self.grades["chunk.object"] = Severity.NEGOTIABLE  # no official accumulator looks at it here

    def _close_roles(self) -> None:
        """There are none."""
