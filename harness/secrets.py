"""Values that may reach no file: finding them in bytes, also across pieces, and masking them in text.

A value is looked for as it is, and as a server may write it back: JSON-escaped, percent-encoded, in base64 (at every
alignment, as in `Basic` credentials). A server that wants to hide it can; the guard is against echoes.
Where no value is known, keys are known by their looks (`key_like`) and by the name they stand under.
Source: DESIGN, "Safety"; the forms of keys are those their issuers document for secret scanners.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import quote

from harness.errors import SecretFound

# Shorter values are no keys ("none", "EMPTY", "ollama": what local servers are given) and occur in ordinary answers.
MIN_LENGTH = 8
MASK = "***"
# What encoders of JSON escape so that it can stand in HTML.
_HTML_UNSAFE = (re.compile(rb"[&<>]"), re.compile(rb"[+&<>'`]"))
_UNICODE = re.compile(rb"\\u([0-9a-f]{4})")
_PERCENT = re.compile(rb"%[0-9A-F]{2}")
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
        percent = quote(raw, safe="").encode()
        forms |= {raw, percent, _PERCENT.sub(lambda found: found[0].lower(), percent)}
        forms.add(raw.replace(b"\\", b"\\\\"))  # as errors of libraries quote bytes
        for ascii_only in (True, False):
            forms |= _in_json(json.dumps(value, ensure_ascii=ascii_only)[1:-1].encode("utf-8", "surrogateescape"))
        for coded in _base64(raw):
            forms |= _in_json(coded)
    return tuple(sorted(forms, key=lambda form: (-len(form), form)))


def _in_json(escaped: bytes) -> set[bytes]:
    """The inside of a JSON string as the encoders in use write it, and as it stands in a JSON string once more.

    They differ in what they escape beyond what they must: PHP the slash, Go and Rails `<`, `>` and `&` in lower case,
    .NET these, quotes and the plus of base64 in upper case.
    """
    spellings = {escaped, escaped.replace(b'\\"', b"\\u0022")}
    spellings |= {
        unsafe.sub(lambda found: b"\\u%04x" % ord(found[0]), spelling)
        for spelling in spellings for unsafe in _HTML_UNSAFE
    }  # fmt: skip
    spellings |= {_UNICODE.sub(lambda found: b"\\u" + found[1].upper(), spelling) for spelling in spellings}
    spellings |= {spelling.replace(b"/", b"\\/") for spelling in spellings}
    return spellings | {spelling.replace(b"\\", b"\\\\").replace(b'"', b'\\"') for spelling in spellings}


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


# A key starts where no word or number goes on, and is told by its prefix; `*`, the mask, is in no form.
_FORMS = {
    "a key in the form sk-...": r"sk-[A-Za-z0-9_-]{12,}",
    "a key in the form sk_..., pk_... or rk_...": r"[spr]k_(?:live_|test_)?[A-Za-z0-9]{16,}",
    "a Google API key (AIza...)": r"AIza[A-Za-z0-9_-]{30,}",
    "a Google access token (ya29...)": r"ya29\.[A-Za-z0-9_-]{20,}",
    "a Hugging Face token (hf_...)": r"hf_[A-Za-z0-9]{16,}",
    "a GitHub token": r"(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{20,})",
    "a GitLab token (glpat-...)": r"glpat-[A-Za-z0-9_-]{16,}",
    "a key of an inference provider": r"(?:(?:gsk|r8|fw|tgp_v1)_|(?:csk|xai|nvapi|pplx)-)[A-Za-z0-9_-]{16,}",
    "a Slack token (xox...)": r"xox[abeoprs]-[A-Za-z0-9-]{10,}",
    "an AWS access key id": r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])",
    "a JSON web token": r"(?<![_-])eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]*)?",
    "a bearer token": r"(?i:bearer|basic)\s{1,4}(?=[A-Za-z._~+/-]*[0-9])[A-Za-z0-9._~+/-]{16,}=*",
    "a private key": r"-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----(?:[A-Za-z0-9+/=\s]|\\[nr]){0,10000}"
                     r"(?:-----END [A-Z ]{0,20}KEY-----)?",
}  # fmt: skip
# No prefix tells these: what stands under such a name is one if it has letters and digits and is long.
_NAMED = (
    r"(?i:api[_-]?key|access[_-]?key|secret[_-]?access[_-]?key|access[_-]?token|auth[_-]?token|client[_-]?secret"
    r"|password|authorization)[\"']{0,1}\s{0,4}[:=]\s{0,4}[\"']{0,1}"
    r"(?=[A-Za-z_+/.-]*[0-9])(?=[0-9_+/.-]*[A-Za-z])(?P<value>[A-Za-z0-9_+/.-]{20,}=*)"
)
_LOOKS = re.compile(
    r"(?<![A-Za-z0-9])(?:" + "|".join(f"(?P<f{number}>{form})" for number, form in enumerate(_FORMS.values()))
    + f")|(?<![A-Za-z0-9]){_NAMED}"
)  # fmt: skip
_WHATS = dict(zip((f"f{number}" for number in range(len(_FORMS))), _FORMS, strict=True))

# Variables of the environment whose values are keys, by their names.
_VARIABLE = re.compile(r"(?i)(?:^|_)(?:api|access|secret)?(?:keys?|tokens?|secrets?|passwords?|passwd|pat)(?:$|_)")


def key_like(text: str) -> Iterator[tuple[int, int, str]]:
    """What looks like a key: start and end in the text, and what it is, in words that do not hold it."""
    for match in _LOOKS.finditer(text):
        if match["value"] is not None:
            yield match.start("value"), match.end("value"), "a value under the name of a credential"
        else:
            yield match.start(), match.end(), _WHATS[str(match.lastgroup)]


def credentials(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that hold keys, by their names: those whose values may reach no file. Short values are none."""
    found = {name: value for name, value in environ.items() if _VARIABLE.search(name)}
    return {name: value for name, value in found.items() if len(value.strip()) >= MIN_LENGTH}
