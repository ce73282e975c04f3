"""`harness import`: cassettes, HAR files, `curl -i`, byte for byte; what was lost is said; nothing hostile gets by."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from commandline import harness
from reading import FIXTURES

from harness.conventions import CONVENTIONS
from harness.errors import UsageError
from harness.importers.base import dialect_of_path
from harness.importers.yamlvalues import yaml_value
from harness.importing import Archive, archive_of
from harness.store import Loaded, load

BODY = (FIXTURES / "vllm" / "tool-call.sse").read_bytes()
TEXT = (FIXTURES / "vllm" / "text.sse").read_bytes()
MESSAGES = (FIXTURES / "anthropic" / "text.sse").read_bytes()
URL = "https://api.example.com/v1/chat/completions?key=hidden-in-the-query"
KEY = "sk-" + "proj-canary0123456789abcdefXYZ"
STREAM = {"content-type": ["text/event-stream; charset=utf-8"], "x-request-id": ["req_1"], "set-cookie": ["a=b"]}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder, and no keys in the environment."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def interaction(body: Any, *, url: str = URL, sent: Any = '{"stream": true}', headers: Any = None) -> dict[str, Any]:
    """One of vcrpy's."""
    return {
        "request": {"method": "POST", "uri": url, "headers": {"authorization": [f"Bearer {KEY}"]}, "body": sent},
        "response": {"status": {"code": 200, "message": "OK"}, "headers": headers or STREAM, "body": body},
    }


def cassette(*interactions: dict[str, Any], name: str = "cassette.yaml") -> Path:
    path = Path(name)
    path.write_text(yaml.safe_dump({"interactions": list(interactions), "version": 1}))
    return path


def har(*entries: dict[str, Any]) -> Path:
    path = Path("session.har")
    path.write_text(json.dumps({"log": {"version": "1.2", "entries": list(entries)}}))
    return path


def exchange(content: dict[str, Any]) -> dict[str, Any]:
    headers = [{"name": "Content-Type", "value": "text/event-stream"}, {"name": "Server", "value": "edge"}]
    return {
        "startedDateTime": "2026-10-11T12:00:00Z",
        "request": {"method": "POST", "url": "https://api.anthropic.com/v1/messages",
                    "headers": [{"name": "x-api-key", "value": KEY}],
                    "postData": {"mimeType": "application/json", "text": '{"model": "m"}'}},
        "response": {"status": 200, "headers": headers, "content": content},
    }  # fmt: skip


def imported(*arguments: object) -> tuple[dict[str, Any], Loaded]:
    """What `import --json` says, and the fixture it wrote. Nothing of the request's credentials is in any file."""
    done = harness("import", *arguments, "--json")
    assert (done.code, done.err) == (0, ""), done
    path = Path(done.one["path"])
    for file in Path("fixtures").rglob("*"):
        if file.is_file():
            for secret in (KEY, "hidden-in-the-query", "req_1", "a=b"):
                assert secret.encode() not in file.read_bytes()
    loaded = load(path)
    assert loaded.warning is None
    provenance = loaded.recording.provenance
    assert provenance is not None
    assert provenance.kind == "imported"
    assert all(lost in str(provenance.origin) for lost in done.one["lost"])
    return done.one, loaded


# -- cassettes


@pytest.mark.parametrize(
    ("body", "as_text"),
    [
        ({"string": BODY.decode()}, True),
        ({"string": BODY}, False),
        ({"base64_string": base64.b64encode(BODY).decode()}, False),
        ({"encoding": "UTF-8", "string": BODY.decode()}, True),
    ],
)
def test_a_cassette_gives_the_bytes_and_says_what_it_lost(body: Any, as_text: bool) -> None:
    one, loaded = imported(cassette(interaction(body)))
    recording = loaded.recording
    assert recording.body == BODY
    assert (one["provider"], one["shape"], one["dialect"], one["tool"]) == ("example", "tool-call", "chat", "vcr")
    assert one["path"] == "fixtures/example/tool-call.sse"
    assert (recording.status, recording.reads, recording.end) == (200, [], "unknown")
    assert recording.headers == {"content-type": "text/event-stream; charset=utf-8"}
    assert recording.request is not None
    assert recording.request.path == "/v1/chat/completions"
    assert recording.request.body == {"stream": True}
    assert any("times" in lost for lost in one["lost"])
    assert any("stored as text" in lost for lost in one["lost"]) == as_text


