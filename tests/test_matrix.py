"""The survival matrix: what its cells say, and its forms."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import msgspec
import pytest
from commandline import harness
from sdk_tables import TABLES, page

from harness.adapters import SDKS
from harness.adapters.served import version_of
from harness.answers import CaseOutcome
from harness.clients.table import CLIENTS
from harness.errors import UsageError
from harness.findings import Severity
from harness.jsontext import to_json
from harness.reports.matrix import MARKS, MOST_COLUMNS, SAYS, matrix_html, matrix_markdown, matrix_text, write_matrix
from harness.runs.matrix import Cell, Column, Matrix, Row, matrix

ROOT = Path(__file__).resolve().parent.parent
QUIRKS = ROOT / "harness" / "quirks"
DATE = "2027-01-31"
HOSTILE = "</td><script>x</script>|a\n| b | `c` \x1b[31m\u202e"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to stand in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def marks(found: Matrix, client: str) -> dict[str, str]:
    return {row.case[:3]: str(row.cells[client].outcome) for row in found.rows}


def test_a_cell_says_what_a_client_makes_of_a_stream() -> None:
    clients = ["right-machine", "keys-by-id", "decodes-each-read"]
    found = matrix(date=DATE, clients=clients, cases=["012*", "021*", "08*"])
    assert [column.name for column in found.columns] == [f"client:{name}" for name in clients]
    assert [column.right for column in found.columns] == [True, False, False]
    assert set(marks(found, "client:right-machine").values()) <= {"right", "told"}
    rows = {row.case: row for row in found.rows}
    interleaved = rows["021-interleaved-parallel-calls"]
    assert (interleaved.kind, interleaved.dialect, interleaved.severity) == ("quirk", "chat", Severity.COSMETIC)
    assert interleaved.fault
    cell = interleaved.cells["client:keys-by-id"]
    assert (cell.outcome, cell.cut_only) == (CaseOutcome.WRONG, False)
    assert cell.says[0].startswith("tool_calls (id, name)")
    done = harness(*shlex.split(cell.repro)[1:])
    assert done.code == 1
    assert cell.says[0] in done.out
    assert "client:keys-by-id" not in rows["083-overloaded-mid-stream"].cells  # it reads chat only
    by_read = rows["012-multibyte-utf8"].cells["client:decodes-each-read"]
    assert (by_read.outcome, by_read.cut_only) == (CaseOutcome.WRONG, True)
    assert by_read.repro.endswith("--cut bytes")
    counts = found.columns[1].counts
    assert counts["wrong"] >= 1
    assert sum(counts.values()) == sum("client:keys-by-id" in row.cells for row in found.rows)


def test_cuts_can_be_chosen_and_clients_that_share_the_reference_splitting_run_uncut() -> None:
    found = matrix(date=DATE, clients=["decodes-each-read"], cases=["012*"], cuts=["whole"])
    assert marks(found, "client:decodes-each-read") == {"012": "right"}
    assert found.cuts == {"quirk": ["whole"], "fixture": ["whole"]}
    found = matrix(date=DATE, clients=["keys-by-id"], cases=["012*"], cuts=["bytes"])
    assert marks(found, "client:keys-by-id") == {"012": "right"}
    assert "cuts: 1 client models split bytes as the reference does, and are run uncut only" in found.not_covered


def fixtures(folder: Path) -> Path:
    """A project with fixtures: one whose message is expected, one bare, one nobody reads, one that tells no dialect."""
    root = folder / "fixtures"
    (root / "p").mkdir(parents=True)
    body = (QUIRKS / "021-interleaved-parallel-calls.sse").read_bytes()
    for name, dialect in (("text", "chat"), ("stop", "chat"), ("error", "cohere")):
        (root / "p" / f"{name}.sse").write_bytes(body)
        (root / "p" / f"{name}.json").write_text(json.dumps({"format": "sse-harness/1", "dialect": dialect}))
    (root / "p" / "reasoning.sse").write_bytes(b"data: [DONE]\n\n")
    assert harness("expect", "fixtures/p/text.sse", "--write").code == 0
    return root


def test_fixtures_are_read_as_we_read_them_and_judged_by_lint(folder: Path) -> None:
    found = matrix(date=DATE, clients=["keys-by-id", "right-queries"], quirks=False, fixtures=fixtures(folder))
    assert [(row.case, row.kind, row.dialect) for row in found.rows] == [
        ("p/stop", "fixture", "chat"), ("p/text", "fixture", "chat"),
    ]  # fmt: skip
    for row in found.rows:
        assert row.cells["client:keys-by-id"].outcome is CaseOutcome.WRONG
        assert row.cells["client:right-queries"].outcome is CaseOutcome.RIGHT
    assert [bool(row.cells["client:keys-by-id"].repro) for row in found.rows] == [False, True]  # `check` has one only
    told = "\n".join(found.not_covered)
    assert "1 case of dialect cohere: no client here reads it" in told
    assert "p/reasoning" in told
    assert "--dialect" in told
    assert "have no .expected.json" in told
    quirks = matrix(date=DATE, clients=["keys-by-id"], cases=["p/t*", "021*"], fixtures=folder / "fixtures")
    assert [row.case for row in quirks.rows] == ["021-interleaved-parallel-calls", "p/text"]


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ({"clients": ["keys-by-ids"]}, "no client model 'keys-by-ids'; did you mean 'keys-by-id'?"),
        ({"sdks": ["openai"]}, "no SDK 'openai'; did you mean 'openai-.*there are openai-python"),
        ({"clients": ["keys-by-id"], "cases": ["999*"]}, "no case '999"),
        ({"clients": ["keys-by-id"], "cuts": ["bits"]}, "no family of cuts 'bits'"),
    ],
)
def test_unknown_names_are_told(names: dict[str, list[str]], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        matrix(date=DATE, **names)  # type: ignore[arg-type] # keywords of a test


def test_without_names_all_client_models_and_installed_sdks_run() -> None:
    told: list[str] = []
    found = matrix(date=DATE, cases=["001*"], cuts=["whole"], progress=told.append)
    names = [column.name for column in found.columns]
    installed = [f"sdk:{sdk.name}" for sdk in SDKS.values() if version_of(sdk)]
    assert names == [*installed, *(f"client:{name}" for name in CLIENTS)]
    assert told[-1] == f"{len(names)}/{len(names)} {names[-1]}"
    for sdk in SDKS.values():
        missing = f"sdk:{sdk.name}: {sdk.package} is not installed"
        assert (missing in found.not_covered) == (version_of(sdk) is None)
    for column in found.columns:
        assert re.search(r" \d+\.\d+", column.version)
        assert column.about


def made(clients: int = 2) -> Matrix:
    """A matrix with one row, and hostile text in every place that takes text."""
    outcomes = [outcome for outcome in CaseOutcome if not outcome.good]
    columns = [
        Column(name=f"client:c{number}", kind="client", version=HOSTILE, about=HOSTILE, right=False, dialects=["chat"],
               counts={str(outcomes[number % len(outcomes)]): 1})
        for number in range(clients)
    ]  # fmt: skip
    columns.insert(0, Column(name="sdk:s", kind="sdk", version="s 1.2.3", about="x", right=None, dialects=["chat"],
                             counts={"right": 1}))  # fmt: skip
    cells = {"sdk:s": Cell(outcome=CaseOutcome.RIGHT)}
    for number, column in enumerate(columns[1:]):
        cells[column.name] = Cell(outcome=outcomes[number % len(outcomes)], cut_only=number == 0, says=[HOSTILE],
                                  repro=HOSTILE)  # fmt: skip
    row = Row(case=HOSTILE, kind="fixture", dialect="chat", fault=HOSTILE, severity=Severity.FATAL, contested=True,
              cells=cells)  # fmt: skip
    return Matrix(date=DATE, version="0.1.0", python="3.11", cuts={"quirk": ["whole"], "fixture": ["whole"]},
                  columns=columns, rows=[row], not_covered=[HOSTILE])  # fmt: skip


def test_every_outcome_has_a_letter_of_its_own_and_a_sentence() -> None:
    assert list(MARKS) == list(SAYS) == list(CaseOutcome)
    letters = [mark.lower() for outcome, mark in MARKS.items() if not outcome.good]
    assert len(set(letters)) == len(letters)


def test_text_has_a_letter_for_each_client_and_counts_where_they_are_many() -> None:
    text = matrix_text(made())
    assert text.startswith(f"survival matrix, sse-harness 0.1.0, Python 3.11, {DATE}\n")
    (line,) = [line for line in text.splitlines() if "fatal*" in line]
    assert line.split("fatal*")[0].split()[-3:] == [".", "w", "R"]
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", text)
    many = matrix_text(made(MOST_COLUMNS))
    assert "client models that fail" in many
    (line,) = [line for line in many.splitlines() if "fatal*" in line]
    assert line.endswith(f"fatal*      {MOST_COLUMNS} of {MOST_COLUMNS}: c0 w, c1 R, {MOST_COLUMNS - 2} more")


def test_markdown_keeps_its_table_whatever_stands_in_a_cell() -> None:
    for count in (2, MOST_COLUMNS):
        text = matrix_markdown(made(count))
        for block in text.split("\n\n"):
            lines = [line for line in block.splitlines() if line.startswith("|")]
            columns = [len(re.findall(r"(?<!\\)\|", line)) for line in lines]
            assert len(set(columns)) <= 1, block
        assert not re.search(r"(?<![\\\\])<script", re.sub("`[^`]*`", "", text))
        assert "\x1b" not in text
    assert "| sdk:s" not in matrix_markdown(made())
    assert "| `sdk:s` | s 1.2.3 | x | 1 of 1 |  |" in matrix_markdown(made())


def test_html_escapes_everything_and_has_a_note_behind_each_failure() -> None:
    text = matrix_html(made())
    assert text.count("<script") == 1
    assert "\x1b" not in text
    assert text.count("data-note=") == 2
    assert "only when the bytes are cut" in text
    assert 'class="mark wrong cut"' in text
    for name, values in {
        "outcome": {"wrong", "raised"}, "severity": {"fatal"}, "kind": {"fixture"}, "who": {"sdk", "wrong"},
        "client": {"sdk:s", "client:c0", "client:c1"},
    }.items():  # fmt: skip
        found = re.findall(f'data-filter="{name}" data-value="([^"]+)"', text)
        assert set(found) == values
        assert f"data-{name}=" in text
    assert DATE in text
    assert "s 1.2.3" in text


def test_the_command_writes_each_form_and_its_json_keeps_to_the_schema(folder: Path) -> None:
    reports = [part for suffix in ("md", "html", "json") for part in ("--report", f"out/matrix.{suffix}")]
    done = harness("matrix", "--client", "keys-by-id", "--client", "right-machine", "--case", "02*", *reports)
    assert (done.code, done.err) == (0, "")
    assert "chat, 10 quirks" in done.out
    assert "client:keys-by-id" in done.out
    assert (folder / "out" / "matrix.html").read_text("utf-8").startswith("<!doctype html>")
    assert (folder / "out" / "matrix.md").read_text("utf-8").startswith("# Survival matrix")
    value = json.loads((folder / "out" / "matrix.json").read_text("utf-8"))
    again = harness("matrix", "--client", "keys-by-id", "--client", "right-machine", "--case", "02*", "--json").one
    assert {**again, "date": value["date"]} == value
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", value["date"])
    schema = json.loads((ROOT / "docs" / "schema" / "matrix.json").read_text("utf-8"))
    jsonschema.validate(value, schema, cls=jsonschema.Draft202012Validator)
    jsonschema.validate(json.loads(to_json(made())), schema, cls=jsonschema.Draft202012Validator)
    found = msgspec.json.schema(Matrix)
    assert {key: schema[key] for key in found} == found, "matrix.json is written anew from this"


def test_the_commands_exit_codes(folder: Path) -> None:
    fixtures(folder)
    (folder / "providers.yaml").write_text(
        "providers:\n  p: {dialect: chat, base_url: http://127.0.0.1:9/v1, model: m, auth: none}\n"
    )
    chosen = ("--client", "keys-by-id", "--cut", "whole")
    names = [row["case"] for row in harness("matrix", *chosen, "--no-quirks", "--json").one["rows"]]
    assert names == ["p/stop", "p/text"]
    assert "p/text" not in harness("matrix", *chosen, "--no-fixtures", "--case", "001*").out
    assert harness("matrix", *chosen, "--config", "providers.yaml", "--case", "p/*").code == 0
    nobody = harness("matrix", *chosen, "--case", "101*")
    assert nobody.failed(3) == "harness: no client here reads any of these streams; see --client, --sdk and --case"
    assert "use .md, .html, .json" in harness("matrix", *chosen, "--report", "x.pdf").failed(2)
    assert "leave no case" in harness("matrix", "--no-quirks", "--no-fixtures").failed(2)
    assert "no SDK 'x'" in harness("matrix", "--sdk", "x").failed(2)
    with pytest.raises(UsageError, match="cannot be written"):
        write_matrix(folder / "providers.yaml" / "x.md", made())


DOC = (ROOT / "docs" / "matrix.md").read_text("utf-8")
VERSIONS = dict(re.findall(r"^\| `sdk:([a-z-]+)` \| ([^|]+?) \|", DOC, re.MULTILINE))


def documented(sdk: str) -> dict[str, str]:
    """The letters of the SDK's column in the tables of docs/matrix.md, by case."""
    found = {}
    for block in DOC.split("\n\n"):
        lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in block.splitlines() if line[:1] == "|"]
        if lines and lines[0][0] == "case" and sdk in lines[0]:
            found.update({line[0]: line[lines[0].index(sdk)] or "." for line in lines[2:]})
    return found


