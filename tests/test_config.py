from datetime import date
from pathlib import Path

import pytest

from harness import dialects
from harness.config import Acceptance, Caps, Prices, Project, ShapeSettings, is_loopback, load_project
from harness.conventions import CONVENTIONS
from harness.dialects import BUILT_IN
from harness.dialects.base import Dialect
from harness.dialects.chat import Chat
from harness.endpoint import Timeouts
from harness.errors import ConfigError, UsageError
from harness.findings import Severity
from harness.timing import Thresholds

ROOT = Path(__file__).resolve().parent.parent
KEY = "sk-0123456789abcdef"

# As in DESIGN, "providers.yaml (contract)".
CONTRACT = """
providers:
  openai:
    dialect: chat
    base_url: https://api.openai.com/v1
    api_key_env: OPENAI_API_KEY
    model: gpt-5.4
  candidate:
    dialect: chat
    base_url: "${CANDIDATE_URL:-http://127.0.0.1:8080/v1}"
    model: local
    headers: {X-Org: "${ORG:-none}"}
    auth: bearer                       # or x-api-key, x-goog-api-key, header:NAME, none
    request: {max_tokens: 256}         # merge patch on every request
    shapes:
      error: {concurrent: 2, request: {messages: [{role: user, content: "[[loop]]"}], max_tokens: 480,
                                       tool_choice: null}}
      logprobs: {skip: "not offered"}
    timeouts: {connect: 10, first_event: 60, idle: 30, total: 300}   # seconds; idle counts events
    accept:
      - {rule: usage.position, reason: tokens are counted locally, until: 2027-06-30}
    clients: [openai-python]
"""


def project(tmp_path: Path, text: str) -> Project:
    (tmp_path / "providers.yaml").write_text(text)
    return load_project(None, tmp_path)


BASE = "dialect: chat, base_url: https://a.example/v1, model: m"


def one(tmp_path: Path, more: str = "", base: str = BASE) -> Project:
    return project(tmp_path, f"providers: {{x: {{{base}{', ' if more else ''}{more}}}}}")


def problem(tmp_path: Path, more: str = "", **base: str) -> str:
    with pytest.raises(ConfigError) as caught:
        one(tmp_path, more, **base)
    text = str(caught.value)
    assert "\n" not in text
    return text.removeprefix("providers.yaml: ").removeprefix("providers.x")


def unresolved(tmp_path: Path, environ: dict[str, str], more: str = "", **base: str) -> str:
    provider = one(tmp_path, more, **base).provider("x")
    with pytest.raises(ConfigError) as caught:
        provider.resolve(environ)
    return str(caught.value).removeprefix("providers.yaml: providers.x")


def test_the_contract_of_the_design(tmp_path: Path) -> None:
    found = project(tmp_path, CONTRACT)
    assert list(found.providers) == ["openai", "candidate"]
    assert (found.root, found.config) == (tmp_path, tmp_path / "providers.yaml")
    assert (found.fixtures, found.requests) == (tmp_path / "fixtures", tmp_path / "requests")
    candidate = found.provider("candidate")
    assert candidate.auth == "bearer"
    assert candidate.request == {"max_tokens": 256}
    loop = {"messages": [{"role": "user", "content": "[[loop]]"}], "max_tokens": 480, "tool_choice": None}
    assert candidate.shapes == {
        "error": ShapeSettings(concurrent=2, request=loop),
        "logprobs": ShapeSettings(skip="not offered"),
    }
    assert candidate.shape("text") == ShapeSettings()
    assert candidate.timeouts == Timeouts(connect=10, first_event=60, idle=30, total=300)
    assert candidate.accept == (
        Acceptance(rule="usage.position", reason="tokens are counted locally", until=date(2027, 6, 30)),
    )
    assert candidate.clients == ("openai-python",)
    assert found.provider("openai").timeouts == Timeouts()


def test_limits_prices_and_caps(tmp_path: Path) -> None:
    found = one(
        tmp_path,
        "thresholds: {first_event: 2.5, gap: 5}, prices: {input: 0.5, output: 0}, caps: {requests: 40, cost: 1.5}, "
        "parallel: 4",
    ).provider("x")
    assert found.thresholds == Thresholds(first_event=2.5, gap=5)
    assert (found.prices, found.caps, found.parallel) == (
        Prices(input=0.5, output=0), Caps(requests=40, cost=1.5), 4
    )  # fmt: skip
    plain = one(tmp_path).provider("x")
    assert (plain.thresholds, plain.prices, plain.caps, plain.parallel) == (Thresholds(), None, Caps(), 1)


