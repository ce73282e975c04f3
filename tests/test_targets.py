from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.answers import Answer, CaseOutcome
from harness.claims import Claims, KnownFailure, claims_from_options, load_claims
from harness.commands import STDOUT_LIMIT, CommandTarget, Mode
from harness.errors import ConfigError, UsageError
from harness.message import Message
from harness.recording import Recording
from harness.targets import CallableTarget, Trial, load_callable, reference

BODY = b'data: {"choices":[]}\n\ndata: {"a":1}\n\ndata: [DONE]\n\ndata: {"late":1}\n\n'


def trial(*cuts: int, body: bytes = BODY, dialect: str = "chat") -> Trial:
    return Trial(case="case", dialect=dialect, recording=Recording(body=body, end="eof"), cuts=cuts)


def test_a_callable_is_given_the_pieces() -> None:
    def target(pieces: Iterable[bytes]) -> dict[str, Any]:
        return {"text": "|".join(piece.decode() for piece in pieces)}

    found = CallableTarget(target)
    assert found.run(trial(4, 10, body=b"data: hello, world")).value == {"text": "data|: hell|o, world"}
    assert found.run(trial(body=b"")).value == {"text": ""}
    assert found.sees_cuts
    assert found.claims == Claims()


def test_an_exception_that_cannot_be_written_is_a_rejection_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parent.parent)

    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError

    def target(pieces: Iterable[bytes]) -> None:
        raise Mute

    answer = CallableTarget(target).run(trial())
    line = target.__code__.co_firstlineno + 1
    assert (answer.state, answer.reason) == ("rejected", f"Mute: at tests/test_targets.py:{line}")


def test_a_callable_may_ask_for_the_dialect_and_for_payloads() -> None:
    def target(payloads: Iterable[Any], dialect: str) -> dict[str, Any]:
        return {"text": json.dumps([*payloads, dialect])}

    found = CallableTarget(target, payloads=True)
    assert json.loads(found.run(trial()).value["text"]) == [{"choices": []}, {"a": 1}, "chat"]
    lines = found.run(trial(body=b'{"a":1}\nnot json\n{"b":2}', dialect="ollama"))
    assert json.loads(lines.value["text"]) == [{"a": 1}, {"b": 2}, "ollama"]
    assert not found.sees_cuts
    assert "cuts" in found.unseen[0]
    # what the standard discards at the end of the body is not handed over
    assert json.loads(found.run(trial(body=b'data: {"a":1}\n\ndata: {"b":2}')).value["text"]) == [{"a": 1}, "chat"]


def test_a_callable_claims_by_attributes_and_other_claims_go_first() -> None:
    class Accumulate:
        dialects = ("chat", "anthropic")
        features = ("tool_calls",)
        payloads = True

        def __call__(self, payloads: Iterable[Any]) -> dict[str, Any]:
            return {"text": str(len(list(payloads)))}

    found = CallableTarget(Accumulate(), "mine", claims=Claims(dialects=("chat",)))
    assert (found.claims.dialects, found.claims.features) == (("chat",), ("tool_calls",))
    assert not found.sees_cuts
    assert found.run(trial()).value == {"text": "2"}


def raises(exc: BaseException) -> Callable[[Iterable[bytes]], Any]:
    def target(pieces: Iterable[bytes]) -> Any:
        raise exc

    return target


RAISED = f"at tests/test_targets.py:{raises.__code__.co_firstlineno + 2}"


@pytest.mark.parametrize(
    ("target", "answer"),
    [
        (raises(ValueError("no\n end")), Answer(state="rejected", reason=f"ValueError: no end {RAISED}")),
        (raises(KeyError()), Answer(state="rejected", reason=f"KeyError: {RAISED}")),
        (raises(SystemExit(3)), Answer(state="broke", reason="SystemExit: 3")),
        (raises(KeyboardInterrupt()), Answer(state="broke", reason="KeyboardInterrupt")),
        (raises(RecursionError("deep")), Answer(state="broke", reason="RecursionError: deep")),
        (raises(ValueError("x" * 999)), Answer(state="rejected", reason=f"ValueError: {'x' * 188} {RAISED}")),
    ],
)
def test_raising_is_rejecting_unless_it_says_nothing_of_the_stream(
    target: Any, answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).parent.parent)
    assert CallableTarget(target).run(trial()) == answer


