"""The gate's report as a page: all that was found is on it, nothing a model wrote comes alive, a browser agrees."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from browser import CHROMIUM, Browser
from commandline import harness
from reading import FIXTURES
from test_html import HOSTILE, Reader

from harness.cutover import Side
from harness.findings import AcceptanceUse, Accepted, Evidence, Finding, Outcome, Report, Severity, ShapeResult
from harness.recording import Read, Recording
from harness.replay import Replay
from harness.reports.gate_html import AROUND, HEAD, TAIL, gate_html
from harness.reports.text import clean
from harness.structure import signature, structure
from harness.testing import clean_stream

ACCEPT = [
    {"rule": "usage.position", "reason": HOSTILE},
    {"rule": "end.marker-missing", "shape": "text", "severity": "fatal", "reason": "ends at the reason",
     "until": "2099-01-01"},
]  # fmt: skip


def side(body: bytes, reads: list[Read] | None = None) -> Side:
    recording = Recording(body=body, reads=reads or [], status=200, end="eof", dialect="chat")
    return Side(recording=recording, structure=structure(recording, "chat"))


def finding(**fields: Any) -> Finding:
    given = {"rule": "a.b", "severity": Severity.FATAL, "path": "wire.a", "baseline": 1, "candidate": None,
             "message": "it hangs", "remedy": "mend it", "evidence": []}  # fmt: skip
    return Finding(**{**given, **fields})


def report(*findings: Finding, shape: str = "text", outcome: Outcome = Outcome.DIFFERS, **fields: Any) -> Report:
    result = ShapeResult(shape=shape, outcome=outcome, takes=1, findings=list(findings))
    return Report(**{"baseline": "a", "candidate": "b", "outcome": outcome, "shapes": [result], **fields})


def at(side_: str, at_: int, length: int) -> Evidence:
    return Evidence(side=side_, take=1, at=at_, length=length)  # type: ignore[arg-type]


def texts(page: str, element: str) -> list[str]:
    """What stands in each element of that name, without tags and escapes."""
    return [Reader(found).text for found in re.findall(rf"<{element}(?: [^>]*)?>(.*?)</{element}>", page, re.DOTALL)]


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The page and the report as JSON of a real gate: four shapes, recorded vLLM against transformers, played again."""
    folder = tmp_path_factory.mktemp("gated")
    shutil.copytree(FIXTURES / "vllm", folder / "fixtures" / "vllm")
    with pytest.MonkeyPatch.context() as patch, Replay(FIXTURES / "transformers") as server:
        patch.chdir(folder)
        entry = {"dialect": "chat", "base_url": server.base_url, "model": "tiny", "auth": "none", "accept": ACCEPT}
        (folder / "providers.yaml").write_text(yaml.safe_dump({"providers": {"cand": entry}}), "utf-8")
        done = harness("gate", "vllm", "cand", "--report", "out/r.html", "--report", "r.json")
        assert done.code == 1
        yield folder / "out" / "r.html", json.loads((folder / "r.json").read_bytes())


def test_all_that_the_gate_says_is_on_the_page(gated: tuple[Path, dict[str, Any]]) -> None:
    path, said = gated
    page = path.read_text("utf-8")
    made = Reader(page)
    assert texts(page, "title")[0] == texts(page, "h1")[0] == "vllm → cand: differs"
    findings = [found for shape in said["shapes"] for found in shape["findings"]]
    assert texts(page, "h3") == [found["message"].replace("`", "") for found in findings]
    articles = [attrs for name, attrs in made.elements if name == "article"]
    assert [attrs["data-severity"] for attrs in articles] == [found["severity"] for found in findings]
    assert [attrs["data-state"] for attrs in articles] == [
        "accepted" if found["accepted"] else "open" for found in findings
    ]
    items = texts(page, "li")
    for sentence in said["cutover"] + said["not_covered"]:
        assert sentence.replace("`", "") in items
    assert said["cutover"]
    alarm = "Accepted although fatal until 2099-01-01: end.marker-missing in text: ends at the reason"
    assert texts(page, "p").count(alarm) == 1