def test_the_shipped_file_is_sound() -> None:
    found = load_project(ROOT / "providers.yaml", ROOT)
    assert {"openai", "llamacpp", "candidate"} <= found.providers.keys()
    assert found.provider("llamacpp").resolve({}).base_url == "http://127.0.0.1:8080/v1"
    assert found.provider("candidate").resolve({"CANDIDATE_URL": "http://10.0.0.9/v1/"}).base_url == "http://10.0.0.9/v1"


def test_where_the_file_is_looked_for(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    none = load_project(None, inner)
    assert (none.root, none.config, none.providers) == (inner, None, {})
    (tmp_path / "providers.yaml").write_text(CONTRACT)
    assert load_project(None, inner).root == tmp_path
    assert load_project(None, inner).file == str(tmp_path / "providers.yaml")
    (inner / "other.yaml").write_text("providers: {x: {dialekt: chat}}")
    with pytest.raises(ConfigError, match=r"^b/other\.yaml: providers\.x\.dialekt: unknown key; did you"):
        load_project(Path("b/other.yaml"), tmp_path / "a")
    with pytest.raises(UsageError) as caught:
        load_project(Path("gone.yaml"), tmp_path)
    assert str(caught.value) == "gone.yaml: no such file; --config names a providers.yaml"


def test_asking_for_a_provider_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        load_project(None, tmp_path).provider("openai")
    assert str(caught.value) == (
        "providers.yaml: not found here or in a parent folder, so provider 'openai' is not known; "
        "`harness init` writes one, --config names one that lies elsewhere"
    )
    found = project(tmp_path, CONTRACT)
    for name, near in (("opnai", "; did you mean 'openai'?"), ("zzz", ";")):
        with pytest.raises(UsageError) as caught:
            found.provider(name)
        assert str(caught.value) == (
            f"providers.yaml: no provider {name!r}{near} there are: openai, candidate; add it under `providers:`"
        )
        assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- a", "providers.yaml: must be a mapping (key: value), but is a list"),
        ("{}", "providers.yaml: `providers:` is missing; under it stand names, and under each an endpoint"),
        ("provider: {}", "providers.yaml: provider: unknown key; did you mean 'providers'? allowed: providers"),
        (
            "providers:",
            "providers.yaml: providers: must be a mapping (key: value), but is empty; "
            "leave the key out if there is nothing to say",
        ),
        (
            "providers: {Open_AI: {}}",
            "providers.yaml: providers.Open_AI: a provider's name has only a-z, 0-9 and -, "
            "as it becomes a folder under fixtures/",
        ),
        (
            'providers: {"../x\\ny": {}}',
            'providers.yaml: providers."../x\\ny": a provider\'s name has only a-z, 0-9 and -, '
            "as it becomes a folder under fixtures/",
        ),
        (
            "providers: {x: {}}",
            "providers.yaml: providers.x: `dialect:` is missing; a provider needs dialect, base_url, model",
        ),
        (
            "providers:\n  x: {}\n  y: {}\n  x: {}\n",
            "providers.yaml: providers.x: given twice, in lines 2 and 4; keep one",
        ),
    ],
)
def test_errors_of_the_whole_file(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        project(tmp_path, text)
    assert str(caught.value) == expected


KEYS = (
    "dialect, base_url, api_key_env, model, headers, auth, query, path, verify, request, shapes, timeouts, "
    "thresholds, prices, caps, parallel, accept, clients"
)
FROM_ENVIRONMENT = "keys come from the environment only; write `api_key_env: NAME_OF_THE_VARIABLE`"
LOOKS = "looks like a key; keys come from the environment only: write ${NAME}"
VARIABLE = "a variable is written ${NAME} or ${NAME:-default}; the default holds no braces"
PATH = "must be a path under base_url: it starts with /, and {model} may stand in it"
SHAPES = "text, tool-call, stop, error, parallel-tools, reasoning, structured, refusal, logprobs, multi-turn"


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("modle: y", f".modle: unknown key; did you mean 'model'? allowed: {KEYS}"),
        ("zzz: y", f".zzz: unknown key; allowed: {KEYS}"),
        ("model: n", ".model: given twice, in line 1; keep one"),
        (f"api_key: {KEY}", f".api_key: {FROM_ENVIRONMENT}"),
        (f"API-Key: {KEY}", f".API-Key: {FROM_ENVIRONMENT}"),
        ("token: abc", f".token: {FROM_ENVIRONMENT}"),
        (
            f"api_key_env: {KEY}",
            ".api_key_env: must be the bare name of an environment variable, such as OPENAI_API_KEY",
        ),
        (
            "api_key_env: sk_live_0123456789abcdef",
            ".api_key_env: must be the bare name of an environment variable, such as OPENAI_API_KEY",
        ),
        (
            "api_key_env: '${KEY}'",
            ".api_key_env: must be the bare name of an environment variable, such as OPENAI_API_KEY",
        ),
        ("headers: {X-Version: 2}", '.headers.X-Version: must be text, but YAML reads 2 as a number; write "2"'),
        ("headers: []", ".headers: must be a mapping (key: value), but is a list"),
        ("headers: {'X Y': a}", '.headers."X Y": is no name of a header'),
        ("headers: {X: a, x: b}", ".headers.x: given twice, as case does not count in names of headers; keep one"),
        (
            "headers: {Accept-Encoding: br}",
            ".headers.Accept-Encoding: is set by the recorder, so that bytes come as the server wrote them; "
            "leave it out",
        ),
        ("headers: {Authorization: whatever}", f".headers.Authorization: {LOOKS}"),
        ("headers: {X-Sub-Api-Key: whatever}", f".headers.X-Sub-Api-Key: {LOOKS}"),
        (f"headers: {{X-Other: {KEY}}}", f".headers.X-Other: {LOOKS}"),
        (f"headers: {{X-Other: '${{A:-{KEY}}}'}}", f".headers.X-Other: {LOOKS}"),
        ("query: {key: abc}", f".query.key: {LOOKS}"),
        ("headers: {X: '${A'}", f".headers.X: {VARIABLE}"),
        ("headers: {X: '${a b}'}", f".headers.X: {VARIABLE}"),
        ("headers: {X: '${A:-${B}}'}", f".headers.X: {VARIABLE}"),
        (
            "query: {api-version: 2024-10-21}",
            '.query.api-version: must be text, but YAML reads 2024-10-21 as a date; write "2024-10-21"',
        ),
        (
            "auth: beerer",
            ".auth: beerer is not known; did you mean 'bearer'? "
            "allowed: bearer, x-api-key, x-goog-api-key, header:NAME, none",
        ),
        (
            "auth: 'header:'",
            ".auth: header: is not known; did you mean 'header:NAME'? allowed: bearer, x-api-key, "
            "x-goog-api-key, header:NAME, none",
        ),
        ("auth: 'header:NAME'", ".auth: NAME stands for the header's own name, as in header:X-Key"),
        (
            "auth: none, api_key_env: K",
            ".api_key_env: auth is none, so no key would be sent; write `auth: bearer`, say, or leave this out",
        ),
        (
            "api_key_env: K, headers: {authorization: '${T}'}",
            ".api_key_env: the key goes into the header authorization, which `headers:` sets too; keep one",
        ),
        ("path: chat", f".path: {PATH}"),
        ("path: '/{deployment}'", f".path: {PATH}"),
        ("verify: false", ".verify: must name a file of CA certificates (PEM); certificates are always verified"),
        ("request: [1]", ".request: must be a mapping (key: value), but is a list"),
        ("request: {stream: false}", ".request.stream: must be true: streams are what is recorded"),
        ("request: {stream: null}", ".request.stream: must be true: streams are what is recorded"),
        (
            "request: {a: [{b: no}]}",
            '.request.a[0].b: YAML reads no as false; write true or false, or "no" in quotes',
        ),
        (
            "shapes: {erorr: {skip: no way}}",
            f".shapes.erorr: no shape 'erorr'; did you mean 'error'? there are: {SHAPES}, "
            "and those with a file requests/chat/NAME.json",
        ),
        (
            "shapes: {'../x': {}}",
            f".shapes.\"../x\": no shape '../x'; there are: {SHAPES}, and those with a file requests/chat/NAME.json",
        ),
        (
            "shapes: {error: {concurent: 2}}",
            ".shapes.error.concurent: unknown key; did you mean 'concurrent'? allowed: concurrent, request, skip",
        ),
        (
            "shapes: {error: {concurrent: 0}}",
            ".shapes.error.concurrent: must be a whole number from 1 to 64, but is 0",
        ),
        (
            "shapes: {error: {concurrent: true}}",
            ".shapes.error.concurrent: must be a whole number from 1 to 64, but is true",
        ),
        ("shapes: {text: {skip: true}}", '.shapes.text.skip: must be text, but YAML reads true as true; write "true"'),
        ("shapes: {error: {skip: ''}}", ".shapes.error.skip: must not be empty"),
        (
            "shapes: {error: {request: {stream: false}}}",
            ".shapes.error.request.stream: must be true: streams are what is recorded",
        ),
        (
            "timeouts: {idel: 3}",
            ".timeouts.idel: unknown key; did you mean 'idle'? allowed: connect, first_event, idle, total",
        ),
        ("timeouts: {idle: 30s}", ".timeouts.idle: must be a number of seconds above 0, but is 30s"),
        ("timeouts: {idle: -1}", ".timeouts.idle: must be a number of seconds above 0, but is -1"),
        (
            "thresholds: {gaps: 3}",
            ".thresholds.gaps: unknown key; did you mean 'gap'? allowed: first_byte, first_event, first_content, gap, "
            "total",
        ),
        ("thresholds: {gap: 0}", ".thresholds.gap: must be a number of seconds above 0, but is 0"),
        ("thresholds: 2", ".thresholds: must be a mapping (key: value), but is 2"),
        (
            "prices: {input: 1}",
            ".prices: `output:` is missing; prices are per million tokens, input and output (0 if free)",
        ),
        ("prices: {input: -1, output: 1}", ".prices.input: must be a number of 0 or more, but is -1"),
        (
            "prices: {input: 1, outputs: 1}",
            ".prices.outputs: unknown key; did you mean 'output'? allowed: input, output",
        ),
        ("caps: {requests: 0}", ".caps.requests: must be a whole number from 1 to 1000000, but is 0"),
        (
            "caps: {cost: 1}",
            ".caps.cost: needs `prices: {input: ..., output: ...}`, which say what a request costs",
        ),
        ("caps: {cost: a, prices: 1}", ".caps.prices: unknown key; allowed: requests, cost"),
        ("parallel: 0", ".parallel: must be a whole number from 1 to 64, but is 0"),
        ("parallel: 2.0", ".parallel: must be a whole number from 1 to 64, but is 2.0"),
        ("accept: {}", ".accept: must be a list, but is a mapping"),
        ("accept: [{rule: a}]", ".accept[0]: `reason:` is missing; an acceptance names a rule and says why"),
        ("accept: [{reason: a}]", ".accept[0]: `rule:` is missing; an acceptance names a rule and says why"),
        (
            "accept: [{rule: a, reason: b, untill: 2027-01-01}]",
            ".accept[0].untill: unknown key; did you mean 'until'? allowed: rule, reason, shape, path, until, "
            "severity, owner, baseline",
        ),
        (
            "accept: [{rule: a, reason: b, until: soon}]",
            ".accept[0].until: must be a day, such as 2027-06-30, but is soon",
        ),
        (
            "accept: [{rule: a, reason: b, severity: fatale}]",
            ".accept[0].severity: fatale is not known; did you mean 'fatal'? allowed: cosmetic, negotiable, fatal",
        ),
        (
            "accept: [{rule: a, reason: b, severity: fatal}]",
            ".accept[0]: `until:` is missing; what is fatal can be accepted up to a day only",
        ),
        (
            "accept: [{rule: a, reason: b, shape: txt}]",
            f".accept[0].shape: no shape 'txt'; did you mean 'text'? there are: {SHAPES}, "
            "and those with a file requests/chat/NAME.json",
        ),
        ("accept: [{rule: a, reason: b, owner: ''}]", ".accept[0].owner: must not be empty"),
        ("accept: [{rule: a, reason: b, owner: [me]}]", ".accept[0].owner: must be text, but is a list"),
        (
            "accept: [{rule: a, reason: b}, {rule: a, reason: b, baseline: xx}]",
            ".accept[1].baseline: no provider 'xx'; did you mean 'x'? there are: x; a baseline has an entry here, or a "
            "folder under fixtures/",
        ),
        (
            "accept: [{rule: a, reason: b, baseline: no}]",
            """.accept[0].baseline: must be text, but YAML reads no as false; write "no\"""",
        ),
        ("clients: openai-python", ".clients: must be a list, but is openai-python"),
        ("clients: [a, a]", ".clients[1]: 'a' is given twice; keep one"),
    ],
)
def test_errors_of_one_provider(tmp_path: Path, more: str, expected: str) -> None:
    assert problem(tmp_path, more) == expected
    assert KEY not in problem(tmp_path, more)


