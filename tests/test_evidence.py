"""What clients prove about a finding: which are known to fail under its rule, and what those declared make of it."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import client_tables
import msgspec
import pytest
import sdk_tables
import yaml
from commandline import Done, harness
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from reading import FIXTURES, ROOT
from servers import Scripted, answer

from harness import __version__
from harness.adapters import SDKS
from harness.adapters.base import Sdk
from harness.adapters.served import SdkTarget, version_of
from harness.answers import Answer
from harness.cases import Case, quirk_cases
from harness.claims import Claims
from harness.clients.evidence import FOLDER, breaks_of, quirks_of
from harness.clients.table import CLIENTS
from harness.config import Provider, load_project
from harness.cutover import Side
from harness.findings import ClientRun, Finding, Outcome, Severity, ShapeResult
from harness.recording import Read, Recording
from harness.reports.text import finding_lines, shape_lines
from harness.rules import lint
from harness.runs import declared
from harness.runs.declared import Client, Clients
from harness.runs.evidence import with_breaks
from harness.structure import structure
from harness.targets import CallableTarget, Trial

TEXT, CALL = ((FIXTURES / "vllm" / f"{shape}.sse").read_bytes() for shape in ("text", "tool-call"))
NO_END = TEXT.replace(b"data: [DONE]\n\n", b"")
CUT = TEXT[:5000].rpartition(b"data: ")[0]
SEEN = ("048-no-done-marker", "056-growing-message-beside-delta")  # the quirks of end.marker-missing in chat


@cache
def cases() -> dict[str, Case]:
    return {case.name: case for case in quirk_cases()}


# -- what is known of quirks and SDKs -----------------------------------------------------------------------------


def test_the_quirks_of_each_rule_are_up_to_date() -> None:
    held = json.loads((FOLDER / "shown_by.json").read_bytes())
    assert held == client_tables.shown_by(cases().values()), "run python tests/client_tables.py"


def test_quirks_of_a_rule_are_those_of_the_dialect() -> None:
    assert quirks_of("end.marker-missing", "anthropic") == ["089-no-message-stop"]
    assert "089-no-message-stop" not in quirks_of("end.marker-missing", "chat")
    assert quirks_of("tool.index-reused", "chat") == ["016-index-zero-for-all-calls"]
    assert quirks_of("tool.index-reused", "gemini") == quirks_of("http.rejected", "chat") == []


def test_what_breaks_is_named_sdks_first() -> None:
    found = breaks_of("tool.index-reused")
    assert found[:2] == ["openai-python 3.57.0", "openai-node 6.49.0"]
    assert "keys-by-index-alone" in found[2:]
    assert breaks_of("no.such-rule") == []
    names = [name for names in sdk_tables.held().values() for name in names]
    assert all(breaks_of(rule) for rule in names)


def test_what_breaks_is_of_the_streams_dialect() -> None:
    chat = breaks_of("end.marker-missing", "chat")
    assert "waits-for-done" in chat
    assert "waits-for-message-stop" not in chat
    # It has the whole answer when it stops; what it calls the end is no harm.
    assert "stops-at-finish" not in breaks_of("end.marker-missing")
    assert breaks_of("end.marker-missing", "anthropic") == ["waits-for-message-stop"]
    assert breaks_of("end.marker-missing", "made-up") == []
    finding = Finding(rule="tool.index-reused", severity=Severity.FATAL, path="", baseline=None, candidate=True,
                      message="", remedy="", evidence=[])  # fmt: skip
    for dialect in ("chat", "gemini"):
        (found,) = with_breaks([finding], dialect)
        assert ("openai-python 3.57.0" in found.breaks) == (dialect == "chat")


def ready(name: str) -> SdkTarget:
    """The SDK, in the version that its entry in sdk_breaks.json is about; else the test is skipped."""
    versions = {held.rpartition(" ")[0]: held.rpartition(" ")[2] for held in sdk_tables.held()}
    if version_of(SDKS[name]) != versions[name]:
        pytest.skip(f"{SDKS[name].package} {versions[name]} is not installed")
    return SdkTarget(SDKS[name])


@pytest.mark.parametrize("name", ["openai-python", "anthropic-python", "httpx-sse", "openai-node", "ai-sdk"])
def test_an_sdk_fails_a_quirk_of_each_rule_that_is_said_to_break_it(name: str) -> None:
    target = ready(name)
    for rule in sdk_tables.held()[sdk_tables.named(target)]:
        quirks = [quirk for dialect in target.sdk.dialects for quirk in quirks_of(rule, dialect)]
        assert any(sdk_tables.fails(target, cases()[quirk]) for quirk in quirks), rule


def test_what_an_sdk_breaks_is_computed_as_for_client_models() -> None:
    """On a sample: the whole takes half a minute."""
    target = ready("openai-python")
    sample = [cases()[name] for name in (
        "001-data-no-space", "016-index-zero-for-all-calls", "021-interleaved-parallel-calls", "048-no-done-marker",
        "068-output-index-shared-message-call",
    )]  # fmt: skip
    assert sdk_tables.sdk_breaks(target, sample) == ["responses.index-shared", "tool.index-reused"]


def test_an_sdk_that_is_wrong_on_the_control_too_proves_nothing() -> None:
    target = ready("openai-python")
    target.run = lambda trial: Answer(state="rejected", reason="it always raises")  # type: ignore[method-assign]
    assert sdk_tables.sdk_breaks(target, [cases()["016-index-zero-for-all-calls"]]) == []


def test_google_genai_breaks_under_no_rule() -> None:
    assert not [name for name in sdk_tables.held() if name.startswith("google-genai")]
    assert {name.rpartition(" ")[0] for name in sdk_tables.held()} == SDKS.keys() - {"google-genai"}


def test_sdk_breaks_is_written_as_it_stands() -> None:
    order = {f"{name} ": position for position, name in enumerate(SDKS)}
    found = sorted(sdk_tables.held().items(), key=lambda item: order[item[0].rpartition(" ")[0] + " "])
    assert sdk_tables.HELD.read_text("utf-8") == sdk_tables.sdk_breaks_json(dict(found))
    assert not CLIENTS.keys() & SDKS.keys()  # so that a bare name in `clients:` means one thing


# -- whether a severity drops -------------------------------------------------------------------------------------


def side(body: bytes, dialect: str = "chat", **changes: Any) -> Side:
    """A stream of a gate. Read in three pieces, with cuts inside a line."""
    reads = [Read(end=end, microseconds=end) for end in (len(body) // 3, 2 * len(body) // 3, len(body))]
    held = {"body": body, "reads": reads, "end": "eof", "status": 200, **changes}
    recording = Recording(**held)
    return Side(recording=recording, structure=structure(recording, dialect))


def client(target: CallableTarget | Callable[..., Any], **claims: Any) -> Client:
    """A callable of the user's own, that claims chat if nothing else is said."""
    if not isinstance(target, CallableTarget):
        target = CallableTarget(target, claims=Claims(**{"dialects": ("chat",), **claims}))
    return Client(name="mine:read", version=None, target=target)