def test_what_was_imported_is_a_fixture_like_any_other() -> None:
    imported(cassette(interaction({"string": BODY})), "--provider", "old", "--shape", "tool-call")
    assert harness("show", "fixtures/old/tool-call.sse", "--json").one["tool_calls"]
    assert harness("diff", "fixtures/old/tool-call.sse", FIXTURES / "vllm" / "tool-call.sse").code == 0


def test_gzip_is_undone_and_said_and_a_header_that_was_left_behind_is_no_fault() -> None:
    headers = {**STREAM, "content-encoding": ["gzip"]}
    one, loaded = imported(cassette(interaction({"string": gzip.compress(TEXT)}, headers=headers)))
    assert loaded.recording.body == TEXT
    assert loaded.recording.decoded_from == "gzip"
    one, loaded = imported(cassette(interaction({"string": TEXT}, headers=headers)), "--provider", "plain")
    assert loaded.recording.body == TEXT
    assert loaded.recording.decoded_from is None
    assert any("content coding" in lost for lost in one["lost"])
    cut = gzip.compress(TEXT)[:-30]
    one, loaded = imported(cassette(interaction({"string": cut}, headers=headers)), "--provider", "cut")
    assert loaded.recording.end == "cut"
    assert TEXT.startswith(loaded.recording.body)


def test_of_several_interactions_the_stream_is_taken_or_one_is_named() -> None:
    json_headers = {"content-type": ["application/json"]}
    models = interaction({"string": "{}"}, url="https://api.example.com/v1/models", headers=json_headers)
    two = cassette(models, interaction({"string": TEXT.decode()}))
    one, loaded = imported(two)
    assert (one["entry"], loaded.recording.body) == (2, TEXT)
    three = cassette(models, interaction({"string": TEXT.decode()}), interaction({"string": BODY.decode()}))
    told = harness("import", three).failed(2)
    assert "--entry" in told
    assert "2: POST /v1/chat/completions: 200" in told
    assert "hidden-in-the-query" not in told
    one, loaded = imported(three, "--entry", "3")
    assert loaded.recording.body == BODY
    assert "entry 3 of 3" in str(loaded.recording.provenance)
    assert "no entry 4" in harness("import", three, "--entry", "4").failed(2)


def test_other_forms_of_cassettes() -> None:
    ruby = {"http_interactions": [{
        "request": {"method": "post", "uri": URL, "body": {"encoding": "UTF-8", "string": "{}"}, "headers": {}},
        "response": {"status": {"code": 200, "message": "OK"}, "headers": {"Content-Type": ["text/event-stream"]},
                     "body": {"encoding": "ASCII-8BIT", "base64_string": base64.b64encode(TEXT).decode()}},
        "recorded_at": "Sat, 10 Oct 2026 10:00:00 GMT"}], "recorded_with": "VCR 6.3"}  # fmt: skip
    Path("ruby.yml").write_text(yaml.safe_dump(ruby))
    assert imported("ruby.yml", "--provider", "ruby")[1].recording.body == TEXT
    older = {"interactions": [{"request": {"method": "POST", "uri": URL, "body": None, "headers": {}},
             "response": {"status_code": 200, "content": TEXT.decode(),
                          "headers": [["Content-Type", "text/event-stream"]],
                          "http_version": "HTTP/1.1"}}], "version": 1}  # fmt: skip
    Path("older.json").write_text(json.dumps(older))
    one, loaded = imported("older.json", "--provider", "older")
    assert (loaded.recording.body, loaded.recording.status, one["tool"]) == (TEXT, 200, "vcr")


# -- HAR


def test_a_har_gives_the_bytes() -> None:
    coded = {"mimeType": "text/event-stream", "encoding": "base64", "text": base64.b64encode(MESSAGES).decode()}
    one, loaded = imported(har(exchange(coded)))
    assert (one["provider"], one["dialect"], one["shape"]) == ("anthropic", "anthropic", "text")
    assert loaded.recording.body == MESSAGES
    assert loaded.recording.headers == {"content-type": "text/event-stream", "server": "edge"}
    assert loaded.recording.provenance is not None
    assert loaded.recording.provenance.date == "2026-10-11"
    one, loaded = imported(har(exchange({"text": MESSAGES.decode()})), "--provider", "text")
    assert loaded.recording.body == MESSAGES
    assert any("stored as text" in lost for lost in one["lost"])
    one, loaded = imported(har(exchange({"text": MESSAGES[:90].decode(), "size": len(MESSAGES)})), "--provider", "cut")
    assert loaded.recording.end == "cut"


