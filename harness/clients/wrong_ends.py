"""Wrong clients for how a stream ends: finish reasons, markers, usage, failures. Each replaces one method."""

from __future__ import annotations

from typing import Any

from harness.clients.drafting import NORMAL, Call, Draft
from harness.clients.framing import fields_of
from harness.clients.machine import Machine
from harness.clients.mistakes import wrong
from harness.clients.model import ALL

# -- finish


@wrong(
    "stops-at-finish", "039-usage-chunk-without-choices",
    about="Stops at the first finish reason, before usage and other choices have come.",
)  # fmt: skip
class StopsAtFinish(Machine):
    def finished(self, draft: Draft, reason: Any) -> None:
        super().finished(draft, reason)
        if draft.finish:
            self.end()


@wrong(
    "empty-finish-counts", "035-empty-finish-reason-everywhere",
    about="Takes any finish reason that is not null for the end of a choice, also `\"\"`.",
)  # fmt: skip
class EmptyFinishCounts(Machine):
    def choice(self, choice: dict[str, Any]) -> None:
        if choice.get("index") not in self.over_choices:
            super().choice(choice)
        if choice.get("finish_reason") is not None:
            self.over_choices = self.over_choices | {choice.get("index")}

    over_choices: frozenset[Any] = frozenset()


@wrong(
    "skips-finish-delta", "037-finish-reason-with-content",
    about="Ignores the delta of the chunk that has the finish reason, and its last words.",
)  # fmt: skip
class SkipsFinishDelta(Machine):
    def delta_of(self, choice: dict[str, Any], draft: Draft) -> dict[str, Any]:
        return {} if choice.get("finish_reason") else super().delta_of(choice, draft)


@wrong(
    "calls-need-tool-finish", "034-stop-after-tool-calls", ("chat", "responses", "gemini", "ollama"),
    about="Looks for calls only if the finish reason is `tool_calls`.",
)  # fmt: skip
class CallsNeedToolFinish(Machine):
    def listed_calls(self, draft: Draft) -> list[Call]:
        return super().listed_calls(draft) if NORMAL.get(draft.finish) == "tool_calls" else []


@wrong(
    "rewrites-finish", "034-stop-after-tool-calls",
    about="Reports `tool_calls` whenever there are calls, whatever the server said.",
)  # fmt: skip
class RewritesFinish(Machine):
    def reason_of(self, draft: Draft) -> str | None:
        found = super().reason_of(draft)
        return "tool_calls" if found == "stop" and draft.calls else found


@wrong(
    "assumes-stop", "036-done-without-finish-reason", ALL,
    about="Reports `stop` where no finish reason came.",
)  # fmt: skip
class AssumesStop(Machine):
    def reason_of(self, draft: Draft) -> str | None:
        return super().reason_of(draft) or "stop"


@wrong(
    "unknown-finish-is-stop", "091-malformed-function-call", ("chat", "anthropic", "gemini"),
    about="Reports `stop` for a finish reason it does not know.",
)  # fmt: skip
class UnknownFinishIsStop(Machine):
    def reason_of(self, draft: Draft) -> str | None:
        found = super().reason_of(draft)
        return "stop" if found in ("error", "other") else found


@wrong(
    "strict-enums", "035-empty-finish-reason-everywhere",
    about="Validates the finish reason against a list, and raises at any other value.",
)  # fmt: skip
class StrictEnums(Machine):
    def finished(self, draft: Draft, reason: Any) -> None:
        if reason not in (None, "stop", "length", "tool_calls", "content_filter", "function_call"):
            raise ValueError(f"{reason!r} is not a valid finish reason")
        super().finished(draft, reason)


# -- ends


@wrong(
    "waits-for-done", "048-no-done-marker",
    about="Waits for `[DONE]`; where none comes the spinner never stops (here: it times out).",
)  # fmt: skip
class WaitsForDone(Machine):
    def finish(self) -> None:
        super().finish()
        if not self.ended and self.error is None:
            raise TimeoutError("the stream has not ended")


@wrong(
    "waits-for-finish", "036-done-without-finish-reason",
    about="Loops until a finish reason comes; where none is sent the agent never goes on (here: it times out).",
)  # fmt: skip
class WaitsForFinish(Machine):
    def finish(self) -> None:
        super().finish()
        if not any(draft.finish for draft in self.drafts.values()) and self.error is None:
            raise TimeoutError("no finish reason has come")


@wrong(
    "waits-for-message-stop", "089-no-message-stop", ("anthropic",),
    about="Accepts a message only with `message_stop`; without, it raises.",
)  # fmt: skip
class WaitsForMessageStop(WaitsForDone):
    pass


