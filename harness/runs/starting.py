"""`harness init`: a providers.yaml to start from, and the request files, in a repository of the user's own."""

from __future__ import annotations

from pathlib import Path

import msgspec

from harness.config import FILE_NAME
from harness.data import data_path, request_folder
from harness.dialects import dialect_named
from harness.errors import UsageError

PROVIDERS = """\
# The endpoints you record and gate. Keys and variables come from the environment, and only those of the endpoints a
# run calls must be set. Names become folders under fixtures/.
providers:
  # What the application runs on today: record it once with `harness record openai`.
  openai:
    dialect: chat # chat, responses, anthropic, gemini, ollama, completions or cohere
    base_url: https://api.openai.com/v1
    api_key_env: OPENAI_API_KEY # the variable that holds the key; the key itself never stands here
    model: gpt-5.4

  # What is to take over: `harness gate openai candidate` says whether it can.
  candidate:
    dialect: chat
    base_url: "${CANDIDATE_URL:-http://127.0.0.1:8080/v1}"
    model: "${CANDIDATE_MODEL:-local}"
    # api_key_env: CANDIDATE_API_KEY
    # request: {max_tokens: 256}        # merged into every request
    # shapes:
    #   error: {skip: "cannot be provoked"}
    # timeouts: {connect: 10, first_event: 60, idle: 30, total: 300} # seconds; idle counts events
    # thresholds: {first_event: 2.0, gap: 5.0} # seconds; what is later is a finding
    # prices: {input: 2.0, output: 10.0} # per million tokens, for `harness plan` and caps.cost
    # caps: {requests: 40, cost: 0.5}    # what one run may send
    # parallel: 4                        # shapes asked at once
    # accept: # findings you can live with; `harness accept report.json --reason ...` prints these lines
    #   - {rule: usage.position, reason: tokens are counted locally, until: 2027-06-30, owner: web team}
"""


class Written(msgspec.Struct, kw_only=True):
    """A file that was written, or was there before and was left alone."""

    path: Path
    new: bool


def start(folder: Path, dialects: tuple[str, ...] = ("chat",)) -> list[Written]:
    """Write providers.yaml and requests/<dialect>/*.json into the folder. What is there already is never touched.

    Raises UsageError if the folder cannot be written to, or a dialect has no request files.
    """
    files = {folder / FILE_NAME: PROVIDERS.encode()}
    for dialect in dialects:
        dialect_named(dialect)
        source = request_folder(dialect)
        if not source.is_dir():
            offered = sorted(path.name for path in data_path("requests").iterdir() if path.is_dir())
            known = ", ".join(offered)
            raise UsageError(f"--dialect {dialect}: no request files are shipped for it; there are {known}")
        for path in sorted(source.glob("*.json")):
            files[folder / "requests" / dialect / path.name] = path.read_bytes()
    written = []
    for path, data in files.items():
        new = not path.exists()
        if new:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            except OSError as exc:
                raise UsageError(f"{path}: cannot be written ({exc.strerror}); check the folder") from exc
        written.append(Written(path=path, new=new))
    return written
