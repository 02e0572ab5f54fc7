"""Series of a recording's samples: envelopes, chunks, tails, and raw samples where they are few."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fathometer.dataset import engine
from fathometer.dataset.aggregate import ALL, SELECTED, bucket_expression, columns_of, grid, within
from fathometer.dataset.engine import METRICS, Selection
from fathometer.dataset.histogram import Floats, Ints, grouped_quantile, supports
from fathometer.dataset.recording import Recording
from fathometer.errors import FathometerError

MAX_SAMPLES: Final = 20_000_000
"""Raw samples that are loaded at once, at most: with three columns half a gigabyte."""
_TAILS_AT_ONCE: Final = 256


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
        above: values above each threshold asked for, one row a threshold.
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
    above: Ints
    error: float


def envelope(
    recording: Recording,
    bins: int = 2_000,
    metric: str = "rtt",
    selection: Selection = ALL,
    *,
    start_ns: int | None = None,
    width_ns: int | None = None,
    thresholds_ns: Sequence[int] = (),
    shift: int = 4,
) -> Envelope:
    """Extremes, median and p99 by time bin: the series for charts and for change points.

    For another zoom level give `start_ns` and `width_ns`. `shift` 4 keeps medians within 0.8 % and few
    groups.
    """
    if bins < 1:
        raise ValueError("at least one bin")
    begin, width = grid(recording, bins, start_ns, width_ns)
    inside = within(selection, begin, begin + bins * width)
    value = f"({METRICS[metric]})"
    above = "".join(f", count(*) FILTER (v > {int(t)}) AS a{i}" for i, t in enumerate(thresholds_ns))
    table = engine.arrow(
        recording.source,
        f"""SELECT k, count(*) AS sent, count(*) - count(rtt_ns) AS lost, count(v) AS n,
              min(v) AS low, max(v) AS high {above}
            FROM (SELECT (sent_ns - {begin}) // {width} AS k, rtt_ns, {value}::BIGINT AS v
                  FROM samples WHERE {inside.where()}) GROUP BY k ORDER BY k""",
        columns_of(metric, "rtt_ns"),
    )
    keys = table.column("k").to_numpy().astype(np.int64)
    counts = engine.arrow(
        recording.source,
        f"""SELECT (sent_ns - {begin}) // {width} AS k,
              {bucket_expression(metric, shift)}::BIGINT AS b, count(*) AS n
            FROM samples WHERE {inside.where()} AND {value} IS NOT NULL GROUP BY k, b""",
        columns_of(metric),
    )
    k, b, n = (counts.column(c).to_numpy().astype(np.int64, copy=False) for c in ("k", "b", "n"))
    low, high = (table.column(c).to_numpy(zero_copy_only=False).astype(np.float64) for c in ("low", "high"))
    answered = table.column("n").to_numpy().astype(np.int64)
    p50, p99 = np.full(keys.size, np.nan), np.full(keys.size, np.nan)
    for q, into in ((0.5, p50), (0.99, p99)):
        at, values = grouped_quantile(k, b, n, q, shift)
        place = np.searchsorted(keys, at)
        # A middle of a bucket is never outside the exact extremes.
        into[place] = np.clip(values, low[place], high[place])
    p99[[not supports(int(c), 0.99) for c in answered]] = np.nan
    rows = [table.column(f"a{i}").to_numpy().astype(np.int64) for i in range(len(thresholds_ns))]
    return Envelope(
        start_ns=begin + keys * width,
        width_ns=width,
        sent=table.column("sent").to_numpy().astype(np.int64),
        unanswered=table.column("lost").to_numpy().astype(np.int64),
        answered=answered,
        min_ns=low,
        max_ns=high,
        p50_ns=p50,
        p99_ns=p99,
        above=np.array(rows, dtype=np.int64).reshape(len(thresholds_ns), keys.size),
        error=2.0 ** (shift - 11),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
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
    """Raw samples; refuses more than `limit`, for which there are `envelope` and `blocks`."""
    if recording.rows > limit:
        sql = f"SELECT count(*) FROM samples WHERE {selection.where()}"
        ((count,),) = engine.rows(recording.source, sql, list(SELECTED))
        if count > limit:
            raise FathometerError(
                "load samples",
                f"{recording.directory}: {count:,} of them, more than {limit:,}",
                "ask for a shorter time or for one connection",
            )
    table = engine.arrow(
        recording.source,
        f"""SELECT connection, seq, sent_ns, ({METRICS[metric]})::DOUBLE AS v, flags FROM samples
            WHERE {selection.where()} ORDER BY sent_ns, connection, seq""",
        columns_of(metric, "seq"),
    )
    return Samples(
        table.column("connection").to_numpy().astype(np.int64),
        table.column("seq").to_numpy(),
        table.column("sent_ns").to_numpy(),
        table.column("v").to_numpy(zero_copy_only=False).astype(np.float64),
        table.column("flags").to_numpy(),
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
    return samples(recording, metric, Selection(first=True, warm_up=warm_up))


@dataclass(frozen=True, slots=True, eq=False)
class Chunks:
    """Stretches of equally many consecutive samples of each connection, counted from its end.

    Chunk 0 of a connection holds its last `records` samples, chunk 1 those before; the oldest may hold fewer.
    So the five chunks before an end are comparable to any other five of the same connection.

    Attributes:
        records: samples in a chunk, by seq; unanswered ones have their place.
        connection: ordinal, ascending.
        from_end: number of the chunk, ascending within a connection.
        start_ns: when its first sample was sent.
        end_ns: when its last was.
        sent: samples in it.
        answered: of those, answered.
        mean_ns: mean of the answered; NaN if none.
        min_ns: smallest; NaN if none.
        max_ns: largest; NaN if none.
    """

    records: int
    connection: Ints
    from_end: Ints
    start_ns: Ints
    end_ns: Ints
    sent: Ints
    answered: Ints
    mean_ns: Floats
    min_ns: Floats
    max_ns: Floats


def chunks(
    recording: Recording, records: int = 100, metric: str = "rtt", selection: Selection = ALL
) -> Chunks:
    """Cuts every connection into stretches of so many samples, aligned to its end; see `Chunks`."""
    if records < 1:
        raise ValueError("at least one record a chunk")
    value = f"({METRICS[metric]})"
    table = engine.arrow(
        recording.source,
        f"""SELECT connection AS c, (e.last - seq) // {records} AS k, min(sent_ns) AS s, max(sent_ns) AS t,
              count(*) AS sent, count(v) AS n, avg(v) AS mean, min(v) AS low, max(v) AS high
            FROM (SELECT connection, seq, sent_ns, {value}::BIGINT AS v FROM samples WHERE
            {selection.where()}) JOIN (SELECT connection, max(seq) AS last FROM samples WHERE
            {selection.where()} GROUP BY connection) e
              USING (connection)
            GROUP BY c, k ORDER BY c, k""",
        columns_of(metric, "seq"),
    )

    def ints(name: str) -> Ints:
        found: Ints = table.column(name).to_numpy().astype(np.int64)
        return found

    def floats(name: str) -> Floats:
        found: Floats = table.column(name).to_numpy(zero_copy_only=False).astype(np.float64)
        return found

    return Chunks(
        records, ints("c"), ints("k"), ints("s"), ints("t"), ints("sent"), ints("n"),
        floats("mean"), floats("low"), floats("high"),
    )  # fmt: skip


def tails(
    recording: Recording, records: int = 500, metric: str = "rtt", selection: Selection = ALL
) -> dict[int, Samples]:
    """The last so many answered samples of each connection, oldest first."""
    value = f"({METRICS[metric]})"
    answered = f"FROM samples WHERE {selection.where()} AND {value} IS NOT NULL"
    last_seqs = engine.rows(
        recording.source,
        f"SELECT connection, max(seq), count(*) {answered} GROUP BY connection ORDER BY connection",
        columns_of(metric, "seq"),
    )

    def ask(batch: Sequence[tuple[int, int]]) -> pa.Table:
        # Numbers, not a join: Parquet's statistics then spare all that lies far from an end.
        near = " OR ".join(f"(connection = {int(c)} AND seq >= {int(least)})" for c, least in batch)
        sql = f"""SELECT connection, seq, sent_ns, {value}::DOUBLE AS v, flags {answered} AND ({near})
            QUALIFY row_number() OVER (PARTITION BY connection ORDER BY seq DESC) <= {int(records)}"""
        return engine.arrow(recording.source, sql, columns_of(metric, "seq"))

    parts = []
    for start in range(0, len(last_seqs), _TAILS_AT_ONCE):
        batch = last_seqs[start : start + _TAILS_AT_ONCE]
        found = ask([(c, max(last - 2 * records, 0)) for c, last, _ in batch])
        counts = found.group_by("connection").aggregate([([], "count_all")])
        had = dict(zip(*(counts.column(n).to_pylist() for n in ("connection", "count_all")), strict=True))
        # Where losses leave too few near the end, all of the connection is looked at.
        few = [(c, 0) for c, _, n in batch if had.get(c, 0) < min(records, n)]
        if few:
            lossy = pa.array([c for c, _ in few], found.column("connection").type)
            found = found.filter(pc.invert(pc.is_in(found.column("connection"), value_set=lossy)))
            found = pa.concat_tables([found, ask(few)])
        parts.append(found)
    if not parts:
        return {}
    table = pa.concat_tables(parts).sort_by([("connection", "ascending"), ("seq", "ascending")])
    connection = table.column("connection").to_numpy().astype(np.int64)
    keys, first = np.unique(connection, return_index=True)
    ends = np.append(first, connection.size)[1:]
    seq, sent, v, flags = (table.column(c).to_numpy() for c in ("seq", "sent_ns", "v", "flags"))
    return {
        key: Samples(connection[i:j], seq[i:j], sent[i:j], v[i:j].astype(np.float64), flags[i:j])
        for key, i, j in zip(keys.tolist(), first.tolist(), ends.tolist(), strict=True)
    }
