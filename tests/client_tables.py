"""Computes what is known of the client models: how each fails the quirks, what each rule breaks, the table for users.

`python tests/client_tables.py` writes harness/clients/signatures.json, breaks.json, shown_by.json and docs/clients.md
anew. What real SDKs break is computed by sdk_tables.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from controls import Make, control

from harness.answers import Answer, CaseOutcome, Expected, Verdict, judge
from harness.cases import Case, quirk_cases
from harness.clients.evidence import FOLDER, Symptom, symptom
from harness.clients.model import ClientModel
from harness.clients.table import CLIENTS, RIGHT
from harness.cuts import offsets, pieces
from harness.findings import Severity, worst
from harness.rules import lint
from harness.structure import structure

DOCS = Path(__file__).resolve().parent.parent / "docs" / "clients.md"
WRONG = {name: model for name, model in CLIENTS.items() if not model.right}
SHOWN = 100  # characters of a difference in the table
PYTHONS_WORDS = ("AttributeError", "JSONDecodeError", "TypeError", "UnicodeDecodeError")  # they change with its version


def run(model: ClientModel, dialect: str, body: Iterable[bytes], expected: Expected) -> Verdict:
    """What a model's answer to the pieces comes to."""
    try:
        answer = Answer(state="accepted", value=model(body, dialect))
    except Exception as exc:
        answer = Answer(state="rejected", reason=f"{type(exc).__name__}: {exc}")
    return judge(answer, expected)


def families(model: ClientModel) -> tuple[str, ...]:
    """The cuts that can matter: a model that does not split or decode in its own way is the right machine there."""
    return ("whole", "bytes") if model.bends_bytes else ("whole",)


def verdicts(model: ClientModel, case: Case) -> list[Verdict]:
    """What a case comes to whole and, where it can matter, byte by byte; nothing if the model is not asked."""
    if case.dialect not in model.dialects or (case.recovered and model.features and "recovery" not in model.features):
        return []
    body = case.recording.body
    return [run(model, case.dialect, pieces(body, offsets(body, family)), case.expected) for family in families(model)]


def failure(model: ClientModel, case: Case) -> tuple[Verdict, bool] | None:
    """The first way in which a model fails a case, and whether only if the body is cut; None if it does not."""
    found = verdicts(model, case)
    return next(((one, at > 0) for at, one in enumerate(found) if not one.outcome.good), None)


def signature(model: ClientModel, cases: Iterable[Case]) -> dict[str, Any]:
    """The dialects a model reads, and the cases it fails with how: outcome, whether only if cut, marks."""
    failures = {case.name: found for case in cases if (found := failure(model, case))}
    seen = {name: symptom(one.outcome, one.differences, cut) for name, (one, cut) in failures.items()}
    fails = {name: [str(one.outcome), one.cut_only, sorted(one.marks)] for name, one in seen.items()}
    return {"dialects": list(model.dialects), "fails": fails}


def rules_of(case: Case) -> tuple[list[str], set[str]]:
    """The rules that a quirk shows, and all its notes, those that another one explains included.

    The rules are its worst findings; cosmetic ones only if there is one.
    """
    seen = structure(case.recording, case.dialect)
    found = lint(seen)
    rules = [finding.rule for finding in found if finding.severity is worst(found)]
    return ([] if worst(found) is Severity.COSMETIC and len(rules) > 1 else rules), set(seen.notes)


def right_on_controls(model: ClientModel, case: Case, rule: str) -> bool:
    """Whether the model reads documented streams of the case's make, cut in the same ways."""
    usage = case.expected.usage is not None or rule == "usage.missing"
    crlf = b"\r\n" in case.recording.body and rule != "sse.line-endings"
    for whole in (False,) if rule == "tool.whole-call" else (False, True):
        make = Make(case.expected, case.dialect, usage=usage, whole=whole)
        body = control(make, crlf)
        for family in families(model):
            cut = pieces(body, offsets(body, family))
            if not run(model, case.dialect, cut, make.expected()).outcome.good:
                return False
    return True


def only_word(failed: Any) -> bool:
    """Whether a failure of a signature is harmless: only the word for a good end is wrong. An SDK's has no marks."""
    return isinstance(failed, list) and Symptom(CaseOutcome(failed[0]), frozenset(failed[2]), failed[1]).only_word


