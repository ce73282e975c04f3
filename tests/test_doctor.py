"""`harness doctor`: each line, over real sockets, real files and a real git."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from commandline import Done, harness
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from reading import CANONICAL, FIXTURES, ROOT, fixture_of
from servers import RESET, Answer, Scripted, answer, certified, closed_port, json_answer

from harness.config import load_project
from harness.dialects import BUILT_IN
from harness.replay import Replay
from harness.runs.doctor import key_problem

SCHEMA = json.loads((ROOT / "docs" / "schema" / "doctor.schema.json").read_text("utf-8"))
KEY = "k-0123456789abcdef"
TEXT = (FIXTURES / "vllm" / "text.sse").read_bytes()
MODEL = {"error": {"message": "The model `tiny` does not exist or you do not have access to it.", "code": None}}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("MY_KEY", KEY)
    return tmp_path


def configure(url: str = "http://127.0.0.1:9/v1", **members: str) -> None:
    """providers.yaml with one provider, `mine`."""
    settings = {"dialect": "chat", "base_url": url, "model": "tiny", "api_key_env": "MY_KEY", **members}
    lines = [f"    {name}: {json.dumps(value)}" for name, value in settings.items() if value]
    Path("providers.yaml").write_text("\n".join(["providers:", "  mine:", *lines, ""]), "utf-8")


def record(name: str = "mine", source: str = "vllm") -> None:
    Path("fixtures", name).mkdir(parents=True)
    for shape in CANONICAL:
        for suffix in ("sse", "json"):
            shutil.copy(FIXTURES / source / f"{shape}.{suffix}", Path("fixtures", name))


def checks(*arguments: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """Exit code, and the checks by name (those of a provider as `mine.key`). The key is nowhere in what is told."""
    done = harness("doctor", "--json", *arguments)
    assert done.err == ""
    Draft202012Validator(SCHEMA).validate(done.one)
    assert KEY not in done.out
    found = {f"{one['provider']}.{one['check']}".lstrip("."): one for one in done.one["checks"]}
    assert len(found) == len(done.one["checks"]), "each line once"
    return done.code, found


def line(check: str, *arguments: str) -> tuple[str, str, str]:
    """State, what is said and the remedy of one check."""
    found = checks(*arguments)[1][check]
    return found["state"], found["says"], found["remedy"]


def live(*answers: Answer, under: str = "/v1", **members: str) -> tuple[int, str, str, str]:
    """What is said of an endpoint that answers so."""
    record()
    with Scripted(*answers) as server:
        configure(server.url.removesuffix("/v1") + under, **members)
        code, found = checks("--live")
        assert len(server.requests) == 1, "one request, and no retry"
    shutil.rmtree("fixtures")
    one = found["mine.answer"]
    return code, one["state"], one["says"], one["remedy"]


# -- the project --------------------------------------------------------------------------------------------------


def test_an_empty_folder() -> None:
    code, found = checks()
    assert code == 2
    assert found["config"]["state"] == "missing"
    assert found["config"]["remedy"].startswith("`harness init` writes one")
    assert set(found) == {"config", "folders", "fixtures", "git", "plug-ins", "versions"}


def test_a_file_that_is_not_valid() -> None:
    configure(dialcet="chat")
    code, found = checks()
    assert code == 2
    assert found["config"]["state"] == "failed"
    assert "did you mean 'dialect'?" in found["config"]["says"]
    assert found["folders"]["state"] == "ok", "what needs no providers.yaml is checked all the same"


def test_a_file_that_names_nobody() -> None:
    Path("providers.yaml").write_text("providers: {}\n", "utf-8")
    assert line("config")[0] == "missing"


def test_all_is_well() -> None:
    record()
    with Replay(FIXTURES / "vllm") as server:
        configure(server.base_url)
        code, found = checks("--live")
        assert [exchange.shape for exchange in server.journal] == ["text"]
    assert code == 0
    assert {name: one["state"] for name, one in found.items() if one["state"] != "ok"} == {"git": "skipped"}
    assert found["mine.key"]["says"] == "MY_KEY is set"
    assert found["mine.answer"]["says"].startswith(f"a stream of {len(TEXT)} bytes, the first byte after ")
    assert not Path(".harness").exists(), "nothing is kept"


def test_without_live_nothing_is_sent() -> None:
    record()
    with Scripted(answer(TEXT)) as server:
        configure(server.url)
        code, found = checks()
        assert server.requests == []
    assert code == 0
    assert found["mine.connect"]["state"] == "ok"
    assert found["mine.answer"]["state"] == "skipped"
    assert "--live" in found["mine.answer"]["says"]


def test_as_text() -> None:
    with Scripted(answer(TEXT)) as server:
        configure(server.url)
        done = harness("doctor")
    assert done.code == 2
    lines = done.out.splitlines()
    assert lines[:2] == ["project:", "  ok      config: providers.yaml: 1 provider, valid"]
    assert lines[3:5] == ["  missing fixtures: nothing is recorded in fixtures",
                          "          -> `harness record mine` makes the baseline of a gate"]  # fmt: skip
    assert "mine:" in lines
    assert "  ok      key: MY_KEY is set" in lines
    assert lines[-1] == "1 to mend"


def test_a_provider_that_is_not_known() -> None:
    configure()
    assert "no provider 'mien'; did you mean 'mine'?" in harness("doctor", "mien").failed(2)


def test_only_those_that_are_named() -> None:
    record("old")
    configure()
    found = checks("old")[1]
    assert found["old.entry"]["state"] == "skipped"
    assert found["old.fixtures"]["state"] == "ok"
    assert set(found["old.fixtures"]["says"].split(", ")) == set(CANONICAL)
    assert not any(name.startswith("mine.") for name in found)


@pytest.mark.parametrize("name", ["fixtures", ".harness"])
def test_a_folder_that_cannot_be_written_to(name: str) -> None:
    """A file in its place stops every user, root as well."""
    configure()
    Path(name).write_text("", "utf-8")
    state, says, remedy = line("folders")
    assert (state, says) == ("failed", f"{name} cannot be written to: Not a directory")
    assert remedy.startswith("check owner and permissions of ")


def test_fixtures_whose_bytes_were_changed() -> None:
    record()
    configure()
    path = Path("fixtures/mine/text.sse")
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    state, says, remedy = line("mine.fixtures")
    assert state == "failed"
    assert "fixtures/mine/text.sse: not the bytes that text.json describes" in says
    assert remedy.startswith("restore them from git, or `harness record mine --replace`")


def git(*arguments: str) -> None:
    subprocess.run(["git", *arguments], check=True, capture_output=True, timeout=30)


def test_git_attributes() -> None:
    configure()
    git("init", "--quiet", ".")
    assert line("git") == ("missing", "git may change line ends in recorded bytes",
                           "add the line `*.sse -text` to .gitattributes")  # fmt: skip
    Path(".gitattributes").write_text("*.sse -text\n", "utf-8")
    assert line("git")[:2] == ("ok", "bytes of *.sse stay as they are")


def test_what_init_writes_is_what_doctor_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    git("init", "--quiet", ".")
    assert harness("init").code == 0
    record("openai")
    with Replay(FIXTURES / "vllm") as server:
        monkeypatch.setenv("CANDIDATE_URL", server.base_url)
        code, found = checks("candidate", "--live")
    assert code == 0, found
    assert {one["state"] for one in found.values()} == {"ok", "skipped"}


# -- keys and values ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "says"),
    [("abc\n", "holds a line break"), (" abc", "starts or ends with a space"), ('"abc"', "stands in quotes"),
     ("'abc'", "stands in quotes"), ("Bearer abc", "starts with Bearer"), ("sk-...", "is a placeholder"),
     ("your_api_key", "is a placeholder"), ("$OPENAI_API_KEY", "is a placeholder"), ("<key>", "is a placeholder"),
     ("ab\u201cc", "holds a character that no key has"), ("ab cd", "holds a space"), ("ab\x07cd", "holds a space")],
)  # fmt: skip
def test_what_is_no_key(value: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = key_problem(value)
    assert found is not None
    assert says in found
    configure()
    monkeypatch.setenv("MY_KEY", value)
    code, checked = checks("--live")
    assert code == 2
    assert (checked["mine.key"]["state"], checked["mine.base_url"]["state"]) == ("failed", "ok")
    assert value.strip() not in checked["mine.key"]["says"]
    assert checked["mine.answer"]["says"].startswith("nothing was sent, because of key")


@pytest.mark.parametrize("value", [KEY, "sk-proj-AbC_123-x", "gsk_0123456789", "a.b.c=="])
def test_what_is_a_key(value: str) -> None:
    assert key_problem(value) is None


def test_a_key_that_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    configure()
    monkeypatch.delenv("MY_KEY")
    assert line("mine.key") == ("missing", "MY_KEY is not set", "export MY_KEY=...")
    monkeypatch.setenv("MY_KEY", "")
    assert line("mine.key")[1] == "MY_KEY is empty"
    record()
    assert line("mine.key")[0] == "skipped", "a baseline that is recorded is not called"
    assert line("mine.key", "--live")[0] == "missing"


@pytest.mark.parametrize(
    ("members", "check", "state", "says"),
    [({"url": "http://127.0.0.1:9/v1/chat/completions"}, "base_url", "failed", "ends with /chat/completions"),
     ({"url": "${NOWHERE}"}, "base_url", "missing", "the environment variable NOWHERE is not set"),
     ({"model": "${NO_MODEL}"}, "model", "missing", "the environment variable NO_MODEL is not set"),
     ({"verify": "ca.pem"}, "verify", "failed", "no such file")],
)  # fmt: skip
def test_values_that_cannot_be_used(members: dict[str, str], check: str, state: str, says: str) -> None:
    configure(**members)
    code, found = checks()
    assert code == 2
    assert found[f"mine.{check}"]["state"] == state
    assert says in found[f"mine.{check}"]["says"]
    assert found["mine.answer"]["state"] == "skipped"


def test_a_request_file_that_is_broken() -> None:
    configure()
    Path("requests/chat").mkdir(parents=True)
    Path("requests/chat/text.json").write_text('{"model": }', "utf-8")
    state, says, remedy = line("mine.requests")
    assert state == "failed"
    assert "requests/chat/text.json" in says
    assert "`harness init --dialect chat`" in remedy


def test_clients_that_are_declared() -> None:
    configure()
    with Path("providers.yaml").open("a", encoding="utf-8") as file:
        file.write("    clients: [opnai-python]\n")
    state, says, _ = line("mine.clients")
    assert (state, "clients[0]" in says) == ("failed", True)


# -- on the way ---------------------------------------------------------------------------------------------------


def test_a_host_that_is_not_there() -> None:
    record("other")
    configure("https://nobody.invalid/v1")
    code, found = checks()
    assert code == 3, "the set-up is right, as far as can be told"
    assert found["mine.host"]["state"] == "failed"
    assert found["mine.host"]["says"].startswith("nobody.invalid cannot be found: ")
    assert "mine.connect" not in found
    record()
    code, found = checks()
    assert (code, found["mine.host"]["state"]) == (0, "skipped"), "as a key that is gone, it says nothing of fixtures"
    assert found["mine.host"]["says"].endswith("; as a baseline that is recorded it is not called")
    assert checks("--live")[1]["mine.host"]["state"] == "failed"


def test_a_folder_that_cannot_be_listed_hides_no_other(tmp_path_factory: pytest.TempPathFactory) -> None:
    record()
    configure()
    Path("fixtures", "broken").symlink_to(tmp_path_factory.mktemp("elsewhere"))
    code, found = checks()
    assert code != 0
    assert found["fixtures"]["state"] == "failed"
    assert found["mine.fixtures"]["says"] == ", ".join(sorted(CANONICAL))


def test_whose_fixtures_are_wanted_first() -> None:
    configure()
    assert line("mine.fixtures")[:2] == ("skipped", "none; `harness record mine` makes them")
    record("other")
    assert line("mine.fixtures")[:2] == ("skipped", "none; only a baseline needs them")


def test_a_baseline_that_is_empty() -> None:
    record()
    configure()
    Path("fixtures/mine/text.sse").write_bytes(b"")
    assert line("mine.fixtures")[:2] == ("failed", "fixtures/mine/text.sse: is empty; record it again")


def test_a_config_that_cannot_be_read() -> None:
    Path("odd").mkdir()
    assert line("config", "--config", "odd")[2] == "it must be a file: check its permissions"


def test_a_port_where_nobody_listens() -> None:
    record()
    port = closed_port()
    configure(f"http://127.0.0.1:{port}/v1")
    code, found = checks("--live")
    assert code == 3
    assert found["mine.connect"]["says"] == f"cannot connect to 127.0.0.1:{port}: Connection refused"
    assert found["mine.connect"]["remedy"].startswith("start the server")
    assert found["mine.answer"]["says"] == "nothing was sent, because of connect"


def test_no_tls_where_there_should_be() -> None:
    record()
    with Scripted(answer(TEXT)) as server:
        configure(server.url.replace("http:", "https:"), verify="")
        code, found = checks()
    assert code == 3
    assert found["mine.connect"]["state"] == "failed"


@contextmanager
def tls_server(folder: Path) -> Iterator[tuple[str, Path]]:
    """A server with a certificate of its own, and the file of that."""
    context, certificate = certified(folder)
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection, suppress(OSError), context.wrap_socket(connection, server_side=True) as secure:
                secure.recv(1)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"https://127.0.0.1:{listening.getsockname()[1]}/v1", certificate
    finally:
        with suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join(10)


def test_certificates(folder: Path) -> None:
    record()
    with tls_server(folder) as (url, certificate):
        configure(url)
        state, says, remedy = line("mine.connect")
        assert state == "failed"
        assert "self" in says
        assert "`verify:`" in remedy
        configure(url, verify=certificate.name)
        assert line("mine.connect")[0] == "ok"
        assert "TLSv1" in line("mine.connect")[1]


def test_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    record()
    configure("https://api.example.com/v1")
    monkeypatch.setenv("HTTPS_PROXY", "http://user:a-password-of-mine@127.0.0.1:9")
    code, found = checks()
    assert code == 0
    assert found["proxy"]["says"].startswith("HTTPS_PROXY is set, so mine is asked through it")
    assert found["mine.host"]["state"] == "skipped"
    assert "a-password-of-mine" not in json.dumps(found)
    monkeypatch.setenv("NO_PROXY", "example.com")
    assert "proxy" not in checks()[1]


def test_a_proxy_variable_that_is_no_url(monkeypatch: pytest.MonkeyPatch) -> None:
    configure("https://api.example.com/v1")
    monkeypatch.setenv("HTTPS_PROXY", "htp://127.0.0.1:x")
    code, found = checks("--live")
    assert code == 2
    assert found["mine.client"]["state"] == "failed"
    assert "proxy variables" in found["mine.client"]["says"]


@pytest.mark.parametrize("host", ["xn--a", "256.256.256.256", "xn--i-7iq.example", "\u0665.example", "\u00fc" * 70])
def test_a_host_that_is_no_domain_name(host: str) -> None:
    configure(f"http://{host}/v1")
    code, found = checks("--live")
    assert code == 2
    assert "no domain name; check base_url" in found["mine.client"]["says"]
    assert harness("record", "mine", "--shape", "text").failed(2).endswith("no domain name; check base_url")


# -- answers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "body", "members", "says", "remedy"),
    [(401, {"error": {"message": "Incorrect API key"}}, {}, "HTTP 401: Incorrect API key", "the key in MY_KEY is not"),
     (401, {}, {"api_key_env": ""}, "HTTP 401", "the endpoint wants a key"),
     (402, {"detail": "no credit"}, {}, "HTTP 402: no credit", "no credit left"),
     (403, {"error": "not in your region"}, {}, "HTTP 403: not in your region", "may not use this model or region"),
     (404, MODEL, {}, "HTTP 404: The model `tiny` does not exist", "there is no model 'tiny' here"),
     (404, {"detail": "Not Found"}, {}, "HTTP 404: Not Found", "nothing answers at /v1/chat/completions: check "),
     (404, {"detail": "Not Found"}, {"path": "/chat"}, "HTTP 404: Not Found", "nothing answers at /v1/chat: "),
     (400, {"error": {"message": "invalid model ID"}}, {}, "HTTP 400: invalid model ID", "there is no model 'tiny'"),
     (400, {"error": {"message": "stream is not supported"}}, {}, "HTTP 400", "streaming is refused"),
     (400, {"error": {"message": "stream_options: extra"}}, {}, "HTTP 400: stream_options", "`request:` of the"),
     (404, {"error": {"message": "model: tiny"}}, {}, "HTTP 404: model: tiny", "there is no model 'tiny'"),
     (400, {"message": "tiny is not a valid model ID"}, {}, "HTTP 400: tiny is not", "there is no model 'tiny'"),
     (400, {"error": {"message": "API key not valid"}}, {}, "HTTP 400: API key", "the key in MY_KEY is not accepted"),
     (422, {"detail": [{"msg": "extra"}]}, {}, "HTTP 422", "the request is rejected"),
     (429, {"error": {"message": "slow down"}}, {}, "HTTP 429: slow down", "a rate limit or quota: wait"),
     (307, {}, {}, "HTTP 307", "redirects are not followed"),
     (503, {"error": {"message": "overloaded"}}, {}, "HTTP 503: overloaded", "try again later")],
)  # fmt: skip
def test_answers_that_are_failures(
    status: int, body: Any, members: dict[str, str], says: str, remedy: str
) -> None:  # fmt: skip
    code, state, said, mend = live(json_answer(status, body), **members)
    assert (code, state) == (3, "failed")
    assert said.startswith(says)
    assert remedy in mend


def test_what_a_header_says_is_told_in_a_line() -> None:
    remedy = live(json_answer(429, {"error": "slow down"}, retry_after="7" * 3000))[3]
    assert "wait 777" in remedy
    assert len(remedy) < 300


def test_a_base_url_without_v1() -> None:
    _, _, _, remedy = live(json_answer(404, {"detail": "Not Found"}), under="")
    assert remedy == "nothing answers at /chat/completions: is `/v1` missing at the end of base_url?"
    _, _, _, remedy = live(answer(b"<html>hello</html>", media="text/html"), under="")
    assert "base_url names no API" in remedy
    assert "is `/v1` missing" in remedy
    assert "`/v1` stands twice" in live(json_answer(404, {}), under="/v1/v1")[3]


@pytest.mark.parametrize(
    ("given", "says", "remedy"),
    [(json_answer(200, {"object": "chat.completion", "choices": []}), "one JSON body where a stream was asked for",
      "ignores `stream`"),
     (json_answer(200, {"error": {"message": "model not found"}}), "HTTP 200 with an error in it: model not found",
      "there is no model 'tiny'"),
     (answer(b""), "HTTP 200, and nothing in it", "look at the server's log"),
     (answer(b'data: {"error": {"message": "boom"}}\n\n'), "the stream ended with error: boom", "try again"),
     (answer((FIXTURES / "anthropic" / "text.sse").read_bytes()),
      "the stream is written in the dialect anthropic, not chat", "write `dialect: anthropic`"),
     ([*answer(TEXT)[:1], TEXT[:2000], RESET], "the stream ended with cut", "try again"),
     ([RESET], "127.0.0.1:", "look at the server's log")],
)  # fmt: skip
def test_answers_that_are_no_good_stream(given: Answer, says: str, remedy: str) -> None:
    code, state, said, mend = live(given)
    assert (code, state) == (3, "failed")
    assert said.startswith(says)
    assert remedy in mend


def test_an_answer_that_holds_the_key_is_not_repeated() -> None:
    """`checks` looks for the key in all that is told."""
    code, state, said, _ = live(json_answer(401, {"error": {"message": f"bad key {KEY}"}}))
    assert (code, state) == (3, "failed")
    assert said


@pytest.mark.parametrize(
    "said",
    ["The model `tiny` does not exist.", "Model Not Exist", "Invalid model: tiny", "model 'tiny' not found, pull it",
     "Unknown Model, please check the model code", "Not found the model tiny or permission denied",
     "Invalid model name passed in model=tiny", "The API deployment for this resource does not exist"],
)  # fmt: skip
def test_how_servers_say_that_they_have_no_such_model(said: str) -> None:
    assert "there is no model 'tiny'" in live(json_answer(400, {"error": {"message": said}}))[3]


def test_a_cap_on_requests_holds() -> None:
    with Scripted(answer(TEXT)) as server:
        configure(server.url)
        with Path("providers.yaml").open("a", encoding="utf-8") as file:
            file.write("    caps: {requests: 1, cost: 0.000001}\n    prices: {input: 1000, output: 1000}\n")
        assert load_project(None, Path.cwd()).provider("mine").caps.requests == 1
        state, says, _ = line("mine.answer", "--live")
        assert server.requests == []
    assert (state, "caps.cost" in says) == ("failed", True)


def test_every_dialect_can_be_asked() -> None:
    for dialect in BUILT_IN:
        name = fixture_of(dialect, "text").partition("/")[0]
        with Replay(FIXTURES / name) as server:
            configure(server.base_url, dialect=dialect, api_key_env="")
            state, says, _ = line("mine.answer", "--live")
        assert state == "ok", (name, says)


def test_help_is_told_without_a_project() -> None:
    done: Done = harness("doctor", "--help")
    assert done.code == 0
    assert "--live" in done.out
