"""DESIGN, "Differs, not 'not measured'", row by row: each over a real socket, asked twice by `--attempts 2`.

What differs is a verdict and is asked once. What is not measured is neither pass nor fail (exit 3): it is asked again,
and the report says at its end that it is not covered.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from commandline import Done, harness
from servers import Answer, Scripted, answer, chunked, closed_port, json_answer

from harness import transport
from harness.testing import clean_stream

USAGE = {"input_tokens": 9, "output_tokens": 4}
CALL = {"id": "call_1", "name": "get_weather", "arguments": '{"city": "Paris"}'}
TEXT = clean_stream("chat", {"text": "Good morning from the pier.", "usage": USAGE})
TOOL = clean_stream("chat", {"tool_calls": [CALL], "usage": USAGE})
REFUSAL = {"error": {"message": "no", "type": "invalid_request_error", "code": None, "param": None}}
HTML = answer(b"<html><body>Sign in</body></html>", media="text/html")
WHOLE = {"object": "chat.completion", "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello."}}]}
UNCALLED = TEXT.replace(b'"finish_reason":"stop"', b'"finish_reason":"tool_calls"')


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the baseline `old`, bare as curl leaves it; the current folder."""
    monkeypatch.chdir(tmp_path)
    fixture("text", TEXT)
    fixture("tool-call", TOOL)
    return tmp_path


def fixture(shape: str, body: bytes, status: int | None = None) -> None:
    """A fixture of `old`; with a status it has a sidecar."""
    path = Path("fixtures") / "old" / f"{shape}.sse"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(body)
    if status is not None:
        known = {"dialect": "chat", "status": status, "headers": {"content-type": "application/json"}, "end": "eof"}
        path.with_suffix(".json").write_text(json.dumps({"format": "sse-harness/1", **known}), "utf-8")


def configure(url: str, **fields: Any) -> None:
    timeouts = {"connect": 2, "first_event": 0.4, "idle": 0.3, "total": 10}
    entry = {"dialect": "chat", "base_url": url, "model": "tiny", "auth": "none", "timeouts": timeouts, **fields}
    Path("providers.yaml").write_text(yaml.safe_dump({"providers": {"new": entry}}), "utf-8")


def gate(*script: Answer, shape: str = "text", attempts: int = 2) -> tuple[Done, int]:
    """A gate of one shape, and how many requests it sent."""
    with Scripted(*script) as server:
        configure(server.url)
        done = harness("gate", "old", "new", "--shape", shape, "--attempts", attempts, "--json")
        return done, len(server.requests)


def check_differs(done: Done, rule: str) -> None:
    assert f" differs ({rule}" in done.failed(1)
    (shape,) = done.one["shapes"]
    assert (done.one["outcome"], shape["outcome"], shape["reason"]) == ("differs", "differs", "")
    assert any((found["rule"], found["severity"]) == (rule, "fatal") for found in shape["findings"])


def check_not_measured(done: Done, reason: str) -> None:
    line = done.failed(3)
    assert " not measured (" in line
    (shape,) = done.one["shapes"]
    assert (done.one["outcome"], shape["outcome"], shape["findings"]) == ("not-measured", "not-measured", [])
    assert reason in shape["reason"]
    assert done.one["not_covered"][0] == f"shape {shape['shape']}: not measured ({shape['reason']})"


# -- differs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 405, 413, 415, 422, 501, 406, 409, 410, 418, 451])
def test_a_request_that_is_rejected_differs(project: Path, status: int) -> None:
    done, requests = gate(json_answer(status, REFUSAL))
    check_differs(done, "http.rejected")
    assert requests == 1, "a verdict: nothing to try again"


NO_STREAM: dict[str, tuple[Answer, str]] = {
    "JSON": (json_answer(200, WHOLE), "stream.not-a-stream"),
    "JSON, said to be a stream": (answer(json.dumps(WHOLE).encode()), "stream.not-a-stream"),
    "HTML": (HTML, "stream.not-a-stream"),
    "nothing": (answer(), "stream.empty"),
}


@pytest.mark.parametrize("name", NO_STREAM)
def test_a_200_that_is_no_stream_differs(project: Path, name: str) -> None:
    script, rule = NO_STREAM[name]
    done, requests = gate(script)
    check_differs(done, rule)
    assert requests == 1


