import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.bodies import Prepared, encoded, merge_patch, request_file, request_for, shapes_offered
from harness.config import load_project
from harness.endpoint import Timeouts
from harness.errors import ConfigError, UsageError
from harness.recording import sha256
from harness.shapes import CANONICAL, SHAPES, asked_of, forced

ROOT = Path(__file__).resolve().parent.parent
KEY = "sk-0123456789abcdef"

# RFC 7396, appendix A: original, patch, result.
RFC_7396: list[tuple[Any, Any, Any]] = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize(("target", "patch", "expected"), RFC_7396)
def test_merge_patch_is_that_of_the_rfc(target: Any, patch: Any, expected: Any) -> None:
    before = json.dumps([target, patch])
    assert merge_patch(target, patch) == expected
    assert json.dumps([target, patch]) == before


scalars = st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab", max_size=2)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3),
    max_leaves=8,
)


def _without_nulls(value: Any) -> Any:
    """What a patch leaves of itself when it meets nothing: objects without null members, lists as they are."""
    if not isinstance(value, dict):
        return value
    return {name: _without_nulls(member) for name, member in value.items() if member is not None}


@given(target=values, patch=values)
def test_merge_patch_properties(target: Any, patch: Any) -> None:
    merged = merge_patch(target, patch)
    assert merge_patch(merged, patch) == merged  # once more changes nothing
    assert merge_patch(None, patch) == _without_nulls(patch)
    if isinstance(patch, dict):
        kept = target if isinstance(target, dict) else {}
        assert {name: merged[name] for name in merged if name not in patch} == {
            name: kept[name] for name in kept if name not in patch
        }
        assert not [name for name, member in patch.items() if member is None and name in merged]


def prepared(tmp_path: Path, shape: str, more: str = "", dialect: str = "chat", **environ: str) -> Prepared:
    base = f"dialect: {dialect}, base_url: 'https://a.example/v1', model: 'org/m 1'"
    (tmp_path / "providers.yaml").write_text(f"providers: {{x: {{{base}{', ' if more else ''}{more}}}}}")
    project = load_project(None, tmp_path)
    provider = project.provider("x")
    return request_for(project, provider, provider.resolve(environ), shape)


def own(tmp_path: Path, text: str | bytes, dialect: str = "chat", shape: str = "text") -> Path:
    path = tmp_path / "requests" / dialect / f"{shape}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_the_shipped_requests_are_plain_bodies_for_curl() -> None:
    for shape in CANONICAL:
        text = (ROOT / "requests" / "chat" / f"{shape}.json").read_text()
        body = json.loads(text)
        assert json.dumps(body, indent=2) + "\n" == text
        assert body["stream"] is True
        assert body["stream_options"] == {"include_usage": True}
        assert body["model"]
        assert not {"temperature", "max_tokens", "max_completion_tokens", "top_p", "seed"} & body.keys()
    asked = {shape: asked_of("chat", _shipped(shape)) for shape in CANONICAL}
    assert all(facts is not None and facts.usage and facts.stream for facts in asked.values())
    call, stop, error = asked["tool-call"], asked["stop"], asked["error"]
    assert call is not None
    assert (call.tools, call.tool_choice) == (("get_weather",), "auto")
    assert stop is not None
    assert stop.stop == ("scripted",)
    assert error is not None
    assert error.tool_choice == "named"
    assert error.tool_name not in error.tools
    assert not forced(error)
    function = _shipped("tool-call")["tools"][0]["function"]
    assert function["parameters"]["required"] == ["city"]
    assert set(function["parameters"]["properties"]) == {"city", "unit"}
    assert _shipped("stop")["messages"][-1]["content"] == "Repeat exactly: one two three scripted five"


def _shipped(shape: str) -> dict[str, Any]:
    body: dict[str, Any] = json.loads((ROOT / "requests" / "chat" / f"{shape}.json").read_bytes())
    return body


