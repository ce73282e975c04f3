"""Settings files, read strictly: YAML in which every value knows its place, so that an error can name it.

What `yaml.safe_load` lets through is refused here: two equal keys (it takes the last), words and numbers that YAML
turns into something else (`no`, `4.10`, `1_000`, `12:30`), aliases that grow without limit. Values are read from the
nodes, so the text as written is at hand.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import yaml

from harness.errors import ConfigError, why_unreadable
from harness.errors import suggestion as suggestion

MAX_BYTES = 256 * 1024
MAX_DEPTH = 50
MAX_NODES = 20_000  # aliases counted as often as they are used

_TAG = "tag:yaml.org,2002:"
_STR, _MERGE, _TIMESTAMP = _TAG + "str", _TAG + "merge", _TAG + "timestamp"
_READS_AS = {_TAG + "int": "a number", _TAG + "float": "a number", _TIMESTAMP: "a date"}
_PLAINLY = {_TAG + "int": "a plain decimal number, or ", _TAG + "float": "a plain decimal number, or ",
            _TAG + "bool": "true or false, or "}  # fmt: skip
_PLAIN_INT = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_PLAIN_FLOAT = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


@dataclass(frozen=True, slots=True)
class Place:
    """One value of a settings file. `file` is the path as the user knows it, `key` the dotted place ("" for all).

    Every reader raises ConfigError, which names both, unless the value is what it asks for.
    """

    file: str
    key: str
    node: yaml.Node

    def error(self, problem: str) -> ConfigError:
        """The error to raise about this value."""
        return ConfigError(self.file, self.key, problem)

    def members(self, allowed: Sequence[str] | None = None) -> dict[str, Place]:
        """The mapping's members. With `allowed`, any other key is an error that names the nearest one."""
        if not isinstance(self.node, yaml.MappingNode):
            raise self._not("a mapping (key: value)")
        found = {
            key.value: Place(self.file, _joined(self.key, key.value), value) for key, value in self.node.value
        }  # fmt: skip
        for name, place in found.items():
            if allowed is not None and name not in allowed:
                near = suggestion(name, allowed) or ";"
                raise place.error(f"unknown key{near} allowed: {', '.join(allowed)}")
        return found

    def entries(self) -> list[Place]:
        """The list's values."""
        if not isinstance(self.node, yaml.SequenceNode):
            raise self._not("a list")
        return [Place(self.file, f"{self.key}[{index}]", node) for index, node in enumerate(self.node.value)]

    @property
    def is_text(self) -> bool:
        """Whether YAML reads it as text."""
        return bool(self.node.tag == _STR)

    def text(self) -> str:
        """Text that is not blank. What YAML reads as something else must be quoted."""
        if not self.is_text or not isinstance(self.node, yaml.ScalarNode):
            raise self._not("text")
        value: str = self.node.value
        if not value.strip():
            raise self.error("must not be empty")
        return value

    def one_of(self, allowed: Sequence[str]) -> str:
        """One of the words."""
        value = self.text()
        if value not in allowed:
            near = suggestion(value, allowed) or ";"
            raise self.error(f"{_shown(value)} is not known{near} allowed: {', '.join(allowed)}")
        return value

    def seconds(self) -> float:
        """A number above 0."""
        value = self.json()
        if type(value) not in (int, float) or not 0 < value < math.inf:
            raise self._not("a number of seconds above 0")
        return float(value)

    def amount(self) -> float:
        """A number of 0 or more."""
        value = self.json()
        if type(value) not in (int, float) or not 0 <= value < math.inf:
            raise self._not("a number of 0 or more")
        return float(value)

    def integer(self, least: int, most: int) -> int:
        """A whole number in the range, both ends included."""
        value = self.json()
        if type(value) is not int or not least <= value <= most:
            raise self._not(f"a whole number from {least} to {most}")
        return value

    def day(self) -> date:
        """A day, written 2027-06-30, quoted or not."""
        value = self.node.value if self.node.tag in (_STR, _TIMESTAMP) else ""
        try:
            if isinstance(value, str) and _DAY.fullmatch(value):
                return date.fromisoformat(value)
        except ValueError:
            pass
        raise self._not("a day, such as 2027-06-30")

    def json(self) -> Any:
        """The value as JSON has it. Dates and other readings JSON does not know must be quoted."""
        node = self.node
        if isinstance(node, yaml.MappingNode):
            return {name: place.json() for name, place in self.members().items()}
        if isinstance(node, yaml.SequenceNode):
            return [place.json() for place in self.entries()]
        raw: str = node.value
        if node.tag == _STR:
            return raw
        if node.tag == _TAG + "null":
            return None
        if node.tag == _TAG + "bool" and raw.lower() in ("true", "false"):
            return raw.lower() == "true"
        if node.tag == _TAG + "int" and _PLAIN_INT.fullmatch(raw) and len(raw) < 400:
            return int(raw)
        if node.tag == _TAG + "float" and _PLAIN_FLOAT.fullmatch(raw) and math.isfinite(float(raw)):
            return float(raw)
        plainly = _PLAINLY.get(node.tag, "")
        raise self.error(f"YAML reads {_shown(raw)} as {_reading(node)}; write {plainly}{_quoted(raw)} in quotes")

    def _not(self, wanted: str) -> ConfigError:
        node = self.node
        if isinstance(node, yaml.MappingNode):
            return self.error(f"must be {wanted}, but is a mapping")
        if isinstance(node, yaml.SequenceNode):
            return self.error(f"must be {wanted}, but is a list")
        raw: str = node.value
        if node.tag == _TAG + "null":
            return self.error(f"must be {wanted}, but is empty; leave the key out if there is nothing to say")
        if wanted == "text":
            return self.error(f"must be text, but YAML reads {_shown(raw)} as {_reading(node)}; write {_quoted(raw)}")
        return self.error(f"must be {wanted}, but is {_shown(raw)}")


