"""What is released: one version everywhere, a complete sdist, a wheel built from it, lower bounds that are promised."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
from importlib import metadata
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any
from zipfile import ZipFile

import pytest
import yaml
from commandline import harness as command
from reading import ROOT

import harness

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
RELEASE: dict[Any, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8"))


def tool(name: str) -> ModuleType:
    """A script of tools/, as a module."""
    spec = spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CHECK, LOWEST = tool("check_release"), tool("lowest")


# -- the version --------------------------------------------------------------------------------------------------


def test_the_version_is_one_and_the_same() -> None:
    version = harness.__version__
    assert "version" in PROJECT["dynamic"]
    assert CHECK.version_of((ROOT / "harness" / "__init__.py").read_text("utf-8")) == version
    assert command("--version").out == f"harness, version {version}\n"
    assert metadata.version("sse-harness") == version
    assert CHECK.top_entry((ROOT / "CHANGELOG.md").read_text("utf-8"))[0] == version
    elsewhere = [path for path in (ROOT / "harness").rglob("*.py") if f'"{version}"' in path.read_text("utf-8")]
    assert elsewhere == [ROOT / "harness" / "__init__.py"]


@pytest.mark.parametrize(
    ("tag", "entry", "says"),
    [
        ("v1.2.3", ("1.2.3", "2027-01-31"), ""),
        ("1.2.3", ("1.2.3", "2027-01-31"), "tag v1.2.3, or change the version"),
        ("v1.2.4", ("1.2.3", "2027-01-31"), "the tag is v1.2.4, and harness/__init__.py says 1.2.3"),
        ("v1.2.3", ("1.2.2", "2027-01-31"), "CHANGELOG.md begins with 1.2.2"),
        ("v1.2.3", ("", ""), "CHANGELOG.md begins with no entry"),
        ("v1.2.3", ("1.2.3", "unreleased"), "write the day, `## 1.2.3 (YYYY-MM-DD)`"),
        ("v1.2.3", ("1.2.3", ""), "write the day"),
    ],
)
def test_what_can_be_released(tag: str, entry: tuple[str, str], says: str) -> None:
    found = CHECK.problem(tag, "1.2.3", entry)
    assert says in found
    assert bool(found) is bool(says)


def test_the_top_entry_of_a_changelog() -> None:
    assert CHECK.top_entry("# Changelog\n\n## 2.0.0 (2027-02-01)\n\n### Added\n- x\n\n## 1.0.0 (2026-01-01)\n") == (
        "2.0.0", "2027-02-01",
    )  # fmt: skip
    assert CHECK.top_entry("# Changelog\n\n## 2.0.0 (unreleased)\n") == ("2.0.0", "unreleased")
    assert CHECK.top_entry("# Changelog\n") == ("", "")


def test_the_check_runs_as_the_workflow_runs_it() -> None:
    script = ROOT / "tools" / "check_release.py"
    done = subprocess.run([sys.executable, script, "v0.0.0"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("not a release: the tag is v0.0.0, and harness/__init__.py says ")


# -- lower bounds -------------------------------------------------------------------------------------------------


def test_the_lowest_versions_are_those_of_pyproject() -> None:
    done = subprocess.run([sys.executable, ROOT / "tools" / "lowest.py"], capture_output=True, text=True, check=True)
    pins = dict(line.split("==") for line in done.stdout.splitlines())
    for requirement in [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["test"]]:
        name, _, version = requirement.partition(">=")
        assert pins[name] == version
    assert len(pins) == len(PROJECT["dependencies"]) + len(PROJECT["optional-dependencies"]["test"])
    python = subprocess.run(
        [sys.executable, ROOT / "tools" / "lowest.py", "--python"], capture_output=True, text=True, check=True
    )
    assert PROJECT["requires-python"] == f">={python.stdout.strip()}"


def test_a_bound_may_have_extras_and_an_upper_end() -> None:
    assert [*LOWEST.constraints(["a>=1", "b-c[d,e]>=2.0.1,<3", "f >= 1.2 ; python_version > '3.0'"])] == [
        "a==1", "b-c==2.0.1", "f==1.2",
    ]  # fmt: skip
    for wrong in ("a", "a<2", "a==1", "a>=x"):
        with pytest.raises(ValueError, match="no lower bound"):
            list(LOWEST.constraints([wrong]))


# -- sdist and wheel ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist, unpacked."""
    if find_spec("hatchling") is None:
        pytest.skip("hatchling is not installed")
    folder = tmp_path_factory.mktemp("sdist")
    (archive,) = (build(ROOT, "sdist", folder),)
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