@pytest.mark.parametrize("shape", ["text", "tool-call"])
def test_a_stall_after_the_first_event_differs(project: Path, shape: str) -> None:
    body = {"text": TEXT, "tool-call": TOOL}[shape]
    done, requests = gate(chunked(body.partition(b"\n\n")[0] + b"\n\n", 30.0), shape=shape)
    check_differs(done, "stream.stalled")
    assert requests == 1


@pytest.mark.parametrize("shape", ["text", "tool-call"])
def test_tool_calls_without_a_call_differ(project: Path, shape: str) -> None:
    done, requests = gate(answer(UNCALLED), shape=shape)
    check_differs(done, "finish.calls-without-call")
    assert requests == 1


# -- unless the baseline does the same ----------------------------------------------------------------------------


def test_tool_calls_without_a_call_on_both_sides_are_shared(project: Path) -> None:
    fixture("text", UNCALLED)
    done, _ = gate(answer(UNCALLED))
    assert (done.code, done.err) == (0, "")
    assert done.one["shapes"][0]["shared"] == ["finish.calls-without-call"]


@pytest.mark.parametrize("status", [400, 422, 501])
def test_a_rejection_on_both_sides_is_no_difference(project: Path, status: int) -> None:
    """Of shape `error` it is what was asked for. Any other baseline must be an answer to measure by."""
    body = json.dumps(REFUSAL).encode()
    fixture("error", body, status)
    done, _ = gate(json_answer(status, REFUSAL), shape="error")
    assert (done.code, done.err) == (0, "")
    fixture("text", body, status)
    done, requests = gate(json_answer(status, REFUSAL))
    check_not_measured(done, "the baseline failed")
    assert requests == 2


@pytest.mark.parametrize("name", sorted(NO_STREAM.keys() - {"nothing"}))
def test_no_stream_on_both_sides_is_no_difference(project: Path, name: str) -> None:
    script, _ = NO_STREAM[name]
    assert isinstance(script[1], bytes)
    fixture("text", script[1], 200)
    done, _ = gate(script)
    check_not_measured(done, "the baseline's stream is no answer")


def test_a_baseline_of_nothing_is_no_norm(project: Path) -> None:
    script, _ = NO_STREAM["nothing"]
    fixture("text", b"", 200)
    done, requests = gate(script)
    assert "fixtures/old/text.sse: is empty; record it again with `harness record old" in done.failed(2)
    assert requests == 0


def test_a_stall_on_both_sides_is_no_difference(project: Path) -> None:
    fixture("text", TEXT.partition(b"\n\n")[0] + b"\n\n")
    done, _ = gate(chunked(TEXT.partition(b"\n\n")[0] + b"\n\n", 30.0))
    check_not_measured(done, "the baseline's stream is no answer")


# -- not measured -------------------------------------------------------------------------------------------------

LATER = (429, 503)  # what the recorder itself asks again, twice


@pytest.mark.parametrize("status", [401, 402, 403, 404, 407, 408, 425, 429, 500, 502, 503, 504, 520, 529])
@pytest.mark.parametrize("shape", ["text", "tool-call"])
def test_a_status_that_says_nothing_about_the_request(project: Path, status: int, shape: str) -> None:
    done, requests = gate(json_answer(status, REFUSAL, retry_after="0"), shape=shape)
    check_not_measured(done, f"HTTP {status}")
    assert requests == (6 if status in LATER else 2)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(project: Path, status: int) -> None:
    with Scripted(answer(TEXT)) as elsewhere:
        done, requests = gate(answer(status=status, headers={"location": f"{elsewhere.url}/chat/completions"}))
        assert elsewhere.requests == []
    check_not_measured(done, f"HTTP {status}")
    assert requests == 2


def test_no_connection(project: Path) -> None:
    configure(f"http://127.0.0.1:{closed_port()}/v1")
    done = harness("gate", "old", "new", "--shape", "text", "--json")
    check_not_measured(done, "cannot connect to 127.0.0.1:")


def test_no_such_host(project: Path) -> None:
    configure("http://nowhere.invalid/v1")
    done = harness("gate", "old", "new", "--shape", "text", "--json")
    check_not_measured(done, "cannot find the host of nowhere.invalid:80")


@pytest.fixture
def plain() -> Iterator[int]:
    """The port of a server that answers the first words, whatever they are, in plain text."""

    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        yield listening.getsockname()[1]
        thread.join(10)


def test_no_tls(project: Path, plain: int) -> None:
    configure(f"https://127.0.0.1:{plain}/v1")
    done = harness("gate", "old", "new", "--shape", "text", "--json")
    check_not_measured(done, "no TLS with 127.0.0.1:")


