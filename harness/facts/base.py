"""What every dialect's stream has in common as facts, gathered beside the reading (RULES, section 1).

A Facts object watches one stream through the Reducer's observer hooks and holds sets, counters and first places only,
never the stream. `close` turns that into the tree of the wire, the notes that follow from it, and where each was seen.
A fact never depends on wording, on the number of deltas, on ids or times, or on how the bytes were cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from harness.dialects.base import JSON_TYPES
from harness.events import End, Error, Event, Finish, Note, Ping, Text, ToolCall
from harness.facts.marks import ERROR_MEMBERS, MARKUP, SEEN_NOTES, SURROGATE, THINK, StopWatch, error_detail
from harness.findings import Severity
from harness.message import Message, complete_at, first_id, join_arguments, joined_name
from harness.sse import ServerSentEvent
from harness.timing import held_back

if TYPE_CHECKING:
    from harness.asked import Asked
    from harness.recording import Recording
    from harness.reduce import Reducer

Place = tuple[int, int]  # at, length


class Facts:
    """Base: framing, end, result, error, text and call facts. Subclasses add their dialect's own."""

    documented_finish: ClassVar[frozenset[str]] = frozenset()
    documented_endings: ClassVar[frozenset[str]] = frozenset({"lf"})
    due_marker: ClassVar[bool] = True
    stop_means_calls: ClassVar[bool] = False  # a plain stop is the dialect's regular end of a stream with calls
    object_arguments: ClassVar[bool] = False  # arguments travel as JSON objects by design
    usage_always_due: ClassVar[bool] = False
    stops: StopWatch | None = None  # of choice 0, whose text is the message's

    def __init__(self) -> None:
        self.tree: dict[str, Any] = {}
        self.where: dict[str, Place] = {}
        self.notes: dict[str, Note] = {}
        self.grades: dict[str, Severity] = {}
        self.payloads = 0
        self.named = 0
        self.first_end = 0  # where the first payload that is no ping ends in the body
        self.last_at = 0
        self.content_seen = False
        self.reason_seen = False
        self.error_seen = False
        self.calls: dict[tuple[int, int], list[ToolCall]] = {}  # by choice and index; filled by close
        self.reasons: dict[int, list[tuple[str, str]]] = {}  # choice -> (reason, raw) in order
        self.logprobs = False

    def expect(self, asked: Asked | None) -> None:
        """What the request asked for, as far as it must be known while the stream is read."""
        if asked is not None and any(asked.stop):
            self.stops = StopWatch(filter(None, asked.stop))

    # -- observer hooks -------------------------------------------------------------------------------------------

    def payload(self, payload: Any, sse: ServerSentEvent, events: list[Event], via: str) -> None:
        """One decoded payload before the end or an error, with the events it gave."""
        if via in ("data", "glued", "unterminated"):
            self.payloads += 1
            if sse.event:
                self.named += 1
        if not self.first_end and any(type(event) is not Ping for event in events):
            self.first_end = sse.at + sse.length
        self.last_at = sse.at
        before_content, before_reason = self.content_seen, self.reason_seen
        failure: Error | None = None
        for event in events:
            kind = type(event)
            if kind is ToolCall:
                self.content_seen = True
                self._fragment(event)  # type: ignore[arg-type]
            elif kind is Finish:
                self.reason_seen = True
                self._reason(event, sse)  # type: ignore[arg-type]
            elif kind is Error:
                failure = failure or event  # type: ignore[assignment]
            elif kind is End:
                self.where.setdefault("end.marker", (sse.at, sse.length))
            elif kind.__struct_config__.tag in ("text", "reasoning", "refusal", "audio"):
                self.content_seen = True
                text = getattr(event, "text", None)
                if self.stops is not None and kind is Text and not event.choice:  # type: ignore[union-attr]
                    self.stops.add(event, (sse.at, sse.length))  # type: ignore[arg-type]
                if text and not text.isascii() and (SURROGATE.search(text[0]) or SURROGATE.search(text[-1])):
                    self.note("text.split-surrogate", sse.at, sse.length)
        if failure is not None:
            if isinstance(payload, dict):
                self._error(payload, sse, via, before_content, before_reason, beside=len(events) > 1)
            else:
                self._error_text(sse, before_content, before_reason)
        if isinstance(payload, dict) and not (failure is not None and len(events) == 1):
            self.chunk(payload, sse, events)

    def text(self, data: bytes, sse: ServerSentEvent, events: list[Event], via: str) -> None:
        """Data that is no JSON: the end marker, an error as text, or what could not be decoded."""
        if any(type(event) is Error for event in events):
            self._error_text(sse, self.content_seen, self.reason_seen)
        elif events:  # the end marker
            self.where.setdefault("end.marker", (sse.at, sse.length))

    def after(self, data: bytes, sse: ServerSentEvent) -> None:
        """Data after the end or an error."""

    def chunk(self, payload: dict[str, Any], sse: ServerSentEvent, events: list[Event]) -> None:
        """The dialect's own facts of one payload."""

    def closing(self, message: Message, asked: Asked | None) -> None:
        """The dialect's own facts and notes at the end."""

    # -- writing down ---------------------------------------------------------------------------------------------

    def note(self, code: str, at: int, length: int, detail: str = "", severity: Severity | None = None) -> None:
        """Keep the first note of a code; of two severities the worse."""
        if code not in self.notes:
            self.notes[code] = Note(code, at, length, detail)
            if severity is not None:
                self.grades[code] = severity
        elif severity is not None and code in self.grades and severity.rank > self.grades[code].rank:
            self.grades[code] = severity

    def fact(self, path: str, value: Any, place: Place | None = None) -> None:
        """Set the fact at a dotted path; the first place it was seen is kept."""
        *parents, leaf = path.split(".")
        node = self.tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[leaf] = value
        if place is not None:
            self.where.setdefault(path, place)

    def member(self, path: str, value: str, place: Place | None = None) -> None:
        """Add a member to the set at a dotted path (sets are maps to true, so that one more is one line more)."""
        node = self.tree
        for part in path.split("."):
            node = node.setdefault(part, {})
        node[value] = True
        if place is not None:
            self.where.setdefault(f"{path}.{value}", place)
            self.where.setdefault(path, place)

    # -- the common facts -----------------------------------------------------------------------------------------

    def _fragment(self, event: ToolCall) -> None:
        text = event.arguments
        if text and not text.isascii() and (SURROGATE.search(text[0]) or SURROGATE.search(text[-1])):
            self.note("text.split-surrogate", event.at, event.length)

    def _reason(self, event: Finish, sse: ServerSentEvent) -> None:
        reasons = self.reasons.setdefault(event.choice, [])
        reasons.append((event.reason, event.raw))
        self.member("finish.value", event.raw, (sse.at, sse.length))
        if len(reasons) > 1:
            self.note("finish.repeated", sse.at, sse.length, f"{reasons[0][1]}, {event.raw}")
        if event.reason == "error":
            self.note("error.finish-reason", sse.at, sse.length, event.raw)
        elif self.documented_finish and event.raw not in self.documented_finish:
            self.note("finish.unknown-value", sse.at, sse.length, event.raw)

    def _error(
        self, payload: dict[str, Any], sse: ServerSentEvent, via: str, content: bool, reason: bool, *, beside: bool
    ) -> None:
        self.error_seen = True
        place = (sse.at, sse.length)
        delivery = {"field": "field", "bare": "bare", "unterminated": "unterminated"}.get(via, "data")
        if delivery == "data" and sse.event == "error":
            delivery = "event-name"
        self.fact("error.delivery", self.error_delivery(payload, delivery), place)
        self.fact("error.place", "after-finish" if reason else "mid" if content else "first", place)
        self.fact("error.beside-content", beside, place)
        error = payload.get("error") or self.nested_error(payload)
        if isinstance(error, dict):
            envelope, members = "error-object", error
        elif error:
            envelope, members = "error-string", payload
        else:
            envelope, members = "top-level", payload
        self.fact("error.envelope", envelope, place)
        for name in ERROR_MEMBERS:
            if members.get(name) is not None and envelope != "error-string":
                self.member("error.fields", name, place)
        if envelope != "error-string" and members.get("code") is not None:
            self.fact("error.code-type", JSON_TYPES.get(type(members["code"]), "other"), place)

    def _error_text(self, sse: ServerSentEvent, content: bool, reason: bool) -> None:
        self.error_seen = True
        place = (sse.at, sse.length)
        self.fact("error.delivery", "event-name", place)
        self.fact("error.place", "after-finish" if reason else "mid" if content else "first", place)
        self.fact("error.beside-content", False, place)
        self.fact("error.envelope", "text", place)

    def error_delivery(self, payload: dict[str, Any], delivery: str) -> str:
        """How the error was carried; dialects with terminal events say so here."""
        return delivery

    def nested_error(self, payload: dict[str, Any]) -> Any:
        """The error where the dialect nests it deeper than `error`."""
        return None

    # -- the end --------------------------------------------------------------------------------------------------

    def close(self, reducer: Reducer, message: Message, recording: Recording, asked: Asked | None) -> None:
        """All facts and notes of the finished stream."""
        self.calls = {
            (number, index): fragments
            for number, fold in sorted(reducer.fold.choices.items())
            for index, fragments in sorted(fold.calls.items())
        }
        size = len(recording.body)
        tail = (max(0, self.last_at), max(0, size - self.last_at))
        rejected = recording.status is not None and recording.status >= 400
        for note in reducer.notes:
            if not rejected or not note.code.startswith(("sse.", "stream.")):  # the body of a rejection is no stream
                self.note(note.code, note.at, note.length, note.detail)
        if "sse.data-not-json" in self.notes and "sse.data-not-json" in reducer.milder:
            self.grades["sse.data-not-json"] = Severity.NEGOTIABLE
        if not rejected:
            self._framing(reducer)
        self._http(recording)
        result = self._result(reducer, message, recording, size, tail)
        self._channels(message)
        self._tool_facts(message, asked)
        self._finish_notes(reducer, message, asked, tail)
        self._end_notes(reducer, message, recording, result, tail)
        self._asked_notes(message, asked, tail)
        self.closing(message, asked)
        self._timing(recording)
        for code, note in self.notes.items():
            self.member("notes", code, (note.at, note.length))

    def _framing(self, reducer: Reducer) -> None:
        seen = reducer.parser.seen
        if reducer.dialect.framing != "sse":
            if "bom" in seen:
                self.note("sse.bom", *seen["bom"])
            return
        for ending in ("lf", "crlf", "cr"):
            if ending in seen:
                self.member("sse.line-endings", ending, seen[ending])
        self.fact("sse.comments", "comment" in seen, seen.get("comment"))
        self.fact("sse.data-space", "no-space" not in seen, seen.get("no-space"))
        if self.payloads:
            names = "none" if not self.named else "all" if self.named == self.payloads else "some"
            self.fact("sse.event-names", names, seen.get("event-name"))
        for observation, code in SEEN_NOTES.items():
            if observation in seen and observation not in self.documented_endings:
                self.note(code, *seen[observation], observation)

    def _http(self, recording: Recording) -> None:
        if recording.status is not None:
            self.fact("http.status", recording.status)
        media = recording.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media:
            self.fact("http.media-type", media)
        coding = recording.decoded_from or recording.headers.get("content-encoding")
        if coding and coding != "identity":
            self.fact("http.content-encoding", coding)
            self.note("http.content-encoding", 0, 0, coding)
        if media and recording.status in (200, None) and media not in self.media_types():
            self.note("http.media-type", 0, 0, media)
        # What keeps a reverse proxy from holding the stream back (SEEDS, B, "Relay").
        for directive in recording.headers.get("cache-control", "").lower().split(","):
            if directive.strip():
                self.member("http.cache-control", directive.strip())
        if buffering := recording.headers.get("x-accel-buffering", "").strip().lower():
            self.fact("http.x-accel-buffering", buffering)

    def media_types(self) -> tuple[str, ...]:
        """The content types a strict reader of this dialect takes."""
        return ("text/event-stream",)

    def _result(
        self, reducer: Reducer, message: Message, recording: Recording, size: int, tail: Place
    ) -> str:
        rejected = recording.status is not None and recording.status >= 400
        marker = reducer.fold.ended
        carried = self.content_seen or bool(self.calls)
        if message.error is not None or rejected:
            result = "error"
        elif not marker and not reducer.fold.finished:
            result = "cut"
        elif not carried:
            result = "nothing"
        else:
            result = "ok"
        if rejected:
            if "error" not in self.tree:
                self.fact("error.envelope", "text" if size else "none", (0, size))
            self.fact("error.delivery", "status", (0, size))
            for name in ("place", "beside-content"):
                self.tree["error"].pop(name, None)
        elif result == "error":
            self.note("error.in-stream", *self.where.get("error.delivery", tail), error_detail(message))
        self.fact("result", result)
        self.fact("end.state", recording.end if recording.end != "unknown" else "eof")
        due = self.due_marker and not rejected
        self.fact("end.marker", "present" if marker else "absent" if due else "not-due")
        return result

    def _channels(self, message: Message) -> None:
        markup = think = False
        for choice in message.choices:
            markup = markup or bool(MARKUP.search(choice.text))
            think = think or bool(THINK.search(choice.text))
        if any(choice.text for choice in message.choices):
            self.fact("text.markup", markup)
            self.fact("text.think", think)
        if markup:
            self.note("tool.markup-in-text", *self._first("text"))
        if think:
            self.note("reasoning.in-text", *self._first("text"))

    def _first(self, channel: str) -> Place:
        return self.where.get(f"{channel}.first", self.where.get(channel, (0, 0)))

    def _tool_facts(self, message: Message, asked: Asked | None) -> None:
        ids: set[tuple[int, str]] = set()
        limited = {"length", "content_filter", "error"}
        for (choice, _), fragments in self.calls.items():
            first, last = fragments[0], fragments[-1]
            place, end = (first.at, first.length), (last.at, last.length)
            reasons = self.reasons.get(choice, [])
            cut_short = bool(reasons) and reasons[-1][0] in limited
            call_id, name = first_id(fragments), joined_name(fragments)
            if not call_id and "tool.legacy-function-call" not in self.notes and not self.object_arguments:
                several = len(self.calls) > 1
                self.note("tool.id-missing", *place, "", Severity.FATAL if several else Severity.NEGOTIABLE)
            elif call_id and (choice, call_id) in ids:
                self.note("tool.id-duplicate", *place, call_id)
            ids.add((choice, call_id))
            if not name:
                self.note("tool.name-missing", *place)
            arguments, again = join_arguments(fragments)
            if again is not None:
                self.note("tool.arguments-sent-again", again.at, again.length, (again.arguments or "")[:60])
            if first.type == "custom":
                form = "free"
            elif not arguments.strip():
                form = "empty"
                if not cut_short and reasons:
                    self.note("tool.arguments-empty", *place)
            elif complete_at(arguments) is not None and again is None:
                form = "json"
            elif cut_short:
                form = "cut"
            else:
                form = "not-json"
                self.note("tool.arguments-not-json", *end, arguments[-60:])
            self.member("tool.arguments-form", form, place)
            if first.type == "custom":
                continue
            pieces = [fragment for fragment in fragments if fragment.arguments]
            if form == "json":
                # Whole when the fragment that opens the call brings all of it. Later pieces, few or many: pieces.
                whole = len(pieces) == 1 and pieces[0] is first
                self.member("tool.arguments-split", "whole" if whole else "pieces", place)
                if whole:
                    self.whole_call(first)

    def whole_call(self, fragment: ToolCall) -> None:
        """A call came whole in one fragment; dialects where that is the documented form say nothing."""
        self.note("tool.whole-call", fragment.at, fragment.length)

    def _finish_notes(self, reducer: Reducer, message: Message, asked: Asked | None, tail: Place) -> None:
        calls_in = {choice for choice, _ in self.calls}
        named = asked is not None and asked.tool_choice == "named"
        for choice, reasons in self.reasons.items():
            reason, raw = reasons[-1]
            self.member("finish.class", reason, self.where.get(f"finish.value.{raw}"))
            place = self.where.get(f"finish.value.{raw}", tail)
            if choice in calls_in and reason == "stop" and not named and not self.stop_means_calls:
                self.note("finish.stop-with-calls", *place, raw)
            if reason == "tool_calls" and choice not in calls_in:
                self.note("finish.calls-without-call", *place, raw)
        if reducer.fold.ended:
            for found in message.choices:
                if found.choice not in self.reasons:
                    more = f" in choice {found.choice}" if len(message.choices) > 1 else ""
                    self.note("finish.missing", *tail, more)

    def _end_notes(
        self, reducer: Reducer, message: Message, recording: Recording, result: str, tail: Place
    ) -> None:
        stalled = recording.end.startswith("timeout")
        if result != "error" and self.payloads == 0 and not message.choices:
            if reducer.fold.ended or "stream.not-a-stream" in self.notes:
                pass
            elif (alien := self.notes.get("sse.data-not-json")) is not None and not stalled:
                self.note("stream.not-a-stream", alien.at, alien.length, alien.detail)
            else:
                self.note("stream.stalled" if stalled else "stream.empty", 0, len(recording.body))
        elif stalled:
            self.note("stream.stalled", *tail, recording.end)
        elif result == "cut" or recording.end in ("cut", "reset", "protocol-error"):
            self.note("stream.cut", *tail, recording.end)
        classes = {reasons[-1][0] for reasons in self.reasons.values()}
        if result == "nothing" and not classes & {"length", "content_filter"}:
            self.note("stream.no-content", *tail)
        if result in ("ok", "nothing") and self.tree["end"]["marker"] == "absent":
            self.note("end.marker-missing", *tail, (reducer.dialect.marker or b"").decode() or self.end_name())
        if result == "error" and self.tree["error"].get("delivery") != "status":
            self.fact("end.marker-after-error", reducer.fold.ended, self.where.get("end.marker", tail))

    def end_name(self) -> str:
        """How the end marker is called where it is no text of its own."""
        return "the end marker"

    def _asked_notes(self, message: Message, asked: Asked | None, tail: Place) -> None:
        count = len([c for c in message.choices if c.text or c.tool_calls or c.refusal or c.finish_raw or c.reasoning])
        self.fact("choice.count", count)
        for name in ("input", "output"):
            if message.usage is not None and getattr(message.usage, f"{name}_tokens") is not None:
                self.member("usage.base", name)
        self.fact("logprobs", self.logprobs)
        result = self.tree["result"]
        if asked is None or result != "ok":
            return
        if asked.n and count < asked.n:
            self.note("choice.missing", *tail, f"n={asked.n} asked, {count} came")
        if asked.logprobs and not self.logprobs:
            self.note("logprobs.missing", *tail)
        reason = message.finish_reason
        answered = asked.json_output and reason == "stop" and message.text.strip() and not message.tool_calls
        if answered and complete_at(message.text) != len(message.text.rstrip()):
            self.note("structured.not-json", *self._first("text"))
        if reason == "stop" and any(stop and stop in message.text for stop in asked.stop):
            self.note("stop.text-included", *((self.stops and self.stops.place) or self._first("text")))
        used = message.usage.output_tokens if message.usage else None
        if asked.max_tokens and used is not None:
            self.fact("limit.reached", used >= asked.max_tokens)

    def _timing(self, recording: Recording) -> None:
        """Everything in one burst, two seconds or more after the request: something buffers (case 064)."""
        wait = held_back(recording.reads, len(recording.body), self.first_end, self.payloads)
        if wait is not None:
            self.note("timing.one-burst", 0, len(recording.body), f"{wait / 1e6:.1f} s")
