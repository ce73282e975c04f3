"""Endpoints that are known by name, and how one is written into providers.yaml. The table is presets.yaml beside this.

What stands there comes from the vendors' documentation; what recordings of an endpoint are known to do becomes
acceptances that are commented out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date
from functools import cache

import msgspec

from harness.catalogue import CATALOGUE
from harness.data import PRESETS
from harness.errors import UsageError, suggestion
from harness.findings import Severity
from harness.providers import VARIABLE

# What YAML reads as text without quotes, in a flow mapping as well; anything else is quoted.
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9 /._;()'-]*[A-Za-z0-9.)]")


class Quirk(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rule that is known to find something in the endpoint's streams, what it is, and the shape (null: any)."""

    rule: str
    reason: str
    shape: str | None = None


class Preset(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An endpoint in one dialect. The members that providers.yaml has too mean what they mean there."""

    title: str
    dialect: str
    base_url: str
    model: str
    docs: str = ""
    note: str = ""
    api_key_env: str | None = None
    auth: str | None = None
    path: str | None = None
    quirks: tuple[Quirk, ...] = ()


class Variable(msgspec.Struct, frozen=True, kw_only=True):
    """A variable of the environment that an endpoint needs. `default` is null if it must be set."""

    name: str
    default: str | None = None
    is_key: bool = False


@cache
def presets() -> Mapping[str, Preset]:
    """All of them, by name, in the order of the table."""
    import msgspec.yaml  # PyYAML with it: only for those who ask

    return msgspec.yaml.decode(PRESETS.read_bytes(), type=dict[str, Preset])


def preset(name: str) -> Preset:
    """The preset of that name. Raises UsageError, which names the nearest one."""
    found = presets().get(name)
    if found is None:
        near = suggestion(name, presets()) or ";"
        raise UsageError(
            f"{name}: no such preset{near} `harness init --list` shows them, "
            "any other endpoint is written into providers.yaml by hand"
        )
    return found


def variables(known: Preset) -> list[Variable]:
    """What the environment must or may hold for it, the key first."""
    found = [Variable(name=known.api_key_env, is_key=True)] if known.api_key_env else []
    for text in (known.base_url, known.model):
        found += [Variable(name=match[1], default=match[2]) for match in VARIABLE.finditer(text)]
    return found


def entry(name: str, known: Preset, until: date) -> Iterator[str]:
    """The lines of its entry under `providers:`. `until` is the last day of those acceptances that must have one."""
    yield f"  # {known.title}{f': {known.docs}' if known.docs else ''}"
    if known.note:
        yield f"  # {known.note}"
    yield f"  {name}:"
    for key in ("dialect", "base_url", "path", "api_key_env", "auth", "model"):
        if (value := getattr(known, key)) is not None:
            yield f"    {key}: {_scalar(value)}"
    if known.quirks:
        yield "    # Seen in recordings of it. Take the # away from what your application can live with, and say why:"
        yield "    # accept:"
        for quirk in known.quirks:
            yield f"    #   - {{{', '.join(_acceptance(quirk, until))}}}"


def _acceptance(quirk: Quirk, until: date) -> Iterator[str]:
    yield f"rule: {quirk.rule}"
    if quirk.shape:
        yield f"shape: {quirk.shape}"
    yield f"reason: {quirk.reason if _PLAIN.fullmatch(quirk.reason) else _quoted(quirk.reason)}"
    if CATALOGUE[quirk.rule].severity is Severity.FATAL:
        yield f"severity: fatal, until: {until}"


def _scalar(value: str) -> str:
    plain = _PLAIN.fullmatch(value) or re.fullmatch(r"https?://[A-Za-z0-9./:_-]+|/[a-z]+|header:[a-z-]+", value)
    return value if plain else _quoted(value)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
