"""Wrong clients for the next request: they read right, and write a history that corrupts the conversation.

Source: SEEDS, A, "The link", "Round trip", "Argument repair", "Two namespaces".
"""

from __future__ import annotations

from typing import Any

from harness.clients.machine import Machine
from harness.clients.mistakes import wrong
from harness.clients.model import ALL


@wrong(
    "results-first", "029-whole-call-in-one-chunk", ALL,
    about="Puts the results of calls before the assistant message that asked for them.",
)  # fmt: skip
class ResultsFirst(Machine):
    def messages(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        user, assistant, *results = super().messages(message)
        return [user, *results, assistant]


@wrong(
    "mixes-namespaces", "029-whole-call-in-one-chunk", ALL,
    about="Ties results to the id that its editor's side bar has, not to the model's id.",
)  # fmt: skip
class MixesNamespaces(Machine):
    def result(self, call: dict[str, Any]) -> dict[str, Any]:
        return super().result({**call, "id": f"side-bar-{call['index']}"})


@wrong(
    "no-repair", "038-length-cuts-arguments", ALL,
    about="Sends cut arguments back as they are, and the next request is rejected.",
)  # fmt: skip
class NoRepair(Machine):
    def repaired(self, arguments: str) -> str:
        return arguments


@wrong(
    "one-result", "021-interleaved-parallel-calls", ALL,
    about="Answers the first call only.",
)  # fmt: skip
class OneResult(Machine):
    def messages(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        return super().messages(message)[:3]


@wrong(
    "results-out-of-order", "021-interleaved-parallel-calls", ALL,
    about="Answers calls as their tools end, not in the order of the calls.",
)  # fmt: skip
class ResultsOutOfOrder(Machine):
    def messages(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        user, assistant, *results = super().messages(message)
        return [user, assistant, *reversed(results)]


@wrong(
    "no-assistant-message", "029-whole-call-in-one-chunk", ALL,
    about="Sends results without the assistant message that asked for them.",
)  # fmt: skip
class NoAssistantMessage(Machine):
    def messages(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        return [entry for entry in super().messages(message) if entry["role"] != "assistant"]


@wrong(
    "empty-content", "029-whole-call-in-one-chunk", ALL,
    about="Writes content `\"\"` beside calls that came without text; it must be null.",
)  # fmt: skip
class EmptyContent(Machine):
    def assistant(self, message: dict[str, Any]) -> dict[str, Any]:
        return {**super().assistant(message), "content": message["text"]}


@wrong(
    "omits-empty-ids", "098-parallel-calls-without-ids", ALL,
    about="Leaves out ids that are empty; they must be there on both sides.",
)  # fmt: skip
class OmitsEmptyIds(Machine):
    def asked(self, call: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in super().asked(call).items() if value}

    def result(self, call: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in super().result(call).items() if value}
