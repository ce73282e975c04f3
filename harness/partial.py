"""A recording on its way to disk, so that nothing that was read is lost and no key is ever written.

    .harness/partial/<provider>.<shape>.<unique>.sse + .json     while it is being read
    fixtures/<provider>/<shape>.sse + .json                      kept
    .harness/failed/<provider>/<shape>-<time>-<n>.sse + .json    no good take, set aside

The sidecar is written first, with end "incomplete": whatever kills the process leaves a pair that says what it is.
Source: DESIGN, "Fixtures on disk" and "Safety".
"""

from __future__ import annotations

import errno
import os
import shutil
from asyncio import CancelledError
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from types import TracebackType
from typing import Self

import msgspec

from harness.errors import HarnessError, SecretFound, UsageError
from harness.jsontext import to_json
from harness.recording import SIDECAR_FORMAT, Recording, Sidecar, sha256, sidecar_of
from harness.secrets import Guard, refuse_secrets
from harness.store import is_sidecar, valid_name

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

FOLDER = ".harness"
KEPT = "what had come is kept in "  # opens a note of an interruption; a path follows
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


class Partial:
    """A body being written. Use it as a context manager: what is neither kept nor discarded at the end is set aside.

    `write` takes the pieces as they come (a sink of the recorder), `finish` the whole recording; then `keep`,
    `set_aside` or `discard`. Each raises SecretFound, after deleting both files, when a secret would reach the disk,
    and UsageError if the disk does not take it.
    """

    def __init__(
        self, workdir: Path, provider: str, shape: str, *, secrets: Iterable[str] = (), sidecar: Sidecar | None = None
    ) -> None:
        """`workdir` is where `.harness/` lies, beside providers.yaml. `sidecar` says what is known beforehand."""
        if not (valid_name(provider) and valid_name(shape)):
            raise UsageError(f"{provider!r}, {shape!r}: names may hold lower-case letters, digits and - only")
        self.provider, self.shape = provider, shape
        self.secrets = tuple(secrets)
        self.kept_at: Path | None = None  # where the body lies in the end; None if it was discarded
        self._workdir = workdir
        self._guard = Guard(self.secrets)
        self._size = 0
        self._open = False
        self._finished = False
        folder = _private_folder(workdir, "partial")
        # Names differ between processes by their numbers, and within one by the token.
        self.path = folder / f"{provider}.{shape}.{os.getpid()}-{token_hex(4)}.sse"
        self._sidecar_path = self.path.with_suffix(".json")
        before = sidecar or Sidecar(shape=shape)
        self._write_sidecar(before, end="incomplete", digest=None)
        try:
            self._file = os.open(self.path, _NEW | os.O_APPEND, 0o666)
        except OSError as exc:
            self._sidecar_path.unlink(missing_ok=True)
            raise _disk(self.path, exc) from exc
        self._open = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self.kept_at is not None or not self.path.exists():
            self._close()
        elif self._size or self._finished:
            path = self.set_aside()
            if isinstance(error, KeyboardInterrupt | CancelledError):  # which is what Ctrl-C is to other threads
                error.add_note(f"{KEPT}{path}")
        else:
            self.discard()

    def write(self, piece: bytes) -> None:
        """Append what came, at once: the system has it when this returns."""
        try:
            self._append(self._guard.feed(piece))
        except SecretFound as exc:
            raise self._refused(exc) from None

    def finish(self, recording: Recording) -> None:
        """The body has ended: write the sidecar that describes it. The recording's body must be what was written."""
        try:
            self._append(self._guard.finish())
            if self._size != len(recording.body):
                raise HarnessError(f"{self.path}: {self._size} bytes written, but {len(recording.body)} recorded")
            self._close()
            self._write_sidecar(sidecar_of(recording), end=recording.end, digest=sha256(recording.body))
        except SecretFound as exc:
            raise self._refused(exc) from None
        self._finished = True

    def keep(self, target: Path) -> Path:
        """Move the pair to `target` (store.take_path) and the `.json` beside it, replacing what is there.

        Between the two renames the new sidecar waits as `.json.next`, where store.load finds it: at no moment does a
        crash leave a body with a sidecar of another. Raises UsageError if a foreign file is in the way.
        """
        if not self._finished:
            raise HarnessError(f"{self.path}: kept before it was finished")
        sidecar = target.with_suffix(".json")
        following = sidecar.with_name(sidecar.name + ".next")
        if sidecar.exists() and not is_sidecar(sidecar):
            raise UsageError(f"{sidecar}: not written by sse-harness, so not replaced; move it away")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with _one_at_a_time(self._workdir / FOLDER / "lock"):
                _move(self._sidecar_path, following)
                _move(self.path, target)
                os.replace(following, sidecar)
        except OSError as exc:
            raise _disk(target, exc) from exc
        self.kept_at = target
        return target

    def set_aside(self) -> Path:
        """Move the pair to `.harness/failed/`, under a name nothing has; return the body's path."""
        if not self._finished:
            try:
                self._append(self._guard.finish())
            except SecretFound as exc:
                raise self._refused(exc) from None
        self._close()
        folder = _private_folder(self._workdir, "failed", self.provider)
        stamp = datetime.now(UTC).strftime("%Y%m%dt%H%M%Sz")
        try:
            target = _reserve(folder, f"{self.shape}-{stamp}")
            _move(self._sidecar_path, target.with_suffix(".json"))
            _move(self.path, target)
        except OSError as exc:
            raise _disk(folder, exc) from exc
        self.kept_at = target
        return target

    def discard(self) -> None:
        """Delete both files."""
        self._close()
        self.path.unlink(missing_ok=True)
        self._sidecar_path.unlink(missing_ok=True)

    def _append(self, data: bytes) -> None:
        if data and not self._open:
            raise HarnessError(f"{self.path}: written to after its end")
        while data:
            try:
                written = os.write(self._file, data)
            except OSError as exc:
                raise _disk(self.path, exc) from exc
            self._size += written
            data = data[written:]

    def _close(self) -> None:
        if self._open:
            self._open = False
            os.close(self._file)

    def _refused(self, found: SecretFound) -> SecretFound:
        """Delete both files, and say of which recording."""
        self.discard()
        return SecretFound(f"{self.provider}/{self.shape}: {found}")

    def _write_sidecar(self, sidecar: Sidecar, *, end: str, digest: str | None) -> None:
        text = sidecar_text(sidecar, end=end, digest=digest).encode()
        refuse_secrets(text, self.secrets)
        temporary = self._sidecar_path.with_suffix(".json.new")
        try:
            with open(os.open(temporary, _NEW, 0o666), "wb") as file:
                file.write(text)
            os.replace(temporary, self._sidecar_path)
        except OSError as exc:
            temporary.unlink(missing_ok=True)
            raise _disk(temporary, exc) from exc


