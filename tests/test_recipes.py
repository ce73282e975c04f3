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

pytestmark = pytest.mark.whole

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

    checkout.insert(
        "harness/facts/forms.py", 'whole_seconds(payload.get("created", 0)),',
        'type(payload.get("system_fingerprint")), ',
    )  # fmt: skip

    # 5: a client model that fails on it
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

    # 6: what is generated
    for generator in ("tests/client_tables.py", "tools/generate_docs.py"):
        assert checkout.run(generator).returncode == 0

    # 8: the tests that are named; of those that take every quirk, the new one's
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


# -- a dialect ----------------------------------------------------------------------------------------------------

READER = '''\
"""Zenith's lines: payloads named by `z`, END at the end.

Source: invented.
"""

from __future__ import annotations

from typing import Any, ClassVar

from harness.dialects.base import Dialect, as_string, integer
from harness.events import Event, Finish, Start, Text, ToolCall, Unknown, Usage
from harness.jsontext import as_text
from harness.sse import ServerSentEvent

FINISH = {"over": "stop", "full": "length", "use": "tool_calls"}


class Zenith(Dialect):
    """Reads lines."""

    name: ClassVar[str] = "zenith"
    marker: ClassVar[bytes | None] = b"END"

    def read(self, payload: Any, sse: ServerSentEvent, out: list[Event]) -> None:
        at, length = sse.at, sse.length
        if type(payload) is not dict:
            self.notes.add("sse.data-not-object", at, length, as_text(payload)[:40])
            return
        kind, get = payload.get("z"), payload.get
        if kind == "head":
            out.append(Start(as_string(get("id")), as_string(get("model")), None, at, length))
        elif kind == "word" and type(get("w")) is str:
            out.append(Text(0, get("w"), False, at, length))
        elif kind == "use" and type(get("args")) is str:
            number, call_id, name = integer(get("n")), as_string(get("id")), as_string(get("name"))
            out.append(ToolCall(0, number or 0, number, call_id, name, get("args"), False, at, length))
        elif kind == "tail":
            self.finished = True
            raw = as_string(get("why")) or ""
            out.append(Finish(0, FINISH.get(raw, "other"), raw, at, length))
            if "in" in payload:
                out.append(Usage(integer(get("in")), integer(get("out")), payload, at, length))
        elif kind == "oops" or get("error"):
            self.fail(payload, sse, out)
        else:
            out.append(Unknown((as_string(kind) or "payload")[:80], payload, at, length))
'''
FACTS = '''\
"""Facts of Zenith's lines: how they begin."""

from __future__ import annotations

from typing import Any, ClassVar

from harness.dialects.zenith import FINISH
from harness.events import Event
from harness.facts.base import Facts
from harness.sse import ServerSentEvent


class ZenithFacts(Facts):
    """Watches one answer."""

    documented_finish: ClassVar[frozenset[str]] = frozenset(FINISH)

    def chunk(self, payload: dict[str, Any], sse: ServerSentEvent, events: list[Event]) -> None:
        if self.payloads == 1 and payload.get("z") != "head":
            self.note("zenith.head-missing", sse.at, sse.length)
'''
CLEAN = '''\
"""Zenith's lines: head, words and uses in pieces, tail, END."""

from __future__ import annotations

from harness.clean.answer import ID, MODEL, Answer, data, pieces


def encode(answer: Answer) -> bytes:
    """The body. Nothing is sent after a failure."""
    (said,) = answer.choices
    parts = [{"z": "head", "id": ID, "model": MODEL}, *({"z": "word", "w": piece} for piece in pieces(said.text))]
    for number, call in enumerate(said.calls):
        parts.append({"z": "use", "n": number, "id": call.id, "name": call.name, "args": ""})
        parts += [{"z": "use", "n": number, "args": piece} for piece in pieces(call.arguments)]
    if answer.error is not None:
        return b"".join(map(data, [*parts, {"z": "oops", **answer.error}]))
    if said.finish is not None:
        counts = dict(zip(("in", "out"), answer.usage or (), strict=False))
        parts.append({"z": "tail", "why": said.finish, **counts})
    return b"".join([*map(data, parts), b"data: END\\n\\n" if answer.ended else b""])
'''
WHOLE = '''\
def _zenith(body: Body) -> Iterator[Body]:
    """The lines, which a whole answer has as a list."""
    yield from _list(body.get("lines")) or [body]


'''
TOOL = {"name": "get_weather", "description": "Weather.", "input_schema": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
}}  # fmt: skip
ASKED: dict[str, dict[str, object]] = {
    "text": {}, "tool-call": {"tools": [TOOL], "tool_choice": {"type": "auto"}}, "stop": {"stop": ["scripted"]},
    "error": {"tools": [TOOL], "tool_choice": {"type": "tool", "name": "get_time"}},
}  # fmt: skip
LINES = {
    "text": [
        '{"z":"head","id":"1","model":"m"}', '{"z":"word","w":"Hello "}', '{"z":"word","w":"there."}',
        '{"z":"tail","why":"over","in":3,"out":2}', "END",
    ],
    "tool-call": [
        '{"z":"head","id":"2","model":"m"}', '{"z":"use","n":0,"id":"c","name":"get_weather","args":"{\\"city\\":"}',
        '{"z":"use","n":0,"args":"\\"Paris\\"}"}', '{"z":"tail","why":"use","in":9,"out":4}', "END",
    ],
}  # fmt: skip


