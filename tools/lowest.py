"""The lowest versions that pyproject.toml promises to work with, as a constraints file for pip.

    python tools/lowest.py > lowest.txt
    python tools/lowest.py --python            prints the lowest Python instead, such as 3.11
    pip install --constraint lowest.txt '.[test]'

Each requirement of the package and of its extra `test` is pinned to its lower bound: `httpx>=0.27` becomes
`httpx==0.27`. A requirement without one is an error (exit 1), as it would promise every version there ever was.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

PYPROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"
BOUND = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^]]*\])?>=(?P<version>[0-9][0-9a-z.]*)(?:[,;].*)?")


def constraints(requirements: Iterable[str]) -> Iterator[str]:
    """`name==version` of each. Raises ValueError for one without a lower bound."""
    for requirement in requirements:
        found = BOUND.fullmatch(requirement.replace(" ", ""))
        if found is None:
            raise ValueError(f"{requirement}: no lower bound (name>=version)")
        yield f"{found['name']}=={found['version']}"


def main() -> None:
    """Print the constraints, or the lowest Python."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", action="store_true", help="print the lowest Python instead")
    only_python = parser.parse_args().python
    project = tomllib.loads(PYPROJECT.read_text("utf-8"))["project"]
    if only_python:
        print(project["requires-python"].removeprefix(">="))
        return
    try:
        lines = [*constraints([*project["dependencies"], *project["optional-dependencies"]["test"]])]
    except ValueError as exc:
        sys.exit(f"{PYPROJECT.name}: {exc}")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