def test_the_page_shows_every_sdk() -> None:
    assert VERSIONS.keys() == SDKS.keys()


@pytest.mark.parametrize("name", SDKS)
def test_the_page_shows_what_each_sdk_does(name: str) -> None:
    sdk = SDKS[name]
    if f"{sdk.package} {version_of(sdk)}" != VERSIONS[name]:
        pytest.skip(f"{VERSIONS[name]} is not installed")
    found = matrix(date=DATE, sdks=[name], cuts=["whole"])
    shown = {row.case: MARKS[row.cells[f"sdk:{name}"].outcome] for row in found.rows}
    assert documented(name) == shown, "docs/matrix.md is stale: python tests/sdk_tables.py"


def test_the_page_is_what_its_generator_writes() -> None:
    """The tables' form, and the cases in them; what the SDKs do with each is the test before."""
    found = matrix(date=DATE, clients=["right-machine"], cuts=["whole"])
    about = DOC.partition(TABLES)[0]
    made = page(DOC, found)
    assert made.startswith(about + TABLES)
    assert f"### chat: {sum(row.dialect == 'chat' for row in found.rows)} quirks\n" in made
    heads = re.compile(r"^### .*$", re.MULTILINE)
    assert set(heads.findall(DOC)) <= set(heads.findall(made)), "docs/matrix.md is stale: python tests/sdk_tables.py"
