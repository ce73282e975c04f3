"""The terminal's text: what is shown of findings, gates, messages, events, times and bytes, and that it is harmless."""

from __future__ import annotations

import re
from typing import Any

import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st

from harness.events import Audio, End, Error, Event, Finish, Item, Note, Ping, Start, Text, ToolCall, Unknown, Usage
from harness.findings import AcceptanceUse, Accepted, Evidence, Finding, Outcome, Report, Severity, ShapeResult
from harness.message import Call, Choice, Failure, Message, TokenCounts
from harness.recording import Read, Recording
from harness.reduce import events_of
from harness.reports.markdown import code, escape, gate_markdown
from harness.reports.text import (
    HEAD,
    LONGEST,
    TAIL,
    bytes_lines,
    clean,
    event_line,
    finding_lines,
    findings_text,
    gate_text,
    message_text,
    note_line,
    one_line,
    snippet,
    timeline_lines,
)

UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
BODY = b'data: {"a":1}\n\ndata: {"usage":{"b":2}}\n\n'


def finding(rule: str = "usage.position", severity: Severity = Severity.NEGOTIABLE, **fields: Any) -> Finding:
    evidence = [
        Evidence(side="baseline", take=1, at=0, length=14), Evidence(side="candidate", take=1, at=15, length=24),
    ]  # fmt: skip
    given: dict[str, Any] = {"path": "wire.x", "baseline": None, "candidate": True, "message": "it moved",
                             "remedy": "read it there", "evidence": evidence}  # fmt: skip
    return Finding(rule=rule, severity=severity, **{**given, **fields})


# -- what reaches the terminal ------------------------------------------------------------------------------------


@strategies.PROFILE
@given(st.text(st.characters(codec=None)))
def test_clean_leaves_nothing_a_terminal_obeys(text: str) -> None:
    shown = clean(text)
    assert UNSEEN.search(shown) is None
    assert UNSEEN.search(text) is not None or shown == text
    assert not set("\n\t") & set(one_line(text))
    one_line(text).encode()  # no half of a character is left


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb\tc", "a\nb\tc"),
        ("\x1b[2J", "\\x1b[2J"),
        ("\r\x00\x7f\x9b", "\\x0d\\x00\\x7f\\x9b"),
        ("\u202eevil\u2069", "\\u202eevil\\u2069"),
        ("\u2028\ud83d", "\\u2028\\ud83d"),
        ("café 世界 😀 \u200d", "café 世界 😀 \u200d"),
    ],
)
def test_clean_shows_what_it_takes_away(text: str, shown: str) -> None:
    assert clean(text) == shown


def test_one_line_is_one_line() -> None:
    assert one_line("a\nb\tc\r\nd") == "a\\nb\\tc\\x0d\\nd"


def test_snippet() -> None:
    assert snippet(BODY, 0, 14) == 'data: {"a":1}'
    assert snippet(BODY, 13, 2) == ""
    assert snippet(b"\xff\x1b\xc3\xa9", 0, 4) == "\ufffd\\x1bé"
    long = b"<" + b"x" * 500 + b">"
    shown = snippet(long, 0, len(long))
    assert (shown[0], shown[-1], len(shown)) == ("<", ">", HEAD + TAIL + len(" ... "))
    assert snippet(long, 10, HEAD + TAIL) == "x" * (HEAD + TAIL)
    assert snippet(BODY, 10_000, 5) == ""


# -- findings -----------------------------------------------------------------------------------------------------


def test_a_finding_names_rule_sentence_remedy_and_bytes() -> None:
    bodies = {("baseline", 1): BODY, ("candidate", 1): BODY}
    assert list(finding_lines(finding(breaks=["one", "two"]), bodies)) == [
        "  NEGOTIABLE usage.position",
        "    it moved",
        "    -> read it there",
        '    baseline at byte 0: data: {"a":1}',
        '    candidate at byte 15: data: {"usage":{"b":2}}',
        "    breaks: one, two",
    ]
    assert list(finding_lines(finding(severity=Severity.FATAL), {("baseline", 1): b""}, indent=""))[-2:] == [
        "  baseline at byte 0: (nothing there)", "  candidate at byte 15",
    ]  # fmt: skip
    assert list(finding_lines(finding(severity=Severity.COSMETIC), bodies)) == ["  cosmetic usage.position: it moved"]


