"""Annotations for GitHub Actions: every finding as the right kind, and no command but ours."""

from __future__ import annotations

import re
from typing import Any

import pytest
from commandline import harness
from reading import FIXTURES

from harness.findings import AcceptanceUse, Accepted, Finding, Outcome, Report, Severity, ShapeResult
from harness.reports.annotations import SHOWN, gate_annotations

COMMAND = re.compile(r"::(error|warning|notice) title=([^:,\n]*)::([^\n]*)")


def finding(severity: Severity, **fields: Any) -> Finding:
    given: dict[str, Any] = {
        "rule": f"a.{severity}", "severity": severity, "path": "wire.a", "baseline": None, "candidate": None,
        "message": "it hangs", "remedy": "mend it", "evidence": [],
    }  # fmt: skip
    return Finding(**{**given, **fields})


def report(*findings: Finding, **fields: Any) -> Report:
    result = ShapeResult(shape="text", outcome=Outcome.DIFFERS, takes=1, findings=list(findings))
    return Report(**{"baseline": "a", "candidate": "b", "outcome": Outcome.DIFFERS, "shapes": [result], **fields})


def commands(text: str) -> list[tuple[str, str, str]]:
    """Kind, title and message of every line, with GitHub's escapes undone."""
    found = []
    for line in text.split("\n"):
        match = COMMAND.fullmatch(line)
        assert match is not None, line
        parts = [re.sub("%([0-9A-F]{2})", lambda code: chr(int(code[1], 16)), part) for part in match.groups()]
        found.append((parts[0], parts[1], parts[2]))
    return found


def test_what_fails_is_an_error_what_passes_a_notice_what_is_accepted_a_warning() -> None:
    accepted = Accepted(reason="counted locally", until="2099-01-01")
    text = gate_annotations(report(
        finding(Severity.COSMETIC), finding(Severity.NEGOTIABLE), finding(Severity.FATAL, accepted=accepted),
        finding(Severity.FATAL),
    ))  # fmt: skip
    assert commands(text) == [
        ("error", "fatal a.fatal (text)", "it hangs -> mend it"),
        ("error", "negotiable a.negotiable (text)", "it hangs -> mend it"),
        ("warning", "fatal a.fatal (text)", "it hangs (accepted until 2099-01-01: counted locally) -> mend it"),
        ("notice", "a -> b", "differs"),
        ("notice", "cosmetic a.cosmetic (text)", "it hangs -> mend it"),
    ]


@pytest.mark.parametrize(
    ("fail_on", "kinds"), [("cosmetic", ["error"] * 3), ("negotiable", ["error", "error", "notice"]),
                           ("fatal", ["error", "warning", "notice"])],
)  # fmt: skip
def test_what_fails_is_what_the_gate_was_told(fail_on: str, kinds: list[str]) -> None:
    text = gate_annotations(report(*map(finding, reversed(Severity))), Severity(fail_on))
    assert [kind for kind, title, _ in commands(text) if title != "a -> b"] == kinds


def test_acceptances_that_fail_and_shapes_that_were_not_measured() -> None:
    missed = ShapeResult(shape="stop", outcome=Outcome.NOT_MEASURED, reason="HTTP 429")
    uses = [AcceptanceUse(rule="usage.*", shape=None, state="stale"),
            AcceptanceUse(rule="x", shape="text", state="used")]  # fmt: skip
    text = gate_annotations(report(shapes=[missed], acceptances=uses))
    assert commands(text)[:2] == [
        ("error", "acceptance is stale", "stale usage.* (all shapes): it no longer occurs; delete it"),
        ("warning", "stop not measured", "HTTP 429"),
    ]


def test_ten_are_shown_and_the_rest_is_counted() -> None:
    many = [finding(Severity.NEGOTIABLE)] * (SHOWN + 5) + [finding(Severity.FATAL)]
    found = [command for command in commands(gate_annotations(report(*many))) if command[0] == "error"]
    assert len(found) == SHOWN
    assert found[0][1] == "fatal a.fatal (text)"
    assert found[-1] == ("error", "and more", "7 more of this kind: see the report")


def test_nothing_from_outside_becomes_a_command() -> None:
    hostile = "50%\r\n::add-mask::x\n##[error]y, a:b\u2028::set-output name=z::1\x1b[31m"
    found = finding(Severity.FATAL, rule=hostile, message=hostile, remedy=hostile, accepted=Accepted(reason=hostile))
    text = gate_annotations(report(found, baseline=hostile, candidate=hostile))
    assert len(commands(text)) == len(text.split("\n")) == 2
    assert not re.search("[\r\x1b\u2028]", text)
    assert text.count("%25") == text.count("50")


def test_on_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FIXTURES.parent)
    arguments = ("gate", "vllm", "transformers", "--recorded", "--shape", "text")
    done = harness(*arguments, "--annotate")
    assert done.code == 1
    assert [(kind, title) for kind, title, _ in commands(done.out.removesuffix("\n"))] == [
        ("error", "fatal end.marker-missing (text)"), ("error", "negotiable usage.position (text)"),
        ("notice", "vllm -> transformers"), ("notice", "cosmetic chunk.first-content (text)"),
        ("notice", "cosmetic finish.key-absent (text)"),
    ]  # fmt: skip
    both = harness(*arguments, "--annotate", "--json")
    assert "--annotate and --json: stdout has room for one of them" in both.failed(2)