@pytest.mark.parametrize("script", [[30.0], chunked(30.0), chunked(b": ping\n\n", 30.0)], ids=["head", "body", "event"])
def test_no_first_event(project: Path, script: Answer) -> None:
    done, requests = gate(script)
    check_not_measured(done, "no response from" if script == [30.0] else "no event came")
    assert requests == 2


def test_the_model_answered_without_the_tool(project: Path) -> None:
    done, requests = gate(answer(TEXT), shape="tool-call")
    check_not_measured(done, "answered without calling the tool")
    assert requests == 2
    done, requests = gate(answer(TEXT), answer(TOOL), shape="tool-call")
    assert (done.code, requests) == (0, 2), "the second attempt measures"


def test_a_shape_without_a_baseline(project: Path) -> None:
    done, requests = gate(answer(TEXT), shape="stop")
    check_not_measured(done, "the baseline has no fixture of it (`harness record old --shape stop`)")
    assert requests == 0


# -- shape `error` ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [500, 502, 503, 529])
def test_of_shape_error_a_5xx_with_json_is_a_failure_like_any_other(project: Path, status: int) -> None:
    fixture("error", json.dumps(REFUSAL).encode(), 400)
    done, _ = gate(json_answer(status, REFUSAL, retry_after="0"), shape="error")
    assert (done.code, done.one["shapes"][0]["outcome"]) == (0, "conforms")
    assert any(f"HTTP {status}" in advice and "it was HTTP 400" in advice for advice in done.one["cutover"])
    other = {"detail": "no"}
    done, _ = gate(json_answer(status, other, retry_after="0"), shape="error")
    check_differs(done, "error.envelope")
    done, _ = gate(answer(b"<html>", status, "text/html", {"retry-after": "0"}), shape="error")
    check_not_measured(done, f"HTTP {status}")


@pytest.mark.parametrize("status", [401, 404, 429])
def test_of_shape_error_too_a_refused_key_measures_nothing(project: Path, status: int) -> None:
    fixture("error", json.dumps(REFUSAL).encode(), 400)
    done, _ = gate(json_answer(status, REFUSAL, retry_after="0"), shape="error")
    check_not_measured(done, f"HTTP {status}")


def test_of_shape_error_an_answer_is_a_failure_swallowed(project: Path) -> None:
    fixture("error", json.dumps(REFUSAL).encode(), 400)
    done, _ = gate(answer(TEXT), shape="error")
    check_differs(done, "error.swallowed")


# -- Retry-After --------------------------------------------------------------------------------------------------


def busy(seconds: object, status: int = 429) -> Answer:
    return json_answer(status, REFUSAL, retry_after=str(seconds))


@pytest.mark.parametrize("status", LATER)
def test_retry_after_is_honoured(project: Path, status: int) -> None:
    started = time.monotonic()
    done, requests = gate(busy(1.5, status), answer(TEXT), attempts=1)
    assert (done.code, requests) == (0, 2)
    assert time.monotonic() - started >= 1.5


