"""`harness doctor`: what is missing before a recording or a gate can work, and the remedy. Keys are never told."""

from __future__ import annotations

import platform
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib import metadata
from pathlib import Path

from harness import __version__
from harness.adapters import SDKS
from harness.bodies import Prepared, request_for
from harness.config import FILE_NAME, Project, Provider, Resolved, is_loopback, load_project
from harness.dialects import dialect_class
from harness.errors import ConfigError, HarnessError, UsageError
from harness.runs import dialects as plugins
from harness.runs.declared import declared
from harness.runs.diagnosis import BAD, Check, Diagnosis
from harness.runs.reaching import answer, proxy_of, reach, usable
from harness.runs.recording import canonical
from harness.runs.sampling import empty_baseline
from harness.store import load, providers_of, shapes_of, takes

STAND_IN = "stand-in-for-the-key"
_PLACEHOLDER = re.compile(r"(?i).*\.\.\.|<.*>|\$\{?\w+\}?|x{4,}|(your|my)[-_ ].*|change[-_ ]?me|secret|api[-_]?key")
ATTRIBUTE = "*.sse -text"
Say = Callable[[str], object]


def diagnose(
    config: Path | None, here: Path, names: Sequence[str], environ: Mapping[str, str], *, live: bool, say: Say
) -> Diagnosis:  # fmt: skip
    """Check the project, and these providers or all. With `live`, one request of shape `text` goes to each of them.

    `say` is told of requests before they go out. Raises UsageError: a provider that is not known.
    """
    try:
        project = load_project(config, here)
        if project.root.is_relative_to(here):  # so that paths are told as people write them
            project = replace(project, root=project.root.relative_to(here))
    except UsageError as exc:
        remedy = "mend it there; the keys are those of docs/providers.md"
        if isinstance(exc.__cause__, OSError):
            remedy = "it must be a file: check its permissions"
        checks = [Check(check="config", state="failed", says=str(exc), remedy=remedy)]
        checks += _shared(Project(root=here, config=None, file=FILE_NAME, providers={}))
        return Diagnosis(live=live, checks=checks)
    wanted = list(dict.fromkeys(names)) or list(project.providers)
    recorded = _listed(project)
    providers = [project.provider(name) for name in wanted if name in project.providers or name not in recorded]
    checks = [_config(project), *_shared(project), *_proxies(providers, environ)]
    for name in wanted:
        if name not in project.providers:
            checks += [Check(provider=name, check="entry", state="skipped", says="not in providers.yaml; a baseline "
                             "that has fixtures needs no entry"), _fixtures_of(project, name)]  # fmt: skip
    checks += _providers(project, providers, environ, live=live, say=say)
    return Diagnosis(live=live, checks=checks)


# -- what all share -----------------------------------------------------------------------------------------------


def _config(project: Project) -> Check:
    if project.config is None:
        return Check(check="config", state="missing", says="not here, nor in a parent folder",
                     remedy="`harness init` writes one; --config names one that lies elsewhere")  # fmt: skip
    count = len(project.providers)
    if not count:
        return Check(check="config", state="missing", says=f"{project.file} names no provider",
                     remedy="add one under `providers:`; `harness init --list` shows known ones")  # fmt: skip
    return Check(check="config", state="ok", says=f"{project.file}: {count} provider{'s' * (count > 1)}, valid")


def _shared(project: Project) -> Iterator[Check]:
    yield _writable(project)
    yield _recorded(project)
    yield _git(project)
    yield _plugins()
    yield _versions()


def _listed(project: Project) -> list[str]:
    """Who has fixtures, as far as they can be listed. Why they cannot, if so, is told by the project's own checks."""
    found = []
    with suppress(UsageError):
        for name in providers_of(project.fixtures):
            with suppress(UsageError):
                found += [name] if shapes_of(project.fixtures, name) else []
    return found


def _writable(project: Project) -> Check:
    for folder in (project.fixtures, project.root / ".harness"):
        nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        try:
            with tempfile.TemporaryFile(dir=nearest):
                pass
        except OSError as exc:
            return Check(check="folders", state="failed", says=f"{folder} cannot be written to: {exc.strerror}",
                         remedy=f"check owner and permissions of {nearest}")  # fmt: skip
    return Check(check="folders", state="ok", says="fixtures and .harness can be written to")


def _recorded(project: Project) -> Check:
    try:
        names = [name for name in providers_of(project.fixtures) if shapes_of(project.fixtures, name)]
    except UsageError as exc:
        return Check(check="fixtures", state="failed", says=str(exc), remedy="check that folder")
    if not names:
        first = next(iter(project.providers), "PROVIDER")
        return Check(check="fixtures", state="missing", says=f"nothing is recorded in {project.fixtures}",
                     remedy=f"`harness record {first}` makes the baseline of a gate")  # fmt: skip
    return Check(check="fixtures", state="ok", says=f"recorded: {', '.join(names)}")