def model(name: str) -> Client:
    return Client(name=name, version=__version__, target=CallableTarget(CLIENTS[name], name))


def weigh(candidate: Side, *clients: Client, baseline: bytes = TEXT) -> tuple[dict[str, Finding], list[ClientRun]]:
    """The findings of lint on the candidate, by rule, after the clients ran; and the runs."""
    findings, runs = Clients(clients).weigh(lint(candidate.structure), side(baseline), candidate)
    return {finding.rule: finding for finding in findings}, runs


def outcomes(run: ClientRun) -> tuple[str, str]:
    return run.baseline, run.candidate


def read(body: Iterable[bytes], dialect: str = "chat") -> dict[str, Any]:
    """A reader of the user's own that is right, as message JSON."""
    found: dict[str, Any] = CLIENTS["right-machine"](body, dialect)
    return found


def test_a_severity_drops_one_step_where_every_client_is_right() -> None:
    found, runs = weigh(side(NO_END), model("right-machine"), client(read), model("right-queries"))
    finding = found["end.marker-missing"]
    assert (finding.severity, finding.dropped_from) == (Severity.NEGOTIABLE, Severity.FATAL)
    assert [(run.name, run.version, *outcomes(run)) for run in runs] == [
        ("right-machine", __version__, "right", "right"), ("mine:read", None, "right", "right"),
        ("right-queries", __version__, "right", "right"),
    ]  # fmt: skip
    assert [run.quirks for run in runs] == [dict.fromkeys(SEEN, "right")] * 3
    assert [run.says for run in runs] == [[], [], []]


