"""docs/rules.md says what the catalogue says."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from commandline import harness
from reading import ROOT

from harness.catalogue import CATALOGUE
from harness.catalogue_varies import VARIES

PAGE = ROOT / "docs" / "rules.md"
SCRIPT = ROOT / "tools" / "generate_docs.py"


def rows() -> dict[str, list[str]]:
    """The cells behind each code."""
    found = {}
    for line in PAGE.read_text("utf-8").splitlines():
        cells = [cell.replace("\\|", "|").replace("\\<", "<").strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 6 and cells[0].startswith("`"):
            found[cells[0].strip("`")] = cells[1:]
    return found


def test_the_page_of_rules_is_not_stale() -> None:
    done = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_stale_page_is_noticed(tmp_path: Path) -> None:
    copy = tmp_path / "tools" / SCRIPT.name
    copy.parent.mkdir()
    for script in SCRIPT.parent.glob("*.py"):
        (copy.parent / script.name).write_bytes(script.read_bytes())
    shutil.copytree(ROOT / "docs" / "examples", tmp_path / "docs" / "examples")
    (tmp_path / "docs" / "rules.md").write_text(PAGE.read_text("utf-8").replace("spinner", "hourglass"), "utf-8")
    run = [sys.executable, str(copy)]
    done = subprocess.run([*run, "--check"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "stale" in done.stderr
    subprocess.run(run, check=True, timeout=60)
    assert (tmp_path / "docs" / "rules.md").read_bytes() == PAGE.read_bytes()


def test_every_rule_stands_there_as_the_command_line_explains_it() -> None:
    found = rows()
    assert found.keys() == CATALOGUE.keys()
    for line in harness("rules", "--json").objects:
        severity, _, *rest = found[line["code"]]
        assert (severity, rest) == (line["severity"], [line["says"], line["remedy"], line["kind"]])


def test_when_a_severity_is_another_stands_beside_it() -> None:
    said = {code: cells[1] for code, cells in rows().items() if cells[1]}
    assert said.keys() == VARIES.keys()
    assert said["tool.id-missing"].startswith("worse: fatal where the answer has several calls")
    for code, text in said.items():
        severity, when = VARIES[code]
        way = "worse" if severity.rank > CATALOGUE[code].severity.rank else "milder"
        assert text == f"{way}: {severity} where {when}"
        assert f"\n  may be {text}\n" in harness("rules", code).out
