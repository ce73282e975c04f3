"""Texts that come in many pieces, looked at as they grow: in time linear in what came, however often they are asked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

_RAW_DECODER = json.JSONDecoder()
_OPENINGS = ("{", "[")
# What moves the depth outside of strings, and what ends a string; an escape may be cut in two.
_OUTSIDE = re.compile(r'["\[\]{}]')
_INSIDE = re.compile(r'"|\\(.?)', re.DOTALL)


class Grown:
    """A text that grows at its end, compared with other texts on the way."""

    __slots__ = ("_length", "_pieces")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._length = 0

    def __bool__(self) -> bool:
        return self._length > 0

    def __str__(self) -> str:
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    def equals(self, text: object) -> bool:
        """Whether it is this text; what is no text is not. Only one of its own length costs more than a look."""
        return isinstance(text, str) and len(text) == self._length and text == str(self)

    def add(self, piece: str) -> None:
        """Put the piece at its end."""
        if piece:
            self._pieces.append(piece)
            self._length += len(piece)

    def add_unless_same(self, piece: str) -> None:
        """Put the piece at its end, unless it repeats the whole so far (case 024)."""
        if not self.equals(piece):
            self.add(piece)


def joined_unless_same(pieces: Iterable[str]) -> str:
    """The pieces joined; one equal to the whole so far is a repeat."""
    grown = Grown()
    for piece in pieces:
        grown.add_unless_same(piece)
    return str(grown)


class Completion:
    """Whether pieces, joined, begin with a whole JSON object or array: `complete_at(joined) is not None`.

    Brackets are counted piece by piece. Where they first balance the text is decoded, once: if it is no JSON there,
    what comes after it mends nothing.
    """

    __slots__ = ("_cut_escape", "_depth", "_in_string", "_seen", "_whole")

    def __init__(self) -> None:
        self._seen = 0  # pieces
        self._depth = 0
        self._in_string = self._cut_escape = False
        self._whole: bool | None = None  # None: undecided

    def of(self, pieces: Sequence[str]) -> bool:
        """What is so of these pieces; since the last time some may have come at the end."""
        while self._whole is None and self._seen < len(pieces):
            piece = pieces[self._seen]
            self._seen += 1
            if self._balances(piece):
                self._whole = self._decodes("".join(pieces[: self._seen]))
        return bool(self._whole)

    def _balances(self, piece: str) -> bool:
        """Whether the brackets that the text opened are all closed somewhere in this piece."""
        at = 0
        if not self._depth:
            at = len(piece) - len(piece.lstrip())
            if at == len(piece):
                return False
            if piece[at] not in _OPENINGS:
                self._whole = False
                return False
        if self._cut_escape and piece:
            at, self._cut_escape = 1, False
        while found := (_INSIDE if self._in_string else _OUTSIDE).search(piece, at):
            at = found.end()
            mark = found[0]
            if mark[0] == "\\":
                self._cut_escape = mark == "\\"
            elif mark == '"':
                self._in_string = not self._in_string
            else:
                self._depth += 1 if mark in _OPENINGS else -1
                if not self._depth:
                    return True
        return False

    @staticmethod
    def _decodes(text: str) -> bool:
        try:
            _RAW_DECODER.raw_decode(text, len(text) - len(text.lstrip()))
        except (ValueError, RecursionError):
            return False
        return True
