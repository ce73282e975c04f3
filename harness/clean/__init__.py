"""Clean streams: the stream a server without a fault sends for a message, in each dialect's documented form.

For tests: the twin of a faulty stream, or a stream made up on the spot. One file a wire format encodes an Answer
faithfully; `answer.py` says what a message lacks to be one. Ours, like the quirks: no vendor's bytes are copied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from harness.clean.answer import Answer, answer_of, ended_well
from harness.dialects import dialect_named

Encode = Callable[[Answer], bytes]


def clean_stream(dialect: str, expect: Mapping[str, Any], *, well_ended: bool = True) -> bytes:
    """The body of a documented stream that says what `expect` does (the members of a quirk's; all are optional).

    By default what makes the stream of a message odd is mended first, as `harness.clean.well_ended` says: an answer
    that failed, was cut or lacks its finish comes out as if it had ended well after what had come. With
    `well_ended=False` nothing is mended: an error is told the dialect's way, a cut answer just stops.

    Raises UsageError: no such dialect, a value of the wrong type, or something the dialect has no place for (two
    choices in Anthropic's, a refusal in Gemini's, arguments that are no object in Ollama's, half a character).
    """
    dialect_named(dialect)
    answer = answer_of(dialect, expect)
    if well_ended:
        answer = ended_well(dialect, answer)
    encode: Encode = import_module(f"harness.clean.{dialect}").encode
    return encode(answer)


def well_ended(dialect: str, expect: Mapping[str, Any]) -> dict[str, Any]:
    """The message that `clean_stream` says, as an `expect`: what is mended of a message that failed, was cut or is odd.

    - no error; the finish is the one given if it is documented and none of failure, else tool_calls or stop;
    - calls have ids where the dialect ties results by them, and a finish that says calls;
    - arguments that were cut are repaired as for a next request (SEEDS A), but for a finish of length or filter;
    - usage is 1 and 1 where the dialect always owes it; an answer that says nothing at all says "Hello.".

    Raises UsageError as `clean_stream` does.
    """
    dialect_named(dialect)
    return ended_well(dialect, answer_of(dialect, expect)).expect(dialect)
