"""Series of a recording's samples: envelopes, and raw samples where they are few."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fathometer.dataset import engine, scan
from fathometer.dataset.aggregate import columns_of, grid_of
from fathometer.dataset.batches import Batch, numbers
from fathometer.dataset.histogram import Floats, Ints, grouped_quantile, supports
from fathometer.dataset.recording import Recording
from fathometer.dataset.selection import ALL, Selection, metric_named, within
from fathometer.dataset.tally import Counts, Grid, counted, joined_counts, joined_runs, keyed, runs
from fathometer.errors import FathometerError

MAX_SAMPLES: Final = 20_000_000
"""Raw samples that are loaded at once, at most: with three columns half a gigabyte."""


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
        min_ns: smallest value.
        max_ns: largest.
        p50_ns: median, within `error` of the exact one.
        p99_ns: as p50_ns; NaN where fewer than 299 answers do not support it.
        error: relative width of a histogram bucket, the bound of the quantiles' error.
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


class _Bins(NamedTuple):
    key: Ints
    sent: Ints
    lost: Ints
    answered: Ints
    low: Ints
    high: Ints
    counts: Counts | None


NO_VALUE: Final = np.iinfo(np.int64).max
"""Smallest value of a bin without any."""


@dataclass(frozen=True, slots=True)
class Bins(scan.Question[_Bins, Envelope]):
    """An `Envelope` over a grid of time."""

    metric: str
    selection: Selection
    grid: Grid
    shift: int

    def columns(self) -> Iterable[str]:
        """See `Question`."""
        return columns_of(self.metric, self.selection, "rtt_ns")

    def part(self, batch: Batch) -> _Bins | None:
        """See `Question`."""
        every, key = keyed(batch.chosen(self.selection), self.grid)
        if not every.rows:
            return None
        # In the order of sending: each bin is one run.
        at = runs(key)
        known = every.known("rtt_ns")
        sent = np.diff(at, append=every.rows)
        lost = np.zeros_like(sent) if known is None else np.add.reduceat((~known).astype(np.int64), at)
        none = np.zeros(len(at), dtype=np.int64)
        answered, low, high = none, none + NO_VALUE, none - 1
        counts = None
        found, own = keyed(every.measured(self.metric), self.grid)
        if found.rows:
            values, starts = found.values(self.metric), runs(own)
            place = np.searchsorted(key[at], own[starts])
            answered[place] = np.diff(starts, append=found.rows)
            low[place] = np.minimum.reduceat(values, starts)
            high[place] = np.maximum.reduceat(values, starts)
            counts = counted(own, found.buckets(self.metric, self.shift))
        return _Bins(key[at], sent, lost, answered, low, high, counts)

    def joined(self, parts: Sequence[_Bins]) -> _Bins:
        """See `Question`."""
        counts = [p.counts for p in parts if p.counts is not None]
        how = (np.add, np.add, np.add, np.minimum, np.maximum)
        key, sent, lost, answered, low, high = joined_runs([p[:-1] for p in parts], how)
        return _Bins(key, sent, lost, answered, low, high, joined_counts(counts) if counts else None)

    def answer(self, part: _Bins | None) -> Envelope:
        """See `Question`."""
        none = np.zeros(0, dtype=np.int64)
        bins = part or _Bins(none, none, none, none, none, none, None)
        empty = bins.answered == 0
        low, high = (np.where(empty, np.nan, x) for x in (bins.low, bins.high))
        p50, p99 = np.full(bins.key.size, np.nan), np.full(bins.key.size, np.nan)
        if bins.counts is not None:
            for q, into in ((0.5, p50), (0.99, p99)):
                at, values = grouped_quantile(
                    bins.counts.key, bins.counts.bucket, bins.counts.number, q, self.shift
                )
                place = np.searchsorted(bins.key, at)
                # A middle of a bucket is never outside the exact extremes.
                into[place] = np.clip(values, low[place], high[place])
        p99[[not supports(int(c), 0.99) for c in bins.answered]] = np.nan
        return Envelope(
            start_ns=self.grid.start_ns + bins.key * self.grid.width_ns,
            width_ns=self.grid.width_ns,
            sent=bins.sent,
            unanswered=bins.lost,
            answered=bins.answered,
            min_ns=low,
            max_ns=high,
            p50_ns=p50,
            p99_ns=p99,
            error=2.0 ** (self.shift - 11),
        )


def bins(recording: Recording, count: int = 2_000, selection: Selection = ALL) -> Bins:
    """Asks for extremes, median and p99 by time bin: the series for charts and for change points. Medians are
    within 0.8 %, which keeps groups few.
    """
    return Bins("rtt", selection, grid_of(recording, count), 4)


class Samples(NamedTuple):
    """Raw samples in the order of sending. NaN: unanswered, or the metric is absent."""

    connection: Ints
    seq: npt.NDArray[np.uint64]
    sent_ns: Ints
    value_ns: Floats
    """Exact: an integer below 2^53."""
    flags: npt.NDArray[np.uint16]


def samples(
    recording: Recording, metric: str = "rtt", selection: Selection = ALL, *, limit: int = MAX_SAMPLES
) -> Samples:
    """Raw samples; refuses more than `limit`, for which there are `bins` and `blocks`."""
    if recording.rows > limit:
        sql = f"SELECT count(*) FROM samples WHERE {selection.where()}"
        ((count,),) = engine.rows(recording.source, sql, list(selection.columns))
        if count > limit:
            raise FathometerError(
                "load samples",
                f"{recording.directory}: {count:,} of them, more than {limit:,}",
                "ask for a shorter time or for one connection",
            )
    table = engine.arrow(
        recording.source,
        f"""SELECT connection, seq, sent_ns, flags,
              coalesce({metric_named(metric).sql}::DOUBLE, 'nan'::DOUBLE) AS v
            FROM samples WHERE {selection.where()} ORDER BY sent_ns, connection, seq""",
        columns_of(metric, selection, "seq"),
    )
    return samples_of(table)


def samples_of(table: pa.Table) -> Samples:
    """A query's columns ``connection``, ``seq``, ``sent_ns``, ``v`` and ``flags``."""
    connection, seq, sent, flags = (
        numbers(_whole(table, name)) for name in ("connection", "seq", "sent_ns", "flags")
    )
    value = numbers(_whole(table, "v"))
    return Samples(connection.astype(np.int64), seq, sent, value, flags)


