"""What a request asked for, as far as it decides what the stream owes: rank 1, plain values."""

from __future__ import annotations

import msgspec


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of a request body. `usage` is null where the dialect has no switch for it; `n` and `max_tokens` 0 if unset.

    `tool_choice`: none | auto | required | named ("" where not given); `tool_name` is the named one.
    """

    tools: tuple[str, ...] = ()
    tool_choice: str = ""
    tool_name: str = ""
    usage: bool | None = None
    n: int = 0
    logprobs: bool = False
    stop: tuple[str, ...] = ()
    json_output: bool = False
    max_tokens: int = 0
    stream: bool = True
