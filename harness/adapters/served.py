"""An SDK as a target: each run is a request of the SDK to a server that plays the trial."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from importlib import import_module, metadata

import msgspec

from harness.adapters import SDKS
from harness.adapters.base import Sdk
from harness.answers import Answer
from harness.claims import Claims
from harness.errors import UsageError
from harness.serving import UNSEEN, serving
from harness.settings import suggestion
from harness.targets import RUN_SECONDS, Trial, answered

_GRACE = 1.0  # seconds: a worker that takes too long is ended by its reader first


class SdkTarget:
    """`name` holds the version that ran: what an SDK does is true of that version only."""

    sees_cuts = True
    sees_status = True
    parallel = False
    unseen: tuple[str, ...] = (UNSEEN, "how the stream ended, where the SDK does not say it")

    def __init__(self, sdk: Sdk, *, claims: Claims | None = None, timeout: float = RUN_SECONDS) -> None:
        self.sdk, self.version, self.timeout = sdk, version_of(sdk), timeout
        if not self.version:
            raise UsageError(f"sdk:{sdk.name}: {sdk.package} is not installed; {_remedy(sdk)}")
        self.name = f"sdk:{sdk.name} ({sdk.package} {self.version})"
        self.claims = (claims or Claims()).over(Claims(dialects=sdk.dialects, features=sdk.features))
        if foreign := set(self.claims.dialects or ()) - set(sdk.dialects):
            raise UsageError(f"sdk:{sdk.name}: does not read {min(foreign)}; it reads {', '.join(sdk.dialects)}")
        try:
            self._read = import_module(f"harness.adapters.{sdk.module}").opened(sdk, timeout)
        except ImportError as exc:
            raise UsageError(f"sdk:{sdk.name}: cannot be imported ({exc}); {_remedy(sdk)}") from exc

    def run(self, trial: Trial) -> Answer:
        """Have the SDK ask a server that plays the trial."""
        with serving(trial) as url, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what a model library thinks of the values is no verdict
            answer = answered(lambda: self._read(url, trial.dialect), self.timeout + _GRACE)
        if isinstance(answer.value, Answer):  # the SDK runs elsewhere, and this is how it ended there
            answer = answer.value
        return msgspec.structs.replace(answer, typed=True)

    def command(self, options: Sequence[str]) -> list[str]:
        """`harness check sdk:NAME ...`"""
        return ["harness", "check", f"sdk:{self.sdk.name}", *self.claims.options, *options]


def sdk_named(name: str) -> Sdk:
    """The SDK of this name. Raises UsageError."""
    if name not in SDKS:
        raise UsageError(f"no SDK {name!r}{suggestion(name, SDKS) or ';'} there are {', '.join(SDKS)}")
    return SDKS[name]


def version_of(sdk: Sdk) -> str | None:
    """The installed version, None if it is not installed."""
    if sdk.language == "node":
        from harness.adapters.node import installed

        return installed(sdk.package)
    try:
        return metadata.version(sdk.package)
    except metadata.PackageNotFoundError:
        return None


def _remedy(sdk: Sdk) -> str:
    if sdk.language == "node":
        return "in a checkout, with Node 20 or later, run `npm ci` in tools/node"
    return "install it with `pip install '.[sdk]'` in a checkout of sse-harness"
