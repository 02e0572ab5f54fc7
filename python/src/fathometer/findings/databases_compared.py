"""Whether the same query takes longer over another path: as round trips are compared (docs/statistics.md).

What two paths that were asked over side by side shared, a busy server or machine, is in the times of both.
Blocks of the same time are then resampled together, and runs side by side or in turn are pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from typing import Literal

import numpy as np

from fathometer.dataset.queries import Queries
from fathometer.findings.databases import Asked, databases, shortened, wall_of
from fathometer.findings.finding import Finding, Place, Quantity, ns, times
from fathometer.findings.model import Scenario
from fathometer.findings.side_by_side import (
    PAIRED_BLOCKS,
    SIDE_BY_SIDE,
    Span,
    are_interleaved,
    common_share,
    pairs_of_runs,
)
from fathometer.stats.blocks import FEWEST, SHORTEST
from fathometer.stats.compare import compare
from fathometer.stats.family import MATTERS, Difference, judged, no_surer, restated
from fathometer.stats.runs import RUNS_TO_COMPARE, compare_runs, few_runs
from fathometer.stats.series import BlockCounts, from_series, from_windows, paired

Pairing = Literal["paired in time", "unpaired"]


@dataclass(frozen=True, slots=True)
class Pair:
    """The same query over two paths, `a` the one whose median is lower."""

    a: str
    b: str
    shape: str
    asked: str
    difference: Difference
    """Of the medians of the wall times, ns."""
    pairing: Pairing
    """Of its blocks, or of its runs."""


@lru_cache(maxsize=1)
def compared(scenarios: tuple[Scenario, ...], matters: float = MATTERS) -> tuple[Pair, ...]:
    """Every two paths over which the same query was asked, judged as one family. A difference below `matters`
    (0.05: 5 %) is none that matters.
    """
    have = sorted((x for x in databases(scenarios) if x.shape and x.counted), key=_by_median)
    pairs = [
        Pair(a.path, b.path, a.shape or "", a.asked, *difference(a, b))
        for a, b in combinations(have, 2)
        if a.shape == b.shape
    ]
    verdicts = judged([pair.difference for pair in pairs], matters)
    return tuple(replace(p, difference=d) for p, d in zip(pairs, verdicts, strict=True))


def findings(scenarios: Sequence[Scenario], matters: float) -> list[Finding]:
    """Of each two paths that differ in a query."""
    return [_finding(pair) for pair in compared(tuple(scenarios), matters) if pair.difference.differs]


def _by_median(one: Asked) -> tuple[float, str]:
    return one.wall["p50"].value, one.path


def difference(a: Asked, b: Asked) -> tuple[Difference, Pairing]:
    """By runs where both have enough of them; else by blocks, no surer than few runs allow. The verdict is
    that of a family: `compared`.
    """
    of_a, of_b = _runs(a), _runs(b)
    began = ([int(q.started_ns.min()) for q in runs] for runs in (of_a, of_b))
    x, y, are_pairs = pairs_of_runs(_medians(of_a), _medians(of_b), are_interleaved(*began))
    # As the tables show them: of all queries, not of the common blocks alone, nor of runs.
    told = tuple(one.wall["p50"].value for one in (a, b))
    if min(len(x), len(y)) >= RUNS_TO_COMPARE:
        by_runs = compare_runs("p50", x, y, interleaved=are_pairs)
        return restated(by_runs, *told), "paired in time" if are_pairs else "unpaired"
    together = _together(of_a, of_b)
    blocks = together or tuple(from_series(wall_of(runs)) for runs in (of_a, of_b))
    comparison = compare(*blocks, side_by_side=together is not None)
    by_blocks = comparison.of("p50")
    of_few = few_runs(x, y, are_pairs) if by_blocks.decided else None
    if of_few is not None:
        by_blocks = no_surer(by_blocks, of_few.at())
    return restated(by_blocks, *told), comparison.pairing


def _runs(one: Asked) -> list[Queries]:
    """Those that are in its figures, as far as they are."""
    return [q for q in one.runs if q.counted.any()]


def _medians(runs: Sequence[Queries]) -> list[float]:
    return [float(np.median(q.wall_ns[q.counted])) for q in runs]


def _together(a: Sequence[Queries], b: Sequence[Queries]) -> tuple[BlockCounts, BlockCounts] | None:
    """Blocks of both on a common grid; None: they did not run side by side, or have too few in common."""
    spans = [_span(q) for q in a], [_span(q) for q in b]
    if common_share(*spans) < SIDE_BY_SIDE:
        return None
    fewest = min(sum(int(q.counted.sum()) for q in runs) for runs in (a, b))
    number = min(fewest // SHORTEST, PAIRED_BLOCKS)
    if number < FEWEST:
        return None
    start = min(began for each in spans for began, _ in each)
    # Of what was measured: between the runs there may be hours.
    measured = max(sum(ended - began for began, ended in each) for each in spans)
    width = max(-(-measured // number), 1)
    cut = _cut(a, start, width), _cut(b, start, width)
    return cut if paired(*cut)[0].number >= FEWEST else None


def _span(q: Queries) -> Span:
    began, wall = q.started_ns[q.counted], q.wall_ns[q.counted]
    return int(began.min()), int((began + wall).max())


def _cut(runs: Sequence[Queries], start_ns: int, width_ns: int) -> BlockCounts:
    began = np.concatenate([q.started_ns[q.counted] for q in runs]) - start_ns
    return from_windows(wall_of(runs), began, width_ns)


def _finding(pair: Pair) -> Finding:
    d = pair.difference
    low, high = (None, None) if d.ratio_interval is None else (d.ratio_interval.low, d.ratio_interval.high)
    return Finding(
        "query over another path",
        (Place(pair.a), Place(pair.b)),
        quantities={
            "ratio": times(d.ratio) if low is None else Quantity(d.ratio, "times", low, high),
            "a_ns": ns(d.a),
            "b_ns": ns(d.b),
        },
        terms={"a": pair.a, "b": pair.b, "asked": shortened(pair.asked, _LETTERS)},
    )


_LETTERS = 80
"""Of a query in a sentence."""