def test_retry_after_has_a_cap(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert transport.RETRY_CAP == 60
    monkeypatch.setattr(transport, "RETRY_CAP", 0.2)
    started = time.monotonic()
    done, requests = gate(busy(86_400), busy("Fri, 01 Jan 2100 00:00:00 GMT"), answer(TEXT), attempts=1)
    assert (done.code, requests) == (0, 3)
    assert 0.4 <= time.monotonic() - started < 10


# -- an acceptance is stale only where it was measured ------------------------------------------------------------

MOVED = {"rule": "usage.position", "reason": "counted locally"}


def states(*script: Answer, accept: list[dict[str, Any]], options: tuple[object, ...] = (), **fields: Any) -> list[str]:
    """`rule state` of each acceptance that a gate of shape `text` decides."""
    with Scripted(*script) as server:
        configure(server.url, accept=accept, **fields)
        report = harness("gate", "old", "new", "--shape", "text", "--json", *options).one
    return [f"{use['rule']} {use['state']}" for use in report["acceptances"]]


UNSEEN = {
    "rejected": json_answer(400, REFUSAL),
    "no stream": json_answer(200, WHOLE),
    "nothing": answer(),
    "stalled": chunked(TEXT[:600], 30.0),
    "cut": chunked(TEXT[:600], whole=False),
    "failed": answer(TEXT.partition(b"\n\n")[0] + b'\n\ndata: {"error": {"message": "full", "type": "server"}}\n\n'),
    "not measured": json_answer(401, REFUSAL),
}


@pytest.mark.parametrize("name", UNSEEN)
def test_what_cannot_be_seen_is_not_stale(project: Path, name: str) -> None:
    """A candidate that gives no whole answer today may well show it again tomorrow."""
    entry = {**MOVED, "shape": "text"}
    assert states(answer(TEXT), accept=[entry]) == ["usage.position stale"]
    assert states(UNSEEN[name], accept=[entry]) == []


def test_a_rejection_that_is_accepted_fails_no_other_acceptance(project: Path) -> None:
    rejected = {"rule": "http.rejected", "severity": "fatal", "until": "2999-01-01", "reason": "not offered yet"}
    assert states(json_answer(400, REFUSAL), accept=[rejected, {**MOVED, "shape": "text"}]) == ["http.rejected used"]


def test_of_several_samples_all_must_be_measured(project: Path) -> None:
    entry, last = {**MOVED, "shape": "text"}, answer(TEXT.replace(b"data: [DONE]\n\n", b""))
    samples = ("--samples", 2)
    assert states(last, accept=[entry], options=samples) == ["usage.position stale"]
    assert states(last, json_answer(401, REFUSAL), accept=[entry], options=samples) == []


def test_a_rule_of_parity_is_stale_only_where_both_answers_were_asked_for(project: Path) -> None:
    entry = {"rule": "parity.usage", "reason": "known", "shape": "text"}
    message = {"role": "assistant", "content": "Good morning from the pier."}
    usage = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}
    both = {"object": "chat.completion", "usage": usage,
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}  # fmt: skip
    assert states(answer(TEXT), accept=[entry]) == []
    script = (answer(TEXT), json_answer(200, both))
    assert states(*script, accept=[entry], options=("--parity",)) == ["parity.usage stale"]


def test_a_limit_on_time_is_stale_only_where_it_is_set_and_times_are_known(project: Path) -> None:
    entry = {"rule": "timing.gap", "reason": "a slow relay", "shape": "text"}
    limits = {"gap": 9, "total": 9}
    assert states(answer(TEXT), accept=[entry]) == []
    assert states(answer(TEXT), accept=[entry], thresholds={"total": 9}) == []
    assert states(answer(TEXT), accept=[entry], thresholds=limits) == ["timing.gap stale"]
    bare = Path("fixtures") / "new" / "text.sse"
    bare.parent.mkdir()
    bare.write_bytes(TEXT)
    assert states(accept=[entry], thresholds=limits, options=("--recorded",)) == []


# -- every report -------------------------------------------------------------------------------------------------


def test_what_was_skipped_or_not_measured_shows_in_every_report(project: Path) -> None:
    """And none of them passes without evidence: nothing was measured here."""
    names = [f"report.{suffix}" for suffix in ("json", "md", "xml", "html")]
    with Scripted(json_answer(401, REFUSAL)) as server:
        configure(server.url, shapes={"tool-call": {"skip": "not offered here"}})
        shapes = ("--shape", "text", "--shape", "tool-call")
        done = harness("gate", "old", "new", *shapes, *(part for name in names for part in ("--report", name)))
        annotated = harness("gate", "old", "new", *shapes, "--annotate").out
    assert done.code == 3
    for text in (done.out, *(Path(name).read_text("utf-8") for name in names)):
        assert "not offered here" in text
        assert "HTTP 401" in text
    assert "::notice title=tool-call skipped::not offered here\n" in annotated + "\n"
    assert "::warning title=text not measured::HTTP 401\n" in annotated
    # What is not covered stands at the end.
    end = done.out[done.out.index("not covered by this gate:\n") :].splitlines()
    # Why a shape was not measured is said with the shape.
    assert end[1:3] == ["  shape text: not measured", "  shape tool-call: skipped (not offered here)"]
    assert all(line.startswith("  ") for line in end[1:])
    page = Path("report.html").read_text("utf-8")
    assert page.rpartition("<h2>")[2].startswith("Not covered by this gate")
    markdown = Path("report.md").read_text("utf-8")
    assert markdown.rindex("## ") == markdown.index("## Not covered by this gate")
    told = json.loads(Path("report.json").read_bytes())["not_covered"]
    assert told[:2] == ["shape text: not measured (HTTP 401)", "shape tool-call: skipped (not offered here)"]