def breaks(
    signatures: Mapping[str, Mapping[str, Any]],
    cases: Sequence[Case],
    right: Callable[[str, Case, str], bool] = lambda name, case, rule: right_on_controls(CLIENTS[name], case, rule),
) -> dict[str, list[str]]:
    """For each rule that a quirk shows, the wrong models that fail it though they are right on its controls.

    Where the quirk shows several rules, the model must be right on a quirk of each other one; and where it has further
    notes, a model that is known to fail under one of those proves nothing. `right` says of a model by its name whether
    it is right on the controls of a case and a rule.
    """
    shown = {case.name: rules_of(case) for case in cases}
    proofs: dict[tuple[str, str], set[str]] = {}  # rule, model: quirks

    def harmless(rule: str, name: str) -> bool:
        return any(rules == [rule] and quirk not in signatures[name]["fails"] for quirk, (rules, _) in shown.items())

    def blamed_elsewhere(rule: str, name: str, quirk: str) -> bool:
        others = (proofs.get((other, name), set()) for other in shown[quirk][1] - {rule})
        return any(rule not in shown[pure][1] for pures in others for pure in pures)

    for case in cases:
        rules = shown[case.name][0]
        for rule in rules:
            for name, failed in signatures.items():
                if only_word(failed["fails"].get(case.name)):
                    continue
                alone = all(harmless(other, name) for other in rules if other != rule)
                if case.name in failed["fails"] and alone and right(name, case, rule):
                    proofs.setdefault((rule, name), set()).add(case.name)
    found: dict[str, list[str]] = {}
    for (rule, name), quirks in sorted(proofs.items()):
        if not all(blamed_elsewhere(rule, name, quirk) for quirk in quirks):
            found.setdefault(rule, []).append(name)
    return found


def page(cases: Mapping[str, Case]) -> str:
    """docs/clients.md."""
    right = [f"| `{model.name}` | {model.about} |" for model in RIGHT.values()]
    wrong = [_row(model, failure(model, cases[model.killed_by])) for model in WRONG.values()]
    return HEAD.format(count=len(WRONG)) + "\n".join([*right, "", MIDDLE, *wrong]) + "\n"


def _row(model: ClientModel, failed: tuple[Verdict, bool] | None) -> str:
    assert failed is not None, f"{model.name} is not killed by {model.killed_by}"
    one, cut_only = failed
    line = one.differences[0]
    if line.startswith(PYTHONS_WORDS):
        line = line.partition(":")[0]
    how = line if len(line) <= SHOWN else line[: SHOWN - 3] + "..."
    how = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in how).replace("|", "\\|")
    shown = f"{one.outcome}{', if cut' if cut_only else ''}: `{how}`"
    return f"| `{model.name}` | {model.about} | {', '.join(model.dialects)} | `{model.killed_by}` | {shown} |"


HEAD = """# Client models

Small accumulators, side by side, that each read as a known kind of consumer does: three right ones, written in three
ways, and {count} wrong ones, each with one thing wrong. They serve three ends:

- **Mutants.** Every wrong one is killed by a quirk; a quirk that kills none proves little.
- **Diagnosis.** `harness check` compares what your accumulator fails with what each of these fails, and says "your
  accumulator behaves like: keys-by-id".
- **Evidence.** `breaks` of a finding names the models proven to fail under its rule: wrong on the quirk that shows the
  rule, right on a documented stream of the same make.

Each is a target:

```sh
harness check client:keys-by-id
```

This page is generated; `python tests/client_tables.py` writes it anew.

## Right

| model | how it is written |
|---|---|
"""
MIDDLE = """## Wrong

The case named is the clearest one; many fail others too. How it fails: the outcome, and the first difference.

| model | what it does | dialects | killed by | how it fails there |
|---|---|---|---|---|"""


def as_json(value: Mapping[str, Any]) -> str:
    """One entry a line, so that a change shows as a small diff."""
    entries = ",\n".join(f"{json.dumps(key)}: {json.dumps(entry)}" for key, entry in value.items())
    return f"{{\n{entries}\n}}"


def signatures_json(signatures: Mapping[str, Any], cases: Mapping[str, Case]) -> str:
    """harness/clients/signatures.json."""
    dialects = {name: case.dialect for name, case in cases.items()}
    return f'{{"cases": {as_json(dialects)},\n"models": {as_json(signatures)}}}\n'


def breaks_json(signatures: Mapping[str, Any], cases: Mapping[str, Case]) -> str:
    """harness/clients/breaks.json."""
    return as_json(breaks(signatures, list(cases.values()))) + "\n"


def shown_by(cases: Iterable[Case]) -> dict[str, list[str]]:
    """For each rule the quirks that show it, as `rules_of` says."""
    found: dict[str, list[str]] = {}
    for case in cases:
        for rule in rules_of(case)[0]:
            found.setdefault(rule, []).append(case.name)
    return dict(sorted(found.items()))


def main() -> None:
    """Write the four files."""
    cases = {case.name: case for case in quirk_cases()}
    signatures = {name: signature(model, cases.values()) for name, model in WRONG.items()}
    (FOLDER / "signatures.json").write_text(signatures_json(signatures, cases), encoding="utf-8")
    (FOLDER / "breaks.json").write_text(breaks_json(signatures, cases), encoding="utf-8")
    (FOLDER / "shown_by.json").write_text(as_json(shown_by(cases.values())) + "\n", encoding="utf-8")
    DOCS.write_text(page(cases), encoding="utf-8")


if __name__ == "__main__":
    main()
