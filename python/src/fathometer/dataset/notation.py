"""The meaning of commas in numbers: `1,25` and `1,250`. All numbers of a column, or of a table, decide it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from fathometer.errors import ExitCode, FathometerError

POINT: Final = "."
COMMA: Final = ","
_COMMA: Final = re.compile(
    r"[+\-−]?(?:\d{0,15},(?:\d{1,2}|\d{4,30})|0\d{0,15},\d{3}|\d{4,15},\d{3}|,\d{3}|\d{1,3}(?:\.\d{3}){1,5},\d{1,30})"
    r"(?:[eE][+\-]?\d{1,3})?"
)
"""A number whose comma can only be a decimal comma."""
_POINT: Final = re.compile(
    r"[+\-−]?(?:\d{0,40}\.(?:\d{0,2}|\d{4,30})|0\d{0,15}\.\d{3}|\d{4,40}\.\d{3}|\.\d{3}|\d{1,3}(?:,\d{3}){1,5}\.\d{0,30}"
    r"|\d{1,3}(?:,\d{3}){2,6})(?:[eE][+\-]?\d{1,3})?"
)
"""A number whose point can only be a decimal point, or whose commas can only separate thousands."""
_EITHER: Final = re.compile(r"[+\-−]?[1-9]\d{0,2},\d{3}")
"""A number that can be read both ways."""
_DOTTED: Final = re.compile(r"[+\-−]?\d{1,3}(?:\.\d{3}){1,6}")
"""A number with decimal commas whose points separate thousands."""


@dataclass(frozen=True, slots=True)
class Notation:
    """The notation of a column's numbers."""

    decimal: str | None
    """`POINT` or `COMMA`; None: the numbers leave it open."""
    example: str | None
    """A number whose comma needed the decision; None if there is none."""

    def plain(self, number: str) -> str:
        """A number as programs write it, with only a decimal point. Other text is unchanged."""
        own = alone(number)
        if own is None and (_EITHER.fullmatch(number) or _DOTTED.fullmatch(number)):
            own = self.decimal
        if own == COMMA:
            return number.replace(".", "").replace(",", ".")
        return number.replace(",", "") if own == POINT else number

    def told(self) -> str | None:
        """The decision as a sentence; None where none was needed."""
        if self.example is None or self.decimal is None:
            return None
        meaning = "a decimal point" if self.decimal == COMMA else "a separator of thousands"
        return f"a comma is taken as {meaning}: {self.example} is read as {self.plain(self.example)}"


def alone(number: str) -> str | None:
    """The decimal sign of an unambiguous number; None for all other text."""
    if _COMMA.fullmatch(number):
        return COMMA
    return POINT if _POINT.fullmatch(number) else None


def decide(numbers: Iterable[str]) -> Notation:
    """The notation of a column or a table. Contradicting numbers leave it open."""
    signs: set[str] = set()
    example = decimal = None
    for number in numbers:
        if "," in number or "." in number:
            sign = alone(number)
            signs |= {sign} if sign else set()
            if sign is None and _EITHER.fullmatch(number):
                example = example or number
            elif sign == COMMA:
                decimal = decimal or number
    only = signs.pop() if len(signs) == 1 else None
    return Notation(only, example or (decimal if only == COMMA else None))


def decided(
    numbers: Iterable[str],
    others: Iterable[Iterable[str]] = (),
    *,
    given: str | None,
    where: str,
    operation: str = "import",
) -> Notation:
    """The notation of a column: by its numbers, else by the other columns, else as it is given.

    Raises:
        FathometerError: all leave it open.
    """
    notation = decide(numbers)
    if notation.decimal is not None or notation.example is None:
        return notation
    signs = (
        {sign for sign in (decide(other).decimal for other in others) if sign} if given is None else {given}
    )
    if len(signs) != 1:
        example = notation.example
        raise FathometerError(
            operation,
            f"{where}: {example} can be {example.replace(',', '.')} or {example.replace(',', '')}",
            "say which with --decimal comma or --decimal point",
            exit_code=ExitCode.USAGE,
        )
    return Notation(signs.pop(), notation.example)