def test_a_callable_that_never_ends_hangs_and_is_stopped() -> None:
    running = []

    def spins(pieces: Iterable[bytes]) -> None:
        running.append(True)
        try:
            while True:
                try:
                    time.sleep(0.001)
                except Exception:
                    continue
        finally:
            running.clear()

    found = CallableTarget(spins, timeout=0.2)
    assert found.run(trial()) == Answer(state="hung", reason="not done after 0.2 seconds")
    assert running == []


def test_what_a_callable_prints_does_not_reach_stdout(capfd: pytest.CaptureFixture[str]) -> None:
    def chatty(pieces: Iterable[bytes]) -> dict[str, str]:
        print("debugging")  # noqa: T201 -- what is tested
        return {"text": ""}

    CallableTarget(chatty).run(trial())
    out, err = capfd.readouterr()
    assert (out, err) == ("", "debugging\n")


def test_a_coroutine_function_is_refused_with_the_remedy() -> None:
    async def target(pieces: Iterable[bytes]) -> dict[str, str]:
        return {}

    with pytest.raises(UsageError, match=r"target: is a coroutine function; wrap it in one that calls asyncio\.run"):
        CallableTarget(target)


def test_bad_attributes_are_usage_errors() -> None:
    def target(pieces: Iterable[bytes]) -> None: ...

    target.features = ("tool_call",)  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match="target: features: 'tool_call' is not known; did you mean 'tool_calls'"):
        CallableTarget(target)
    target.features = "tool_calls"  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match="must be a list of names"):
        CallableTarget(target)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], str]]:
    """Writes a module of the given name into tmp_path; it is forgotten afterwards."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    written = []

    def write(name: str, text: str) -> str:
        (tmp_path / f"{name}.py").write_text(text)
        written.append(name)
        return name

    yield write
    for name in written:
        sys.modules.pop(name, None)


def test_loading_by_name(module: Callable[[str, str], str], tmp_path: Path) -> None:
    name = module("accu_one", "class A:\n    @staticmethod\n    def run(pieces):\n        return {'text': 'hi'}\n")
    found = load_callable(f"{name}:A.run", root=tmp_path)
    assert found.run(trial()).value == {"text": "hi"}
    assert found.command(["--case", "x"]) == ["harness", "check", "accu_one:A.run", "--case", "x"]
    assert load_callable("harness.targets:reference").function is reference


def test_the_reference_answers_with_message_and_history() -> None:
    message, history = CallableTarget(reference).run(trial()).value
    assert isinstance(message, Message)
    assert [entry["role"] for entry in history] == ["user", "assistant"]


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("accumulate", r"'accumulate': write package\.module:callable, or a command after --"),
        ("accu_two:", "write package.module:callable"),
        ("no_such_module:f", "no module 'no_such_module' in .* or installed"),
        ("accu_two.inner:f", r"no module 'accu_two\.inner'"),
        ("accu_two:acumulate", "accu_two has no 'acumulate'; did you mean 'accumulate'"),
        ("accu_two:number", "number is of type int; name something that can be called"),
        ("accu_three:f", "accu_three failed: ModuleNotFoundError: No module named 'not_installed'; install it"),
        ("accu_four:f", "importing accu_four failed: ValueError: at import; correct it"),
    ],
)
def test_what_cannot_be_loaded_is_a_usage_error(
    place: str, says: str, module: Callable[[str, str], str], tmp_path: Path
) -> None:
    module("accu_two", "number = 3\ndef accumulate(pieces): ...\n")
    module("accu_three", "import not_installed\n")
    module("accu_four", "raise ValueError('at import')\n")
    with pytest.raises(UsageError, match=says):
        load_callable(place, root=tmp_path)


def script(path: Path, text: str) -> list[str]:
    """A command that runs the Python text, without site-packages so that it starts fast."""
    path.write_text(text)
    return [sys.executable, "-S", "-E", str(path)]


def run(tmp_path: Path, text: str, *cuts: int, mode: Mode = "stdin", body: bytes = BODY, timeout: float = 10) -> Answer:
    return CommandTarget(script(tmp_path / "target.py", text), mode, timeout=timeout).run(trial(*cuts, body=body))


def test_a_command_reads_the_body_and_is_told_the_dialect(tmp_path: Path) -> None:
    text = (
        "import sys, os, json\n"
        "print(json.dumps({'text': sys.stdin.buffer.read().decode(), 'dialect': os.environ['HARNESS_DIALECT']}))\n"
    )
    assert run(tmp_path, text, body="data: é\n\n".encode()) == Answer(
        state="accepted", value={"text": "data: é\n\n", "dialect": "chat"}
    )


def test_in_jsonl_mode_each_piece_is_a_json_string_of_base64_on_a_line(tmp_path: Path) -> None:
    text = (
        "import sys, json, base64\n"
        "print(json.dumps({'text': [base64.b64decode(json.loads(line)).decode('latin-1') for line in sys.stdin]}))\n"
    )
    answer = run(tmp_path, text, 1, 2, mode="jsonl", body="é\r\n".encode())
    assert answer.value == {"text": ["\xc3", "\xa9", "\r\n"]}
    assert run(tmp_path, text, mode="jsonl", body=b"").value == {"text": []}


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("raise SystemExit(1)", Answer(state="rejected")),
        ("import sys\nsys.exit('server failed')", Answer(state="rejected", reason="server failed")),
        ("raise ValueError('cut')", Answer(state="rejected", reason="ValueError: cut")),
        ("import sys\nsys.stderr.write('odd\\n')\nsys.exit(2)", Answer(state="broke", reason="exit 2: odd")),
        ("import os\nos.abort()", Answer(state="broke", reason="killed by SIGABRT")),
        ("print('hello')", Answer(state="broke", reason="exit 0, but stdout is no JSON: 'hello\\n'")),
        ("pass", Answer(state="broke", reason="exit 0, but stdout is no JSON: ''")),
    ],
)
def test_exit_codes(tmp_path: Path, text: str, answer: Answer) -> None:
    assert run(tmp_path, text) == answer


def test_the_line_that_names_the_error_is_the_reason_in_a_stack_trace_too(tmp_path: Path) -> None:
    trace = "file.mjs:3\n  throw new TypeError('x')\n  ^\n\nTypeError: x is no list\n    at file.mjs:3\n\nNode.js v20\n"
    answer = run(tmp_path, f"import sys\nsys.stderr.write({trace!r})\nsys.exit(1)")
    assert answer == Answer(state="rejected", reason="TypeError: x is no list")


def test_a_command_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    text = (
        "import os, time\n"
        "child = os.fork()\n"
        f"open({str(pids)!r}, 'a').write(f'{{os.getpid()}}\\n')\n"
        "time.sleep(60)\n"
    )
    started = time.monotonic()
    assert run(tmp_path, text, timeout=1) == Answer(state="hung", reason="not done after 1 seconds")
    assert time.monotonic() - started < 5
    for pid in map(int, pids.read_text().split()):
        assert _gone(pid)


def _gone(pid: int) -> bool:
    """Within a second: a killed orphan is there until its new parent has seen to it."""
    for _ in range(100):
        try:
            os.kill(pid, 0)
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (ProcessLookupError, FileNotFoundError):
            return True
        if state == "Z":
            return True
        time.sleep(0.01)
    return False


def test_output_without_end_is_cut_short_and_input_that_nobody_reads_blocks_nothing(tmp_path: Path) -> None:
    answer = run(tmp_path, "import sys\nwhile True: sys.stdout.write('x' * 65536)", body=b"x" * 1_000_000)
    assert answer == Answer(state="broke", reason=f"wrote more than {STDOUT_LIMIT // 1024**2} MiB on stdout")
    noisy = "import sys\nsys.stderr.write('x' * 1_000_000)\nprint('{\"text\": \"\"}')"
    assert run(tmp_path, noisy).value == {"text": ""}


def test_over_http_the_command_asks_the_server_at_base_url(tmp_path: Path) -> None:
    text = (
        "import os, json, urllib.request\n"
        "opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))\n"
        "request = urllib.request.Request(os.environ['BASE_URL'] + '/chat/completions', b'{\"stream\": true}')\n"
        "with opener.open(request) as response:\n"
        "    print(json.dumps({'text': response.read().decode(), 'status': response.status}))\n"
    )
    answer = run(tmp_path, text, 3, 4, mode="http")
    assert answer == Answer(state="accepted", value={"text": BODY.decode(), "status": 200})


def test_a_command_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="target no-such-command: no such command"):
        CommandTarget(["no-such-command"])
    with pytest.raises(UsageError, match="no command after --"):
        CommandTarget([])
    broken = tmp_path / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    with pytest.raises(UsageError, match="cannot be started"):
        CommandTarget([str(broken)]).run(trial())


def test_the_command_line_that_checks_a_command_again() -> None:
    claims = claims_from_options(["chat"], ["tool_calls"])
    target = CommandTarget(["env", "node", "my target.mjs"], "jsonl", claims=claims)
    assert shlex.join(target.command(["--cut", "at:3"])) == (
        "harness check --jsonl --dialect chat --feature tool_calls --cut at:3 -- env node 'my target.mjs'"
    )


def test_claims_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "claims.yaml"
    file.write_text(
        "dialects: [chat]\nfeatures: [tool_calls]\nknown_failures:\n"
        "  - {case: 0*, reason: later}\n  - {case: 049-x, reason: 'yes', outcome: accepted-truncation}\n"
    )
    claims = load_claims(file)
    assert claims == Claims(
        dialects=("chat",), features=("tool_calls",), options=("--claims", str(file)),
        known_failures=(
            KnownFailure(case="0*", reason="later"),
            KnownFailure(case="049-x", reason="yes", outcome=CaseOutcome.ACCEPTED_TRUNCATION),
        ),
    )  # fmt: skip
    plain, named = claims.known_failures
    assert plain.covers(CaseOutcome.WRONG)
    assert not plain.covers(CaseOutcome.ACCEPTED_TRUNCATION)
    assert not plain.covers(CaseOutcome.RIGHT)
    assert named.covers(CaseOutcome.ACCEPTED_TRUNCATION)
    assert not named.covers(CaseOutcome.WRONG)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("dialect: [chat]", "dialect: unknown key; did you mean 'dialects'"),
        ("dialects: [chatt]", r"dialects\[0\]: chatt is not known; did you mean 'chat'"),
        ("features: tool_calls", "features: must be a list"),
        ("known_failures: [{case: x}]", r"known_failures\[0\]: `reason:` is missing"),
        ("known_failures: [{case: x, reason: y, outcome: right}]", r"known_failures\[0\]\.outcome: right is not"),
    ],
)
def test_a_bad_file_of_claims_names_file_and_key(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "claims.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"claims\.yaml: " + says):
        load_claims(file)
    with pytest.raises(ConfigError, match="cannot be read"):
        load_claims(tmp_path / "missing.yaml")


def test_bad_options_name_the_option() -> None:
    with pytest.raises(UsageError, match="--feature: 'tools' is not known"):
        claims_from_options(features=["tools"])
