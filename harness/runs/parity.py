"""`harness gate --parity`: the same request without streaming, and whether both answers say the same.

Meant for requests that a server answers the same way each time; where it does not, temperature and seed can be set
under `request:`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import msgspec

from harness.bodies import Prepared, encoded
from harness.config import Project
from harness.conventions import CONVENTIONS
from harness.errors import NotMeasured, SecretFound
from harness.findings import Evidence, Finding
from harness.jsontext import as_text, same_json
from harness.message import Call, Choice, Message
from harness.partial import FOLDER, Partial
from harness.recorder import record
from harness.recording import Recording, Sidecar
from harness.rules import message_of, rule_of
from harness.runs.sending import Allowance
from harness.runs.taking import Take, sent_of
from harness.whole import message_of_whole

SHOWN = 60  # characters of a text in a finding
LONGEST = 200  # characters of a value in its sentence
# The last part of a path that says how the answer is to come: Gemini's, and what Vertex AI has for others' models.
_WHOLE_PATHS = {":streamGenerateContent": ":generateContent", ":streamRawPredict": ":rawPredict"}
_PLACES = {"text": "text.first", "calls": "tool.index", "finish": "finish.value", "usage": "usage.position"}


def whole_request(prepared: Prepared) -> Prepared:
    """The request with streaming off: another member in the body, or another path. Its answer may take as long."""
    endpoint, body = prepared.endpoint, dict(prepared.body)
    body.pop("stream_options", None)  # refused by OpenAI where nothing is streamed
    convention = CONVENTIONS.get(endpoint.dialect or "")
    if convention is None or convention.stream_member:
        body["stream"] = False
    parts = urlsplit(endpoint.url)
    path, query = parts.path, parts.query
    for streamed, whole in _WHOLE_PATHS.items():
        if path.endswith(streamed):
            path = path.removesuffix(streamed) + whole
            query = urlencode([pair for pair in parse_qsl(query, True) if pair != ("alt", "sse")], quote_via=quote)
    total = endpoint.timeouts.total
    return Prepared(
        endpoint=msgspec.structs.replace(
            endpoint, url=urlunsplit(parts._replace(path=path, query=query)), body=encoded(body),
            headers={**endpoint.headers, "accept": "application/json"}, shape=f"{endpoint.shape}-whole",
            timeouts=msgspec.structs.replace(endpoint.timeouts, first_event=total, idle=total),
        ),
        concurrent=1, body=body, file=prepared.file,
    )  # fmt: skip


def parity(project: Project, prepared: Prepared, streamed: Take, allowance: Allowance) -> list[Finding]:
    """Ask again without streaming; findings where the answers differ.

    The whole answer is kept as `.harness/takes/<provider>/<shape>-whole.sse`. Raises NotMeasured: there is none.
    """
    request = whole_request(prepared)
    try:
        reserved = allowance.send(request)
        recording = _record(project, request, allowance)
        whole = _read(recording, request.endpoint.dialect or "chat")
    except NotMeasured as exc:
        raise NotMeasured(f"parity: {exc}") from exc
    allowance.answered(request, reserved, whole)
    return list(differences(streamed, whole))


def _record(project: Project, request: Prepared, allowance: Allowance) -> Recording:
    endpoint = request.endpoint
    shape = endpoint.shape or ""
    sidecar = Sidecar(dialect=endpoint.dialect, shape=shape, request=sent_of(request))
    with Partial(project.root, endpoint.provider, shape, secrets=endpoint.secrets, sidecar=sidecar) as partial:
        try:
            recording = record(
                endpoint, sink=partial.write, on_end=partial.finish, sleep=allowance.sleep, started=allowance.started
            )
        except SecretFound:
            partial.discard()
            raise
        if recording.end == "eof" and recording.status == 200:
            partial.keep(project.root / FOLDER / "takes" / endpoint.provider / f"{shape}.sse")
    return recording


def _read(recording: Recording, dialect: str) -> Message:
    if recording.status != 200:
        raise NotMeasured(f"HTTP {recording.status} for the request that is not streamed{_why(recording, dialect)}")
    if recording.end != "eof":
        raise NotMeasured(f"the answer that is not streamed ended as {recording.end}")
    try:
        message = message_of_whole(recording.body, dialect)
    except ValueError as exc:
        raise NotMeasured(str(exc)) from None
    if message.error is not None:
        raise NotMeasured(f"the answer that is not streamed is an error: {message.error.message}")
    return message


def _why(recording: Recording, dialect: str) -> str:
    """What the server said to it, if that can be read."""
    try:
        error = message_of_whole(recording.body, dialect).error
    except ValueError:
        return ""
    return f": {error.message}" if error is not None and error.message else ""


def differences(streamed: Take, whole: Message) -> Iterator[Finding]:
    """A finding for each of text, calls, finish and usage that the two answers do not have in common.

    Ids of calls are new with every answer: only whether there is one counts.
    """
    ours, theirs = streamed.reading.message, whole
    texts = [[choice.text for choice in message.choices] for message in (ours, theirs)]
    if texts[0] != texts[1]:
        yield _finding(streamed, "text", *_shown(*("".join(pieces) for pieces in texts)))
    calls = [_calls(message.choices) for message in (ours, theirs)]
    if not _same_calls(*calls):
        yield _finding(streamed, "calls", *([_plain(call) for call in side] for side in calls))
    reasons = [[choice.finish_raw for choice in message.choices] for message in (ours, theirs)]
    if reasons[0] != reasons[1]:
        yield _finding(streamed, "finish", *(side[0] if len(side) == 1 else side for side in reasons))
    if ours.usage != theirs.usage:
        yield _finding(streamed, "usage", *(msgspec.to_builtins(message.usage) for message in (ours, theirs)))


def _calls(choices: Sequence[Choice]) -> list[Call]:
    return [call for choice in choices for call in choice.tool_calls]


def _same_calls(ours: Sequence[Call], theirs: Sequence[Call]) -> bool:
    return len(ours) == len(theirs) and all(
        (one.name, one.type, bool(one.id)) == (other.name, other.type, bool(other.id))
        and same_json(one.arguments, other.arguments)
        for one, other in zip(ours, theirs, strict=True)
    )


def _plain(call: Call) -> dict[str, Any]:
    return {"name": call.name, "arguments": call.arguments, "id": "sent" if call.id else "none"}


def _shown(one: str, other: str) -> tuple[str, str]:
    """Both texts from shortly before their first difference on."""
    same = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    start = max(same - 20, 0) if max(len(one), len(other)) > SHOWN else 0
    return (_cut(one, start), _cut(other, start))


def _cut(text: str, start: int) -> str:
    return f"{'...' if start else ''}{text[start : start + SHOWN]}{'...' if len(text) > start + SHOWN else ''}"


def _finding(streamed: Take, about: str, ours: Any, theirs: Any) -> Finding:
    rule = rule_of(f"parity.{about}")
    structure = streamed.reading.structure
    at, length = structure.where.get(_PLACES[about], (0, structure.size))
    return Finding(
        rule=rule.code, severity=rule.severity, path=f"parity.{about}", baseline=theirs, candidate=ours,
        message=message_of(rule, baseline=_said(theirs), candidate=_said(ours)), remedy=rule.remedy,
        evidence=[Evidence(side="candidate", take=1, at=at, length=length)],
    )  # fmt: skip


def _said(value: Any) -> str:
    """A value in a sentence."""
    text = "none" if value in (None, [], "") else as_text(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
