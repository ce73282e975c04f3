"""The pytest plugin: options, marker and pytest fixtures. For users: docs/pytest.md.

Whoever installs us loads this module in every pytest run. So it imports pytest alone; what an option or a test asks
for lies in pytest_items.py, pytest_streams.py and testing.py, and is loaded then.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from harness.replay import Replay
    from harness.testing import Quirk, Stream

QUIRKS = Path(__file__).parent / "quirks"
MARKER = (
    "sse(provider, shape, dialect, fault): the stream that `recorded`, `live` and `replayed` hold; the dialects of "
    "`sse_quirk`; how `recorded`, `replayed` and `sse_quirk` are broken"
)
GATE_ONLY = (
    "--harness-shape", "--harness-recorded", "--harness-allow-stale", "--harness-fail-on", "--harness-report",
)  # fmt: skip


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options; each has a twin in `harness gate`."""
    group = parser.getgroup("harness", "sse-harness: can one LLM endpoint take over from another?")
    add: Callable[..., None] = group.addoption
    add("--harness-baseline", metavar="NAME", help="gate: the provider whose fixtures are the baseline")
    add("--harness-candidate", metavar="NAME", help="gate: the provider that is called and compared with them")
    add("--harness-config", metavar="PATH", help="providers.yaml; by default the one here or in a parent folder")
    add("--harness-shape", action="append", metavar="SHAPE", help="gate only this shape; may be given again")
    add("--harness-attempts", type=_attempts, default=1, metavar="N",
        help="attempts at a shape that is not measured (1 to 20, default: 1)")  # fmt: skip
    add("--harness-recorded", action="store_true", help="read the candidate from fixtures/ too; nothing is sent")
    add("--harness-allow-stale", action="store_true",
        help="compare although a request file changed since the baseline was recorded")  # fmt: skip
    add("--harness-fail-on", choices=("cosmetic", "negotiable", "fatal"), metavar="SEVERITY",
        help="the least severity that fails (default: negotiable)")  # fmt: skip
    add("--harness-report", action="append", metavar="PATH",
        help="also write the gate's report there; the suffix picks the form")  # fmt: skip
    add("--harness-unmeasured", choices=("fail", "skip"), default="fail",
        help="what a shape that is not measured does (default: fail)")  # fmt: skip
    add("--harness-live", action="store_true",
        help="let the pytest fixture `live` call endpoints that are not on this machine")  # fmt: skip


def _attempts(text: str) -> int:
    if text not in map(str, range(1, 21)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 20")
    return int(text)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker; with both ends of a gate given, check all that can be checked before anything is sent."""
    config.addinivalue_line("markers", MARKER)
    option = config.option
    if option.harness_baseline and option.harness_candidate:
        from harness.pytest_items import start_gate

        start_gate(config)
        return
    for name in ("--harness-baseline", "--harness-candidate", *GATE_ONLY):
        if getattr(option, name[2:].replace("-", "_")):
            raise pytest.UsageError(f"{name}: a gate needs both --harness-baseline and --harness-candidate")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that asks for `sse_quirk` once for each quirk, of the marker's dialects if it names any."""
    if "sse_quirk" not in metafunc.fixturenames:
        return
    names = sorted(path.stem for path in QUIRKS.glob("*.sse"))
    marker = metafunc.definition.get_closest_marker("sse")
    wanted = marker.kwargs.get("dialect") if marker is not None else None
    if wanted is not None:
        families = {name: json.loads((QUIRKS / f"{name}.json").read_bytes())["family"] for name in names}
        dialects = [wanted] if isinstance(wanted, str) else list(wanted)
        if unknown := set(dialects) - set(families.values()):
            known = ", ".join(sorted(set(families.values())))
            problem = f"{metafunc.definition.nodeid}: marker sse: no quirks of dialect {', '.join(sorted(unknown))}"
            raise pytest.Collector.CollectError(f"{problem}; there are some of: {known}")
        names = [name for name in names if families[name] in dialects]
    metafunc.parametrize("sse_quirk", names, indirect=True)


@pytest.fixture
def sse_quirk(request: pytest.FixtureRequest) -> Quirk:
    """A quirk: .name, .body, .dialect, .expect, .verdict, .pieces(size) in bytes, .differences(reader).

    Fails the test in a line, where the marker names a fault that does not exist.
    """
    from harness.pytest_streams import broken_quirk

    return broken_quirk(request)


@pytest.fixture
def recorded(request: pytest.FixtureRequest) -> Stream:
    """The fixture on disk that the marker names: .body (bytes), .message, .events, .structure.

    Fails the test in a line: no such fixture, a broken one, a marker that names no stream, a fault that does not exist.
    """
    from harness.pytest_streams import recorded_stream

    return recorded_stream(request)


@pytest.fixture
def live(request: pytest.FixtureRequest) -> Stream:
    """The same, recorded now: one request to the provider that the marker names.

    Fails the test in a line: not measured (no server, no key, a host that is not this machine without --harness-live),
    which is a skip with --harness-unmeasured=skip; a provider or shape that is not known.
    """
    from harness.pytest_streams import live_stream

    return live_stream(request)


@pytest.fixture
def replayed(request: pytest.FixtureRequest) -> Iterator[Replay]:
    """A server that plays the fixture the marker names, or all of its provider's: .base_url, .journal.

    Fails the test in a line: no such fixture, or a fault that does not exist.
    """
    from harness.pytest_streams import replay_server

    with replay_server(request) as server:
        yield server


def pytest_assertrepr_compare(op: str, left: object, right: object) -> Sequence[str] | None:
    """Explain `structure(one) == structure(other)` by the findings."""
    testing: Any = sys.modules.get("harness.testing")  # not loaded: then neither side comes from it
    if testing is None or not (isinstance(left, testing.Facts) and isinstance(right, testing.Facts)):
        return None
    if op == "!=":
        return [f"{left!r} and {right!r} do not differ in anything negotiable or fatal"]
    return list(testing.explanation(left, right)) if op == "==" else None
