"""A trial as a server: a loopback server that answers any request of the trial's dialect with the trial's stream."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from harness.recording import Read
from harness.targets import Trial


@contextmanager
def serving(trial: Trial) -> Iterator[str]:
    """The base URL of a server that plays the trial, each piece sent by itself; it ends with the block.

    The URL ends with `/v1`, as OpenAI's SDKs take it.
    """
    from harness.replay import Replay  # asyncio is loaded for targets that need a server only

    reads = [Read(end=cut, microseconds=0) for cut in trial.cuts]
    # A recorded stall would only be waited out: to the target it is a stream that breaks.
    end = "cut" if trial.recording.end.startswith("timeout:") else trial.recording.end
    recording = msgspec.structs.replace(trial.recording, reads=reads, end=end)
    with Replay({"check": {trial.case: recording}}) as server:
        yield server.url("check", trial.case)
