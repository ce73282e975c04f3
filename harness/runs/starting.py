"""`harness init`: what a repository of the user's own needs to record, gate and test. Nothing is overwritten."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Literal

import msgspec

from harness.config import FILE_NAME, load_project
from harness.data import data_path, request_folder
from harness.dialects import dialect_named
from harness.errors import HarnessError, UsageError
from harness.presets import Preset, Variable, entry, preset, variables

BASELINE, CANDIDATE = "openai", "candidate"
FATAL_DAYS = 90  # how long the acceptance of a fatal quirk would last, if somebody takes the # away
WORKFLOW = Path(".github", "workflows", "harness-gate.yml")
TEST = Path("tests", "test_streams.py")
IGNORE, ATTRIBUTE = ".harness/", "*.sse -text"

HEAD = """\
# The endpoints you record and gate. Keys and variables come from the environment, and only those of the endpoints a
# run calls must be set. Names become folders under fixtures/. Every key: docs/providers.md of sse-harness.
providers:
"""
KEY_HINT = " # the variable that holds the key; the key itself never stands here"

# Under the entry of what is to take over: what else may stand in one.
OPTIONS = """\
    # request: {max_tokens: 256}        # merged into every request
    # shapes:
    #   error: {skip: "cannot be provoked"}
    # timeouts: {connect: 10, first_event: 60, idle: 30, total: 300} # seconds; idle counts events
    # thresholds: {first_event: 2.0, gap: 5.0} # seconds; what is later is a finding
    # prices: {input: 2.0, output: 10.0} # per million tokens, for `harness plan` and caps.cost
    # caps: {requests: 40, cost: 0.5}    # what one run may send
    # parallel: 4                        # shapes asked at once
"""
ACCEPT = """\
    # accept: # findings you can live with; `harness accept report.json --rule usage.position --reason ...` prints these
    #   - {rule: usage.position, reason: tokens are counted locally, until: 2027-06-30, owner: web team}
"""

GATE = """\
# Says whether CANDIDATE can take over from BASELINE, by the structure of their streams. The baseline is read from
# fixtures/, so commit them. Keys are secrets of the repository, everything else its variables.
name: harness gate
on:
  pull_request:
    paths: [providers.yaml, "fixtures/**", "requests/**"]
  workflow_dispatch:
permissions:
  contents: read
env:
  # What pip installs: a path, a wheel, git+https://HOST/REPOSITORY@COMMIT, or a release you have checked, with its
  # version. Empty on purpose: a name alone is looked up in an index, where anybody can have taken it.
  SSE_HARNESS: ""
jobs:
  gate:
    runs-on: ubuntu-latest
    timeout-minutes: 15
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
      - run: python -m pip install "${SSE_HARNESS:?is empty, say at the top of this workflow what to install}"
      - run: harness gate BASELINE CANDIDATE --attempts 3 --annotate --report report/gate.html --report report/gate.xml
ENVIRONMENT
      - uses: actions/upload-artifact@v4
        if: always()
        with:
          name: harness-report
          path: report
          if-no-files-found: ignore