def test_the_outcome_comes_first_and_what_is_not_covered_last(gated: tuple[Path, dict[str, Any]]) -> None:
    page = gated[0].read_text("utf-8")
    heads = [head for head in texts(page, "h2") if head]
    assert heads == ["text conforms", "tool-call differs", "stop differs", "error differs", "At the cutover",
                     "Acceptances", "Not covered by this gate"]  # fmt: skip
    assert page.index('class="badge differs"') < page.index("<table") < page.index("<article")


def test_the_bytes_of_both_sides_are_marked(gated: tuple[Path, dict[str, Any]]) -> None:
    path, said = gated
    marks = iter(texts(path.read_text("utf-8"), "mark"))
    for shape in said["shapes"]:
        for found in shape["findings"]:
            for evidence in found["evidence"]:
                folder = "vllm" if evidence["side"] == "baseline" else "transformers"
                body = (FIXTURES / folder / f"{shape['shape']}.sse").read_bytes()
                own = body[evidence["at"] : evidence["at"] + evidence["length"]].decode().replace("\n", "↵\n")
                if len(own.encode()) <= HEAD + TAIL:
                    assert next(marks) == (clean(own) or "▸")
                else:
                    assert clean(own).startswith(next(marks))
                    assert clean(own).endswith(next(marks))
    assert list(marks) == []


def test_signatures_differ_on_the_page_as_they_do(gated: tuple[Path, dict[str, Any]]) -> None:
    page = gated[0].read_text("utf-8")
    rows = [row for row in texts(page, "tr") if row.startswith(("wire.", "behaviour."))]
    assert "wire.end.marker presentabsent" in rows
    bodies = [side((FIXTURES / name / "text.sse").read_bytes()) for name in ("vllm", "transformers")]
    one, other = (set(signature(found.structure)) for found in bodies)
    made = gate_html(report(), {"text": {("baseline", 1): bodies[0], ("candidate", 1): bodies[1]}})
    differ = {line.partition(" = ")[0] for line in one ^ other}
    shown = [text.partition(" ")[0] for text in texts(made, "th") if text.startswith(("wire.", "behaviour."))]
    assert sorted(shown) == sorted(differ)
    assert f"Signature: {len(differ)} of " in made
    alike = {text for text in texts(made, "li") if " = " in text}
    assert alike == {clean(line) for line in one & other}


def test_a_picture_of_the_reads_where_times_are_known() -> None:
    body = clean_stream("chat", {"text": "Hello there, this is it."})
    reads = [Read(end=end, microseconds=1000 * end) for end in range(100, len(body), 100)]
    reads.append(Read(end=len(body), microseconds=2_000_000))
    made = gate_html(report(), {"text": {("baseline", 1): side(body), ("candidate", 1): side(body, reads)}})
    ticks = [attrs for name, attrs in Reader(made).elements if name == "rect"]
    assert len(ticks) == len(reads)
    assert {attrs["class"] for attrs in ticks} == {"tick candidate"}
    places = [int(attrs["x"] or 0) for attrs in ticks]
    assert places == sorted(places)
    assert places[-1] == 991
    assert "baseline: no times known" in texts(made, "span")
    assert f"candidate: first event 300 ms, {len(reads)} reads, 2 s, eof" in texts(made, "span")
    without = gate_html(report(), {"text": {("baseline", 1): side(body), ("candidate", 1): side(body)}})
    assert "<svg" not in without


def test_many_reads_in_one_place_are_one_tick() -> None:
    body = clean_stream("chat", {"text": "x" * 2000})
    reads = [Read(end=end, microseconds=5 if end < len(body) else 60_000_000) for end in range(1, len(body) + 1)]
    made = gate_html(report(), {"text": {("baseline", 1): side(body, reads), ("candidate", 1): side(body)}})
    assert made.count("<rect") == 2
    assert f"{len(body) - 1} bytes, {len(body) - 1} reads" in made


