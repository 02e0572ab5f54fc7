"""One pass over a recording's samples: its rollup, and the little besides that a rollup cannot hold.

Batches of a few ten thousand rows are counted by dense tables in a processor's cache; segments are read by as
many threads as there are processors. Sums are exact: each is the bucket's lower bound times the count, and
what is above it, which is so small that floating point adds it up without rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fathometer.dataset.batches import Batch, batches
from fathometer.dataset.by_connection import SLICES, ByConnection, ConnectionTally, by_connection
from fathometer.dataset.format import Flags
from fathometer.dataset.histogram import (
    MAX_NS,
    Floats,
    Histogram,
    Ints,
    bucket_low,
    bucket_of,
)
from fathometer.dataset.rollup import BUCKET_BITS, SHIFT, Cells, PathCounts, PathKey, Rollup, added, packed
from fathometer.dataset.selection import ALL, SILENCE, Selection
from fathometer.dataset.source import Closed, Source
from fathometer.dataset.steps import step_of
from fathometer.errors import FathometerError
from fathometer.portable import processors

_DENSE: Final = 4
"""Cells a sample up to which counting goes by a dense table, an order of magnitude faster than sorting."""
_JOIN_AT: Final = 32
"""Parts that are put together before there are more: memory goes by rows of the rollup, not by samples."""
LATEST_NS: Final = 4_102_444_800_000_000_000
"""2100-01-01: whoever sent later has no clock."""
LONGEST_NS: Final = 10 * 366 * 86_400_000_000_000
"""Ten years: a recording that says to be longer is damaged."""
MOST_NS: Final = 1 << 53
"""A hundred days: no round trip is longer, and sums stay exact."""
_FEWEST: Final = 10
"""Samples of a connection from which its median is compared with its first one."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a pass shall find besides the rollup."""

    ways: bool = False
    """Histograms of the delays of both ways."""
    openings: bool = False
    """Each connection's first sample, and its others."""
    connections: bool = False
    """How many connections carried samples."""


@dataclass(frozen=True, slots=True, eq=False)
class Openings:
    """One entry a connection that has a first answered sample and enough others."""

    first_ns: Floats
    median_ns: Floats
    """Of all its samples after warm-up, within 0.1 %."""


@dataclass(frozen=True, slots=True, eq=False)
class Scanned:
    """What a pass found."""

    rollup: Rollup
    forward: Histogram | None = None
    """None: not wanted."""
    backward: Histogram | None = None
    openings: Openings | None = None
    connections: Mapping[PathKey, ConnectionTally] | None = None

    def by_connection(self, selection: Selection = ALL) -> ByConnection | None:
        """The answered samples of each connection; None: not wanted."""
        return None if self.connections is None else by_connection(self.connections, selection)


