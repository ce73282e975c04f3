import shutil
import subprocess
import sys
from importlib.machinery import FileFinder, PathFinder
from importlib.util import find_spec
from pathlib import Path

import pytest

from harness.data import PACKAGE, data_path
from harness.errors import HarnessError

ROOT = Path(__file__).resolve().parent.parent


def test_in_a_checkout_the_folder_lies_beside_the_package() -> None:
    assert data_path("requests") == ROOT / "requests"


def test_in_a_wheel_the_folder_lies_in_the_package_and_strangers_beside_it_do_not_count(tmp_path: Path) -> None:
    """A library named requests is installed next to us, and harness/data/ next to harness/data.py."""
    shutil.copytree(PACKAGE, tmp_path / "harness", ignore=shutil.ignore_patterns("__pycache__", "quirks"))
    shutil.copytree(ROOT / "requests", tmp_path / "harness" / "data" / "requests")
    (tmp_path / "requests").mkdir()
    (tmp_path / "requests" / "__init__.py").write_text("")
    code = "import sys; sys.path.insert(0, sys.argv[1]); from harness.data import *; print(data_path('requests'))"
    command = [sys.executable, "-c", code, str(tmp_path)]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert Path(run.stdout.strip()) == tmp_path / "harness" / "data" / "requests"
    shutil.rmtree(tmp_path / "harness" / "data")
    with pytest.raises(HarnessError) as caught:
        data_path("requests", tmp_path / "harness")
    expected = tmp_path / "harness" / "data" / "requests"
    assert str(caught.value) == f"{expected}: missing from this installation; install sse-harness again"


def test_the_folder_requests_does_not_pass_for_the_library() -> None:
    spec = find_spec("requests")
    assert spec is None or spec.origin is not None
    for name in ("requests", "fixtures"):
        plain = FileFinder(str(ROOT)).find_spec(name)
        assert plain is not None  # what Python itself would make of the folder
        assert plain.loader is None
        assert PathFinder.find_spec(name, [str(ROOT)]) is None
    assert PathFinder.find_spec("harness", [str(ROOT)]) is not None
