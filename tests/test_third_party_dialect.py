"""A dialect that a plug-in brings: found by its name, from the command line to a gate; broken ones are told in a line.

The distribution is that of docs/examples/dialect, as pip would install it: its files and a dist-info on sys.path.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from commandline import COMMAND, Done
from reading import FIXTURES, ROOT

from harness.dialects import BUILT_IN, OTHERS
from harness.errors import UsageError
from harness.plugin import GROUP, Plugin, problem_of
from harness.runs import dialects

EXAMPLE = ROOT / "docs" / "examples" / "dialect"
PAGE = ROOT / "docs" / "dialects.md"


def dist_info(site: Path, name: str, version: str, offered: Mapping[str, str]) -> None:
    """What an installation leaves of a distribution beside its files."""
    folder = site / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = [f"[{GROUP}]", *(f"{key} = {value}" for key, value in offered.items())]
    (folder / "entry_points.txt").write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of installed distributions that has the example in it."""
    folder = tmp_path_factory.mktemp("site")
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text("utf-8"))["project"]
    dist_info(folder, project["name"], project["version"], project["entry-points"][GROUP])
    for path in sorted((EXAMPLE / "acme_dialect").rglob("*")):
        if path.is_file() and path.suffix in (".py", ".json"):
            target = folder / path.relative_to(EXAMPLE)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    return folder


def environment(site: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{site}", "PYTHONDONTWRITEBYTECODE": "1"}


def harness(site: Path, cwd: Path, *arguments: object) -> Done:
    """The command line as a process of its own, where the distributions of the site are installed."""
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)], cwd=cwd, env=environment(site), capture_output=True, text=True, timeout=60
    )  # fmt: skip
    return Done(done.returncode, done.stdout, done.stderr)


