"""Histograms of a recording's samples: of all, by connection, by block of time, by hour of the calendar."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Final, Literal, NamedTuple

import numpy as np

from fathometer.dataset import engine, scan
from fathometer.dataset.batches import Batch
from fathometer.dataset.histogram import Histogram
from fathometer.dataset.recording import Recording
from fathometer.dataset.selection import ALL, Selection, metric_named
from fathometer.dataset.tally import (
    By,
    Counts,
    Grid,
    Sums,
    counted,
    joined_counts,
    joined_sums,
    keyed,
    summed,
)

HOUR_NS: Final = 3_600_000_000_000
_QUARTER_NS: Final = HOUR_NS // 4
_SIDES: Final[tuple[Literal["left"], Literal["right"]]] = ("left", "right")


class _Tally(NamedTuple):
    counts: Counts
    sums: Sums


@dataclass(frozen=True, slots=True)
class Histograms(scan.Question[_Tally, dict[int, Histogram]]):
    """A histogram for each key, in the order of the keys; keys without values are left out."""

    metric: str = "rtt"
    selection: Selection = ALL
    by: By = None
    """None: all samples under key 0."""
    shift: int = 0

    def columns(self) -> Iterable[str]:
        """See `Question`."""
        return columns_of(self.metric, self.selection)

    def part(self, batch: Batch) -> _Tally | None:
        """See `Question`."""
        found, key = keyed(batch.chosen(self.selection).measured(self.metric), self.by)
        if not found.rows:
            return None
        return _Tally(
            counted(key, found.buckets(self.metric, self.shift)), summed(key, found.values(self.metric))
        )

    def joined(self, parts: Sequence[_Tally]) -> _Tally:
        """See `Question`."""
        return _Tally(joined_counts([p.counts for p in parts]), joined_sums([p.sums for p in parts]))

    def answer(self, part: _Tally | None) -> dict[int, Histogram]:
        """See `Question`."""
        if part is None:
            return {}
        counts, sums = part
        key, bucket = counts.key, counts.bucket
        starts, ends = (np.searchsorted(key, sums.key, side=side) for side in _SIDES)
        return {
            key: Histogram(bucket[i:j], counts.number[i:j], low, high, total, squares, self.shift)
            for key, i, j, low, high, total, squares in zip(
                sums.key.tolist(),
                starts.tolist(),
                ends.tolist(),
                sums.low.tolist(),
                sums.high.tolist(),
                sums.total.tolist(),
                sums.squares.tolist(),
                strict=True,
            )
        }


def columns_of(metric: str, selection: Selection, *more: str) -> list[str]:
    """The columns that a question about a metric of some samples reads."""
    bucket = ("rtt_bucket",) if metric == "rtt" else ()
    return list(dict.fromkeys((*selection.columns, *metric_named(metric).columns, *bucket, *more)))


def histogram(
    recording: Recording, metric: str = "rtt", selection: Selection = ALL, *, shift: int = 0
) -> Histogram:
    """The histogram of all selected samples that have the metric."""
    found = scan.ask(recording, Histograms(metric, selection, None, shift))
    return found.get(0, Histogram.empty(shift))


def histograms_by(
    recording: Recording, column: str, metric: str = "rtt", selection: Selection = ALL, *, shift: int = 0
) -> dict[int, Histogram]:
    """A histogram for each ``connection`` or ``size`` that has values."""
    if column not in {"connection", "size"}:
        raise ValueError(f"histograms go by connection or size, not by {column!r}")
    return scan.ask(recording, Histograms(metric, selection, column, shift))


@dataclass(frozen=True, slots=True)
class Blocks:
    """Histograms of stretches of equal length, for block methods; two recordings pair where both edges are
    equal.
    """

    start_ns: int
    width_ns: int
    histograms: tuple[Histogram, ...]
    """One a block, in the order of time; empty where nothing was answered."""


def blocks(
    recording: Recording,
    count: int = 128,
    metric: str = "rtt",
    selection: Selection = ALL,
    *,
    start_ns: int | None = None,
    width_ns: int | None = None,
    shift: int = 0,
) -> Blocks:
    """Cuts the time of a recording into blocks and gives each block's histogram.

    Args:
        recording: whose samples.
        count: blocks.
        metric: of `engine.METRICS`.
        selection: which samples.
        start_ns: where the first block begins; the first sample sent unless given.
        width_ns: length of a block; such that `count` of them reach the last sample unless given.
        shift: coarseness of the histograms.
    """
    grid = grid_of(recording, count, start_ns, width_ns)
    found = scan.ask(recording, Histograms(metric, selection, grid, shift))
    none = Histogram.empty(shift)
    return Blocks(grid.start_ns, grid.width_ns, tuple(found.get(i, none) for i in range(count)))


def grid_of(
    recording: Recording, count: int, start_ns: int | None = None, width_ns: int | None = None
) -> Grid:
    """So many stretches of time: unless told otherwise from the first sample sent to the last."""
    if count < 1:
        raise ValueError("at least one stretch of time")
    total = recording.totals
    begin = start_ns if start_ns is not None else (total.first_sent_ns or 0)
    last = total.last_sent_ns if total.last_sent_ns is not None else begin
    width = width_ns if width_ns is not None else -(-(last + 1 - begin) // count)
    return Grid(begin, max(width, 1), count)


def quarters(metric: str = "rtt", selection: Selection = ALL, shift: int = 3) -> Histograms:
    """What `hours` asks, whatever the zone."""
    return Histograms(metric, selection, Grid(0, _QUARTER_NS), shift)


@dataclass(frozen=True, slots=True)
class Hour:
    """One hour of the calendar, at a place."""

    start_ns: int
    weekday: int
    """0 is Monday."""
    hour: int
    """0 to 23, local time there."""
    histogram: Histogram


def hours(
    recording: Recording,
    zone: tzinfo = UTC,
    metric: str = "rtt",
    selection: Selection = ALL,
    *,
    shift: int = 3,
) -> tuple[Hour, ...]:
    """A histogram for each hour in which something was answered; merge by (weekday, hour) for the hour of the
    week.

    Quarters of an hour are counted and put together by the local clock, so that zones of half hours and the
    two nights of a year come out right.
    """
    found = scan.ask(recording, quarters(metric, selection, shift))
    together: dict[tuple[int, int, int], tuple[int, list[Histogram]]] = {}
    for quarter, one in found.items():
        start = quarter * _QUARTER_NS
        local = datetime.fromtimestamp(start // 1_000_000_000, zone)
        utc_hour = start - local.minute * 60_000_000_000
        together.setdefault((utc_hour, local.weekday(), local.hour), (start, []))[1].append(one)
    return tuple(
        Hour(start, weekday, hour, Histogram.merge(parts))
        for (start, weekday, hour), (_, parts) in sorted(together.items())
    )


def check_buckets(recording: Recording) -> int:
    """How many rows have an ``rtt_bucket`` that is not that of their ``rtt_ns``; anything but 0 is a damaged
    writer.
    """
    # DuckDB's least and greatest pass over an absent value instead of being absent.
    bucket = f"CASE WHEN rtt_ns IS NOT NULL THEN {engine.bucket_sql('rtt_ns')} END"
    sql = f"SELECT count(*) FROM samples WHERE rtt_bucket IS DISTINCT FROM {bucket}"
    ((wrong,),) = engine.rows(recording.source, sql, ["rtt_ns", "rtt_bucket"])
    return int(wrong)