def test_a_request_from_shipped_file_and_provider(tmp_path: Path) -> None:
    more = "api_key_env: K, headers: {X-Org: '${ORG}', Accept: '*/*'}, query: {v: 'a b'}, timeouts: {idle: 5}"
    got = prepared(tmp_path, "text", more, K=KEY, ORG="acme-research")
    endpoint = got.endpoint
    assert (endpoint.method, endpoint.url) == ("POST", "https://a.example/v1/chat/completions?v=a%20b")
    assert endpoint.headers == {
        "content-type": "application/json", "accept": "*/*", "authorization": f"Bearer {KEY}", "x-org": "acme-research",
    }  # fmt: skip
    assert json.loads(endpoint.body) == got.body == {**_shipped("text"), "model": "org/m 1"}
    assert b'": ' not in endpoint.body
    assert set(endpoint.secrets) == {KEY, "acme-research"}
    assert endpoint.verify is True
    assert endpoint.timeouts == Timeouts(idle=5)
    assert (endpoint.provider, endpoint.dialect, endpoint.shape) == ("x", "chat", "text")
    assert endpoint.shape_sha256 == sha256((ROOT / "requests" / "chat" / "text.json").read_bytes())
    assert got.concurrent == 1


def test_patches_go_over_the_file_the_shape_s_last(tmp_path: Path) -> None:
    more = (
        "request: {max_tokens: 256, tools: null, stream_options: {x: 1}}, shapes: {error: {concurrent: 2, "
        "request: {max_tokens: 480, tool_choice: null, model: other, stream_options: {x: null}}}}"
    )
    got = prepared(tmp_path, "error", more)
    expected = _shipped("error") | {"model": "other", "max_tokens": 480}
    del expected["tools"], expected["tool_choice"]
    assert got.body == expected
    assert got.concurrent == 2
    assert prepared(tmp_path, "text", more).body["max_tokens"] == 256
    assert "model" not in prepared(tmp_path, "text", "request: {model: null}").body


@pytest.mark.parametrize(
    ("dialect", "url", "header", "members"),
    [
        ("chat", "/chat/completions", ("authorization", f"Bearer {KEY}"), {"model", "stream"}),
        ("responses", "/responses", ("authorization", f"Bearer {KEY}"), {"model", "stream"}),
        ("anthropic", "/messages", ("x-api-key", KEY), {"model", "stream"}),
        ("gemini", "/models/org%2Fm%201:streamGenerateContent?alt=sse", ("x-goog-api-key", KEY), set()),
        ("completions", "/completions", ("authorization", f"Bearer {KEY}"), {"model", "stream"}),
        ("cohere", "/v2/chat", ("authorization", f"Bearer {KEY}"), {"model", "stream"}),
        ("ollama", "/api/chat", None, {"model", "stream"}),
    ],
)
def test_dialects(tmp_path: Path, dialect: str, url: str, header: tuple[str, str] | None, members: set[str]) -> None:
    own(tmp_path, "{}", dialect)
    got = prepared(tmp_path, "text", "api_key_env: K" if header else "", dialect, K=KEY)
    assert got.endpoint.url == f"https://a.example/v1{url}"
    assert got.body == {name: {"model": "org/m 1", "stream": True}[name] for name in members}
    sent = got.endpoint.headers
    assert sent["accept"] == ("application/x-ndjson" if dialect == "ollama" else "text/event-stream")
    assert (header in sent.items()) if header else set(sent) == {"content-type", "accept"}
    assert ("anthropic-version" in sent) is (dialect == "anthropic")


def test_auth_and_path_can_be_others(tmp_path: Path) -> None:
    more = "auth: 'header:X-Key', api_key_env: K, path: '/d/{model}/chat?alt=sse&v=1', query: {v: '2'}"
    endpoint = prepared(tmp_path, "text", more, K=KEY).endpoint
    assert endpoint.url == "https://a.example/v1/d/org%2Fm%201/chat?alt=sse&v=2"
    assert endpoint.headers["x-key"] == KEY
    assert "authorization" not in endpoint.headers
    assert "authorization" not in prepared(tmp_path, "text").endpoint.headers
    (tmp_path / "ca.pem").write_text("")
    assert prepared(tmp_path, "text", "verify: ca.pem").endpoint.verify == str(tmp_path / "ca.pem")


