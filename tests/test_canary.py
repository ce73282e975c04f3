"""A key that must reach no file: whatever verb talks to a server, and however that server sends the key back.

Through the real command line and a real socket. At the end every file of the folder is searched, those of reports,
takes, failed and partial recordings and journals among them.
"""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from commandline import Done, harness, harness_process
from reading import FIXTURES
from servers import Answer, Scripted, answer, chunked

from harness.endpoint import Endpoint
from harness.errors import SecretFound
from harness.secrets import MIN_LENGTH, Guard, credentials, masked
from harness.transport import no_response

KEY = 'sk-canary/"0123\\456789+abc&defghij'
GOOD = (FIXTURES / "vllm" / "text.sse").read_bytes()
REPORTS = [argument for suffix in ("json", "md", "xml", "html") for argument in ("--report", f"report.{suffix}")]


def escaped(text: str, unsafe: str, form: str) -> str:
    """JSON text with these characters as escapes, as encoders write whose text may stand in HTML."""
    return "".join(form % ord(c) if c in unsafe else c for c in text)


JSON = json.dumps(KEY)[1:-1]
ECHOES: dict[str, bytes] = {
    "plain": KEY.encode(),
    "json": JSON.encode(),
    "json-in-json": json.dumps(json.dumps(KEY))[3:-3].encode(),
    "php": JSON.replace("/", "\\/").encode(),
    "go": escaped(JSON, "&<>", "\\u%04x").encode(),
    "dotnet": escaped(JSON.replace('\\"', '"'), "+&<>'`\"", "\\u%04X").encode(),
    "dotnet-in-json": json.dumps(escaped(JSON.replace('\\"', '"'), "+&<>'`\"", "\\u%04X"))[1:-1].encode(),
    **{f"base64-{before}": base64.b64encode(b"u:"[:before] + KEY.encode() + b"..") for before in (0, 1, 2)},
    "base64-dotnet": base64.b64encode(KEY.encode() + b"..").replace(b"+", b"\\u002B"),
    "url": quote(KEY, safe="").encode(),
    "url-lower": re.sub("%..", lambda found: found[0].lower(), quote(KEY, safe="")).encode(),
}


def searched() -> list[bytes]:
    """What no file may hold: of base64 only what the key alone decides."""
    return [form[4:-8] if name.startswith("base64") else form for name, form in ECHOES.items()]