@contextmanager
def replaying(site: Path, folder: Path) -> Iterator[str]:
    """`harness replay` of the folder; yields the base_url."""
    command = [*COMMAND, "replay", str(folder)]
    with subprocess.Popen(command, env=environment(site), stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            word, _, url = server.stdout.readline().partition(" ")
            assert word == "READY"
            yield url.strip()
        finally:
            server.terminate()
            server.wait(timeout=10)


# -- it works -----------------------------------------------------------------------------------------------------

OPEN = '{"t": "open", "id": "a-1", "model": "talker-1"}'
SAID = [
    '{"t": "say", "s": "It is "}', '{"t": "say", "s": "sunny."}', '{"t": "close", "why": "done", "in": 9, "out": 4}',
]  # fmt: skip
CALLED = [
    '{"t": "call", "n": 0, "id": "c-1", "name": "get_weather", "args": "{\\"city\\":"}',
    '{"t": "call", "n": 0, "args": " \\"Paris\\"}"}', '{"t": "close", "why": "calls", "in": 30, "out": 8}',
]  # fmt: skip


def talk(*payloads: str) -> str:
    return "".join(f"data: {payload}\n\n" for payload in payloads)


def write(folder: Path, shape: str, body: str) -> None:
    """A fixture of the dialect, with a sidecar that says so."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{shape}.sse").write_text(body)
    sidecar = {"format": "sse-harness/1", "dialect": "acme", "shape": shape, "status": 200}
    (folder / f"{shape}.json").write_text(json.dumps({**sidecar, "headers": {"content-type": "text/event-stream"}}))


PROVIDERS = """
providers:
  old: {dialect: acme, base_url: "${OLD_URL:-http://127.0.0.1:9/v1}", model: talker-1}
  new: {dialect: acme, base_url: "${NEW_URL:-http://127.0.0.1:9/v1}", model: talker-2, api_key_env: ACME_KEY}
"""


def test_record_and_gate_over_sockets(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """init, record from one server, gate another: judged by the dialect's own rules beside the common ones."""
    write(tmp_path / "servers" / "old", "text", talk(OPEN, *SAID, "BYE"))
    write(tmp_path / "servers" / "old", "tool-call", talk(OPEN, *CALLED, "BYE"))
    write(tmp_path / "servers" / "new", "text", talk(SAID[0], SAID[1][:-1] + ', "mood": "glad"}', SAID[2]))
    write(tmp_path / "servers" / "new", "tool-call", talk(OPEN, *CALLED, "BYE"))
    project = tmp_path / "project"
    project.mkdir()
    done = harness(site, project, "init", "--dialect", "acme")
    assert (done.code, done.err) == (0, "")
    for path in (EXAMPLE / "acme_dialect" / "requests").iterdir():
        assert (project / "requests" / "acme" / path.name).read_bytes() == path.read_bytes()
    (project / "providers.yaml").write_text(PROVIDERS)
    monkeypatch.setenv("ACME_KEY", "a-key-for-tests")
    with replaying(site, tmp_path / "servers" / "old") as old, replaying(site, tmp_path / "servers" / "new") as new:
        monkeypatch.setenv("OLD_URL", old)
        monkeypatch.setenv("NEW_URL", new)
        done = harness(site, project, "record", "old")
        assert (done.code, done.err) == (0, "")
        recorded = project / "fixtures" / "old"
        assert (recorded / "text.sse").read_bytes() == (tmp_path / "servers" / "old" / "text.sse").read_bytes()
        sidecar = json.loads((recorded / "tool-call.json").read_bytes())
        assert (sidecar["dialect"], sidecar["request"]["path"]) == ("acme", "/v1/talk")
        assert sidecar["request"]["body"]["turns"][0]["content"].startswith("What is the weather")

        done = harness(site, project, "gate", "old", "old", "--json")
        assert (done.code, done.err) == (0, "")
        assert [shape["outcome"] for shape in done.one["shapes"]] == ["conforms", "conforms"]

        done = harness(site, project, "gate", "old", "new", "--json")
        assert done.code == 1
        found = {
            shape["shape"]: [(finding["rule"], finding["severity"]) for finding in shape["findings"]]
            for shape in done.one["shapes"]
        }
        assert found == {
            "text": [("acme.open-missing", "fatal"), ("end.marker-missing", "fatal"), ("acme.mood", "cosmetic")],
            "tool-call": [],
        }
    # And from what is recorded, without a server.
    write(project / "fixtures" / "new", "text", talk(OPEN, *SAID, "BYE"))
    done = harness(site, project, "gate", "old", "new", "--recorded", "--shape", "text")
    assert (done.code, done.err) == (0, "")


def test_a_sidecar_names_the_dialect_for_every_view(site: Path, tmp_path: Path) -> None:
    write(tmp_path / "acme", "tool-call", talk(OPEN, *CALLED, "BYE"))
    done = harness(site, tmp_path, "show", "acme", "--json")
    (call,) = done.one["tool_calls"]
    assert (call["id"], call["name"], json.loads(call["arguments"])) == ("c-1", "get_weather", {"city": "Paris"})
    assert (done.one["finish_reason"], done.one["finish_raw"], done.one["terminal"]) == ("tool_calls", "calls", "done")
    done = harness(site, tmp_path, "show", "acme", "--as", "events", "--json")
    assert [event["kind"] for event in done.one["events"]] == ["start", *["tool_call"] * 2, "finish", "usage", "end"]
    assert harness(site, tmp_path, "lint", "acme").code == 0
    assert harness(site, tmp_path, "expect", "acme/tool-call.sse", "--write").code == 0
    assert harness(site, tmp_path, "expect", "acme/tool-call.sse").code == 0


def test_a_failure_and_what_it_does_not_know(site: Path, tmp_path: Path) -> None:
    failed = talk(OPEN, SAID[0], '{"t": "fail", "message": "overloaded", "code": 503}', SAID[1])
    (tmp_path / "a.sse").write_text(failed)
    (tmp_path / "b.sse").write_text(talk(OPEN, '{"t": "nod"}', "7", "null", *SAID, "BYE"))
    one, other = harness(site, tmp_path, "show", "a.sse", "b.sse", "--dialect", "acme", "--json").objects
    assert (one["terminal"], one["text"]) == ("error", "It is ")
    assert one["error"] == {"type": None, "code": 503, "message": "overloaded"}
    assert (other["text"], other["terminal"]) == ("It is sunny.", "done")


def test_what_is_built_in_asks_for_nothing(site: Path) -> None:
    """Nothing installed is looked at: not for a built-in name, and not for the list of rules."""
    code = (
        "import sys; from harness.cli import run; "
        f"codes = run(['lint', {str(FIXTURES / 'openai' / 'text.sse')!r}]), run(['rules', 'sse.bom']); "
        "print(*map(int, codes), sorted({'importlib.metadata', 'acme_dialect'} & {*sys.modules}), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(site), capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr == "0 0 []\n"


def test_a_name_that_nobody_has(site: Path, tmp_path: Path) -> None:
    (tmp_path / "a.sse").write_text(talk(OPEN, *SAID, "BYE"))
    there = f"there are {', '.join(BUILT_IN)}, acme"
    assert harness(site, tmp_path, "show", "a.sse", "--dialect", "acem").err == (
        f"harness: acem: no such dialect; {there}\n"
    )
    (tmp_path / "providers.yaml").write_text("providers: {x: {dialect: acem, base_url: https://a.example, model: m}}")
    done = harness(site, tmp_path, "plan", "x", "x")
    assert done.failed(2) == (
        "harness: providers.yaml: providers.x.dialect: acem is not known; did you mean 'acme'? "
        f"allowed: {', '.join(BUILT_IN)}, acme"
    )
    assert harness(site, tmp_path, "rules", "acme.modo").failed(2).startswith(
        "harness: acme.modo: no such rule; near it: acme.mood"
    )  # fmt: skip


# -- the page -----------------------------------------------------------------------------------------------------


def test_the_page_shows_the_example_as_it_is() -> None:
    blocks = dict(re.findall(r"^```(toml|python)\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S))
    assert blocks == {
        "toml": (EXAMPLE / "pyproject.toml").read_text("utf-8"),
        "python": (EXAMPLE / "acme_dialect" / "__init__.py").read_text("utf-8"),
    }


def test_the_page_shows_what_the_commands_print(site: Path) -> None:
    (session,) = re.findall(r"^```console\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S)
    commands = re.findall(r"^\$ harness (.*)\n((?:(?!\$ ).*\n)*)", session, re.M)
    assert len(commands) == 3
    for command, output in commands:
        assert harness(site, EXAMPLE, *command.split()).out == output


def test_the_page_shows_a_provider_that_loads(site: Path, tmp_path: Path) -> None:
    (text,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S)
    (tmp_path / "providers.yaml").write_text(text)
    code = (
        "import harness.runs; from pathlib import Path; from harness.config import load_project; "
        "found = load_project(None, Path()).provider('acme'); print(found.auth, found.convention.path)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment(site), capture_output=True, text=True, check=True
    )
    assert done.stdout == "header:x-acme-key /talk\n"


# -- broken plug-ins ----------------------------------------------------------------------------------------------

HEAD = """
from pathlib import Path
from harness.plugin import C, Convention, Dialect, Facts, Plugin, Rule
class Own(Dialect):
    name = "broken"
"""
# What the module says -> what is told of it.
BROKEN = {
    "1 / 0": "cannot be loaded (ZeroDivisionError: division by zero)",
    "import nothing_of_that_name": "cannot be loaded (ModuleNotFoundError: No module named 'nothing_of_that_name')",
    "OTHER = 1": "cannot be loaded (AttributeError: module 'broken_dialect' has no attribute 'PLUGIN')",
    "PLUGIN = Plugin()": (
        "cannot be loaded (TypeError: Plugin.__init__() missing 1 required keyword-only argument: 'dialect')"
    ),
    "PLUGIN = Own": "is no harness.plugin.Plugin, but the class Own",
    "PLUGIN = {'dialect': Own}": "is no harness.plugin.Plugin, but a dict",
    "PLUGIN = Plugin(dialect=dict)": "has as `dialect` no subclass of harness.plugin.Dialect, but the class dict",
    "PLUGIN = Plugin(dialect=Own())": "has as `dialect` no subclass of harness.plugin.Dialect, but a Own",
    "PLUGIN = Plugin(dialect=Own, facts=Own)": "has as `facts` no subclass of harness.plugin.Facts, but the class Own",
    "Own.name = 'other'; PLUGIN = Plugin(dialect=Own)": "is offered as broken, but its dialect's `name` is 'other'",
    "Own.framing = 'xml'; PLUGIN = Plugin(dialect=Own)": (
        "has a dialect whose `framing` is 'xml', neither sse nor ndjson"
    ),
    "PLUGIN = Plugin(dialect=Own, rules=['broken.a'])": "has among its `rules` a str, which is no harness.plugin.Rule",
    "PLUGIN = Plugin(dialect=Own, rules=[Rule('sse.bom', C, 'note', 'x', 'y')])": (
        "has the rule 'sse.bom'; its rules are called broken.something"
    ),
    "PLUGIN = Plugin(dialect=Own, rules=[Rule('broken.a', C, 'run', 'x', 'y')])": (
        "says that the rule broken.a is for 'run'; it is for note, diff, both or lint"
    ),
    "PLUGIN = Plugin(dialect=Own, rules=[Rule('broken.a', C, 'diff', 'x', 'y')])": (
        "gives the rule broken.a no path; rules for diff and both have one, and no others"
    ),
    "PLUGIN = Plugin(dialect=Own, rules=[Rule('broken.a', C, 'diff', 'x', 'y', 'usage.position')])": (
        "lets the rule broken.a own usage.position; its paths are called broken.something"
    ),
    "PLUGIN = Plugin(dialect=Own, rules=[Rule('broken.a', C, 'note', 'a {b}', 'y')])": (
        "has a sentence in the rule broken.a that cannot be filled in (KeyError: 'b')"
    ),
    "PLUGIN = Plugin(dialect=Own, explains={'stream.cut': 'broken.a usage.missing'})": (
        "says that stream.cut explains broken.a usage.missing; either side must be its own: broken.*"
    ),
    "PLUGIN = Plugin(dialect=Own, explains=['a'])": (
        "holds what no Plugin may (AttributeError: 'list' object has no attribute 'items')"
    ),
    "PLUGIN = Plugin(dialect=Own, convention='/ask')": "has as `convention` no harness.plugin.Convention, but a str",
    "PLUGIN = Plugin(dialect=Own, convention=Convention(path='ask'))": "is asked at 'ask', which does not start with /",
    "PLUGIN = Plugin(dialect=Own, convention=Convention(path='/ask', auth='key'))": (
        "has the auth 'key'; there are bearer, x-api-key, x-goog-api-key, header:NAME, none"
    ),
    "PLUGIN = Plugin(dialect=Own, asked={})": "has as `asked` no harness.plugin.AskedRow, but a dict",
    "PLUGIN = Plugin(dialect=Own, requests=Path('gone'))": "has its request files in gone, which is no folder",
}


@pytest.mark.parametrize("code", BROKEN)
def test_a_broken_plugin_is_told_in_one_line(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_dialect.py").write_text(f"{HEAD}{code}\n")
    dist_info(tmp_path, "broken-dialect", "0.2", {"broken": "broken_dialect:PLUGIN"})
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "broken_dialect", raising=False)
    assert "broken" in dialects.names()
    with pytest.raises(UsageError) as caught:
        dialects.find("broken")
    assert str(caught.value) == (
        f"dialect broken: the plug-in broken_dialect:PLUGIN (broken-dialect 0.2) {BROKEN[code]}; "
        "ask its author, or uninstall it"
    )
    assert "broken" not in OTHERS
    monkeypatch.delitem(sys.modules, "broken_dialect", raising=False)


def test_what_the_checks_let_pass() -> None:
    sys.path.insert(0, str(EXAMPLE))
    try:
        plugin = import_module("acme_dialect").PLUGIN
    finally:
        sys.path.remove(str(EXAMPLE))
    assert isinstance(plugin, Plugin)
    assert problem_of("acme", plugin) is None
    assert problem_of("other", plugin) == "is offered as other, but its dialect's `name` is 'acme'"
    assert problem_of("Acme 1", plugin) == (
        "is offered under a name that is not one: lower-case letters, digits and -, a letter first"
    )


def test_two_that_offer_one_name(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dist_info(tmp_path, "acme-too", "1.0", {"acme": "elsewhere:PLUGIN"})
    monkeypatch.syspath_prepend(site)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UsageError) as caught:
        dialects.find("acme")
    assert str(caught.value) == (
        "dialect acme: offered by acme_dialect:PLUGIN (acme-dialect 0.1.0) and by elsewhere:PLUGIN (acme-too 1.0); "
        "uninstall one"
    )


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ('data: {"t": 1}\n\n', "failed in `read` at byte 0 (AttributeError: 'int' object has no attribute 'lower')"),
        ('data: {"t": "a"}\n\ndata: {"t": "b"}\n\n', "failed in `payload` at byte 18 (KeyError: 'b')"),
        ('data: {"t": "a"}\n\n', "failed in `finish` (RuntimeError: no end)"),
    ],
)
def test_a_plugin_that_raises_while_it_reads_is_no_bug_of_ours(tmp_path: Path, body: str, problem: str) -> None:
    (tmp_path / "raising.py").write_text(
        f"{HEAD}"
        "    def read(self, payload, sse, out):\n"
        "        self.kind = payload['t'].lower()\n"
        "    def finish(self, out):\n"
        "        raise RuntimeError('no end')\n"
        "class OwnFacts(Facts):\n"
        "    def chunk(self, payload, sse, events):\n"
        "        {'a': 1}[payload['t']]\n"
        "PLUGIN = Plugin(dialect=Own, facts=OwnFacts)\n"
    )
    dist_info(tmp_path, "raising", "0.3", {"broken": "raising:PLUGIN"})
    (tmp_path / "x.sse").write_text(body)
    done = harness(tmp_path, tmp_path, "lint", "x.sse", "--dialect", "broken")
    assert done.failed(2) == (
        f"harness: dialect broken: the plug-in raising:PLUGIN (raising 0.3) {problem}; ask its author, or uninstall it"
    )


def test_a_built_in_name_cannot_be_replaced(tmp_path: Path) -> None:
    dist_info(tmp_path, "chat-too", "1.0", {"chat": "nothing_there:PLUGIN"})
    done = harness(tmp_path, tmp_path, "show", FIXTURES / "openai" / "text.sse", "--dialect", "chat")
    assert (done.code, done.err) == (0, "")


def test_this_distribution_offers_none_itself() -> None:
    assert not [entry for entry in entry_points(group=GROUP) if entry.dist and entry.dist.name == "sse-harness"]
