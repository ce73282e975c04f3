"""Whether this checkout can be released under a tag: `python tools/check_release.py v1.2.3`.

The version stands in harness/__init__.py alone. The tag must be `v` and that version, and the top entry of CHANGELOG.md
must be that version with its day, `## 1.2.3 (2027-01-31)`. Exit 1, and what to do, if not. Imports no part of the
package.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSION = re.compile(r'^__version__ = "([^"]+)"$', re.MULTILINE)
ENTRY = re.compile(r"^## (?P<version>\S+)(?: \((?P<when>unreleased|\d{4}-\d{2}-\d{2})\))?$", re.MULTILINE)


def version_of(source: str) -> str:
    """The version in the text of harness/__init__.py."""
    found = VERSION.search(source)
    return found[1] if found is not None else ""


def top_entry(changelog: str) -> tuple[str, str]:
    """Version of the newest entry, and its day, "unreleased" or ""."""
    found = ENTRY.search(changelog)
    return (found["version"], found["when"] or "") if found is not None else ("", "")


def problem(tag: str, version: str, entry: tuple[str, str]) -> str:
    """Why it cannot be released, "" if it can."""
    if tag != f"v{version}":
        return f"the tag is {tag}, and harness/__init__.py says {version}: tag v{version}, or change the version"
    if entry[0] != version:
        return f"CHANGELOG.md begins with {entry[0] or 'no entry'}: its first entry must be {version}"
    if entry[1] in ("", "unreleased"):
        return f"CHANGELOG.md says {version} {entry[1]}: write the day, `## {version} (YYYY-MM-DD)`"
    return ""


def main() -> None:
    """Check, and say what is wrong."""
    if len(sys.argv) != 2:
        sys.exit("usage: python tools/check_release.py TAG")
    version = version_of((ROOT / "harness" / "__init__.py").read_text("utf-8"))
    why = problem(sys.argv[1], version, top_entry((ROOT / "CHANGELOG.md").read_text("utf-8")))
    if why:
        sys.exit(f"not a release: {why}")
    print(version)


if __name__ == "__main__":
    main()
