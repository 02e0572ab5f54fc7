"""Regroupings of a rollup that more than one room wants: the bins of a chart, medians by stretch of time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fathometer.dataset.histogram import Floats, Ints, supports
from fathometer.dataset.rollup import SHIFT, Counted, Rollup
from fathometer.dataset.selection import ALL, Selection


@dataclass(frozen=True, slots=True, eq=False)
class Envelope:
    """A long series in few bins. Bins in which nothing was sent are left out; NaN: not known, or not
    supported.

    Attributes:
        start_ns: where each bin begins.
        width_ns: length of every bin.
        sent: samples sent in each.
        unanswered: of those, how many have no intact echo.
        answered: how many have the metric.
        min_ns: smallest value, within `error`.
        max_ns: largest, within `error`.
        p50_ns: median, within `error` of the exact one.
        p99_ns: as p50_ns; NaN where fewer than 299 answers do not support it.
        error: relative width of a histogram bucket.
    """

    start_ns: Ints
    width_ns: int
    sent: Ints
    unanswered: Ints
    answered: Ints
    min_ns: Floats
    max_ns: Floats
    p50_ns: Floats
    p99_ns: Floats
    error: float


def grid(rollup: Rollup, count: int, selection: Selection = ALL) -> tuple[int, int]:
    """Where the first of at most `count` stretches of whole steps begins, that reach from the first sample
    sent to the last, and their width.
    """
    if count < 1:
        raise ValueError("at least one stretch of time")
    totals = rollup.totals().part(selection)
    step = rollup.step_ns
    first, last = ((t or 0) // step for t in (totals.first_sent_ns, totals.last_sent_ns))
    return first * step, max(-(-(last + 1 - first) // count), 1) * step


def envelope(rollup: Rollup, count: int, selection: Selection = ALL) -> Envelope:
    """Extremes, median and p99 of at most so many bins: the series for charts and, where a recording is too
    long for its raw samples, for change points.
    """
    start, width = grid(rollup, count, selection)
    sent = rollup.sent(start, width, selection)
    counted = rollup.counted(start, width, selection)
    bins = len(sent.stretch)
    answered = np.zeros(bins, dtype=np.int64)
    low, high, p50, p99 = (np.full(bins, np.nan) for _ in range(4))
    if len(counted.stretch):
        at = first_of_each(counted)
        place = np.searchsorted(sent.stretch, counted.stretch[at])
        answered[place] = np.add.reduceat(counted.number, at)
        value = counted.total_ns / counted.number
        low[place] = value[at]
        high[place] = value[np.append(at[1:], len(value)) - 1]
        for q, into in ((0.5, p50), (0.99, p99)):
            into[place] = value[at_rank(counted, at, q)]
        p99[[not supports(int(c), 0.99) for c in answered]] = np.nan
    return Envelope(
        start_ns=start + sent.stretch * width,
        width_ns=width,
        sent=sent.sent,
        unanswered=sent.lost,
        answered=answered,
        min_ns=low,
        max_ns=high,
        p50_ns=p50,
        p99_ns=p99,
        error=2.0 ** (SHIFT - 11),
    )


def first_of_each(counted: Counted) -> Ints:
    """Where each stretch begins; needs at least one row."""
    at: Ints = np.flatnonzero(np.diff(counted.stretch, prepend=counted.stretch[0] - 1)).astype(np.int64)
    return at


def at_rank(counted: Counted, at: Ints, q: float) -> Ints:
    """The row in which the quantile of each stretch lies (nearest rank)."""
    running = np.cumsum(counted.number)
    before = running[at] - counted.number[at]
    total = np.add.reduceat(counted.number, at)
    rank = np.clip(np.ceil(q * total - 1e-9).astype(np.int64), 1, total)
    row: Ints = np.searchsorted(running, before + rank).astype(np.int64)
    return row
