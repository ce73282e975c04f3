"""Keeps the checkout's folders of data from passing as packages.

The root of the checkout is on sys.path (by an editable install, and by `python -m pytest`). Where a library named
`requests` is not installed, `import requests` would then find the folder requests/ as a namespace package, and code
that copes without the library would not see that it is missing.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent
DATA = ("fixtures", "requests")

pytest_plugins = ["pytester"]

# CI systems ask for colours in pipes, too; tests read what is written there.
for _name in ("FORCE_COLOR", "CLICOLOR_FORCE"):
    os.environ.pop(_name, None)

# A run started in the background may have been told to ignore Ctrl-C, and so would every process that tests start and
# interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


class _NoData(FileFinder):
    def find_spec(self, fullname: str, target: ModuleType | None = None) -> ModuleSpec | None:
        return None if fullname in DATA else super().find_spec(fullname, target)


def _hide_data(path: Sequence[str]) -> None:
    for entry in path:
        folder = entry or os.getcwd()
        if Path(folder).resolve() == ROOT:
            sys.path_importer_cache[folder] = _NoData(folder, (SourceFileLoader, SOURCE_SUFFIXES))


_hide_data(("", *sys.path))