UNREADABLE = "is no URL: its host or port cannot be read; write one such as https://api.openai.com/v1"
HTTP = "is no URL of an HTTP endpoint; write one such as https://api.openai.com/v1"


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ("dialect: chat, base_url: http://a.b", ": `model:` is missing; a provider needs dialect, base_url, model"),
        (
            "dialect: chatt, base_url: https://a.example, model: m",
            ".dialect: chatt is not known; did you mean 'chat'? "
            f"allowed: {', '.join(BUILT_IN)}",
        ),
        (
            "dialect: chat, base_url: https://a.example, model: 4.10",
            '.model: must be text, but YAML reads 4.10 as a number; write "4.10"',
        ),
        (
            "dialect: chat, base_url: https://a.example, model: no",
            '.model: must be text, but YAML reads no as false; write "no"',
        ),
        ("dialect: chat, model: m, base_url: 'localhost:8080'", f".base_url: {HTTP}"),
        ("dialect: chat, model: m, base_url: ftp://a.example", f".base_url: {HTTP}"),
        ("dialect: chat, model: m, base_url: https:///v1", f".base_url: {HTTP}"),
        ('dialect: chat, model: m, base_url: "https://a.example/v1\\n"', f".base_url: {HTTP}"),
        (
            "dialect: chat, model: m, base_url: 'http://a.example:99999/v1'",
            f".base_url: {UNREADABLE}",
        ),
        (
            "dialect: chat, model: m, base_url: 'http://[::1/v1'",
            f".base_url: {UNREADABLE}",
        ),
        (
            "dialect: chat, model: m, base_url: 'https://me:pw@a.example'",
            ".base_url: holds a user name or password; send credentials with `auth:` or `headers:`",
        ),
        (
            "dialect: chat, model: m, base_url: 'https://a.example/v1?x=1'",
            ".base_url: holds a query or fragment; write the query under `query:`",
        ),
        (
            "dialect: ollama, model: m, base_url: http://a.example, api_key_env: K",
            ".api_key_env: auth is none in dialect ollama, so no key would be sent; "
            "write `auth: bearer`, say, or leave this out",
        ),
    ],
)
def test_errors_of_what_every_provider_has(tmp_path: Path, base: str, expected: str) -> None:
    assert problem(tmp_path, base=base) == expected


