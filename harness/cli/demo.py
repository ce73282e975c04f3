"""harness demo"""

from __future__ import annotations

import click

from harness.cli.common import advise, say, say_report
from harness.cli.manners import Told, told
from harness.errors import Exit
from harness.reports.text import gate_text
from harness.runs.demo import ACTS, BASELINE
from harness.runs.demo import demo as run


@click.command()
@click.pass_context
def demo(ctx: click.Context) -> None:
    """See it work: gate two recorded servers against a third. No key, no network, a few seconds.

    Exit 0 if both gates come out as shipped. --verbose prints both reports whole.

    \b
    harness demo
    """
    advise(f"The application runs on {BASELINE} today. Its streams were recorded as fixtures, byte for byte.")
    names = ", ".join(name for name, _, _ in ACTS)
    advise(f"Two candidates want to take over: {names}. Each is served on this machine,")
    advise("asked for the same four shapes over HTTP, and compared by structure; wording may differ, protocol may not.")
    acts = run(lambda name: None)
    for act in acts:
        say("")
        say(f"=== candidate: {act.candidate} " + "=" * (60 - len(act.candidate)))
        bodies = {shape: held.by_side for shape, held in act.gated.bodies.items()}
        report = gate_text(act.gated.report, bodies)
        say_report(report if told() is Told.VERBOSE else verdicts(report))
    as_shipped = all(act.expected for act in acts)
    say("")
    if as_shipped:
        say("One candidate may take over; the other would have broken the application without one JSON body differing.")
        advise("Next: `harness init` in your own repository, then record your endpoint and gate its successor.")
    else:
        say("This is not how the demo was shipped: something in this installation is broken.")
        ctx.exit(Exit.DIFFERS)


def verdicts(report: str) -> str:
    """Of a gate's report the outcomes and findings: the first shape that has some with all it says, others in a line.

    What stands after the shapes, and what both sides share, is left out.
    """
    out: list[str] = []
    shapes = report.partition("\n\nat the cutover:")[0].split("\n\n")
    for shape in shapes:
        lines = [line for line in shape.splitlines() if not line.startswith("  shared with")]
        if len(lines) > 1 and any(line.startswith("  ") for line in out):
            lines = [line for line in lines if not line.startswith("    ")]
        out += ["", *lines] if len(lines) > 1 or len(out) == 1 else lines
    return "\n".join(out)