def test_a_har_without_content_says_so() -> None:
    told = harness("import", har(exchange({"mimeType": "text/event-stream", "size": 10}))).failed(2)
    assert "did not keep it" in told


# -- curl


def head(*lines: str, first: str = "HTTP/1.1 200 OK") -> bytes:
    return "\r\n".join([first, "content-type: text/event-stream", *lines, "", ""]).encode()


def chunked(body: bytes, size: int = 100) -> bytes:
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x;a=b\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def curl(data: bytes) -> Path:
    path = Path("answer.txt")
    path.write_bytes(data)
    return path


def test_curl_with_its_head() -> None:
    one, loaded = imported(curl(head("transfer-encoding: chunked") + TEXT))
    assert (one["tool"], one["provider"], one["shape"], one["dialect"]) == ("curl", "imported", "text", "chat")
    assert loaded.recording.body == TEXT
    assert loaded.recording.request is None
    assert "chunk boundaries" in one["lost"]
    _, loaded = imported(curl(head(f"content-length: {len(TEXT)}") + TEXT), "--provider", "whole")
    assert loaded.recording.end == "eof"
    _, loaded = imported(curl(head(f"content-length: {len(TEXT) + 9}") + TEXT), "--provider", "short")
    assert loaded.recording.end == "cut"


def test_curl_raw_has_its_chunks_undone() -> None:
    raw = head("Transfer-Encoding: chunked") + chunked(TEXT)
    _, loaded = imported(curl(raw))
    assert (loaded.recording.body, loaded.recording.end) == (TEXT, "eof")
    for number, cut in enumerate((5, 20, 250)):
        _, loaded = imported(curl(raw[:-cut]), "--provider", f"cut-{number}")
        assert loaded.recording.end == "cut"
        assert TEXT.startswith(loaded.recording.body)
    broken = head("Transfer-Encoding: chunked") + b"5\r\ndata:xxxx\r\n0\r\n\r\n"
    _, loaded = imported(curl(broken), "--provider", "broken", "--dialect", "chat")
    assert (loaded.recording.body, loaded.recording.end) == (b"data:", "protocol-error")
    coded = head("Transfer-Encoding: chunked", "content-encoding: gzip") + chunked(gzip.compress(TEXT))
    _, loaded = imported(curl(coded), "--provider", "coded")
    assert (loaded.recording.body, loaded.recording.decoded_from) == (TEXT, "gzip")


def test_what_comes_before_the_response_is_passed_over() -> None:
    before = b"HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"
    before += b"HTTP/2 307 \r\nlocation: /b\r\n\r\n"
    one, loaded = imported(curl(before + head(first="HTTP/2 200 ") + TEXT))
    assert loaded.recording.body == TEXT
    assert any("3 responses before it" in lost for lost in one["lost"])


def test_text_mode_shows_in_the_head() -> None:
    one, loaded = imported(curl(head().replace(b"\r\n", b"\n") + TEXT))
    assert loaded.recording.body == TEXT
    assert any("text mode" in lost for lost in one["lost"])


def test_a_body_that_begins_like_a_head_is_no_head() -> None:
    _, loaded = imported(curl(head() + b"HTTP/1.1 200 OK\r\n\r\n" + TEXT))
    assert loaded.recording.body.startswith(b"HTTP/1.1 200 OK\r\n\r\ndata:")


# -- names, dialects, replacing


@pytest.mark.parametrize(("path", "dialect"), [
    ("/v1/chat/completions", "chat"), ("/openai/deployments/x/chat/completions", "chat"),
    ("/v1/responses", "responses"),
    ("/v1/messages", "anthropic"), ("/v1beta/models/gemini-2.5:streamGenerateContent", "gemini"),
    ("/api/chat", "ollama"), ("/v1/completions", "completions"),
    ("/v2/chat", "cohere"), ("/v1/models", None), ("", None),
    *((f"/base{convention.path.format(model='m')}", name) for name, convention in CONVENTIONS.items()),
])  # fmt: skip
def test_the_path_tells_the_dialect(path: str, dialect: str | None) -> None:
    assert dialect_of_path(path) == dialect


def test_the_body_tells_the_dialect_where_the_path_does_not_and_an_option_overrides() -> None:
    file = cassette(interaction({"string": MESSAGES.decode()}, url="https://gateway.example/generate"))
    assert imported(file, "--provider", "a")[0]["dialect"] == "anthropic"
    assert imported(file, "--provider", "b", "--dialect", "chat")[0]["dialect"] == "chat"
    nothing = cassette(interaction({"string": ": ping\n\n"}, url="https://gateway.example/generate"))
    assert "--dialect" in harness("import", nothing).failed(2)


