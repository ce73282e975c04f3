"""What clients were seen to do on the quirks: which fail under a rule, and how each model fails. Data, read once.

The files beside this one are computed by tests/client_tables.py and, of real SDKs, tests/sdk_tables.py; tests hold
them true.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from harness.answers import CaseOutcome

FOLDER = Path(__file__).resolve().parent


class Symptom(NamedTuple):
    """How one case fails: its outcome, and a mark for each difference: its field and a checksum of the line.

    Of what was raised the mark is the type alone: the words change with language and version. `cut_only`: it is right
    where the body comes in one piece; None if that is not known.
    """

    outcome: CaseOutcome
    marks: frozenset[str]
    cut_only: bool | None

    @property
    def only_word(self) -> bool:
        """Whether all that is wrong is the word for a good end: the consumer has the whole answer, and takes it so."""
        return self.outcome is CaseOutcome.WRONG and self.marks == ONLY_WORD


class Signature(NamedTuple):
    """The quirks that a wrong client model fails, and how; those of other dialects than its own it does not read."""

    dialects: tuple[str, ...]
    fails: dict[str, Symptom]


def symptom(outcome: CaseOutcome, differences: Iterable[str], cut_only: bool | None) -> Symptom:
    """The symptom of a case with this outcome and these differences, as `judge` writes them."""
    wrong = outcome is CaseOutcome.WRONG
    marks = (_mark(line) if wrong else field_of(line) for line in differences)
    return Symptom(outcome, frozenset(marks), cut_only)


def _mark(line: str) -> str:
    return f"{field_of(line)} {crc32(line.encode()):08x}"


def field_of(line: str) -> str:
    """What a difference is about: what stands before its first colon."""
    return line.partition(":")[0]


ONLY_WORD = frozenset({_mark('terminal: "done" is not "finish"')})
"""Says that a marker came where a finish reason alone did: both are the end of a whole answer."""


def breaks_of(rule: str, dialect: str | None = None) -> list[str]:
    """The clients proven to fail under a rule: SDKs with the version that was run, then client models by name.

    Proven: wrong on a quirk whose worst finding is this rule alone, and right on a documented stream of the same make.
    With a dialect: the models that read it and, where quirks of that dialect show the rule, fail one of these.
    """
    models: Iterable[str] = _data("breaks.json").get(rule, ())
    if dialect is not None:
        models = (name for name in models if _fails_in(dialect, rule, name))
    return [*_data("sdk_breaks.json").get(rule, ()), *models]


def _fails_in(dialect: str, rule: str, model: str) -> bool:
    known, quirks = signatures()[model], quirks_of(rule, dialect)
    if not quirks:
        return dialect in known.dialects
    return any(name in known.fails and not known.fails[name].only_word for name in quirks)


def quirks_of(rule: str, dialect: str) -> list[str]:
    """The quirks of a dialect that show a rule: it is a worst finding of theirs, a cosmetic one the only one."""
    dialects = case_dialects()
    return [name for name in _data("shown_by.json").get(rule, ()) if dialects[name] == dialect]


@cache
def signatures() -> dict[str, Signature]:
    """Of each wrong client model."""
    return {
        name: Signature(
            tuple(held["dialects"]),
            {
                case: Symptom(CaseOutcome(outcome), frozenset(marks), cut_only)
                for case, (outcome, cut_only, marks) in held["fails"].items()
            },
        )
        for name, held in _data("signatures.json")["models"].items()
    }


@cache
def case_dialects() -> dict[str, str]:
    """The quirks that the models were run on, with their dialects."""
    found: dict[str, str] = _data("signatures.json")["cases"]
    return found


@cache
def _data(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / name).read_bytes())
    return found
