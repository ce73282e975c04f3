"""Record several answers at once; then play one again, broken on purpose, and see what a client would be up against.

    python record_at_once.py http://127.0.0.1:8081/v1
"""

from __future__ import annotations

import asyncio
import json
import sys

import harness

QUESTIONS = ["Say hello.", "Count to three.", "Name a colour."]


def endpoint(base_url: str, question: str) -> harness.Endpoint:
    """The request, ready to be sent."""
    body = {"model": "local", "stream": True, "messages": [{"role": "user", "content": question}]}
    return harness.Endpoint(
        url=f"{base_url}/chat/completions",
        headers={"content-type": "application/json"},
        body=json.dumps(body).encode(),
        dialect="chat",
    )


async def main(base_url: str) -> None:
    """Three requests at once, each on a connection of its own."""
    recordings = await asyncio.gather(*(harness.arecord(endpoint(base_url, question)) for question in QUESTIONS))
    for question, recording in zip(QUESTIONS, recordings, strict=True):
        milliseconds = recording.reads[-1].microseconds / 1000
        print(f"{question} {len(recording.body)} bytes, {recording.end}", file=sys.stdout)
        print(f"{question} {milliseconds:.1f} ms", file=sys.stderr)

    # What the model says differs from answer to answer; how it is streamed should not.
    first, *others = recordings
    print("all alike:", all(harness.structure(other) == harness.structure(first) for other in others))

    # A server on this machine plays the first again, byte for byte but for its end marker.
    with harness.replay({"mine": {"text": first}}, faults=["drop-marker"]) as server:
        broken = await harness.arecord(endpoint(server.base_url, QUESTIONS[0]))
    for finding in harness.lint(harness.read(broken, "chat").structure):
        print(f"{finding.severity} {finding.rule}: {finding.message}")


if __name__ == "__main__":
    try:
        asyncio.run(main(sys.argv[1]))
    except harness.HarnessError as exc:
        print(exc, file=sys.stderr)
        sys.exit(exc.exit_code)