"""

SAMPLE = '''\
"""What the application relies on in the streams of BASELINE. Skipped, as not measured, until they are recorded."""

import json
from pathlib import Path

import pytest

RECORDED = Path(__file__).resolve().parent.parent / "fixtures" / "BASELINE"


def recorded_as(shape):
    """Mark a test as one of a recorded stream: `recorded` has its body, events, message and structure."""
    measured = (RECORDED / f"{shape}.sse").is_file()
    skip = pytest.mark.skipif(not measured, reason="not measured: `harness record BASELINE` comes first")
    return lambda test: skip(pytest.mark.sse(provider="BASELINE", shape=shape)(test))


@recorded_as("text")
def test_an_answer_is_told_to_be_whole(recorded):
    assert recorded.message.terminal == "done"
    assert recorded.message.text
'''
SAMPLE_CALL = '''

@recorded_as("tool-call")
def test_a_tool_can_be_called_with_what_came(recorded):
    assert recorded.message.tool_calls
    for call in recorded.message.tool_calls:
        assert call.name
        assert isinstance(json.loads(call.arguments), dict)
'''


class Written(msgspec.Struct, kw_only=True):
    """A file that was written, that a line was added to, or that was there before and was left alone.

    `why` says in a few words what to know of it.
    """

    path: Path
    state: Literal["wrote", "added", "kept", "left out"]
    why: str = ""


class Endpoint(msgspec.Struct, kw_only=True):
    """An endpoint of the new project: its name, what its environment needs, and where it has to be added by hand.

    `missing` holds the lines of its entry if a providers.yaml was there before and does not know it.
    """

    name: str
    variables: list[Variable]
    missing: str = ""


class Started(msgspec.Struct, kw_only=True):
    """What was done to a folder; `endpoints` are the baseline, the candidate (which may be the same), then others."""

    files: list[Written]
    baseline: Endpoint
    candidate: Endpoint
    others: list[Endpoint]


def start(
    folder: Path, baseline: str = BASELINE, candidate: str = CANDIDATE, others: Sequence[str] = (),
    dialects: Sequence[str] = (), today: date | None = None,
) -> Started:  # fmt: skip
    """Write providers.yaml with these presets, the request files of their dialects and of `dialects`, a workflow, a
    test, and the lines that git needs. What is there already is never touched, but for a line added to git's files.

    Raises UsageError: no such preset, a dialect without request files, a folder that cannot be written to.
    """
    names = list(dict.fromkeys([baseline, candidate, *others]))
    known = {name: preset(name) for name in names}
    until = (today or date.today()) + timedelta(days=FATAL_DAYS)
    wanted = list(dict.fromkeys([*(one.dialect for one in known.values()), *dialects]))
    requests = {dialect: list(_requests(dialect)) for dialect in wanted}
    files = [_write(folder / FILE_NAME, "".join(_providers(known, baseline, candidate, until)))]
    for dialect in wanted:
        files += [_write(folder / "requests" / dialect / path.name, path.read_bytes()) for path in requests[dialect]]
    calls = any(path.stem == "tool-call" for path in requests[known[baseline].dialect])
    files.append(_workflow(folder, baseline, candidate, known[candidate]))
    files.append(_write(folder / TEST, _sample(baseline, calls=calls)))
    files.append(_line(folder / ".gitignore", IGNORE, (".harness", "/.harness", "/.harness/", "**/.harness/")))
    files.append(_line(folder / ".gitattributes", ATTRIBUTE, ()))
    there = _entries(folder, files[0])
    told = {name: _endpoint(name, known[name], until, there) for name in names}
    first = {baseline, candidate}
    return Started(
        files=files, baseline=told[baseline], candidate=told[candidate],
        others=[one for name, one in told.items() if name not in first],
    )  # fmt: skip


def _providers(known: dict[str, Preset], baseline: str, candidate: str, until: date) -> Iterator[str]:
    yield HEAD
    for number, (name, one) in enumerate(known.items()):
        yield "\n" if number else ""
        if name == baseline:
            yield f"  # What the application runs on today: record it once with `harness record {name}`.\n"
        if name == candidate:
            yield f"  # What is to take over: `harness gate {baseline} {name}` says whether it can.\n"
        for line in entry(name, one, until):
            yield f"{line}{KEY_HINT if line.startswith('    api_key_env:') and not number else ''}\n"
        if name == candidate:
            if not one.api_key_env and not one.auth:
                yield f"    # api_key_env: {name.upper().replace('-', '_')}_API_KEY\n"
            yield OPTIONS
            yield "" if one.quirks else ACCEPT


def _requests(dialect: str) -> Iterator[Path]:
    dialect_named(dialect)
    source = request_folder(dialect)
    if not source.is_dir():
        known = ", ".join(sorted(path.name for path in data_path("requests").iterdir() if path.is_dir()))
        raise UsageError(f"--dialect {dialect}: no request files are shipped for it; there are {known}")
    yield from sorted(source.glob("*.json"))


def _workflow(folder: Path, baseline: str, candidate: str, called: Preset) -> Written:
    path = folder / WORKFLOW
    if not (folder / ".git").exists() and any((above / ".git").exists() for above in folder.parents):
        return Written(path=path, state="left out", why="not the repository's root, where it belongs; docs/ci.md")
    lines = []
    for one in variables(called):
        lines.append(f"          {one.name}: ${{{{ {'secrets' if one.is_key else 'vars'}.{one.name} }}}}")
    environment = "\n".join(["        env:", *lines]) if lines else ""
    text = GATE.replace("BASELINE", baseline).replace("CANDIDATE", candidate)
    written = _write(path, text.replace("ENVIRONMENT\n", f"{environment}\n" if lines else ""))
    if written.state == "wrote":
        written.why = "SSE_HARNESS at its top is yours to fill in: what pip installs"
    return written


def _sample(baseline: str, *, calls: bool) -> str:
    text = SAMPLE + SAMPLE_CALL if calls else SAMPLE.replace("import json\n", "")
    return text.replace("BASELINE", baseline)


def _entries(folder: Path, file: Written) -> Collection[str] | None:
    """The names in a providers.yaml that was there before; null if it was not, or cannot be read: then it says so."""
    if file.state != "kept":
        return None
    try:
        return load_project(Path(FILE_NAME), folder).providers
    except HarnessError as exc:
        file.why = f"it cannot be read: {str(exc).removeprefix(f'{FILE_NAME}: ')}; mend it, then init again"
        return None


def _endpoint(name: str, known: Preset, until: date, there: Collection[str] | None) -> Endpoint:
    missing = "" if there is None or name in there else "\n".join(entry(name, known, until))
    return Endpoint(name=name, variables=variables(known), missing=missing)


def _write(path: Path, text: str | bytes) -> Written:
    if path.exists():
        return Written(path=path, state="kept")

    def put() -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)

    _on_disk(path, put)
    return Written(path=path, state="wrote")


def _line(path: Path, line: str, equal: Sequence[str]) -> Written:
    """Add the line to the file, unless it, or one that says as much, stands there."""
    there = b""
    if path.is_file():
        there = path.read_bytes()
        lines = [found.strip() for found in there.decode("utf-8", "replace").splitlines()]
        if any(found in (line, *equal) for found in lines):
            return Written(path=path, state="kept")

    def put() -> None:
        with path.open("ab") as file:
            file.write(b"\n" * (bool(there) and not there.endswith(b"\n")) + f"{line}\n".encode())

    _on_disk(path, put)
    return Written(path=path, state="added" if there else "wrote", why=f"the line {json.dumps(line)}" if there else "")


def _on_disk(path: Path, put: Callable[[], object]) -> None:
    try:
        put()
    except OSError as exc:
        raise UsageError(f"{path}: cannot be written ({exc.strerror}); check the folder") from exc
