"""What the tests of the vendors' facts share: payloads to structures, findings as code -> severity, faults, rewrites.

A stream is a list of payloads; a fault takes one and returns another. `faults` does each to a copy.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from mutations import ndjson, sse
from reading import FIXTURES, ROOT, quirk, quirks
from strategies import RETYPED, places

from harness.asked import Asked
from harness.catalogue import CATALOGUE
from harness.compare import compare
from harness.findings import Severity, worst
from harness.recording import Recording
from harness.rules import lint
from harness.sse import LineParser, ServerSentEvent, SSEParser
from harness.structure import Structure, signature, structure

SHARED = ROOT.parent / "shared"  # the corpora; not part of a checkout
# What is found by its letters: gone when every letter is another.
MARKERS = re.compile(r"text\.(markup|think)|markup-in-text|reasoning\.in-text")
Payloads = list[dict[str, Any]]
Fault = Callable[[Payloads], Any]


def facts(body: bytes | Payloads, dialect: str, asked: Asked | None = None, **head: Any) -> Structure:
    """The structure of a body, or of payloads laid out as the dialect's vendor does."""
    if isinstance(body, list):
        body = ndjson(body) if dialect == "ollama" else sse(body, names=dialect in ("anthropic", "cohere"))
    return structure(Recording(**{"body": body, "status": 200, "end": "eof", **head}), dialect, asked)


def told(found: Structure) -> dict[str, str]:
    """What lint says, by code: the severity's initial."""
    return {finding.rule: finding.severity[0] for finding in lint(found)}


def grave(found: Structure) -> dict[str, str]:
    """What lint says that is more than cosmetic."""
    return {code: severity for code, severity in told(found).items() if severity != "c"}


def against(baseline: Structure, candidate: Structure) -> dict[str, str]:
    """What a comparison says, by code: the severity's initial."""
    return {finding.rule: finding.severity[0] for finding in compare([baseline], candidate).findings}


def faulty(payloads: Payloads, fault: Fault) -> Payloads:
    """The payloads with the fault: done in place, or what it returns."""
    stream = copy.deepcopy(payloads)
    found = fault(stream)
    return stream if found is None else list(found)


def quirks_of(dialect: str) -> Iterator[tuple[str, dict[str, Any], Structure]]:
    """Name, case and structure of each quirk of the dialect."""
    for spec in quirks():
        case, body = quirk(spec)
        if case["family"] == dialect:
            yield spec.stem, case, facts(body, dialect)


def labelled_wrong(dialect: str) -> list[str]:
    """The quirks of the dialect whose worst finding is not their label, or that have several grave ones."""
    out = []
    for name, case, found in quirks_of(dialect):
        findings = lint(found)
        if worst(findings) != case["verdict"] or len([f for f in findings if f.severity != Severity.COSMETIC]) > 1:
            out.append(f"{name}: {told(found)}, not {case['verdict']}")
    return out


def wire_streams(family: str) -> Iterator[tuple[str, bytes]]:
    """Streams of the corpus that are byte for byte what a server sent, by name; none outside the project's machine."""
    manifest = SHARED / "corpus" / "MANIFEST.jsonl"
    if manifest.exists():
        for line in manifest.read_text("utf-8").splitlines():
            entry = json.loads(line)
            if entry["family"] == family and entry["fidelity"] == "wire":
                yield entry["id"].partition(".")[2], (SHARED.parent / entry["file"]).read_bytes()


def recorded(dialect: str, family: str, telling: bytes) -> Iterator[tuple[str, Payloads]]:
    """Payloads of streams that real servers sent: of the corpora, and of the fixtures that have `telling` in them."""
    bodies = dict(wire_streams(family))
    local = SHARED.glob("corpus-local/*/messages/*.sse") if dialect == "anthropic" else ()
    for path in sorted([*local, *FIXTURES.glob("*/*.sse")]):
        body = path.read_bytes()
        if telling in body[:400]:
            bodies[f"{path.parts[-3]}/{path.parts[-2]}/{path.stem}"] = body
    for name, body in bodies.items():
        yield name, payloads_of(body, dialect)


def payloads_of(body: bytes, dialect: str) -> Payloads:
    """The JSON objects of a body, in order."""
    parser = LineParser() if dialect == "ollama" else SSEParser()
    events = [event for event in parser.feed(body) if isinstance(event, ServerSentEvent)]
    return [json.loads(event.data) for event in events if event.data[:1] == b"{"]


def bent_once(payloads: Payloads, dialect: str) -> int:
    """Read the payloads with each member once deleted and once of every other type; how many streams that makes.

    Whatever a server sends, its facts can be gathered and written, and every note has a rule.
    """
    count = 0
    for place in range(sum(1 for _ in places(payloads))):
        for change in (None, *RETYPED):
            stream = copy.deepcopy(payloads)
            node, key = next(found for number, found in enumerate(places(stream)) if number == place)
            if change is None:
                del node[key]
            else:
                node[key] = change(node[key])
            found = facts(stream, dialect)
            assert found.notes.keys() <= CATALOGUE.keys()
            assert signature(found)
            count += 1
    return count


# -- rewrites that leave the structure as it is (RULES, section 1) ------------------------------------------------


def halves(text: Any) -> tuple[str, str] | None:
    """A text in two pieces, None where there is nothing to split."""
    if not isinstance(text, str) or len(text) < 2:
        return None
    return text[: len(text) // 2], text[len(text) // 2 :]


def renamed(payloads: Payloads, names: Iterable[str]) -> Payloads:
    """Every value of a member of these names another one, the same for the same."""
    stream = copy.deepcopy(payloads)
    seen: dict[str, str] = {}
    for node, key in list(places(stream)):
        if key in names and isinstance(node[key], str) and node[key]:
            node[key] = seen.setdefault(node[key], f"renamed-{len(seen)}")
    return stream


def wordless(payloads: Payloads, names: Iterable[str]) -> Payloads:
    """Every letter in a member of these names a `q`."""
    stream = copy.deepcopy(payloads)
    for node, key in list(places(stream)):
        if key in names and isinstance(node[key], str):
            node[key] = re.sub(r"[^\W\d_]", "q", node[key])
    return stream


def facts_alone(found: Structure) -> list[str]:
    """The facts of the wire, one a line: what must not change."""
    return [line for line in signature(found) if line.startswith("wire.")]
