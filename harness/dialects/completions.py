"""OpenAI Completions, the legacy endpoint: text in `choices[].text`, no roles, no calls.

Source: OpenAI API reference, "The completion object" (streamed and whole responses share one shape), as generated into
openai-python 3.57.0, `types/completion.py`. Logprobs are a fact of the structure; no event carries them.
"""

from __future__ import annotations

from typing import Any, ClassVar

from harness.dialects.base import Dialect, as_string, error_event, first_integer, looks_like_error
from harness.dialects.chat import FINISH
from harness.events import Event, Finish, Start, Text, Unknown, Usage
from harness.jsontext import as_text
from harness.sse import ServerSentEvent


class Completions(Dialect):
    """Reads `text_completion` payloads."""

    name: ClassVar[str] = "completions"
    marker: ClassVar[bytes | None] = b"[DONE]"

    def __init__(self) -> None:
        super().__init__()
        self.started = False

    def read(self, payload: Any, sse: ServerSentEvent, out: list[Event]) -> None:
        if type(payload) is not dict:
            self.notes.add("sse.data-not-object", sse.at, sse.length, as_text(payload)[:80])
            return
        at, length = sse.at, sse.length
        choices = payload.get("choices")
        if type(choices) is not list:
            if self._not_a_chunk(payload, sse, out):
                return
            choices = ()
        if not self.started:
            self.started = True
            out.append(Start(as_string(payload.get("id")), as_string(payload.get("model")), None, at, length))
        for position, choice in enumerate(choices):
            if type(choice) is not dict:
                out.append(Unknown("choices[]", choice, at, length))
                continue
            number = choice.get("index")
            if type(number) is not int:
                number = position
            text = choice.get("text")
            if type(text) is str:
                if text:
                    out.append(Text(number, text, False, at, length))
            elif text is not None:
                self.notes.add("text.not-a-string", at, length, f"text is {as_text(text)[:60]}")
                out.append(Unknown("choices[].text", text, at, length))
            for member in ("delta", "message"):  # chat's members, which no reader of this dialect looks at
                if choice.get(member):
                    out.append(Unknown(f"choices[].{member}", choice[member], at, length))
            reason = choice.get("finish_reason")
            if reason:
                raw = reason if type(reason) is str else as_text(reason)
                self.finished = True
                out.append(Finish(number, FINISH.get(raw, "other"), raw, at, length))
            _usage(choice.get("usage"), at, length, out)
            if choice.get("error"):
                self.failed = True
                out.append(error_event(choice, sse))
        _usage(payload.get("usage"), at, length, out)
        if payload.get("error"):
            self.fail(payload, sse, out)

    def after_error(self, payload: Any, sse: ServerSentEvent, out: list[Event]) -> None:
        """Tokens are billed whatever failed, so usage after an error still counts, as in chat."""
        if type(payload) is dict:
            _usage(payload.get("usage"), sse.at, sse.length, out)

    def _not_a_chunk(self, payload: dict[str, Any], sse: ServerSentEvent, out: list[Event]) -> bool:
        """A payload without a list of choices: an error, a chunk all the same (false: read on), or unknown."""
        if looks_like_error(payload):
            _usage(payload.get("usage"), sse.at, sse.length, out)
            self.fail(payload, sse, out)
            return True
        if payload.get("usage") or "choices" in payload or payload.get("object") == "text_completion":
            return False
        name = payload.get("object") or payload.get("type") or sse.event or "payload"
        out.append(Unknown(str(name)[:80], payload, sse.at, sse.length))
        return True


def _usage(usage: Any, at: int, length: int, out: list[Event]) -> None:
    if type(usage) is dict and usage:
        out.append(Usage(
            first_integer(usage, "prompt_tokens", "input_tokens"),
            first_integer(usage, "completion_tokens", "output_tokens"), usage, at, length,
        ))  # fmt: skip
