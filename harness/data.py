"""Where the data lies that travels with the package: shape requests, demo fixtures, known endpoints."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from harness.errors import HarnessError

PACKAGE = Path(__file__).resolve().parent
PRESETS = PACKAGE / "presets.yaml"  # endpoints known by name, in a checkout as in a wheel
REQUESTS: dict[str, Path] = {}  # folders of request files that came with plug-ins, by dialect


def data_path(name: str, package: Path = PACKAGE) -> Path:
    """The folder `name`: inside the package (a wheel: harness/data/NAME), else beside it (a checkout: ./NAME).

    `package` is the folder of this package; tests give another. Raises HarnessError if the folder is in neither place.
    """
    shipped = package / "data" / name
    if shipped.is_dir():
        return shipped
    # Beside the package only in a checkout: beside an installed package lie strangers, a library named `requests` say.
    checkout = package.parent
    if (checkout / "pyproject.toml").is_file() and (checkout / name).is_dir():
        return checkout / name
    raise HarnessError(f"{shipped}: missing from this installation; install sse-harness again")


def request_folder(dialect: str) -> Path:
    """The folder of the dialect's request files, shipped or a plug-in's. It need not exist."""
    return REQUESTS.get(dialect) or data_path("requests") / dialect


def shipped_requests() -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    """The request files that travel with the package and with plug-ins, decoded: by dialect, by shape. Read once."""
    folders = {path.name: path for path in _shipped_folders()} | REQUESTS
    return {dialect: _decoded(folder) for dialect, folder in folders.items()}


@cache
def _shipped_folders() -> list[Path]:
    return sorted(path for path in data_path("requests").iterdir() if path.is_dir())


@cache
def _decoded(folder: Path) -> Mapping[str, Mapping[str, Any]]:
    return {path.stem: json.loads(path.read_bytes()) for path in sorted(folder.glob("*.json"))}