def sidecar_text(sidecar: Sidecar, *, end: str, digest: str | None) -> str:
    """A sidecar as it is written: a member a line, the reads on one line so that a diff of two stays readable."""
    members = {name: getattr(sidecar, name) for name in Sidecar.__struct_fields__}
    members |= {"format": SIDECAR_FORMAT, "end": end, "sha256": digest}
    lines = []
    for name, value in members.items():
        if name == "reads":
            text = msgspec.json.encode(value).decode()
        else:
            text = to_json(value, indent=2).replace("\n", "\n  ")
        lines.append(f'  "{name}": {text}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _private_folder(workdir: Path, *names: str) -> Path:
    """`.harness/` and the folders in it: for this user only, and never in a commit."""
    folder = workdir / FOLDER
    try:
        for part in (folder, *(folder.joinpath(*names[: n + 1]) for n in range(len(names)))):
            part.mkdir(mode=0o700, exist_ok=True)
            if part.is_symlink():
                raise UsageError(f"{part}: is a link; recordings are written into a real folder only")
            if part.stat().st_mode & 0o077:
                part.chmod(0o700)
        ignore = folder / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n", encoding="ascii")
    except OSError as exc:
        raise _disk(folder, exc) from exc
    return folder.joinpath(*names)


@contextmanager
def _one_at_a_time(lock: Path) -> Iterator[None]:
    """Two processes that keep the same fixture at once must not mix their files. Raises OSError."""
    with lock.open("wb") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)  # until the file is closed, or the process dies
        yield


def _reserve(folder: Path, stem: str) -> Path:
    """Create an empty `<stem>-<n>.sse` with the first free number. Raises OSError."""
    number = 1
    while True:
        path = folder / f"{stem}-{number}.sse"
        try:
            os.close(os.open(path, _NEW, 0o666))
        except FileExistsError:
            number += 1
        else:
            return path


def _move(source: Path, target: Path) -> None:
    """Rename, replacing the target; where that is another file system, copy beside it first. Raises OSError."""
    try:
        os.replace(source, target)
    except OSError as exc:
        if exc.errno != errno.EXDEV:
            raise
        temporary = target.with_name(f".{target.name}.{os.getpid()}-{token_hex(4)}")
        try:
            shutil.copyfile(source, temporary)
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
        source.unlink()


def _disk(path: Path, exc: OSError) -> UsageError:
    return UsageError(f"{path}: cannot be written: {exc.strerror or exc}; check space and permissions")
