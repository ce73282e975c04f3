"""Writes docs/faults.md: every fault of `harness replay`, and what the harness and real clients make of it.

    python tools/fault_table.py            measures all of it anew (needs the extra `sdk`)
    python tools/fault_table.py --check    says whether the file would change; exit 1 if it would

Each fault is played over a socket by the replay server. The harness records it as `harness gate` does and compares it
with the recording that was broken; the clients are those of harness/adapters, without retries.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.adapters import SDKS
from harness.adapters.served import SdkTarget
from harness.answers import CaseOutcome, Expected, judge
from harness.cases import Case, with_faults
from harness.compare import compare
from harness.conventions import CONVENTIONS
from harness.endpoint import Endpoint, Timeouts
from harness.faults import FAULTS, parse_fault
from harness.findings import Severity
from harness.recorder import record
from harness.recording import Recording
from harness.replay import Replay
from harness.runs.taking import reading_of
from harness.store import load
from harness.targets import Trial

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "faults.md"

# What is broken: two calls, so that whatever is lost shows. The dialect is that of the fixture.
BROKEN = {"chat": "llamacpp/parallel-tools", "anthropic": "anthropic/parallel-tools"}
COLUMNS = (("openai-python", "chat"), ("anthropic-python", "anthropic"), ("httpx-sse", "chat"))

# One row each; every fault is there. Settings keep the silences short.
ROWS = (
    "cut:event=2", "cut", "reset:event=2", "stall:event=2", "nothing", "nothing:seconds=0", "slow:gap=0.01",
    "drip:size=64,gap=0.001", "pieces", "bad-chunks", "gzip", "media-type", "status:code=400", "status:code=401",
    "status:code=500", "status:code=502,body=html", "rate-limit:retry-after=0", "page", "page:body=json", "drop-marker",
    "double-marker", "drop-finish", "error", "error:marker=true", "half-event", "garbage", "invalid-utf8", "repeat",
    "reuse-index", "comments", "bom", "crlf", "huge-event",
)  # fmt: skip

PATIENCE = Timeouts(connect=5, first_event=0.5, idle=0.5, total=20)
SDK_SECONDS = 1.0


def fixture(dialect: str) -> Recording:
    """The recording that is broken."""
    return load(ROOT / "fixtures" / f"{BROKEN[dialect]}.sse").recording


def told(fault: str, dialect: str = "chat") -> str:
    """What a gate says of the fault, recorded over a socket: conforms | differs | not measured, with the rules."""
    whole = fixture(dialect)
    request = whole.request.body if whole.request is not None else None
    shape = whole.shape or ""
    with Replay({"p": {shape: whole}}, faults=[fault]) as server:
        url = server.base_url + CONVENTIONS[dialect].path
        broken = record(Endpoint(url=url, body=b"{}", dialect=dialect, shape=shape, timeouts=PATIENCE))
    base, found = (reading_of(one, dialect, shape, request) for one in (whole, broken))
    compared = compare([base.reading.structure], found.reading.structure, shape=shape)
    if reason := found.unmeasured or compared.not_measured:
        return f"not measured: {reason}"
    codes = [finding.rule for finding in compared.findings]
    fails = any(finding.severity is not Severity.COSMETIC for finding in compared.findings)
    return f"{'differs' if fails else 'conforms'}{': ' if codes else ''}{', '.join(codes)}"


def sdk_makes(name: str, fault: str, dialect: str) -> str:
    """What the SDK makes of the fault, in a few words; what is in bold, an application is not told."""
    target = SdkTarget(SDKS[name], timeout=SDK_SECONDS)
    whole = Case(name="fault", recording=fixture(dialect), dialect=dialect, expected=Expected(terminal="done"))
    case = with_faults(whole, [parse_fault(fault)])
    answer = target.run(
        Trial(case=case.name, dialect=dialect, recording=case.recording, unbroken=case.unbroken, faults=case.faults)
    )
    if answer.state == "rejected":
        return f"raises {answer.reason.partition(':')[0]}"
    verdict = judge(answer, case.expected, target.sdk.features)
    words = {
        CaseOutcome.RIGHT: "reads as we do", CaseOutcome.TOLD: "reads the failure", CaseOutcome.HUNG: "**hangs**",
        CaseOutcome.ACCEPTED_TRUNCATION: "**takes it for whole**",
        CaseOutcome.ACCEPTED_ERROR: "**takes it for an answer**",
    }  # fmt: skip
    return words.get(verdict.outcome) or f"**wrong**: {verdict.differences[0].partition(':')[0]}"


def header(versions: Sequence[str]) -> list[str]:
    """The table's first two lines."""
    return ["| fault | the harness, chat | the harness, Anthropic | " + " | ".join(versions) + " |", "|---" * 6 + "|"]