def scan(where: str, source: Source, wanted: Wanted) -> Scanned:
    """Counts all samples. `where` names the recording in an error."""
    first, last = span(source)
    if first < 0 or last >= LATEST_NS:
        raise _refused(where, "its samples say that they were sent before 1970 or after 2100")
    if last - first > LONGEST_NS:
        raise _refused(where, "its first and its last sample are more than ten years apart")
    step_ns = step_of(first, last)
    parts = _Parts(_Steps(step_ns, first // step_ns, first, (last - first) // SLICES + 1), wanted)
    columns = ["sent_ns", "rtt_ns", "rtt_bucket", "flags", "size", SILENCE]
    columns += ["forward_ns", "backward_ns"] if wanted.ways else []
    columns += ["connection"] if wanted.connections or wanted.openings else []
    if not source.has_silences:
        columns.remove(SILENCE)
    try:
        for part in _each(source, lambda each: _counted(batches(each, columns), parts.empty())):
            parts.add(part)
    except _BadValueError as error:
        raise _refused(where, str(error)) from None
    except (OSError, ValueError, MemoryError, pa.ArrowException) as error:
        raise _refused(where, str(error).splitlines()[0][:200] if str(error) else "it is damaged") from None
    return parts.answer()


def _refused(where: str, reason: str) -> FathometerError:
    return FathometerError("read samples", f"{where}: {reason}", "check it with `fathom recording verify`")


class _BadValueError(Exception):
    """A value that no recorder writes."""


def span(source: Source) -> tuple[int, int]:
    """When the first and the last sample was sent; (0, 0) without samples."""
    firsts = [c.first_sent_ns for c in source.closed if c.rows]
    lasts = [c.last_sent_ns for c in source.closed if c.rows]
    if source.open is not None and source.open.num_rows:
        import pyarrow.compute as pc

        bounds = pc.min_max(source.open.column("sent_ns")).as_py()
        firsts.append(bounds["min"])
        lasts.append(bounds["max"])
    return (min(firsts), max(lasts)) if firsts else (0, 0)


def _each(source: Source, count: Callable[[Closed | pa.Table], _Parts]) -> Iterator[_Parts]:
    """The parts of every segment, as they come."""
    several = min(processors(), len(source.closed))
    if several > 1:
        with ThreadPoolExecutor(several) as workers:
            yield from workers.map(count, source.closed)
    else:
        yield from map(count, source.closed)
    if source.open is not None:
        yield count(source.open)


def _counted(every: Iterable[Batch], into: _Parts) -> _Parts:
    for batch in every:
        into.count(batch)
    return into


@dataclass(frozen=True, slots=True)
class _Steps:
    """How a recording's time is cut. Within a pass steps are numbered from its first one: since the epoch
    there may be more than fit beside a bucket into 64 bits.
    """

    length_ns: int
    first: int
    first_sent_ns: int
    slice_ns: int
    """Length of the slices by which connections are compared."""


class _Tally:
    """Counts of one path so far."""

    def __init__(self) -> None:
        self.samples = self.answered = self.late = self.corrupted = 0
        self.first_sent_ns = self.min_ns = np.iinfo(np.int64).max
        self.last_sent_ns = self.max_ns = -1
        self.rows: list[tuple[Ints, ...]] = []

    def add(self, other: _Tally) -> None:
        self.samples += other.samples
        self.answered += other.answered
        self.late += other.late
        self.corrupted += other.corrupted
        self.first_sent_ns = min(self.first_sent_ns, other.first_sent_ns)
        self.last_sent_ns = max(self.last_sent_ns, other.last_sent_ns)
        self.min_ns = min(self.min_ns, other.min_ns)
        self.max_ns = max(self.max_ns, other.max_ns)
        self.rows += other.rows
        if len(self.rows) >= _JOIN_AT:
            self.rows = [self.joined()]

    def joined(self) -> tuple[Ints, ...]:
        columns = [np.concatenate(c) for c in zip(*self.rows, strict=True)]
        self.rows = []  # There is no room for both.
        return added(*columns)

    def counts(self, key: PathKey) -> PathCounts:
        return PathCounts(
            key,
            self.samples,
            self.answered,
            self.late,
            self.corrupted,
            int(self.first_sent_ns),
            int(self.last_sent_ns),
            int(self.min_ns) if self.answered else 0,
            int(self.max_ns) if self.answered else 0,
        )

    def cells(self, first_step: int) -> Cells:
        cell, number, total = self.joined()
        # Lost samples come first in their step: their bucket is one below the first.
        bucket = (cell & ((1 << BUCKET_BITS) - 1)) - 1
        return packed((cell >> BUCKET_BITS) + first_step, bucket, number, total)


class _Parts:
    """What batches came to, added up."""

    def __init__(self, steps: _Steps, wanted: Wanted) -> None:
        self._steps, self._wanted = steps, wanted
        self._paths: dict[PathKey, _Tally] = {}
        self._ways: dict[str, list[Histogram]] = {"forward": [], "backward": []}
        self._first: list[tuple[Ints, Floats]] = []
        self._of_connections: dict[PathKey, ConnectionTally] = {}
        self._connections: set[int] = set()

    def empty(self) -> _Parts:
        return _Parts(self._steps, self._wanted)

    def add(self, other: _Parts) -> None:
        for key, tally in other._paths.items():
            self._paths.setdefault(key, _Tally()).add(tally)
        for way, histograms in other._ways.items():
            self._ways[way] += histograms
        self._first += other._first
        for key, connections in other._of_connections.items():
            self._of_connections.setdefault(key, ConnectionTally()).add(connections)
        self._connections |= other._connections

    def count(self, batch: Batch) -> None:
        flags = batch.column("flags")
        plain = not flags.any()
        for key, mask in _paths_of(batch, flags, plain=plain):
            part = batch if mask is None else batch.part(mask)
            self._paths.setdefault(key, _Tally()).add(_one_path(part, self._steps, plain=plain))
            if self._wanted.openings and not key.warm_up:
                self._by_connection(key, part)
        if self._wanted.ways:
            warm = None if plain else (flags & int(Flags.WARM_UP)) == 0
            for way in self._ways:
                self._ways[way].append(_way(batch if warm is None else batch.part(warm), way))
        if self._wanted.connections or self._wanted.openings:
            connection = batch.column("connection").astype(np.int64)
            if self._wanted.connections:
                self._connections |= set(np.unique(connection).tolist())
            if self._wanted.openings:
                self._open(batch, connection, flags)

    def _open(self, batch: Batch, connection: Ints, flags: npt.NDArray[Any]) -> None:
        known, rtt = batch.known("rtt_ns"), batch.column("rtt_ns")
        answered = np.ones(batch.rows, dtype=np.bool_) if known is None else known
        first = answered & ((flags & int(Flags.FIRST_ON_CONNECTION)) != 0)
        if first.any():
            self._first.append((connection[first], rtt[first].astype(np.float64)))

    def _by_connection(self, key: PathKey, batch: Batch) -> None:
        known = batch.known("rtt_ns")
        answered = batch if known is None else batch.part(known)
        if not answered.rows:
            return
        connection = answered.column("connection").astype(np.int64)
        rtt, bucket = answered.column("rtt_ns"), answered.column("rtt_bucket")
        slices = (answered.column("sent_ns") - self._steps.first_sent_ns) // self._steps.slice_ns
        slices = np.clip(slices, 0, SLICES - 1)  # Of a damaged row.
        cells = _answered(connection, bucket, rtt, int(rtt.min()), int(rtt.max()))
        tally = self._of_connections.setdefault(key, ConnectionTally())
        tally.count(cells, connection, slices, bucket.astype(np.int64))

    def answer(self) -> Scanned:
        keys = sorted(self._paths)
        for connections in self._of_connections.values():
            connections.join()
        rollup = Rollup(
            self._steps.length_ns,
            tuple(self._paths[key].counts(key) for key in keys),
            tuple(self._paths[key].cells(self._steps.first) for key in keys),
            len(self._connections) if self._wanted.connections else None,
        )
        ways = {way: Histogram.merge(parts) for way, parts in self._ways.items()}
        return Scanned(
            rollup,
            ways["forward"] if self._wanted.ways else None,
            ways["backward"] if self._wanted.ways else None,
            self._openings() if self._wanted.openings else None,
            self._of_connections if self._wanted.openings else None,
        )

    def _openings(self) -> Openings:
        every = by_connection(self._of_connections, ALL)
        if not self._first or not len(every.ids):
            return Openings(np.zeros(0), np.zeros(0))
        connection, first = (np.concatenate(c) for c in zip(*self._first, strict=True))
        median, sizes = every.medians(), every.sizes()
        place = np.minimum(np.searchsorted(every.ids, connection), len(every.ids) - 1)
        enough = (every.ids[place] == connection) & (sizes[place] >= _FEWEST)
        return Openings(first[enough], median[place[enough]])


def _paths_of(
    batch: Batch, flags: npt.NDArray[Any], *, plain: bool
) -> Iterator[tuple[PathKey, npt.NDArray[np.bool_] | None]]:
    """The paths of a batch with the rows of each; None: all rows. One at a time, as there may be
    thousands.
    """
    silence = batch.column(SILENCE) if batch.has(SILENCE) else None
    if plain and batch.only_size is not None and silence is None:
        yield PathKey(batch.only_size, False, 0, False), None
        return
    load, warm = int(Flags.UNDER_LOAD), int(Flags.WARM_UP)
    bits = (flags & (load | warm)).astype(np.int64)
    keys = bits if batch.only_size is not None else batch.column("size").astype(np.int64) << 8 | bits
    if silence is not None:
        kinds, index = np.unique(silence, return_inverse=True)
        code = keys * len(kinds) + index
    else:
        kinds, code = np.zeros(1, dtype=np.int64), keys
    codes, place, number = np.unique(code, return_inverse=True, return_counts=True)
    for i, each in enumerate(codes.tolist()):
        key, kind = divmod(each, len(kinds))
        size = batch.only_size if batch.only_size is not None else key >> 8
        path = PathKey(size, bool(key & load), int(kinds[kind]), bool(key & warm))
        yield path, None if number[i] == batch.rows else place == i


def _one_path(batch: Batch, steps: _Steps, *, plain: bool) -> _Tally:
    """Counts samples of one path; at least one."""
    tally = _Tally()
    sent, known = batch.column("sent_ns"), batch.known("rtt_ns")
    step = sent // steps.length_ns - steps.first
    tally.samples = batch.rows
    tally.first_sent_ns, tally.last_sent_ns = int(sent.min()), int(sent.max())
    if not plain:
        flags = batch.column("flags")
        tally.late = int(np.count_nonzero(flags & int(Flags.ANSWERED_LATE)))
        tally.corrupted = int(np.count_nonzero(flags & int(Flags.CORRUPTED)))
    rtt, bucket = batch.column("rtt_ns"), batch.column("rtt_bucket")
    if known is not None:
        lost, step = step[~known], step[known]
        rtt, bucket = rtt[known], bucket[known]
        if len(lost):
            cell, number = added(np.sort(lost) << BUCKET_BITS, np.ones_like(lost))
            tally.rows.append((cell, number, np.zeros_like(number)))
    tally.answered = len(step)
    if len(step):
        tally.min_ns, tally.max_ns = int(rtt.min()), int(rtt.max())
        tally.rows.append(_answered(step, bucket, rtt, tally.min_ns, tally.max_ns))
    return tally


def _answered(
    step: Ints, bucket: npt.NDArray[Any], rtt: Ints, least: int, most: int
) -> tuple[Ints, Ints, Ints]:
    """Cells of answered samples, by step (or connection) and bucket: number and exact sum."""
    if least < 0 or most >= MOST_NS:
        raise _BadValueError("a round trip is negative or longer than a hundred days")
    # Two fine buckets are one; numbered on from 1, as `LOST` is 0.
    coarse = bucket.astype(np.int64) >> SHIFT
    first_step, first = int(step.min()), int(coarse.min())
    wide, high = int(coarse.max()) - first + 1, int(step.max()) - first_step + 1
    low = bucket_low(np.arange(first, first + wide + 1, dtype=np.int64) << SHIFT)
    place = coarse - first
    above = rtt - low[place]
    fits = most <= MAX_NS
    wrong = (
        int(above.min()) < 0 or bool((above >= (low[1:] - low[:-1])[place]).any())
        if fits
        else bool((bucket != bucket_of(rtt)).any())
    )
    if wrong:
        raise _BadValueError("an rtt_bucket is not that of its rtt_ns")
    if fits and high * wide <= _DENSE * max(len(step), 1 << 14):
        index = (step - first_step) * wide + place
        table = np.bincount(index, minlength=high * wide)
        extra = np.bincount(index, weights=above, minlength=high * wide)
        at = np.flatnonzero(table)
        number, over = table[at], extra[at].astype(np.int64)
        step_at, place_at = at // wide + first_step, at % wide
    else:
        index = (step - first_step) * wide + place
        order = np.argsort(index, kind="stable")
        index, number, over = added(index[order], np.ones_like(index), above[order])
        step_at, place_at = index // wide + first_step, index % wide
    cell = step_at << BUCKET_BITS | ((place_at + first) << SHIFT) + 1
    return cell, number, low[place_at] * number + over


def _way(batch: Batch, way: str) -> Histogram:
    known, values = batch.known(f"{way}_ns"), batch.column(f"{way}_ns")
    return Histogram.of(values if known is None else values[known], SHIFT)