@pytest.mark.parametrize(
    ("before", "after"), [("fatal", "negotiable"), ("negotiable", "cosmetic"), ("cosmetic", "cosmetic")]
)
def test_a_drop_is_one_step(before: str, after: str) -> None:
    held = msgspec.structs.replace(lint(side(NO_END).structure)[0], severity=Severity(before))
    (finding,), _ = Clients([model("right-machine")]).weigh([held], side(TEXT), side(NO_END))
    assert finding == msgspec.structs.replace(
        held, severity=Severity(after), dropped_from=Severity(before) if before != after else None
    )


def test_findings_are_in_order_after_a_drop() -> None:
    clients = Clients([model("right-machine")])
    fatal = lint(side(NO_END).structure)[0]
    other = msgspec.structs.replace(fatal, rule="error.envelope")  # no quirk shows it
    findings, _ = clients.weigh([fatal, other], side(TEXT), side(NO_END))
    assert [(finding.rule, str(finding.severity)) for finding in findings] == [
        ("error.envelope", "fatal"), ("end.marker-missing", "negotiable"),
    ]  # fmt: skip


@pytest.mark.parametrize("wrong", ["waits-for-done", "concatenates-text-twice"])
def test_one_client_that_is_wrong_on_this_stream_is_enough(wrong: str) -> None:
    def twice(body: Iterable[bytes], dialect: str = "chat") -> dict[str, Any]:
        message = read(body, dialect)
        long = len(message["text"]) > 100  # the quirks are short
        return {**message, "text": message["text"] * 2} if long else message

    other = model(wrong) if wrong in CLIENTS else client(twice)
    found, runs = weigh(side(NO_END), model("right-machine"), other)
    assert (found["end.marker-missing"].severity, found["end.marker-missing"].dropped_from) == (Severity.FATAL, None)
    assert outcomes(runs[0]) == ("right", "right")
    assert runs[1].candidate == ("raised" if wrong in CLIENTS else "wrong")
    assert runs[1].says[-1].startswith("candidate: ")


def test_a_client_that_is_wrong_on_the_rules_quirk_keeps_the_severity() -> None:
    found, runs = weigh(side(NO_END), model("adds-message-copy"))  # this stream has no copies, quirk 056 has
    assert found["end.marker-missing"].dropped_from is None
    assert outcomes(runs[0]) == ("right", "right")
    assert runs[0].quirks == {SEEN[0]: "right", SEEN[1]: "wrong"}


def test_a_quirk_is_read_byte_by_byte_too() -> None:
    def in_pieces(body: Iterable[bytes], dialect: str = "chat") -> dict[str, Any]:
        held = list(body)
        if len(held) > 10:
            raise ValueError("too many pieces")
        return read(held, dialect)

    found, runs = weigh(side(NO_END), client(in_pieces))
    assert found["end.marker-missing"].dropped_from is None
    assert outcomes(runs[0]) == ("right", "right")
    assert set(runs[0].quirks.values()) == {"raised"}


def test_a_stream_is_read_whole_and_as_it_was_recorded() -> None:
    seen: list[int] = []

    def one_piece_only(body: Iterable[bytes], dialect: str = "chat") -> dict[str, Any]:
        held = list(body)
        seen.append(len(held))
        if len(held) == 3:  # as the stream was recorded
            raise ValueError("cut")
        return read(held, dialect)

    found, runs = weigh(side(NO_END), client(one_piece_only))
    assert found["end.marker-missing"].dropped_from is None
    assert outcomes(runs[0]) == ("raised", "raised")
    said = [text.partition(" at ")[0] for text in runs[0].says]  # and the line that raised
    assert said == ["baseline: ValueError: cut", "candidate: ValueError: cut"]
    assert seen.count(3) == 2


