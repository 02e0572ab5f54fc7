"""Finds the line and column of each key of a TOML text. `tomllib` gives only the positions of syntax errors.

The text has been read by `tomllib` before, so this code meets no syntax errors.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final, NamedTuple

Position = tuple[int, int]
"""Line and column, both from 1."""
Where = tuple[str | int, ...]
"""The keys and indices that lead to a value."""

# TOML 1.0, toml.io/en/v1.0.0. A string of several lines may end with one or two quotes of its own.
_TOKEN: Final = re.compile(
    r"""
    (?P<comment> \#[^\n]* )
  | (?P<string> \"{3} (?: \\. | [^\\] )*? \"{3,5} | '{3} .*? '{3,5} | "(?: \\. | [^"\\\n] )*" | '[^'\n]*' )
  | (?P<newline> \n )
  | (?P<mark> [][{}=,.] )
  | (?P<word> [^][{}=,.\s\#"']+ )
    """,
    re.VERBOSE | re.DOTALL,
)


class _Token(NamedTuple):
    kind: str
    text: str
    start: int


def positions(text: str) -> dict[Where, Position]:
    """The position of every table's header, key and array element of a text that is TOML."""
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    known: dict[Where, Position] = {}
    for where, start in _Document(text).entries():
        line = bisect_right(starts, start)
        known.setdefault(where, (line, start - starts[line - 1] + 1))
    return known


def nearest(known: dict[Where, Position], where: Where) -> Position:
    """The position of a value, or of the innermost thing around it that has one."""
    while where:
        if where in known:
            return known[where]
        where = where[:-1]
    return (1, 1)


class _Document:
    """Reads tokens one after the other."""

    def __init__(self, text: str) -> None:
        found = _TOKEN.finditer(text)
        tokens = [_Token(m.lastgroup or "", m.group(), m.start()) for m in found if m.lastgroup != "comment"]
        self.tokens = [*tokens, _Token("newline", "", len(text))]
        self.at = 0

    def entries(self) -> Iterator[tuple[Where, int]]:
        """Each key or element of the document, and the offset where it begins."""
        table: Where = ()
        counts: dict[Where, int] = {}
        while self.at < len(self.tokens):
            token = self.tokens[self.at]
            if token.kind == "newline":
                self.at += 1
            elif token.text == "[":
                several = self.tokens[self.at + 1].text == "["
                self.at += 1 + several
                table = self._header(counts)
                self.at += 1 + several
                yield table, token.start
                if several:
                    number = counts.get(table, 0)
                    counts[table] = number + 1
                    table = (*table, number)
                    yield table, token.start
            else:
                yield from self._pair(table)

    def _header(self, counts: dict[Where, int]) -> Where:
        *outer, last = self._keys()
        table: Where = ()
        for key in outer:
            # A header below an array of tables means its last element (TOML 1.0, "Array of Tables").
            table = (*table, key)
            table = (*table, counts[table] - 1) if table in counts else table
        return (*table, last)

    def _keys(self) -> list[str]:
        keys = []
        while self.tokens[self.at].text not in {"]", "="}:
            token = self.tokens[self.at]
            if token.text != ".":
                quoted = token.kind == "string"
                keys.append(next(iter(tomllib.loads(f"{token.text} = 0"))) if quoted else token.text)
            self.at += 1
        return keys

    def _pair(self, where: Where) -> Iterator[tuple[Where, int]]:
        start = self.tokens[self.at].start
        for key in self._keys():
            where = (*where, key)
            yield where, start
        self.at += 1
        yield from self._value(where)

    def _value(self, where: Where) -> Iterator[tuple[Where, int]]:
        opening = self.tokens[self.at].text
        if opening == "[":
            self.at += 1
            number = 0
            while self._has_more("]"):
                yield (*where, number), self.tokens[self.at].start
                yield from self._value((*where, number))
                number += 1
        elif opening == "{":
            self.at += 1
            while self._has_more("}"):
                yield from self._pair(where)
        else:
            while self.tokens[self.at].text not in {",", "]", "}"} and self.tokens[self.at].kind != "newline":
                self.at += 1

    def _has_more(self, closing: str) -> bool:
        """Skips commas and line ends, and the closing bracket after the last element."""
        while self.tokens[self.at].text == "," or self.tokens[self.at].kind == "newline":
            self.at += 1
        if self.tokens[self.at].text == closing:
            self.at += 1
            return False
        return True
