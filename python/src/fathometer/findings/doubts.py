"""Doubts of statistics in words: the one place where they are made, and nothing reads them back."""

from __future__ import annotations

from fathometer.stats.results import Doubt, DoubtCode


def in_words(doubt: Doubt | None) -> str | None:
    """What a reader is told of a doubt; None without one."""
    return None if doubt is None else _sentence(doubt)


def _sentence(doubt: Doubt) -> str:
    count = f"{doubt.count:,}"
    worth = "" if doubt.worth is None else f"{doubt.worth:,.0f}"
    name = "" if doubt.quantile is None else f"p{100 * doubt.quantile:g}"
    match doubt.code:
        case DoubtCode.NO_SAMPLES:
            return "no samples"
        case DoubtCode.NO_RUNS:
            return "no runs"
        case DoubtCode.UNSUPPORTED:
            return f"{count} samples are too few for {name}"
        case DoubtCode.CORRELATED_UNSUPPORTED:
            return f"correlated as they are, {count} samples count for {worth}: too few for {name}"
        case DoubtCode.FEW_SAMPLES:
            return f"{count} samples are too few for blocks"
        case DoubtCode.FEW_BLOCKS:
            return f"{count} independent blocks are too few (at least {doubt.needed})"
        case DoubtCode.FEW_BURSTS:
            return f"few bursts were seen ({count} samples count for {worth}): the interval may be too narrow"
        case DoubtCode.CORRELATED_BLOCKS:
            return f"even {count} blocks of {worth} samples correlate: the interval may be too narrow"
        case DoubtCode.FEW_RUNS:
            return f"{count} runs, fewer than {doubt.needed}"
        case DoubtCode.TIED:
            return f"between {count} values that many samples share, the data cannot say which it is"
        case DoubtCode.HEAVY_TAIL:
            return "a few of the largest samples decide it: more of them could move it beyond its interval"
        case DoubtCode.NOT_POSITIVE:
            return "a round trip of zero has no ratio"