def test_a_rule_without_a_quirk_in_the_dialect_never_drops() -> None:
    anthropic = (FIXTURES / "vllm-anthropic" / "text.sse").read_bytes()
    body = anthropic.replace(b"\n\n", b"\n\n: ping\n\n", 1).replace(b'"input_tokens"', b'"input_tokenz"')
    candidate = side(body, "anthropic")
    own = client(read, dialects=("chat", "anthropic"))
    grave = [finding for finding in lint(candidate.structure) if finding.severity is not Severity.COSMETIC]
    finding = lint(side(NO_END).structure)[0]
    for rule in ("http.rejected", "tool.index-reused", *(one.rule for one in grave)):
        assert quirks_of(rule, "anthropic") == []
        changed = msgspec.structs.replace(finding, rule=rule)
        (weighed,), runs = Clients([own]).weigh([changed], side(TEXT), candidate)
        assert (weighed, runs[0].candidate, runs[0].quirks) == (changed, "right", {})


def test_what_is_about_times_is_not_proven_by_a_run_without_them() -> None:
    (case,) = [case for name, case in cases().items() if name.startswith("064")]
    held = structure(case.recording, "chat")
    findings, runs = Clients([model("right-machine")]).weigh(
        lint(held), side(TEXT), Side(recording=case.recording, structure=held)
    )
    assert [(finding.rule, finding.dropped_from) for finding in findings] == [("timing.one-burst", None)]
    assert (runs[0].candidate, runs[0].quirks) == ("right", {})


@pytest.mark.parametrize(
    ("own", "candidate", "says"),
    [
        (client(read, dialects=("anthropic",)), side(NO_END), "candidate: dialect chat is not claimed"),
        (client(read, features=("usage",)), side(CALL.replace(b"data: [DONE]\n\n", b"")),
         "candidate: needs tool_calls, which is not claimed"),
        (client(read), side(b'{"error": {"message": "no"}}', status=400),
         "candidate: status 400 with a body that is no stream: the target sees bodies only"),
    ],
)  # fmt: skip
def test_a_client_that_did_not_run_keeps_the_severity(own: Client, candidate: Side, says: str) -> None:
    finding = lint(side(NO_END).structure)[0]
    (weighed,), runs = Clients([model("right-machine"), own]).weigh([finding], side(TEXT), candidate)
    assert weighed == finding
    assert (runs[1].candidate, runs[1].says[-1]) == ("skipped", says)


def test_a_client_that_breaks_or_cannot_be_started_keeps_the_severity() -> None:
    class NoServer(CallableTarget):
        def run(self, trial: Trial) -> Answer:
            raise OSError("no more sockets")

    def broken(body: Iterable[bytes]) -> None:
        return None

    for one in (client(broken), client(NoServer(read, claims=Claims(dialects=("chat",), features=("usage",))))):
        found, runs = weigh(side(NO_END), one)
        assert found["end.marker-missing"].dropped_from is None
        assert outcomes(runs[0]) == ("broke", "broke")
        assert set(runs[0].quirks.values()) == {"broke"}
    assert runs[0].says[0] == "baseline: it could not be run: no more sockets"


def test_a_client_that_hangs_is_not_waited_for_again_and_again() -> None:
    seen: list[str] = []

    def hangs(body: Iterable[bytes], dialect: str = "chat") -> None:
        seen.append(dialect)
        while True:
            pass

    own = client(CallableTarget(hangs, claims=Claims(dialects=("chat",), features=("usage",)), timeout=0.05))
    found, runs = weigh(side(NO_END), own)
    assert found["end.marker-missing"].dropped_from is None
    assert outcomes(runs[0]) == ("hung", "hung")
    assert len(seen) == 4  # both streams and both quirks, once each


def test_what_a_client_made_of_the_baseline_is_told_and_decides_nothing() -> None:
    def chokes_on_done(body: Iterable[bytes], dialect: str = "chat") -> dict[str, Any]:
        held = b"".join(body)
        if b"[DONE]" in held:
            raise ValueError("Expecting value")
        return read([held], dialect)

    found, runs = weigh(side(NO_END), client(chokes_on_done, features=("usage", "finish_reason")))
    assert outcomes(runs[0]) == ("raised", "right")
    assert [text.partition(" at ")[0] for text in runs[0].says] == ["baseline: ValueError: Expecting value"]
    assert found["end.marker-missing"].dropped_from is Severity.FATAL


