"""Facts of a Responses stream: its lifecycle, numbering, names, usage and errors; of its items in responses_output.

Source: RULES, sections 1 and 3 (`responses.*`); the documented lifecycle is that of OpenAI's "Streaming events".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from harness.asked import Asked
from harness.dialects.base import as_string
from harness.dialects.responses import OLD_NAMES, READERS
from harness.dialects.responses_output import REASONING, REFUSAL, SUMMARY, TEXT
from harness.events import Error, Event, ToolCall
from harness.facts.base import Place
from harness.facts.responses_output import OutputFacts, says_something
from harness.findings import Severity
from harness.message import Message
from harness.sse import ServerSentEvent

TERMINAL = {"response.completed": "completed", "response.incomplete": "incomplete", "response.failed": "failed"}
UNKNOWN_KEPT = 16  # names of unknown events kept as a fact


class ResponsesFacts(OutputFacts):
    """Watches one Responses stream."""

    documented_finish: ClassVar[frozenset[str]] = frozenset(
        {"completed", "max_output_tokens", "content_filter", "failed"}
    )  # fmt: skip
    stop_means_calls: ClassVar[bool] = True
    # Chat's names are read too where Responses' own are not sent.
    base_counters: ClassVar[tuple[str, ...]] = (
        "input_tokens", "output_tokens", "total_tokens", "prompt_tokens", "completion_tokens",
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self.first = ""  # the first event of the lifecycle
        self.created = ""  # first or late
        self.ended_after_error = False
        self.response_id = ""
        self.running: tuple[Any, ...] | None = None  # the last delta, if nothing stands in the way of another like it
        self.due_number: int | None = None  # the sequence number that comes next
        self.gap: tuple[Place, str] | None = None
        self.unnumbered: tuple[Place, str] | None = None
        self.unnamed: Place | None = None
        self.usage_places: dict[str, Place] = {}

    # -- one event ------------------------------------------------------------------------------------------------

    def chunk(self, payload: dict[str, Any], sse: ServerSentEvent, events: list[Event]) -> None:
        get = payload.get
        kind = get("type")
        number = get("sequence_number")
        if number.__class__ is int and number == self.due_number:
            self.due_number = number + 1
        else:
            self._number(number, kind, sse)
        if sse.event != kind:
            self._name(kind, sse)
        here = (kind, get("item_id"), get("output_index"), get("content_index"), get("summary_index"))
        if here == self.running:
            if not self.logprobs and get("logprobs"):
                self._logprobs(sse)
            return
        self.running = None
        name = (kind or sse.event) if type(kind or sse.event) is str else ""
        if name in OLD_NAMES or name == "message":
            self.member("responses.old-events", name, (sse.at, sse.length))
            name = OLD_NAMES.get(name, name)
        if not self.first and name in READERS:
            self.first = name
            if name != "response.created":
                self.note("responses.created-missing", sse.at, sse.length, f"{name} comes first")
        handler = HANDLERS.get(name)
        if handler is not None:
            handler[0](self, payload, (sse.at, sse.length), events, handler[1])
            if name.endswith(".delta") and events and type(get("delta")) is str:
                self.running = here
            if not self.logprobs and get("logprobs"):
                self._logprobs(sse)
        elif name not in READERS:
            self._unknown(name or as_string(kind) or as_string(get("object")) or "no type", sse)

    def after(self, data: bytes, sse: ServerSentEvent) -> None:
        if self.error_seen and (sse.event in TERMINAL or b'"response.failed"' in data):
            self.ended_after_error = True

    def _number(self, number: Any, kind: Any, sse: ServerSentEvent) -> None:
        if type(number) is not int:
            # Only what the API knows owes a number: a relay's own heartbeat does not.
            if self.unnumbered is None and type(kind) is str and kind in READERS:
                self.unnumbered = (sse.at, sse.length), kind
            return
        if self.due_number is not None and self.gap is None:
            self.gap = (sse.at, sse.length), f"{number} after {self.due_number - 1}"
        self.due_number = number + 1

    def _name(self, kind: Any, sse: ServerSentEvent) -> None:
        if not sse.event:
            if self.unnamed is None and type(kind) is str and kind in READERS:
                self.unnamed = (sse.at, sse.length)
        elif type(kind) is str and kind:
            self.note("sse.event-name-differs", sse.at, sse.length, f"{sse.event}, {kind}")

    def _logprobs(self, sse: ServerSentEvent) -> None:
        self.logprobs = True
        self.where.setdefault("logprobs", (sse.at, sse.length))

    def _unknown(self, name: str, sse: ServerSentEvent) -> None:
        severity = Severity.NEGOTIABLE if name.startswith("response.") else Severity.COSMETIC
        self.note("responses.unknown-event", sse.at, sse.length, name[:80], severity)
        if len(self.tree.get("responses", {}).get("unknown-events", ())) < UNKNOWN_KEPT:
            self.member("responses.unknown-events", name[:80], (sse.at, sse.length))

    # -- the response ---------------------------------------------------------------------------------------------

    def _status(self, payload: dict[str, Any], place: Place, events: list[Event], phase: str) -> None:
        if phase == "created" and not self.created:
            self.created = "first" if self.first == "response.created" else "late"
            self.where.setdefault("responses.created", place)
        elif phase == "created":
            self.note("stream.restarted", *place, "response.created comes twice")
        response = payload.get("response")
        if type(response) is dict:
            self._response(response, response.get("usage"), "running", place)

    def _response(self, response: dict[str, Any], usage: Any, where: str, place: Place) -> None:
        """What every event with a response object tells: its id, and usage if there is any."""
        found = response.get("id")
        if type(found) is str and found:
            if self.response_id and found != self.response_id:
                self.note("responses.response-id-changes", *place, f"{self.response_id[:60]} became {found[:60]}")
            self.response_id = self.response_id or found
        if self.count(usage, place):
            self.usage_places.setdefault(where, place)

    def _terminal(self, payload: dict[str, Any], place: Place, events: list[Event], status: str) -> None:
        self.terminal = status
        self.where.setdefault("responses.terminal", place)
        response = payload.get("response")
        found = response if type(response) is dict else payload
        usage = found.get("usage")
        self._response(found, payload.get("usage") if usage is None else usage, "terminal", place)
        if any(type(event) is Error for event in events):
            self.fact("error.beside-content", says_something(events))
            return
        stated = found.get("status")
        if type(stated) is not str:
            self.fact("responses.status", "absent", place)
        elif stated == status:
            self.fact("responses.status", "same", place)
        else:
            self.fact("responses.status", "differs", place)
            self.note("responses.status-differs", *place, f"response.{status}, {stated}")
        if status == "incomplete":
            details = found.get("incomplete_details")
            reason = details.get("reason") if type(details) is dict else details
            self.note("responses.incomplete", *place, as_string(reason) or "no reason")
        self._final(found.get("output"), place, events)

    # -- errors ---------------------------------------------------------------------------------------------------

    def _error(
        self, payload: dict[str, Any], sse: ServerSentEvent, via: str, content: bool, reason: bool, *, beside: bool
    ) -> None:  # fmt: skip
        kind = payload.get("type")
        kind = kind if type(kind) is str else ""
        shown = payload
        if not payload.get("error") and (kind == "error" or kind in TERMINAL):
            # At top level `type` is the event's own, not the error's.
            shown = {name: value for name, value in payload.items() if name != "type"}
        self.terminal = TERMINAL.get(kind, "")
        super()._error(shown, sse, via, content, reason, beside=beside)

    def error_delivery(self, payload: dict[str, Any], delivery: str) -> str:
        return "terminal-event" if self.terminal else delivery

    def nested_error(self, payload: dict[str, Any]) -> Any:
        response = payload.get("response")
        return response.get("error") if type(response) is dict else None

    def whole_call(self, fragment: ToolCall) -> None:
        """Whole in the added event: told as responses.arguments-only-done."""

    # -- the end --------------------------------------------------------------------------------------------------

    def closing(self, message: Message, asked: Asked | None) -> None:
        self.notes.pop("tool.arguments-not-json", None)  # not in this dialect (RULES, section 3)
        self._close_framing()
        self._close_response()
        self._close_items()
        self._close_usage()

    def _close_framing(self) -> None:
        if "sse.events-glued" in self.notes:  # one name for many events says nothing
            self.notes.pop("sse.event-name-differs", None)
        elif self.unnamed is not None and self.tree.get("http", {}).get("status", 200) < 400:
            self.note("sse.event-name-missing", *self.unnamed)

    def _close_response(self) -> None:
        if self.terminal:
            self.fact("end.marker", "present")
        if "marker-after-error" in self.tree["end"]:
            if self.terminal:
                del self.tree["end"]["marker-after-error"]  # the error came in the end marker: nothing is due after it
            else:
                self.fact("end.marker-after-error", self.ended_after_error)
        if not self.first:
            return
        self.fact("responses.created", self.created or "missing")
        self.fact("responses.terminal", self.terminal or "absent")
        if self.final:
            self.fact("responses.final", self.final)
        changes = "responses.response-id-changes" in self.notes
        self.fact("responses.response-id", "changes" if changes else "stable" if self.response_id else "missing")
        if self.unnumbered is not None:
            absent = self.due_number is None
            self.fact("responses.sequence", "absent" if absent else "some", self.unnumbered[0])
            detail = "none at all" if absent else f"not {self.unnumbered[1]}"
            self.note("responses.sequence-missing", *self.unnumbered[0], detail)
        elif self.gap is not None:
            self.fact("responses.sequence", "gaps", self.gap[0])
            self.note("responses.sequence-gaps", *self.gap[0], self.gap[1])
        else:
            self.fact("responses.sequence", "ok")

    def _close_usage(self) -> None:
        self.close_usage()
        if not self.usage_places:
            return
        for where, place in self.usage_places.items():
            self.member("usage.position", where, place)
        first = next(iter(self.usage_places.values()))
        if "terminal" not in self.usage_places:
            self.note("usage.position", *first, "running")
        repeated = len(self.usage_places) > 1
        self.fact("usage.repeated", repeated, first)
        if repeated:
            self.note("usage.repeated", *first, "before the terminal event and in it")


Handler = tuple[Callable[[ResponsesFacts, dict[str, Any], Place, list[Event], Any], None], Any]
HANDLERS: dict[str, Handler] = {
    "response.created": (ResponsesFacts._status, "created"),
    "response.queued": (ResponsesFacts._status, "queued"),
    "response.in_progress": (ResponsesFacts._status, "in_progress"),
    **{name: (ResponsesFacts._terminal, status) for name, status in TERMINAL.items()},
    "response.output_item.added": (ResponsesFacts._added, None),
    "response.output_item.done": (ResponsesFacts._closed, None),
    "response.content_part.added": (ResponsesFacts._part, ("output_text", "added")),
    "response.content_part.done": (ResponsesFacts._part, ("output_text", "done")),
    "response.reasoning_summary_part.added": (ResponsesFacts._part, ("summary_text", "added")),
    "response.reasoning_summary_part.done": (ResponsesFacts._part, ("summary_text", "done")),
    "response.output_text.delta": (ResponsesFacts._delta, TEXT),
    "response.output_text.done": (ResponsesFacts._text_done, TEXT),
    "response.refusal.delta": (ResponsesFacts._delta, REFUSAL),
    "response.refusal.done": (ResponsesFacts._text_done, REFUSAL),
    "response.reasoning_text.delta": (ResponsesFacts._delta, REASONING),
    "response.reasoning_text.done": (ResponsesFacts._text_done, REASONING),
    "response.reasoning_summary_text.delta": (ResponsesFacts._delta, SUMMARY),
    "response.reasoning_summary_text.done": (ResponsesFacts._text_done, SUMMARY),
    "response.function_call_arguments.delta": (ResponsesFacts._call_delta, "function_call"),
    "response.function_call_arguments.done": (ResponsesFacts._call_done, "function_call"),
    "response.custom_tool_call_input.delta": (ResponsesFacts._call_delta, "custom_tool_call"),
    "response.custom_tool_call_input.done": (ResponsesFacts._call_done, "custom_tool_call"),
    "message": (ResponsesFacts._message, None),
}
