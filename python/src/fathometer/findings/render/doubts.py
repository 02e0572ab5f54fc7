"""Doubts in words: those of findings here, those of statistics by `findings.doubts`."""

from __future__ import annotations

from typing import Final

from fathometer.findings.doubts import in_words
from fathometer.stats.results import Doubt

WORDS: Final = {
    "refused by the reflector": (
        "what a reflector refuses to answer (its rate limit, its networks) counts as lost on the way there"
    ),
}


def doubt(one: str | Doubt) -> str:
    """A sentence without its full stop."""
    return in_words(one) or "" if isinstance(one, Doubt) else WORDS[one]


def doubt_code(one: str | Doubt) -> str:
    """As machines read it."""
    return one.code.value if isinstance(one, Doubt) else one