def add_zenith(checkout: Checkout) -> None:
    """Steps 1 to 5 of the recipe, each in as few lines as it takes."""
    # 1: reading
    checkout.write("harness/dialects/zenith.py", READER)
    checkout.insert("harness/dialects/__init__.py", "}\nOTHERS", '    "zenith": "Zenith",\n')
    # 2: facts
    checkout.write("harness/facts/zenith.py", FACTS)
    checkout.insert("harness/facts/__init__.py", "}  # fmt: skip\nOTHERS", '    "zenith": "ZenithFacts",\n')
    # 3: rules
    checkout.insert("harness/catalogue_dialects.py", "# cause -> what it explains", '''\
ZENITH = [
    Rule("zenith.head-missing", F, "note", "the answer begins without a head; readers refuse it", "send it first"),
]  # fmt: skip

''')  # fmt: skip
    checkout.insert("harness/catalogue.py", "ANTHROPIC, COHERE,", "ZENITH, ")
    checkout.insert("harness/catalogue.py", "RESPONSES, ANTHROPIC, GEMINI, ", "ZENITH, ")
    # 4: asking
    checkout.insert("harness/conventions.py", "}  # fmt: skip\n\nAUTHS", '    "zenith": Convention(path="/speak"),\n')
    checkout.insert("harness/shapes.py", '    "cohere": AskedRow(', '''\
    "zenith": AskedRow(tools=_flat, choice=(("tool_choice",),), stop=("stop",), said=("lines",)),
''')  # fmt: skip
    checkout.insert("harness/matching.py", ")\n\nOffered", ', "lines"')
    for shape, asked in ASKED.items():
        said = f"Say {shape}." if shape != "stop" else "Repeat exactly: one two three scripted five"
        body = {"model": "m", "lines": [{"role": "user", "content": said}], **asked, "stream": True}
        checkout.write(f"requests/zenith/{shape}.json", json.dumps(body, indent=2) + "\n")
    # 5: where it differs
    checkout.insert("harness/detect.py", '    if "candidates" in payload or', '''\
    if payload.get("z") in ("head", "word", "use", "tail", "oops"):
        return "zenith"
''')  # fmt: skip
    checkout.insert("harness/error_forms.py", "    }\n    openai_form", '''\
        "zenith": {"z": "oops", "code": status, "message": message},
''')  # fmt: skip
    checkout.insert("harness/error_forms.py", '    return b"", {"error": {"message": STREAM_MESSAGE, "type"', '''\
    if dialect == "zenith":
        return b"", {"z": "oops", "code": 500, "message": STREAM_MESSAGE}
''')  # fmt: skip
    checkout.insert("harness/whole.py", "def _list(", WHOLE)
    checkout.insert("harness/whole.py", '"cohere": _cohere,\n}', '"zenith": _zenith, ')
    checkout.write("harness/clean/zenith.py", CLEAN)
    checkout.insert("harness/clean/answer.py", "}\nWELL = ", '''\
    "zenith": {"stop": "over", "length": "full", "tool_calls": "use"},
''')  # fmt: skip
    checkout.insert("harness/clean/answer.py", '    "anthropic": ("refusal", "choices"),', '''\
    "zenith": ("refusal", "reasoning", "choices"),
''')  # fmt: skip
    # 6: the lists that are kept by hand
    absent = "{'parallel-tools', 'reasoning', 'structured', 'refusal', 'logprobs', 'multi-turn'}"
    checkout.insert("tests/test_requests.py", "}\nSWITCHED_USAGE", f'    "zenith": {absent},\n')


def test_add_a_dialect(checkout: Checkout) -> None:
    """A dialect at a path of its own: told by its content, judged by its rule, compared, asked for and served."""
    add_zenith(checkout)
    for provider in ("old", "new"):
        for shape, lines in LINES.items():
            name = f"fixtures/{provider}/{shape}"
            headless = (provider, shape) == ("new", "text")
            checkout.write(f"{name}.sse", "".join(f"data: {line}\n\n" for line in lines[headless:]))
            checkout.write(f"{name}.json", json.dumps({
                "format": "sse-harness/1", "dialect": "zenith", "shape": shape, "status": 200,
                "headers": {"content-type": "text/event-stream"},
            }))  # fmt: skip
    checkout.write("bare.sse", (checkout.root / "fixtures/old/tool-call.sse").read_text())

    shown = checkout.harness("show", "bare.sse").stdout
    assert "(zenith, by content)" in shown
    assert "get_weather" in shown
    judged = checkout.harness("lint", "fixtures/old", "fixtures/new")
    assert (judged.returncode, judged.stdout.count("FATAL zenith.head-missing")) == (1, 1), judged
    gate = checkout.harness("gate", "old", "new", "--recorded", "--shape", "text", "--shape", "tool-call")
    assert gate.returncode == 1, gate
    assert "zenith.head-missing" in gate.stdout
    script = """
import httpx
from harness.replay import Replay
with Replay("fixtures/old") as server:
    asked = {"model": "m", "lines": [{"role": "user", "content": "Say text."}], "stream": True}
    print(httpx.post(server.base_url + "/speak", json=asked).text)
    print(server.journal[0].shape)
"""
    assert checkout.run("-c", script).stdout.endswith("data: END\n\n\ntext\n")
    assert checkout.run("tools/generate_docs.py").returncode == 0
    pages = ("layout", "shapes", "requests", "config", "detect", "matching", "importing", "parity", "twins", "rules")
    checkout.passes(
        *(f"tests/test_{page}.py" for page in pages), "-k",
        "zenith or rank or default_auth or shipped or request_paths or codes or catalogue or circle",
    )  # fmt: skip
