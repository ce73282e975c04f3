"""The clients that a provider declares: run on the streams a gate judges, and what that does to its findings.

Source: DESIGN, "Evidence". For users: docs/evidence.md. A severity drops one step only if every declared client read
the candidate's stream right, and each quirk of its dialect that shows the rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import msgspec

from harness import __version__
from harness.adapters import SDKS
from harness.adapters.served import SdkTarget
from harness.answers import FEATURES, Answer, CaseOutcome, Expected, Verdict, judge
from harness.cases import Case, quirk_cases
from harness.clients.evidence import quirks_of
from harness.clients.table import CLIENTS
from harness.config import Provider
from harness.cutover import Side
from harness.cuts import offsets
from harness.errors import HarnessError, UsageError
from harness.findings import ClientRun, Finding, Severity
from harness.rules import in_order
from harness.runs.check import shown_features, skipped
from harness.runs.named import named_target
from harness.settings import suggestion
from harness.structure import read
from harness.targets import Target, Trial, load_callable

STREAM_CUTS = ("whole", "recorded")
QUIRK_CUTS = ("whole", "bytes")
SAYS = 3  # differences of a stream that are told
SHOWN = {"usage": "usage", "finish": "finish_reason", "reasoning": "reasoning"}
"""By family of rules the feature they are about, where an answer without it is right all the same."""
UNPROVEN = ("timing",)  # families of rules about when bytes came: clients are run without the waits
BELOW = {Severity.FATAL: Severity.NEGOTIABLE, Severity.NEGOTIABLE: Severity.COSMETIC}


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """A declared client, ready to run. `version` is null for a callable of the user's own."""

    name: str
    version: str | None
    target: Target


def stream_case(name: str, side: Side) -> Case:
    """A judged stream as a case. The right reading is our own."""
    dialect = side.structure.dialect
    expected = msgspec.convert(msgspec.to_builtins(read(side.recording, dialect).message), Expected)
    return Case(name=name, recording=side.recording, dialect=dialect, expected=expected)


def declared(provider: Provider) -> Clients | None:
    """The clients of the provider's entry, null if it declares none.

    Raises ConfigError, naming file and key: an unknown name, an SDK that is not installed, a callable that cannot be
    loaded, a client declared twice, or one that does not read the provider's dialect and so would never run.
    """
    found: list[Client] = []
    for position, name in enumerate(provider.clients):
        try:
            client = _client(name, provider)
        except UsageError as exc:
            raise provider.error(f"clients[{position}]", str(exc)) from exc
        if any(other.name == client.name for other in found):
            raise provider.error(f"clients[{position}]", f"{name!r} is declared already, as {client.name!r}; keep one")
        dialects = client.target.claims.dialects or ()
        if provider.dialect not in dialects:
            problem = f"{name} does not read {provider.dialect}, so it cannot run; it reads {', '.join(dialects)}"
            raise provider.error(f"clients[{position}]", f"{problem}; name a client of this dialect")
        found.append(client)
    return Clients(found) if found else None


def _client(name: str, provider: Provider) -> Client:
    """Raises UsageError."""
    place = name
    if ":" not in name:
        if name not in SDKS and name not in CLIENTS:
            near = suggestion(name, [*SDKS, *CLIENTS]) or ";"
            raise UsageError(
                f"no client {name!r}{near} there are the SDKs {', '.join(SDKS)}, the client models of docs/clients.md, "
                "and your own as package.module:callable"
            )
        place = f"{'sdk' if name in SDKS else 'client'}:{name}"
    target = named_target(place)
    if isinstance(target, SdkTarget):
        return Client(name=target.sdk.name, version=target.version, target=target)
    if target is not None:
        return Client(name=place.removeprefix("client:"), version=__version__, target=target)
    own = load_callable(place, root=provider.root)
    if own.claims.dialects is None:  # whoever declares it for a provider says that it reads that provider
        own.claims = msgspec.structs.replace(own.claims, dialects=(provider.dialect,))
    return Client(name=place, version=None, target=own)


