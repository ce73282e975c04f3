"""Presets: each is an endpoint that the real loader takes, and what `harness init` makes of it can be used as it is."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from commandline import harness
from reading import FIXTURES

from harness.bodies import request_for, shapes_offered
from harness.catalogue import CATALOGUE
from harness.config import Project, load_project
from harness.conventions import CONVENTIONS
from harness.errors import UsageError
from harness.findings import Severity
from harness.presets import entry, preset, presets, variables
from harness.providers import is_loopback
from harness.shapes import SHAPES

NAMES = list(presets())
ACCEPTANCE = re.compile(r"^    # ( *- \{.*\}|accept:)$", re.MULTILINE)
# Fixtures that no server of its own makes: LiteLLM in front of something that speaks another dialect.
BEHIND_OTHERS = {"litellm-bridge-responses", "litellm-over-anthropic"}


def project_of(name: str, folder: Path, *, accepting: bool = False) -> Project:
    """A project with that preset alone; `accepting` takes the # away from its acceptances."""
    text = "\n".join(["providers:", *entry(name, preset(name), date(2099, 1, 1)), ""])
    (folder / "providers.yaml").write_text(ACCEPTANCE.sub(r"    \1", text) if accepting else text, "utf-8")
    return load_project(None, folder)


def environment(name: str) -> dict[str, str]:
    """What must be set, as a user would."""
    return {one.name: "a-value-of-mine" for one in variables(preset(name)) if one.default is None}


@pytest.mark.parametrize("name", NAMES)
def test_it_loads_resolves_and_asks(name: str, tmp_path: Path) -> None:
    known, project = preset(name), project_of(name, tmp_path)
    provider = project.provider(name)
    resolved = provider.resolve(environment(name))
    url = urlsplit(resolved.base_url)
    assert url.scheme == ("http" if is_loopback(resolved.base_url) else "https")
    assert not resolved.base_url.endswith(CONVENTIONS[known.dialect].path)
    assert {"text", "error"} <= set(shapes_offered(project, known.dialect))
    endpoint = request_for(project, provider, resolved, "text").endpoint
    sent = [value for value in endpoint.headers.values() if "a-value-of-mine" in value]
    assert len(sent) == (1 if known.api_key_env else 0), "the key goes into one header"
    assert known.title
    vendor, _, last = name.rpartition("-")
    assert not vendor or last not in CONVENTIONS or known.dialect == last, "a name that ends so is of that dialect"
    assert known.docs.startswith("https://") or name == "candidate"


@pytest.mark.parametrize("name", NAMES)
def test_its_quirks_are_rules_and_become_acceptances(name: str, tmp_path: Path) -> None:
    known = preset(name)
    for quirk in known.quirks:
        assert CATALOGUE[quirk.rule].severity in (Severity.NEGOTIABLE, Severity.FATAL), "nobody accepts a cosmetic one"
        assert quirk.shape is None or quirk.shape in SHAPES
    assert project_of(name, tmp_path).provider(name).accept == ()
    accepted = project_of(name, tmp_path, accepting=True).provider(name).accept
    assert [(one.rule, one.shape, one.reason) for one in accepted] == [
        (quirk.rule, quirk.shape, quirk.reason) for quirk in known.quirks
    ]


@pytest.mark.parametrize("name", NAMES)
def test_init_writes_it(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = harness("init", "--provider", name)
    assert (done.code, done.err) == (0, "")
    written = Path("providers.yaml").read_text("utf-8")
    assert load_project(None, tmp_path).provider(name).dialect == preset(name).dialect
    if preset(name).quirks:
        Path("providers.yaml").write_text(ACCEPTANCE.sub(r"    \1", written), "utf-8")
        accepted = load_project(None, tmp_path).provider(name).accept
        assert len(accepted) == len(preset(name).quirks)
        assert all(one.until is None or one.until > datetime.now(UTC).date() for one in accepted)
    for variable in variables(preset(name)):
        assert f"  export {variable.name}=..." in done.out
    assert sorted(Path("requests").iterdir()) == [Path("requests") / preset(name).dialect]


def test_there_is_one_for_every_server_that_fixtures_come_from() -> None:
    assert {path.name for path in FIXTURES.iterdir()} - BEHIND_OTHERS <= set(NAMES)
    for path in FIXTURES.iterdir():
        if path.name not in BEHIND_OTHERS:
            assert f'"dialect": "{preset(path.name).dialect}"' in (path / "text.json").read_text("utf-8")


def test_a_name_that_is_not_known_gets_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"^grok: no such preset; did you mean 'groq'\? `harness init --list`"):
        preset("grok")