def build(source: Path, kind: str, into: Path) -> Path:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(into)], cwd=source, capture_output=True,
        check=True, timeout=120,
    )  # fmt: skip
    (found,) = into.glob("*.tar.gz" if kind == "sdist" else "*.whl")
    return found


@pytest.mark.whole
def test_the_sdist_has_all_that_git_has(unpacked: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("no checkout")
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    there = {path.relative_to(unpacked).as_posix() for path in unpacked.rglob("*") if path.is_file()}
    assert [path for path in tracked if path not in there and (ROOT / path).exists()] == []
    assert [path for path in there if re.search(r"node_modules|__pycache__|^\.harness", path)] == []


@pytest.mark.whole
def test_the_wheel_from_the_sdist_is_that_of_the_checkout(unpacked: Path, tmp_path: Path) -> None:
    wheels = []
    for name, source in (("checkout", ROOT), ("sdist", unpacked)):
        (tmp_path / name).mkdir()
        with ZipFile(build(source, "wheel", tmp_path / name)) as files:
            wheels.append({one.filename: one.CRC for one in files.infolist() if not one.filename.endswith("RECORD")})
    assert wheels[0] == wheels[1]
    names = wheels[0].keys()
    for needed in ("harness/py.typed", "harness/data/requests/chat/text.json", "harness/data/fixtures/vllm/text.sse",
                   "harness/quirks/048-no-done-marker.sse", "harness/reports/page.css"):  # fmt: skip
        assert needed in names
    assert [name for name in names if not name.startswith(("harness/", "sse_harness-"))] == []


@pytest.mark.whole
def test_the_tests_of_the_sdist_can_be_collected(unpacked: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"],
        cwd=unpacked, capture_output=True, text=True, timeout=240, env={**os.environ, "PYTHONPATH": str(unpacked)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
    found = re.search(r"^(\d+)(?:/\d+)? tests collected", done.stdout, re.M)
    assert found is not None
    assert int(found[1]) > 1000


# -- the workflow -------------------------------------------------------------------------------------------------


def test_what_is_published_was_built_once_and_tested() -> None:
    jobs = RELEASE["jobs"]
    assert RELEASE[True] == {"push": {"tags": ["v*"]}}, "YAML reads `on` as true"
    assert set(jobs["publish"]["needs"]) == {"checks", "lowest", "wheel"}
    assert jobs["wheel"]["needs"] == "build"
    runs = {name: [step["run"] for step in job["steps"] if "run" in step] for name, job in jobs.items()}
    assert any("-m build" in run for run in runs["build"])
    assert not [name for name in runs if name != "build" and any("-m build" in run for run in runs[name])]
    for run in [run for listed in runs.values() for run in listed]:
        for path in re.findall(r"(?:\.ci|tools|tests)/[\w.]+", run):
            assert (ROOT / path).is_file()
            assert path.endswith(".py") or os.access(ROOT / path, os.X_OK)


def test_publishing_needs_no_token_and_nobody_else_may_do_it() -> None:
    jobs = RELEASE["jobs"]
    assert "secrets." not in (ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8")
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert jobs["publish"]["environment"] == "release"
    assert [name for name, job in jobs.items() if "permissions" in job] == ["publish"]
    assert RELEASE["permissions"] == {"contents": "read"}