class Installed:
    """Finds one dialect that brings no convention, and one that is broken."""

    def names(self) -> list[str]:
        return ["broken", "extra"]

    def find(self, name: str) -> type[Dialect] | None:
        if name == "broken":
            raise UsageError("dialect broken: its plug-in cannot be loaded")
        return Chat if name == "extra" else None


def test_a_dialect_installed_beside_ours_must_say_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialects, "finder", Installed())
    path = tmp_path / "providers.yaml"
    path.write_text("providers: {x: {dialect: extra, base_url: https://a.example, model: m}}")
    with pytest.raises(ConfigError) as caught:
        load_project(None, tmp_path)
    assert str(caught.value) == (
        "providers.yaml: providers.x: `path:` is missing; dialect 'extra' is not built in, so say where it is asked"
    )
    path.write_text("providers: {x: {dialect: extra, base_url: https://a.example, model: m, path: /ask}}")
    provider = load_project(None, tmp_path).provider("x")
    assert (provider.auth, provider.convention.path) == ("bearer", "/ask")
    for name, expected in (
        ("broken", "dialect broken: its plug-in cannot be loaded"),
        ("extar", f"extar is not known; did you mean 'extra'? allowed: {', '.join(CONVENTIONS)}, broken, extra"),
    ):
        path.write_text(f"providers: {{x: {{dialect: {name}, base_url: https://a.example, model: m}}}}")
        with pytest.raises(ConfigError) as caught:
            load_project(None, tmp_path)
        assert str(caught.value) == f"providers.yaml: providers.x.dialect: {expected}"


