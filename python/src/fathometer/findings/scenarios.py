"""From recordings to scenarios: what may be pooled is pooled, and each figure gets its interval."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, tzinfo
from typing import Any

import numpy as np

from fathometer.dataset import query
from fathometer.dataset.histogram import Histogram
from fathometer.dataset.recording import Recording
from fathometer.dataset.selection import Selection
from fathometer.findings.model import FIGURES, Key, Run, Scenario
from fathometer.findings.parts import Part, block_question, joined_blocks, parts, recordings_of, totals_of
from fathometer.findings.words import offset_ns
from fathometer.stats.calendar import Calendar, calendar
from fathometer.stats.first import First, first_against_rest
from fathometer.stats.results import Estimate
from fathometer.stats.rollup import rollup_estimates, rollup_mean
from fathometer.stats.runs import RUNS_TO_COMPARE, WorstOfRuns, median_of_runs, percentile_rule

__all__ = ["SHARE", "grouped", "questions", "recordings_of", "scenarios"]

SHARE = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p99_9": 0.999, "p99_99": 0.9999}
MOST_CONNECTIONS = 10_000
"""Connections whose first samples are looked at."""
_COARSE = 3
"""Shift of the histograms of connections, of which only medians are wanted."""

Progress = Callable[[str], None]


def grouped(recordings: Sequence[Recording]) -> dict[Key, list[Part]]:
    """What may be pooled, in order of time."""
    found: dict[Key, list[Part]] = {}
    for recording in recordings:
        for part in parts(recording):
            found.setdefault(part.key, []).append(part)
    return {k: sorted(g, key=lambda p: p.recording.manifest.started_ns) for k, g in found.items()}


def scenarios(
    recordings: Sequence[Recording], zone: tzinfo = UTC, progress: Progress = lambda _: None
) -> tuple[Scenario, ...]:
    """One scenario a key, in order of their medians; recordings without an answered sample make scenarios,
    too.
    """
    groups = grouped(recordings)
    labels = Counter(key.name for key in groups)
    made = []
    for key, group in groups.items():
        name = key.name if labels[key.name] == 1 else f"{key.name} ({key.pacing})"
        progress(name)
        made.append(_scenario(name, key, group, zone))
    return tuple(sorted(made, key=lambda s: (_median(s), s.name)))


def _median(scenario: Scenario) -> float:
    value = scenario.estimates["p50"].value
    return math.inf if math.isnan(value) else value


def _scenario(name: str, key: Key, group: Sequence[Part], zone: tzinfo) -> Scenario:
    rtts = [query.histogram(p.recording, selection=p.selection) for p in group]
    rtt = Histogram.merge(rtts)
    blocks = joined_blocks(group)
    estimates = {"mean": rollup_mean(blocks)}
    estimates |= dict(zip(SHARE, rollup_estimates(blocks, tuple(SHARE.values())), strict=True))
    runs = tuple(_run(p, h) for p, h in zip(group, rtts, strict=True))
    of_runs: dict[str, Estimate] = {}
    worst: WorstOfRuns | None = None
    for figure in FIGURES:
        values = np.array([run.figures_ns[figure] for run in runs if figure in run.figures_ns])
        if len(values) >= RUNS_TO_COMPARE:
            of_runs[figure] = median_of_runs(values)
            if figure == "p95":
                worst = percentile_rule(values)
    counts = [totals_of(p) for p in group]
    return Scenario(
        name=name,
        key=key,
        runs=runs,
        rtt=rtt,
        latency=Histogram.merge(
            [
                query.histogram(p.recording, "latency", p.selection)
                for p in group
                if p.recording.measures("lateness_ns")
            ]
            or [Histogram.empty()]
        ),
        sent=sum(c.samples for c in counts),
        unanswered=sum(c.unanswered for c in counts),
        late=sum(c.late for c in counts),
        estimates=estimates,
        of_runs=of_runs,
        worst=worst,
        blocks=blocks,
        calendar=_calendar(group, zone),
        first=_first(group),
    )


def _run(part: Part, rtt: Histogram) -> Run:
    figures: dict[str, float] = {}
    if rtt.count:
        figures["mean"] = float(rtt.sum_ns) / rtt.count
    for name, share in SHARE.items():
        found = rtt.supported_quantile(share)
        if found is not None:
            figures[name] = float(found.value_ns)
    return Run(part.recording, part.selection, rtt.count, figures)


def _calendar(group: Sequence[Part], zone: tzinfo) -> Calendar | None:
    began: list[int] = []
    medians: list[float] = []
    for part in group:
        for hour in query.hours(part.recording, zone, selection=part.selection):
            found = hour.histogram.supported_quantile(0.5)
            if found is not None:
                local = hour.start_ns // query.HOUR_NS * query.HOUR_NS
                began.append(local + offset_ns(zone, local))
                medians.append(float(found.value_ns))
    if len(set(began)) < 24:
        return None
    # Two recordings of one hour count as one.
    hours, index = np.unique(np.array(began), return_inverse=True)
    figure = np.array([float(np.median(np.array(medians)[index == i])) for i in range(len(hours))])
    return calendar(hours, figure)


def _first(group: Sequence[Part]) -> First | None:
    first: list[float] = []
    rest: list[float] = []
    for recording, chosen in ((p.recording, p.selection) for p in group):
        if not _has_first(recording, chosen):
            return None
        opening = query.first_samples(recording)
        others = query.histograms_by(recording, "connection", shift=_COARSE)
        for connection, value in zip(opening.connection.tolist(), opening.value_ns.tolist(), strict=True):
            median = others[connection].supported_quantile(0.5) if connection in others else None
            if not math.isnan(value) and median is not None and others[connection].count >= 10:
                first.append(value)
                rest.append(float(median.value_ns))
    return first_against_rest(np.array(first), np.array(rest)) if first else None


def _has_first(recording: Recording, chosen: Selection) -> bool:
    """Whether the first samples can be held against the others: not where the first sample of a connection
    has one size, or an idle path, and most of the others have not; nor where it is the only one.
    """
    return (
        not recording.manifest.makes_connections
        and len(recording.connections) <= MOST_CONNECTIONS
        and chosen == query.ALL
    )


def questions(part: Part) -> Iterator[query.Question[Any, Any]]:
    """All that `scenarios` will ask of a part."""
    chosen = part.selection
    yield query.Histograms("rtt", chosen)
    if part.recording.measures("lateness_ns"):
        yield query.Histograms("latency", chosen)
    blocks = block_question(part)
    if blocks is not None:
        yield blocks
    yield query.quarters("rtt", chosen)
    if _has_first(part.recording, chosen):
        yield query.firsts()
        yield query.Histograms("rtt", by="connection", shift=_COARSE)
