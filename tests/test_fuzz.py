"""The fuzzer itself, and a little of what it does; .ci/run does more, tests/fuzz.py says how to do much more."""

from __future__ import annotations

from pathlib import Path

import fuzz
import pytest

from harness.dialects import BUILT_IN
from harness.reduce import Reducer

STREAMS = fuzz.shipped()


def hang() -> None:
    with fuzz.limited(0.05):
        while True:
            pass


def test_every_dialect_and_target_is_fuzzed() -> None:
    assert {dialect for dialect, _ in STREAMS} == set(BUILT_IN)
    mutator = fuzz.Mutator(0, STREAMS)
    made = [mutator.one() for _ in range(1500)]
    assert {one.target for one in made} == {"stream", "config", "vcr", "har", "curl"}
    assert {one.dialect for one in made} >= set(BUILT_IN)
    originals = {body for _, body in STREAMS}
    assert sum(one.data not in originals for one in made) > 1400


@pytest.mark.parametrize("fault", fuzz.Mutator.FAULTS, ids=lambda fault: str(fault.__name__))
def test_every_fault_changes_most_streams(fault: object) -> None:
    mutator = fuzz.Mutator(1, STREAMS)
    assert callable(fault)
    changed = [fault(mutator, body) != body for _, body in STREAMS[:100]]
    assert sum(changed) > 60
    assert isinstance(fault(mutator, b""), bytes)


def test_nothing_goes_wrong_and_the_digest_is_the_same_again() -> None:
    once, again = fuzz.fuzz(range(2), 400), fuzz.fuzz(range(2), 400)
    assert once.wrong == []
    assert once == again
    assert once.digest != fuzz.fuzz(range(2, 4), 400).digest


def test_jobs_share_the_seeds_and_change_nothing() -> None:
    alone = fuzz.fuzz(range(5), 213)
    assert sum(alone.tried.values()) == 213
    assert fuzz.fuzz(range(5), 213, jobs=2) == alone
    assert fuzz.fuzz(range(5), 213, jobs=7) == alone


def test_an_exception_a_difference_and_a_hang_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    data = b'data: {"choices":[{"index":0,"delta":{"content":"abc"}}]}\n\n'
    made = fuzz.Input("stream", "chat", data, 20)
    right = Reducer.feed
    with monkeypatch.context() as patch:
        patch.setattr(Reducer, "feed", lambda self, piece: right(self, piece if len(piece) > 20 else b""))
        with pytest.raises(fuzz.Wrong, match="cut at 20"):
            fuzz.attempt(made, tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Reducer, "feed", lambda self, piece: 1 // 0)
        found = fuzz.fuzz(range(1), 40, stop_at=3)
        assert len(found.wrong) == 3
        assert "ZeroDivisionError" in found.wrong[0][3]
    with pytest.raises(fuzz.Wrong, match="processor time"):
        hang()
    assert fuzz.attempt(made, tmp_path)