def test_long_bytes_are_shown_at_both_ends_only() -> None:
    body = b"data: " + b"x" * 2_000_000 + "é".encode() * 500 + b"END\n\n"
    made = gate_html(report(finding(evidence=[at("candidate", 3, len(body) - 5)])),
                     {"text": {("candidate", 1): side(body)}})  # fmt: skip
    assert len(made) < 60_000
    assert f" … {len(body) - 5 - HEAD - TAIL} bytes … " in made
    assert "Nothing of it there." in texts(made, "p"), "the baseline has no bytes for it"
    assert texts(made, "mark")[0].startswith("a: xxx")


@pytest.mark.parametrize(("start", "length"), [(0, 0), (0, 5), (400, 3), (10_000, 0), (99_999, 7)])
def test_places_at_the_edges_and_beyond(start: int, length: int) -> None:
    body = "data: {}\n\n€".encode() * 900
    found = finding(evidence=[at("candidate", start, length)])
    made = gate_html(report(found), {"text": {("candidate", 1): side(body)}})
    (mark,) = texts(made, "mark")
    assert mark == (body[start : start + length].decode("utf-8", "replace").replace("\n", "↵\n") or "▸")
    assert "\ufffd" not in texts(made, "pre")[0].replace(mark, "")
    assert len(texts(made, "pre")[0]) < 3 * AROUND


def hostile_report() -> str:
    """Everything that comes from outside, hostile."""
    body = clean_stream("chat", {"text": HOSTILE, "tool_calls": [{"id": HOSTILE, "name": HOSTILE, "arguments": "{}"}]})
    body = body.replace(b'"finish_reason":"tool_calls"', b'"finish_reason":"</mark><script>document.title=1</script>"')
    accepted = Accepted(reason=HOSTILE, until=HOSTILE)
    found = [
        finding(rule=HOSTILE, path=HOSTILE, baseline=HOSTILE, candidate={HOSTILE: HOSTILE}, message=HOSTILE,
                remedy=HOSTILE, breaks=[HOSTILE] * 10, evidence=[at("baseline", 0, 300), at("candidate", 0, 9999)],
                accepted=given, severity=severity)
        for given in (None, accepted) for severity in Severity
    ]  # fmt: skip
    result = ShapeResult(shape=HOSTILE, outcome=Outcome.DIFFERS, takes=1, reason=HOSTILE, findings=found,
                         shared=[HOSTILE], remarks=[HOSTILE])  # fmt: skip
    use = AcceptanceUse(rule=HOSTILE, shape=HOSTILE, state="stale")
    made = Report(baseline=HOSTILE, candidate=HOSTILE, outcome=Outcome.DIFFERS, shapes=[result], acceptances=[use],
                  not_covered=[HOSTILE], cutover=[HOSTILE, f"{HOSTILE}: {HOSTILE}"])  # fmt: skip
    one = side(body, [Read(end=len(body), microseconds=5)])
    one.recording.end = HOSTILE
    return gate_html(made, {HOSTILE: {("baseline", 1): one, ("candidate", 1): side(body + HOSTILE.encode())}})


def test_hostile_output_stays_text() -> None:
    page = hostile_report()
    made = Reader(page)
    names = [name for name, _ in made.elements]
    assert "img" not in names
    assert names.count("script") == 1
    assert not any(name.startswith("on") for _, attrs in made.elements for name in attrs)
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert not re.search(r"https?://|url\(|@import", page)