def _git(project: Project) -> Check:
    """Whether git leaves recorded bytes alone: else line ends change at a checkout."""
    sample = "fixtures/provider/text.sse"
    try:
        done = subprocess.run(
            ["git", "check-attr", "text", "--", sample], cwd=project.root, capture_output=True, text=True, timeout=10,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return Check(check="git", state="skipped", says="git cannot be asked")
    if done.returncode:
        return Check(check="git", state="skipped", says="no git repository")
    if done.stdout.strip().endswith(": unset"):
        return Check(check="git", state="ok", says="bytes of *.sse stay as they are")
    return Check(check="git", state="missing", says="git may change line ends in recorded bytes",
                 remedy=f"add the line `{ATTRIBUTE}` to .gitattributes")  # fmt: skip


def _plugins() -> Check:
    names, broken = sorted(plugins.names()), []
    for name in names:
        try:
            dialect_class(name)
        except (UsageError, KeyError) as exc:
            broken.append(str(exc))
    if broken:
        return Check(check="plug-ins", state="failed", says="; ".join(broken), remedy="update or uninstall them")
    return Check(check="plug-ins", state="ok", says=", ".join(names) if names else "none installed")


def _versions() -> Check:
    found = []
    for package in dict.fromkeys(sdk.package for sdk in SDKS.values() if sdk.language == "python"):
        try:
            found.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            continue
    sdks = f"SDKs: {', '.join(found)}" if found else "no SDKs (extra `sdk`; only `check sdk:` and `matrix` use them)"
    return Check(check="versions", state="ok",
                 says=f"sse-harness {__version__}, Python {platform.python_version()}, {sdks}")  # fmt: skip


def _proxies(providers: Sequence[Provider], environ: Mapping[str, str]) -> Iterator[Check]:
    through: dict[str, list[str]] = {}
    for provider in providers:
        resolved, _ = _resolved(provider, environ)
        if resolved is not None and (variable := proxy_of(resolved.base_url)) is not None:
            through.setdefault(variable, []).append(provider.name)
    for variable, names in through.items():
        says = f"{variable} is set, so {', '.join(names)} is asked through it; NO_PROXY makes exceptions"
        yield Check(check="proxy", state="ok", says=says)


# -- one provider -------------------------------------------------------------------------------------------------


def _providers(
    project: Project, providers: Sequence[Provider], environ: Mapping[str, str], *, live: bool, say: Say
) -> Iterator[Check]:  # fmt: skip
    told: dict[str, list[Check]] = {}
    recorded = _listed(project)
    there: list[tuple[Provider, Resolved]] = []
    requests: dict[str, Prepared] = {}
    for provider in providers:
        checks = told[provider.name] = [_key(project, provider, environ, live=live)]
        resolved, check = _resolved(provider, environ)
        checks.append(check)
        if resolved is not None:
            prepared, check = _requests(project, provider, resolved)
            checks.append(check)
            problem = usable(prepared.endpoint) if prepared is not None else None
            if problem is not None:
                checks.append(Check(provider=provider.name, check="client", state="failed", says=problem))
            elif prepared is not None:
                requests[provider.name] = prepared
            there.append((provider, resolved))
        if provider.clients:
            checks.append(_clients(provider))
        checks.append(_fixtures_of(project, provider.name))
    for (provider, _), checks in zip(there, reach(there), strict=True):
        told[provider.name] += checks if live else map(partial(_needed, provider.name in recorded), checks)
    for provider in providers:
        checks = told[provider.name]
        checks.append(_answer(provider, requests.get(provider.name), checks, environ, live=live, say=say))
        yield from checks


def _needed(recorded: bool, check: Check) -> Check:
    """The check as it is; that a host is gone is no obstacle to a baseline that is recorded, which nobody calls."""
    if recorded and check.check == "host" and check.state in BAD:
        check.state, check.remedy = "skipped", ""
        check.says += "; as a baseline that is recorded it is not called"
    return check


def _answer(
    provider: Provider, prepared: Prepared | None, so_far: Sequence[Check], environ: Mapping[str, str], *, live: bool,
    say: Say,
) -> Check:  # fmt: skip
    check = Check(provider=provider.name, check="answer", state="skipped", says="")
    wrong = [one.check for one in so_far if one.state in BAD and one.check != "fixtures"]
    if not live:
        check.says = "nothing was sent; --live sends one request to each endpoint, which costs a few tokens"
    elif wrong or prepared is None:
        check.says = f"nothing was sent, because of {', '.join(wrong)}"
    else:
        say(f"{provider.name}: one request")
        return answer(provider, prepared)
    return check


def _key(project: Project, provider: Provider, environ: Mapping[str, str], *, live: bool) -> Check:
    name = provider.api_key_env
    check = Check(provider=provider.name, check="key", state="ok", says="")
    if name is None:
        check.says = "none is sent"
    elif not environ.get(name, "").strip():
        check.says = f"{name} is {'empty' if name in environ else 'not set'}"
        if provider.name in _listed(project) and not live:
            check.state = "skipped"
            check.says += "; as a baseline that is recorded it needs none"
        else:
            check.state, check.remedy = "missing", f"export {name}=..."
    elif problem := key_problem(environ[name]):
        check.state, check.says = "failed", f"the key in {name} {problem}"
        check.remedy = f"export {name} again, with the key alone"
    else:
        check.says = f"{name} is set"
    return check


def key_problem(value: str) -> str | None:
    """What shows, without asking anybody, that this is no key. The value is not repeated."""
    if "\n" in value or "\r" in value:
        return "holds a line break"
    if value != value.strip():
        return "starts or ends with a space"
    if value[0] in "\"'`" or value[-1] in "\"'`":
        return "stands in quotes"
    if value.lower().startswith("bearer "):
        return "starts with Bearer, which is added to it"
    if _PLACEHOLDER.fullmatch(value):
        return "is a placeholder"
    if not value.isascii():
        return "holds a character that no key has (typographic quotes or dashes?)"
    if not value.isprintable() or " " in value:
        return "holds a space or a control character"
    return None


def _sendable(key: str) -> bool:
    return bool(key) and key == key.strip() and key.isascii() and key.isprintable()


def _resolved(provider: Provider, environ: Mapping[str, str]) -> tuple[Resolved | None, Check]:
    """The provider with all but its key filled in, and whether its values can be used."""
    # The key has a check of its own, so one that cannot be used hides nothing here.
    name = provider.api_key_env
    key = {} if name is None or _sendable(environ.get(name, "")) else {name: STAND_IN}
    check = Check(provider=provider.name, check="base_url", state="ok", says="")
    try:
        resolved = provider.resolve({**environ, **key})
    except ConfigError as exc:
        check.state = "missing" if "is not set" in exc.problem or "is empty" in exc.problem else "failed"
        check.check = exc.key.removeprefix(f"providers.{provider.name}.").partition(".")[0]
        check.says, _, check.remedy = exc.problem.partition("; ")
        return None, check
    path = provider.convention.path.partition("?")[0]
    if provider.path is None and resolved.base_url.endswith(path):
        check.state = "failed"
        check.says = f"ends with {path}, which is added to it"
        check.remedy = "write it without, or give a `path:` of its own"
        return None, check
    # What comes from the environment may be a secret, so it is not told.
    open_to_all = is_loopback(resolved.base_url) or "${" not in provider.base_url
    check.says = resolved.base_url if open_to_all else f"{provider.base_url}, filled in"
    return resolved, check


def _requests(project: Project, provider: Provider, resolved: Resolved) -> tuple[Prepared | None, Check]:
    check = Check(provider=provider.name, check="requests", state="ok", says="")
    try:
        shapes = canonical(project, provider)
        prepared = {shape: request_for(project, provider, resolved, shape) for shape in shapes}
    except HarnessError as exc:
        check.state, check.says = "failed", str(exc)
        check.remedy = f"`harness init --dialect {provider.dialect}` writes those that are shipped"
        return None, check
    check.says = ", ".join(shapes)
    return prepared.get("text") or next(iter(prepared.values())), check


def _clients(provider: Provider) -> Check:
    check = Check(provider=provider.name, check="clients", state="ok", says=", ".join(provider.clients))
    try:
        declared(provider)
    except HarnessError as exc:
        check.state, check.says = "failed", str(exc)
    return check


def _fixtures_of(project: Project, name: str) -> Check:
    check = Check(provider=name, check="fixtures", state="ok", says="")
    listed = _listed(project)
    try:
        shapes = shapes_of(project.fixtures, name)
    except UsageError as exc:
        check.state, check.says, check.remedy = "failed", str(exc), "check that folder"
        return check
    if not shapes:
        first = not listed and name == next(iter(project.providers), None)
        why = f"`harness record {name}` makes them" if first else "only a baseline needs them"
        check.state, check.says = "skipped", f"none; {why}"
        return check
    problems = []
    for path in (path for shape in shapes for path in takes(project.fixtures, name, shape)):
        try:
            loaded = load(path)
            warning = empty_baseline(loaded) or loaded.warning
        except UsageError as exc:
            warning = str(exc)
        problems += [warning] if warning else []
    if problems:
        check.state, check.says = "failed", "; ".join(problems)
        check.remedy = f"restore them from git, or `harness record {name} --replace`"
    else:
        check.says = ", ".join(shapes)
    return check
