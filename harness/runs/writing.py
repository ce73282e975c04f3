"""Acceptances written into providers.yaml as text: comments, order and style of the rest stay as they are."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from harness.config import load_project
from harness.errors import UsageError
from harness.runs.accepting import as_yaml, row


def write_acceptances(path: Path, provider: str, entries: Sequence[dict[str, Any]]) -> None:
    """Insert the entries under the provider's `accept:`. The file is replaced whole, or not at all.

    Raises UsageError if the provider is not in the file, or is written in a way that text cannot be inserted into
    (braces); the message holds the lines to insert by hand. Raises ConfigError if the result would not load.
    """
    text = path.read_text("utf-8")
    lines = text.splitlines(keepends=True)
    at, indent, with_key = _place(path, text, provider, entries)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    rows = [f"{' ' * indent}accept:\n"] if with_key else []
    item = indent + 2 if with_key else indent
    rows += [f"{' ' * item}- {row(entry)}\n" for entry in entries]
    new = "".join([*lines[:at], *rows, *lines[at:]])
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(new, "utf-8")
        before = load_project(path, path.parent).providers
        after = load_project(temporary, path.parent).providers
        if set(before) != set(after) or len(after[provider].accept) != len(before[provider].accept) + len(entries):
            raise UsageError(_by_hand(path, provider, entries))
        os.replace(temporary, path)
    except OSError as exc:
        raise UsageError(f"{path}: cannot be written ({exc.strerror}); check its permissions") from exc
    finally:
        temporary.unlink(missing_ok=True)


def _place(path: Path, text: str, provider: str, entries: Sequence[dict[str, Any]]) -> tuple[int, int, bool]:
    """Line to insert before, column of the new lines, and whether the key `accept:` is to be written too."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    found = _member(_member(root, "providers"), provider)
    if found is None:
        raise UsageError(f"{path}: no provider {provider!r} in it; the report names another project's candidate")
    if not isinstance(found, yaml.MappingNode) or found.flow_style or not found.value:
        raise UsageError(_by_hand(path, provider, entries))
    accept = _member(found, "accept")
    if accept is None:
        return _after(found.value[-1][1]), found.value[0][0].start_mark.column, True
    if not isinstance(accept, yaml.SequenceNode) or accept.flow_style or not accept.value:
        raise UsageError(_by_hand(path, provider, entries))
    return _after(accept.value[-1]), accept.start_mark.column, False


def _member(node: yaml.Node | None, name: str) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == name:
                found: yaml.Node = value
                return found
    return None


def _after(node: yaml.Node) -> int:
    """The line after a node: that of its last leaf, as a block's own end lies where the next one starts."""
    while isinstance(node, yaml.MappingNode | yaml.SequenceNode) and node.value and not node.flow_style:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    end: int = node.end_mark.line
    return end if node.end_mark.column == 0 and end > node.start_mark.line else end + 1


def _by_hand(path: Path, provider: str, entries: Sequence[dict[str, Any]]) -> str:
    return f"{path}: written in a style that no line can be inserted into; add by hand: {as_yaml(provider, entries)}"
