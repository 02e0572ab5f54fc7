"""Where each key of a TOML text stands.

`tomllib` tells positions of mistakes in the grammar alone, and tomlkit keeps none. So the text, which
`tomllib` has taken already, is walked once more, and only for positions: what the values are is not decided
here.
"""

from __future__ import annotations

import re
from typing import Final

Position = tuple[int, int]
"""Line and column, both from 1."""
Where = tuple[str | int, ...]
"""The keys and indices that lead to a value."""

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_SPACE: Final = re.compile(r"[ \t]*")
_BLANK: Final = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_PLAIN: Final = re.compile(r"[^,\]}#\n]*")
_STRING: Final = re.compile(
    r'"""(?:\\.|[^\\])*?"""(?:"{0,2})' + r"|'''.*?'''(?:'{0,2})" + r'|"(?:\\.|[^"\\])*"' + r"|'[^']*'",
    re.DOTALL,
)


def positions(text: str) -> dict[Where, Position]:
    """The position of every table's header, key and array element of a text that is TOML."""
    return _Scanner(text).document()


def nearest(known: dict[Where, Position], where: Where) -> Position:
    """The position of a value, or of the innermost thing around it that has one."""
    while where:
        if where in known:
            return known[where]
        where = where[:-1]
    return (1, 1)


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.found: dict[Where, Position] = {}
        self.counts: dict[Where, int] = {}

    def document(self) -> dict[Where, Position]:
        table: Where = ()
        while True:
            self._skip(_BLANK)
            if self.at >= len(self.text):
                return self.found
            if self.text.startswith("[[", self.at):
                table = self._header(2)
            elif self.text[self.at] == "[":
                table = self._header(1)
            else:
                self._pair(table)

    def _header(self, brackets: int) -> Where:
        start = self.at
        self.at += brackets
        keys = self._keys()
        self.at += brackets
        table: Where = ()
        for key in keys[:-1]:
            # A header below an array of tables means the last of them (TOML 1.0, "Array of Tables").
            table = self._latest((*table, key))
        table = (*table, keys[-1])
        if brackets == 2:
            number = self.counts.get(table, 0)
            self.counts[table] = number + 1
            self._note(table, start)
            table = (*table, number)
        self._note(table, start)
        return table

    def _latest(self, table: Where) -> Where:
        return (*table, self.counts[table] - 1) if table in self.counts else table

    def _pair(self, table: Where) -> None:
        start = self.at
        where = table
        for key in self._keys():
            where = (*where, key)
            self._note(where, start)
        self.at += 1  # The equals sign.
        self._skip(_SPACE)
        self._value(where)

    def _keys(self) -> list[str]:
        keys = []
        while True:
            self._skip(_SPACE)
            match = _STRING.match(self.text, self.at) or _BARE.match(self.text, self.at)
            if match is None:  # No text that `tomllib` took comes here.
                raise ValueError(f"no key at {self.at}")
            word = match[0]
            keys.append(word[1:-1] if word[0] in "\"'" else word)
            self.at = match.end()
            self._skip(_SPACE)
            if self.text[self.at] != ".":
                return keys
            self.at += 1

    def _value(self, where: Where) -> None:
        string = _STRING.match(self.text, self.at)
        if string is not None:
            self.at = string.end()
        elif self.text.startswith("[", self.at):
            self._array(where)
        elif self.text.startswith("{", self.at):
            self._inline(where)
        else:
            self._skip(_PLAIN)

    def _array(self, where: Where) -> None:
        self.at += 1
        number = 0
        while True:
            self._skip(_BLANK)
            if self.text[self.at] == "]":
                break
            self._note((*where, number), self.at)
            self._value((*where, number))
            number += 1
            self._skip(_BLANK)
            if self.text[self.at] == ",":
                self.at += 1
        self.at += 1

    def _inline(self, where: Where) -> None:
        self.at += 1
        while True:
            self._skip(_BLANK)
            if self.text[self.at] == "}":
                break
            self._pair(where)
            self._skip(_BLANK)
            if self.text[self.at] == ",":
                self.at += 1
        self.at += 1

    def _skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self.text, self.at)
        if match is not None:
            self.at = match.end()

    def _note(self, where: Where, at: int) -> None:
        if where not in self.found:
            line = self.text.count("\n", 0, at) + 1
            self.found[where] = (line, at - self.text.rfind("\n", 0, at))
