"""A small recording, for tests of plans, faults and the replay server."""

from __future__ import annotations

from harness.recording import Read, Recording
from harness.steps import Head

EVENTS = [b'data: {"a":1}\n\n', b': ping\n\ndata: {"b":2}\n\n', b"data: [DONE]\n\n"]
BODY = b"".join(EVENTS)
HEAD = Head(200, {"content-type": "text/event-stream"})


def recorded(*ends: int, body: bytes = BODY, end: str = "eof", step: int = 1000) -> Recording:
    reads = [Read(at, (number + 1) * step) for number, at in enumerate(ends)]
    return Recording(body=body, reads=reads, status=200, headers={"content-type": "text/event-stream"}, end=end)
