"""Any table: ``import csv FILE --time COLUMN --rtt COLUMN --unit ms``."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fathometer.counts import count
from fathometer.dataset.histogram import Ints
from fathometer.dataset.importers.base import (
    UNITS,
    Bools,
    File,
    Imported,
    Importer,
    Options,
    Series,
    exact,
    label_of,
    read_csv,
    shortened,
    unit_word,
)  # fmt: skip
from fathometer.dataset.importers.dates import read_dates
from fathometer.dataset.importers.runs import tables
from fathometer.dataset.notation import decided
from fathometer.errors import ExitCode, FathometerError

_DECADE_NS = 10**17  # 1973: what is smaller is no time of a measurement, but a time since its start.


def _column(
    columns: Mapping[str, pa.ChunkedArray], name: str | None, option: str, file: File
) -> pa.ChunkedArray:
    if name is not None and name in columns:
        return columns[name]
    has = ", ".join(c for c in columns if c) or "none"
    what = f"there is no column {name!r}" if name else f"{option} is missing"
    raise FathometerError(
        "import",
        f"{file.path}: {what}",
        f"name one of its columns with {option}: {shortened(has)}",
        exit_code=ExitCode.USAGE,
    )


def _read(file: File, options: Options) -> Imported:
    parts = tables(file.data)
    return Imported("csv", file.path, tuple(_series(file, options, begin, end) for begin, end in parts))


def _series(file: File, options: Options, begin: int, end: int) -> Series:
    notes: list[str] = []
    columns = read_csv(file, begin, end, delimiter=options.delimiter, notes=notes)
    rtt_cells = _column(columns, options.rtt, "--rtt", file)
    time_cells = _column(columns, options.time, "--time", file)
    unit = _unit(options, file, notes)
    rtt_cells = in_plain_notation(rtt_cells, columns, options, file, notes, options.rtt)
    time_cells = in_plain_notation(time_cells, columns, options, file, notes, options.time)
    words = [w for w in options.missing if w not in {"negative", "zero"}]
    if words:
        rtt_cells = pc.if_else(pc.is_in(rtt_cells, value_set=pa.array(words)), "", rtt_cells)
    rtt, answered = exact(rtt_cells, unit, what=f"column {options.rtt}", file=file)
    negative = answered & (rtt < 0)
    if negative.any() and "negative" not in options.missing:
        raise FathometerError(
            "import",
            f"{file.path}: {int(negative.sum())} round trips are negative",
            "say that they mean unanswered with `--missing negative`, or name the right column with --rtt",
            exit_code=ExitCode.USAGE,
        )
    answered &= ~negative
    if "zero" in options.missing:
        answered &= rtt != 0
    sent, has_time = _times(time_cells, file, options, notes)
    if not has_time.all():
        notes.append(f"left out: {count(int((~has_time).sum()), 'row')} without a time")
        rtt, answered, sent = rtt[has_time], answered[has_time], sent[has_time]
    lost = int((~answered).sum())
    if lost:
        notes.append(f"unanswered: {lost} of {count(answered.size, 'row')}")
    steps = np.diff(sent)
    if steps.size and (steps < 0).any():
        notes.append(
            f"the time goes back in {count(int((steps < 0).sum()), 'row')}; the order of the file is kept"
        )
    interval = int(np.median(steps)) if steps.size > 1 else None
    if interval and answered.any() and np.median(rtt[answered]) > 1_000 * interval > 0:
        notes.append(
            f"a usual round trip is a thousand times the time between samples: is the unit really {unit}?"
        )
    return Series(
        label_of(file, options), "unknown", options.size, sent, np.maximum(rtt, 0), answered,
        interval_ns=interval if interval and interval > 0 else None, notes=tuple(notes),
    )  # fmt: skip


def in_plain_notation(
    cells: pa.ChunkedArray,
    columns: Mapping[str, pa.ChunkedArray],
    options: Options,
    file: File,
    notes: list[str],
    name: str | None,
) -> pa.ChunkedArray:
    """Numbers with only a decimal point. The column decides about its commas, or else the table or the
    user.
    """
    if not pc.any(pc.match_substring(cells, ",")).as_py():
        return cells
    texts = cells.to_pylist()
    notation = decided(
        texts,
        (other.to_pylist() for other in columns.values()),
        given=options.decimal,
        where=f"{file.path}: column {name}",
    )
    if told := notation.told():
        notes.append(f"column {name}: {told}")
    return pa.chunked_array([pa.array([notation.plain(text) for text in texts], pa.string())])


def _unit(options: Options, file: File, notes: list[str]) -> str:
    """The user's unit, or that in the column's name (``rtt_us``, ``rtt(usec)``)."""
    named = None
    match = re.search(r"[_\s(\[]\s*([a-zµμ]+)\s*[)\]]?$", (options.rtt or "").lower())
    if match:
        try:
            named = unit_word(match[1])
        except ValueError:
            named = None
    if options.unit is not None:
        unit = unit_word(options.unit) if options.unit not in UNITS else options.unit
        if named and named != unit:
            notes.append(f"the column {options.rtt} names {named}, --unit says {unit}: read as {unit}")
        return unit
    if named is None:
        raise FathometerError(
            "import",
            f"{file.path}: the unit of {options.rtt} is not known",
            "say it with --unit s, ms, us or ns",
            exit_code=ExitCode.USAGE,
        )
    notes.append(f"--unit is not given; the column {options.rtt} names {named}")
    return named


def _times(cells: pa.ChunkedArray, file: File, options: Options, notes: list[str]) -> tuple[Ints, Bools]:
    """Times of sending: epochs in any unit, times since the start, or dates."""
    present = pc.not_equal(cells, "").to_numpy(zero_copy_only=False).astype(np.bool_)
    first = next((c for c in cells.to_pylist() if c), None)
    if first is None:
        return np.zeros(len(cells), dtype=np.int64), present
    if re.fullmatch(r"-?\d+(\.\d*)?([eE][+-]?\d+)?", first):
        return _epochs(cells, float(first), file, options, notes)
    return read_dates(cells.to_pylist(), file, options, notes), present


def _epochs(
    cells: pa.ChunkedArray, first: float, file: File, options: Options, notes: list[str]
) -> tuple[Ints, Bools]:
    # Between 1973 and 5138 each unit has a range of its own.
    unit = next((u for u, power in UNITS.items() if _DECADE_NS <= first * 10**power < 10**20), None)
    if unit is None:
        sent, there = exact(cells, "s", what=f"column {options.time}", file=file)
        notes.append(f"the times in {options.time} are taken as seconds since the start")
        span = int(sent[there].max()) if there.any() else 0
        return sent + file.started_ns(options, span, notes), there
    if unit != "s":
        notes.append(f"the times in {options.time} are taken as {unit} since 1970")
    return exact(cells, unit, what=f"column {options.time}", file=file)


IMPORTER = Importer(
    "csv", "any table: name its columns with --time, --rtt and --unit", lambda _: False, _read
)