def _whole(table: pa.Table, name: str) -> pa.Array:
    return (
        pa.concat_arrays(table.column(name).chunks)
        if table.num_rows
        else pa.array([], table.schema.field(name).type)
    )


def around(
    recording: Recording,
    at_ns: int,
    before_ns: int,
    after_ns: int,
    metric: str = "rtt",
    selection: Selection = ALL,
) -> Samples:
    """Raw samples sent within `before_ns` before and `after_ns` after a moment."""
    return samples(recording, metric, within(selection, at_ns - before_ns, at_ns + after_ns))


def first_samples(recording: Recording, metric: str = "rtt", *, warm_up: bool = True) -> Samples:
    """The first sample of each connection. Warm-up counts: a first sample always is in it where there is
    any.
    """
    return scan.ask(recording, firsts(metric, warm_up=warm_up))


def firsts(metric: str = "rtt", *, warm_up: bool = True) -> Picked:
    """What `first_samples` asks."""
    return Picked(metric, Selection(first=True, warm_up=warm_up))


@dataclass(frozen=True, slots=True)
class Picked(scan.Question[Samples, Samples]):
    """Raw samples of a selection that surely is small."""

    metric: str
    selection: Selection

    def columns(self) -> Iterable[str]:
        """See `Question`."""
        return columns_of(self.metric, self.selection, "seq")

    def part(self, batch: Batch) -> Samples | None:
        """See `Question`."""
        found = batch.chosen(self.selection)
        if not found.rows:
            return None
        value = found.values(self.metric).astype(np.float64)
        value[~found.has(self.metric)] = np.nan
        return Samples(
            found.column("connection").astype(np.int64),
            found.column("seq"),
            found.column("sent_ns"),
            value,
            found.column("flags"),
        )

    def joined(self, parts: Sequence[Samples]) -> Samples:
        """See `Question`."""
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        order = np.lexsort((columns[1], columns[0], columns[2]))
        return Samples(*(column[order] for column in columns))

    def answer(self, part: Samples | None) -> Samples:
        """See `Question`."""
        none = np.zeros(0, dtype=np.int64)
        return part or Samples(none, none.astype(np.uint64), none, np.zeros(0), none.astype(np.uint16))
