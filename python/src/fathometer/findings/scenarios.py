"""From recordings to scenarios: what may be pooled is pooled, and each figure gets its interval."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo

import numpy as np

from fathometer.dataset import engine, query
from fathometer.dataset.engine import Selection
from fathometer.dataset.format import Flags
from fathometer.dataset.histogram import Histogram
from fathometer.dataset.recording import Recording
from fathometer.findings.model import FIGURES, Key, Run, Scenario
from fathometer.stats.blocks import MOST, SHORTEST
from fathometer.stats.calendar import Calendar, calendar
from fathometer.stats.first import First, first_against_rest
from fathometer.stats.results import Estimate
from fathometer.stats.rollup import rollup_estimates, rollup_mean
from fathometer.stats.runs import WorstOfRuns, median_of_runs, percentile_rule
from fathometer.stats.series import Blocks

SHARE = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p99_9": 0.999, "p99_99": 0.9999}
RUNS_FOR_INTERVAL = 6
"""Runs from which the order statistics give the median of runs an interval (stats.runs)."""
_SHIFT = 1
"""Halves the buckets' resolution for block histograms: 0.1 %, and half the memory."""

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Part:
    """A recording, or its samples of one size."""

    key: Key
    recording: Recording
    selection: Selection


def key_of(recording: Recording) -> Key:
    """What a recording may be pooled with."""
    manifest = recording.manifest
    return Key(recording.label, manifest.mode, manifest.size, manifest.interval_ns)


def parts(recording: Recording) -> list[Part]:
    """A recording as it may be pooled: whole, or one part a size where it swept several."""
    sizes = recording.totals.sizes
    if recording.manifest.size is not None or len(sizes) < 2:
        return [Part(key_of(recording), recording, query.ALL)]
    whole = key_of(recording)
    return [Part(replace(whole, size=size), recording, Selection(size=size)) for size in sizes]


def recordings_of(scenarios: Sequence[Scenario]) -> Iterator[tuple[Scenario, Recording]]:
    """Every recording once, with its first scenario: connections and events are not of one size."""
    seen: set[str] = set()
    for scenario in scenarios:
        for run in scenario.runs:
            if run.recording.manifest.id not in seen:
                seen.add(run.recording.manifest.id)
                yield scenario, run.recording


def scenarios(
    recordings: Sequence[Recording], zone: tzinfo = UTC, progress: Progress = lambda _: None
) -> tuple[Scenario, ...]:
    """One scenario a key, in order of their medians; recordings without an answered sample make scenarios,
    too.
    """
    grouped: dict[Key, list[Part]] = {}
    for recording in recordings:
        for part in parts(recording):
            grouped.setdefault(part.key, []).append(part)
    labels = Counter(key.label for key in grouped)
    made = []
    for key, group in grouped.items():
        name = key.label if labels[key.label] == 1 else f"{key.label} ({key.pacing})"
        progress(name)
        made.append(_scenario(name, key, sorted(group, key=lambda p: p.recording.manifest.started_ns), zone))
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
        if len(values) >= RUNS_FOR_INTERVAL:
            of_runs[figure] = median_of_runs(values)
            if figure == "p95":
                worst = percentile_rule(values)
    counts = [_counts(p) for p in group]
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
        sent=sum(sent for sent, _, _ in counts),
        unanswered=sum(unanswered for _, unanswered, _ in counts),
        late=sum(late for _, _, late in counts),
        estimates=estimates,
        of_runs=of_runs,
        worst=worst,
        blocks=blocks,
        calendar=_calendar(group, zone),
        first=_first(group),
    )


def _counts(part: Part) -> tuple[int, int, int]:
    """Samples sent, never answered and answered late; warm-up included, as in a recording's totals."""
    totals = part.recording.totals
    if part.selection.size is None:
        return totals.samples, totals.unanswered, totals.late
    sql = f"""SELECT count(*), count(*) FILTER (rtt_ns IS NULL AND flags & {int(Flags.CORRUPTED)} = 0),
        count(*) FILTER (flags & {int(Flags.ANSWERED_LATE)} <> 0) FROM samples
        WHERE {replace(part.selection, warm_up=True).where()}"""
    ((sent, unanswered, late),) = engine.rows(part.recording.source, sql, ["size", "flags", "rtt_ns"])
    return int(sent), int(unanswered), int(late)