def test_nothing_is_replaced_unless_asked_for() -> None:
    imported(cassette(interaction({"string": TEXT.decode()})), "--shape", "text")
    file = cassette(interaction({"string": BODY.decode()}))
    assert "--replace" in harness("import", file, "--shape", "text").failed(2)
    assert load("fixtures/example/text.sse").recording.body == TEXT
    assert imported(file, "--shape", "text", "--replace")[1].recording.body == BODY


def test_a_shape_that_is_nearly_a_known_one_is_told_and_one_of_your_own_is_not() -> None:
    done = harness("import", cassette(interaction({"string": TEXT.decode()})), "--shape", "txet")
    told = "harness: --shape txet: none of the known shapes; did you mean 'text'?"
    assert (done.code, told in done.err.splitlines()) == (0, True)
    for shape in ("txet", "weather", "tool-call"):  # of the fixtures, far from all, a canonical one
        file = cassette(interaction({"string": TEXT.decode()}))
        done = harness("import", file, "--shape", shape, "--replace")
        assert (done.code, "did you mean" in done.err) == (0, False)


@pytest.mark.parametrize("name", ["../x", "a/b", "A", "", ".", "a b", "a\0b", "é"])
def test_names_are_checked(name: str) -> None:
    file = cassette(interaction({"string": TEXT.decode()}))
    assert "cannot name a provider" in harness("import", file, "--provider", name).failed(2)
    assert "cannot name a shape" in harness("import", file, "--shape", name).failed(2)
    assert not Path("fixtures").exists()


@pytest.mark.parametrize("url", ["https://../../etc/v1/chat/completions", "https://ex%2fample.com/v1/chat/completions",
                                 "http://[::1]/v1/chat/completions", "http://[broken/v1/chat/completions", "", "\0",
                                 "https://127.0.0.1:8080/v1/chat/completions"])  # fmt: skip
def test_a_host_is_a_name_only_if_it_can_be_one(url: str) -> None:
    one, _ = imported(cassette(interaction({"string": TEXT.decode()}, url=url)))
    assert one["provider"] == "imported"


def test_links_are_not_written_through(folder: Path) -> None:
    outside = folder / "outside"
    outside.mkdir()
    project = folder / "project"
    (project / "fixtures").mkdir(parents=True)
    (project / "providers.yaml").write_text("providers: {}\n")
    file = cassette(interaction({"string": TEXT.decode()}))
    (project / "fixtures" / "p").symlink_to(outside)
    told = harness("import", file, "--provider", "p", "--config", project / "providers.yaml").failed(2)
    assert "link" in told
    (project / "fixtures" / "q").mkdir()
    (project / "fixtures" / "q" / "text.sse").symlink_to(project / "providers.yaml")
    for more in ((), ("--replace",)):
        told = harness("import", file, "--provider", "q", "--config", project / "providers.yaml", *more).failed(2)
        assert "link" in told
    assert list(outside.iterdir()) == []
    assert (project / "providers.yaml").read_text() == "providers: {}\n"


# -- keys


def with_key() -> bytes:
    return TEXT.replace(b'"content":"', b'"content":"' + KEY.encode() + b" ", 1)


def test_a_body_that_holds_a_key_is_refused_or_masked() -> None:
    assert KEY.encode() in with_key()
    file = cassette(interaction({"string": with_key().decode()}))
    told = harness("import", file).failed(3)
    assert "--mask" in told
    assert KEY not in told
    assert not Path("fixtures").exists()
    assert not list(Path(".").rglob("*.sse"))
    one, loaded = imported(file, "--mask")
    assert loaded.recording.body == with_key().replace(KEY.encode(), b"*" * len(KEY))
    assert any("masked" in lost for lost in one["lost"])


def test_keys_of_the_environment_count_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXAMPLE_TOKEN", "nothing-a-form-would-tell")
    body = TEXT.replace(b'"content":"', b'"content":"nothing-a-form-would-tell', 1)
    file = cassette(interaction({"string": body.decode()}))
    assert "EXAMPLE_TOKEN" in harness("import", file).failed(3)


@pytest.mark.parametrize("sent", [f'{{"metadata": "{KEY}"}}', f"key={KEY}", {"metadata": KEY},
                                  '{"metadata": "\\u0073' + KEY[1:] + '"}'])  # fmt: skip
