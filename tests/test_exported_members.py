"""What `import harness` offers: every name is there, lazily, and a type checker sees the same."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import FunctionType

import pytest

import harness

SOURCE = Path(harness.__file__).read_text("utf-8")


def fresh(code: str) -> str:
    """What this prints in a process of its own."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip()


def stubs() -> dict[str, str]:
    """Names that a type checker is told of, with their modules."""
    block = next(node for node in ast.parse(SOURCE).body if isinstance(node, ast.If))
    found = {}
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        for alias in node.names:
            assert alias.asname == alias.name
            found[alias.name] = node.module or ""
    return found


@pytest.mark.parametrize("name", harness.__all__)
def test_a_name_is_what_its_module_has_and_a_type_checker_sees(name: str) -> None:
    assert getattr(harness, name) is getattr(import_module(stubs()[name]), name)


def test_nothing_is_promised_to_type_checkers_alone() -> None:
    assert sorted(stubs()) == sorted(harness.__all__) == harness.__all__
    assert set(harness.__all__) <= set(dir(harness))


@pytest.mark.parametrize(
    "before",
    [
        "pass",
        "import harness.{name}",
        "from harness.{name} import *",
        "from harness import {name}",
        "import harness; harness.{name}",
    ],
)
def test_names_that_are_modules_too_stand_for_the_functions_whatever_was_imported_before(before: str) -> None:
    names = ["compare", "reduce", "replay", "structure"]
    lines = [before.format(name=name) for name in names]
    lines += [f"from harness import {name}; print(type({name}).__name__)" for name in names]
    assert fresh("\n".join(lines)).split() == [FunctionType.__name__] * len(names)


def test_a_module_that_is_no_name_is_reached_as_everywhere() -> None:
    assert fresh("import harness.sse; from harness import store; print(harness.sse.SSEParser, store.Loaded)") == (
        "<class 'harness.sse.SSEParser'> <class 'harness.store.Loaded'>"
    )


def test_importing_the_package_loads_nothing_but_standard_modules() -> None:
    code = "import sys; before = {*sys.modules}; import harness; print(*sorted({*sys.modules} - before))"
    loaded = fresh(code).split()
    assert [name for name in loaded if name.partition(".")[0] not in sys.stdlib_module_names] == ["harness"]


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'harness' has no attribute 'recrod'"):
        harness.recrod  # type: ignore[attr-defined]  # noqa: B018  # looking it up is the test
