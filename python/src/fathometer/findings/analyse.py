"""The whole analysis: recordings in, everything a report shows out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, tzinfo

import numpy as np

from fathometer.dataset.recording import Recording
from fathometer.errors import FathometerError
from fathometer.findings import advise, lives, quality, shifts
from fathometer.findings.comparisons import comparisons
from fathometer.findings.consistency import remarks
from fathometer.findings.consistency.model import Document, Remark, Summary
from fathometer.findings.model import Analysis, Finding, Scenario
from fathometer.findings.scenarios import scenarios
from fathometer.stats.sweep import FEWEST_SIZES, Sweep, sweep


def analyse(
    recordings: Sequence[Recording],
    *,
    refused: Sequence[FathometerError] = (),
    zone: tzinfo = UTC,
    progress: Callable[[str], None] = lambda _: None,
) -> Analysis:
    """Analyses recordings together. `zone`: where the hours of the calendar are read. `progress` is told each
    step in words.
    """
    found = scenarios(recordings, zone, lambda name: progress(f"figures of {name}"))
    progress("comparing scenarios")
    versus = comparisons(found)
    progress("looking for changes")
    moved, undecided = shifts.changes(found)
    progress("connections and their ends")
    ended = lives.ends(found)
    made = quality.findings(found) + shifts.findings(moved) + lives.findings(found, ended)
    advice = advise.placement(found) + advise.choices(found, versus) + lives.advice(found)
    return Analysis(
        recordings=tuple(recordings),
        refused=tuple(refused),
        scenarios=found,
        comparisons=versus,
        changes=moved,
        undecided=undecided,
        ends=ended,
        sweep=_sweep(found),
        findings=tuple(sorted(made, key=_order)),
        advice=tuple(advice),
        consistency=own_consistency(found),
    )


def _order(finding: Finding) -> tuple[bool, int]:
    return finding.at_ns is None, finding.at_ns or 0


def own_consistency(found: Sequence[Scenario]) -> tuple[Remark, ...]:
    """Our own tables, held against the laws that `fathom check` holds others' against."""
    document = Document()
    for s in found:
        if not s.rtt.count or s.rtt.min_ns is None or s.rtt.max_ns is None:
            continue
        figures = {"min": s.rtt.min_ns / 1e3, "max": s.rtt.max_ns / 1e3}
        figures |= {n: e.value / 1e3 for n, e in s.estimates.items() if not (e.doubt and e.interval is None)}
        deviation = s.rtt.stddev_ns
        if deviation is not None and s.rtt.count > 1:
            figures["sd"] = deviation / 1e3
        document.summaries.append(Summary(s.name, figures, "us", s.rtt.count))
    return remarks(document)


def _sweep(found: Sequence[Scenario]) -> Sweep | None:
    """Round trips against size, where one label was measured at three sizes or more."""
    by_label: dict[str, dict[int, float]] = {}
    for s in found:
        if s.key.size and s.rtt.count:
            by_label.setdefault(s.key.label, {})[s.key.size] = s.estimates["p50"].value
    best = max(by_label.values(), key=len, default={})
    if len(best) < FEWEST_SIZES:
        return None
    sizes = sorted(best)
    return sweep(np.array(sizes, dtype=float), np.array([best[size] for size in sizes]))
