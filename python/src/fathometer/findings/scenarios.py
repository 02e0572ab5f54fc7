"""From recordings to scenarios: what may be pooled is pooled, and each figure gets its interval."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, tzinfo

import numpy as np
from numpy.typing import NDArray

from fathometer.dataset.histogram import Histogram, supports
from fathometer.dataset.recording import Recording
from fathometer.dataset.regroup import at_rank, first_of_each, grid
from fathometer.dataset.rollup import BUCKET_BITS, Counted, added
from fathometer.findings.connections import differing
from fathometer.findings.model import FIGURES, Key, Run, Scenario
from fathometer.findings.parts import Part, is_whole, joined_blocks, parts, recordings_of, totals_of
from fathometer.findings.words import offset_ns
from fathometer.stats.blocks import MOST, SHORTEST
from fathometer.stats.calendar import Calendar, calendar
from fathometer.stats.first import First, first_against_rest
from fathometer.stats.quantiles import share_worth
from fathometer.stats.results import Estimate
from fathometer.stats.rollup import rollup_estimates, rollup_mean
from fathometer.stats.runs import RUNS_TO_COMPARE, WorstOfRuns, median_of_runs, percentile_rule
from fathometer.stats.series import BlockCounts
from fathometer.stats.units import mean_over_units, quantile_over_units, widened

__all__ = ["SHARE", "grouped", "recordings_of", "scenarios"]

SHARE = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p99_9": 0.999, "p99_99": 0.9999}
_HOUR_NS = 3_600_000_000_000
_QUARTER_NS = _HOUR_NS // 4

Progress = Callable[[str], None]


def grouped(recordings: Sequence[Recording]) -> dict[Key, list[Part]]:
    """What may be pooled, in order of time."""
    by_key: dict[Key, list[Part]] = {}
    for recording in recordings:
        for part in parts(recording):
            by_key.setdefault(part.key, []).append(part)
    by_key = _of_known_hosts(by_key)
    return {k: sorted(g, key=lambda p: p.recording.manifest.started_ns) for k, g in by_key.items()}


def _of_known_hosts(by_key: dict[Key, list[Part]]) -> dict[Key, list[Part]]:
    """With the recordings that do not say on which host they were made (older ones, imports) among those of
    the only host that they can be of; where others are of several, they stay by themselves.
    """
    hosts: dict[Key, set[str]] = {}
    for key in by_key:
        if key.ends.host:
            hosts.setdefault(_anywhere(key), set()).add(key.ends.host)
    joined: dict[Key, list[Part]] = {}
    for key, group in by_key.items():
        known = hosts.get(key, set())
        only = replace(key, ends=replace(key.ends, host=next(iter(known)))) if len(known) == 1 else key
        joined.setdefault(only, []).extend(group)
    return joined


def _anywhere(key: Key) -> Key:
    return replace(key, ends=replace(key.ends, host=None))


def _names(groups: Mapping[Key, Sequence[Part]]) -> dict[Key, str]:
    """A name of its own for each scenario: the label's, and where several have that, what tells them
    apart.
    """
    alike: dict[str, list[Key]] = {}
    for key in groups:
        alike.setdefault(key.name, []).append(key)
    names: dict[Key, str] = {}
    taken: Counter[str] = Counter()
    for name, keys in alike.items():
        aspects = [_aspects(key, groups[key]) for key in keys]
        telling = [n for n, same in enumerate(zip(*aspects, strict=True)) if len(set(same)) > 1]
        for key, all_of_it in zip(keys, aspects, strict=True):
            apart = ", ".join(filter(None, (all_of_it[n] for n in telling)))
            own = f"{name} ({apart})" if apart else name
            taken[own] += 1
            names[key] = own if taken[own] == 1 else f"{own} ({taken[own]})"
    return names


def _aspects(key: Key, group: Sequence[Part]) -> tuple[str, ...]:
    """What may tell a scenario from another of its label, in words; empty: not known."""
    ends = key.ends
    host = next((h for p in group if (h := p.recording.manifest.host_name)), ends.host)
    return (
        key.pacing,
        f"from {ends.start or host}" if ends.start or ends.host else "",
        # Hosts may be called alike.
        f"host {ends.host[-8:]}" if ends.host and host == ends.host else "",
        f"to {ends.to}" if ends.to else "",
        f"via {ends.via}" if ends.via else "",
        f"target {ends.target}" if ends.target else "",
        ", ".join(f"{k}={v}" for k, v in ends.tags),
        ", ".join(ends.marks),
    )


def scenarios(
    recordings: Sequence[Recording], zone: tzinfo = UTC, progress: Progress = lambda _: None
) -> tuple[Scenario, ...]:
    """One scenario a key, in order of their medians; recordings without an answered sample make scenarios,
    too.
    """
    groups = grouped(recordings)
    names = _names(groups)
    every = []
    for key, group in groups.items():
        name = names[key]
        progress(name)
        every.append(_scenario(name, key, group, zone))
    return tuple(sorted(every, key=lambda s: (_median(s), s.name)))


def _median(scenario: Scenario) -> float:
    value = scenario.figure("p50").value
    return math.inf if math.isnan(value) else value


def _scenario(name: str, key: Key, group: Sequence[Part], zone: tzinfo) -> Scenario:
    rtts = [p.recording.rollup.histogram(p.selection) for p in group]
    rtt = Histogram.merge(rtts)
    blocks = joined_blocks(group)
    estimates = {"mean": rollup_mean(blocks)}
    estimates |= dict(zip(SHARE, rollup_estimates(blocks, tuple(SHARE.values())), strict=True))
    units = differing(group)
    if units is not None:
        estimates = {name: _over_units(e, name, units) for name, e in estimates.items()}
    runs = tuple(_run(p, h) for p, h in zip(group, rtts, strict=True))
    of_runs: dict[str, Estimate] = {}
    worst: WorstOfRuns | None = None
    for figure in FIGURES:
        values = np.array([run.figures_ns[figure] for run in runs if figure in run.figures_ns])
        if len(values) >= RUNS_TO_COMPARE:
            of_runs[figure] = median_of_runs(values)
            if figure == "p95":
                worst = percentile_rule(values)
    # As the figures are: what was sent to warm up is in none of the counts.
    counts = [totals_of(p).after_warm_up() for p in group]
    # The counts, too, leave out samples that were lost in this host.
    here = [min(_lost_here(p), c.unanswered) for p, c in zip(group, counts, strict=True)]
    return Scenario(
        name=name,
        key=key,
        runs=runs,
        rtt=rtt,
        sent=sum(c.samples for c in counts) - sum(here),
        unsent=sum(map(_unsent, group)),
        unanswered=sum(c.unanswered for c in counts) - sum(here),
        corrupt=sum(c.corrupted for c in counts),
        late=sum(c.late for c in counts),
        estimates=estimates,
        of_runs=of_runs,
        worst=worst,
        blocks=blocks,
        connections=sum(map(_connections, group)),
        units=units,
        calendar=_calendar(group, zone),
        first=_first(group),
        worth=_worth(group),
    )


def _over_units(estimate: Estimate, name: str, units: BlockCounts) -> Estimate:
    between = quantile_over_units(units, SHARE[name]) if name in SHARE else mean_over_units(units)
    return widened(estimate, between, units)


def _connections(part: Part) -> int:
    return max(len(part.recording.connections), part.recording.totals.connections, 1)


def _worth(group: Sequence[Part]) -> float:
    """How many independent samples one is worth for the share that is lost, by blocks of time; what could not
    be sent is a burst of its own in each recording.
    """
    sizes: list[NDArray[np.int64]] = []
    losses: list[NDArray[np.int64]] = []
    for part in group:
        most = min(MOST, totals_of(part).samples // SHORTEST)
        if most:
            rollup = part.recording.rollup
            sent = rollup.sent(*grid(rollup, most, part.selection), part.selection)
            unsent = np.array([_unsent(part)] if _unsent(part) else [], dtype=np.int64)
            sizes += [sent.sent, unsent]
            losses += [sent.lost, unsent]
    return share_worth(np.concatenate(losses), np.concatenate(sizes)) if sizes else 1.0


def _unsent(part: Part) -> int:
    """Its share of what its recording could not send."""
    return _share(part, part.recording.unsent)


def _lost_here(part: Part) -> int:
    """Its share of the samples that its recording lost in this host."""
    return _share(part, part.recording.lost_here)


def _share(part: Part, samples: int) -> int:
    """Share of its recording's `samples`, in proportion to the samples that were sent."""
    sent = part.recording.totals.samples
    return samples if is_whole(part) or not sent else round(samples * totals_of(part).samples / sent)


