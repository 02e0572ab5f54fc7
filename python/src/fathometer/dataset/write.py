"""Writing recordings and summaries of imported runs, in the format of ``schema/`` (the Rust half verifies
them). Names and notes of a file are cleaned: half a character, say, has no place in JSON.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import time
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from fathometer import __version__
from fathometer.clean import all_cleaned
from fathometer.dataset.format import (
    EVENTS,
    MANIFEST,
    Flags,
    arrow_schema,
    format_utc,
    segment_name,
)
from fathometer.dataset.histogram import Ints, bucket_low, bucket_of
from fathometer.dataset.importers.base import Bools, Imported, Series, Summary
from fathometer.dataset.scan import LATEST_NS, LONGEST_NS, MOST_NS
from fathometer.dataset.summaries import FORMAT, SUMMARY
from fathometer.errors import FathometerError
from fathometer.writing import create

SEGMENT_ROWS: Final = 2 << 20
"""As the recorder's."""
_NAME: Final = 200
"""Bytes of a directory's name; file systems take 255, and it bears a suffix while it is written."""
_PERCENTILES: Final = ("min", "mean", "stddev", "p50", "p95", "p99", "p99_9", "p99_99", "max")


def write_imported(imported: Imported, directory: str | os.PathLike[str]) -> tuple[Path, ...]:
    """Writes everything that came out of a file.

    One recording or summary goes into `directory` itself, several into directories below it named by their
    labels.

    Returns:
        The directories, recordings first.
    """
    root = Path(directory)
    each: tuple[Series | Summary, ...] = (*imported.series, *imported.summaries)
    written: list[Path] = []
    for one in each:
        where = root / _safe(one.label) if len(each) > 1 else root
        if where in written:  # Two blocks of one output under one name.
            where = where.with_name(f"{where.name}-{len(written) + 1}")
        if isinstance(one, Series):
            write_recording(one, where, tool=imported.tool, file=imported.path.name)
        else:
            write_summary(one, where, tool=imported.tool, file=imported.path.name)
        written.append(where)
    return tuple(written)


def _safe(label: str) -> str:
    words = "".join(c if c.isalnum() or c in "-_." else "-" for c in label).strip(".") or "run"
    return words.encode()[:_NAME].decode(errors="ignore")


def write_recording(series: Series, directory: Path, *, tool: str, file: str) -> None:
    """Writes one run as a finished recording; raises `FathometerError`, and then leaves nothing behind."""
    _check(series, file)
    temporary = _begin(directory)
    try:
        _fill(series, temporary, tool, file)
        temporary.rename(directory)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise FathometerError(
            "write recording", f"{directory}: {error.strerror}", "check the space and the permissions"
        ) from None


def _check(series: Series, file: str) -> None:
    """Raises `FathometerError` where it holds times that no reader takes: the limits are those of `scan`."""
    sent, rtt = series.sent_ns, series.rtt_ns[series.answered]
    closed = [c.at_ns for c in series.closings]
    first, last = (int(sent.min()), int(sent.max())) if sent.size else (0, 0)
    if min([first, *closed]) < 0 or max([last, *closed]) >= LATEST_NS:
        wrong = "were sent before 1970 or after 2100"
    elif last - first > LONGEST_NS:
        wrong = "were sent more than ten years apart"
    elif rtt.size and not 0 <= int(rtt.min()) <= int(rtt.max()) <= MOST_NS:
        wrong = "took less than nothing, or more than a hundred days"
    else:
        return
    raise FathometerError(
        "write recording", f"{file}: samples of {series.label} {wrong}", "check its columns and their units"
    )


