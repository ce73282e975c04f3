"""Other readers of the same pieces, each as its documentation uses it. One measurement is one process:

    python -m benchmarks.peers openai chat_text 20000

prints {"ratio": times R, "same": 1 if the message is R's}. Needs msgspec and the peer, and nothing of the harness.
No network: the client gets the pieces from a transport of its own HTTP library.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from benchmarks.reference import Folded, Plain, reference, same
from benchmarks.streams import CHAT, FAMILIES, cut, stream
from benchmarks.timing import ratio

HEADERS = {"content-type": "text/event-stream"}


def _library(sdk: str) -> Any:
    """The HTTP library the SDK uses: httpx2 since openai 3 and anthropic 2, httpx before."""
    module = importlib.import_module(f"{sdk}._streaming")
    return getattr(module, "httpx2", None) or importlib.import_module("httpx")


def _client(http: Any, pieces: list[bytes]) -> Any:
    class Pieces(http.SyncByteStream):  # type: ignore[misc]
        def __iter__(self) -> Iterator[bytes]:
            return iter(pieces)

    def answer(_: Any) -> Any:
        return http.Response(200, headers=HEADERS, stream=Pieces())

    return http.Client(transport=http.MockTransport(answer))


def httpx_sse(pieces: list[bytes], family: str) -> Folded:
    http, sse = importlib.import_module("httpx"), importlib.import_module("httpx_sse")
    fold = Plain()
    with _client(http, pieces) as client, client.stream("GET", "http://test/") as response:
        for event in sse.EventSource(response).iter_sse():
            if event.data != "[DONE]":
                fold.take(family, json.loads(event.data))
    return fold.done()


def openai(pieces: list[bytes], family: str) -> Folded:
    """create(stream=True) and ChatCompletionStreamState; the Responses stream helper."""
    sdk = importlib.import_module("openai")
    client = sdk.OpenAI(api_key="x", base_url="http://test/v1", http_client=_client(_library("openai"), pieces),
                        max_retries=0)  # fmt: skip
    if family == "responses":
        with client.responses.stream(model="m", input="hi") as events:
            done = events.get_final_response()
        tools = [[item.name, item.arguments] for item in done.output if item.type == "function_call"]
        return {"text": done.output_text, "tools": tools, "finish": done.status}
    state = importlib.import_module("openai.lib.streaming.chat").ChatCompletionStreamState()
    asked = [{"role": "user", "content": "hi"}]
    for chunk in client.chat.completions.create(model="m", messages=asked, stream=True):
        state.handle_chunk(chunk)
    choice = state.get_final_completion().choices[0]
    tools = [[call.function.name, call.function.arguments] for call in choice.message.tool_calls or ()]
    return {"text": choice.message.content or "", "tools": tools, "finish": choice.finish_reason}


def anthropic(pieces: list[bytes], family: str) -> Folded:
    """The messages.stream helper."""
    sdk = importlib.import_module("anthropic")
    client = sdk.Anthropic(api_key="x", base_url="http://test", http_client=_client(_library("anthropic"), pieces),
                           max_retries=0)  # fmt: skip
    asked = [{"role": "user", "content": "hi"}]
    with client.messages.stream(model="m", max_tokens=10, messages=asked) as events:
        done = events.get_final_message()
    text = "".join(block.text for block in done.content if block.type == "text")
    tools = [[block.name, block.input] for block in done.content if block.type == "tool_use"]
    return {"text": text, "tools": tools, "finish": done.stop_reason}


def langchain(pieces: list[bytes], family: str) -> Folded:
    """ChatOpenAI.stream, its chunks added up as its documentation shows."""
    chat = importlib.import_module("langchain_openai").ChatOpenAI(
        model="m", api_key="x", base_url="http://test/v1", max_retries=0, use_responses_api=False,
        http_client=_client(_library("openai"), pieces),
    )  # fmt: skip
    full: Any = None
    for chunk in chat.stream("hi"):
        full = chunk if full is None else full + chunk
    tools = [[call["name"], call["args"]] for call in full.tool_calls]
    return {"text": full.content or "", "tools": tools, "finish": full.response_metadata.get("finish_reason")}


def pydantic_ai(pieces: list[bytes], family: str) -> Folded:
    """model_request_stream, read to its end, then `.get()`."""
    http = _library("openai")
    direct, parts = importlib.import_module("pydantic_ai.direct"), importlib.import_module("pydantic_ai.messages")
    models = importlib.import_module("pydantic_ai.models.openai")
    provider = importlib.import_module("pydantic_ai.providers.openai").OpenAIProvider

    class Pieces(http.AsyncByteStream):  # type: ignore[misc, name-defined]
        async def __aiter__(self) -> AsyncIterator[bytes]:
            for piece in pieces:
                yield piece

    def answer(_: Any) -> Any:
        return http.Response(200, headers=HEADERS, stream=Pieces())

    async def main() -> Any:
        async with http.AsyncClient(transport=http.MockTransport(answer)) as client:
            known = provider(api_key="x", base_url="http://test/v1", http_client=client)
            kind = models.OpenAIResponsesModel if family == "responses" else models.OpenAIChatModel
            asked = [parts.ModelRequest.user_text_prompt("hi")]
            async with direct.model_request_stream(kind("m", provider=known), asked) as events:
                async for _ in events:
                    pass
            return events.get()

    done = asyncio.run(main())
    text = "".join(part.content for part in done.parts if isinstance(part, parts.TextPart))
    tools = [[part.tool_name, part.args] for part in done.parts if isinstance(part, parts.ToolCallPart)]
    return {"text": text, "tools": tools, "finish": done.finish_reason}


# Name -> how it reads, the families it can read, its distribution, and what a venv of its own gets (empty: it is an
# extra of ours).
PEERS: dict[str, tuple[Callable[[list[bytes], str], Folded], tuple[str, ...], str, tuple[str, ...]]] = {
    "httpx-sse + json": (httpx_sse, tuple(FAMILIES), "httpx-sse", ()),
    "openai": (openai, (*CHAT, "responses"), "openai", ()),
    "anthropic": (anthropic, ("messages",), "anthropic", ()),
    "langchain": (langchain, CHAT, "langchain-openai", ("langchain-openai==1.7.4", "openai==3.57.0")),
    "pydantic-ai": (pydantic_ai, (*CHAT, "responses"), "pydantic-ai-slim",
                    ("pydantic-ai-slim[openai]==2.68.0", "openai==3.57.0")),
}  # fmt: skip


def main(name: str, family: str, count: str) -> None:
    pieces = cut(stream(family, int(count)), "4k")
    read = PEERS[name][0]
    equal = same(read(pieces, family), pieces, family)
    found = ratio(lambda: read(pieces, family), lambda: reference(pieces, family), runs=3, budget=15)
    sys.stdout.write(json.dumps({"ratio": found, "same": int(equal)}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
