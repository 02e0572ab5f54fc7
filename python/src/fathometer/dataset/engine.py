"""DuckDB over the samples of a recording: closed segments as Parquet, the open one as an Arrow table.

Every query streams; what it keeps is its groups. Raw samples leave only by `query.samples`, which is bounded.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path as FilePath
from typing import Any, Final

import duckdb
import pyarrow as pa

from fathometer.dataset.format import Flags, arrow_schema
from fathometer.dataset.histogram import MAX_NS, SUB_BITS, SUB_BUCKETS
from fathometer.errors import FathometerError

MEMORY_LIMIT: Final = "1GiB"
"""DuckDB's own share of our 2 GiB; beyond it, it spills to the disk."""

METRICS: Final[Mapping[str, str]] = {
    "rtt": "rtt_ns",
    "latency": "rtt_ns + lateness_ns",
    "lateness": "lateness_ns",
    "send_stack": "send_stack_ns",
    "recv_stack": "recv_stack_ns",
    "reflector": "reflector_ns",
    "network": "rtt_ns - send_stack_ns - recv_stack_ns - coalesce(reflector_ns, 0)",
    "srtt": "srtt_us::BIGINT * 1000",
}
"""What can be asked for, in ns. `latency` is from due to echoed; `network` is what the stamps leave of the
round trip; `srtt` is the kernel's smoothed RTT. Absent where a part of it is absent."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where the samples are."""

    parquet: tuple[FilePath, ...]
    open: pa.Table | None


@dataclass(frozen=True, slots=True)
class Selection:
    """Which samples count. Without anything said: all answered and unanswered ones but warm-up."""

    connection: int | None = None
    start_ns: int | None = None
    """Sent at or after, ns since the Unix epoch."""
    end_ns: int | None = None
    """Sent before."""
    size: int | None = None
    under_load: bool | None = None
    """True: only those sent under load; False: only idle ones; None: both."""
    first: bool | None = None
    """True: only the first of each connection; False: all others; None: both."""
    warm_up: bool = False
    """Whether samples flagged warm-up count, too."""
    pauses: bool = True
    """Whether samples that overlap a pause of either host count."""

    def where(self) -> str:
        """As a condition in SQL; every value in it is an integer."""
        terms = [
            f"{column} {sign} {int(value)}"
            for column, sign, value in (
                ("connection", "=", self.connection),
                ("sent_ns", ">=", self.start_ns),
                ("sent_ns", "<", self.end_ns),
                ("size", "=", self.size),
            )
            if value is not None
        ]
        for wanted, flag in ((self.under_load, Flags.UNDER_LOAD), (self.first, Flags.FIRST_ON_CONNECTION)):
            if wanted is not None:
                terms.append(f"flags & {int(flag)} {'<>' if wanted else '='} 0")
        refused = 0
        if not self.warm_up:
            refused |= Flags.WARM_UP
        if not self.pauses:
            refused |= Flags.OVERLAPS_LOCAL_PAUSE | Flags.OVERLAPS_REMOTE_PAUSE
        if refused:
            terms.append(f"flags & {int(refused)} = 0")
        return " AND ".join(terms) or "true"


EVERYTHING: Final = Selection(warm_up=True)


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
class Totals:
    """Counts over the samples of a recording, warm-up included. Times are None where there are no samples."""

    samples: int
    answered: int
    late: int
    """Of the answered: after the timeout."""
    unanswered: int
    """No echo came; without `corrupted`."""
    corrupted: int
    warm_up: int
    under_load: int
    overlapping_pauses: int
    first_sent_ns: int | None
    last_sent_ns: int | None
    connections: int
    sizes: tuple[int, ...]

    @property
    def span_ns(self) -> int:
        """From the first sample sent to the last."""
        return (
            0
            if self.first_sent_ns is None or self.last_sent_ns is None
            else self.last_sent_ns - self.first_sent_ns
        )


def totals(source: Source) -> Totals:
    """Counts all samples: one scan."""
    corrupted, unanswered = int(Flags.CORRUPTED), int(Flags.UNANSWERED)
    pauses = int(Flags.OVERLAPS_LOCAL_PAUSE | Flags.OVERLAPS_REMOTE_PAUSE)
    sql = """
        SELECT flags, size, count(*), count(rtt_ns), min(sent_ns), max(sent_ns)
        FROM samples GROUP BY flags, size"""
    found = rows(source, sql, ["flags", "size", "rtt_ns", "sent_ns"])
    (connections,) = rows(source, "SELECT count(DISTINCT connection) FROM samples", ["connection"])[0]

    def counted(mask: int, value: int) -> int:
        return sum(n for flags, _, n, *_ in found if flags & mask == value)

    return Totals(
        samples=sum(r[2] for r in found),
        answered=sum(r[3] for r in found),
        late=counted(int(Flags.ANSWERED_LATE), int(Flags.ANSWERED_LATE)),
        unanswered=counted(corrupted | unanswered, unanswered),
        corrupted=counted(corrupted, corrupted),
        warm_up=counted(int(Flags.WARM_UP), int(Flags.WARM_UP)),
        under_load=counted(int(Flags.UNDER_LOAD), int(Flags.UNDER_LOAD)),
        overlapping_pauses=sum(r[2] for r in found if r[0] & pauses),
        first_sent_ns=min((r[4] for r in found), default=None),
        last_sent_ns=max((r[5] for r in found), default=None),
        connections=connections,
        sizes=tuple(sorted({r[1] for r in found})),
    )
