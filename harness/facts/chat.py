"""Facts of a Chat Completions stream: chunks, roles, forms of text and calls, places of finish and usage.

Source: RULES, sections 1 and 3; the documented form is OpenAI's "chat completion chunk object".
"""

from __future__ import annotations

from typing import Any, ClassVar

from harness.asked import Asked
from harness.dialects.base import JSON_TYPES
from harness.dialects.chat import REASONING_NAMES, detail_texts
from harness.events import Event, Text, ToolCall
from harness.facts.base import Place
from harness.facts.forms import ChoiceFacts, ChunkFacts
from harness.facts.marks import created_form, whole_seconds
from harness.growing import Grown
from harness.message import Message
from harness.sse import ServerSentEvent

BASE_COUNTERS = ("prompt_tokens", "completion_tokens", "total_tokens")
FORMS = {type(None): "null", str: "string", list: "list", dict: "object"}


class ChatFacts(ChunkFacts):
    """Watches one chat stream."""

    documented_finish: ClassVar[frozenset[str]] = frozenset(
        {"stop", "length", "tool_calls", "content_filter", "function_call"}
    )
    chunk_object: ClassVar[str] = "chat.completion.chunk"

    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.models: set[str] = set()
        self.object_place: dict[str, Place] = {}
        self.usage_places: dict[str, Place] = {}
        self.usage_values = 0
        self.usage_after_finish = 0
        self.usage_all_zero = True
        self.any_finish = False
        if type(self) is ChatFacts:  # a class made of this one may look at more
            self.forms = {}

    def chunk(self, payload: dict[str, Any], sse: ServerSentEvent, events: list[Event]) -> None:
        place = (sse.at, sse.length)
        choices = payload.get("choices")
        if "choices" not in payload and payload.get("object") != self.chunk_object and not payload.get("usage"):
            return
        self.chunks += 1
        self._identity(payload, place)
        if type(choices) is list:
            self.member("chunk.choices", "list", place)
            if not choices and not payload.get("usage"):
                self.note("chunk.choices-empty", *place)
            if len(choices) > 1:
                self.fact("choice.shared-chunk", True, place)
        elif choices is not None:
            self.member("chunk.choices", "other", place)
        elif "choices" in payload:
            self.member("chunk.choices", "null", place)
            self.note("chunk.choices-null", *place)
        else:
            self.member("chunk.choices", "missing", place)
            self.note("chunk.choices-missing", *place)
        by_choice: dict[int, list[Event]] = {}
        for event in events:
            if type(event) is ToolCall or type(event) is Text:
                by_choice.setdefault(event.choice, []).append(event)
        for position, choice in enumerate(choices if type(choices) is list else ()):
            if type(choice) is not dict:
                self.note("chunk.choice-not-object", *place)
                continue
            number = choice.get("index")
            if type(number) is not int:
                number = position
                self.note("chunk.choice-index-missing", *place)
            facts = self.choices.get(number)
            if facts is None:
                facts = self.choices[number] = ChoiceFacts()
            # Taken once: a million choices in one chunk must not each look at all that the others say.
            mine = by_choice.pop(number, [])
            self._choice(facts, number, choice, [event for event in mine if type(event) is ToolCall], mine, place)
        self._usage(payload, choices, place)

    def _identity(self, payload: dict[str, Any], place: Place) -> None:
        chunk_id = payload.get("id")
        if chunk_id and type(chunk_id) is str:
            if self.ids and chunk_id not in self.ids:
                self.note("chunk.id-changes", *place, f"{next(iter(self.ids))} became {chunk_id}")
            if len(self.ids) < 2:
                self.ids.add(chunk_id)
        else:
            self.note("chunk.id-missing", *place)
        model = payload.get("model")
        if model and type(model) is str:
            if self.models and model not in self.models:
                self.note("chunk.model-changes", *place, model)
            if len(self.models) < 2:
                self.models.add(model)
        if not whole_seconds(payload.get("created", 0)):
            self.note("chunk.created-form", *place, created_form(payload["created"]))
        kind = payload.get("object")
        form = "documented" if kind == self.chunk_object else "other" if kind else "missing"
        self.objects[form] += 1
        self.object_place.setdefault(form, place)

    def _choice(
        self, facts: ChoiceFacts, number: int, choice: dict[str, Any], calls: list[ToolCall], events: list[Event],
        place: Place,
    ) -> None:  # fmt: skip
        delta = choice.get("delta")
        if "delta" not in choice:
            self.member("chunk.delta", "missing", place)
            if not isinstance(choice.get("message"), dict):
                self.note("chunk.delta-missing", *place)
        elif delta is None:
            self.member("chunk.delta", "null", place)
            self.note("chunk.delta-null", *place)
        else:
            self.member("chunk.delta", FORMS.get(type(delta), "other"), place)
        if isinstance(choice.get("message"), dict):
            self.fact("chunk.message", "beside" if delta else "instead", place)
            self.note("chunk.message", *place)
        if choice.get("logprobs"):
            self.logprobs = True
            self.where.setdefault("logprobs", place)
        content = 0
        if type(delta) is dict:
            facts.deltas += 1
            self._delta(facts, number, delta, calls, place)
            content = self._content(facts, number, events, place)
        self._finish(facts, choice, calls, content, place)

    def _delta(
        self, facts: ChoiceFacts, number: int, delta: dict[str, Any], calls: list[ToolCall], place: Place
    ) -> None:  # fmt: skip
        if delta.get("role"):
            if len(facts.roles) < 3:
                facts.roles.append(facts.deltas)
            if len(facts.roles) > 1:
                self.note("role.repeated", *place)
            self.where.setdefault("role.pattern", place)
        elif "role" in delta:
            form = "null" if delta["role"] is None else "empty"
            facts.unset_roles.add(form)
            if facts.roles:
                self.note("role.null", *place, form)
        if facts.deltas == 1:
            first = "absent" if "content" not in delta else FORMS.get(type(delta["content"]), "other")
            self.member("text.first", "empty" if delta.get("content") == "" else first, place)
        if delta.get("content"):
            self.member("text.type", FORMS.get(type(delta["content"]), "other"), place)
        names = [name for name in REASONING_NAMES if delta.get(name)]
        if not names and detail_texts(delta.get("reasoning_details")):  # encrypted, it is nothing a reader could show
            names = ["reasoning_details"]
        for name in names:
            self.member("reasoning.field", name, place)
        if len(names) > 1:
            self.note("reasoning.field", *place, " and ".join(names))
        elif names == ["reasoning_content"]:
            self.note("reasoning.field-extension", *place, names[0])
        elif names:
            self.note("reasoning.field", *place, names[0])
        if "tool_calls" in delta:
            self._calls(facts, delta["tool_calls"], calls, place)
        elif delta.get("function_call"):
            self.member("tool.type", "legacy", place)

    def _content(self, facts: ChoiceFacts, number: int, events: list[Event], place: Place) -> int:
        """How many pieces of text this delta added; watches for snapshots in place of deltas (case 058)."""
        pieces = 0
        for event in events:
            if type(event) is Text and event.choice == number:
                pieces += 1
                text = event.text
                if facts.growing >= 0:
                    if facts.last_text and not (len(text) > len(facts.last_text) and text.startswith(facts.last_text)):
                        facts.growing = -1
                        facts.last_text = ""
                    else:
                        facts.growing += 1
                        facts.last_text = text
                        if facts.growing == 1:
                            self.where.setdefault("text", place)
        return pieces

    def _finish(
        self, facts: ChoiceFacts, choice: dict[str, Any], calls: list[ToolCall], content: int, place: Place
    ) -> None:  # fmt: skip
        reason = choice.get("finish_reason")
        if reason:
            if content:
                where = "with-text"
            elif calls:
                opened = {event.index for event in calls}
                fresh = all(facts.calls[index]["deltas"] == 1 for index in opened if index in facts.calls)
                where = "with-call" if fresh else "with-fragment"
            else:
                where = "alone"
            if facts.finish is None:
                self.member("finish.place", where, place)
                if where in ("with-text", "with-fragment"):
                    self.note("finish.with-content", *place)
            facts.finish = reason if type(reason) is str else "other"
            self.any_finish = True
            return
        if facts.finish is not None and (content or calls):
            self.note("finish.content-after", *place)
        if "finish_reason" not in choice:
            form = "absent"
            self.note("finish.key-absent", *place)
        elif reason is None:
            form = "null"
        else:
            form = "empty"
            self.note("finish.empty-string", *place)
        self.member("finish.unfinished-form", form, place)

    def _calls(self, facts: ChoiceFacts, value: Any, calls: list[ToolCall], place: Place) -> None:
        if not value:
            self.note("tool.list-empty", *place, "null" if value is None else "[]")
            return
        entries = [entry for entry in (value if type(value) is list else [value]) if type(entry) is dict]
        touched: set[int] = set()
        for entry, event in zip(entries, calls, strict=False):
            call = facts.calls.get(event.index)
            fresh = call is None
            if call is None:
                call = facts.calls[event.index] = {"deltas": 0, "id": "", "name": Grown(), "fragments": 0}
                facts.wires.append(event.wire_index)
            if event.index in touched:
                self.note("tool.index-twice-in-delta", *place, f"index {event.wire_index}")
            else:
                call["deltas"] += 1
            touched.add(event.index)
            call["fragments"] += 1
            self._entry(call, entry, fresh, place)

    def _entry(self, call: dict[str, Any], entry: dict[str, Any], fresh: bool, place: Place) -> None:
        body = entry.get("function")
        if type(entry.get("custom")) is dict:
            body = entry["custom"]
            self.note("tool.custom-type", *place)
            self.member("tool.type", "custom", place)
        body = body if type(body) is dict else entry
        index = entry.get("index")
        form = "present" if type(index) is int else "absent" if "index" not in entry else (
            "null" if index is None else "other-type")  # fmt: skip
        self.member("tool.index", form, place)
        self._identity_members(call, entry, body, fresh, place)
        kind = entry.get("type")
        if fresh:
            self.member("tool.type-form", "missing" if "type" not in entry else "present" if kind else "null", place)
        elif kind:
            self.note("tool.type-repeated", *place)
        if "type" in entry and not kind:
            self.note("tool.type-null", *place, "null" if kind is None else '""')
        if kind:
            call["typed"] = True
        if "arguments" in body:
            arguments = body["arguments"]
            self.member("tool.arguments-type", JSON_TYPES.get(type(arguments), "other"), place)
            if arguments is None:
                self.note("tool.arguments-null", *place)
        elif fresh and "input" not in body:
            self.note("tool.arguments-key-absent", *place)

    def _identity_members(
        self, call: dict[str, Any], entry: dict[str, Any], body: dict[str, Any], fresh: bool, place: Place
    ) -> None:  # fmt: skip
        call_id, name = entry.get("id"), body.get("name")
        id_form = _form(entry, "id")
        if fresh:
            self.member("tool.id.first", id_form, place)
            self.member("tool.name.first", _form(body, "name"), place)
        else:
            if id_form == "string":
                id_form = "same" if call_id == call["id"] else "other" if call["id"] else "late"
            self.member("tool.id.later", id_form, place)
            if id_form in ("null", "empty", "same"):
                self.note("tool.id-on-continuation", *place, {"null": "null", "empty": '""'}.get(id_form, "repeated"))
            name_form = _form(body, "name")
            if name_form == "string":
                name_form = "same" if call["name"].equals(name) else "more" if call["name"] else "late"
            self.member("tool.name.later", name_form, place)
            if name_form == "same":
                self.note("tool.name-repeated", *place, str(name))
            elif name_form == "late":
                self.note("tool.name-late", *place, str(name))
            elif name_form in ("null", "empty"):
                self.note("tool.name-on-continuation", *place, {"null": "null", "empty": '""'}[name_form])
        if call_id and not call["id"]:
            call["id"] = call_id
        if type(name) is str:
            call["name"].add_unless_same(name)

    def _usage(self, payload: dict[str, Any], choices: Any, place: Place) -> None:
        where = None
        usage = payload.get("usage")
        if type(usage) is dict and usage:
            listed = choices if type(choices) is list else ()
            finishing = any(type(c) is dict and c.get("finish_reason") for c in listed)
            if finishing:
                where = "finish"
            elif not self.any_finish:
                where = "running"
            elif type(choices) is not list:
                where = "extra:missing"
            else:
                where = "extra:choice" if choices else "extra:empty"
        elif type(payload.get("x_groq")) is dict and payload["x_groq"].get("usage"):
            usage, where = payload["x_groq"]["usage"], "vendor"
        else:
            for choice in choices if type(choices) is list else ():
                if type(choice) is dict and type(choice.get("usage")) is dict and choice["usage"]:
                    usage, where = choice["usage"], "in-choice"
                    self.note("usage.in-choice", *place)
        if where is None or type(usage) is not dict:
            self.usage_null += "usage" in payload
            return
        self.usage_values += 1
        if self.any_finish:
            self.usage_after_finish += 1
        self.usage_places.setdefault(where, place)
        for name, value in usage.items():
            if type(value) is dict:
                for inner in value:
                    self.member("usage.details", f"{name}/{inner}", place)
            elif value is not None:
                self.member("usage.counters" if name in BASE_COUNTERS else "usage.details", name, place)
        self.usage_all_zero = not any(usage.get(name) for name in BASE_COUNTERS)

    def closing(self, message: Message, asked: Asked | None) -> None:
        self._close_chunks()
        self._close_roles()
        self._close_calls()
        self._close_usage(asked)
        for facts in self.choices.values():
            if facts.growing >= 3 and len(facts.last_text) >= 12:
                self.note("text.cumulative", *self.where.get("text", (0, 0)), facts.last_text[:40])

    def _close_chunks(self) -> None:
        if not self.chunks:
            return
        missing = "chunk.id-missing" in self.notes
        state = "changes" if "chunk.id-changes" in self.notes else "stable"
        self.fact("chunk.id", state if not missing else "partly-empty" if self.ids else "missing")
        changes = "chunk.model-changes" in self.notes
        self.fact("chunk.model", "changes" if changes else "stable" if self.models else "missing")
        documented = self.objects["documented"]
        if documented == self.chunks:
            form = "documented"
        else:
            form = "partly" if documented else "other" if self.objects["other"] else "missing"
            odd = self.object_place.get("other") or self.object_place.get("missing") or (0, 0)
            self.note("chunk.object-partly" if documented else "chunk.object", *odd, self.chunk_object)
        self.fact("chunk.object", form)

    def _close_roles(self) -> None:
        order = ("never", "late", "every", "repeated", "first")
        patterns = []
        for number, facts in self.choices.items():
            if not facts.deltas:
                continue
            if not facts.roles:
                pattern = "never"
                self.note("role.missing", *self.where.get("text.first", (0, 0)), f"choice {number}")
            elif facts.roles[0] > 1:
                pattern = "late"
            elif len(facts.roles) > 1:
                # Every delta or only some: a count that a relay may change, so both are one value.
                pattern = "repeated"
            else:
                pattern = "first"
            patterns.append(pattern)
            for form in facts.unset_roles:
                self.member("role.unset-form", form)
        if patterns:
            self.fact("role.pattern", min(patterns, key=order.index))

    def _close_calls(self) -> None:
        for facts in self.choices.values():
            if not facts.calls:
                continue
            numbers = [wire for wire in facts.wires if type(wire) is int]
            place = self.where.get("tool.index", (0, 0))
            if "tool.index-reused" in self.notes:
                numbering = "reused"
            elif len(numbers) < len(facts.wires):
                numbering = "none"
            elif sorted(numbers) == list(range(len(numbers))):
                numbering = "dense"
            else:
                numbering = "offset" if min(numbers) > 0 and len(numbers) == 1 else "sparse"
                self.note("tool.index-sparse", *place, ", ".join(map(str, numbers[:8])))
            self.fact("tool.numbering", numbering, place)
            if not all(call.get("typed") for call in facts.calls.values()) and "tool.type-null" not in self.notes:
                self.note("tool.type-missing", *place)

    def _close_usage(self, asked: Asked | None) -> None:
        present = self.usage_values > 0
        self.fact("usage.present", present)
        if present:
            first = next(iter(self.usage_places.values()))
            for where, place in self.usage_places.items():
                self.member("usage.position", where, place)
            if set(self.usage_places) - {"extra:empty", "in-choice"}:
                odd = next(p for where, p in self.usage_places.items() if where != "extra:empty")
                self.note("usage.position", *odd, ", ".join(self.usage_places))
            if self.chunks < 4:
                repeated: bool | str = "undecided"
            else:
                repeated = "running" in self.usage_places or self.usage_after_finish > 1
            self.fact("usage.repeated", repeated, first)
            if repeated is True:
                self.note("usage.repeated", *first, f"{self.usage_values} values")
            self.fact("usage.zero", self.usage_all_zero, first)
            if self.usage_all_zero:
                self.note("usage.zero", *first)
            if asked is not None and asked.usage is False:
                self.note("usage.unasked", *first)
        elif self.tree.get("result") == "ok" and (
            (asked is not None and asked.usage) or (self.chunks and self.usage_null >= self.chunks)
        ):
            self.note("usage.missing", self.last_at, 0)


def _form(members: dict[str, Any], name: str) -> str:
    if name not in members:
        return "absent"
    value = members[name]
    return "null" if value is None else "empty" if value == "" else "string"
