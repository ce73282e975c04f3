"""What clients prove about a finding: which are known to fail under its rule, and what those declared make of it."""

from __future__ import annotations

import json
from functools import cache

import client_tables
import pytest
import sdk_tables

from harness.adapters import SDKS
from harness.adapters.served import SdkTarget, version_of
from harness.answers import Answer
from harness.cases import Case, quirk_cases
from harness.clients.evidence import FOLDER, breaks_of, quirks_of
from harness.clients.table import CLIENTS


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
