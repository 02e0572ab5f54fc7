"""The whole analysis: recordings in, everything a report shows out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, tzinfo

import numpy as np

from fathometer.dataset.recording import Recording
from fathometer.dataset.summaries import OpenedSummary
from fathometer.errors import FathometerError
from fathometer.findings import (
    advise,
    ageing,
    breakers,
    costs,
    databases_compared,
    datagrams,
    lives,
    load,
    making,
    policies,
    quality,
    seen,
    settings,
    shifts,
    silences,
    throughput,
)
from fathometer.findings.comparisons import comparisons
from fathometer.findings.consistency import remarks
from fathometer.findings.consistency.model import ORDER, Document, Remark, StatisticsRow
from fathometer.findings.incidents import incidents, numbered
from fathometer.findings.model import Analysis, Key, Scenario
from fathometer.findings.scenarios import scenarios
from fathometer.findings.seen import ways as ways_of_connections
from fathometer.stats.family import MATTERS, Metric
from fathometer.stats.sweep import FEWEST_SIZES, Sweep, sweep


def analyse(
    recordings: Sequence[Recording],
    *,
    summaries: Sequence[OpenedSummary] = (),
    refused: Sequence[FathometerError] = (),
    zone: tzinfo = UTC,
    matters: float = MATTERS,
    metric: Metric | None = None,
    weigh: policies.Weigh = "failed",
    progress: Callable[[str], None] = lambda _: None,
) -> Analysis:
    """Analyses recordings together.

    Args:
        recordings: opened ones.
        summaries: other tools' figures, shown beside.
        refused: those that could not be opened.
        zone: where the hours of the calendar are read.
        matters: a difference below this share (0.05: 5 %) is none that matters.
        metric: what advice is to weigh where paths are to be chosen from; None: median and p99 alike.
        weigh: what policies of applications are ranked by.
        progress: is told each step in words.
    """
    sampled = [r for r in recordings if not r.manifest.is_client]
    paths = scenarios(sampled, zone, lambda name: progress(f"figures of {name}"))
    progress("comparing scenarios")
    versus = comparisons(paths, matters)
    progress("looking for changes")
    moved, undecided = shifts.changes(paths)
    progress("connections and their ends")
    ended = lives.ends(paths)
    every = (
        quality.findings(paths)
        + quality.of_rollups(paths)
        + quality.of_summaries(summaries)
        + load.findings(paths, versus)
    )
    every += shifts.findings(moved) + lives.findings(paths, ended) + seen.findings(paths)
    every += databases_compared.findings(paths, matters)
    after = silences.costs(paths, versus)
    every += silences.findings(after) + throughput.findings(paths)
    ways, parts_of_making = datagrams.one_ways(paths), making.setups(paths)
    every += datagrams.findings(paths, ways) + making.findings(parts_of_making)
    happened = incidents(numbered(every), sampled)
    # What is about the whole comes after what happened: numbers stay.
    findings = numbered([*every, *ageing.findings(paths, happened)])
    applications = policies.applications(recordings)
    advice = settings.advice(paths, happened) + breakers.advice(applications) + load.advice(paths, versus)
    advice += advise.choices(paths, versus, metric) + costs.advice(paths) + advise.placement(paths)
    advice += ways_of_connections.advice(findings)
    return Analysis(
        recordings=tuple(recordings),
        summaries=tuple(summaries),
        zone=zone,
        refused=tuple(refused),
        scenarios=paths,
        comparisons=versus,
        changes=moved,
        undecided=undecided,
        ends=ended,
        sweep=_sweep(paths),
        silences=after,
        one_ways=ways,
        setups=parts_of_making,
        findings=findings,
        incidents=happened,
        advice=tuple(advice),
        consistency=own_consistency(paths, summaries),
        applications=applications,
        policies=policies.compared(applications, weigh),
        matters=matters,
    )


def own_consistency(paths: Sequence[Scenario], summaries: Sequence[OpenedSummary] = ()) -> tuple[Remark, ...]:
    """Our own tables, and other tools' summaries in them, held against the laws of `fathom check`."""
    document = Document()
    for s in paths:
        if not s.rtt.count or s.rtt.min_ns is None or s.rtt.max_ns is None:
            continue
        figures = {"min": s.rtt.min_ns / 1e3, "max": s.rtt.max_ns / 1e3}
        shown = {n: s.figure(n) for n in s.estimates}
        figures |= {n: e.value / 1e3 for n, e in shown.items() if not (e.doubt and e.interval is None)}
        # Of all samples: medians of runs need not obey its laws.
        deviation = None if s.of_runs else s.rtt.stddev_ns
        if deviation is not None and s.rtt.count > 1:
            figures["sd"] = deviation / 1e3
        document.summaries.append(StatisticsRow(s.name, figures, "us", s.rtt.count))
    for one in summaries:
        named = {"stddev": "sd"}
        figures = {
            named.get(n, n): ns / 1e3 for n, ns in one.figures_ns.items() if n in {*ORDER, "mean", "stddev"}
        }
        if figures:
            document.summaries.append(StatisticsRow(f"{one.label} ({one.tool})", figures, "us", one.count))
    return remarks(document)


def _sweep(paths: Sequence[Scenario]) -> Sweep | None:
    """Round trips against size, where one path was measured in one way at three sizes or more."""
    by_label: dict[Key, dict[int, float]] = {}
    for s in paths:
        if s.key.size and s.rtt.count:
            by_label.setdefault(replace(s.key, size=None), {})[s.key.size] = s.figure("p50").value
    best = max(by_label.values(), key=len, default={})
    if len(best) < FEWEST_SIZES:
        return None
    sizes = sorted(best)
    return sweep(np.array(sizes, dtype=float), np.array([best[size] for size in sizes]))
