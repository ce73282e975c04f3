"""`harness demo`: the main job on what travels with the package. No key, no network but this machine's loopback.

vLLM is the baseline. A second vLLM, replayed, passes; `transformers serve` in its place does not. Both endings must
come out as shipped, or the demo fails.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec

from harness.config import load_project
from harness.data import data_path
from harness.findings import Outcome
from harness.replay import Replay
from harness.runs.gate import Gated, gate

BASELINE = "vllm"
ACTS = [("vllm", Outcome.CONFORMS, frozenset[str]()),
        ("transformers", Outcome.DIFFERS, frozenset({"end.marker-missing", "usage.position"}))]  # fmt: skip
PROVIDERS = """\
providers:
  candidate:
    dialect: chat
    base_url: {url}
    model: tiny
    auth: none
"""


class Act(msgspec.Struct, kw_only=True):
    """One gate of the demo: who stood in as candidate, what came, and whether that is what is shipped."""

    candidate: str
    gated: Gated
    expected: bool


def demo(before: Callable[[str], object]) -> list[Act]:
    """Run both gates; `before` is told which candidate comes next. Needs nothing but a free port."""
    acts = []
    fixtures = data_path("fixtures")
    with tempfile.TemporaryDirectory(prefix="harness-demo-") as folder:
        root = Path(folder)
        shutil.copytree(fixtures / BASELINE, root / "fixtures" / BASELINE)
        for name, outcome, rules in ACTS:
            before(name)
            with Replay(fixtures / name) as server:
                (root / "providers.yaml").write_text(PROVIDERS.format(url=server.base_url), "utf-8")
                project = load_project(Path("providers.yaml"), root)
                gated = gate(project, BASELINE, "candidate", environ={})
            found = {finding.rule for result in gated.report.shapes for finding in result.findings}
            acts.append(Act(candidate=name, gated=gated, expected=gated.report.outcome is outcome and rules <= found))
    return acts
