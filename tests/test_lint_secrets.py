"""`harness lint --secrets`: keys are found wherever a file can hold one, told by offsets, never shown, and masked."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from commandline import Done, harness
from reading import FIXTURES, QUIRKS, ROOT

from harness.leaks import leaks_in, masked_bytes, without_leaks
from harness.partial import sidecar_text
from harness.recording import Provenance, Recording, Sent, sha256, sidecar_of
from harness.secrets import credentials, key_like
from harness.store import load

# Put together here, so that no scanner takes this file for a leak.
KEY = "sk-" + "proj-canary0123456789abcdefXYZ"
VALUE = 'odd"value/with\\escapes+1234'

FORMS = {
    "openai": KEY,
    "anthropic": "sk-" + "ant-api03-0123456789abcdefghij",
    "google": "AIza" + "SyA0123456789abcdefghijklmnopqrstuv",
    "hugging-face": "hf_" + "abcdefghijABCDEFGHIJ0123",
    "github": "ghp_" + "abcdefghijABCDEFGHIJ0123456789abcdef",
    "github-fine": "github_pat_" + "11ABCDEFG0abcdefghijklmnop",
    "gitlab": "glpat-" + "abcdefghij0123456789",
    "groq": "gsk_" + "abcdefghijABCDEFGHIJ0123456789",
    "xai": "xai-" + "abcdefghijABCDEFGHIJ0123456789",
    "slack": "xoxb-" + "123456789012-abcdefghijkl",
    "aws-id": "AKIA" + "IOSFODNN7EXAMPLE",
    "jwt": "eyJ" + "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTYifQ.abcdef",
}


def chat(*pieces: str, ascii_only: bool = True) -> bytes:
    """A chat stream of these deltas."""
    out = b""
    for piece in pieces:
        chunk = {"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]}
        out += b"data: " + json.dumps(chunk, ensure_ascii=ascii_only).encode() + b"\n\n"
    return out + b"data: [DONE]\n\n"


def call(*pieces: str) -> bytes:
    """A chat stream of one call, its arguments in these pieces."""
    out = b""
    for piece in pieces:
        delta = {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": piece}}]}
        out += b"data: " + json.dumps({"choices": [{"index": 0, "delta": delta}]}).encode() + b"\n\n"
    return out + b"data: [DONE]\n\n"


def written(body: bytes, spans: tuple[tuple[int, int], ...]) -> bytes:
    """The bytes at the spans."""
    return b"".join(body[start:end] for start, end in spans)


# -- what a key looks like


@pytest.mark.parametrize("name", FORMS)
def test_every_form_is_known_in_the_middle_of_prose(name: str) -> None:
    ((start, end, what),) = key_like(f"say {FORMS[name]}, please")
    assert (start, end) == (4, 4 + len(FORMS[name]))
    assert FORMS[name] not in what


@pytest.mark.parametrize("text", [
    "Authorization: Bearer abc123def456ghi789jkl", '"api_key": "0a1b2c3d4e5f6a7b8c9d"',
    "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY1",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEow==\n-----END RSA PRIVATE KEY-----",
])  # fmt: skip
def test_what_has_no_prefix_is_known_by_what_it_stands_under(text: str) -> None:
    assert len(list(key_like(text))) == 1


@pytest.mark.parametrize("text", [
    "a task-oriented-assistant-that-works", "risk-averse-investors-everywhere", "the bearer of good news about things",
    "api_key = os.environ['OPENAI_API_KEY']", "sk-...", "sk-" + "*" * 40, "chatcmpl-0123456789abcdef0123456789abcdef",
    "call_0123456789abcdefABCDEFGH", "msg_01XFDUDYJgAACzvnptvVoYEL", "0" * 64, "password: correct horse battery staple",
])  # fmt: skip
def test_what_is_no_key(text: str) -> None:
    assert list(key_like(text)) == []


def test_variables_that_hold_keys() -> None:
    named = ["OPENAI_API_KEY", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "KEY", "apikey", "MY_SECRET_2"]
    others = ["PATH", "MONKEY", "KEYBOARD_LAYOUT_NAME", "TOKENIZERS_PARALLELISM", "HOME"]
    found = credentials(dict.fromkeys([*named, *others], "0123456789"))
    assert sorted(found) == sorted(named)
    assert credentials({"A_TOKEN": "none"}) == {}


# -- where it stands


@pytest.mark.parametrize("name", FORMS)
def test_a_key_is_found_however_it_is_split_over_events(name: str) -> None:
    key = FORMS[name]
    for cut in range(1, len(key)):
        body = chat("é " + key[:cut], key[cut:] + " \N{GRINNING FACE}", ascii_only=bool(cut % 2))
        (leak,) = leaks_in(body, "chat")
        assert written(body, leak.spans) == key.encode()
        clean = without_leaks(body, "chat", {}, "body")
        assert len(clean) == len(body)
        assert leaks_in(clean, "chat") == []


def test_a_key_in_arguments_split_and_escaped() -> None:
    escaped = "\\u0073k-" + KEY[3:]
    in_two = [f'{{"a": "{escaped[:12]}', f'{escaped[12:]}"}}']
    for pieces in ([f'{{"a": "{escaped}"}}'], in_two, list(f'["{escaped}"]')):
        body = call(*pieces)
        (leak,) = leaks_in(body, "chat")
        assert written(body, leak.spans).replace(b"\\\\", b"\\") == escaped.encode()
        assert leaks_in(masked_bytes(body, [leak]), "chat") == []


def test_a_whole_that_comes_after_its_pieces_runs_on_from_none() -> None:
    events = [
        {"type": "response.output_text.delta", "item_id": "i", "output_index": 0, "content_index": 0, "delta": KEY[:9]},
        {"type": "response.output_text.delta", "item_id": "i", "output_index": 0, "content_index": 0, "delta": KEY[9:]},
        {"type": "response.output_text.done", "item_id": "i", "output_index": 0, "content_index": 0, "text": KEY},
    ]
    body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    found = leaks_in(body, "responses")
    assert [written(body, leak.spans) for leak in found] == [KEY.encode()] * 2


@pytest.mark.parametrize("form", [
    VALUE, json.dumps(VALUE)[1:-1], quote(VALUE, safe=""), base64.b64encode(VALUE.encode()).decode(),
    base64.b64encode(b"user:" + VALUE.encode()).decode(), json.dumps(json.dumps(VALUE))[1:-1],
    "".join(f"\\u{ord(c):04x}" for c in VALUE), "".join(f"\\u{ord(c):04X}" for c in VALUE),
    json.dumps(VALUE)[1:-1].replace("+", "\\u002B"),
    json.dumps(VALUE)[1:-1].replace("+", "\\u002b").replace("/", "\\/"),
    VALUE.replace("\\", "\\\\").replace('"', "\\u0022").replace("+", "\\u002B"),
])  # fmt: skip
def test_a_value_of_the_environment_is_found_in_every_spelling(form: str) -> None:
    data = b'{"said": "' + form.encode() + b'"}'
    found = leaks_in(data, None, {"MY_TOKEN": VALUE})
    assert found
    assert all("the value of MY_TOKEN" in leak.what for leak in found)
    assert leaks_in(without_leaks(data, None, {"MY_TOKEN": VALUE}, "data"), None, {"MY_TOKEN": VALUE}) == []


def test_a_body_that_tells_nothing_and_bytes_that_are_no_text_are_searched() -> None:
    body = b"\xff\x00\x1f\x8b" + KEY.encode() + b"\xff\n: ping\n"
    (leak,) = leaks_in(body)
    assert leak.spans == ((4, 4 + len(KEY)),)


def test_what_is_shipped_holds_no_key() -> None:
    paths = [*QUIRKS.iterdir(), *FIXTURES.rglob("*.*"), *(ROOT / "requests").rglob("*.json")]
    assert len(paths) > 400
    assert [path for path in paths if path.is_file() and leaks_in(path.read_bytes())] == []


def test_hostile_text_is_searched_in_linear_time() -> None:
    for text in ("eyJ-", "sk-", "bearer ", "password: ", "-----BEGIN PRIVATE KEY-----", '"\\', "\\u0073", "api_key=a"):
        data = text.encode() * (600_000 // len(text))
        assert len(leaks_in(data)) <= 100


# -- the verb


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in credentials(dict(os.environ)):
        monkeypatch.delenv(name)
    return tmp_path


def fixture(path: Path, body: bytes, request: Any = None) -> None:
    recording = Recording(
        body=body, status=200, end="eof", dialect="chat", shape="text", request=Sent(body=request),
        provenance=Provenance(kind="recorded", origin="a test"),
    )  # fmt: skip
    path.write_bytes(body)
    text = sidecar_text(sidecar_of(recording), end="eof", digest=sha256(body))
    path.with_suffix(".json").write_text(text)


def test_a_body_its_sidecar_and_its_expectation_are_searched(folder: Path) -> None:
    fixture(folder / "text.sse", chat(KEY[:9], KEY[9:]), {"user": FORMS["github"]})
    assert harness("expect", "--write", "text.sse").code == 0
    done = harness("lint", "--secrets", "--json", "text.sse")
    assert done.code == 1
    assert [found["file"] for found in done.objects] == ["text.sse", "text.json", "text.expected.json"]
    for found in done.objects:
        data = Path(found["file"]).read_bytes()
        assert {finding["rule"] for finding in found["findings"]} == {"secrets.key-like"}
        assert {finding["severity"] for finding in found["findings"]} == {"fatal"}
        for finding in found["findings"]:
            spans = tuple((place["at"], place["at"] + place["length"]) for place in finding["evidence"])
            assert written(data, spans).decode() in (KEY, FORMS["github"])


def said_nowhere(done: Done) -> None:
    for text in (done.out, done.err):
        assert KEY[:12] not in text
        assert VALUE not in text


def test_the_key_is_not_shown(folder: Path) -> None:
    fixture(folder / "text.sse", chat(KEY))
    for more in ((), ("--json",), ("--mask",)):
        done = harness("lint", "--secrets", "text.sse", *more)
        assert done.code == 1
        said_nowhere(done)


def test_values_of_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "notes.txt").write_text(VALUE)
    assert harness("lint", "--secrets", "notes.txt").code == 0
    monkeypatch.setenv("CANDIDATE_API_KEY", VALUE)
    done = harness("lint", "--secrets", "notes.txt")
    assert done.code == 1
    assert "the value of CANDIDATE_API_KEY" in done.out
    said_nowhere(done)
    (folder / "key.pem").write_text("x")
    (folder / "other.txt").write_text(str(folder / "key.pem"))
    monkeypatch.setenv("SIGNING_KEY", str(folder / "key.pem"))
    assert harness("lint", "--secrets", "other.txt").code == 0, "the name of a file is no key"


def test_masking_keeps_every_offset_and_the_sidecar_true(folder: Path) -> None:
    body = chat(KEY[:9], KEY[9:], " and so on")
    fixture(folder / "text.sse", body, {"user": FORMS["github"]})
    assert harness("expect", "--write", "text.sse").code == 0
    done = harness("lint", "--secrets", "--mask", "text.sse")
    assert (done.code, done.err) == (1, "")
    assert harness("lint", "--secrets", "text.sse").code == 0
    after = (folder / "text.sse").read_bytes()
    assert len(after) == len(body)
    assert after.replace(b"*", b"") == body.replace(KEY[:9].encode(), b"").replace(KEY[9:].encode(), b"")
    loaded = load(folder / "text.sse")
    assert loaded.warning is None
    assert loaded.recording.end == "eof"
    assert loaded.recording.provenance is not None
    assert "masked" in str(loaded.recording.provenance.origin)
    assert loaded.recording.request is not None
    assert loaded.recording.request.body == {"user": "*" * len(FORMS["github"])}
    assert harness("expect", "text.sse").code == 0
    assert sorted(path.name for path in folder.iterdir()) == ["text.expected.json", "text.json", "text.sse"]
    before = after
    assert harness("lint", "--secrets", "--mask", "text.sse").code == 0
    assert (folder / "text.sse").read_bytes() == before


def test_masking_follows_no_link(folder: Path) -> None:
    (folder / "real.sse").write_bytes(chat(KEY))
    (folder / "link.sse").symlink_to("real.sse")
    assert "a link" in harness("lint", "--secrets", "--mask", "link.sse").err
    assert KEY.encode() in (folder / "real.sse").read_bytes()


def test_mask_alone_and_what_cannot_be_read_are_usage_errors(folder: Path) -> None:
    assert "--secrets" in harness("lint", "--mask", "x.sse").failed(2)
    assert "cannot be read" in harness("lint", "--secrets", "x.sse").failed(2)
    (folder / "y.sse").write_bytes(chat(KEY))
    done = harness("lint", "--secrets", "x.sse", "y.sse")
    assert done.code == 2
    assert "y.sse" in done.out


def test_the_hook_runs_what_there_is() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert [hook["id"] for hook in hooks] == ["harness-secrets", "harness-secrets-mask"]
    for hook in hooks:
        verb, *options = hook["entry"].split()[1:]
        assert verb == "lint"
        shown = harness("lint", "--help").out
        assert all(option in shown for option in options)
    (page,) = [block for block in (ROOT / "docs" / "safety.md").read_text("utf-8").split("```") if "repos:" in block]
    (repository,) = yaml.safe_load(page.removeprefix("yaml\n"))["repos"]
    assert repository["repo"] == "local", "nothing to fill in"
    (local,) = repository["hooks"]
    assert local["language"] == "system"
    assert {key: hooks[0][key] for key in ("id", "name", "entry", "files")} == {
        key: local[key] for key in ("id", "name", "entry", "files")
    }  # fmt: skip
