"""What every importer shares: the text of a file, what comes out of it, and exact numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal, InvalidOperation
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from fathometer.counts import count
from fathometer.dataset.histogram import Histogram, Ints, bucket_of
from fathometer.dataset.importers.reading import contents
from fathometer.dataset.importers.totals import Total
from fathometer.errors import FathometerError

Bools = npt.NDArray[np.bool_]

UNITS: Final[Mapping[str, int]] = {"s": 9, "ms": 6, "us": 3, "ns": 0}
"""Units of time, as powers of ten of a nanosecond."""
_HEAD: Final = 64 << 10
_MOST: Final = 1 << 63
"""ns that no longer fit: 292 years."""
COLUMNS: Final = 1_000
"""Columns of a table. No tool has a tenth of them."""
_QUOTED: Final = 300
"""Letters that are quoted of a file."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the user says about a file."""

    label: str | None = None
    """The scenario's name; the file's name unless given."""
    started_ns: int | None = None
    """When the run began, for tools that tell only relative times, ns since the Unix epoch."""
    size: int | None = None
    """Payload bytes each way, where the file does not say."""
    zone: tzinfo = UTC
    """Zone of times that name none."""
    time: str | None = None
    """CSV: column of the time of sending."""
    rtt: str | None = None
    """CSV: column of the round trip."""
    unit: str | None = None
    """CSV: unit of the round trip: s, ms, us, ns."""
    date_order: str | None = None
    """CSV: how 03/04/2026 is meant: dmy, mdy or ymd; None: as the whole column tells."""
    decimal: str | None = None
    """CSV: the decimal sign, if the table leaves it open; None: its numbers decide."""
    offset: timedelta | None = None
    """CSV: distance from UTC of local times that exist twice."""
    delimiter: str = ","
    missing: tuple[str, ...] = ()
    """CSV: ``negative``, ``zero``, or cells that mean an unanswered sample; empty ones always do."""


@dataclass(frozen=True)
class File:
    """A file to import, as bytes and text."""

    path: Path

    @cached_property
    def data(self) -> bytes:
        """Its bytes: unpacked, in UTF-8, without a byte order mark, terminal colours and carriage returns."""
        return contents(self.path)

    @cached_property
    def text(self) -> str:
        """As `data`, decoded."""
        return self.data.decode("utf-8", "replace")

    @cached_property
    def head(self) -> str:
        """The beginning of it: what detection looks at."""
        return self.data[:_HEAD].decode("utf-8", "replace")

    def bad(self, reason: str, remedy: str = "check that it is the tool's whole output") -> FathometerError:
        """An error about this file; what it quotes of the file is cut short."""
        return FathometerError("import", f"{self.path}: {shortened(reason)}", remedy)

    def started_ns(self, options: Options, span_ns: int, notes: list[str]) -> int:
        """When a run of relative times began; adds a note unless the user said it."""
        if options.started_ns is not None:
            return options.started_ns
        began = self.path.stat().st_mtime_ns - span_ns
        notes.append(
            "the tool's times are relative to its own start; the run is placed so that it ends when the file "
            "was last written (--started-at says it better)"
        )
        return began


@dataclass(frozen=True, slots=True)
class Closing:
    """The end of a connection, as far as the tool tells it."""

    connection: int
    at_ns: int
    cause: str
    error: str


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """Samples of one run: a recording to be. Rows in the order of the file; times in ns."""

    label: str
    mode: str
    size: int | None
    sent_ns: Ints
    rtt_ns: Ints
    """Anything where `answered` is False."""
    answered: Bools
    connection: Ints | None = None
    """None: one connection."""
    interval_ns: int | None = None
    warm_up: Bools | None = None
    reflector_ns: Ints | None = None
    """Residence at the reflector; negative: absent."""
    reflector: str = ""
    closings: tuple[Closing, ...] = ()
    notes: tuple[str, ...] = ()
    totals: tuple[Total, ...] = ()
    """The tool's own counts; empty if it printed none."""


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """What a tool says without samples, and what therefore cannot be said."""

    label: str
    mode: str
    size: int | None
    count: int | None
    """Values behind it; None: the tool does not say."""
    statistics: Mapping[str, int]
    """``min``, ``mean``, ``stddev``, ``p50``, ``p99_9``, ``max``, ... of the round trip, in ns."""
    histogram: Histogram | None = None
    bin_ns: int | None = None
    """Width of the tool's bins: the error of every quantile from `histogram`."""
    series: tuple[tuple[int, int], ...] = ()
    """(ns since the run's start, ns): aggregates by interval, not samples."""
    throughput: Mapping[str, int] | None = None
    """``sent_bits_per_s``, ``received_bits_per_s``, ``retransmits``, as far as the tool gives them; None: it
    measures none.
    """
    cannot: tuple[str, ...] = ()
    """What this cannot support, each a sentence."""
    notes: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    totals: tuple[Total, ...] = ()
    """As of `Series`."""