def test_an_accepted_finding_says_why_and_until_when() -> None:
    for accepted, says in [
        (Accepted(reason="so\nit is", until="2027-06-30"), " (accepted until 2027-06-30: so\\nit is)"),
        (Accepted(reason="so it is"), " (accepted: so it is)"),
        (None, ""),
    ]:
        assert next(finding_lines(finding(accepted=accepted))) == f"  NEGOTIABLE usage.position{says}"
        cosmetic = finding(severity=Severity.COSMETIC, accepted=accepted)
        assert next(finding_lines(cosmetic)) == f"  cosmetic usage.position{says}: it moved"


def test_what_a_server_wrote_is_harmless_in_a_finding() -> None:
    bad = "\x1b[31m\n\u202e"
    one = finding(message=bad, remedy=bad, accepted=Accepted(reason=bad))
    text = findings_text([one], {("baseline", 1): bad.encode()})
    assert UNSEEN.search(text) is None
    assert text.count("\n") == 4


def test_no_findings_is_said() -> None:
    assert findings_text([]) == "  no findings"
    assert findings_text([finding(), finding()]).count("usage.position") == 2


# -- gates --------------------------------------------------------------------------------------------------------


def test_gate_text() -> None:
    accepted = finding("error.envelope", Severity.FATAL, accepted=Accepted(reason="re-pointed", until="2027-06-30"))
    report = Report(
        baseline="old", candidate="new", outcome=Outcome.DIFFERS,
        shapes=[
            ShapeResult(shape="text", outcome=Outcome.CONFORMS),
            ShapeResult(shape="tool-call", outcome=Outcome.DIFFERS, findings=[finding()], shared=["a.b", "c.d"],
                        remarks=["the model made 2 calls; on the baseline 1"]),
            ShapeResult(shape="stop", outcome=Outcome.NOT_MEASURED, reason="HTTP 401\n"),
            ShapeResult(shape="error", outcome=Outcome.CONFORMS, findings=[accepted]),
            ShapeResult(shape="refusal", outcome=Outcome.SKIPPED, reason="not offered"),
        ],
        acceptances=[
            AcceptanceUse(rule="error.envelope", shape="error", state="used"),
            AcceptanceUse(rule="finish.*", shape=None, state="stale"),
            AcceptanceUse(rule="usage.zero", shape="text", state="expired"),
        ],
        not_covered=["shape stop: not measured (HTTP 401\n)"],
    )  # fmt: skip
    text = gate_text(report, {"tool-call": {("baseline", 1): BODY}})
    assert text.splitlines() == [
        "old -> new: DIFFERS",
        "  ACCEPTED FATAL error.envelope in error until 2027-06-30: re-pointed",
        "",
        "text: ok",
        "",
        "tool-call: DIFFERS",
        "  NEGOTIABLE usage.position",
        "    it moved",
        "    -> read it there",
        '    baseline at byte 0: data: {"a":1}',
        "    candidate at byte 15",
        "  shared with the baseline, so not counted: a.b, c.d",
        "  remark: the model made 2 calls; on the baseline 1",
        "",
        "stop: not measured (HTTP 401\\n)",
        "",
        "error: ok",
        "  FATAL error.envelope (accepted until 2027-06-30: re-pointed)",
        "    it moved",
        "    -> read it there",
        "    baseline at byte 0",
        "    candidate at byte 15",
        "",
        "refusal: skipped (not offered)",
        "",
        "acceptances that fail this gate:",
        "  stale finish.* (all shapes): it no longer occurs; delete it",
        "  expired usage.zero (text): its date has passed; give a later until, or delete it",
        "",
        "not covered by this gate:",
        "  shape stop: not measured",
    ]


def test_why_several_shapes_were_not_measured_is_said_once_and_what_else_is_known_of_them_stays() -> None:
    lost = Outcome.NOT_MEASURED
    report = Report(
        baseline="old", candidate="new", outcome=lost,
        shapes=[
            ShapeResult(shape="text", outcome=lost, reason="no server"),
            ShapeResult(shape="stop", outcome=lost, reason="HTTP 500"),
            ShapeResult(shape="error", outcome=lost, reason="no server", remarks=["2 of 3 came"]),
        ],
        cutover=["not exercised: text (no server), stop (HTTP 500), error (no server), refusal. Keep a way back"],
        not_covered=["shape text: not measured (no server)", "shape stop: not measured (HTTP 500)",
                     "shape error: not measured (no server)", "wording"],
    )  # fmt: skip
    assert gate_text(report).splitlines() == [
        "old -> new: NOT-MEASURED", "",
        "text, error: not measured (no server)", "",
        "stop: not measured (HTTP 500)", "",
        "error: not measured", "  remark: 2 of 3 came", "",
        "at the cutover:", "  not exercised: text, stop, error, refusal. Keep a way back", "",
        "not covered by this gate:", "  shapes text, stop, error: not measured", "  wording",
    ]  # fmt: skip
    written = gate_markdown(report)
    assert written.count("no server") == written.count("HTTP 500") == 1
    assert "\n| text | ⚠️ not measured | 0 | 0 | 0 | 0 |\n| stop | ⚠️ not measured (HTTP 500) |" in written
    assert "\n\nNot measured: text, error: no server\n" in written


