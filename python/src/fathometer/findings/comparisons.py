"""Which scenario is faster: every pair of them, by blocks and, where there are enough, by runs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from fathometer.findings.model import Scenario, Versus
from fathometer.findings.scenarios import RUNS_FOR_INTERVAL, joined_blocks
from fathometer.stats.blocks import FEWEST
from fathometer.stats.compare import METRICS, compare
from fathometer.stats.runs import RunComparison, compare_runs
from fathometer.stats.series import paired

MOST_PAIRS = 190
"""Pairs of twenty scenarios; with more, each is compared with the fastest only."""
SIDE_BY_SIDE = 0.8
"""Share of the shorter one's time that both must have in common to be compared as pairs."""
_PAIRED_BLOCKS = 256


def comparisons(scenarios: Sequence[Scenario]) -> tuple[Versus, ...]:
    """B against A for every pair with answered samples, A the one with the lower median."""
    have = [s for s in scenarios if s.rtt.count]
    pairs = list(combinations(have, 2))
    if len(pairs) > MOST_PAIRS:
        pairs = [(have[0], other) for other in have[1:]]
    return tuple(_versus(a, b) for a, b in pairs)


def _versus(a: Scenario, b: Scenario) -> Versus:
    runs: dict[str, RunComparison] = {}
    if min(len(a.runs), len(b.runs)) >= RUNS_FOR_INTERVAL:
        for metric in METRICS:
            x, y = (
                np.array([r.figures_ns[metric] for r in s.runs if metric in r.figures_ns]) for s in (a, b)
            )
            if min(len(x), len(y)) >= RUNS_FOR_INTERVAL:
                runs[metric] = compare_runs(x, y, interleaved=len(x) == len(y) and _interleaved(a, b))
    together = _common_share(a, b) >= SIDE_BY_SIDE
    if together:
        width, start = _grid(a, b)
        cut = [joined_blocks(s.runs, width, start) for s in (a, b)]
        if paired(*cut)[0].number >= FEWEST:
            return Versus(a.name, b.name, compare(*cut, side_by_side=True), runs)
    return Versus(a.name, b.name, compare(a.blocks, b.blocks), runs)


def _spans(scenario: Scenario) -> list[tuple[int, int]]:
    found = []
    for run in scenario.runs:
        totals = run.recording.totals
        if totals.first_sent_ns is not None and totals.last_sent_ns is not None:
            found.append((totals.first_sent_ns, totals.last_sent_ns))
    return found


def _common_share(a: Scenario, b: Scenario) -> float:
    """How much of the shorter one's time was measured by both."""
    one, two = _spans(a), _spans(b)
    common = sum(max(0, min(e, f) - max(s, t)) for s, e in one for t, f in two)
    shorter = min(sum(e - s for s, e in one), sum(f - t for t, f in two))
    return common / shorter if shorter else 0.0


def _grid(a: Scenario, b: Scenario) -> tuple[int, int]:
    spans = _spans(a) + _spans(b)
    start = min(s for s, _ in spans)
    length = max(e for _, e in spans) - start
    return max(length // _PAIRED_BLOCKS, 1), start


def _interleaved(a: Scenario, b: Scenario) -> bool:
    """Whether runs went in turn: no scenario ever ran three times in a row."""
    order = sorted(
        [(r.recording.manifest.started_ns, 0) for r in a.runs]
        + [(r.recording.manifest.started_ns, 1) for r in b.runs]
    )
    row, last = 0, -1
    for _, which in order:
        row = row + 1 if which == last else 1
        last = which
        if row > 2:
            return False
    return True