def test_what_is_installed_is_not_asked_for_a_dialect_that_is_built_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Unasked:
        def names(self) -> list[str]:
            pytest.fail("asked which dialects there are")

        def find(self, name: str) -> type[Dialect] | None:
            pytest.fail(f"asked for {name}")

    monkeypatch.setattr(dialects, "finder", Unasked())
    assert one(tmp_path).provider("x").dialect == "chat"


def test_an_acceptance_has_an_owner_and_may_be_bound_to_a_baseline(tmp_path: Path) -> None:
    text = CONTRACT.replace("until: 2027-06-30}", "until: 2027-06-30, owner: the team <web@a.example>, baseline: B}")
    (entry,) = project(tmp_path, text.replace("B}", "openai}")).provider("candidate").accept
    assert (entry.owner, entry.baseline) == ("the team <web@a.example>", "openai")
    # Fixtures alone make a baseline, too.
    with pytest.raises(ConfigError) as caught:
        project(tmp_path, text.replace("B}", "recorded}"))
    assert str(caught.value).startswith("providers.yaml: providers.candidate.accept[0].baseline: no provider 'recor")
    (tmp_path / "fixtures" / "recorded").mkdir(parents=True)
    (entry,) = project(tmp_path, text.replace("B}", "recorded}")).provider("candidate").accept
    assert entry.baseline == "recorded"
    with pytest.raises(ConfigError, match=r"no provider 'recordd'; did you mean 'recorded'[?] there are: openai, cand"):
        project(tmp_path, text.replace("B}", "recordd}"))