def test_keys_in_the_request_are_masked(sent: Any) -> None:
    url = f"https://api.example.com/bot{KEY[:2]}/{KEY}/v1/chat/completions"
    one, loaded = imported(cassette(interaction({"string": TEXT.decode()}, sent=sent, url=url)))
    assert any("key-like value in the request, masked" in lost for lost in one["lost"])
    assert loaded.recording.request is not None
    assert "canary" not in repr(loaded.recording.request)


# -- hostile files

BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 10)}]\n" for n in range(12)
)


@pytest.mark.parametrize("text", [
    BOMB, "[" * 5000, "{a: " * 5000, "a: &a [*a]", "a: *nowhere", "- " * 9000 + "x", "a: !!binary '...'", "a: [",
    "\tinteractions", "a: b: c", "interactions: \x00", "? {a: b}\n: c\n? [x]\n: *d", "%YAML 9.9\n---\na", "a: \udc80",
])  # fmt: skip
def test_hostile_yaml_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        yaml_value(text.encode("utf-8", "surrogatepass"), "it")
    assert str(caught.value).startswith("it: ")
    assert "\n" not in str(caught.value)


def test_yaml_makes_no_objects() -> None:
    text = "interactions: !!python/object/apply:os.system ['touch owned']\n"
    text += "b: !!python/unicode 'x'\nc: 12\nd: ~\ne: true"
    assert yaml_value(text.encode(), "it") == {
        "interactions": ["touch owned"], "b": "x", "c": 12, "d": None, "e": True,
    }  # fmt: skip
    assert not Path("owned").exists()


def test_shared_values_are_no_bomb() -> None:
    assert yaml_value(b"a: &x {k: [v]}\nb: *x\nc: [*x, *x]", "it") == {
        "a": {"k": ["v"]}, "b": {"k": ["v"]}, "c": [{"k": ["v"]}] * 2,
    }  # fmt: skip


@pytest.mark.parametrize("data", [
    b"", b"\0" * 100, b"hello", b"{", b"[]", b"{}", b'{"log": {}}', b'{"log": {"entries": {}}}', b'{"interactions": 3}',
    b'{"log": {"entries": []}}', b"interactions: []", b"interactions: nothing", b"HTTP/1.1 200 OK", b"HTTP/",
    b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 99_999, b"data: {}\n\n", b"[" * 100_000, b"{" * 100_000,
])  # fmt: skip
def test_what_is_no_archive_is_refused_in_one_line(data: bytes) -> None:
    Path("it").write_bytes(data)
    assert harness("import", "it").failed(2).startswith("harness: it")


@pytest.mark.parametrize("entries", [
    [None], [[]], ["x"], [{"request": 1, "response": []}],
    [{"response": {"headers": "x", "content": [], "status": "a"}}],
    [{"response": {"headers": [None, {"name": 1, "value": {}}], "content": {"text": 3, "size": "x"}}}],
    [{"response": {"content": {"encoding": "base64", "text": "%%%"}}}],
])  # fmt: skip
def test_entries_of_wrong_types_are_refused_in_one_line(entries: list[Any]) -> None:
    for top in ({"log": {"entries": entries}}, {"interactions": entries}):
        Path("it").write_text(json.dumps(top))
        harness("import", "it").failed(2)


def test_a_body_that_unpacks_without_end_is_refused() -> None:
    headers = {**STREAM, "content-encoding": ["gzip"]}
    bomb = gzip.compress(b"\0" * (65 * 1024 * 1024))
    told = harness("import", cassette(interaction({"string": bomb}, headers=headers))).failed(2)
    assert "larger than 64 MiB" in told


def test_what_goes_into_the_sidecar_is_short_and_printable() -> None:
    headers = {"content-type": ["text/event-stream\x1b[31m" + "x" * 5000], "server": ["a\u202eb"]}
    url = "https://api.example.com/" + "\u202e" + "y" * 5000 + "/v1/chat/completions"
    _, loaded = imported(cassette(interaction({"string": TEXT}, headers=headers, url=url)))
    assert loaded.recording.headers["server"] == "ab"
    assert len(loaded.recording.headers["content-type"]) <= 1000
    assert loaded.recording.request is not None
    assert len(loaded.recording.request.path) <= 1000
    assert loaded.recording.request.path.isprintable()


def test_archives_are_read_without_a_disk() -> None:
    archive = archive_of(head() + TEXT, "it")
    assert isinstance(archive, Archive)
    assert [entry.body for entry in archive.entries] == [TEXT]
