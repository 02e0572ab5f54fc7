"""Which scenario is faster: every pair of them, by blocks and, where there are enough, by runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from fathometer.findings.groups import grouped_pairs
from fathometer.findings.model import Key, Scenario, Versus
from fathometer.findings.parts import Piece, joined_blocks, totals_of
from fathometer.findings.side_by_side import (
    PAIRED_BLOCKS,
    SIDE_BY_SIDE,
    Span,
    are_interleaved,
    common_share,
    pairs_of_runs,
)
from fathometer.stats.blocks import FEWEST
from fathometer.stats.compare import Comparison, Spreads, compare, spreads
from fathometer.stats.family import MATTERS, METRICS, Difference, Metric, judged, no_surer, restated
from fathometer.stats.results import TOO_NARROW
from fathometer.stats.runs import RUNS_TO_COMPARE, compare_runs, few_runs
from fathometer.stats.series import paired

MOST_PAIRS = 190
"""Pairs of twenty scenarios; with more, each is compared with the fastest, with the other parts of its own
recordings (where these are more, with its counterpart), and with what the user grouped it with."""


def comparisons(
    scenarios: Sequence[Scenario],
    matters: float = MATTERS,
    metrics: Collection[Metric] = METRICS,
    wanted: Callable[[Scenario, Scenario], bool] | None = None,
) -> tuple[Versus, ...]:
    """B against A for every pair with answered samples, A the one with the lower median; for those that are
    `wanted` alone, where that is said.

    All pairs and `metrics` are judged as one family: who asks about fewer gets surer answers. A difference
    below `matters` (0.05: 5 %) is none that matters.
    """
    have = [s for s in scenarios if s.rtt.count]
    if wanted is not None:
        pairs = [(a, b) for a, b in combinations(have, 2) if wanted(a, b)]
    else:
        pairs = _every_pair(have) if math.comb(len(have), 2) <= MOST_PAIRS else _foremost_pairs(have)
    known: dict[str, Spreads] = {}
    unjudged = [_versus(a, b, known) for a, b in pairs]
    unjudged = [
        replace(v, differences=tuple(d for d in v.differences if d.metric in metrics)) for v in unjudged
    ]
    verdicts = iter(judged([d for v in unjudged for d in v.differences], matters))
    return tuple(replace(v, differences=tuple(next(verdicts) for _ in v.differences)) for v in unjudged)


def within_path(
    scenarios: Sequence[Scenario], comparisons: Sequence[Versus], other: Callable[[Key], Key | None]
) -> Iterator[tuple[Scenario, Scenario, Versus, bool]]:
    """Every scenario with its other one, by key, and their comparison; and whether that has the other one
    first.
    """
    by_key = {s.key: s for s in scenarios}
    by_names = {frozenset((v.a, v.b)): v for v in comparisons}
    for plain in scenarios:
        key = other(plain.key)
        changed = by_key.get(key) if key else None
        versus = by_names.get(frozenset((plain.name, changed.name))) if changed else None
        if changed and versus:
            yield plain, changed, versus, versus.a == changed.name


def _every_pair(have: Sequence[Scenario]) -> list[tuple[Scenario, Scenario]]:
    return list(combinations(have, 2))


def _foremost_pairs(have: Sequence[Scenario]) -> list[tuple[Scenario, Scenario]]:
    """The important pairs among many scenarios: their number grows linearly with the scenarios."""
    order = {s.name: n for n, s in enumerate(have)}
    pairs = [(have[0], other) for other in have[1:]]
    pairs += [pair for parts in _paths(have) for pair in _of_one_path(parts)]
    pairs += grouped_pairs(have, MOST_PAIRS)
    by_order = {(order[a.name], order[b.name]): (a, b) for a, b in pairs}
    return [by_order[place] for place in sorted(by_order)]


def _paths(have: Sequence[Scenario]) -> list[list[Scenario]]:
    """Scenarios by path: idle and loaded, and around silences."""
    paths: dict[Key, list[Scenario]] = {}
    for s in have:
        paths.setdefault(replace(s.key, under_load=False, silence=None), []).append(s)
    return list(paths.values())


def _of_one_path(parts: Sequence[Scenario]) -> list[tuple[Scenario, Scenario]]:
    """Every pair of a path's parts. If these are too many, each part with its counterpart: idle and loaded,
    the first samples after a silence and the warm ones.
    """
    if math.comb(len(parts), 2) <= MOST_PAIRS:
        return _every_pair(parts)
    alike: dict[tuple[object, ...], list[Scenario]] = {}
    for s in parts:
        silence = s.key.silence
        alike.setdefault(("load", silence), []).append(s)
        if silence is not None:
            alike.setdefault(("silence", silence.gap_ns, s.key.under_load), []).append(s)
    return [pair for two in alike.values() for pair in _every_pair(two)]


def _versus(a: Scenario, b: Scenario, known: dict[str, Spreads]) -> Versus:
    """By runs where both have enough of them, else by blocks; the verdicts of the family come later."""
    # Shared drift over time is small beside the difference between connections.
    together = _together(a.runs, b.runs) if a.units is None and b.units is None else None
    comparison: Comparison | None = None
    if together:
        width, start = together
        cut = [joined_blocks(s.runs, width, start) for s in (a, b)]
        if paired(*cut)[0].number >= FEWEST:
            comparison = compare(*cut, side_by_side=True, shaky={m for s in (a, b) for m in _shaky(s)})
    if comparison is None:
        comparison = compare(_spreads(a, known), _spreads(b, known))
    differences = tuple(
        _of_runs(a, b, d.metric) or _doubted(_by_few_runs(d, a, b), a, b) for d in comparison.differences
    )
    differences = tuple(_as_shown(d, a, b) for d in differences)
    return Versus(a.name, b.name, differences, comparison.pairing, comparison.blocks, comparison.superiority)


def _spreads(scenario: Scenario, known: dict[str, Spreads]) -> Spreads:
    if scenario.name not in known:
        # A seed of its own: two scenarios that are resampled alike would look paired.
        known[scenario.name] = spreads(
            scenario.blocks, 1 + len(known), _shaky(scenario), scenario.connections, scenario.units
        )
    return known[scenario.name]


def _shaky(scenario: Scenario) -> list[Metric]:
    return [m for m in METRICS if (doubt := scenario.estimates[m].doubt) and doubt.code in TOO_NARROW]


def _pairs(a: Scenario, b: Scenario, metric: Metric) -> tuple[NDArray[np.float64], NDArray[np.float64], bool]:
    """The figures of the runs, and whether they are pairs."""
    of_a, of_b = ([r.figures_ns.get(metric) for r in s.runs] for s in (a, b))
    began = ([r.recording.manifest.started_ns for r in s.runs] for s in (a, b))
    return pairs_of_runs(of_a, of_b, are_interleaved(*began))


def _of_runs(a: Scenario, b: Scenario, metric: Metric) -> Difference | None:
    """The metric compared by runs; None where one of both has too few."""
    x, y, pairs = _pairs(a, b, metric)
    if min(len(x), len(y)) < RUNS_TO_COMPARE:
        return None
    return compare_runs(metric, x, y, interleaved=pairs)


def _by_few_runs(d: Difference, a: Scenario, b: Scenario) -> Difference:
    """A difference of blocks, no surer than what so few runs differ by among themselves allows."""
    if not d.decided or max(len(a.runs), len(b.runs)) < 2:
        return d
    runs = few_runs(*_pairs(a, b, d.metric))
    if runs is None:
        # Tails that no single run supports differ from run to run as the means do, or more.
        mean = few_runs(*_pairs(a, b, "mean"))
        runs = None if mean is None else replace(mean, middle=math.log(d.ratio))
    return d if runs is None else no_surer(d, runs.at())


def _as_shown(d: Difference, a: Scenario, b: Scenario) -> Difference:
    """With the figures that tables show of both, which are of all samples or all runs; the intervals of what
    was compared (common times, pairs) reach as far as these.
    """
    of_a, of_b = (s.figure(d.metric) for s in (a, b))
    return restated(d, of_a.value, of_b.value) if of_a.shown and of_b.shown else d


def _doubted(difference: Difference, a: Scenario, b: Scenario) -> Difference:
    """With the doubt of the figures that it compares; where one of them is not shown, nothing is decided."""
    if not difference.decided:
        return difference
    doubts = [e for s in (a, b) if (e := s.estimates[difference.metric]).doubt is not None]
    hidden = next((e for e in doubts if not e.shown), None)
    if hidden:
        return replace(
            difference,
            difference_interval=None,
            ratio_interval=None,
            p_value=None,
            verdict="cannot be decided",
            doubt=hidden.doubt,
        )
    return difference if difference.doubt or not doubts else replace(difference, doubt=doubts[0].doubt)


def _together(a: Sequence[Piece], b: Sequence[Piece]) -> tuple[int, int] | None:
    """The common grid of two scenarios that ran side by side: its width, and where it begins."""
    return _grid(a, b) if common_share(_spans(a), _spans(b)) >= SIDE_BY_SIDE else None


def _spans(pieces: Sequence[Piece]) -> list[Span]:
    every = [(t.first_sent_ns, t.last_sent_ns) for t in map(totals_of, pieces)]
    return [(first, last) for first, last in every if first is not None and last is not None]


def _grid(a: Sequence[Piece], b: Sequence[Piece]) -> tuple[int, int]:
    spans = _spans(a) + _spans(b)
    start = min(s for s, _ in spans)
    length = max(e for _, e in spans) - start
    # Whole steps of the coarser rollup: those of the finer one lie within them.
    step = max(p.recording.rollup.step_ns for p in (*a, *b))
    return max(-(-length // PAIRED_BLOCKS // step), 1) * step, start // step * step
