"""Values that may reach no file: finding them in bytes, also across pieces, and masking them in text.

A value is looked for as it is, and as a server may write it back: JSON-escaped, percent-encoded, in base64 (at every
alignment, as in `Basic` credentials). A server that wants to hide it can; the guard is against echoes.
Source: DESIGN, "Safety".
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from urllib.parse import quote

from harness.errors import SecretFound

# Shorter values are no keys ("none", "EMPTY", "ollama": what local servers are given) and occur in ordinary answers.
MIN_LENGTH = 8
MASK = "***"
_WHAT = (
    "the value of a key, or another value from the environment: refused, nothing of it was kept; "
    "keep the server from sending it back, or change the value"
)


def forms_of(secrets: Iterable[str]) -> tuple[bytes, ...]:
    """Every spelling to look for, longest first. Values under MIN_LENGTH characters have none."""
    forms: set[bytes] = set()
    for secret in secrets:
        value = secret.strip()
        scheme, _, rest = value.partition(" ")
        if scheme.lower() in ("bearer", "basic", "token"):  # a whole header value: the echo may lack the scheme
            value = rest.strip()
        if len(value) < MIN_LENGTH:
            continue
        raw = value.encode("utf-8", "surrogateescape")
        forms |= {raw, *_base64(raw), quote(raw, safe="").encode()}
        for ascii_only in (True, False):
            escaped = json.dumps(value, ensure_ascii=ascii_only)[1:-1].encode("utf-8", "surrogateescape")
            forms |= {escaped, escaped.replace(b"/", b"\\/")}
    return tuple(sorted(forms, key=lambda form: (-len(form), form)))


def _base64(raw: bytes) -> Iterable[bytes]:
    """The characters that the value alone decides, for each place it can have in the coded text."""
    for before, influenced in ((0, 0), (1, 2), (2, 3)):
        coded = base64.b64encode(b"\0" * before + raw).rstrip(b"=")
        whole = coded[influenced:] if (before + len(raw)) % 3 == 0 else coded[influenced:-1]
        yield whole
        yield whole.translate(bytes.maketrans(b"+/", b"-_"))


class Guard:
    """Lets pieces through that hold no secret. What may be the start of one is held back until that is decided.

    So whoever writes only what `feed` returns never writes a whole secret, wherever the pieces are cut.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        self._forms = forms_of(secrets)
        self._inner = frozenset(byte for form in self._forms for byte in form[:-1])
        self._held = b""

    def feed(self, piece: bytes) -> bytes:
        """What can be let through. Raises SecretFound; nothing of the secret has been let through then."""
        data = self._held + piece if self._held else piece
        for form in self._forms:
            if form in data:
                self._held = b""
                raise SecretFound(f"the response holds {_WHAT}")
        # Most pieces end with a line end, which occurs in no key: nothing to hold back then.
        if not data or data[-1] not in self._inner:
            self._held = b""
            return data
        cut = len(data) - self._start_of_one(data)
        self._held = data[cut:]
        return data[:cut]

    def finish(self) -> bytes:
        """No more pieces: what was held back. Raises SecretFound if it is the greater part of a secret."""
        held, self._held = self._held, b""
        begun = (form for form in self._forms if form.startswith(held))
        if len(held) >= MIN_LENGTH and any(2 * len(held) >= len(form) for form in begun):
            raise SecretFound(f"the response ends in the middle of {_WHAT}")
        return held

    def _start_of_one(self, data: bytes) -> int:
        """Length of the longest end of the data with which a secret could start."""
        longest = 0
        for form in self._forms:
            first = form[:1]
            at = data.find(first, max(0, len(data) - len(form) + 1))
            while 0 <= at < len(data) - longest:
                if form.startswith(data[at:]):
                    longest = len(data) - at
                    break
                at = data.find(first, at + 1)
        return longest


def refuse_secrets(data: bytes, secrets: Iterable[str]) -> None:
    """Raise SecretFound if the data holds one, whole or cut off by the end."""
    guard = Guard(secrets)
    guard.feed(data)
    guard.finish()


def masked(text: str, secrets: Iterable[str]) -> str:
    """The text with every spelling of every secret replaced by `***`. JSON text stays JSON text."""
    for form in forms_of(secrets):
        text = text.replace(form.decode("utf-8", "surrogateescape"), MASK)
    return text
