"""The articles' echo client: its CSV of samples, and the sibling ``.log`` that tells of drops."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from fathometer.counts import count
from fathometer.dataset.histogram import Ints
from fathometer.dataset.importers.base import (
    Bools,
    Closing,
    File,
    Imported,
    Importer,
    Options,
    Series,
    exact,
    label_of,
    local_ns,
    read_csv,
    shortened,
)  # fmt: skip
from fathometer.dataset.importers.runs import tables

_COLUMNS = ("packet_num", "timestamp", "send_time_ns", "receive_time_ns", "rtt_us")
_DROP = re.compile(r"^(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?).*CONNECTION DROP\W*(.*)$", re.MULTILINE)


_RATIOS = (
    (0.0009, 0.0011, "it holds milliseconds"),
    (900, 1_100, "it holds nanoseconds"),
    (0.45, 0.55, "it holds half of the round trip"),
)


def _detect(file: File) -> bool:
    first = file.head.split("\n", 1)[0]
    return {"send_time_ns", "receive_time_ns", "rtt_us"} <= {c.strip() for c in first.split(",")}


def _read(file: File, options: Options) -> Imported:
    parts = []
    for begin, end in tables(file.data):
        notes: list[str] = []
        parts.append((read_csv(file, begin, end, notes=notes, ended=True), notes))
    # A drop belongs to the run that was going on at its time.
    within = itertools.pairwise([None, *(_first(columns) for columns, _ in parts[1:]), None])
    series = (_run(file, options, *part, *bounds) for part, bounds in zip(parts, within, strict=True))
    return Imported("echo-client", file.path, tuple(series))


def _first(columns: Mapping[str, pa.ChunkedArray]) -> int | None:
    """The first time of sending; None if there is none."""
    cells = columns["send_time_ns"].to_pylist() if "send_time_ns" in columns else []
    return next((int(cell) for cell in cells if cell), None)


def _run(
    file: File,
    options: Options,
    columns: Mapping[str, pa.ChunkedArray],
    notes: list[str],
    begin: int | None,
    end: int | None,
) -> Series:
    missing = [c for c in _COLUMNS[2:] if c not in columns]
    if missing:
        raise file.bad(f"it has no column {', '.join(missing)}")
    sent, has_sent = exact(columns["send_time_ns"], "ns", what="send_time_ns", file=file)
    received, has_received = exact(columns["receive_time_ns"], "ns", what="receive_time_ns", file=file)
    rtt, has_rtt = exact(columns["rtt_us"], "us", what="rtt_us", file=file)
    keep = has_sent & (sent > 0)
    if not keep.all():
        notes.append(f"left out: {count(int((~keep).sum()), 'row')} without a time of sending")
    sent, received, rtt = sent[keep], received[keep], rtt[keep]
    answered = (has_rtt & has_received)[keep] & (rtt >= 0) & (received > 0)
    rtt = _put_right(sent, received, rtt, answered, notes)
    offset, later = (_offset(columns, sent, keep, options, row) for row in (0, -1))
    if offset != later:
        notes.append(
            "the local time changed against UTC during the run: times of drops may be wrong by that step"
        )
    closings, connection = _drops(file, sent, offset, options, notes, begin, end)
    notes.append("its stamps are readings of the wall clock: a step of that clock is part of a round trip")
    return Series(
        label_of(file, options), "tcp-ping-pong", options.size, sent, rtt, answered,
        connection=connection, interval_ns=_cadence(sent), closings=closings, notes=tuple(notes),
    )  # fmt: skip


def _put_right(sent: Ints, received: Ints, rtt: Ints, answered: Bools, notes: list[str]) -> Ints:
    """The round trips, from the stamps where the column contradicts them throughout."""
    stamped = received - sent
    both = answered & (rtt > 0) & (stamped > 0)
    if not both.any():
        return rtt
    ratio = float(np.median(rtt[both] / stamped[both]))
    if 0.9 < ratio < 1.1:
        apart = int((np.abs(rtt - stamped)[both] > 1_000_000).sum() + (answered & (stamped <= 0)).sum())
        if apart:
            notes.append(
                f"{apart} round trips differ from their stamps by more than 1 ms: the wall clock was set?"
            )
        return rtt
    guess = next((words for low, high, words in _RATIOS if low < ratio < high), "it is something else")
    notes.append(f"rtt_us is {ratio:.4g} of what send_time_ns and receive_time_ns give ({guess}): recomputed")
    return np.where(answered, stamped, 0)


def _cadence(sent: Ints) -> int | None:
    return int(np.median(np.diff(sent))) if sent.size > 2 else None


def _offset(
    columns: Mapping[str, pa.ChunkedArray], sent: Ints, keep: Bools, options: Options, row: int
) -> int:
    """Local time minus UTC in ns, from the two times of a row, or else from the user's zone."""
    if sent.size and "timestamp" in columns:
        text = columns["timestamp"].filter(keep)[row].as_py()
        try:
            apart = local_ns(text, options.zone) - int(sent[row])
        except ValueError:
            return 0
        return round(apart / 900e9) * 900_000_000_000  # Zones differ by quarters of an hour.
    return 0


def _drops(
    file: File,
    sent: Ints,
    offset: int,
    options: Options,
    notes: list[str],
    begin: int | None,
    end: int | None,
) -> tuple[tuple[Closing, ...], Ints | None]:
    log = file.path.with_suffix(".log")
    if not log.is_file():
        notes.append("no .log beside it: whether and why the connection ended is not known")
        return (), None
    closings: list[Closing] = []
    for match in _DROP.finditer(File(log).text):
        at = local_ns(match[1], options.zone) - offset
        if (begin is not None and at < begin) or (end is not None and at >= end):
            continue
        why = shortened(match[2].strip()) or "connection drop"
        closings.append(Closing(len(closings), at, "abandoned", why))
    if closings:
        notes.append("the client gave up at its own timeout: a stall that would have passed looks the same")
    ends = np.array([c.at_ns for c in closings], dtype=np.int64)
    connection = np.searchsorted(ends, sent, side="left").astype(np.int64)
    return tuple(closings), connection


IMPORTER = Importer("echo-client", "the CSV of the articles' echo client, with its .log", _detect, _read)