def versions() -> list[str]:
    """`openai 3.57.0` and so on, for the columns."""
    return [f"{target.sdk.package} {target.version}" for target in (SdkTarget(SDKS[name]) for name, _ in COLUMNS)]


def listed() -> Iterator[str]:
    """Every fault: how it is written, and what it does."""
    for kind in FAULTS.values():
        yield f"- `{kind.usage}`: {kind.about}"


def page(rows: Sequence[str], columns: Sequence[str]) -> str:
    """The whole page."""
    places = {"faults": "\n".join(listed()), "chat": BROKEN["chat"], "anthropic": BROKEN["anthropic"]}
    return TEXT.format(**places, table="\n".join([*header(columns), *rows]))


TEXT = """# Faults

<!-- Written by tools/fault_table.py: do not edit. -->

What `harness replay --fault FAULT`, `harness check --fault FAULT` and `@pytest.mark.sse(fault="FAULT")` can do to a
stream. A fault is written `NAME` or `NAME:SETTING=VALUE,...`; several are applied one after the other. Every fault
takes `times=N` as well: only the first N requests for a fixture meet it, so that a retry can be seen to succeed.

{faults}

In Python, without a socket:

```python
from harness.faults import parse_fault
from harness.steps import body_of, heard, plan
from harness.store import load

recording = load("fixtures/vllm/text.sse").recording
steps = parse_fault("cut:event=2").apply(plan(recording))
body_of(steps)  # the bytes that are sent
heard(steps).end  # how a client sees it end: "cut"
```

## What is made of them

Over a socket, played on `fixtures/{chat}.sse` (chat) and `fixtures/{anthropic}.sse` (Anthropic).

- **The harness**: what a gate says where the unbroken recording is the baseline, the worst finding first.
- **Clients**: the public helpers that `harness check sdk:NAME` drives, without retries, on chat (openai, httpx-sse) and
  Anthropic (anthropic). What they return is compared with what our reader makes of the same broken bytes. In bold: the
  application gets something else, or less, and is not told. httpx-sse is httpx with an SSE parser and `json.loads`;
  what the payloads say is read by our own reducer.

{table}

With their default of two retries, the openai and anthropic clients get through `rate-limit`.

`repeat` is told where the payloads say that an answer begins anew: a second start event (Responses, Anthropic, Cohere),
a role sent again (chat), a running count of tokens that falls (Gemini), a `created_at` that goes back (Ollama), a call
that comes twice. A text without any of these cannot be told from a model that repeats itself: Completions, chat with a
role in every chunk or in none, Gemini without counts in every chunk, Ollama with one time in all lines, and of these
two whatever comes again after one event. No rule guesses there; only the text shows it.
"""


def measured() -> Iterator[str]:
    """The table's rows."""
    for fault in ROWS:
        cells = [told(fault, dialect) for dialect in BROKEN]
        cells += [sdk_makes(name, fault, dialect) for name, dialect in COLUMNS]
        print(f"{fault}: {'; '.join(cells)}", file=sys.stderr)
        yield f"| `{fault}` | " + " | ".join(cells) + " |"


def main() -> int:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the page would change")
    options = parser.parse_args()
    text = page(list(measured()), versions())
    if options.check:
        return int(text != PAGE.read_text("utf-8"))
    PAGE.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
