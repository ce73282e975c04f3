"""A trial as a server: a loopback server that answers any request of the trial's dialect with the trial's stream."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from harness.recording import Read
from harness.targets import Trial

MOST_CUTS = 8192  # each costs a system call on both sides; the longest quirk byte by byte would take seconds
UNSEEN = f"cuts as such: each piece is sent by itself, {MOST_CUTS} at most, but the network may join them"


@contextmanager
def serving(trial: Trial) -> Iterator[str]:
    """The base URL of a server that plays the trial, each piece sent by itself; it ends with the block.

    The URL ends with `/v1`, as OpenAI's SDKs take it. Of very many cuts, MOST_CUTS are made, evenly spread.
    """
    from harness.replay import Replay  # asyncio is loaded for targets that need a server only

    step = -(-len(trial.cuts) // MOST_CUTS) or 1
    reads = [Read(end=cut, microseconds=0) for cut in trial.cuts[::step]]
    recording = trial.unbroken or trial.recording
    # A recorded stall would only be waited out: to the target it is a stream that breaks.
    end = "cut" if recording.end.startswith("timeout:") else recording.end
    recording = msgspec.structs.replace(recording, reads=reads, end=end)
    with Replay({"check": {trial.case: recording}}, faults=trial.faults) as server:
        yield server.url("check", trial.case)