def test_a_gate_that_did_not_get_far_is_a_page_too() -> None:
    skipped = ShapeResult(shape="logprobs", outcome=Outcome.SKIPPED, reason="not offered")
    missed = ShapeResult(shape="text", outcome=Outcome.NOT_MEASURED, reason="connect: refused")
    page = gate_html(Report(baseline="a", candidate="b", outcome=Outcome.NOT_MEASURED, shapes=[skipped, missed]))
    assert texts(page, "h1") == ["a → b: not measured"]
    assert "<form" not in page, "nothing to filter"
    assert {"text not measured (connect: refused)", "logprobs skipped (not offered)"} <= set(texts(page, "h2"))


# -- in a browser -------------------------------------------------------------------------------------------------

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")


@pytest.mark.browser
@needs_browser
def test_a_browser_filters_by_a_click_and_calls_nobody(gated: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    path, said = gated
    counts = [found["severity"] for shape in said["shapes"] for found in shape["findings"]]
    visible = "[...document.querySelectorAll('article')].filter(it => it.offsetParent).map(it => it.dataset.severity)"
    shown = "document.getElementById('shown').textContent"
    fatal = counts.count("fatal")
    with Browser(tmp_path) as browser:
        browser.open(path, "#shape-stop")
        assert browser.run("location.hash") == "#shape-stop"
        assert browser.run("Math.abs(document.getElementById('shape-stop').getBoundingClientRect().top) < 5")
        assert browser.run(visible) == counts
        browser.run("document.querySelector('button[data-value=fatal]').click()")
        assert browser.run(visible) == ["fatal"] * fatal
        assert browser.run(shown) == f"{fatal} of {len(counts)} findings"
        browser.run("document.querySelector('button[data-value=open]').click()")
        assert browser.run(visible) == ["fatal"] * (fatal - 1)
        assert browser.run("location.hash") == "#severity=fatal&state=open"
        browser.run("document.getElementById('clear').click()")
        assert browser.run(visible) == counts
        assert browser.run("document.documentElement.scrollWidth <= innerWidth"), "nothing sticks out"
        colour = "getComputedStyle(document.{}).backgroundColor"
        assert browser.run(colour.format("querySelector('mark')")) != "rgba(0, 0, 0, 0)", "what is marked shows"
        light = browser.run(colour.format("body"))
        browser.dark()
        assert browser.run(colour.format("body")) != light
        assert browser.problems == []
        assert [request.partition("#")[0] for request in browser.requests] == [path.as_uri()]


@pytest.mark.browser
@needs_browser
def test_on_a_narrow_window_each_shape_is_read_without_scrolling_aside(tmp_path: Path) -> None:
    why = "cand: cannot connect to 127.0.0.1:1 (Connection refused): is the server running? check base_url"
    page = tmp_path / "narrow.html"
    page.write_text(gate_html(report(outcome=Outcome.NOT_MEASURED, shapes=[
        ShapeResult(shape="text", outcome=Outcome.NOT_MEASURED, reason=why),
    ])), "utf-8")  # fmt: skip
    with Browser(tmp_path) as browser:
        browser.resize(420, 900)
        browser.open(page)
        assert browser.run("document.querySelector('.shapes .why').innerText") == why
        assert browser.run("document.querySelector('.shapes .why').offsetWidth") > 300
        assert browser.run("(it => it.scrollWidth <= it.clientWidth)(document.querySelector('.scroll'))")
        assert browser.run("getComputedStyle(document.querySelector('.shapes .number'), '::before').content")
        browser.resize(1400, 900)
        assert browser.run("getComputedStyle(document.querySelector('.shapes .why')).display") == "table-cell"
        assert browser.problems == []


@pytest.mark.browser
@needs_browser
def test_nothing_hostile_comes_alive_in_a_browser(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(hostile_report(), "utf-8")
    with Browser(tmp_path) as browser:
        browser.open(path)
        assert browser.run("document.title").startswith("</script>")
        assert browser.run("document.querySelectorAll('img, mark script, main script').length") == 0
        assert browser.run("document.getElementById('shown').textContent") == "6 of 6 findings"
        assert (browser.problems, browser.requests) == ([], [path.as_uri()])