def test_own_shapes_and_patterns_of_acceptances(tmp_path: Path) -> None:
    (tmp_path / "requests" / "chat").mkdir(parents=True)
    (tmp_path / "requests" / "chat" / "mine.json").write_text("{}")
    more = (
        "shapes: {mine: {skip: later}}, accept: [{rule: a, reason: b, shape: mine}, {rule: 'usage.*', reason: b, "
        "shape: 't*', severity: fatal, until: '2027-06-30', path: wire.usage}]"
    )
    provider = one(tmp_path, more).provider("x")
    assert provider.shape("mine").skip == "later"
    assert provider.accept[1] == Acceptance(
        rule="usage.*", reason="b", shape="t*", severity=Severity.FATAL, until=date(2027, 6, 30), path="wire.usage"
    )


def test_default_auth_is_that_of_the_dialect(tmp_path: Path) -> None:
    found = {}
    for dialect in BUILT_IN:
        base = f"dialect: {dialect}, base_url: https://a.example, model: m"
        found[dialect] = one(tmp_path, base=base).provider("x").auth
    assert found == {name: convention.auth for name, convention in CONVENTIONS.items()}
    assert found.items() >= {
        "chat": "bearer", "responses": "bearer", "anthropic": "x-api-key", "gemini": "x-goog-api-key",
        "ollama": "none", "completions": "bearer", "cohere": "bearer",
    }.items()  # fmt: skip


def test_variables_are_required_of_called_endpoints_only(tmp_path: Path) -> None:
    text = CONTRACT + "  other: {dialect: chat, base_url: '${OTHER_URL}', model: m, api_key_env: OTHER_KEY}\n"
    found = project(tmp_path, text)
    assert found.provider("candidate").resolve({}).base_url == "http://127.0.0.1:8080/v1"
    with pytest.raises(ConfigError) as caught:
        found.provider("other").resolve({})
    assert str(caught.value) == (
        "providers.yaml: providers.other.base_url: the environment variable OTHER_URL is not set; "
        "set it, or give a default: ${OTHER_URL:-...}"
    )
    with pytest.raises(ConfigError) as caught:
        found.provider("openai").resolve({})
    assert str(caught.value) == (
        "providers.yaml: providers.openai.api_key_env: the environment variable OPENAI_API_KEY is not set; "
        "it must hold the key"
    )


BASE_URL = "dialect: chat, model: m, base_url: '${U}'"
PEM = "no such file; name a file of CA certificates (PEM)"


