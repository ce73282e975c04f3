"""`harness check --fault`: every stream broken on purpose, and our own reader says what it is to be read as."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from commandline import harness
from reading import FIXTURES

from harness.cases import quirk_cases, with_faults
from harness.claims import Claims
from harness.errors import UsageError
from harness.faults import FAULTS, parse_fault
from harness.reduce import Reducer
from harness.runs.check import check
from harness.targets import CallableTarget, reference

FAULTY = [name for name in FAULTS if name not in ("status", "slow", "drip", "pieces", "huge-event")]


@pytest.mark.parametrize("fault", [*FAULTY, "huge-event:size=1000"])
def test_the_reference_reads_broken_streams_as_our_reader_does_however_they_are_cut(fault: str) -> None:
    target = CallableTarget(reference, "reference")
    report = check(target, cuts=["whole", "seeded:1"], cases=["00*", "02*", "06*", "08*", "09*"], faults=[fault])
    assert {str(case.outcome) for case in report.cases} <= {"right", "told", "skipped"}
    assert f"streams as they were: all were broken by {fault}" in report.not_observed


def careless(body: Iterable[bytes], dialect: str = "chat") -> Any:
    """Returns what it has, whatever became of the stream."""
    reducer = Reducer(dialect)
    for piece in body:
        reducer.feed(piece)
    reducer.finish()
    message = reducer.message()
    return {"text": message.text, "tool_calls": msgspec.to_builtins(message.tool_calls)}


def outcomes(*faults: str) -> dict[str, str]:
    target = CallableTarget(careless, "careless", claims=Claims(features=("tool_calls",)))
    report = check(target, cases=["012*", "021*"], cuts=["whole"], faults=faults)
    return {case.case[:3]: str(case.outcome) for case in report.cases}


def test_a_target_that_does_not_notice_is_caught() -> None:
    assert outcomes() == {"012": "right", "021": "right"}
    assert outcomes("cut") == {"012": "accepted-truncation", "021": "accepted-truncation"}
    assert outcomes("error") == {"012": "accepted-error", "021": "accepted-error"}
    assert outcomes("bom", "crlf") == {"012": "right", "021": "right"}
    assert outcomes("rate-limit") == {"012": "skipped", "021": "skipped"}  # it sees bodies only


def test_a_failure_names_its_fault_in_the_command_that_repeats_it() -> None:
    target = CallableTarget(careless, "m:careless")
    report = check(target, cases=["012*"], cuts=["whole"], faults=["cut:event=1", "bom"])
    (failed,) = report.cases[0].failures
    assert " --fault cut:event=1 --fault bom --case 012-multibyte-utf8 --cut whole" in failed.repro
    assert report.diagnosis == []


def test_a_fault_meets_every_request_and_must_exist() -> None:
    case = next(quirk_cases())
    assert with_faults(case, [parse_fault("status:code=400,times=0")]).recording.status == 400
    with pytest.raises(UsageError, match="no fault 'nope'"):
        check(CallableTarget(careless, "careless"), faults=["nope"])


@pytest.mark.parametrize(
    ("fault", "outcome"),
    [
        ("gzip", "right"), ("cut:event=2", "told"), ("status:code=500", "told"), ("reuse-index", "wrong"),
        ("bom", "right"),
    ],
)
def test_an_sdk_meets_the_fault_on_the_wire(tmp_path: Path, fault: str, outcome: str) -> None:
    pytest.importorskip("openai")
    (tmp_path / "providers.yaml").write_text("providers: {}\n", "ascii")
    (tmp_path / "fixtures").symlink_to(FIXTURES)
    done = harness("check", "sdk:openai-python", "--config", tmp_path / "providers.yaml", "--no-quirks", "--json",
                   "--case", "llamacpp/parallel-tools", "--cut", "whole", "--fault", fault)  # fmt: skip
    assert [case["outcome"] for case in done.one["cases"]] == [outcome]