def holds_key(data: bytes) -> str:
    """The spelling of the key that the data holds, or of a part of 16 characters of it; "" if it holds none."""
    for form in searched():
        assert len(form) >= MIN_LENGTH
        if form in data:
            return form.decode()
    return next((KEY[at : at + 16] for at in range(len(KEY) - 15) if KEY[at : at + 16].encode() in data), "")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A current folder whose files are searched for the key at the end."""
    monkeypatch.chdir(tmp_path)
    for name in credentials(dict(os.environ)):
        monkeypatch.delenv(name)
    monkeypatch.setenv("CANARY_API_KEY", KEY)
    yield tmp_path
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    for path in files:
        assert not holds_key(path.read_bytes()), path


def configured(folder: Path, url: str) -> None:
    entry = "    dialect: chat\n    base_url: {url}\n    api_key_env: CANARY_API_KEY\n    model: m\n"
    text = "providers:\n" + "".join(f"  {name}:\n" + entry.format(url=url) for name in ("base", "candidate"))
    (folder / "providers.yaml").write_text(text)


def quiet(done: Done) -> Done:
    assert not holds_key((done.out + done.err).encode()), done
    return done


def told(form: bytes) -> bytes:
    """An event whose text quotes the key."""
    return b'data: {"choices": [{"index": 0, "delta": {"content": "you sent @"}}]}\n\n'.replace(b"@", form)


def refusal(form: bytes) -> bytes:
    return b'{"error": {"message": "Incorrect API key provided: ' + form + b'", "code": 401}}'


def in_two(form: bytes) -> Answer:
    at = len(form) // 2
    start, end = told(b"#").split(b"#")
    return chunked(GOOD[:200], start + form[:at], 0.05, form[at:] + end + GOOD[200:])


PLACES: dict[str, Any] = {
    "body": lambda form: chunked(GOOD[:200], told(form), GOOD[200:]),
    "two reads": in_two,
    "401": lambda form: answer(refusal(form), 401, "application/json"),
    "500 page": lambda form: answer(b"<html>" + form + b"</html>", 500, "text/html"),
    "long error": lambda form: answer(refusal(b"x" * 180 + b" " + form), 400, "application/json"),
    "cut": lambda form: [*chunked(GOOD[:200], told(form).partition(form)[0] + form[:-3], whole=False)],
    "header": lambda form: answer(GOOD, headers={"x-request-id": "1", "server": form.decode()}),
    "429": lambda form: answer(refusal(form), 429, "application/json", {"retry-after": "0"}),
    "status line": lambda form: [b"HTTP/1.1 2000 " + b"y" * 130 + form + b"\r\n\r\n"],
    "illegal header": lambda form: [b"HTTP/1.1 200 OK\r\n" + b"y" * 140 + b" " + form + b"\r\n\r\n"],
    "other header": lambda form: answer(GOOD, headers={"x-you-sent": form.decode()}),
}  # fmt: skip


def asked(url: str, path: str = "/chat/completions") -> int:
    """What an application asks through a server of ours; the status, or 0 if the connection broke."""
    body = json.dumps({"model": "m", "stream": True, "user": KEY, "messages": []}).encode()
    headers = {"authorization": f"Bearer {KEY}"}
    try:
        return httpx.post(f"{url}{path}", content=body, headers=headers, trust_env=False, timeout=30).status_code
    except httpx.TransportError:
        return 0


def while_serving(project: Path, verb: str, *arguments: str, path: str = "/chat/completions") -> Done:
    """One request to a verb that serves, which is then stopped."""
    with harness_process(verb, *arguments, cwd=project) as process:
        try:
            assert process.stdout is not None
            ready = process.stdout.readline()
            assert ready.startswith("READY "), ready
            asked(ready.split()[1], path)
        finally:
            process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
    return quiet(Done(process.returncode, out, err))


def test_the_search_finds_what_it_must() -> None:
    for name, form in ECHOES.items():
        assert holds_key(b"x" + form + b"y"), name
    assert holds_key(b"... " + KEY[:20].encode())
    assert not holds_key(GOOD)


@pytest.mark.parametrize("name", ECHOES)
def test_each_spelling_is_found_at_every_cut_and_masked(name: str) -> None:
    text = told(ECHOES[name])
    for cut in range(len(text) + 1):
        guard, out = Guard([KEY]), bytearray()
        try:
            for piece in (text[:cut], text[cut:]):
                out += guard.feed(piece)
        except SecretFound:
            assert not holds_key(bytes(out))
        else:
            pytest.fail(f"not found, cut at {cut}")
    clean = masked(text.decode(), [KEY])
    assert not holds_key(clean.encode())
    assert "***" in json.loads(clean.removeprefix("data: "))["choices"][0]["delta"]["content"]


def test_a_quoted_error_is_masked_before_it_is_cut() -> None:
    """Of a key that is cut in two no mask would be left."""
    endpoint = Endpoint(url="http://h.invalid/v1", body=b"{}", provider="p", secrets=(KEY,))
    for name, form in ECHOES.items():
        for pad in range(100, 220, 3):
            cause = httpx.RemoteProtocolError("x" * pad + form.decode() + "y" * 50)
            assert not holds_key(str(no_response(endpoint, cause)).encode()), (name, pad)


def test_no_file_of_record_and_gate_holds_the_key(project: Path) -> None:
    with Scripted(answer(GOOD)) as server:
        configured(project, server.url)
        assert quiet(harness("record", "base", "--shape", "text")).code == 0
        gated = harness("gate", "base", "candidate", "--shape", "text", "--samples", "2", "--parity", *REPORTS)
        assert quiet(gated).code in (0, 1, 3)
        assert all(f"Bearer {KEY}".encode() in request for request in server.requests)
        quiet(harness("-v", "doctor", "--live"))
        quiet(harness("plan", "base", "candidate"))
        quiet(harness("plan", "base", "candidate", "--json"))
    assert all((project / name).is_file() for name in REPORTS if name.startswith("report."))
    for verb in (("show", "--as", "bytes"), ("lint",), ("expect", "--write"), ("lint", "--secrets")):
        assert quiet(harness(*verb, "fixtures/base/text.sse")).code == 0


@pytest.mark.parametrize("name", ECHOES)
def test_a_server_that_echoes_the_key_leaves_none(project: Path, name: str) -> None:
    for place, make in PLACES.items():
        with Scripted(answer(GOOD), make(ECHOES[name])) as server:
            configured(project, server.url)
            assert harness("record", "base", "--shape", "text", "--replace").code == 0
            done = quiet(harness("-v", "record", "candidate", "--shape", "text", "--replace"))
            assert len(server.requests) > 1
        if place != "other header":  # none of those is kept, and the answer is a good one
            assert done.code == 3, (place, done)
            assert not (project / "fixtures" / "candidate").exists()
    assert (project / "fixtures" / "candidate" / "text.sse").read_bytes() == GOOD


@pytest.mark.parametrize("place", PLACES)
def test_no_report_of_a_gate_holds_an_echo(project: Path, place: str) -> None:
    for name in ("plain", "dotnet"):
        with Scripted(answer(GOOD), PLACES[place](ECHOES[name])) as server:
            configured(project, server.url)
            assert harness("record", "base", "--shape", "text", "--replace").code == 0
            quiet(harness("gate", "base", "candidate", "--shape", "text", "--samples", "2", "--parity", *REPORTS))
            quiet(harness("-v", "gate", "base", "candidate", "--shape", "text", "--json"))
            report = project / "report.json"
            if report.is_file():
                told = [finding for shape in json.loads(report.read_bytes())["shapes"] for finding in shape["findings"]]
                named = [word for rule in {finding["rule"] for finding in told} for word in ("--rule", rule)]
                accepted = ("accept", report, "--reason", "seen", "--until", "2027-01-01", *named)
                quiet(harness(*accepted))
                quiet(harness(*accepted, "--write", "candidate"))
            quiet(harness("doctor", "--live"))


@pytest.mark.parametrize("place", PLACES)
def test_no_file_of_the_proxy_holds_the_key(project: Path, place: str) -> None:
    for name in ("plain", "json", "dotnet", "base64-1"):
        with Scripted(PLACES[place](ECHOES[name])) as server:
            configured(project, server.url)
            while_serving(project, "proxy", "base", "--shape", "text", "--json")
    if "header" not in place:
        assert not list((project / "fixtures").rglob("*.sse")), "a stream that holds the key is not kept"


def test_a_key_in_the_path_is_masked_before_the_path_is_cut(project: Path) -> None:
    for pad in range(440, 500, 7):
        with Scripted(answer(GOOD)) as server:
            configured(project, server.url)
            path = f"/{'p' * pad}{quote(KEY, safe='')}"
            done = while_serving(project, "proxy", "base", "--json", path=path)
            assert "%22" not in done.out + done.err, pad


def test_no_journal_of_a_replay_holds_the_key(project: Path) -> None:
    with Scripted(answer(GOOD)) as server:
        configured(project, server.url)
        assert harness("record", "base", "--shape", "text").code == 0
    for verb in (("replay", "fixtures/base", "--journal", "journal.jsonl"), ("replay", "fixtures/base", "--strict")):
        while_serving(project, *verb)
    assert (project / "journal.jsonl").read_bytes()


def test_no_file_of_an_import_holds_the_key(project: Path) -> None:
    for name, form in ECHOES.items():
        body = GOOD.replace(b'"content":"', b'"content":"' + form + b" ", 1)
        request = {"method": "POST", "url": f"http://h/v1/chat/completions?k={KEY}", "postData": {"text": KEY}}
        response = {"status": 200, "content": {"text": body.decode()}}
        archive = project / "it.har"
        archive.write_text(json.dumps({"log": {"entries": [{"request": request, "response": response}]}}))
        assert quiet(harness("import", archive)).code == 3, name
        assert quiet(harness("import", archive, "--mask", "--replace")).code == 0, name
        archive.unlink()


CHATTY = """
import json, os, sys
key = os.environ["CANARY_API_KEY"]
sys.stdin.read()
if sys.argv[1] == "says":
    print(json.dumps({"text": "mine is " + key}, ensure_ascii=sys.argv[2] == "0"))
