"""Reports for a terminal. Everything a model or server wrote loses its control characters on the way."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from harness.events import Event, Note, ToolCall
from harness.findings import (
    AcceptanceUse,
    Accepted,
    ClientRun,
    Evidence,
    Finding,
    Outcome,
    Report,
    Severity,
    ShapeResult,
)
from harness.message import Message
from harness.recording import Recording
from harness.reports.once import cutover_once, not_covered_once, says_only_why, unmeasured

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
LONGEST = 2000  # characters shown of an event
BREAKS = 6  # names of client models shown; the report as JSON has them all
HEAD, TAIL = 90, 110  # bytes shown of a place in a body: what opens a payload, and where usage and finish stand


def clean(text: str) -> str:
    """The text with control characters, direction overrides and lone surrogates as visible escapes; LF and TAB stay."""
    return _CONTROLS.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def one_line(text: str) -> str:
    """`clean`, on one line."""
    return clean(text).replace("\n", "\\n").replace("\t", "\\t")


def verbatim(text: str) -> str:
    """`one_line`, each backslash doubled: a line end that was sent, and a backslash before an n, look different."""
    return one_line(text.replace("\\", "\\\\"))


def counted(count: int, word: str) -> str:
    """`1 read`, `2 reads`."""
    return f"{count} {word}{'' if count == 1 else 's'}"


def snippet(body: bytes, at: int, length: int) -> str:
    """The bytes at a place of a body as printable text: the first HEAD and the last TAIL of them."""
    piece = body[at : at + length].strip()
    if len(piece) <= HEAD + TAIL:
        return one_line(piece.decode("utf-8", "replace"))
    head, tail = (part.decode("utf-8", "replace") for part in (piece[:HEAD], piece[-TAIL:]))
    return f"{one_line(head)} ... {one_line(tail)}"


def finding_lines(
    finding: Finding, bodies: dict[tuple[str, int], bytes] | None = None, indent: str = "  ", *, sided: bool = True
) -> Iterator[str]:  # fmt: skip
    """A finding: severity and rule, the sentence, the remedy, and the bytes on both sides if the bodies are given.

    Of one stream alone, where nothing is compared, the places are not `sided`.
    """
    accepted = f" ({dropped_text(finding)})" if finding.dropped_from is not None else ""
    if finding.accepted is not None:
        accepted += f" ({one_line(accepted_text(finding.accepted))})"
    if finding.severity is Severity.COSMETIC:  # passes: a line is enough, the report as JSON has the bytes
        yield f"{indent}cosmetic {finding.rule}{accepted}: {one_line(finding.message)}"
        return
    yield f"{indent}{finding.severity.upper()} {finding.rule}{accepted}"
    yield f"{indent}  {one_line(finding.message)}"
    yield f"{indent}  -> {one_line(finding.remedy)}"
    for evidence in finding.evidence:
        yield from _evidence_lines(evidence, bodies, indent, sided)
    if finding.breaks:
        more = f" and {len(finding.breaks) - BREAKS} more" if len(finding.breaks) > BREAKS else ""
        yield f"{indent}  breaks: {', '.join(finding.breaks[:BREAKS])}{more}"


def _evidence_lines(
    evidence: Evidence, bodies: dict[tuple[str, int], bytes] | None, indent: str, sided: bool
) -> Iterator[str]:  # fmt: skip
    place = f"{evidence.side} at byte {evidence.at}" if sided else f"at byte {evidence.at}"
    body = (bodies or {}).get((evidence.side, evidence.take))
    if body is None:
        yield f"{indent}  {place}"
    else:
        yield f"{indent}  {place}: {snippet(body, evidence.at, evidence.length) or '(nothing there)'}"


def findings_text(
    findings: Sequence[Finding], bodies: dict[tuple[str, int], bytes] | None = None, indent: str = "  ", *,
    sided: bool = True,
) -> str:  # fmt: skip
    """All findings, worst first; a sentence if there is none. `sided` as in `finding_lines`."""
    if not findings:
        return f"{indent}no findings"
    return "\n".join(line for finding in findings for line in finding_lines(finding, bodies, indent, sided=sided))


_MARK = {Outcome.CONFORMS: "ok", Outcome.DIFFERS: "DIFFERS", Outcome.NOT_MEASURED: "not measured",
         Outcome.SKIPPED: "skipped"}  # fmt: skip


def gate_text(report: Report, bodies: dict[str, dict[tuple[str, int], bytes]] | None = None) -> str:
    """The report of a gate: outcome first, accepted fatal findings next, then shape by shape."""
    lines = [*opening_lines(report)]
    alike = {tuple(shapes): reason for reason, shapes in unmeasured(report).items() if len(shapes) > 1}
    for result in report.shapes:
        shapes = next((shapes for shapes in alike if result.shape in shapes), None)
        if shapes is None:
            lines += ["", *shape_lines(result, (bodies or {}).get(result.shape))]
            continue
        if result.shape == shapes[0]:
            lines += ["", f"{', '.join(shapes)}: {_MARK[result.outcome]} ({one_line(alike[shapes])})"]
        if not says_only_why(result):
            lines += ["", *shape_lines(msgspec.structs.replace(result, reason=""), (bodies or {}).get(result.shape))]
    return "\n".join([*lines, *closing_lines(report)])


def opening_lines(report: Report) -> Iterator[str]:
    """The outcome of a gate, and the fatal findings it accepts."""
    yield f"{report.baseline} -> {report.candidate}: {report.outcome.upper()}"
    for result in report.shapes:
        for finding in result.findings:
            if finding.severity is Severity.FATAL and finding.accepted is not None:
                yield (f"  ACCEPTED FATAL {finding.rule} in {result.shape}{one_line(terms(finding.accepted))}: "
                       f"{one_line(finding.accepted.reason)}")  # fmt: skip


def closing_lines(report: Report) -> Iterator[str]:
    """The acceptances that fail a gate, what to re-point at the cutover, and what the gate says nothing about."""
    wrong = [use for use in report.acceptances if use.state != "used"]
    if wrong:
        yield from ("", "acceptances that fail this gate:", *(f"  {acceptance_line(use)}" for use in wrong))
    if report.cutover:
        yield from ("", "at the cutover:", *(f"  {one_line(text)}" for text in cutover_once(report)))
    if report.not_covered:
        yield from ("", "not covered by this gate:", *(f"  {one_line(text)}" for text in not_covered_once(report)))


def acceptance_line(use: AcceptanceUse) -> str:
    """What is wrong with an acceptance that is stale or expired."""
    return f"{use.state} {one_line(use.rule)} ({one_line(scope(use))}): {one_line(acceptance_remedy(use))}"


def acceptance_remedy(use: AcceptanceUse) -> str:
    """Where an acceptance that is stale or expired stands, what is wrong with it, and what to do."""
    last = f"its last day was {use.until}" if use.until else "its date has passed"
    why = f"{last}; give a later until, or delete it" if use.state == "expired" else "it no longer occurs; delete it"
    return f"{use.place}: {why}" if use.place else why


def scope(use: AcceptanceUse) -> str:
    """`text, against openai; owner web team`: what an acceptance is about and who answers for it, as far as known."""
    against = f", against {use.baseline}" if use.baseline else ""
    owner = f"; owner {use.owner}" if use.owner else ""
    return f"{use.shape or 'all shapes'}{against}{owner}"


def terms(accepted: Accepted) -> str:
    """` until 2027-06-30, owner web team`: how long it is tolerated and who answers for it, as far as known."""
    until = f" until {accepted.until}" if accepted.until else ""
    owner = f", owner {accepted.owner}" if accepted.owner else ""
    return until + owner


def accepted_text(accepted: Accepted) -> str:
    """`accepted until 2027-06-30, owner web team: the reason`."""
    return f"accepted{terms(accepted)}: {accepted.reason}"


def shape_lines(result: ShapeResult, bodies: dict[tuple[str, int], bytes] | None) -> Iterator[str]:
    """One shape: its outcome, its findings with the bytes on both sides, what is shared, and remarks."""
    reason = f" ({one_line(result.reason)})" if result.reason else ""
    yield f"{result.shape}: {_MARK[result.outcome]}{reason}"
    for finding in result.findings:
        yield from finding_lines(finding, bodies)
    for run in result.clients:
        yield f"  client {one_line(client_text(run))}"
        yield from (f"    {one_line(line)}" for line in [*run.says, *quirks_failed(run)])
    if result.shared:
        yield f"  shared with the baseline, so not counted: {', '.join(result.shared)}"
    for remark in result.remarks:
        yield f"  remark: {one_line(remark)}"


def dropped_text(finding: Finding) -> str:
    """Why the severity is not that of the rule."""
    return f"{finding.dropped_from}, but the declared clients read it right"


def client_text(run: ClientRun) -> str:
    """`openai-python 3.57.0: right on the baseline, wrong on the candidate`."""
    version = f" {run.version}" if run.version else ""
    return f"{run.name}{version}: {run.baseline} on the baseline, {run.candidate} on the candidate"


def quirks_failed(run: ClientRun) -> Iterator[str]:
    """The quirks of the rules found that it does not read right."""
    return (f"quirk {name}: {outcome}" for name, outcome in run.quirks.items() if outcome not in ("right", "told"))


def message_text(message: Message) -> str:
    """What a stream adds up to, for reading."""
    lines = []
    for choice in message.choices:
        head = f"choice {choice.choice}: " if len(message.choices) > 1 else ""
        lines.append(f"{head}finish: {choice.finish_reason or '(none)'} (sent: {one_line(choice.finish_raw or '-')})")
        for name in ("text", "reasoning", "refusal"):
            value = getattr(choice, name)
            if value:
                lines.append(f"{head}{name}: {verbatim(value)}")
        for call in choice.tool_calls:  # of JSON a line end is no part of a string, so nothing can be mistaken
            lines.append(f"{head}call {call.index}: id {one_line(repr(call.id))} name {one_line(repr(call.name))} "
                         f"arguments {one_line(call.arguments)}")  # fmt: skip
    lines.append(f"terminal: {message.terminal}")
    if message.usage is not None:
        lines.append(f"usage: {message.usage.input_tokens} in, {message.usage.output_tokens} out")
    if message.error is not None:
        fields = ", ".join(f"{key} {verbatim(str(getattr(message.error, key)))}" for key in ("type", "code", "message"))
        lines.append(f"error: {fields}")
    lines += [note_line(note) for note in message.notes]
    return "\n".join(lines)


def note_line(note: Note) -> str:
    """A note on one line."""
    detail = f": {one_line(note.detail)}" if note.detail else ""
    return f"note {note.code} at byte {note.at}{detail}"


def event_line(event: Event) -> str:
    """An event on one line: where, what, and its fields as sent, but for null, false and choice 0.

    Of fragments all are shown, so that the empty-string trap shows at a glance.
    """
    fields = msgspec.structs.asdict(event)
    at, _ = fields.pop("at"), fields.pop("length")
    kind = type(event).__struct_config__.tag
    if isinstance(event, ToolCall):
        shown = {
            "index": event.index, "wire_index": event.wire_index, "id": event.id, "name": event.name,
            "arguments": event.arguments,
        }  # fmt: skip
        if event.choice:
            shown["choice"] = event.choice
    else:
        if fields.get("choice") == 0:
            del fields["choice"]
        shown = {key: value for key, value in fields.items() if value is not None and value is not False}
    text = " ".join(f"{key}={one_line(repr(value))}" for key, value in shown.items())
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]} ..."
    return f"{at:>8} {kind:<9} {text}".rstrip()


def timeline_lines(recording: Recording, events: Iterable[Event]) -> Iterator[str]:
    """Reads with their times and the events each one completed; without reads, one sentence."""
    if not recording.reads:
        yield "no times are known: the recording has no reads (a bare file, or an edited body)"
        return
    waiting = sorted(events, key=lambda event: event.at + event.length)
    start, before, place = 0, 0, 0
    for read in recording.reads:
        count = 0
        while place < len(waiting) and waiting[place].at + waiting[place].length <= read.end:
            place, count = place + 1, count + 1
        gap = (read.microseconds - before) / 1000
        size, ended = read.end - start, counted(count, "event")
        yield f"{read.microseconds / 1000:>10.1f} ms  +{gap:>9.1f} ms  {size:>7} bytes  {ended}"
        start, before = read.end, read.microseconds
    yield f"end: {recording.end}"


def bytes_lines(body: bytes) -> Iterator[str]:
    """The body, a line for each of its lines with the offset in front, every byte visible."""
    at = 0
    for line in body.splitlines(keepends=True):
        yield f"{at:>8}  {line.decode('latin-1').encode('unicode_escape').decode()}"
        at += len(line)
