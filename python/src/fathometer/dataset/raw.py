"""Excerpts of raw samples: around changes, at the ends of connections, and short recordings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from fathometer.dataset.batches import Batch, Bools, batch_of, batches
from fathometer.dataset.format import Flags
from fathometer.dataset.histogram import Floats, Ints
from fathometer.dataset.layout import row_batches
from fathometer.dataset.selection import ALL, SILENCE, Selection
from fathometer.dataset.source import Closed, opened
from fathometer.errors import FathometerError

if TYPE_CHECKING:
    from fathometer.dataset.recording import Recording

MAX_SAMPLES: Final = 20_000_000
"""Raw samples that are loaded at once, at most: with three columns half a gigabyte."""
_AFTER_NS: Final = 60_000_000_000
_COLUMNS: Final = ("connection", "seq", "sent_ns", "flags", "rtt_ns", "size")


class Samples(NamedTuple):
    """Raw samples in the order of sending. NaN: unanswered."""

    connection: Ints
    seq: npt.NDArray[np.uint64]
    sent_ns: Ints
    value_ns: Floats
    """Round trips; exact: integers below 2^53."""
    flags: npt.NDArray[np.uint16]


def samples(recording: Recording, selection: Selection = ALL, *, limit: int = MAX_SAMPLES) -> Samples:
    """Raw samples; raises `FathometerError` where there are more than `limit`, and where there are none
    because the recording is known by its rollup only.
    """
    if recording.source is None:
        raise FathometerError(
            "load samples",
            f"{recording.directory} is a rollup, which has no samples",
            "name the recording itself",
        )
    names = [*_COLUMNS, SILENCE] if recording.source.has_silences else list(_COLUMNS)
    parts: list[Samples] = []
    count = 0
    with _damage_named(recording):
        for batch in _near(recording, selection, names):
            chosen = _chosen(batch, selection)
            count += chosen.rows
            if count > limit:
                raise FathometerError(
                    "load samples",
                    f"{recording.directory}: more than {limit:,} of them",
                    "ask for a shorter time or for one connection",
                )
            if chosen.rows:
                parts.append(_samples(chosen))
    return _ordered(parts)


@contextmanager
def _damage_named(recording: Recording) -> Iterator[None]:
    """Names the recording whose files cannot be read."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0] if str(error) else "it is damaged"
        raise FathometerError(
            "read samples", f"{recording.directory}: {reason}", "check it with `fathom recording verify`"
        ) from None


def _chosen(batch: Batch, selection: Selection) -> Batch:
    mask = _mask(batch, selection)
    return batch if mask is None or mask.all() else batch.part(mask)


def _samples(batch: Batch) -> Samples:
    value = batch.column("rtt_ns").astype(np.float64)
    known = batch.known("rtt_ns")
    if known is not None:
        value[~known] = np.nan
    connection = batch.column("connection").astype(np.int64)
    return Samples(connection, batch.column("seq"), batch.column("sent_ns"), value, batch.column("flags"))


def _ordered(parts: Sequence[Samples]) -> Samples:
    if not parts:
        none = np.zeros(0, dtype=np.int64)
        return Samples(none, none.astype(np.uint64), none, np.zeros(0), none.astype(np.uint16))
    columns = [np.concatenate(c) if len(parts) > 1 else c[0] for c in zip(*parts, strict=True)]
    if not (columns[2][1:] > columns[2][:-1]).all():
        order = np.lexsort((columns[1], columns[0], columns[2]))
        columns = [c[order] for c in columns]
    return Samples(*columns)


def _near(recording: Recording, selection: Selection, names: list[str]) -> Iterator[Batch]:
    """Batches that may hold what is wanted: segments and row groups of another time are not read."""
    assert recording.source is not None
    for closed in recording.source.closed:
        if not _overlaps(selection, closed.first_sent_ns, closed.last_sent_ns):
            continue
        if selection.start_ns is None and selection.end_ns is None:
            yield from batches(closed, names)
        else:
            yield from _groups(closed, selection, names)
    if recording.source.open is not None:
        yield from batches(recording.source.open, names)


def _groups(closed: Closed, selection: Selection, names: list[str]) -> Iterator[Batch]:
    with opened(closed) as file, pq.ParquetFile(file) as parquet:
        wanted = _wanted(parquet, selection)
        if wanted:
            for part in row_batches(parquet, names, groups=wanted):
                yield batch_of(part, None)


