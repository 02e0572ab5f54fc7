"""DuckDB over the samples of a recording: closed segments as Parquet, the open one as an Arrow table.

Every query streams; what it keeps is its groups. Raw samples leave only by `query.samples`, which is bounded.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path as FilePath
from typing import Any, Final

import duckdb
import pyarrow as pa

from fathometer.dataset.format import Flags, arrow_schema
from fathometer.dataset.histogram import MAX_NS, SUB_BITS, SUB_BUCKETS
from fathometer.dataset.selection import SILENCE, Selection, Silence
from fathometer.errors import FathometerError

MEMORY_LIMIT: Final = "1GiB"
"""DuckDB's own share of our 2 GiB; beyond it, it spills to the disk."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where the samples are."""

    parquet: tuple[FilePath, ...]
    open: pa.Table | None

    @property
    def has_silences(self) -> bool:
        """Whether there is the column that `silences` makes."""
        return self.open is not None and SILENCE in self.open.column_names


@cache
def _instance() -> duckdb.DuckDBPyConnection:
    """The process's one DuckDB; what is asked of it runs on cursors of its own."""
    spill = FilePath(tempfile.gettempdir()) / f"fathometer-{os.getpid()}"
    return duckdb.connect(
        ":memory:",
        config={
            "memory_limit": MEMORY_LIMIT,
            "threads": max(1, len(os.sched_getaffinity(0))),
            "temp_directory": str(spill),
            "preserve_insertion_order": False,
            # Nothing is ever fetched or installed behind the user's back.
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        },
    )


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _unglobbed(path: FilePath) -> str:
    """A path as DuckDB's pattern that matches just it: a label may hold what a pattern means otherwise."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in str(path.absolute()))


@contextmanager
def _samples(source: Source, columns: Sequence[str]) -> Iterator[tuple[duckdb.DuckDBPyConnection, str]]:
    """A cursor, and the beginning of a query that makes ``samples`` the table of the samples."""
    wanted = ", ".join(columns)
    parts = []
    if source.parquet:
        files = ", ".join(_literal(_unglobbed(p)) for p in source.parquet)
        parts.append(f"SELECT {wanted} FROM read_parquet([{files}], hive_partitioning = false)")
    table = source.open
    if table is None and not parts:
        table = arrow_schema().empty_table()
    with _instance().cursor() as cursor:
        if table is not None:
            cursor.register("open_segment", table)
            parts.append(f"SELECT {wanted} FROM open_segment")
        try:
            yield cursor, f"WITH samples AS ({' UNION ALL '.join(parts)}) "
        except duckdb.OutOfMemoryException as error:
            raise FathometerError(
                "read samples", f"{error}", "free space in the directory for temporary files (TMPDIR)"
            ) from None
        except (duckdb.IOException, duckdb.InvalidInputException) as error:
            where = source.parquet[0].parent if source.parquet else "an open segment"
            raise FathometerError(
                "read samples", f"{where}: {error}", "check it with `fathom recording verify`"
            ) from None


def arrow(source: Source, sql: str, columns: Sequence[str]) -> pa.Table:
    """Runs a query as an Arrow table; ``samples`` in it is the table of the samples, with the columns
    named.
    """
    with _samples(source, columns) as (cursor, samples):
        return cursor.sql(samples + sql).to_arrow_table()


def rows(source: Source, sql: str, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """As `arrow`, the result as Python rows."""
    with _samples(source, columns) as (cursor, samples):
        found: list[tuple[Any, ...]] = cursor.execute(samples + sql).fetchall()
        return found


def bucket_sql(value: str) -> str:
    """The bucket of a value in ns, in integers only (``schema/recording.md``)."""
    clipped = f"least(greatest({value}, 0), {MAX_NS})"
    # Position of the highest bit: the length of the binary digits; exact, unlike a logarithm.
    octave = f"greatest(length(bin({clipped})) - {SUB_BITS + 1}, 0)"
    return f"({SUB_BUCKETS} * {octave} + ({clipped} >> {octave}))"


@dataclass(frozen=True, slots=True)
class Group:
    """Samples with the same flags, size and silence."""

    flags: int
    size: int
    samples: int
    answered: int
    first_sent_ns: int
    last_sent_ns: int
    silence: int = 0
    """`Silence.code`; 0: around none."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts over the samples of a recording, warm-up included."""

    groups: tuple[Group, ...]
    connections: int
    """Of the whole recording, also in `part`."""

    def part(self, selection: Selection) -> Totals:
        """Of the samples of one size, under load or idle, around one silence, as a selection names them; it
        may name nothing else.
        """
        size, loaded = selection.size, selection.under_load
        silence = None if selection.silence is None else selection.silence.code
        return Totals(
            tuple(
                g
                for g in self.groups
                if size in {None, g.size}
                and loaded in {None, bool(g.flags & Flags.UNDER_LOAD)}
                and silence in {None, g.silence}
            ),
            self.connections,
        )

    def _counted(self, mask: Flags, value: Flags) -> int:
        return sum(g.samples for g in self.groups if g.flags & mask == value)

    @property
    def samples(self) -> int:
        """All that were sent."""
        return sum(g.samples for g in self.groups)

    @property
    def answered(self) -> int:
        """With an intact echo."""
        return sum(g.answered for g in self.groups)

    @property
    def late(self) -> int:
        """Of the answered: after the timeout."""
        return self._counted(Flags.ANSWERED_LATE, Flags.ANSWERED_LATE)

    @property
    def unanswered(self) -> int:
        """No echo came; without `corrupted`."""
        return self._counted(Flags.CORRUPTED | Flags.UNANSWERED, Flags.UNANSWERED)

    @property
    def corrupted(self) -> int:
        """An echo came back changed."""
        return self._counted(Flags.CORRUPTED, Flags.CORRUPTED)

    @property
    def warm_up(self) -> int:
        """Sent to warm up."""
        return self._counted(Flags.WARM_UP, Flags.WARM_UP)

    @property
    def under_load(self) -> int:
        """Sent while the path was loaded on purpose."""
        return self._counted(Flags.UNDER_LOAD, Flags.UNDER_LOAD)

    @property
    def overlapping_pauses(self) -> int:
        """On their way while a host did not run."""
        pauses = Flags.OVERLAPS_LOCAL_PAUSE | Flags.OVERLAPS_REMOTE_PAUSE
        return sum(g.samples for g in self.groups if g.flags & pauses)

    @property
    def first_sent_ns(self) -> int | None:
        """When the first was sent; None: there is none."""
        return min((g.first_sent_ns for g in self.groups), default=None)

    @property
    def last_sent_ns(self) -> int | None:
        """When the last was sent; None: there is none."""
        return max((g.last_sent_ns for g in self.groups), default=None)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Payload bytes each way, ascending."""
        return tuple(sorted({g.size for g in self.groups}))

    @property
    def silences(self) -> tuple[Silence, ...]:
        """What there is around silences, ascending, the first samples after each before the warm ones."""
        found = {Silence(abs(g.silence), g.silence > 0) for g in self.groups if g.silence}
        return tuple(sorted(found, key=lambda s: (s.gap_ns, not s.first)))

    @property
    def span_ns(self) -> int:
        """From the first sample sent to the last."""
        return (
            0
            if self.first_sent_ns is None or self.last_sent_ns is None
            else self.last_sent_ns - self.first_sent_ns
        )


def last_seqs(source: Source) -> dict[int, int]:
    """The seq of the last sample of each connection: one scan."""
    sql = "SELECT connection, max(seq) FROM samples GROUP BY connection ORDER BY connection"
    return {int(c): int(seq) for c, seq in rows(source, sql, ["connection", "seq"])}


def totals(source: Source) -> Totals:
    """Counts all samples: one scan."""
    silence = (SILENCE,) if source.has_silences else ()
    sql = f"""
        SELECT flags, size, count(*), count(rtt_ns), min(sent_ns), max(sent_ns), {SILENCE if silence else 0}
        FROM samples GROUP BY ALL ORDER BY ALL"""
    found = rows(source, sql, ["flags", "size", "rtt_ns", "sent_ns", *silence])
    (connections,) = rows(source, "SELECT count(DISTINCT connection) FROM samples", ["connection"])[0]
    return Totals(tuple(Group(*r) for r in found), connections)