def test_a_gate_that_conforms_is_short() -> None:
    report = Report(baseline="a", candidate="b", outcome=Outcome.CONFORMS)
    assert gate_text(report) == "a -> b: CONFORMS"


# -- messages, notes, events --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("tool-call: no call came: (none), 1. and {x}!", "tool-call: no call came: (none), 1. and {x}!"),
        ("finish_reason is __x__", r"finish_reason is \_\_x\_\_"),
        ("![a](http://h/b)", r"!\[a\](http\://h/b)"),
        ("<img onerror=x>&lt;", r"\<img onerror=x\>\&lt;"),
        ("*a* `b` ~~c~~ | d \\", r"\*a\* \`b\` \~\~c\~\~ \| d \\"),
        ("costs $5, not $6", r"costs \$5, not \$6"),
        ("@all #1 :tada: www.x.org", r"\@all \#1 \:tada: www\.x.org"),
        ("- a", r"\- a"),
        ("12. a", r"12\. a"),
        ("    indented", "indented"),
        ("a\n# b", r"a\\n\# b"),
    ],
)
def test_markdown_escapes_what_has_a_meaning(text: str, written: str) -> None:
    assert escape(text) == written


@pytest.mark.parametrize(
    ("text", "span"), [("a.b", "`a.b`"), ("`a", "`` `a ``"), ("a``b", "```a``b```"), (" a ", "`  a  `"), ("", "`  `")]
)
def test_code_spans_have_blanks_where_they_must(text: str, span: str) -> None:
    assert code(text) == span


def test_a_backslash_and_a_line_end_in_a_message_look_different() -> None:
    for text, shown in (("back\\slash,\na", r"back\\slash,\na"), (r"a\nb", r"a\\nb"), ("\x1b" + r"\x1b", r"\x1b\\x1b")):
        choice = Choice(choice=0, text=text)
        assert f"text: {shown}" in message_text(Message(choices=[choice])).splitlines()


def test_message_text() -> None:
    choice = Choice(
        choice=0, text="two\nlines", reasoning="hm", refusal="no", finish_reason="tool_calls", finish_raw="tool_calls",
        tool_calls=[Call(index=0, id="", name="get\x1b", arguments='{"a": "\x07"}')],
    )  # fmt: skip
    message = Message(
        text=choice.text, choices=[choice, Choice(choice=1)], terminal="error", notes=[Note("a.b", 7, 1, "d\n")],
        usage=TokenCounts(input_tokens=3, output_tokens=None), error=Failure(type=None, code=500, message="m\r"),
    )  # fmt: skip
    assert message_text(message).splitlines() == [
        "choice 0: finish: tool_calls (sent: tool_calls)",
        "choice 0: text: two\\nlines",
        "choice 0: reasoning: hm",
        "choice 0: refusal: no",
        """choice 0: call 0: id '' name 'get\\x1b' arguments {"a": "\\x07"}""",
        "choice 1: finish: (none) (sent: -)",
        "terminal: error",
        "usage: 3 in, None out",
        "error: type None, code 500, message m\\x0d",
        "note a.b at byte 7: d\\n",
    ]
    assert message_text(Message()) == "terminal: truncated"
    assert note_line(Note("a.b", 7, 1)) == "note a.b at byte 7"