def _wanted(parquet: pq.ParquetFile, selection: Selection) -> list[int]:
    """The row groups that may hold samples of that time."""
    at = parquet.schema_arrow.get_field_index("sent_ns")
    wanted = []
    for group in range(parquet.metadata.num_row_groups):
        statistics = parquet.metadata.row_group(group).column(at).statistics
        if (
            statistics is None
            or not statistics.has_min_max
            or _overlaps(selection, statistics.min, statistics.max)
        ):
            wanted.append(group)
    return wanted


def _overlaps(selection: Selection, first_ns: int, last_ns: int) -> bool:
    return (selection.start_ns is None or last_ns >= selection.start_ns) and (
        selection.end_ns is None or first_ns < selection.end_ns
    )


def _mask(batch: Batch, selection: Selection) -> Bools | None:
    """Which rows are wanted; None: all."""
    terms: list[Bools] = []
    flags, sent = batch.column("flags"), batch.column("sent_ns")
    if selection.start_ns is not None:
        terms.append(sent >= selection.start_ns)
    if selection.end_ns is not None:
        terms.append(sent < selection.end_ns)
    if selection.connection is not None:
        terms.append(batch.column("connection") == selection.connection)
    if selection.size is not None and batch.only_size != selection.size:
        terms.append(
            np.zeros(batch.rows, dtype=np.bool_)
            if batch.only_size is not None
            else batch.column("size") == selection.size
        )
    if selection.silence is not None:
        terms.append(batch.column(SILENCE) == selection.silence.code)
    if selection.under_load is not None:
        terms.append(((flags & int(Flags.UNDER_LOAD)) != 0) == selection.under_load)
    if not selection.warm_up and flags.any():
        terms.append((flags & int(Flags.WARM_UP)) == 0)
    return np.logical_and.reduce(terms) if terms else None


def _last(recording: Recording, connection: int, closed_ns: int, most: int) -> Samples:
    """The last samples of a connection, somewhat more than `most` where there are more. They are read from
    the end: how many there are before them costs nothing.
    """
    assert recording.source is not None
    # Clocks may be set while it ends; what is later than this is of other connections.
    wanted = Selection(connection=connection, end_ns=closed_ns + _AFTER_NS)
    parts: list[Samples] = []
    count = 0
    with _damage_named(recording):
        for group in _backwards(recording, wanted):
            for batch in group:
                chosen = _chosen(batch, wanted)
                if chosen.rows:
                    parts.append(_samples(chosen))
                    count += chosen.rows
            if count > most:
                break
    return _ordered(parts)


def _backwards(recording: Recording, selection: Selection) -> Iterator[list[Batch]]:
    """What may hold what is wanted, a row group each, from the last to the first."""
    assert recording.source is not None
    names = list(_COLUMNS)
    if recording.source.open is not None:
        yield list(batches(recording.source.open, names))
    for closed in reversed(recording.source.closed):
        if not _overlaps(selection, closed.first_sent_ns, closed.last_sent_ns):
            continue
        with opened(closed) as file, pq.ParquetFile(file) as parquet:
            for group in reversed(_wanted(parquet, selection)):
                yield [batch_of(part, None) for part in row_batches(parquet, names, groups=[group])]


def last_means(
    recording: Recording, connection: int, closed_ns: int, length: int, most: int = 50_000
) -> Floats:
    """Means of the answered samples in each stretch of `length` samples of a connection, counted from its
    last one, oldest first. Stretches that are not whole (by seq), or have no answer, are left out; of a
    connection with more than about `most` samples those before are not looked at.
    """
    mine = _last(recording, connection, closed_ns, most)
    if not len(mine.seq):
        return np.zeros(0)
    seq = mine.seq.astype(np.int64)
    number = (int(seq.max()) - seq) // length
    known = ~np.isnan(mine.value_ns)
    sent = np.bincount(number)
    answered = np.bincount(number[known], minlength=len(sent))
    total = np.bincount(number[known], weights=mine.value_ns[known], minlength=len(sent))
    whole = (sent == length) & (answered > 0)
    means: Floats = (total[whole] / answered[whole])[::-1]
    return means
