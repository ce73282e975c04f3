import json
from pathlib import Path
from typing import Any

import pytest

from harness.config import load_project
from harness.errors import ConfigError, UsageError
from harness.runs.accepting import acceptances, load_report
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


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("last", ["", "end"])
def test_line_ends_stay_as_they_are(tmp_path: Path, line_end: str, last: str) -> None:
    path = tmp_path / "providers.yaml"
    text = (HEAD + CANDIDATE).replace("\n", line_end)
    path.write_bytes((text if last else text.removesuffix(line_end)).encode())
    write_acceptances(path, "candidate", ENTRIES)
    after = path.read_bytes().decode()
    assert after.startswith(text + f"    accept:{line_end}      - {{rule: usage.position")
    assert after.replace(line_end, "").isprintable()
    assert len(load_project(path, tmp_path).providers["candidate"].accept) == 2


SHARED = {
    "alias": HEAD.replace("openai:", "openai: &o") + "  candidate: *o\n",
    "merge key": HEAD.replace("openai:", "openai: &o") + "  candidate:\n    model: local\n    <<: *o\n",
    "merge key with entries": HEAD.replace("openai:", "openai: &o") + ACCEPT + "  candidate:\n    <<: *o\n",
    "merged into another": HEAD + CANDIDATE.replace("candidate:", "candidate: &c") + "  other:\n    <<: *c\n",
    "entries": HEAD + ACCEPT.replace("accept:", "accept: &a") + CANDIDATE + "    accept: *a\n",
    "an entry": HEAD + "    accept:\n      - &a {rule: sse.bom, reason: r}\n" + CANDIDATE + "    accept:\n      - *a\n",
    "the last value": HEAD + "    request: &r {top_k: 1}\n" + CANDIDATE + "    request: *r\n",
}


@pytest.mark.parametrize("text", SHARED.values(), ids=SHARED)
def test_what_is_shared_by_providers_is_not_written_to(tmp_path: Path, text: str) -> None:
    """Else the baseline, or a third one, would tolerate what the candidate is to be tolerated for."""
    path = tmp_path / "providers.yaml"
    path.write_text(text, "utf-8")
    assert "candidate" in load_project(path, tmp_path).providers
    with pytest.raises(UsageError, match="add by hand: "):
        write_acceptances(path, "candidate", ENTRIES)
    assert path.read_text("utf-8") == text
    assert [file.name for file in tmp_path.iterdir()] == ["providers.yaml"]


def test_a_link_stays_one_and_permissions_stay(tmp_path: Path) -> None:
    path, real = tmp_path / "providers.yaml", tmp_path / "config" / "real.yaml"
    real.parent.mkdir()
    real.write_text(HEAD + CANDIDATE, "utf-8")
    real.chmod(0o640)
    path.symlink_to("config/real.yaml")
    write_acceptances(path, "candidate", ENTRIES)
    assert path.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert len(load_project(path, tmp_path).providers["candidate"].accept) == 2
    assert [file.name for file in real.parent.iterdir()] == ["real.yaml"]


def test_a_read_only_file_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "providers.yaml"
    path.write_text(HEAD + CANDIDATE, "utf-8")
    path.chmod(0o444)
    with pytest.raises(UsageError, match=r"cannot be written \(read-only\); check its permissions$"):
        write_acceptances(path, "candidate", ENTRIES)
    assert path.read_text("utf-8") == HEAD + CANDIDATE


def test_an_entry_that_makes_the_file_too_large_is_told(tmp_path: Path) -> None:
    path = tmp_path / "providers.yaml"
    path.write_text(HEAD + CANDIDATE, "utf-8")
    with pytest.raises(ConfigError, match="is larger than 256 KiB"):
        write_acceptances(path, "candidate", [{**ENTRIES[0], "reason": "x" * 300_000}])


def test_every_character_of_a_reason_arrives(tmp_path: Path) -> None:
    path = tmp_path / "providers.yaml"
    path.write_text(HEAD + CANDIDATE, "utf-8")
    text = "".join(map(chr, [*range(0x180), *range(0x2000, 0x2070), 0xFEFF, 0xFFFD, 0xFFFE, 0xFFFF, 0x1F600])) + "\\"
    write_acceptances(path, "candidate", [{**ENTRIES[0], "reason": text, "owner": text}])
    (entry,) = load_project(path, tmp_path).providers["candidate"].accept
    assert (entry.reason, entry.owner) == (text, text)


# -- reports that were made by hand -------------------------------------------------------------------------------


def _report(path: Path, **members: Any) -> Path:
    """A report of one finding, with these members of the finding, or `shape`."""
    finding = {"rule": "usage.position", "severity": "negotiable", "path": "", "baseline": 1, "candidate": 2,
               "message": "", "remedy": "", "evidence": [], **members}  # fmt: skip
    shape = {"shape": finding.pop("shape", "text"), "outcome": "differs", "findings": [finding]}
    head = {"format": "sse-harness-report/1", "baseline": "a", "candidate": "b", "outcome": "differs"}
    path.write_text(json.dumps({**head, "shapes": [shape], "acceptances": [], "not_covered": []}), "utf-8")
    return path


@pytest.mark.parametrize("members", [{"rule": "*"}, {"rule": "usage.[a-z]*"}, {"shape": "*"}, {"shape": "te?t"}])
def test_a_report_cannot_make_a_pattern_of_its_names(tmp_path: Path, members: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="names no rule or shape; was the report edited"):
        load_report(_report(tmp_path / "report.json", **members))


@pytest.mark.parametrize("value", [10**40, "half a \ud83d", {"": [None, 1e300]}])
def test_a_report_is_read_whatever_a_stream_said(tmp_path: Path, value: object) -> None:
    report = load_report(_report(tmp_path / "report.json", candidate=value, message=str(value)))
    assert report.shapes[0].findings[0].candidate == value
    assert acceptances(report, reason="r") == [{"rule": "usage.position", "shape": "text", "reason": "r"}]


@pytest.mark.parametrize("text", ["", "[]", "1", "[" * 100_000, '{"format": 1}', "\ufeff{}", "9" * 10_000])
def test_what_is_no_report_is_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "report.json"
    path.write_text(text, "utf-8")
    with pytest.raises(UsageError, match=r"report\.json: not a report of `harness gate --report` \("):
        load_report(path)


def test_bytes_that_are_no_text_are_no_reason(tmp_path: Path) -> None:
    report = load_report(_report(tmp_path / "report.json"))
    with pytest.raises(UsageError, match=r"^--reason: holds bytes that are no UTF-8"):
        acceptances(report, reason="caf\udce9")
    with pytest.raises(UsageError, match=r"^--owner: holds bytes that are no UTF-8"):
        acceptances(report, reason="r", owner="caf\udce9")
