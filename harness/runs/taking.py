"""One take: a request sent, its stream kept on disk as it comes, read, and judged: did it exercise its shape?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from harness.bodies import Prepared
from harness.config import Project
from harness.errors import SecretFound
from harness.jsontext import decode
from harness.message import Message
from harness.partial import Partial
from harness.recorder import record
from harness.recording import Recording, Sent, Sidecar
from harness.runs.sending import Allowance
from harness.secrets import masked
from harness.shapes import FinishClass, View, asked_of, exercised, forced, stop_marks
from harness.structure import Reading, read

Say = Callable[[str], object]

_CLASSES: dict[str, FinishClass] = {
    "stop": "stop", "length": "length", "tool_calls": "calls", "content_filter": "filter", "error": "error",
}  # fmt: skip


class Take(msgspec.Struct, kw_only=True):
    """A recording, read. `unmeasured` is why it did not exercise its shape, "" if it did.

    `path` is where its bytes lie, once that is decided.
    """

    recording: Recording
    reading: Reading
    unmeasured: str
    path: Path | None = None

    @property
    def result(self) -> str:
        """ok | error | cut | nothing."""
        return str(self.reading.structure.get("result"))


def reading_of(recording: Recording, dialect: str, shape: str, request: Any, *, baseline_failed: bool = False) -> Take:
    """Read a recording of a shape; `request` is the body that was sent, as decoded JSON (null if unknown)."""
    reading = read(recording, dialect, asked_of(dialect, request))
    view = view_of(reading, recording, dialect, request)
    why = exercised(shape, view, baseline_failed=baseline_failed)
    if why is None and recording.end == "timeout:first-event":
        why = "no event came"
    return Take(recording=recording, reading=reading, unmeasured=why or "")


def view_of(reading: Reading, recording: Recording, dialect: str, request: Any) -> View:
    """The facts that decide whether a shape was exercised."""
    message, structure = reading.message, reading.structure
    stop_in_text, after = stop_marks(dialect, request, message.text)
    media = recording.headers.get("content-type", "")
    return View(
        result=structure.get("result"), status=recording.status,
        json_body="json" in media and "ndjson" not in media,
        finish_class=_CLASSES.get(message.finish_reason or "", "other") if message.finish_reason else None,
        text=message.text, n_calls=len(message.tool_calls), refusal=bool(message.refusal),
        reasoning=bool(message.reasoning), reasoning_tokens=_reasoning_tokens(message, structure.get("usage.details")),
        markup=bool(structure.get("text.markup")), think=bool(structure.get("text.think")),
        stop_in_text=stop_in_text, after_stop_in_text=after, forced=forced(structure.asked),
        stop_named=structure.get("finish.stop-named"),
    )  # fmt: skip


def _reasoning_tokens(message: Message, details: Mapping[str, Any] | None) -> int | None:
    counted = any("reasoning" in name or "thoughts" in name for name in details or ())
    return 1 if counted and message.usage is not None else None


def take(
    project: Project, prepared: Prepared, shape: str, *, baseline_failed: bool = False,
    decide: Callable[[Take], Path | None], allowance: Allowance | None = None,
) -> Take:  # fmt: skip
    """Record one take. `decide` says where a take is kept; null sets it aside under `.harness/failed/`.

    Raises NotMeasured (the allowance is used up), RecordingError (no response), SecretFound, UsageError; what had
    arrived before a break is kept all the same.
    """
    allowance = allowance or Allowance()
    reserved = allowance.send(prepared)
    endpoint = prepared.endpoint
    dialect = endpoint.dialect or "chat"
    sent = sent_of(prepared)
    sidecar = Sidecar(dialect=dialect, shape=shape, request=sent)
    with Partial(project.root, endpoint.provider, shape, secrets=endpoint.secrets, sidecar=sidecar) as partial:
        try:
            recording = record(
                endpoint, concurrent=prepared.concurrent, sink=partial.write, on_end=partial.finish,
                sleep=allowance.sleep, started=allowance.started,
            )  # fmt: skip
        except SecretFound:
            partial.discard()  # also where the key came in a header: nothing of such an answer is kept
            raise
        found = reading_of(recording, dialect, shape, prepared.body, baseline_failed=baseline_failed)
        allowance.answered(prepared, reserved, found.reading.message)
        target = decide(found)
        found.path = partial.keep(target) if target is not None else partial.set_aside()
    return found


def sent_of(prepared: Prepared) -> Sent:
    """The request as the sidecar tells it: without the query, and with every value that may reach no file masked."""
    endpoint = prepared.endpoint
    body = decode(masked(endpoint.body.decode("utf-8", "replace"), endpoint.secrets).encode())
    path = masked(urlsplit(endpoint.url).path, endpoint.secrets)
    return Sent(method=endpoint.method, path=path, body=body, shape_sha256=endpoint.shape_sha256)
