"""Layout: imports point to the same or a lower rank and never in a cycle, cores do no I/O, modules stay readable."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "harness"
PATHS = sorted(PACKAGE.rglob("*.py"))

# Modules and folders of harness/ from the bottom up, a line a rank (ARCHITECTURE, "Layout"). List a new one where it
# belongs: beside those that do what it does, above all that it imports.
ORDER = [
    "errors findings",
    "sse events recording jsontext growing asked data rule codings endpoint conventions secrets",
    "message history dialects steps faults faults_body faults_wire error_forms detect cuts timing",
    "reduce facts structure leaks",
    "catalogue catalogue_dialects catalogue_responses catalogue_run catalogue_varies rules shapes plugin clients "
    "answers clean whole",
    "judges compare cutover thresholds align",
    "settings providers presets config bodies filebody store partial matching transport recorder http1 loopback replay "
    "capture proxy serving claims targets commands adapters cases policy importers importing",
    "runs",
    "reports",
    "testing pytest_streams pytest_items pytest_plugin cli",
]
RANK = {name: rank for rank, names in enumerate(ORDER) for name in names.split()}
CORE = 5  # ranks up to here do no I/O and know no clock
LINES = 450

# What a core may not import, and what it may not look at.
OUTSIDE = {
    "asyncio", "ctypes", "fcntl", "httpx", "http", "multiprocessing", "select", "selectors", "shutil", "signal",
    "socket", "ssl", "subprocess", "tempfile", "threading", "time", "click", "rich", "yaml",
}  # fmt: skip


def name_of(path: Path) -> str:
    """The dotted name below harness: `dialects.chat`, `cli` for its __init__, "" for the package itself."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in PATHS}


def top_of(module: str) -> str:
    return module.partition(".")[0]


@cache
def imports_of(module: str, *, typing: bool) -> frozenset[str]:
    """Every module it imports, inside functions too; with `typing` also what is there for type checkers only."""
    found: set[str] = set()
    for node in _walk(ast.parse(MODULES[module].read_text("utf-8")), typing):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: imports are absolute"
            name = node.module or ""
            # `from harness import store` and `from harness.cli import gate` name modules.
            below = {f"{name}.{alias.name}" for alias in node.names} & {f"harness.{known}" for known in MODULES}
            found.update(below or {name})
    return frozenset(found)


def _walk(node: ast.AST, typing: bool) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not typing and isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from _walk(child, typing)


def ours(module: str, *, typing: bool) -> set[str]:
    """Modules of this package that it imports. The package itself (its version, its lazy names) is below all."""
    names = {name for name in imports_of(module, typing=typing) if name.startswith("harness.")}
    return {name.removeprefix("harness.") for name in names}


def test_every_module_has_a_rank() -> None:
    missing = sorted({top_of(module) for module in MODULES if module} - RANK.keys())
    assert not missing, f"{', '.join(missing)}: list it in ORDER, where it belongs by what it imports and does"
    gone = sorted(RANK.keys() - {top_of(module) for module in MODULES})
    assert not gone, f"{', '.join(gone)}: no longer there, take it out of ORDER"


@pytest.mark.parametrize("module", sorted(MODULES.keys() - {""}))
def test_imports_point_down(module: str) -> None:
    rank = RANK.get(top_of(module), 0)
    up = [name for name in ours(module, typing=True) if RANK.get(top_of(name), 0) > rank]
    assert not up, f"{module} (rank {rank}) imports what is above it: {', '.join(sorted(up))}"


def test_no_module_imports_itself_in_a_circle() -> None:
    done: set[str] = set()

    def visit(module: str, above: tuple[str, ...]) -> None:
        assert module not in above, " -> ".join([*above[above.index(module) :], module])
        if module in done or module not in MODULES:
            return
        for name in sorted(ours(module, typing=False)):
            visit(name, (*above, module))
        done.add(module)

    for module in MODULES:
        visit(module, ())


def test_the_package_imports_nothing_of_itself() -> None:
    """Its names are lazy: whoever imports one module pays for that one."""
    tree = ast.parse(MODULES[""].read_text("utf-8"))
    top = {alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names}
    top |= {node.module or "" for node in tree.body if isinstance(node, ast.ImportFrom)}
    assert not {name for name in top if name.startswith("harness.")}


@pytest.mark.parametrize("module", sorted(name for name in MODULES if name and RANK.get(top_of(name), 9) <= CORE))
def test_cores_do_no_io_and_know_no_clock(module: str) -> None:
    found = {top_of(name) for name in imports_of(module, typing=False)}
    assert not found & OUTSIDE
    text = MODULES[module].read_text("utf-8")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute):
            assert node.attr not in ("environ", "getenv", "now", "utcnow", "today"), f"line {node.lineno}: {node.attr}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in ("open", "print", "input"), f"line {node.lineno}: {node.func.id}"


@pytest.mark.parametrize("module", sorted(MODULES))
def test_a_module_can_be_read_in_one_sitting(module: str) -> None:
    text = MODULES[module].read_text("utf-8")
    lines = text.count("\n")
    where = MODULES[module].relative_to(PACKAGE.parent)
    beside = " (what needs no state: facts/marks.py)" if module.startswith("facts.") else ""
    told = f"{where}: {lines} lines, at most {LINES - 1}; give a part that stands by itself a module of its own{beside}"
    assert lines < LINES, told
    assert not text or ast.get_docstring(ast.parse(text)), "a module says in its docstring what it is for"


HEAVY = ("msgspec", "httpx", "deepdiff", "click", "yaml", "rich", "asyncio", "harness.reduce")


def loaded(code: str) -> set[str]:
    """Which of HEAVY are loaded after the code has run in a new interpreter."""
    script = f"import sys\n{code}\nprint(*[name for name in {HEAVY!r} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    return set(run.stdout.split())


@pytest.mark.parametrize(
    ("code", "allowed"),
    [
        ("import harness", set()),
        ("import harness; harness.__version__", set()),
        ("import harness.sse", {"msgspec"}),
        ("from harness.reduce import reduce; reduce(b'data: [DONE]\\n\\n')", {"msgspec", "harness.reduce"}),
        ("import harness.rules, harness.structure", {"msgspec", "harness.reduce"}),
    ],
)
def test_what_is_not_needed_is_not_loaded(code: str, allowed: set[str]) -> None:
    assert loaded(code) <= allowed
