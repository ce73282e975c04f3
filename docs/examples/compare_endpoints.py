"""Ask two endpoints the same thing, and say what differs in how they stream the answer.

    python compare_endpoints.py http://127.0.0.1:8081/v1 http://127.0.0.1:8082/v1

Exit 0: the second can take over, 1: it differs, 3: not measured.
"""

from __future__ import annotations

import json
import os
import sys

import harness

QUESTION = {
    "model": os.environ.get("MODEL", "local"),
    "messages": [{"role": "user", "content": "Say hello."}],
    "stream": True,
    "stream_options": {"include_usage": True},
}


def ask(base_url: str) -> harness.Recording:
    """One request, recorded: the bytes of the answer, when they came, and how it ended."""
    key = os.environ.get("API_KEY", "")
    headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})
    endpoint = harness.Endpoint(
        url=f"{base_url}/chat/completions",
        headers=headers,
        secrets=(key,) if key else (),  # an answer that repeats the key is refused
        body=json.dumps(QUESTION).encode(),
        dialect="chat",
    )
    return harness.record(endpoint)


def main(baseline_url: str, candidate_url: str) -> int:
    """Record both, compare, tell."""
    baseline, candidate = ask(baseline_url), ask(candidate_url)
    message = harness.reduce(candidate.body, "chat").message()
    print(f"the candidate said {message.text[:12]!r} and ended with {message.terminal}")

    found = harness.compare([harness.read(baseline, "chat").structure], harness.read(candidate, "chat").structure)
    if found.not_measured:
        print(f"not measured: {found.not_measured}")
        return 3
    for finding in found.findings:
        print(f"{finding.severity} {finding.rule}: {finding.message}")
        for place in finding.evidence:
            body = candidate.body if place.side == "candidate" else baseline.body
            print(f"  {place.side}: {body[place.at : place.at + place.length][:60]!r}")
    return 1 if any(finding.severity is not harness.Severity.COSMETIC for finding in found.findings) else 0


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:3]))
    except harness.HarnessError as exc:  # no connection, an address that is none: one line that says what to do
        print(exc, file=sys.stderr)
        sys.exit(exc.exit_code)
