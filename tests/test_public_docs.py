"""Every public name says what it is, what it raises and in which units: docs/python.md is made of that."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from raising import OURS, raised
from reading import FIXTURES, ROOT

import harness
from harness import pytest_plugin, testing
from harness.replay import Replay

UNITS = re.compile(
    r"\b(seconds?|microseconds?|bytes?|characters|tokens?|times|numbers?|counts?|port|status|attempts?|exit codes?|"
    r"position|index|[0-9]+ or more|[0-9], [0-9])\b"
)
NUMBERS = re.compile(r"\b(int|float)\b")
PYTEST_FIXTURES = ("sse_quirk", "recorded", "live", "replayed")


class Public(NamedTuple):
    """A public name, with what it names."""

    name: str
    thing: Any

    @property
    def doc(self) -> str:
        return inspect.getdoc(self.thing) or ""

    @property
    def function(self) -> Any:
        """What can be called, if it can: the function behind a property, too."""
        thing = self.thing
        if isinstance(thing, property):
            return thing.fget
        return thing.func if isinstance(thing, cached_property) else thing


def public() -> Iterator[Public]:
    for prefix, home in (("harness", harness), ("harness.testing", testing)):
        for name in home.__all__:
            thing = getattr(home, name)
            yield Public(f"{prefix}.{name}", thing)
            if inspect.isclass(thing):
                yield from members(f"{prefix}.{name}", thing)
    for name in PYTEST_FIXTURES:
        yield Public(f"pytest.{name}", inspect.unwrap(getattr(pytest_plugin, name)))


def members(prefix: str, cls: type) -> Iterator[Public]:
    """Public methods and properties that are ours."""
    for name in dir(cls):
        found = inspect.getattr_static(cls, name)
        if name.startswith("_") or not isinstance(found, property | cached_property | type(members)):
            continue
        home = (found.fget if isinstance(found, property) else getattr(found, "func", found)).__module__
        if home.startswith("harness"):
            yield Public(f"{prefix}.{name}", found)


PUBLIC = list({one.name: one for one in public()}.values())


@pytest.mark.parametrize("one", PUBLIC, ids=lambda one: one.name)
def test_it_says_what_it_is(one: Public) -> None:
    assert one.doc, "no docstring"
    assert one.doc[0].isupper() or one.doc[0] in "`\"", one.doc
    first = one.doc.split("\n\n")[0].rstrip()
    assert first.endswith((".", ":")), first


@pytest.mark.parametrize("one", PUBLIC, ids=lambda one: one.name)
def test_it_says_what_it_raises(one: Public) -> None:
    function = one.function
    if inspect.isclass(function) and issubclass(function, Exception):
        return
    if one.name.startswith("pytest."):  # whoever asks for it gets no exception, but a test that fails
        assert "Fails the test in a line" in one.doc
        return
    can = raised(function.__module__, function.__qualname__)
    said = set(re.findall(r"\w+", one.doc)) if re.search(r"\b[Rr]aises\b", one.doc) else set()
    # A base class stands for those below it. The root alone says nothing: where the source has it, any of ours will do.
    missing = [
        name for name in can
        if not (OURS.keys() if name == "HarnessError" else {base.__name__ for base in OURS[name].__mro__[:-4]}) & said
    ]  # fmt: skip
    assert sorted(missing) == [], "the docstring does not say that it raises these"


@pytest.mark.parametrize("one", PUBLIC, ids=lambda one: one.name)
def test_it_says_what_its_numbers_count(one: Public) -> None:
    numbers = [name for name, kind in quantities(one.function).items() if NUMBERS.search(kind)]
    told = [name for name in numbers if name == "return" or re.search(rf"\b{name}\b", one.doc)]
    assert told == numbers, "the docstring does not name these"
    if numbers:
        assert UNITS.search(one.doc), f"{numbers}: in which unit?"


def quantities(thing: Any) -> dict[str, str]:
    """Parameters, fields and `return`, with their annotations."""
    if inspect.isclass(thing):
        if issubclass(thing, msgspec.Struct):
            return {name: str(kind) for name, kind in inspect.get_annotations(thing).items()}
        thing = thing.__init__
        if not hasattr(thing, "__annotations__"):
            return {}
    return {name: str(kind) for name, kind in thing.__annotations__.items()}


def test_the_marker_says_what_it_takes(pytestconfig: pytest.Config) -> None:
    (line,) = (line for line in pytestconfig.getini("markers") if line.startswith("sse("))
    for name in ("provider", "shape", "dialect", "fault"):
        assert name in line.partition(":")[0]
    for fixture in PYTEST_FIXTURES:
        assert f"`{fixture}`" in line.partition(":")[2]


def test_raising_is_seen_through_calls_and_what_is_caught_is_not() -> None:
    assert raised("harness.store", "load") == {"UsageError"}
    assert {"RecordingError", "UsageError", "SecretFound"} <= raised("harness.recorder", "arecord")
    assert raised("harness.replay", "replay") == {"UsageError"}
    assert "ConfigError" in raised("harness.config", "load_project")
    assert raised("harness.reduce", "Reducer.feed") == set()
    assert raised("harness.runs.files", "expand") == raised("harness", "no_such_function") == set()


def test_a_dialect_that_there_is_not_is_said_so() -> None:
    recording = harness.Recording(body=b"data: [DONE]\n\n")
    for call in (
        lambda: harness.reduce(b"", "klingon"), lambda: harness.events_of(b"", "klingon"),
        lambda: harness.Reducer("klingon"), lambda: harness.read(recording, "klingon"),
        lambda: harness.structure(recording, "klingon"),
    ):  # fmt: skip
        with pytest.raises(harness.UsageError, match="klingon: no such dialect; there are chat, "):
            call()


# -- the examples of docs/python.md -------------------------------------------------------------------------------


def run(example: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / "docs" / "examples" / example, *arguments], capture_output=True, text=True, timeout=60
    )


def test_the_synchronous_example(tmp_path: Path) -> None:
    with Replay(FIXTURES / "vllm") as old, Replay(FIXTURES / "transformers") as new:
        same = run("compare_endpoints.py", old.base_url, old.base_url)
        done = run("compare_endpoints.py", old.base_url, new.base_url)
        assert len(old.journal) + len(new.journal) == 4
    assert (same.returncode, same.stderr) == (0, "")
    assert same.stdout == "the candidate said 'Hello there!' and ended with done\n"
    assert (done.returncode, done.stderr) == (1, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "the candidate said 'Hello there!' and ended with finish"
    assert lines[1].startswith("fatal end.marker-missing: [DONE] never came")
    assert "  baseline: b'data: [DONE]\\n'" in lines
    assert any(line.startswith("negotiable usage.position: ") for line in lines)
    refused = run("compare_endpoints.py", "http://127.0.0.1:9/v1", "http://127.0.0.1:9/v1")
    assert (refused.returncode, refused.stdout) == (3, "")
    assert refused.stderr.startswith("cannot connect to 127.0.0.1:9 ")


def test_the_asynchronous_example() -> None:
    with Replay(FIXTURES / "vllm") as server:
        done = run("record_at_once.py", server.base_url)
        assert len(server.journal) == 3
    size = (FIXTURES / "vllm" / "text.sse").stat().st_size
    assert done.returncode == 0
    *sizes, alike, finding = done.stdout.splitlines()
    assert sizes == [f"{text} {size} bytes, eof" for text in ("Say hello.", "Count to three.", "Name a colour.")]
    assert alike == "all alike: True"
    assert finding.startswith("fatal end.marker-missing: ")
    assert len(re.findall(r" \d+\.\d ms$", done.stderr, re.M)) == 3


def test_replay_is_a_context_manager_with_the_settings_of_the_server() -> None:
    assert list(inspect.signature(harness.replay).parameters.values()) == list(
        inspect.signature(Replay).parameters.values()
    )
    with harness.replay(FIXTURES / "vllm") as server:
        assert isinstance(server, Replay)
        recording = harness.record(harness.Endpoint(url=f"{server.base_url}/chat/completions", body=b"{}"))
        assert recording.body == (FIXTURES / "vllm" / "text.sse").read_bytes()
    with pytest.raises(harness.UsageError, match="no fault 'nope'"), harness.replay(FIXTURES, faults=["nope"]):
        pass
    with pytest.raises(harness.RecordingError, match="cannot connect"):
        harness.record(harness.Endpoint(url=f"{server.base_url}/chat/completions"))