class Clients:
    """The declared clients of one run. Each is started once, and asked about each quirk once."""

    def __init__(self, clients: Sequence[Client]) -> None:
        self._clients = clients
        self._on_quirks: dict[tuple[str, str], Verdict] = {}  # by client and quirk

    def weigh(
        self, findings: Sequence[Finding], baseline: Side, candidate: Side
    ) -> tuple[list[Finding], list[ClientRun]]:  # fmt: skip
        """Run every client on both streams of a shape, and on the quirks of the findings' rules.

        Returns the findings, those whose severity drops with `dropped_from`, and the runs in the order of declaration.
        """
        streams = stream_case("baseline", baseline), stream_case("candidate", candidate)
        grave = {finding.rule for finding in findings if finding.severity in BELOW}
        quirks = {
            rule: quirks_of(rule, candidate.structure.dialect)
            for rule in sorted(grave) if family_of(rule) not in UNPROVEN
        }  # fmt: skip
        held = [self._ask(client, streams, quirks) for client in self._ready]
        harmless = {
            rule for rule, names in quirks.items()
            if names and all(one.stands(rule, names) for one in held)
        }  # fmt: skip
        weighed = [_dropped(finding) if finding.rule in harmless else finding for finding in findings]
        return in_order(weighed), [one.told(quirks) for one in held]

    def _ask(self, client: Client, streams: Iterable[Case], quirks: Mapping[str, Sequence[str]]) -> _Held:
        return _Held(
            client=client, streams={case.name: verdict_on(client.target, case, STREAM_CUTS) for case in streams},
            quirks={name: self._on_quirk(client, name) for names in quirks.values() for name in names},
        )  # fmt: skip

    def _on_quirk(self, client: Client, name: str) -> Verdict:
        key = client.name, name
        if key not in self._on_quirks:
            self._on_quirks[key] = verdict_on(client.target, self._quirks[name], QUIRK_CUTS)
        return self._on_quirks[key]

    @cached_property
    def _ready(self) -> Sequence[Client]:
        """The clients. A callable that declares no features has those its answers show, as for `check`."""
        for client in self._clients:
            target = client.target
            if client.version is None and target.claims.features is None:
                shown = shown_features(target, self._quirks.values())
                target.claims = msgspec.structs.replace(target.claims, features=shown, inferred=shown is not None)
        return self._clients

    @cached_property
    def _quirks(self) -> Mapping[str, Case]:
        return {case.name: case for case in quirk_cases()}


class _Held(msgspec.Struct, kw_only=True):
    """What one client made of a shape: the verdicts by side, and by quirk."""

    client: Client
    streams: dict[str, Verdict]
    quirks: dict[str, Verdict]

    def stands(self, rule: str, quirks: Iterable[str]) -> bool:
        """Whether the rule does this client no harm: right on the candidate's stream and, tellingly, on each quirk."""
        return _right(self.streams["candidate"]) and all(
            _right(self.quirks[name]) and not self._silent(rule, self.quirks[name]) for name in quirks
        )

    def _silent(self, rule: str, verdict: Verdict) -> bool:
        """Whether being right tells nothing about the rule: the answer does not show what the rule is about."""
        shown = SHOWN.get(family_of(rule))
        return shown is not None and verdict.outcome is CaseOutcome.RIGHT and shown not in verdict.compared

    def told(self, quirks: Mapping[str, Sequence[str]]) -> ClientRun:
        """The run as the report has it."""
        says = [
            f"{side}: {line}" for side, verdict in self.streams.items() if not _right(verdict)
            for line in verdict.differences[:SAYS]
        ]  # fmt: skip
        says += [
            f"{rule}: being right says nothing about it, as the answers show no {SHOWN[family_of(rule)]}"
            for rule, names in quirks.items() if any(self._silent(rule, self.quirks[name]) for name in names)
        ]  # fmt: skip
        return ClientRun(
            name=self.client.name, version=self.client.version, says=says,
            baseline=str(self.streams["baseline"].outcome), candidate=str(self.streams["candidate"].outcome),
            quirks={name: str(verdict.outcome) for name, verdict in self.quirks.items()},
        )  # fmt: skip


def verdict_on(target: Target, case: Case, families: Iterable[str]) -> Verdict:
    """The worst verdict on a case over families of cuts; skipped, with the reason, if it is not for the target."""
    if reason := skipped(case, target):
        return Verdict(outcome=CaseOutcome.SKIPPED, differences=(reason,))
    features = FEATURES if target.claims.features is None else target.claims.features
    verdicts: dict[tuple[int, ...], Verdict] = {}
    for family in families if target.sees_cuts else ("whole",):
        cuts = tuple(offsets(case.recording.body, family, [read.end for read in case.recording.reads]))
        if cuts not in verdicts:
            trial = Trial(case=case.name, dialect=case.dialect, recording=case.recording, cuts=cuts)
            verdicts[cuts] = judge(_answer(target, trial), case.expected, features)
            if verdicts[cuts].outcome is CaseOutcome.HUNG:
                break  # each further run would cost the whole time limit
    return max(verdicts.values(), key=lambda verdict: verdict.outcome.rank)


def _answer(target: Target, trial: Trial) -> Answer:
    try:
        return target.run(trial)
    except (OSError, HarnessError) as exc:  # no server for it, no process: it did not run, which proves nothing
        return Answer(state="broke", reason=f"it could not be run: {exc}")


def family_of(rule: str) -> str:
    """`usage` of `usage.position`."""
    return rule.partition(".")[0]


def _right(verdict: Verdict) -> bool:
    return verdict.outcome in (CaseOutcome.RIGHT, CaseOutcome.TOLD)


def _dropped(finding: Finding) -> Finding:
    below = BELOW.get(finding.severity)
    if below is None:
        return finding
    return msgspec.structs.replace(finding, severity=below, dropped_from=finding.severity)
