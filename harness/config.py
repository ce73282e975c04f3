"""providers.yaml: finding it, reading it, checking every value in it (contract: DESIGN, "providers.yaml").

Every provider is checked when the file is read; what comes from the environment, when an endpoint is to be called.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.conventions import AUTHS, CONVENTIONS, auth_header
from harness.dialects import dialect_class, dialect_names
from harness.endpoint import Timeouts
from harness.errors import UsageError
from harness.findings import Severity
from harness.providers import (
    VARIABLE,
    Acceptance,
    Caps,
    Prices,
    Provider,
    Resolved,
    ShapeSettings,
    is_loopback,
    url_problem,
)
from harness.settings import Place, load_settings, suggestion
from harness.shapes import SHAPES
from harness.store import providers_of, valid_name
from harness.timing import Thresholds

__all__ = [
    "FILE_NAME", "Acceptance", "Caps", "Prices", "Project", "Provider", "Resolved", "ShapeSettings", "is_loopback",
    "load_project",
]  # fmt: skip

FILE_NAME = "providers.yaml"
MAX_CONCURRENT = 64
MAX_REQUESTS = 1_000_000

_KEYS = (
    "dialect", "base_url", "api_key_env", "model", "headers", "auth", "query", "path", "verify", "request", "shapes",
    "timeouts", "thresholds", "prices", "caps", "parallel", "accept", "clients",
)  # fmt: skip
_NEEDED = ("dialect", "base_url", "model")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_OURS = ("accept-encoding", "connection", "content-encoding", "content-length", "transfer-encoding")
# What people write a key under, as a member, as a header or query name; and what keys look like.
_KEY_MEMBER = re.compile(r"(?i)(api[_-]?)?key|token|secret|password")
_KEY_NAME = re.compile(
    r"(?i)(proxy-)?authorization|(set-)?cookie|key|(.*[-_])?(token|secret|password)|.*(api|access|subscription)[-_]?key"
)
_KEY_TEXT = re.compile(
    r"\bsk[-_][A-Za-z0-9_-]{12,}|\b(pk|rk|gsk|hf|ghp)_[A-Za-z0-9]{16,}|\b(csk|xai|nvapi|pplx)-[A-Za-z0-9]{16,}"
    r"|\b(AIza|eyJ)[A-Za-z0-9_-]{20,}"
    r"|(?i:bearer)\s+[A-Za-z0-9._~+/-]{8,}|\b[0-9a-f]{32,}\b"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """Where things lie. `config` is null without a providers.yaml: then `root` is the folder we were started in.

    `file` is providers.yaml as errors name it.
    """

    root: Path
    config: Path | None
    file: str
    providers: Mapping[str, Provider]

    @property
    def fixtures(self) -> Path:
        """The folder of fixtures. It need not exist."""
        return self.root / "fixtures"

    @property
    def requests(self) -> Path:
        """The folder of the project's own request files. It need not exist."""
        return self.root / "requests"

    def provider(self, name: str) -> Provider:
        """The provider of that name. Raises UsageError, which says what there is."""
        found = self.providers.get(name)
        if found is not None:
            return found
        if self.config is None:
            raise UsageError(
                f"{FILE_NAME}: not found here or in a parent folder, so provider {name!r} is not known; "
                "`harness init` writes one, --config names one that lies elsewhere"
            )
        near = suggestion(name, self.providers) or ";"
        known = ", ".join(self.providers) or "none"
        raise UsageError(f"{self.file}: no provider {name!r}{near} there are: {known}; add it under `providers:`")


def load_project(config: Path | None, cwd: Path) -> Project:
    """Read the file given, else providers.yaml in `cwd` or the nearest parent that has one, else none.

    Raises UsageError if the file given is not there, ConfigError for whatever is wrong in it.
    """
    if config is not None:
        path, shown = cwd / config, str(config)
        if not path.exists():
            raise UsageError(f"{shown}: no such file; --config names a {FILE_NAME}")
    else:
        folder = next((folder for folder in (cwd, *cwd.parents) if (folder / FILE_NAME).is_file()), None)
        if folder is None:
            return Project(root=cwd, config=None, file=FILE_NAME, providers={})
        path = folder / FILE_NAME
        shown = FILE_NAME if folder == cwd else str(path)
    top = load_settings(path, shown, remedy="delete it, and have `harness init` write one")
    found = top.members(("providers",)).get("providers")
    if found is None:
        raise top.error("`providers:` is missing; under it stand names, and under each an endpoint")
    providers = {}
    entries = found.members()
    for name, place in entries.items():
        if not valid_name(name):
            raise place.error("a provider's name has only a-z, 0-9 and -, as it becomes a folder under fixtures/")
        providers[name] = _Reader(name, place, path.parent, tuple(entries)).provider()
    return Project(root=path.parent, config=path, file=shown, providers=providers)