def call(**fields: Any) -> ToolCall:
    given: dict[str, Any] = {"choice": 0, "index": 0, "wire_index": 0, "id": None, "name": None, "arguments": None,
                             "whole": False, "at": 5, "length": 9}  # fmt: skip
    return ToolCall(**{**given, **fields})


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (call(id="call_1", name="f", arguments=""),
         "       5 tool_call index=0 wire_index=0 id='call_1' name='f' arguments=''"),
        (call(id="", name="", arguments="{"), "       5 tool_call index=0 wire_index=0 id='' name='' arguments='{'"),
        (call(choice=2, wire_index=None),
         "       5 tool_call index=0 wire_index=None id=None name=None arguments=None choice=2"),
        (Start(id="x", model=None, role="assistant", at=0, length=1), "       0 start     id='x' role='assistant'"),
        (Text(choice=0, text="", whole=False, at=12345678901, length=1), "12345678901 text      text=''"),
        (Text(choice=1, text="a\n\u202e", whole=True, at=1, length=1),
         "       1 text      choice=1 text='a\\n\\u202e' whole=True"),
        (Finish(choice=0, reason="stop", raw="", at=1, length=1), "       1 finish    reason='stop' raw=''"),
        (Usage(input_tokens=0, output_tokens=None, raw={"a": 0}, at=1, length=1),
         "       1 usage     input_tokens=0 raw={'a': 0}"),
        (Error(type=None, code=0, message="", at=1, length=1), "       1 error     code=0 message=''"),
        (Item(choice=0, item_type="t", phase="p", id=None, raw=[], at=1, length=1),
         "       1 item      item_type='t' phase='p' raw=[]"),
        (Audio(choice=0, data="UklG", transcript=None, at=1, length=1), "       1 audio     data='UklG'"),
        (End(marker="[DONE]", at=1, length=1), "       1 end       marker='[DONE]'"),
        (Ping(at=1, length=1), "       1 ping"),
        (Unknown(name="", raw=None, at=1, length=1), "       1 unknown   name=''"),
    ],
)  # fmt: skip
def test_event_line(event: Event, line: str) -> None:
    assert event_line(event) == line


def test_a_long_event_is_cut_and_says_so() -> None:
    line = event_line(Text(choice=0, text="x" * 10_000, whole=False, at=0, length=1))
    assert line.endswith("xxx ...")
    assert len(line) < LONGEST + 30


@strategies.PROFILE
@given(strategies.bodies())
def test_any_event_of_any_stream_is_one_harmless_line(body: bytes) -> None:
    for event in events_of(body):
        line = event_line(event)
        assert UNSEEN.search(line) is None
        assert not set("\n\t") & set(line)


# -- times and bytes ----------------------------------------------------------------------------------------------


def test_timeline_counts_the_events_that_each_read_completed() -> None:
    reads = [Read(10, 1500), Read(15, 2500), Read(len(BODY), 1_002_500)]
    recording = Recording(body=BODY, reads=reads, end="cut")
    events: list[Event] = [Ping(at=0, length=14), Ping(at=15, length=24), Ping(at=15, length=24)]
    assert list(timeline_lines(recording, events)) == [
        "       1.5 ms  +      1.5 ms       10 bytes  0 events",
        "       2.5 ms  +      1.0 ms        5 bytes  1 event",
        "    1002.5 ms  +   1000.0 ms       25 bytes  2 events",
        "end: cut",
    ]
    (line,) = timeline_lines(Recording(body=BODY), events)
    assert line.startswith("no times are known")


def test_bytes_lines_show_every_byte_with_its_offset() -> None:
    body = b": it's \"a\" \\ b\r\n\rdata: \xff\x1b\xe2\x80\xa8\tx\n\nend"
    assert list(bytes_lines(body)) == [
        "       0  : it's \"a\" \\\\ b\\r\\n",
        "      16  \\r",
        "      17  data: \\xff\\x1b\\xe2\\x80\\xa8\\tx\\n",
        "      31  \\n",
        "      32  end",
    ]
    assert list(bytes_lines(b"")) == []


@strategies.PROFILE
@given(st.binary())
def test_bytes_lines_lose_nothing(body: bytes) -> None:
    lines = [line[10:] for line in bytes_lines(body)]
    assert "".join(lines).encode().decode("unicode_escape").encode("latin-1") == body
    assert all(line.isascii() and line.isprintable() for line in lines)


def test_what_is_shared_is_no_part_of_the_list_above_it_in_markdown() -> None:
    found = Finding(rule="sse.comments", severity=Severity.COSMETIC, path="wire.x", baseline=0, candidate=1,
                    message="m", remedy="r", evidence=[])  # fmt: skip
    shape = ShapeResult(shape="text", outcome=Outcome.CONFORMS, takes=1, findings=[found], shared=["usage.zero"],
                        remarks=["it was slow"])  # fmt: skip
    made = gate_markdown(Report(baseline="a", candidate="b", outcome=Outcome.CONFORMS, shapes=[shape]))
    assert "  → r\n\nShared with the baseline, so not counted: `usage.zero`\n\nRemark: it was slow\n" in made
