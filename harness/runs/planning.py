"""`harness plan`: the requests that a record or a gate would send, the most they may cost, and what caps say to it.

Nothing is sent, and no key is needed. Attempts that repeat what was not measured, and the recorder's own after a 429 or
503, come on top; caps count them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import msgspec

from harness.bodies import Prepared, request_for
from harness.config import Project, Provider, Resolved
from harness.errors import ConfigError
from harness.runs.gate import plan as plan_of_gate
from harness.runs.parity import whole_request
from harness.runs.recording import canonical
from harness.runs.sending import cost_of, token_ceilings
from harness.shapes import ASKED_ROWS
from harness.store import shapes_of

PLAN_FORMAT = "sse-harness-plan/1"


class PlannedRequest(msgspec.Struct, kw_only=True):
    """What is asked for one shape: `requests` counts takes or samples, each in as many copies as are sent at once.

    `input_tokens` and `output_tokens` are the most that all of them together may have, `cost` the most they may cost;
    null: not known. `skipped` is why nothing is sent.
    """

    provider: str
    shape: str
    streamed: bool = True
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int | None = None
    cost: float | None = None
    skipped: str | None = None


class PlannedProvider(msgspec.Struct, kw_only=True):
    """The sums over one provider, its caps (null: none), and `stops`: what would stop the run, in words.

    `advice` is what to set in providers.yaml so that the most is known.
    """

    provider: str
    requests: int
    input_tokens: int
    output_tokens: int | None
    cost: float | None
    cap_requests: int | None
    cap_cost: float | None
    parallel: int
    stops: list[str] = []
    advice: list[str] = []


class Plan(msgspec.Struct, kw_only=True):
    """What `harness plan` says. `baseline` is null for a plan of recordings."""

    format: str = PLAN_FORMAT
    baseline: str | None
    requests: list[PlannedRequest]
    providers: list[PlannedProvider]


def plan_run(
    project: Project, names: Sequence[str], *, shapes: Sequence[str] = (), times: int = 1, parity: bool = False,
    record: bool = False, environ: Mapping[str, str],
) -> Plan:  # fmt: skip
    """The plan of `harness gate FIRST OTHER` for each other name if the first has fixtures, else of `harness record`.

    One name, or `record`, is a plan of recordings. `times` are takes or samples. Raises UsageError and ConfigError as
    these verbs do before they send anything, but for what the environment lacks, which is told in `stops`.
    """
    gated = len(names) > 1 and not record and bool(shapes_of(project.fixtures, names[0]))
    baseline = names[0] if gated else None
    requests, providers = [], []
    for name in dict.fromkeys(names[1:] if gated else names):
        provider = project.provider(name)
        resolved, lacks = _resolved(provider, environ)
        if baseline is not None:
            prepared, skipped = _gate(project, baseline, provider, shapes, resolved, environ)
        else:
            prepared, skipped = _record(project, provider, shapes, resolved), {}
        planned = list(_planned(provider, prepared, skipped, times, parity=parity and gated))
        requests += planned
        providers.append(_sums(provider, planned, lacks))
    return Plan(baseline=baseline, requests=requests, providers=providers)


def _resolved(provider: Provider, environ: Mapping[str, str]) -> tuple[Resolved, list[str]]:
    """The provider with the environment filled in; where it lacks something, stand-ins, and what it lacks."""
    try:
        return provider.resolve(environ), []
    except ConfigError as exc:
        stand_in = Resolved(
            base_url="http://endpoint.invalid", model=provider.model, path=provider.path, verify=None, headers={},
            query={}, api_key=None, secrets=frozenset(),
        )  # fmt: skip
        return stand_in, [str(exc)]


def _gate(
    project: Project, baseline: str, provider: Provider, shapes: Sequence[str], resolved: Resolved,
    environ: Mapping[str, str],
) -> tuple[dict[str, Prepared], dict[str, str]]:  # fmt: skip
    planned = plan_of_gate(
        project, baseline, provider.name, shapes=shapes, environ=environ, resolve=partial(_given, resolved)
    )
    there = shapes_of(project.fixtures, baseline)
    nothing = "the baseline has no fixture of it"
    skipped = {shape: planned.skipped.get(shape) or nothing for shape in planned.shapes
               if shape in planned.skipped or shape not in there}  # fmt: skip
    return {shape: planned.requests[shape] for shape in planned.shapes if shape not in skipped}, skipped


def _given(resolved: Resolved, provider: Provider) -> Resolved:
    return resolved


def _record(
    project: Project, provider: Provider, shapes: Sequence[str], resolved: Resolved
) -> dict[str, Prepared]:  # fmt: skip
    wanted = list(shapes) or canonical(project, provider)
    return {shape: request_for(project, provider, resolved, shape) for shape in wanted}


def _planned(
    provider: Provider, prepared: Mapping[str, Prepared], skipped: Mapping[str, str], times: int, *, parity: bool
) -> Iterator[PlannedRequest]:  # fmt: skip
    for shape, request in prepared.items():
        yield _request(provider, shape, request, times)
        if parity and shape != "error":
            yield msgspec.structs.replace(_request(provider, shape, whole_request(request), 1), streamed=False)
    for shape, why in skipped.items():
        yield PlannedRequest(provider=provider.name, shape=shape, output_tokens=0, cost=_none(provider), skipped=why)


def _none(provider: Provider) -> float | None:
    return None if provider.prices is None else 0.0


def _request(provider: Provider, shape: str, request: Prepared, times: int) -> PlannedRequest:
    given, limit = token_ceilings(request)
    count = times * request.concurrent
    cost = None
    if provider.prices is not None and (limit is not None or not provider.prices.output):
        cost = count * cost_of(provider.prices, given, limit or 0)
    return PlannedRequest(
        provider=provider.name, shape=shape, requests=count, input_tokens=count * given,
        output_tokens=None if limit is None else count * limit, cost=cost,
    )  # fmt: skip


def _sums(provider: Provider, planned: Sequence[PlannedRequest], lacks: list[str]) -> PlannedProvider:
    count, caps = sum(request.requests for request in planned), provider.caps
    outputs = [request.output_tokens for request in planned]
    costs = [request.cost for request in planned]
    output = None if None in outputs else sum(value or 0 for value in outputs)
    cost = None if None in costs else sum(value or 0.0 for value in costs)
    stops = list(lacks)
    if caps.requests is not None and count > caps.requests:
        stops.append(f"caps.requests: {count} requests are planned, {caps.requests} allowed")
    if caps.cost is not None and (cost is None or cost > caps.cost):
        most = "the most they may cost is not known, as a request sets no limit on tokens" if cost is None else (
            f"they may cost {cost:.6g}"
        )  # fmt: skip
        stops.append(f"caps.cost: {most}, {caps.cost:g} allowed")
    return PlannedProvider(
        provider=provider.name, requests=count, input_tokens=sum(request.input_tokens for request in planned),
        output_tokens=output, cost=cost, cap_requests=caps.requests, cap_cost=caps.cost, parallel=provider.parallel,
        stops=stops, advice=list(_advice(provider, output)) if count else [],
    )  # fmt: skip


def _advice(provider: Provider, output: int | None) -> Iterator[str]:
    """What to set so that the most is known: a limit on tokens where its dialect has one, and prices."""
    row = ASKED_ROWS.get(provider.dialect)
    if output is None and row is not None and row.limits:
        *outer, member = row.limits[-1]
        limit = f"{{{member}: N}}"
        for name in reversed(outer):
            limit = f"{{{name}: {limit}}}"
        yield f"no limit on tokens out: set `request: {limit}`"
    if provider.prices is None:
        yield "cost unknown: set `prices: {input: N, output: N}`, for a million tokens"
