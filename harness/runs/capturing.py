"""`harness proxy`: which of the streams that pass by become fixtures, and under which names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.bodies import encoded
from harness.capture import Capture, sent_of
from harness.config import Project, Provider, Resolved
from harness.errors import HarnessError, UsageError
from harness.http1 import Request
from harness.jsontext import Undecodable, decode
from harness.matching import dialect_of, likely_shapes
from harness.proxy import Forwarded, Proxy
from harness.recording import Recording, sha256
from harness.runs.taking import view_of
from harness.shapes import asked_of, exercised
from harness.store import shapes_of, take_path, valid_name
from harness.structure import read


class Keeping:
    """A Keeper (proxy.py): streams of the provider's dialect go to `fixtures/<provider>/`.

    A stream is named by the shape that its request looks like and that it exercises, else `captured-1`, `-2` and so on;
    a name that is taken gets a further take. Nothing is replaced. What is no whole answer is set aside.
    """

    def __init__(self, project: Project, provider: Provider, shape: str = "") -> None:
        """`shape` is the name of all of them, if given. Raises UsageError for one that cannot be a name."""
        if shape and not valid_name(shape):
            raise UsageError(f"--shape {shape!r}: only lower-case letters, digits and - can name a shape")
        self.project, self.provider, self.shape = project, provider, shape

    def open(
        self, request: Request, body: bytes, status: int, headers: Mapping[str, str], secrets: tuple[str, ...]
    ) -> Capture | str:  # fmt: skip
        """A capture for a response to a request for a stream, else why there is none. Raises UsageError (the disk)."""
        dialect = dialect_of(request.path)
        asked = _decoded(body)
        if request.method != "POST" or dialect is None or asked is None or not _asks_for_stream(dialect, asked):
            return ""
        if dialect != self.provider.dialect:
            return f"not kept: a stream of dialect {dialect}, and {self.provider.name} has {self.provider.dialect}"
        likely = [self.shape] if self.shape else likely_shapes(dialect, asked)
        if status >= 300 and likely != ["error"]:
            return f"not kept: HTTP {status}"
        return Capture(
            self.project.root, self.provider.name, likely[0], dialect=dialect, status=status, headers=headers,
            sent=sent_of(request.method, request.path, asked, secrets), secrets=secrets,
        )  # fmt: skip

    def close(self, capture: Capture, forwarded: Forwarded) -> None:
        """Keep the stream or set it aside, and say so in `forwarded`."""
        forwarded.reason = capture.problem
        if capture.problem:
            return
        if capture.empty and capture.end != "eof":
            capture.partial.discard()
            forwarded.reason = f"not kept: it ended as {capture.end} before its first byte"
            return
        try:
            recording = capture.recording()
            shape, forwarded.reason = self._name(recording)
            recording.shape = forwarded.shape = shape or capture.shape
            capture.partial.finish(recording)
            if shape:
                forwarded.fixture = str(capture.partial.keep(self._free(shape, recording)))
            else:
                forwarded.fixture = str(capture.partial.set_aside())
        except HarnessError as exc:
            forwarded.fixture, forwarded.reason = None, f"not kept: {exc}"

    def _name(self, recording: Recording) -> tuple[str, str]:
        """The shape the stream is a fixture of; or "", and why it is none."""
        dialect = self.provider.dialect
        asked: dict[str, Any] = recording.request.body if recording.request is not None else {}
        if recording.end != "eof":
            return "", f"set aside: the stream ended as {recording.end}"
        reading = read(recording, dialect, asked_of(dialect, asked))
        result = reading.structure.get("result")
        if result not in ("ok", "error"):
            return "", f"set aside: the stream is no answer ({result})"
        if self.shape:
            return self.shape, ""
        if result == "error":
            return "error", ""
        likely = [shape for shape in likely_shapes(dialect, asked) if shape != "error"]
        if likely[:1] == ["tool-call"]:
            likely = ["parallel-tools", *likely]  # the likelier by its request, but the rarer by its answer
        view = view_of(reading, recording, dialect, asked)
        for shape in [*likely, "text"]:
            if exercised(shape, view) is None:
                return shape, ""
        there = set(shapes_of(self.project.fixtures, self.provider.name))
        return next(name for number in range(1, len(there) + 2) if (name := f"captured-{number}") not in there), ""

    def _free(self, shape: str, recording: Recording) -> Path:
        """Where the next take lies. A shape of the application's own gets its request file, for the gate to send."""
        root, name = self.project.fixtures, self.provider.name
        number = 1
        while (path := take_path(root, name, shape, number)).exists():
            number += 1
        if shape.startswith("captured-") and recording.request is not None:
            self._write_request(shape, recording)
        return path

    def _write_request(self, shape: str, recording: Recording) -> None:
        assert recording.request is not None
        path = self.project.requests / self.provider.dialect / f"{shape}.json"
        asked = {name: value for name, value in recording.request.body.items() if name not in ("model", "stream")}
        text = encoded(asked) + b"\n"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as file:
                file.write(text)
        except FileExistsError:
            return
        except OSError as exc:
            raise UsageError(f"{path}: cannot be written: {exc.strerror}; check space and permissions") from exc
        recording.request.shape_sha256 = sha256(text)


def proxy_for(
    project: Project, name: str, environ: Mapping[str, str], *, port: int = 0, shape: str = "", watch: Any = None
) -> Proxy:  # fmt: skip
    """The proxy in front of a provider. Raises UsageError and ConfigError: no such provider, an unset variable."""
    provider = project.provider(name)
    resolved: Resolved = provider.resolve(environ)
    return Proxy(provider, resolved, Keeping(project, provider, shape), port=port, watch=watch)


def _decoded(body: bytes) -> dict[str, Any] | None:
    try:
        asked = decode(body)
    except Undecodable:
        return None
    return asked if isinstance(asked, dict) else None


def _asks_for_stream(dialect: str, asked: Mapping[str, Any]) -> bool:
    """Gemini says it in the path, and Ollama streams unless told not to."""
    if dialect == "gemini":
        return True
    return asked.get("stream", dialect == "ollama") is True