class _Reader:
    """Reads one provider. `members` are its values, by key; keys nobody knows are refused.

    `names` are those of all providers.
    """

    def __init__(self, name: str, place: Place, root: Path, names: tuple[str, ...]) -> None:
        for key, value in place.members().items():
            if _KEY_MEMBER.fullmatch(key):
                raise value.error("keys come from the environment only; write `api_key_env: NAME_OF_THE_VARIABLE`")
        self.name, self.place, self.root, self.names = name, place, root, names
        self.members = place.members(_KEYS)
        for key in _NEEDED:
            if key not in self.members:
                raise place.error(f"`{key}:` is missing; a provider needs {', '.join(_NEEDED)}")
        dialect = self.members["dialect"]
        self.dialect = dialect.text()
        if self.dialect not in CONVENTIONS:
            _installed(dialect)

    def provider(self) -> Provider:
        members = self.members
        headers = self._headers()
        accept = members["accept"].entries() if "accept" in members else []
        return Provider(
            name=self.name, file=self.place.file, root=self.root, dialect=self.dialect, base_url=self._base_url(),
            model=_template(members["model"], keys=True), auth=self._auth(headers), api_key_env=self._api_key_env(),
            headers=headers, query=self._texts("query"), path=self._path(), verify=self._verify(),
            request=_patch(members["request"]) if "request" in members else {}, shapes=self._shapes(),
            timeouts=self._timeouts(), thresholds=self._thresholds(), prices=self._prices(), caps=self._caps(),
            parallel=members["parallel"].integer(1, MAX_CONCURRENT) if "parallel" in members else 1,
            accept=tuple(self._acceptance(entry) for entry in accept), clients=self._clients(),
        )  # fmt: skip

    def _base_url(self) -> str:
        place = self.members["base_url"]
        url = _template(place)
        problem = None if VARIABLE.search(url) else url_problem(url)
        if problem:
            raise place.error(problem)
        return url

    def _path(self) -> str | None:
        place = self.members.get("path")
        if place is None:
            if self.dialect not in CONVENTIONS:
                problem = f"`path:` is missing; dialect {self.dialect!r} is not built in, so say where it is asked"
                raise self.place.error(problem)
            return None
        path = _template(place)
        if not path.startswith(("/", "${")) or set("#{}") & set(VARIABLE.sub("", path).replace("{model}", "")):
            raise place.error("must be a path under base_url: it starts with /, and {model} may stand in it")
        return path

    def _verify(self) -> str | None:
        place = self.members.get("verify")
        if place is None:
            return None
        if not place.is_text:
            raise place.error("must name a file of CA certificates (PEM); certificates are always verified")
        return _template(place, keys=True)

    def _auth(self, headers: Mapping[str, str]) -> str:
        convention = CONVENTIONS.get(self.dialect)
        auth = convention.auth if convention else "bearer"
        if (place := self.members.get("auth")) is not None:
            auth = place.text()
            if not (auth.startswith("header:") and _HEADER_NAME.fullmatch(auth.removeprefix("header:"))):
                auth = place.one_of(AUTHS)
            if auth == "header:NAME":
                raise place.error("NAME stands for the header's own name, as in header:X-Key")
        if (key := self.members.get("api_key_env")) is not None:
            header = auth_header(auth)
            if header is None:
                problem = f"auth is none{'' if place else f' in dialect {self.dialect}'}, so no key would be sent"
                raise key.error(f"{problem}; write `auth: bearer`, say, or leave this out")
            if header in (name.lower() for name in headers):
                raise key.error(f"the key goes into the header {header}, which `headers:` sets too; keep one")
        return auth

    def _api_key_env(self) -> str | None:
        place = self.members.get("api_key_env")
        if place is None:
            return None
        name = place.text()
        # Not repeated in the error: it may be the key itself.
        if not _VARIABLE_NAME.fullmatch(name) or _KEY_TEXT.search(name):
            raise place.error("must be the bare name of an environment variable, such as OPENAI_API_KEY")
        return name

    def _headers(self) -> dict[str, str]:
        headers = self._texts("headers")
        seen: set[str] = set()
        for name in headers:
            place = self.members["headers"].members()[name]
            if not _HEADER_NAME.fullmatch(name):
                raise place.error("is no name of a header")
            if name.lower() in _OURS:
                raise place.error("is set by the recorder, so that bytes come as the server wrote them; leave it out")
            if name.lower() in seen:
                raise place.error("given twice, as case does not count in names of headers; keep one")
            seen.add(name.lower())
        return headers

    def _texts(self, key: str) -> dict[str, str]:
        """Names to texts in which variables may stand; a secret must be one."""
        texts = {}
        for name, place in self.members[key].members().items() if key in self.members else ():
            texts[name] = _template(place)
            if _KEY_NAME.fullmatch(name) and not VARIABLE.search(texts[name]):
                raise place.error("looks like a key; keys come from the environment only: write ${NAME}")
        return texts

    def _shapes(self) -> dict[str, ShapeSettings]:
        shapes = {}
        for name, place in self.members["shapes"].members().items() if "shapes" in self.members else ():
            self._check_shape(name, place)
            members = place.members(("concurrent", "request", "skip"))
            shapes[name] = ShapeSettings(
                concurrent=members["concurrent"].integer(1, MAX_CONCURRENT) if "concurrent" in members else 1,
                request=_patch(members["request"]) if "request" in members else {},
                skip=members["skip"].text() if "skip" in members else None,
            )
        return shapes

    def _check_shape(self, name: str, place: Place) -> None:
        """A shape is one of ours, or has a request file."""
        own = self.root / "requests" / self.dialect / f"{name}.json"
        if name in SHAPES or (valid_name(name) and own.is_file()):
            return
        near = suggestion(name, SHAPES) or ";"
        problem = f"no shape {name!r}{near} there are: {', '.join(SHAPES)}"
        raise place.error(f"{problem}, and those with a file requests/{self.dialect}/NAME.json")

    def _timeouts(self) -> Timeouts:
        if "timeouts" not in self.members:
            return Timeouts()
        members = self.members["timeouts"].members(("connect", "first_event", "idle", "total"))
        return Timeouts(**{name: place.seconds() for name, place in members.items()})

    def _thresholds(self) -> Thresholds:
        if "thresholds" not in self.members:
            return Thresholds()
        members = self.members["thresholds"].members(Thresholds.__struct_fields__)
        return Thresholds(**{name: place.seconds() for name, place in members.items()})

    def _prices(self) -> Prices | None:
        if (place := self.members.get("prices")) is None:
            return None
        members = place.members(("input", "output"))
        for key in ("input", "output"):
            if key not in members:
                raise place.error(f"`{key}:` is missing; prices are per million tokens, input and output (0 if free)")
        return Prices(input=members["input"].amount(), output=members["output"].amount())

    def _caps(self) -> Caps:
        if "caps" not in self.members:
            return Caps()
        members = self.members["caps"].members(("requests", "cost"))
        if "cost" in members and "prices" not in self.members:
            raise members["cost"].error("needs `prices: {input: ..., output: ...}`, which say what a request costs")
        return Caps(
            requests=members["requests"].integer(1, MAX_REQUESTS) if "requests" in members else None,
            cost=members["cost"].amount() if "cost" in members else None,
        )

    def _acceptance(self, place: Place) -> Acceptance:
        members = place.members(("rule", "reason", "shape", "path", "until", "severity", "owner", "baseline"))
        for key in ("rule", "reason"):
            if key not in members:
                raise place.error(f"`{key}:` is missing; an acceptance names a rule and says why")
        shape = members["shape"].text() if "shape" in members else None
        if shape is not None and not set("*?[") & set(shape):  # it may be a pattern
            self._check_shape(shape, members["shape"])
        severity = members["severity"].one_of([value.value for value in Severity]) if "severity" in members else None
        if severity == Severity.FATAL and "until" not in members:
            raise place.error("`until:` is missing; what is fatal can be accepted up to a day only")
        return Acceptance(
            rule=members["rule"].text(), reason=members["reason"].text(), shape=shape,
            path=members["path"].text() if "path" in members else None,
            until=members["until"].day() if "until" in members else None,
            severity=Severity(severity) if severity else None,
            owner=members["owner"].text() if "owner" in members else None,
            baseline=self._baseline(members["baseline"]) if "baseline" in members else None,
            place=f"{Path(place.file).name}: {place.key}",  # reports go to others: no path of this machine
        )  # fmt: skip

    def _baseline(self, place: Place) -> str:
        """A provider that a gate can have as its baseline: it has an entry, or fixtures alone."""
        name = place.text()
        if name in self.names:
            return name
        known = list(dict.fromkeys([*self.names, *providers_of(self.root / "fixtures")]))
        if name not in known:
            near = suggestion(name, known) or ";"
            problem = f"no provider {name!r}{near} there are: {', '.join(known)}"
            raise place.error(f"{problem}; a baseline has an entry here, or a folder under fixtures/")
        return name

    def _clients(self) -> tuple[str, ...]:
        entries = self.members["clients"].entries() if "clients" in self.members else []
        names: list[str] = []
        for entry in entries:
            if entry.text() in names:
                raise entry.error(f"{entry.text()!r} is given twice; keep one")
            names.append(entry.text())
        return tuple(names)


def _installed(dialect: Place) -> None:
    """A dialect that is not built in must be installed; it may bring its convention with it."""
    try:
        dialect_class(dialect.text())
    except KeyError:
        dialect.one_of(dialect_names())
    except UsageError as exc:
        raise dialect.error(str(exc)) from exc


def _template(place: Place, *, keys: bool = False) -> str:
    """Text in which variables may stand. Unless `keys`, what looks like a key is refused, and not repeated."""
    text = place.text()
    if "${" in VARIABLE.sub("", text):
        raise place.error("a variable is written ${NAME} or ${NAME:-default}; the default holds no braces")
    if not keys and _KEY_TEXT.search(text):
        raise place.error("looks like a key; keys come from the environment only: write ${NAME}")
    return text


def _patch(place: Place) -> dict[str, Any]:
    """A merge patch (RFC 7396) of a request body: a mapping, which leaves the stream on."""
    patch = {name: member.json() for name, member in place.members().items()}
    if patch.get("stream", True) is not True:
        raise place.members()["stream"].error("must be true: streams are what is recorded")
    return patch