elif sys.argv[1] == "prints":
    print("x" * int(sys.argv[2]) + key)
else:
    sys.exit("cannot go on with " + "x" * int(sys.argv[2]) + key)
"""
CALLABLE = """
import os
def accumulate(pieces):
    for piece in pieces:
        pass
    raise ValueError("x" * 180 + " " + os.environ["CANARY_API_KEY"])
"""


@pytest.mark.parametrize("how", [
    ("says", "0"), ("says", "1"), ("prints", "0"), ("prints", "70"), ("fails", "0"), *(("fails", f"{pad}")
    for pad in (160, 170, 180, 190, 270, 280, 480, 490, 65_500, 65_510)),
])  # fmt: skip
def test_an_accumulator_that_tells_the_key_puts_it_in_no_report(project: Path, how: tuple[str, str]) -> None:
    (project / "chatty.py").write_text(CHATTY)
    command = ("--", sys.executable, "chatty.py", *how)
    done = quiet(harness("check", "--case", "001*", "--cut", "whole", *command))
    assert done.code == 1, done
    assert "***" in done.out or int(how[1]) > 160
    assert quiet(harness("check", "--case", "001*", "--cut", "whole", "--json", *command)).code == 1


def test_a_callable_that_raises_with_the_key_puts_it_in_no_report(project: Path) -> None:
    (project / "raises_with_it.py").write_text(CALLABLE)
    done = quiet(harness("check", "--case", "001*", "--cut", "whole", "raises_with_it:accumulate"))
    assert done.code == 1
    assert "***" in done.out


def test_the_whole_folder_of_a_project_has_the_files_that_are_searched(project: Path) -> None:
    with Scripted(answer(GOOD), answer(b"", 200), chunked(GOOD[:900], whole=False)) as server:
        configured(project, server.url)
        assert quiet(harness("record", "base", "--shape", "text")).code == 0
        quiet(harness("record", "candidate", "--shape", "text"))
        quiet(harness("record", "candidate", "--shape", "text"))
    found = {path.relative_to(project).parts[:2] for path in project.rglob("*") if path.is_file()}
    assert (".harness", "failed") in found
    assert ("fixtures", "base") in found
    assert re.search(r"\*\*\*|authorization", (project / "fixtures" / "base" / "text.json").read_text()) is None
