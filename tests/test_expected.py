"""Every fixture says what its .expected.json says: the message and the shape signature."""

import json
from pathlib import Path

import pytest
from reading import FIXTURES

from harness.runs.files import verify_expected
from harness.store import expected_path

BODIES = sorted(FIXTURES.rglob("*.sse"))


@pytest.mark.parametrize("body", BODIES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_fixture_says_what_is_expected_of_it(body: Path) -> None:
    assert verify_expected(body) == []


def test_there_are_fixtures_and_no_expectation_without_one() -> None:
    assert len(BODIES) > 150
    expected = {expected_path(body) for body in BODIES}
    assert set(FIXTURES.rglob("*.expected.json")) == expected
    for path in expected:
        held = json.loads(path.read_text("utf-8"))
        assert list(held) == ["message", "structure_format", "structure"]
        assert held["structure"] == sorted(held["structure"])
