"""Record, reduce and compare SSE streams of LLM endpoints. Names are loaded on first use.

    message = harness.reduce(body, dialect="anthropic").message()
    assert harness.structure(mine) == harness.structure(theirs)
    with harness.replay("fixtures/vllm") as server: ...

Whoever installs this has it in every pytest run, so importing it loads nothing else.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.compare import compare as compare
    from harness.config import load_project as load_project
    from harness.endpoint import Endpoint as Endpoint
    from harness.errors import ConfigError as ConfigError
    from harness.errors import HarnessError as HarnessError
    from harness.errors import NotMeasured as NotMeasured
    from harness.errors import RecordingError as RecordingError
    from harness.errors import UsageError as UsageError
    from harness.findings import Finding as Finding
    from harness.findings import Outcome as Outcome
    from harness.findings import Report as Report
    from harness.findings import Severity as Severity
    from harness.history import assistant_message as assistant_message
    from harness.history import check_history as check_history
    from harness.history import tool_message as tool_message
    from harness.message import Message as Message
    from harness.recorder import arecord as arecord
    from harness.recorder import record as record
    from harness.recording import Recording as Recording
    from harness.reduce import Reducer as Reducer
    from harness.reduce import events_of as events_of
    from harness.reduce import reduce as reduce
    from harness.replay import Replay as Replay
    from harness.replay import replay as replay
    from harness.rules import lint as lint
    from harness.runs.gate import gate as gate
    from harness.store import load as load
    from harness.structure import read as read
    from harness.testing import structure as structure

__version__ = "0.1.0"

__all__ = [
    "ConfigError", "Endpoint", "Finding", "HarnessError", "Message", "NotMeasured", "Outcome", "Recording",
    "RecordingError", "Reducer", "Replay", "Report", "Severity", "UsageError", "arecord", "assistant_message",
    "check_history", "compare", "events_of", "gate", "lint", "load", "load_project", "read", "record", "reduce",
    "replay", "structure", "tool_message",
]  # fmt: skip

_HOMES = {
    "compare": "compare", "config": "load_project", "endpoint": "Endpoint",
    "errors": "ConfigError HarnessError NotMeasured RecordingError UsageError",
    "findings": "Finding Outcome Report Severity", "history": "assistant_message check_history tool_message",
    "message": "Message", "recorder": "arecord record", "recording": "Recording", "reduce": "Reducer events_of reduce",
    "replay": "Replay replay", "rules": "lint", "runs.gate": "gate", "store": "load", "structure": "read",
    "testing": "structure",
}  # fmt: skip
_HOME_OF = {name: f"{__name__}.{home}" for home, names in _HOMES.items() for name in names.split()}


class _Package(ModuleType):
    def __setattr__(self, name: str, value: Any) -> None:
        # Importing harness/reduce.py binds it here as `reduce`, where users expect the function of that name.
        if not (name in _HOME_OF and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


if not TYPE_CHECKING:  # a checker that saw it would take any name for granted

    def __getattr__(name: str) -> Any:
        if name not in _HOME_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(import_module(_HOME_OF[name]), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
