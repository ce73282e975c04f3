"""A plan for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from harness.reports.text import one_line
from harness.runs.planning import Plan, PlannedProvider, PlannedRequest


def plan_text(plan: Plan) -> str:
    """Provider by provider: a line for each request, the sums, and what would stop the run."""
    return "\n\n".join("\n".join(_lines(plan, provider)) for provider in plan.providers)


def _lines(plan: Plan, provider: PlannedProvider) -> Iterator[str]:
    verb = "record" if plan.baseline is None else f"gate {plan.baseline} ->"
    at_once = f", {provider.parallel} shapes at once" if provider.parallel > 1 else ""
    yield f"{verb} {provider.provider}: {_counted(provider.requests)}{at_once}"
    for request in plan.requests:
        if request.provider == provider.provider:
            yield f"  {request.shape}{'' if request.streamed else ' (not streamed)'}: {_said(request)}"
    yield f"  in all: {_tokens(provider)}{_cost(provider)}"
    yield from (f"  {one_line(text)}" for text in provider.advice)
    for cap, value in (("requests", provider.cap_requests), ("cost", provider.cap_cost)):
        if value is not None:
            yield f"  caps.{cap}: {value:g}"
    for problem in provider.stops:
        yield f"  would stop: {one_line(problem)}"


def _said(request: PlannedRequest) -> str:
    if request.skipped is not None:
        return f"nothing is sent ({one_line(request.skipped)})"
    return f"{_counted(request.requests)}, {_tokens(request)}{_cost(request)}"


def _counted(count: int) -> str:
    return f"{count} request{'' if count == 1 else 's'}"


def _tokens(what: PlannedRequest | PlannedProvider) -> str:
    output = "no limit on tokens" if what.output_tokens is None else f"at most {what.output_tokens} tokens"
    return f"at most {what.input_tokens} tokens in, {output} out"


def _cost(what: PlannedRequest | PlannedProvider) -> str:
    return "" if what.cost is None else f", at most {what.cost:.6g}"