def load_settings(path: Path, shown: str, *, remedy: str = "fill it in, or leave it out") -> Place:
    """The root of a YAML file. `shown` is its name in errors.

    Raises ConfigError: unreadable, too large, not YAML, empty, a key given twice or no text, aliases out of hand.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as exc:
        raise ConfigError(shown, "", f"cannot be read: {why_unreadable(exc)}") from exc
    if len(raw) > MAX_BYTES:
        raise ConfigError(shown, "", f"is larger than {MAX_BYTES // 1024} KiB; a file of settings is not")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = raw.count(b"\n", 0, exc.start) + 1
        raise ConfigError(shown, "", f"line {line}: is not UTF-8; save the file as UTF-8") from exc
    try:
        root = _Loader(text).get_single_node()
        if root is None:
            raise ConfigError(shown, "", f"is empty; {remedy}")
        _check(Place(shown, "", root), set())
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        problem = " ".join((exc.problem or exc.context or "is not YAML").split())
        tab = "; indent with blanks, not with tabs" if "'\\t'" in problem else ""
        raise ConfigError(shown, "", f"{where}{problem}{tab}") from exc
    except yaml.reader.ReaderError as exc:
        line = text.count("\n", 0, exc.position) + 1
        raise ConfigError(shown, "", f"line {line}: holds a control character; remove it") from exc
    return Place(shown, "", root)


class _Loader(yaml.SafeLoader):
    """Composes nodes only, within limits on depth and on size after aliases."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.depth = 0
        self.total = 0
        self.sizes: dict[int, int] = {}  # by id of a finished node: how many nodes it stands for

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        mark: Any = event.start_mark
        if isinstance(event, yaml.AliasEvent):
            node = super().compose_node(parent, index)
            if id(node) not in self.sizes:
                problem = "an alias refers to what it stands in"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=mark)
            self.total += self.sizes[id(node)]
        else:
            before = self.total
            self.total += 1
            self.depth += 1
            if self.depth > MAX_DEPTH:
                problem = f"nested more than {MAX_DEPTH} deep"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=mark)
            node = super().compose_node(parent, index)
            self.depth -= 1
            self.sizes[id(node)] = self.total - before
        if self.total > MAX_NODES:
            problem = f"more than {MAX_NODES} values, aliases counted; write less, or fewer aliases"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=mark)
        return node


# YAML 1.1 takes 1e-3 for text; JSON, and whoever writes it, for a number.
_Loader.add_implicit_resolver(
    _TAG + "float", re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def _check(place: Place, seen: set[int]) -> None:
    """Refuse keys given twice and keys that are no text, in all that lies under the place; resolve merge keys (<<)."""
    node = place.node
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for entry in place.entries():
            _check(entry, seen)
    elif isinstance(node, yaml.MappingNode):
        lines: dict[str, int] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode) or key.tag not in (_STR, _MERGE):
                raw = _shown(key.value) if isinstance(key, yaml.ScalarNode) else "a list or mapping"
                raise place.error(f"line {line}: a key must be text, but is {raw}; quote it")
            name = _joined(place.key, key.value)
            if key.value in lines:
                first = lines[key.value]
                where = f"in lines {first} and {line}" if first != line else f"in line {line}"
                raise ConfigError(place.file, name, f"given twice, {where}; keep one")
            lines[key.value] = line
            _check(Place(place.file, name, value), seen)
        # Merged members come first, so the mapping's own win in `members`.
        yaml.constructor.SafeConstructor().flatten_mapping(node)


def _reading(node: yaml.Node) -> str:
    """What YAML makes of a plain value that looks like text."""
    if node.tag == _TAG + "bool":
        return "true" if node.value.lower() in ("yes", "on", "true") else "false"
    return _READS_AS.get(node.tag, node.tag.removeprefix(_TAG))


def _joined(key: str, name: str) -> str:
    part = name if _PLAIN_KEY.fullmatch(name) else _quoted(name)
    return f"{key}.{part}" if key else part


def _quoted(text: str) -> str:
    """In double quotes, on one line, control characters as escapes."""
    return json.dumps(text[:60], ensure_ascii=not text.isprintable())


def _shown(text: str) -> str:
    return text[:60] if text.isprintable() else _quoted(text)
