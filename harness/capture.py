"""One stream that passes by, being written down: bytes, reads, times, end state; guarded as the recorder's are."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from harness import __version__
from harness.codings import decoder_for
from harness.endpoint import MAX_BODY
from harness.errors import HarnessError
from harness.jsontext import as_text, decode
from harness.partial import Partial
from harness.recorder import KEPT_HEADERS
from harness.recording import Provenance, Read, Recording, Sent, Sidecar
from harness.secrets import masked


class Capture:
    """What `feed` is given goes to `.harness/partial/` at once. `problem` says why it is no more, "" while it is.

    `end` is the recording's end state: "client-closed", unless `ended` was told another.
    """

    def __init__(
        self, root: Path, provider: str, shape: str, *, dialect: str, sent: Sent, status: int,
        headers: Mapping[str, str], secrets: tuple[str, ...],
    ) -> None:  # fmt: skip
        """`shape` is a guess, and names the partial. Raises UsageError (the disk), SecretFound."""
        self.shape, self.dialect, self.sent, self.status = shape, dialect, sent, status
        self.secrets = secrets
        self.headers = {name: headers[name] for name in KEPT_HEADERS if name in headers}
        self.end, self._ended = "client-closed", False
        self.problem = ""
        self._body: list[bytes] = []
        self._reads: list[Read] = []
        self._size = self._coded = 0
        self._decoder = decoder_for(self.headers.get("content-encoding"))
        self._date = datetime.now(UTC)
        self.partial = Partial(
            root, provider, shape, secrets=secrets, sidecar=Sidecar(dialect=dialect, shape=shape, request=sent)
        )

    def feed(self, piece: bytes, seconds: float) -> None:
        """The next piece, so many seconds after the request was sent. Never raises: what passes must pass."""
        if self.problem or self._ended:
            return
        if self._decoder is not None:
            self._coded += len(piece)
            piece = self._decoder.feed(piece, MAX_BODY - self._size)
            if self._decoder.broken or self._coded > MAX_BODY:
                self.ended("protocol-error" if self._decoder.broken else "too-large")
        if len(piece) > MAX_BODY - self._size:
            self.ended("too-large")
            piece = piece[: MAX_BODY - self._size]
        if not piece:
            return
        self._size += len(piece)
        self._body.append(piece)
        self._reads.append(Read(self._size, max(int(seconds * 1e6), 0)))
        try:
            self.partial.write(piece)
        except HarnessError as exc:
            self.drop(str(exc))

    def ended(self, end: str) -> None:
        """How the stream ended; what is told first counts."""
        if not self._ended:
            self.end, self._ended = end, True

    def drop(self, problem: str) -> None:
        """Keep nothing of it, because of that problem."""
        self.problem = problem
        self.partial.discard()
        self._body.clear()

    @property
    def empty(self) -> bool:
        """Whether no byte of it came."""
        return not self._size

    def recording(self) -> Recording:
        """What came by."""
        whole = self._decoder is None or self._decoder.whole
        return Recording(
            body=b"".join(self._body), reads=self._reads, status=self.status, headers=self.headers,
            end=self.end if self.end != "eof" or whole else "cut",
            decoded_from=self._decoder.coding if self._decoder is not None else None,
            dialect=self.dialect, shape=self.shape, request=self.sent,
            provenance=Provenance(
                kind="recorded", date=self._date.strftime("%Y-%m-%dT%H:%M:%SZ"),
                tool=f"sse-harness {__version__} proxy", server=self.headers.get("server"),
            ),
        )  # fmt: skip


def sent_of(method: str, path: str, body: object, secrets: tuple[str, ...]) -> Sent:
    """The request as the sidecar tells it, with every value that may reach no file masked."""
    return Sent(method=method, path=masked(path, secrets), body=decode(masked(as_text(body), secrets).encode()))
