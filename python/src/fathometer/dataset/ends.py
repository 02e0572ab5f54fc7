"""The ends of connections: their last samples, and stretches counted from there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fathometer.dataset import engine, scan
from fathometer.dataset.aggregate import columns_of
from fathometer.dataset.batches import Batch
from fathometer.dataset.histogram import Floats, Ints
from fathometer.dataset.recording import Recording
from fathometer.dataset.selection import ALL, Selection, metric_named
from fathometer.dataset.series import NO_VALUE, Samples, samples_of
from fathometer.dataset.tally import joined_runs, runs

_TAILS_AT_ONCE: Final = 256


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


class _Stretches(NamedTuple):
    connection: Ints
    from_end: Ints
    start: Ints
    end: Ints
    sent: Ints
    answered: Ints
    total: Ints
    low: Ints
    high: Ints


@dataclass(frozen=True, slots=True)
class Stretches(scan.Question[_Stretches, Chunks]):
    """`Chunks` of some connections."""

    metric: str
    selection: Selection
    records: int
    last: tuple[tuple[int, int], ...]
    """The connections, ascending, each with the seq of its last sample."""

    def columns(self) -> Iterable[str]:
        """See `Question`."""
        return columns_of(self.metric, self.selection, "seq")

    def part(self, batch: Batch) -> _Stretches | None:
        """See `Question`."""
        every = batch.chosen(self.selection)
        if not every.rows or not self.last:
            return None
        wanted, last = (np.array(x, dtype=np.int64) for x in zip(*self.last, strict=True))
        connection = every.column("connection").astype(np.int64)
        place = np.minimum(np.searchsorted(wanted, connection), len(wanted) - 1)
        mine = np.flatnonzero(wanted[place] == connection)
        if not len(mine):
            return None
        connection = connection[mine]
        from_end = (last[place[mine]] - every.column("seq")[mine].astype(np.int64)) // self.records
        known = every.has(self.metric)[mine]
        value = np.where(known, every.values(self.metric)[mine], 0)
        at = runs(connection, from_end)
        sent = every.column("sent_ns")[mine]
        return _Stretches(
            connection[at],
            from_end[at],
            np.minimum.reduceat(sent, at),
            np.maximum.reduceat(sent, at),
            np.diff(at, append=len(mine)),
            np.add.reduceat(known.astype(np.int64), at),
            np.add.reduceat(value, at),
            np.minimum.reduceat(np.where(known, value, NO_VALUE), at),
            np.maximum.reduceat(np.where(known, value, -1), at),
        )

    def joined(self, parts: Sequence[_Stretches]) -> _Stretches:
        """See `Question`."""
        how = (np.minimum, np.maximum, np.add, np.add, np.add, np.minimum, np.maximum)
        return _Stretches(*joined_runs(parts, how, keys=2))

    def answer(self, part: _Stretches | None) -> Chunks:
        """See `Question`."""
        none = np.zeros(0, dtype=np.int64)
        # A run may not be whole, and may come again: even one part is to be joined.
        s = self.joined([part]) if part else _Stretches(*(none,) * 9)
        n = s.answered
        mean, low, high = (np.where(n > 0, x, np.nan) for x in (s.total / np.maximum(n, 1), s.low, s.high))
        return Chunks(self.records, s.connection, s.from_end, s.start, s.end, s.sent, n, mean, low, high)


def stretches(
    recording: Recording,
    records: int = 100,
    metric: str = "rtt",
    selection: Selection = ALL,
    connections: Iterable[int] | None = None,
) -> Stretches:
    """What `chunks` asks."""
    if records < 1:
        raise ValueError("at least one record a chunk")
    wanted = None if connections is None else set(connections)
    last = tuple((c, seq) for c, seq in recording.last_seqs.items() if wanted is None or c in wanted)
    return Stretches(metric, selection, records, last)


def chunks(
    recording: Recording,
    records: int = 100,
    metric: str = "rtt",
    selection: Selection = ALL,
    connections: Iterable[int] | None = None,
) -> Chunks:
    """Cuts connections (all unless some are named) into stretches of so many samples, aligned to the end of
    each; see `Chunks`.
    """
    return scan.ask(recording, stretches(recording, records, metric, selection, connections))


def tails(
    recording: Recording, records: int = 500, metric: str = "rtt", selection: Selection = ALL
) -> dict[int, Samples]:
    """The last so many answered samples of each connection, oldest first."""
    value = metric_named(metric).sql
    answered = f"FROM samples WHERE {selection.where()} AND {value} IS NOT NULL"
    last_seqs = engine.rows(
        recording.source,
        f"SELECT connection, max(seq), count(*) {answered} GROUP BY connection ORDER BY connection",
        columns_of(metric, selection, "seq"),
    )

    def ask(batch: Sequence[tuple[int, int]]) -> pa.Table:
        # Numbers, not a join: Parquet's statistics then spare all that lies far from an end.
        near = " OR ".join(f"(connection = {int(c)} AND seq >= {int(least)})" for c, least in batch)
        sql = f"""SELECT connection, seq, sent_ns, {value}::DOUBLE AS v, flags {answered} AND ({near})
            QUALIFY row_number() OVER (PARTITION BY connection ORDER BY seq DESC) <= {int(records)}"""
        return engine.arrow(recording.source, sql, columns_of(metric, selection, "seq"))

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
    every = samples_of(table)
    keys, first = np.unique(every.connection, return_index=True)
    ends = np.append(first, every.connection.size)[1:]
    return {
        key: Samples(
            every.connection[i:j],
            every.seq[i:j],
            every.sent_ns[i:j],
            every.value_ns[i:j],
            every.flags[i:j],
        )
        for key, i, j in zip(keys.tolist(), first.tolist(), ends.tolist(), strict=True)
    }