def test_the_project_s_own_file_comes_first(tmp_path: Path) -> None:
    text = '{"messages": [],\r\n "x": "caf\u00e9 \\ud83d", "y": 1.50}\r\n'
    path = own(tmp_path, text)
    got = prepared(tmp_path, "text")
    assert got.file.path == path
    assert got.file.sha256 == sha256(text.encode())
    assert json.loads(got.endpoint.body) == {
        "messages": [], "x": "café \ud83d", "y": 1.5, "model": "org/m 1", "stream": True,
    }  # fmt: skip
    own(tmp_path, "{}", shape="mine")
    assert shapes_offered(load_project(None, tmp_path), "chat") == [*SHAPES, "mine"]
    assert shapes_offered(load_project(None, tmp_path), "nobody") == []


def test_bodies_are_utf8_unless_they_cannot_be() -> None:
    assert encoded({"a": ["ä", 1]}) == '{"a":["ä",1]}'.encode()
    assert encoded({"a": "ä\ud83d"}) == b'{"a":"\\u00e4\\ud83d"}'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": 1,\n "b": }', "line 2, column 7: is not JSON: Expecting value"),
        ("", "line 1, column 1: is not JSON: Expecting value"),
        ('{"a": 1} {}', "line 1, column 10: is not JSON: Extra data"),
        (
            "\ufeff{}",
            "line 1, column 1: is not JSON: Unexpected UTF-8 BOM (decode using utf-8-sig)",
        ),
        ("\n  [1]", "line 2, column 3: must be one JSON object, the request's body, but is a list"),
        ('"a"', "line 1, column 1: must be one JSON object, the request's body, but is text"),
        ("true", "line 1, column 1: must be one JSON object, the request's body, but is true or false"),
        ("null", "line 1, column 1: must be one JSON object, the request's body, but is null"),
        ("1.5", "line 1, column 1: must be one JSON object, the request's body, but is a number"),
        (b'{"a":\n "\xff"}', "line 2, column 3: is not UTF-8; save the file as UTF-8"),
        ('{"a": {"b": 1, "b": 2}}', "is no request body: member 'b' is given twice; keep one"),
        ('{"a": NaN}', "is no request body: NaN is not JSON"),
        ('{"a": 1e999}', "is no request body: 1e999 is too large a number"),
        ('{"a":' * 100_000, "is nested too deep"),
        ('{"stream": false}', "stream: must be true: streams are what is recorded"),
        (b" " * (8 * 1024 * 1024 + 1), "is larger than 8 MiB, the most a request file may be"),
    ],
)
def test_request_files_that_cannot_be_used(tmp_path: Path, text: str | bytes, expected: str) -> None:
    path = own(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        prepared(tmp_path, "text")
    assert str(caught.value) == f"{path}: {expected}"


def test_request_files_that_are_not_there(tmp_path: Path) -> None:
    project = load_project(None, tmp_path)
    for shape, dialect, expected in (
        (
            "txet", "chat",
            "requests/chat/txet.json: no such request file, here or shipped; did you mean 'text'? "
            "shapes of dialect chat: text, tool-call, stop, error, parallel-tools, reasoning, structured, refusal, "
            "logprobs, multi-turn",
        ),
        (
            "text", "nobody",
            "requests/nobody/text.json: no such request file, here or shipped; shapes of dialect nobody: none",
        ),
        ("../text", "chat", "'../text' cannot name a shape: only lower-case letters, digits and - can"),
    ):  # fmt: skip
        with pytest.raises(UsageError) as caught:
            request_file(project, dialect, shape)
        assert str(caught.value) == expected
        assert caught.value.exit_code == 2
