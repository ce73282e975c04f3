"""Acceptances written into providers.yaml as text: comments, order and style of the rest stay as they are."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from harness.config import Provider, load_project
from harness.errors import ConfigError, UsageError
from harness.runs.accepting import as_yaml, row


def write_acceptances(path: Path, provider: str, entries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Write the entries under the provider's `accept:`, and return them as written.

    One of the same rule, shape and baseline is replaced where it stands; its owner stays, unless another is given. The
    file is replaced whole, or not at all; a link stays one, line ends and permissions are those there were.

    Raises UsageError if the provider is not in the file, is written in a way that text cannot be inserted into (braces)
    or shares it with another provider (an alias or merge key), or if the file is read-only; but for the last, the
    message holds the lines to insert by hand. Raises ConfigError if an entry would not load.
    """
    before = load_project(path, path.parent).providers
    try:
        text = path.read_bytes().decode()
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as exc:
        raise UsageError(f"{path}: cannot be read ({exc.strerror}); check its permissions") from exc
    if not mode & 0o222:  # it could be replaced all the same, but somebody wants it to stay as it is
        raise UsageError(f"{path}: cannot be written (read-only); check its permissions")
    lines = text.splitlines(keepends=True)
    line_end = lines[0][len(lines[0].rstrip("\r\n")) :] or "\n"
    at, indent, with_key, standing = _place(path, text, provider, entries)
    if lines and not lines[-1].endswith(("\n", "\r")):
        lines[-1] += line_end
    rows = [f"{' ' * indent}accept:{line_end}"] if with_key else []  # an `accept:` of its own
    item = indent + 2 if with_key else indent
    edits: list[tuple[int, int, str]] = []  # lines from, to, and what stands there then
    added = []
    written = []
    for entry in entries:
        found = standing.get((entry["rule"], entry.get("shape"), entry.get("baseline")))
        if found is not None and found.owner is not None:
            entry = {**entry, "owner": entry.get("owner", found.owner)}
        written.append(entry)
        line = f"{' ' * item}- {row(entry)}{line_end}"
        if found is None:
            added.append(line)
        else:
            edits.append((found.first, found.after, line))
    if added:
        edits.append((at, at, "".join([*rows, *added])))
    for start, end, line in sorted(edits, reverse=True):  # from the bottom up, so that line numbers hold
        lines[start:end] = [line]
    new = "".join(lines)
    target = path.resolve()
    temporary = target.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(new.encode())
        temporary.chmod(mode)
        after = load_project(temporary, path.parent).providers
        if not _only_added(before, after, provider, len(added)):
            raise UsageError(_by_hand(path, provider, entries))
        os.replace(temporary, target)
    except ConfigError as exc:
        if ".accept[" not in exc.key and (exc.key or exc.__cause__):  # not what an entry says, but where it would stand
            raise UsageError(_by_hand(path, provider, entries)) from exc
        raise ConfigError(path, exc.key, exc.problem) from exc  # not in the file as it stands, but as it would be
    except OSError as exc:
        raise UsageError(f"{path}: cannot be written ({exc.strerror}); check its permissions") from exc
    finally:
        temporary.unlink(missing_ok=True)
    return written


def _only_added(before: Mapping[str, Provider], after: Mapping[str, Provider], provider: str, count: int) -> bool:
    """Whether the provider has so many entries more, and no other provider has any others than before."""
    accepted = [{name: one.accept for name, one in providers.items()} for providers in (before, after)]
    had, has = (entries.pop(provider) for entries in accepted)
    return accepted[0] == accepted[1] and len(has) == len(had) + count


class Standing(NamedTuple):
    """An entry that is there: its lines, from `first` up to `after`, and its owner."""

    first: int
    after: int
    owner: str | None


Key = tuple[str, str | None, str | None]  # rule, shape, baseline


def _place(
    path: Path, text: str, provider: str, entries: Sequence[dict[str, Any]]
) -> tuple[int, int, bool, dict[Key, Standing]]:  # fmt: skip
    """Line to insert before, column of the new lines, whether the key `accept:` is to be written too, and the entries
    that stand there already; those that also name a path are others."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    found = _member(_member(root, "providers"), provider)
    if found is None:
        raise UsageError(f"{path}: no provider {provider!r} in it; the report names another project's candidate")
    if not isinstance(found, yaml.MappingNode) or found.flow_style or not found.value:
        raise UsageError(_by_hand(path, provider, entries))
    accept = _member(found, "accept")
    if accept is None:
        return _after(found.value[-1][1]), found.value[0][0].start_mark.column, True, {}
    if not isinstance(accept, yaml.SequenceNode) or accept.flow_style or not accept.value:
        raise UsageError(_by_hand(path, provider, entries))
    standing: dict[Key, Standing] = {}
    for item in accept.value:
        members = {key.value: value.value for key, value in item.value} if isinstance(item, yaml.MappingNode) else {}
        if "rule" in members and "path" not in members:
            key = (members["rule"], members.get("shape"), members.get("baseline"))
            standing[key] = Standing(item.start_mark.line, _after(item), members.get("owner"))
    return _after(accept.value[-1]), accept.start_mark.column, False, standing


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
