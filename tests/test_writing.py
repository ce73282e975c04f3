import json
from pathlib import Path

import pytest

from harness.config import load_project
from harness.errors import ConfigError, UsageError
from harness.runs.writing import write_acceptances

ENTRIES = [
    {"rule": "usage.position", "reason": 'counted "locally": ok # really', "until": "2027-06-30"},
    {"rule": "end.marker-missing", "shape": "text", "severity": "fatal", "reason": "x", "until": "2027-01-01",
     "owner": "web: team", "baseline": "openai"},
]  # fmt: skip
HEAD = """\
# endpoints
providers:
  openai: # the reference
    dialect: chat
    base_url: https://api.openai.com/v1
    model: gpt-5.4
"""
CANDIDATE = """\
  candidate:
    dialect: chat
    base_url: http://127.0.0.1:1/v1 # here
    model: local
"""
TAIL = """\
  # the last one
  other: {dialect: chat, base_url: "http://127.0.0.1:2/v1", model: m}
"""
ACCEPT = """\
    accept:
      # agreed with the team
      - {rule: sse.bom, reason: known} # until they mend it
"""


@pytest.mark.parametrize("tail", ["", "\n", TAIL])
@pytest.mark.parametrize("accept", ["", ACCEPT, ACCEPT.replace("      ", "    ")])
@pytest.mark.parametrize("more", ["", "    request: {max_tokens: 9}\n", "    shapes:\n      stop: {skip: no}\n"])
def test_lines_are_inserted_and_the_rest_stays(tmp_path: Path, tail: str, accept: str, more: str) -> None:
    path = tmp_path / "providers.yaml"
    more = more.replace("skip: no", 'skip: "no"')
    before = HEAD + CANDIDATE + accept + more + tail
    path.write_text(before, "utf-8")
    write_acceptances(path, "candidate", ENTRIES)
    after = path.read_text("utf-8")
    rows = iter(after.splitlines())
    assert all(line in rows for line in before.splitlines()), after  # every line is there still, in order
    found = load_project(path, tmp_path).providers["candidate"].accept
    assert [entry.rule for entry in found[-2:]] == ["usage.position", "end.marker-missing"]
    assert found[-2].reason == ENTRIES[0]["reason"]
    assert [(entry.owner, entry.baseline) for entry in found[-2:]] == [(None, None), ("web: team", "openai")]
    assert len(found) == (3 if accept else 2)
    assert load_project(path, tmp_path).providers["openai"].accept == ()


def test_an_entry_of_the_same_rule_and_shape_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "providers.yaml"
    path.write_text(HEAD + CANDIDATE + ACCEPT + TAIL, "utf-8")
    write_acceptances(path, "candidate", ENTRIES)
    once = path.read_text("utf-8")
    write_acceptances(path, "candidate", ENTRIES)
    assert path.read_text("utf-8") == once
    later = [{**ENTRIES[0], "until": "2031-01-01"}, {**ENTRIES[0], "shape": "stop"}, {"rule": "sse.bom", "reason": "b"}]
    write_acceptances(path, "candidate", later)
    found = load_project(path, tmp_path).providers["candidate"].accept
    assert [(entry.rule, entry.shape, str(entry.until)) for entry in found] == [
        ("sse.bom", None, "None"), ("usage.position", None, "2031-01-01"), ("end.marker-missing", "text", "2027-01-01"),
        ("usage.position", "stop", "2027-06-30"),
    ]  # fmt: skip
    assert "# agreed with the team" in path.read_text("utf-8")


def test_a_renewed_entry_keeps_its_owner_and_one_of_another_baseline_is_another(tmp_path: Path) -> None:
    path = tmp_path / "providers.yaml"
    path.write_text(HEAD + CANDIDATE + ACCEPT + TAIL, "utf-8")
    owned = [{**ENTRIES[0], "owner": "Ann"}, {**ENTRIES[0], "owner": "Bob", "baseline": "openai"}]
    assert write_acceptances(path, "candidate", owned) == owned
    renewed = [{**ENTRIES[0], "reason": "later"}, {**ENTRIES[0], "owner": "Cy", "baseline": "openai"}]
    assert [entry["owner"] for entry in write_acceptances(path, "candidate", renewed)] == ["Ann", "Cy"]
    found = load_project(path, tmp_path).providers["candidate"].accept
    assert [(entry.rule, entry.reason, entry.owner, entry.baseline) for entry in found] == [
        ("sse.bom", "known", None, None), ("usage.position", "later", "Ann", None),
        ("usage.position", ENTRIES[0]["reason"], "Cy", "openai"),
    ]  # fmt: skip
    assert "# agreed with the team" in path.read_text("utf-8")


