"""Normalized events, and notes: what a dialect makes of the wire (contract: DESIGN, "Events").

Every event carries its bytes: `length` bytes of the body from byte `at`. `kind` is the msgspec tag and stands in the
JSON form only. Events are made in great number, so they are untracked by the garbage collector (gc=False): they hold
strings, numbers and decoded JSON, never each other.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Start(msgspec.Struct, gc=False, tag_field="kind", tag="start"):
    """The response says who it is. Fields are as sent, null where not."""

    id: str | None
    model: str | None
    role: str | None
    at: int
    length: int


class Text(msgspec.Struct, gc=False, tag_field="kind", tag="text"):
    """A piece of the visible answer. `whole` replaces what was joined before (for the item named by `key`)."""

    choice: int
    text: str
    whole: bool
    at: int
    length: int
    key: str | int | None = None


class Reasoning(msgspec.Struct, gc=False, tag_field="kind", tag="reasoning"):
    """A piece of thinking."""

    choice: int
    text: str
    whole: bool
    at: int
    length: int
    key: str | int | None = None


class Refusal(msgspec.Struct, gc=False, tag_field="kind", tag="refusal"):
    """A piece of a refusal."""

    choice: int
    text: str
    whole: bool
    at: int
    length: int
    key: str | int | None = None


class ToolCall(msgspec.Struct, gc=False, tag_field="kind", tag="tool_call"):
    """A fragment of a call the application must answer.

    `index` is ours (0, 1, 2 ... as in the message; provisional until the end where wire indexes arrive out of order);
    `wire_index`, `id` and `name` are exactly as sent: "" and null are kept apart. `arguments` is this fragment's text.
    `type` is function or custom. `whole` replaces the arguments joined before.
    """

    choice: int
    index: int
    wire_index: Any
    id: str | None
    name: str | None
    arguments: str | None
    whole: bool
    at: int
    length: int
    type: str = "function"


class Item(msgspec.Struct, gc=False, tag_field="kind", tag="item"):
    """Something that is neither text nor a call for the application: a server-side call, a block, a part."""

    choice: int
    item_type: str
    phase: str
    id: str | None
    raw: Any
    at: int
    length: int


class Audio(msgspec.Struct, gc=False, tag_field="kind", tag="audio"):
    """A piece of sound (base64 as sent) or of its transcript."""

    choice: int
    data: str | None
    transcript: str | None
    at: int
    length: int


class Finish(msgspec.Struct, gc=False, tag_field="kind", tag="finish"):
    """Why the answer ended: `reason` is stop, length, tool_calls, content_filter, error or other; `raw` is as sent."""

    choice: int
    reason: str
    raw: str
    at: int
    length: int


class Usage(msgspec.Struct, gc=False, tag_field="kind", tag="usage"):
    """Token counts; each is null where this event does not say. A later value replaces an earlier one."""

    input_tokens: int | None
    output_tokens: int | None
    raw: Any
    at: int
    length: int


class Error(msgspec.Struct, gc=False, tag_field="kind", tag="error"):
    """The server reports a failure. Fields as sent, null where not; `code` may be a number or a string."""

    type: Any
    code: Any
    message: Any
    at: int
    length: int


class End(msgspec.Struct, gc=False, tag_field="kind", tag="end"):
    """The dialect's own end marker, by name."""

    marker: str
    at: int
    length: int


class Ping(msgspec.Struct, gc=False, tag_field="kind", tag="ping"):
    """A heartbeat event."""

    at: int
    length: int


class Unknown(msgspec.Struct, gc=False, tag_field="kind", tag="unknown"):
    """Something no dialect knows. Never dropped silently, never given a meaning."""

    name: str
    raw: Any
    at: int
    length: int


Event = (
    Start | Text | Reasoning | Refusal | ToolCall | Item | Audio | Finish | Usage | Error | End | Ping | Unknown
)  # fmt: skip
KINDS: dict[str, type[Event]] = {
    str(cls.__struct_config__.tag): cls
    for cls in (Start, Text, Reasoning, Refusal, ToolCall, Item, Audio, Finish, Usage, Error, End, Ping, Unknown)
}


class Note(msgspec.Struct, frozen=True, gc=False):
    """Something odd about the wire: a rule code, the bytes it was first seen in, and a detail for the reader."""

    code: str
    at: int
    length: int
    detail: str = ""