def test_on_a_failed_stream_right_is_being_told() -> None:
    found, runs = weigh(side(CUT), model("right-machine"))
    assert (found["stream.cut"].severity, runs[0].candidate) == (Severity.NEGOTIABLE, "told")
    assert set(runs[0].quirks.values()) == {"told"}
    found, runs = weigh(side(CUT), model("right-machine"), model("eof-is-whole"))
    assert (found["stream.cut"].severity, runs[1].candidate) == (Severity.FATAL, "accepted-truncation")
    failure = b'data: {"error": {"message": "m", "type": "t", "code": 500}}\n\ndata: [DONE]\n\n'
    found, runs = weigh(side(CUT + failure), model("right-machine"))
    assert (found["error.in-stream"].dropped_from, runs[0].candidate) == (Severity.FATAL, "told")
    found, runs = weigh(side(CUT + failure), model("ignores-errors"))
    assert found["error.in-stream"].dropped_from is None
    assert runs[0].candidate.startswith("accepted-")


def test_being_right_says_nothing_about_what_the_answers_do_not_show() -> None:
    def assistant(body: Iterable[bytes], dialect: str = "chat") -> dict[str, Any]:
        message = read(body, dialect)
        told = {key: message[key] for key in ("terminal", "error")}
        calls = [{"id": call["id"], "function": call} for call in message["tool_calls"]]
        return {"role": "assistant", "content": message["text"], "tool_calls": calls, **told}

    finding = msgspec.structs.replace(lint(side(NO_END).structure)[0], rule="usage.position")
    for own, dropped in ((assistant, None), (read, Severity.FATAL)):
        (weighed,), runs = Clients([client(own)]).weigh([finding], side(TEXT), side(TEXT))
        assert (outcomes(runs[0]), runs[0].quirks) == (("right", "right"), {"041-usage-on-finish-chunk": "right"})
        assert weighed.dropped_from is dropped
        why = "usage.position: being right says nothing about it, as the answers show no usage"
        assert runs[0].says == ([] if dropped else [why])


def test_features_of_a_callable_that_declares_none_are_those_it_shows() -> None:
    """As for `check`: what it never gives is no difference."""

    def little(body: Iterable[bytes], dialect: str = "chat") -> dict[str, Any]:
        message = read(body, dialect)
        return {key: message[key] for key in ("text", "tool_calls", "terminal")}

    found, runs = weigh(side(NO_END), client(little))
    assert (outcomes(runs[0]), found["end.marker-missing"].dropped_from) == (("right", "right"), Severity.FATAL)


def test_a_quirk_is_asked_once_for_a_whole_run() -> None:
    seen: list[int] = []

    def counted(body: Iterable[bytes], dialect: str = "chat") -> dict[str, Any]:
        held = list(body)
        seen.append(len(held))
        return read(held, dialect)

    clients = Clients([client(counted, features=("usage", "finish_reason", "terminal"))])
    held = lint(side(NO_END).structure)
    for _ in range(3):
        clients.weigh(held, side(TEXT), side(NO_END))
    assert len(seen) == 3 * 2 * 2 + len(SEEN) * 2  # streams whole and in pieces; quirks whole and byte by byte


# -- a whole gate -------------------------------------------------------------------------------------------------

