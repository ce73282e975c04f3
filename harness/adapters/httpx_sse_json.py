"""httpx-sse and the json module: how most hand-written clients read a stream.

httpx-sse splits the stream into events and `json.loads` decodes each, so whatever they do not take raises. What the
payloads say is read by our own reducer: everything that goes wrong comes from the two.
"""

from __future__ import annotations

import json
from typing import Any

import httpx
from httpx_sse import connect_sse

from harness.adapters.base import MODEL, Read, Sdk, asked
from harness.conventions import CONVENTIONS
from harness.dialects import dialect_class
from harness.jsontext import to_json
from harness.reduce import Reducer


def opened(sdk: Sdk, seconds: float) -> Read:
    """A reader whose requests may take so many seconds."""
    client = httpx.Client(trust_env=False, timeout=seconds)

    def read(url: str, dialect: str) -> Any:
        where = url + CONVENTIONS[dialect].path.replace("{model}", MODEL)
        marker = dialect_class(dialect).marker
        reducer = Reducer(dialect)
        with connect_sse(client, "POST", where, json={"model": MODEL, "messages": asked(), "stream": True}) as source:
            source.response.raise_for_status()
            for event in source.iter_sse():
                if marker is not None and event.data.strip().encode() == marker:
                    reducer.feed(b"data: " + marker + b"\n\n")
                    break
                name = b"" if event.event == "message" else b"event: " + event.event.encode() + b"\n"
                reducer.feed(name + b"data: " + to_json(json.loads(event.data)).encode() + b"\n\n")
        reducer.finish()
        return reducer.message()

    return read