NO_SAMPLES: Final = (
    "no intervals: without samples their dependence on one another is unknown",
    "no change points, calendar or segments before an end: there is no time in it",
)


@dataclass(frozen=True, slots=True)
class Imported:
    """What came out of one file."""

    tool: str
    path: Path
    series: tuple[Series, ...] = ()
    summaries: tuple[Summary, ...] = ()


@dataclass(frozen=True, slots=True)
class Importer:
    """One tool's output."""

    name: str
    about: str
    """What of the tool is read, in a line."""
    detect: Callable[[File], bool]
    read: Callable[[File, Options], Imported]


def label_of(file: File, options: Options, suffix: str = "") -> str:
    """The scenario's name: the user's, else the file's."""
    base = options.label or file.path.name.split(".")[0] or file.path.name
    return f"{base}-{suffix}" if suffix else base


def shortened(text: str) -> str:
    """As much of it as belongs into a line."""
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED]}..."


def ns(text: str | float, unit: str) -> int:
    """A duration in a unit as integer ns, exactly rounded; raises `ValueError` where it is none, or longer
    than 292 years.
    """
    value = Decimal(str(text)) * 10 ** UNITS[unit]
    # Before it becomes an integer: 1e999999 has a million digits.
    if not value.is_finite() or value.copy_abs() >= _MOST:
        raise ValueError(f"{shortened(str(text))} {unit} is no duration")
    return int(value.to_integral_value())


def unit_word(word: str) -> str:
    """A tool's word for a unit of time: ``usec``, ``µs``, ``microseconds``, ``sec`` ... as one of `UNITS`."""
    w = word.strip().lower().replace("µ", "u").replace("μ", "u")
    for unit, words in {
        "us": ("us", "usec", "usecs", "microsecond", "microseconds"),
        "ms": ("ms", "msec", "msecs", "millisecond", "milliseconds"),
        "ns": ("ns", "nsec", "nsecs", "nanosecond", "nanoseconds"),
        "s": ("s", "sec", "secs", "second", "seconds"),
    }.items():
        if w in words:
            return unit
    raise ValueError(f"{word!r} is no unit of time")


def read_csv(
    file: File,
    start: int,
    end: int | None = None,
    *,
    delimiter: str = ",",
    notes: list[str],
    ended: bool = False,
) -> dict[str, pa.ChunkedArray]:
    """The columns of a CSV part of a file as text, by trimmed name.

    Args:
        file: the file.
        start: where the part begins, with its names.
        end: where it ends; None: at the end of the file.
        delimiter: what stands between two cells.
        notes: told of rows that are left out.
        ended: its tool ends each line; a last line that does not end was cut, and is left out.
    """
    data = file.data[start:end]
    if ended and (cut := data[data.rfind(b"\n") + 1 :]) and cut is not data:
        data = data[: -len(cut)]
        notes.append("left out: the last row, which was cut")
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise file.bad(f"line {line} of its table is no UTF-8 text", "save the table as UTF-8") from None
    skipped = 0

    def skip(_: object) -> Literal["skip"]:
        nonlocal skipped
        skipped += 1
        return "skip"

    names = data.partition(b"\n")[0].decode("utf-8", "replace").split(delimiter)
    if len(names) > COLUMNS:
        raise file.bad(f"its table has {len(names):,} columns, more than {COLUMNS:,}")
    if not data.partition(b"\n")[2].strip():
        return {name.strip().strip('"'): pa.chunked_array([[]], pa.string()) for name in names}
    try:
        table = pa.csv.read_csv(
            pa.BufferReader(data),
            read_options=pa.csv.ReadOptions(column_names=[str(i) for i in range(len(names))], skip_rows=1),
            parse_options=pa.csv.ParseOptions(delimiter=delimiter, invalid_row_handler=skip),
            convert_options=pa.csv.ConvertOptions(
                column_types={str(i): pa.string() for i in range(len(names))}, strings_can_be_null=False
            ),
        )
    except pa.ArrowInvalid as error:
        raise file.bad(f"its table is not readable: {error}") from None
    if skipped:
        notes.append(f"left out: {count(skipped, 'row')} with another number of cells than {len(names)}")
    return {name.strip().strip('"'): pc.utf8_trim_whitespace(table.column(i)) for i, name in enumerate(names)}


