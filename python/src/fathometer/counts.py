"""Numbers with their noun. Every sentence of this half that counts something is made by them;
`scripts/check-words.py` finds those that are not.
"""

from __future__ import annotations


def count(number: int, one: str, many: str | None = None) -> str:
    """`1 stall`, `3 stalls`, `2,000 losses`, `4 echoes`."""
    return f"{number:,} {noun(number, one, many)}"


def noun(number: int, one: str, many: str | None = None) -> str:
    """The noun alone, as it stands after a number: `run` after 1, `runs` after any other."""
    if number == 1:
        return one
    return many or one + ("es" if one.endswith(("cho", "s", "x", "ch", "sh")) else "s")


def are(number: int) -> str:
    """The verb after a number and its noun: `is` after 1, `are` after any other."""
    return "is" if number == 1 else "are"
