"""All client models by name: the right ones, then the wrong ones."""

from __future__ import annotations

from collections.abc import Mapping

from harness.clients import (  # noqa: F401 - for what they declare
    guide,
    wrong_bytes,
    wrong_calls,
    wrong_content,
    wrong_ends,
    wrong_history,
    wrong_items,
)
from harness.clients.machine import Machine
from harness.clients.mistakes import WRONG
from harness.clients.model import ALL, ClientModel
from harness.clients.pipeline import read as read_by_pipeline
from harness.clients.queries import read as read_by_queries

RIGHT = {
    model.name: model
    for model in (
        ClientModel(
            name="right-machine", dialects=ALL, right=True, function=Machine.run,
            about="An incremental state machine over bytes, with the next request's messages.",
        ),
        ClientModel(
            name="right-queries", dialects=ALL, right=True, function=read_by_queries,
            about="Waits for the whole body, then asks one question after another of the list of payloads.",
        ),
        ClientModel(
            name="right-pipeline", dialects=ALL, right=True, function=read_by_pipeline,
            about="A chain of generators, from pieces to facts, and a fold that knows no dialect.",
        ),
    )
}  # fmt: skip

CLIENTS: Mapping[str, ClientModel] = {**RIGHT, **WRONG}
