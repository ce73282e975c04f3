"""openai-python: one client for both of its dialects."""

from __future__ import annotations

from typing import Any

import openai

from harness.adapters import openai_chat, openai_responses
from harness.adapters.base import KEY, Read, Sdk


def opened(sdk: Sdk, seconds: float) -> Read:
    """A reader whose requests may take so many seconds."""
    http = openai.DefaultHttpxClient(trust_env=False)  # neither proxies nor keys of this machine's environment
    client = openai.OpenAI(api_key=KEY, base_url="http://127.0.0.1", max_retries=0, timeout=seconds, http_client=http)
    reads = {"chat": openai_chat.read, "responses": openai_responses.read}

    def read(url: str, dialect: str) -> Any:
        return reads[dialect](client.with_options(base_url=url))

    return read