def exact(cells: pa.ChunkedArray, unit: str, *, what: str, file: File) -> tuple[Ints, Bools]:
    """Decimal text in a unit as integer ns, and where there is a number; the others are 0.

    Exact: a time since 1970 in seconds has more digits than a float. Half a nanosecond rounds to even.
    """
    empty = pc.is_in(pc.utf8_lower(cells), value_set=pa.array(["", "nan", "none", "null", "na", "n/a", "-"]))
    present = pc.invert(pc.or_kleene(empty, pc.is_null(cells)))
    filled = pc.if_else(present, cells, "0")
    power = UNITS[unit]
    scale = 12
    if pc.any(pc.greater(pc.utf8_length(filled), 38)).as_py():
        # Digits beyond those of a decimal are lost in silence.
        return _slowly(filled, power, what, file), present.to_numpy(zero_copy_only=False).astype(np.bool_)
    try:
        decimal = pc.cast(filled, pa.decimal128(38, scale)).combine_chunks()
        # The same integers under a smaller scale: a multiplication by a power of ten that cannot overflow.
        moved = pa.Array.from_buffers(
            pa.decimal128(38, scale - power), len(decimal), decimal.buffers(), offset=decimal.offset
        )
        rounded = pc.round(moved, 0, round_mode="half_to_even")
        # The cast from decimal wraps around at 2^64 in silence.
        far = pc.greater_equal(pc.abs(rounded), pa.scalar(Decimal(_MOST), rounded.type))
        if pc.any(far).as_py():
            raise _too_large(cells, pc.index(far, True).as_py(), what, file)
        values = pc.cast(rounded, pa.int64(), safe=False).to_numpy(zero_copy_only=False).astype(np.int64)
    except pa.ArrowException:
        values = _slowly(filled, power, what, file)
    return values, present.to_numpy(zero_copy_only=False).astype(np.bool_)


def _too_large(cells: pa.ChunkedArray, row: int, what: str, file: File) -> FathometerError:
    text = str(cells[row])
    shown = text if len(text) <= 40 else f"{text[:20]}... of {len(text)} characters"
    return file.bad(
        f"{what} in row {row + 1} is {shown}, which is more than 292 years", "check the column and its unit"
    )


def _slowly(cells: pa.ChunkedArray, power: int, what: str, file: File) -> Ints:
    values = np.zeros(len(cells), dtype=np.int64)
    for row, cell in enumerate(cells.to_pylist()):
        try:
            value = Decimal(cell).scaleb(power)
            if value.is_finite() and value.copy_abs() >= _MOST:
                raise _too_large(cells, row, what, file)
            values[row] = int(value.to_integral_value())
        except (InvalidOperation, ValueError, OverflowError):
            raise file.bad(
                f"{what} in row {row + 1} is {cell!r}, which is no number",
                "name the column that holds it, or with --missing what means unanswered",
            ) from None
    return values


def counted(
    values_ns: npt.ArrayLike, counts: npt.ArrayLike, min_ns: int | None, max_ns: int | None
) -> Histogram:
    """A tool's own histogram in our buckets. Its sum is that of the bins' values, its squares are unknown."""
    values = np.asarray(values_ns, dtype=np.int64)
    weights = np.asarray(counts, dtype=np.int64)
    values, weights = values[weights > 0], weights[weights > 0]
    if sum(weights.tolist()) >= _MOST:
        raise ValueError("its bins count more values than there can be")
    if values.size == 0:
        return Histogram.empty()
    buckets, place = np.unique(bucket_of(values), return_inverse=True)
    together = np.zeros(buckets.size, dtype=np.int64)
    np.add.at(together, place, weights)
    low = int(values.min()) if min_ns is None else min(min_ns, int(values.min()))
    high = int(values.max()) if max_ns is None else max(max_ns, int(values.max()))
    total = sum(v * w for v, w in zip(values.tolist(), weights.tolist(), strict=True))
    return Histogram(buckets, together, low, high, total, None)


def local_ns(text: str, zone: tzinfo) -> int:
    """A date and time without a zone as ns since the Unix epoch."""
    when = datetime.fromisoformat(text.replace(",", "."))
    when = when if when.tzinfo else when.replace(tzinfo=zone)
    since = when - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000_000 + since.microseconds * 1_000