def _run(part: Part, rtt: Histogram) -> Run:
    figures: dict[str, float] = {}
    if rtt.count:
        figures["mean"] = float(rtt.sum_ns) / rtt.count
    for name, share in SHARE.items():
        found = rtt.supported_quantile(share)
        if found is not None:
            figures[name] = float(found.value_ns)
    return Run(part.recording, part.selection, rtt.count, figures)


def joined_blocks(
    group: Sequence[Part | Run], width_ns: int | None = None, start_ns: int | None = None
) -> Blocks:
    """The recordings' blocks one after another, in order of time.

    Blocks are of equal time, so that they hold about equally many samples where the pacing is steady. With
    `width_ns` they lie on a common grid (whole multiples of it since `start_ns`), for pairing.
    """
    histograms: list[Histogram] = []
    began: list[int] = []
    for part in group:
        recording, totals, chosen = part.recording, part.recording.totals, part.selection
        if totals.first_sent_ns is None or totals.last_sent_ns is None or not totals.answered:
            continue
        if width_ns is None:
            answered = totals.answered // (1 if chosen.size is None else len(totals.sizes))
            number = max(min(MOST, answered // SHORTEST), 1)
            cut = query.blocks(recording, number, selection=chosen, shift=_SHIFT)
        else:
            first = (start_ns or 0) + (totals.first_sent_ns - (start_ns or 0)) // width_ns * width_ns
            number = (totals.last_sent_ns - first) // width_ns + 1
            cut = query.blocks(
                recording, int(number), selection=chosen, start_ns=first, width_ns=width_ns, shift=_SHIFT
            )
        histograms += cut.histograms
        began += [cut.start_ns + i * cut.width_ns for i in range(len(cut.histograms))]
    return to_blocks(histograms, began)


def to_blocks(histograms: Sequence[Histogram], began_ns: Sequence[int]) -> Blocks:
    """Histograms as the statistics take them; empty ones are left out."""
    kept = [(h, at) for h, at in zip(histograms, began_ns, strict=True) if h.count]
    if not kept:
        nothing = np.zeros(0)
        return Blocks(nothing, np.zeros((0, 0), dtype=np.int64), nothing, np.zeros(0, dtype=np.int64))
    numbers = np.unique(np.concatenate([h.buckets for h, _ in kept]))
    counts = np.zeros((len(kept), len(numbers)), dtype=np.int64)
    for row, (h, _) in enumerate(kept):
        counts[row, np.searchsorted(numbers, h.buckets)] = h.counts
    # A bucket stands for its middle.
    every = Histogram(numbers, np.ones_like(numbers), None, None, 0, None, kept[0][0].shift)
    middles = (every.lows_ns + every.highs_ns) / 2
    sums = np.array([float(h.sum_ns) for h, _ in kept])
    return Blocks(middles, counts, sums, np.array([at for _, at in kept], dtype=np.int64))


def _calendar(group: Sequence[Part], zone: tzinfo) -> Calendar | None:
    began: list[int] = []
    medians: list[float] = []
    for part in group:
        for hour in query.hours(part.recording, zone, selection=part.selection):
            found = hour.histogram.supported_quantile(0.5)
            if found is not None:
                local = hour.start_ns // query.HOUR_NS * query.HOUR_NS
                began.append(local + _offset(zone, local))
                medians.append(float(found.value_ns))
    if len(set(began)) < 24:
        return None
    # Two recordings of one hour count as one.
    hours, index = np.unique(np.array(began), return_inverse=True)
    figure = np.array([float(np.median(np.array(medians)[index == i])) for i in range(len(hours))])
    return calendar(hours, figure)


def _offset(zone: tzinfo, at_ns: int) -> int:
    from datetime import datetime

    offset = datetime.fromtimestamp(at_ns / 1e9, zone).utcoffset()
    return 0 if offset is None else int(offset.total_seconds()) * 1_000_000_000


def _first(group: Sequence[Part]) -> First | None:
    first: list[float] = []
    rest: list[float] = []
    for recording, chosen in ((p.recording, p.selection) for p in group):
        # In a sweep the first sample of a connection has one size, and most of the others have not.
        if len(recording.connections) > 10_000 or chosen.size is not None:
            return None
        opening = query.first_samples(recording)
        others = query.histograms_by(recording, "connection", shift=3)
        for connection, value in zip(opening.connection.tolist(), opening.value_ns.tolist(), strict=True):
            median = others[connection].supported_quantile(0.5) if connection in others else None
            if not math.isnan(value) and median is not None and others[connection].count >= 10:
                first.append(value)
                rest.append(float(median.value_ns))
    return first_against_rest(np.array(first), np.array(rest)) if first else None
