"""Histograms of a recording's samples: of all, by connection, by block of time, by hour of the calendar."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from typing import Final

import numpy as np

from fathometer.dataset import engine
from fathometer.dataset.engine import METRICS, Selection
from fathometer.dataset.histogram import Histogram, Ints
from fathometer.dataset.recording import Recording

ALL: Final = Selection()
HOUR_NS: Final = 3_600_000_000_000
_QUARTER_NS: Final = HOUR_NS // 4

_INPUTS: Final = {
    "rtt": ("rtt_ns", "rtt_bucket"),
    "latency": ("rtt_ns", "lateness_ns"),
    "lateness": ("lateness_ns",),
    "send_stack": ("send_stack_ns",),
    "recv_stack": ("recv_stack_ns",),
    "reflector": ("reflector_ns",),
    "network": ("rtt_ns", "send_stack_ns", "recv_stack_ns", "reflector_ns"),
    "srtt": ("srtt_us",),
}
SELECTED: Final = ("connection", "sent_ns", "size", "flags")


def columns_of(metric: str, *more: str) -> list[str]:
    """The columns that a query over a metric reads."""
    if metric not in METRICS:
        raise ValueError(f"no metric {metric!r}; there are {', '.join(METRICS)}")
    return list(dict.fromkeys((*SELECTED, *_INPUTS[metric], *more)))


def bucket_expression(metric: str, shift: int) -> str:
    """A metric's bucket in SQL."""
    fine = "rtt_bucket::INTEGER" if metric == "rtt" else engine.bucket_sql(METRICS[metric])
    return f"(({fine} >> {shift}) << {shift})"


def _histograms(
    recording: Recording, key: str, metric: str, selection: Selection, shift: int
) -> tuple[Ints, list[Histogram]]:
    """A histogram for each value of an integer key, in the order of the keys. Two scans: moments, buckets."""
    columns = columns_of(metric)
    value = f"({METRICS[metric]})"
    filtered = f"FROM samples WHERE {selection.where()} AND {value} IS NOT NULL"
    # Sums in 128 bits: the squares of 2^42 ns would pass 64. Small values, nearly all, are squared in 64.
    square = "CASE WHEN v < 2147483648 THEN v * v ELSE 0 END"
    large = "CASE WHEN v < 2147483648 THEN 0::HUGEINT ELSE v::HUGEINT * v END"
    moments = engine.rows(
        recording.source,
        f"""SELECT k, min(v), max(v), sum(v), sum({square}), CASE WHEN max(v) < 2147483648 THEN 0::HUGEINT
              ELSE sum({large}) END
            FROM (SELECT {key} AS k, greatest({value}, 0)::BIGINT AS v {filtered}) GROUP BY k ORDER BY k""",
        columns,
    )
    table = engine.arrow(
        recording.source,
        f"""SELECT ({key})::BIGINT AS k, {bucket_expression(metric, shift)}::BIGINT AS b, count(*) AS n
            {filtered} GROUP BY k, b""",
        columns,
    )
    k, b, n = (table.column(c).to_numpy().astype(np.int64, copy=False) for c in ("k", "b", "n"))
    order = np.lexsort((b, k))
    k, b, n = k[order], b[order], n[order]
    keys, first = np.unique(k, return_index=True)
    ends = np.append(first, k.size)[1:]
    found = [
        Histogram(b[i:j], n[i:j], low, high, int(total), int(small) + int(big), shift)
        for i, j, (_, low, high, total, small, big) in zip(
            first.tolist(), ends.tolist(), moments, strict=True
        )
    ]
    return keys, found


def histogram(
    recording: Recording, metric: str = "rtt", selection: Selection = ALL, *, shift: int = 0
) -> Histogram:
    """The histogram of all selected samples that have the metric."""
    _, found = _histograms(recording, "0", metric, selection, shift)
    return found[0] if found else Histogram.empty(shift)


def histograms_by(
    recording: Recording, column: str, metric: str = "rtt", selection: Selection = ALL, *, shift: int = 0
) -> dict[int, Histogram]:
    """A histogram for each ``connection`` or ``size`` that has values."""
    if column not in {"connection", "size"}:
        raise ValueError(f"histograms go by connection or size, not by {column!r}")
    keys, found = _histograms(recording, column, metric, selection, shift)
    return dict(zip(keys.tolist(), found, strict=True))


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
    if count < 1:
        raise ValueError("at least one block")
    begin, width = grid(recording, count, start_ns, width_ns)
    inside = within(selection, begin, begin + count * width)
    keys, found = _histograms(recording, f"(sent_ns - {begin}) // {width}", metric, inside, shift)
    every = [Histogram.empty(shift)] * count
    for key, one in zip(keys.tolist(), found, strict=True):
        every[key] = one
    return Blocks(begin, width, tuple(every))


def grid(recording: Recording, count: int, start_ns: int | None, width_ns: int | None) -> tuple[int, int]:
    """Where the first of so many stretches of time begins, and how long each is."""
    total = recording.totals
    begin = start_ns if start_ns is not None else (total.first_sent_ns or 0)
    last = total.last_sent_ns if total.last_sent_ns is not None else begin
    width = width_ns if width_ns is not None else -(-(last + 1 - begin) // count)
    return begin, max(width, 1)


def within(selection: Selection, start_ns: int, end_ns: int) -> Selection:
    """A selection narrowed to a time."""
    start = start_ns if selection.start_ns is None else max(start_ns, selection.start_ns)
    end = end_ns if selection.end_ns is None else min(end_ns, selection.end_ns)
    return replace(selection, start_ns=start, end_ns=end)


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
    keys, found = _histograms(
        recording,
        f"sent_ns - ((sent_ns % {_QUARTER_NS}) + {_QUARTER_NS}) % {_QUARTER_NS}",
        metric,
        selection,
        shift,
    )
    together: dict[tuple[int, int, int], tuple[int, list[Histogram]]] = {}
    for start, one in zip(keys.tolist(), found, strict=True):
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
