"""CONTRIBUTING's recipes, carried out: each in a copy of the repository, step by step, until the tests it names pass.

What is added here is no part of the product. Where a step no longer leads where CONTRIBUTING says, a recipe fails.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from reading import ROOT

COPIED = ("harness", "tests", "tools", "docs", "requests", "fixtures")
LEFT_OUT = shutil.ignore_patterns("__pycache__", "node_modules", ".*", "*.png")
CHUNK = '{"id":"c-1","object":"chat.completion.chunk","created":1,"model":"m","system_fingerprint":7,"choices":[%s]}'


@dataclass(frozen=True)
class Checkout:
    """A copy of this repository, to be changed."""

    root: Path

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())

    def insert(self, name: str, before: str, text: str) -> None:
        """Put the text before the one place where `before` stands."""
        found = (self.root / name).read_text("utf-8")
        assert found.count(before) == 1, f"{name}: {before!r} stands there {found.count(before)} times"
        self.write(name, found.replace(before, text + before))

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environ = {**os.environ, "PYTHONPATH": str(self.root), "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run(
            [sys.executable, *arguments], cwd=self.root, env=environ, capture_output=True, text=True, timeout=300,
            check=False,
        )  # fmt: skip

    def harness(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run("-c", "from harness.cli import main; main()", *arguments)

    def passes(self, *arguments: str) -> None:
        """The tests pass, and there are some."""
        done = self.run("-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    for name in COPIED:
        shutil.copytree(ROOT / name, tmp_path / name, ignore=LEFT_OUT)
    for path in [*ROOT.glob("*.md"), *ROOT.glob("*.toml"), *ROOT.glob("*.y*ml")]:
        shutil.copy(path, tmp_path)
    found = Checkout(tmp_path)
    assert str(tmp_path) in found.run("-c", "import harness; print(harness.__file__)").stdout
    return found


def test_add_a_rule(checkout: Checkout) -> None:
    """A rule for a `system_fingerprint` that is a number, the quirk that shows it and the client that fails on it."""
    number = 1 + max(int(path.name[:3]) for path in (ROOT / "harness" / "quirks").glob("*.sse"))
    name, code = f"{number:03d}-fingerprint-as-number", "chunk.fingerprint-form"

    # 1: a quirk that shows it
    deltas = ['{"role":"assistant","content":""}', '{"content":"Hello"}', '{"content":" there."}', "{}"]
    choices = [
        f'{{"index":0,"delta":{delta},"finish_reason":{"null" if delta != "{}" else chr(34) + "stop" + chr(34)}}}'
        for delta in deltas
    ]
    body = "".join(f"data: {CHUNK % choice}\n\n" for choice in choices) + "data: [DONE]\n\n"
    expect: dict[str, object] = {
        "text": "Hello there.", "reasoning": "", "tool_calls": [], "finish_reason": "stop", "finish_raw": "stop",
        "terminal": "done", "usage": None, "error": None,
    }  # fmt: skip
    label = {
        "family": "chat", "kind": "identity", "fault": "system_fingerprint is a number", "verdict": "negotiable",
        "expect": expect, "why": "It is documented as text.",
    }  # fmt: skip
    checkout.write(f"harness/quirks/{name}.sse", body)
    checkout.write(f"harness/quirks/{name}.json", json.dumps(label, indent=1) + "\n")

    # 2: a row
    checkout.insert("harness/catalogue.py", '    Rule("chunk.model-changes"', f'''\
    Rule("{code}", N, "note", "system_fingerprint is a number; typed readers reject the chunk",
         "have the server send text"),
''')  # fmt: skip

    # 3: what raises it
    checkout.insert("harness/facts/chat.py", '        kind = payload.get("object")', f'''\
        if type(payload.get("system_fingerprint")) is int:
            self.note("{code}", *place)
''')  # fmt: skip

    # 4: a client model that fails on it
    checkout.insert("harness/clients/wrong_content.py", '@wrong(\n    "checks-object"', f'''\
@wrong(
    "fingerprint-is-text", "{name}",
    about="Has `system_fingerprint` as text, and raises at a number.",
)  # fmt: skip
class FingerprintIsText(Machine):
    def chat(self, chunk: dict[str, Any]) -> None:
        if isinstance(chunk.get("system_fingerprint"), int):
            raise TypeError("system_fingerprint is no text")
        super().chat(chunk)


''')  # fmt: skip

    # 5: what is generated
    for generator in ("tests/client_tables.py", "tools/generate_docs.py"):
        assert checkout.run(generator).returncode == 0

    # 6: the tests that are named; of those that take every quirk, the new one's
    checkout.passes(
        *(f"tests/test_{page}.py" for page in ("rules", "twins", "clients", "generated_docs")), "-k",
        f"labels or says or codes or hides or up_to_date or each_quirk or stale or fingerprint or {number:03d}",
    )  # fmt: skip

    shown = checkout.harness("lint", f"harness/quirks/{name}.sse")
    assert shown.stdout.count(f"NEGOTIABLE {code}") == 1, shown
    assert "fingerprint-is-text" in shown.stdout, "what breaks is told with it"


def test_add_a_report(checkout: Checkout) -> None:
    """A report in a form of its own: a line a shape, its outcome and the rules."""
    checkout.write("harness/reports/lines.py", '''\
"""A gate's report as lines that a shell can read: shape, outcome, rules."""

from __future__ import annotations

from harness.findings import Report
from harness.reports.text import one_line


def gate_lines(report: Report) -> str:
    """A line a shape."""
    rows = (
        [result.shape, str(result.outcome), *(finding.rule for finding in result.findings)] for result in report.shapes
    )
    return "".join(one_line(" ".join(row)) + "\\n" for row in rows)
''')  # fmt: skip
    checkout.insert("harness/reports/__init__.py", "FORMS: dict[", '''\
def _lines(report: Report, shapes: Shapes) -> str:
    from harness.reports.lines import gate_lines

    return gate_lines(report)


''')  # fmt: skip
    checkout.insert("harness/reports/__init__.py", '".json": _json', '".lines": _lines, ')

    gate = ("gate", "vllm", "transformers", "--recorded", "--shape", "text")
    done = checkout.harness(*gate, "--report", "gate.lines")
    assert done.returncode == 1, done
    assert (checkout.root / "gate.lines").read_text().startswith("text differs end.marker-missing usage.position")
    unknown = checkout.harness(*gate, "--report", "gate.nothing")
    assert unknown.returncode == 2
    assert ".lines" in unknown.stderr, "the error for an unknown suffix names it"
    checkout.passes("tests/test_layout.py", "-k", "reports")