def test_values_from_the_environment_that_cannot_be_used(tmp_path: Path) -> None:
    empty = ".headers.X: the environment variable A is empty; set it, or give a default: ${A:-...}"
    assert unresolved(tmp_path, {"A": ""}, "headers: {X: '${A}'}") == empty
    broken = "holds what no header may: a line break, or a space at its end"
    assert unresolved(tmp_path, {"A": "a\r\nEvil: b"}, "headers: {X: '${A}'}") == f".headers.X: {broken}"
    assert unresolved(tmp_path, {"A": "ä"}, "headers: {X: '${A}'}") == f".headers.X: {broken}"
    assert unresolved(tmp_path, {"A": "  "}, "api_key_env: A") == (
        ".api_key_env: the environment variable A is empty; it must hold the key"
    )
    assert unresolved(tmp_path, {"A": f"{KEY}\n"}, "api_key_env: A") == (
        ".api_key_env: the environment variable A holds what no key has: a line break, or a space at its end"
    )
    assert unresolved(tmp_path, {"U": "a.example"}, base=BASE_URL) == f".base_url: {HTTP}"
    assert unresolved(tmp_path, {"U": f"https://key:{KEY}"}, base=BASE_URL) == f".base_url: {UNREADABLE}"
    assert unresolved(tmp_path, {"A": "x"}, "path: '${A}'") == (
        ".path: with the environment filled in, this is no path that starts with /"
    )
    assert unresolved(tmp_path, {}, "verify: ca.pem") == f".verify: {tmp_path / 'ca.pem'}: {PEM}"


def test_everything_is_filled_in(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("")
    more = (
        "headers: {X-Org: 'org ${ORG}', X-Price: '$5 $X', X-No: '${NO:-}'}, query: {v: '${V:-1}'}, "
        "path: '/d/${D}/{model}', verify: '${CA:-ca.pem}', api_key_env: K"
    )
    provider = one(tmp_path, more, "dialect: chat, base_url: '${U}', model: '${M}'").provider("x")
    environ = {"ORG": "acme-research", "U": "https://gw.example/team/v1/", "M": "model-9", "D": "deploy-77", "K": KEY}
    resolved = provider.resolve(environ)
    assert resolved.base_url == "https://gw.example/team/v1"
    assert resolved.headers == {"X-Org": "org acme-research", "X-Price": "$5 $X", "X-No": ""}
    assert resolved.query == {"v": "1"}
    assert (resolved.path, resolved.verify) == ("/d/deploy-77/{model}", tmp_path / "ca.pem")
    assert (resolved.model, resolved.api_key) == ("model-9", KEY)
    assert resolved.secrets == {KEY, "acme-research", "https://gw.example/team/v1/", "deploy-77"}
    assert KEY not in repr(resolved)
    assert "acme" not in repr(resolved)


def test_what_counts_as_a_secret(tmp_path: Path) -> None:
    """Not what stands in every honest recording, nor what is too short to be told from ordinary text."""
    more = "path: '/d/${D}', api_key_env: K, headers: {X: '${X}'}"
    provider = one(tmp_path, more, "dialect: chat, base_url: '${U}', model: '${M}'").provider("x")
    environ = {"U": "http://127.0.0.1:8080/v1", "M": "org/model-9-big", "D": "model-9-big", "K": "ollama", "X": "no"}
    assert provider.resolve(environ).secrets == frozenset()
    assert provider.resolve({**environ, "K": "12345678", "X": "long-enough"}).secrets == {"12345678", "long-enough"}


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://localhost:8080/v1", True),
        ("http://LOCALHOST./", True),
        ("https://api.localhost", True),
        ("http://127.0.0.1", True),
        ("http://127.9.9.9:1/x", True),
        ("http://[::1]:8080", True),
        ("http://[::ffff:127.0.0.1]", True),
        ("http://0.0.0.0:8000/v1", True),
        ("https://localhost.example", False),
        ("http://10.0.0.1", False),
        ("http://[2001:db8::1]", False),
        ("https://api.openai.com/v1", False),
        ("http://user@127.0.0.1@evil.example", False),
        ("http://[::1", False),
        ("", False),
    ],
)
def test_loopback(url: str, expected: bool) -> None:
    assert is_loopback(url) is expected
