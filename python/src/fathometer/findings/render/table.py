"""Which words belong to which code. A kind of finding, a fact or a topic of advice that is not in it is an
error of ours, and a test renders every one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from fathometer.findings.finding import Advice, Fact, Finding, Incident
from fathometer.findings.render.phrase import Phrase

T = TypeVar("T")
STATEMENTS: dict[str, Callable[[Finding], str]] = {}
WEIGHTS: dict[str, int] = {}
"""Of kinds of findings, by what a reader loses who misses one: figures that are not what they seem,
connections, levels."""
FACTS: dict[str, Callable[[Fact], str]] = {}
ADVICE: dict[str, Callable[[Advice], str]] = {}
INCIDENTS: dict[str, Callable[[Incident], str]] = {}


def says(
    table: dict[str, Callable[[T], str]], *codes: str
) -> Callable[[Callable[[T], str]], Callable[[T], str]]:
    """Enters a function into one of the tables."""

    def enter(words: Callable[[T], str]) -> Callable[[T], str]:
        for code in codes:
            if code in table:
                raise ValueError(f"two sets of words for {code}")
            table[code] = words
        return words

    return enter


def finding(kind: str, weight: int) -> Callable[[Callable[[Finding], str]], Callable[[Finding], str]]:
    """The words of a kind of finding, and how much it weighs."""
    WEIGHTS[kind] = weight
    return says(STATEMENTS, kind)


def facts(words: Mapping[str, str]) -> None:
    """Enters pieces of evidence whose words ask for no decision."""
    for code, text in words.items():
        says(FACTS, code)(Phrase(text))


def advised(words: Mapping[str, str]) -> None:
    """Enters advice, likewise."""
    for topic, text in words.items():
        says(ADVICE, topic)(Phrase(text))


def findings(words: Mapping[str, tuple[int, str]]) -> None:
    """Enters kinds of findings, likewise, each with its weight."""
    for kind, (weight, text) in words.items():
        finding(kind, weight)(Phrase(text))