OWN = """
from harness.reduce import Reducer

def accumulate(body, dialect="chat"):
    reducer = Reducer(dialect)
    for piece in body:
        reducer.feed(piece)
    reducer.finish()
    return reducer.message()

def chat_only(body):
    return accumulate(body)

chat_only.dialects = ("chat",)
NUMBER = 7
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with the baseline `vllm`, the candidate's takes under `cand`, and a module `reader`; we stand in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])  # the folder of a callable is put in front
    for name in ("evidence_reader", "evidence_beside", "evidence_hostile"):
        sys.modules.pop(name, None)
    shutil.copytree(FIXTURES / "vllm", tmp_path / "fixtures" / "vllm")
    (tmp_path / "fixtures" / "cand").mkdir()
    (tmp_path / "fixtures" / "cand" / "text.sse").write_bytes(NO_END)
    (tmp_path / "evidence_reader.py").write_text(OWN, "utf-8")
    return tmp_path


def configure(folder: Path, clients: Sequence[object], **fields: Any) -> None:
    entry = {"dialect": "chat", "base_url": "http://127.0.0.1:9/v1", "model": "m", "auth": "none", **fields}
    text = yaml.safe_dump({"providers": {"cand": {**entry, "clients": list(clients)}}})
    (folder / "providers.yaml").write_text(text, "utf-8")


def gate(*arguments: object) -> Done:
    return harness("gate", "vllm", "cand", "--recorded", "--shape", "text", *arguments)


def shape_of(done: Done) -> dict[str, Any]:
    (shape,) = done.one["shapes"]
    schema = json.loads((ROOT / "docs" / "schema" / "gate-report.schema.json").read_bytes())
    assert list(Draft202012Validator(schema).iter_errors(done.one)) == []
    found: dict[str, Any] = shape
    return found


def test_without_declared_clients_nothing_runs_and_nothing_drops(folder: Path) -> None:
    configure(folder, [])
    shape = shape_of(gate("--json"))
    assert shape["clients"] == []
    assert [(one["rule"], one["severity"], one["dropped_from"]) for one in shape["findings"]] == [
        ("end.marker-missing", "fatal", None)
    ]


def test_an_acceptance_is_of_the_severity_after_the_drop(folder: Path) -> None:
    entry = {"rule": "end.marker-missing", "reason": "we stop at the finish reason"}
    configure(folder, ["right-machine"], accept=[entry])
    done = gate("--json")
    assert (done.code, done.one["outcome"]) == (0, "conforms")
    (finding,) = shape_of(done)["findings"]
    assert (finding["severity"], finding["dropped_from"]) == ("negotiable", "fatal")
    assert finding["accepted"]["reason"] == entry["reason"]
    configure(folder, ["right-machine", "waits-for-done"], accept=[entry])
    assert gate().code == 1
    configure(folder, ["right-machine"])
    assert gate().failed(1) == "harness: vllm -> cand: text differs (end.marker-missing)"


def test_every_form_of_the_report_has_the_clients_and_the_drop(folder: Path) -> None:
    configure(folder, ["right-machine", "evidence_reader:accumulate"])
    done = gate("--report", "a.md", "--report", "a.html", "--report", "a.xml", "--report", "a.json")
    line = f"right-machine {__version__}: right on the baseline, right on the candidate"
    assert f"\n  client {line}\n" in done.out
    assert "\n  client evidence_reader:accumulate: right on the baseline, right on the candidate\n" in done.out
    assert "\n  NEGOTIABLE end.marker-missing (fatal, but the declared clients read it right)\n" in done.out
    markdown, page, junit = ((folder / f"a.{form}").read_text("utf-8") for form in ("md", "html", "xml"))
    assert "\n- client right-machine" in markdown
    assert "`end.marker-missing` (fatal, but the declared clients read it right)" in markdown
    assert line in page
    assert "fatal, but the declared clients read it right." in page
    assert "(fatal, but the declared clients read it right)" in junit
    configure(folder, ["waits-for-done"])
    done = gate("--report", "b.md", "--report", "b.html")
    for text in (done.out, (folder / "b.md").read_text("utf-8"), (folder / "b.html").read_text("utf-8")):
        plain = text.replace("\\", "")
        assert f"waits-for-done {__version__}: right on the baseline, raised on the candidate" in plain
        assert "candidate: TimeoutError: the stream has not ended" in plain
        assert "quirk 048-no-done-marker: raised" in plain
        assert "declared clients read it right" not in plain


def test_a_hostile_stream_reaches_no_report_unescaped(folder: Path) -> None:
    evil = TEXT.replace(b'"content":"', b'"content":"<script>\\u001b[31m|`x`', 1)
    (folder / "fixtures" / "cand" / "text.sse").write_bytes(evil)
    configure(folder, ["evidence_hostile:broken"])
    (folder / "evidence_hostile.py").write_text(
        "def broken(body):\n    raise ValueError('<script>\\x1b[31m|`x`\\n# h')\n", "utf-8"
    )
    done = gate("--report", "a.md", "--report", "a.html")
    assert "\x1b" not in done.out
    assert "\\x1b[31m" in done.out
    for form in ("md", "html"):
        text = (folder / f"a.{form}").read_text("utf-8")
        assert "\x1b" not in text
        assert "<script>\\" not in text


@pytest.mark.skipif(version_of(SDKS["openai-python"]) is None, reason="openai is not installed")
def test_the_openai_sdk_as_a_declared_client_is_started_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    started: list[str] = []

    class Counted(SdkTarget):
        def __init__(self, sdk: Sdk, **more: Any) -> None:
            started.append(sdk.name)
            super().__init__(sdk, **more)

    monkeypatch.setattr("harness.adapters.served.SdkTarget", Counted)
    version = version_of(SDKS["openai-python"])
    (folder / "fixtures" / "cand" / "tool-call.sse").write_bytes(
        CALL.replace(b'"type":"function","index":0', b'"type":"function","index":1')
        .replace(b'{"index":0,"function"', b'{"index":1,"function"')
    )  # fmt: skip
    configure(folder, ["openai-python"])
    done = harness("gate", "vllm", "cand", "--recorded", "--json", "--shape", "text", "--shape", "tool-call")
    assert started == ["openai-python"]
    text, call = done.one["shapes"]
    run = {"name": "openai-python", "version": version, "baseline": "right", "candidate": "right"}
    assert text["clients"] == [{**run, "quirks": dict.fromkeys(SEEN, "right"), "says": []}]
    assert text["findings"][0]["dropped_from"] == "fatal"
    assert call["clients"][0]["candidate"] == "raised"
    assert call["clients"][0]["says"][0].startswith("candidate: IndexError")
    assert [(one["rule"], one["dropped_from"]) for one in call["findings"] if one["severity"] != "cosmetic"] == [
        ("tool.index-sparse", None)
    ]
    assert f"client openai-python {version}: right on the baseline, right on the candidate" in gate().out


def test_a_gate_over_a_socket_asks_the_clients_about_what_came(folder: Path) -> None:
    with Scripted(answer(NO_END)) as server:
        configure(folder, ["right-queries"], base_url=server.url)
        done = harness("gate", "vllm", "cand", "--shape", "text", "--json")
    shape = shape_of(done)
    assert shape["findings"][0]["dropped_from"] == "fatal"
    assert shape["clients"][0]["candidate"] == "right"
    with Scripted(answer(b"", 500)) as server:
        configure(folder, ["right-queries"], base_url=server.url)
        done = harness("gate", "vllm", "cand", "--shape", "text", "--json")
    shape = shape_of(done)
    assert (shape["outcome"], shape["clients"]) == ("not-measured", [])


SDK_LIST = ", ".join(SDKS)


@pytest.mark.parametrize(
    ("clients", "key", "says"),
    [
        (["opnai-python"], 0, f"no client 'opnai-python'; did you mean 'openai-python'? there are the SDKs {SDK_LIST}"),
        (["right-machine", "keys-by-di"], 1, "no client 'keys-by-di'; did you mean 'keys-by-id'?"),
        (["sdk:opnai-python"], 0, "target sdk:opnai-python: not known; did you mean 'openai-python'?"),
        (["client:nobody-knows-this"], 0, "target client:nobody-knows-this: not known; "),
        (["evidence_reader:acumulate"], 0, "evidence_reader has no 'acumulate'; did you mean 'accumulate'?"),
        (["no_such_module:read"], 0, "no module 'no_such_module' in "),
        (["evidence_reader:NUMBER"], 0, "NUMBER is of type int; "),
        (["keys-by-id", "client:keys-by-id"], 1, "'client:keys-by-id' is declared already, as 'keys-by-id'; keep one"),
        (["anthropic-python"], 0, "anthropic-python does not read chat, so it cannot run; it reads anthropic; "),
        (["block-index-as-position"], 0, "block-index-as-position does not read chat, so it cannot run"),
    ],
)  # fmt: skip
def test_a_client_that_cannot_run_is_told_before_anything_is_sent(
    folder: Path, clients: list[str], key: int, says: str
) -> None:
    if "anthropic-python" in clients and version_of(SDKS["anthropic-python"]) is None:
        pytest.skip("anthropic is not installed")
    with Scripted(answer(TEXT)) as server:
        configure(folder, clients, base_url=server.url)
        for done in (harness("gate", "vllm", "cand"), gate()):
            line = done.failed(2)
            assert line.startswith(f"harness: providers.yaml: providers.cand.clients[{key}]: ")
            assert says in line
        assert server.requests == []


def test_a_client_of_another_dialect_is_refused_for_a_callable_too(folder: Path) -> None:
    configure(folder, ["evidence_reader:chat_only"], dialect="anthropic")
    assert "evidence_reader:chat_only does not read anthropic" in gate().failed(2)
    configure(folder, ["evidence_reader:accumulate"], dialect="anthropic")  # declares none: it is taken at its word
    shape = shape_of(gate("--json"))
    assert shape["clients"][0]["candidate"] == "skipped"  # the takes under fixtures/cand are of chat


def test_an_sdk_that_is_not_installed_is_told_with_its_extra(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Sdk(name="made", package="no-such-package-here", language="python", module="openai_python",
               dialects=("chat",), features=(), drives="")  # fmt: skip
    monkeypatch.setitem(SDKS, "made", made)
    for name in ("made", "sdk:made"):
        configure(folder, [name])
        assert gate().failed(2) == (
            "harness: providers.yaml: providers.cand.clients[0]: sdk:made: no-such-package-here is not installed; "
            "install it with `pip install '.[sdk]'` in a checkout of sse-harness"
        )


def test_a_callable_is_found_beside_providers_yaml(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "evidence_reader.py").rename(folder / "evidence_beside.py")
    configure(folder, ["evidence_beside:accumulate"])
    (folder / "deep").mkdir()
    monkeypatch.chdir(folder / "deep")
    assert "client evidence_beside:accumulate: right" in gate().out


def test_the_pytest_plugin_runs_them_and_starts_them_once(
    pytester: pytest.Pytester, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    started: list[str] = []
    start = declared.declared

    def counted(provider: Provider) -> Clients | None:
        started.append(provider.name)
        return start(provider)

    monkeypatch.setattr(declared, "declared", counted)
    (folder / "fixtures" / "cand" / "stop.sse").write_bytes((FIXTURES / "vllm" / "stop.sse").read_bytes())
    configure(folder, ["right-machine", "waits-for-done"])
    arguments = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:anyio", "-W", "default",
                 "--rootdir", str(folder), "--harness-baseline", "vllm", "--harness-candidate", "cand",
                 "--harness-recorded", "--harness-shape", "text", "--harness-shape", "stop",
                 "--harness-config", str(folder / "providers.yaml"))  # fmt: skip
    result = pytester.runpytest_inprocess(*arguments)
    assert result.ret == 1
    assert started == ["cand"]
    said = result.stdout.str()
    assert f"client waits-for-done {__version__}: right on the baseline, raised on the candidate" in said
    assert "FATAL end.marker-missing" in said
    configure(folder, ["right-machin"])
    result = pytester.runpytest_inprocess(*arguments)
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*providers.cand.clients[[]0]: no client 'right-machin'; did you mean*"])


# -- the page for users -------------------------------------------------------------------------------------------

PAGE = (ROOT / "docs" / "evidence.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    return [text for name, text in found if name == language]


def test_the_entry_on_the_page_is_one(folder: Path) -> None:
    (text,) = blocks("yaml")
    (folder / "providers.yaml").write_text(text, "utf-8")
    (folder / "my_app").mkdir()
    (folder / "my_app" / "streams.py").write_text(OWN, "utf-8")
    (provider,) = load_project(None, folder).providers.values()
    assert provider.clients == ("openai-python", "keys-by-id", "my_app.streams:accumulate")
    if version_of(SDKS["openai-python"]) is not None:
        assert declared.declared(provider) is not None


def test_what_the_page_shows_is_what_is_said() -> None:
    (run,) = (msgspec.json.decode(text, type=ClientRun) for text in blocks("json"))
    shape = ShapeResult(shape="tool-call", outcome=Outcome.DIFFERS, clients=[run])
    shown = [line for text in blocks("") for line in text.splitlines()]
    for line in shape_lines(shape, None):
        assert line in shown
    finding = msgspec.structs.replace(lint(side(NO_END).structure)[0], severity=Severity.NEGOTIABLE)
    assert next(finding_lines(msgspec.structs.replace(finding, dropped_from=Severity.FATAL))) in shown
    broken = msgspec.structs.replace(finding, breaks=breaks_of("tool.index-reused"))
    assert [*finding_lines(broken)][-1] in shown