def _run(part: Part, rtt: Histogram) -> Run:
    figures: dict[str, float] = {}
    if rtt.count:
        figures["mean"] = float(rtt.sum_ns) / rtt.count
    for name, share in SHARE.items():
        quantile = rtt.supported_quantile(share)
        if quantile is not None:
            figures[name] = float(quantile.value_ns)
    return Run(part.recording, part.selection, rtt.count, figures)


def _calendar(group: Sequence[Part], zone: tzinfo) -> Calendar | None:
    # Each recording touches at most two hours more than it is long.
    if sum(totals_of(p).span_ns // _HOUR_NS + 2 for p in group) < 24:
        return None
    began: list[int] = []
    medians: list[float] = []
    for part in group:
        for hour, median in _hours(part, zone):
            began.append(hour)
            medians.append(median)
    if len(set(began)) < 24:
        return None
    # Two recordings of one hour count as one.
    hours, index = np.unique(np.array(began), return_inverse=True)
    figure = np.array([float(np.median(np.array(medians)[index == i])) for i in range(len(hours))])
    return calendar(hours, figure)


def _hours(part: Part, zone: tzinfo) -> list[tuple[int, float]]:
    """When each hour of the zone's clocks began, in their time, and its median, where its count supports it.

    Quarters of an hour are put together by the local clock, so that zones of half hours come out right.
    """
    quarters = part.recording.rollup.counted(0, _QUARTER_NS, part.selection)
    if not len(quarters.stretch):
        return []
    each, place = np.unique(quarters.stretch, return_inverse=True)
    local = [q * _QUARTER_NS + offset_ns(zone, q * _QUARTER_NS) for q in each.tolist()]
    hour = np.array(local, dtype=np.int64)[place] // _HOUR_NS
    key, number, total = added(hour << BUCKET_BITS | quarters.bucket, quarters.number, quarters.total_ns)
    by_hour = Counted(key >> BUCKET_BITS, key & ((1 << BUCKET_BITS) - 1), number, total)
    at = first_of_each(by_hour)
    row = at_rank(by_hour, at, 0.5)
    counts = np.add.reduceat(number, at)
    hours = zip(
        by_hour.stretch[at].tolist(), (total[row] / number[row]).tolist(), counts.tolist(), strict=True
    )
    return [(began * _HOUR_NS, median) for began, median, count in hours if supports(count, 0.5)]


def _first(group: Sequence[Part]) -> First | None:
    """The first samples against the others: not where the first sample of a connection has one size, or an
    idle path, and most of the others have not; nor where it is the only one.
    """
    openings = [p.recording.openings for p in group]
    if not all(is_whole(p) for p in group) or any(o is None for o in openings):
        return None
    first, rest = (np.concatenate([getattr(o, name) for o in openings]) for name in ("first_ns", "median_ns"))
    return first_against_rest(first, rest) if len(first) else None