@wrong(
    "eof-is-whole", "049-cut-between-events", ("chat", "responses", "anthropic", "ollama"),
    about="Takes the end of the connection for the end of the answer, also of one that was cut.",
)  # fmt: skip
class EofIsWhole(Machine):
    def terminal(self) -> str:
        return "error" if self.error else "done"


# -- usage


@wrong(
    "last-chunk-usage", "041-usage-on-finish-chunk",
    about="Reads usage only from an extra last chunk without choices; else the ledger is zero.",
)  # fmt: skip
class LastChunkUsage(Machine):
    def counted(self, chunk: dict[str, Any]) -> None:
        if not chunk.get("choices"):
            super().counted(chunk)


@wrong(
    "usage-beside-choices", "039-usage-chunk-without-choices",
    about="Skips chunks without choices before it looks for usage, and finds none.",
)  # fmt: skip
class UsageBesideChoices(Machine):
    def counted(self, chunk: dict[str, Any]) -> None:
        if chunk.get("choices"):
            super().counted(chunk)


@wrong(
    "first-usage", "040-usage-on-every-chunk", ("chat", "gemini"),
    about="Keeps the first usage it sees, so that of a running total the beginning counts.",
)  # fmt: skip
class FirstUsage(Machine):
    def use(self, usage: Any, input_name: str, output_name: str) -> None:
        if self.usage["output_tokens"] is None:
            super().use(usage, input_name, output_name)


@wrong(
    "adds-usage-up", "040-usage-on-every-chunk", ("chat", "anthropic", "gemini"),
    about="Adds up the usage of all chunks, so that a running total is billed many times.",
)  # fmt: skip
class AddsUsageUp(Machine):
    def use(self, usage: Any, input_name: str, output_name: str) -> None:
        before = dict(self.usage)
        self.usage = dict.fromkeys(before)
        super().use(usage, input_name, output_name)
        for name, count in before.items():
            self.usage[name] = count if self.usage[name] is None else self.usage[name] + (count or 0)


@wrong(
    "missing-usage-is-zero", "042-usage-always-null", ALL,
    about="Reports 0 tokens where no usage was sent.",
)  # fmt: skip
class MissingUsageIsZero(Machine):
    def close(self) -> None:
        super().close()
        self.usage = {name: count or 0 for name, count in self.usage.items()}


@wrong(
    "usage-never-null", "042-usage-always-null",
    about="Reads `usage` as an object wherever it is sent, and raises at null.",
)  # fmt: skip
class UsageNeverNull(Machine):
    def counted(self, chunk: dict[str, Any]) -> None:
        if "usage" in chunk:
            self.usage["input_tokens"] = chunk["usage"]["prompt_tokens"]
        super().counted(chunk)


# -- failures


@wrong(
    "ignores-errors", "043-error-object-then-done", ALL,
    about="Knows no error payloads: a failed stream reads as a short answer.",
)  # fmt: skip
class IgnoresErrors(Machine):
    def error_of(self, name: str, payload: dict[str, Any]) -> dict[str, Any] | None:
        return None


@wrong(
    "error-loses-text", "043-error-object-then-done", ALL,
    about="Throws away the text so far when an error comes.",
)  # fmt: skip
class ErrorLosesText(Machine):
    def fail(self, error: dict[str, Any]) -> None:
        super().fail(error)
        for draft in self.drafts.values():
            draft.text.clear()
        self.items.clear()
        self.blocks.clear()


@wrong(
    "choices-hide-error", "044-error-chunk-with-finish-error",
    about="Looks for an error only in chunks without choices.",
)  # fmt: skip
class ChoicesHideError(Machine):
    def error_of(self, name: str, payload: dict[str, Any]) -> dict[str, Any] | None:
        return None if payload.get("choices") else super().error_of(name, payload)


@wrong(
    "error-is-object", "101-error-line", ALL,
    about="Takes an error for an object always, and sees none in a text.",
)  # fmt: skip
class ErrorIsObject(Machine):
    def error_of(self, name: str, payload: dict[str, Any]) -> dict[str, Any] | None:
        return None if isinstance(payload.get("error"), str) else super().error_of(name, payload)


@wrong(
    "error-is-member", "080-error-event-top-level", ALL,
    about="Looks for an error under `error` only, not at the top of an error event.",
)  # fmt: skip
class ErrorIsMember(Machine):
    def error_of(self, name: str, payload: dict[str, Any]) -> dict[str, Any] | None:
        return fields_of(payload["error"]) if payload.get("error") else None
