"""Doubts of statistics in words: the one place where they are made, and nothing reads them back."""

from __future__ import annotations

from typing import Final

from fathometer.counts import are, count
from fathometer.stats.results import Doubt, DoubtCode


def in_words(doubt: Doubt | None) -> str | None:
    """What a reader is told of a doubt; None without one."""
    return None if doubt is None else _sentence(doubt)


def _sentence(doubt: Doubt) -> str:
    samples = count(doubt.count, "sample")
    worth = "" if doubt.worth is None else f"{doubt.worth:,.0f}"
    name = "" if doubt.quantile is None else f"p{100 * doubt.quantile:g}"
    match doubt.code:
        case DoubtCode.UNSUPPORTED:
            return f"{samples} {are(doubt.count)} too few for {name}"
        case DoubtCode.CORRELATED_UNSUPPORTED:
            return (
                f"{samples} depend on each other and are worth {worth} independent ones: too few for {name}"
            )
        case DoubtCode.FEW_SAMPLES:
            return f"{samples} {are(doubt.count)} too few for blocks"
        case DoubtCode.FEW_BLOCKS:
            blocks = count(doubt.count, "independent block")
            return f"{blocks} {are(doubt.count)} too few (at least {doubt.needed})"
        case DoubtCode.FEW_BURSTS:
            few = f"few bursts were seen ({samples} are worth {worth} independent ones)"
            return f"{few}: the interval may be too narrow"
        case DoubtCode.CORRELATED_BLOCKS:
            blocks = count(doubt.count, "block")
            return (
                f"even the {blocks} of {worth} samples depend on each other: the interval may be too narrow"
            )
        case DoubtCode.FEW_RUNS:
            return f"{count(doubt.count, 'run')}, fewer than {doubt.needed}"
        case DoubtCode.TIED:
            values = count(doubt.count, "value")
            return f"between {values} that many samples share, the data cannot say which it is"
        case DoubtCode.CONNECTIONS_DIFFER:
            connections = count(doubt.count, "connection")
            return f"{connections} differ by more than chance: the interval is of them, and not of samples"
        case _:
            return _PLAIN[doubt.code]


_PLAIN: Final = {
    DoubtCode.NO_SAMPLES: "no samples",
    DoubtCode.NO_RUNS: "no runs",
    DoubtCode.HEAVY_TAIL: (
        "a few of the largest samples decide it: more of them could move it beyond its interval"
    ),
    DoubtCode.NOT_POSITIVE: "a round trip of zero has no ratio",
}
"""Of those without numbers."""