def test_a_name_that_yaml_reads_as_something_else_is_quoted(tmp_path: Path) -> None:
    path = tmp_path / "providers.yaml"
    path.write_text(HEAD + CANDIDATE + TAIL.replace("other", '"no"'), "utf-8")
    write_acceptances(path, "candidate", [{**ENTRIES[0], "baseline": "no"}])
    (entry,) = load_project(path, tmp_path).providers["candidate"].accept
    assert entry.baseline == "no"


def test_a_baseline_that_the_project_does_not_know_is_told_of_the_file_itself(tmp_path: Path) -> None:
    path = tmp_path / "providers.yaml"
    path.write_text(HEAD + CANDIDATE, "utf-8")
    with pytest.raises(ConfigError) as caught:
        write_acceptances(path, "candidate", [{**ENTRIES[0], "baseline": "opnai"}])
    assert str(caught.value).startswith(
        f"{path}: providers.candidate.accept[0].baseline: no provider 'opnai'; did you mean 'openai'?"
    )
    assert path.read_text("utf-8") == HEAD + CANDIDATE


def test_what_cannot_be_inserted_is_told_and_nothing_is_written(tmp_path: Path) -> None:
    path = tmp_path / "providers.yaml"
    path.write_text(HEAD + TAIL, "utf-8")
    with pytest.raises(UsageError, match=r"add by hand: providers:\n  other:\n    accept:\n      - \{rule: usage"):
        write_acceptances(path, "other", ENTRIES)
    with pytest.raises(UsageError, match="no provider 'nobody'"):
        write_acceptances(path, "nobody", ENTRIES)
    assert path.read_text("utf-8") == HEAD + TAIL
    assert [file.name for file in tmp_path.iterdir()] == ["providers.yaml"]


def test_the_command_writes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from harness.cli import run

    monkeypatch.chdir(tmp_path)
    Path("providers.yaml").write_text(HEAD + CANDIDATE, "utf-8")
    finding: dict[str, object] = {
        "rule": "usage.position", "severity": "negotiable", "accepted": None, "path": "wire.usage.position",
        "baseline": None, "candidate": None, "message": "m", "remedy": "r", "evidence": [], "breaks": [],
    }  # fmt: skip
    shape = {"shape": "text", "outcome": "differs", "reason": "", "takes": 1, "findings": [finding], "shared": [],
             "remarks": []}  # fmt: skip
    report = {"format": "sse-harness-report/1", "baseline": "openai", "candidate": "candidate", "outcome": "differs",
              "shapes": [shape], "acceptances": [], "not_covered": []}  # fmt: skip
    Path("report.json").write_text(json.dumps(report), "utf-8")
    assert run(["accept", "report.json", "--reason", "fine", "--until", "2027-06-30", "--write"]) == 0
    (entry,) = load_project(None, tmp_path).providers["candidate"].accept
    assert (entry.rule, entry.shape, entry.reason, str(entry.until)) == ("usage.position", "text", "fine", "2027-06-30")
    assert (entry.owner, entry.baseline) == (None, None)  # it is the candidate's deviation, against whatever baseline
    again = ["accept", "report.json", "--reason", "fine", "--owner", "web team", "--baseline", "--write"]
    assert run(again) == 0
    entry = load_project(None, tmp_path).providers["candidate"].accept[-1]
    assert (entry.owner, entry.baseline) == ("web team", "openai")
    assert run(["accept", "report.json", "--reason", " "]) == 2
    assert run(["accept", "report.json", "--reason", "fine", "--until", "2020-01-01"]) == 2