def _begin(directory: Path) -> Path:
    """A fresh directory beside the one wanted: nobody ever sees half of a recording."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise FathometerError("write recording", f"{directory} exists", "name another directory")
    temporary = directory.with_name(f".{directory.name}.{secrets.token_hex(4)}.tmp")
    try:
        # Recordings name hosts: they are their owner's alone, as the recorder has it.
        temporary.mkdir(mode=0o700, parents=True)
    except OSError as error:
        raise FathometerError(
            "write recording", f"{directory}: {error.strerror}", "check the path and its permissions"
        ) from None
    return temporary


def _fill(series: Series, directory: Path, tool: str, file: str) -> None:
    rows = series.sent_ns.size
    connection = series.connection if series.connection is not None else np.zeros(rows, dtype=np.int64)
    sequence = _sequence(connection)
    flags = np.where(series.answered, 0, int(Flags.UNANSWERED)).astype(np.uint16)
    flags[sequence == 0] |= int(Flags.FIRST_ON_CONNECTION)
    if series.warm_up is not None:
        flags[series.warm_up] |= int(Flags.WARM_UP)
    unanswered = ~series.answered
    rtt = np.where(series.answered, series.rtt_ns, 0)
    began = int(series.sent_ns.min()) if rows else time.time_ns()
    # A sample ends with its echo; so does the run. An unanswered one ends, for all that is known, when it was
    # sent.
    ends = [int((series.sent_ns + rtt).max())] if rows else [began]
    ended = max([*ends, *(c.at_ns for c in series.closings)])
    began = min([began, *(c.at_ns for c in series.closings)])

    lines = [_event(began, began, "recording.started")]
    lines += [_event(began, began, "note", text=note) for note in series.notes]
    order = np.argsort(connection, kind="stable")
    ordered = connection[order]
    for closing in sorted(series.closings, key=lambda c: c.at_ns):
        begin, end = np.searchsorted(ordered, [closing.connection, closing.connection + 1])
        mine = order[begin:end]  # In the order of the rows. A pass over all of them for each would be slow.
        first = int(series.sent_ns[mine].min()) if mine.size else closing.at_ns
        back = mine[series.answered[mine]]
        evidence: dict[str, Any] = {"sent": int(mine.size), "answered": int(back.size), "outstanding": 0}
        evidence["outstanding"] = evidence["sent"] - evidence["answered"]
        if back.size:
            evidence["last_answered_seq"] = int(sequence[back[-1]])
        evidence["error"] = closing.error
        age = max(closing.at_ns - first, 0)
        lines.append(
            _event(
                closing.at_ns, began, "connection.closed",
                connection=closing.connection, cause=closing.cause, age_ns=age, evidence=evidence,
            )
        )  # fmt: skip
    for ordinal, start in enumerate(range(0, rows, SEGMENT_ROWS)):
        part = slice(start, start + SEGMENT_ROWS)
        table = _table(series, part, connection, sequence, rtt, unanswered, flags)
        path = directory / segment_name(ordinal, "parquet")
        with create(path) as segment:
            pq.write_table(table, segment, compression="zstd", row_group_size=128 << 10)
        data = path.read_bytes()
        lines.append(
            _event(
                ended, began, "segment.closed",
                file=path.name, rows=table.num_rows, bytes=len(data), crc32=zlib.crc32(data),
            )
        )  # fmt: skip
    lines.append(_event(ended, began, "recording.ended", samples=rows))
    _put(directory / EVENTS, "".join(lines))
    manifest = {
        "format_version": 1,  # Which every program knows.
        "id": _uuid7(began),
        "label": series.label,
        "path": {"from": None, "to": None, "via": None, "tags": {}},
        "started_at": format_utc(began),
        "ended_at": format_utc(ended),
        "tool": {"version": __version__, "revision": None},
        "probe": {"mode": series.mode, "size": series.size, "interval_ns": series.interval_ns},
        "host": {},
        "cloud": None,
        "reflector": {"address": series.reflector, "resolved": None, "software": None, "stamps": None},
        "clock_anchors": [{"mono_ns": 0, "utc": format_utc(began)}],
        "imported": {
            "tool": tool,
            "file": file,
            "notes": list(series.notes),
            # These columns cannot be null; their zeros are no measurements.
            "not_measured": ["lateness_ns"] + (["size"] if series.size is None else []),
        },
    }
    text = json.dumps(all_cleaned(manifest), indent=2)
    _put(directory / MANIFEST, text + "\n")


def _put(file: Path, text: str) -> None:
    with create(file) as out:
        out.write(text.encode())


def _sequence(connection: Ints) -> Ints:
    """Ordinal of each row on its connection, in the order of the rows."""
    order = np.argsort(connection, kind="stable")
    ordered = connection[order]
    start = np.flatnonzero(np.diff(ordered, prepend=-1))
    lengths = np.diff(np.append(start, ordered.size))
    sequence = np.empty(ordered.size, dtype=np.int64)
    sequence[order] = np.arange(ordered.size) - np.repeat(start, lengths)
    return sequence


def _table(
    series: Series,
    part: slice,
    connection: Ints,
    sequence: Ints,
    rtt: Ints,
    unanswered: Bools,
    flags: npt.NDArray[np.uint16],
) -> pa.Table:
    rows = series.sent_ns[part].size
    size = np.full(rows, series.size or 0)
    lost = unanswered[part]
    columns: dict[str, Any] = {
        "connection": connection[part],
        "seq": sequence[part],
        "size": size,
        "sent_ns": series.sent_ns[part],
        "lateness_ns": np.zeros(rows, dtype=np.int64),
        "rtt_ns": pa.array(rtt[part], mask=lost),
        "rtt_bucket": pa.array(bucket_of(rtt[part]), mask=lost),
        "flags": flags[part],
    }
    if series.reflector_ns is not None:
        residence = series.reflector_ns[part]
        columns["reflector_ns"] = pa.array(residence, mask=residence < 0)
    schema = arrow_schema()
    arrays = [
        pa.array(columns[f.name]).cast(f.type) if f.name in columns else pa.nulls(rows, f.type)
        for f in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def _event(at_ns: int, began_ns: int, kind: str, connection: int | None = None, **fields: object) -> str:
    event: dict[str, Any] = {"at": format_utc(at_ns), "mono_ns": at_ns - began_ns}
    if connection is not None:
        event["connection"] = connection
    return json.dumps({**event, "kind": kind, **all_cleaned(fields)}) + "\n"


def _uuid7(at_ns: int) -> str:
    """A UUID of version 7 (RFC 9562, section 5.7): milliseconds, then random bits."""
    value = ((max(at_ns, 0) // 1_000_000) & ((1 << 48) - 1)) << 80 | secrets.randbits(80)
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    text = f"{value:032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def summary_json(summary: Summary, *, tool: str, file: str) -> Mapping[str, Any]:
    """A summary as ``summary.json`` holds it: ``"format": 1``, durations in integer ns, null where not
    known.
    """
    more = {k: v for k, v in summary.statistics.items() if k not in _PERCENTILES}
    histogram = summary.histogram
    return {
        "format": FORMAT,
        "label": summary.label,
        "mode": summary.mode,
        "size": summary.size,
        "rtt_ns": {"count": summary.count, **{k: summary.statistics.get(k) for k in _PERCENTILES}, **more},
        "histogram": None
        if histogram is None
        else {
            "bin_ns": summary.bin_ns,
            "low_ns": bucket_low(histogram.buckets).tolist(),
            "count": histogram.counts.tolist(),
        },
        "series": [list(point) for point in summary.series],
        "throughput": None if summary.throughput is None else dict(summary.throughput),
        "cannot": list(summary.cannot),
        "imported": {"tool": tool, "file": file, "notes": list(summary.notes), **summary.extra},
    }


def write_summary(summary: Summary, directory: Path, *, tool: str, file: str) -> None:
    """Writes ``summary.json`` into a fresh directory; raises `FathometerError`."""
    temporary = _begin(directory)
    text = json.dumps(all_cleaned(summary_json(summary, tool=tool, file=file)), indent=2) + "\n"
    try:
        _put(temporary / SUMMARY, text)
        temporary.rename(directory)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise FathometerError(
            "write summary", f"{directory}: {error.strerror}", "check the space and the permissions"
        ) from None
