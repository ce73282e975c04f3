"""Where the severity of a finding is another than its rule's: by code the other severity, and when. Data.

Who decides: the judges for differences (judges.py), the facts of a dialect for notes (facts/).
"""

from __future__ import annotations

from harness.findings import Severity
from harness.rule import C, F, N

VARIES: dict[str, tuple[Severity, str]] = {
    "end.marker-after-error": (F, "the baseline sends the marker after an error, and the candidate does not"),
    "sse.data-not-json": (N, "only events with a name that no dialect knows are not JSON"),
    "sse.event-name-missing": (F, "the dialect is anthropic: official readers skip an event without a name"),
    "tool.id-missing": (F, "the answer has several calls, or is cohere's, whose SDK skips such a call"),
    "chunk.object": (N, "the dialect is completions: no official accumulator looks at it there"),
    "anthropic.message-members": (F, "what is missing or of another type is the content itself"),
    "anthropic.input-in-start": (F, "the input comes in deltas as well, so that there are two"),
    "responses.unknown-event": (C, "its name does not start with `response.`"),
}
