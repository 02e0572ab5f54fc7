"""sockperf: ``--full-log`` (samples), or the summary that it prints."""

from __future__ import annotations

import heapq
import itertools
import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from fathometer.counts import count
from fathometer.dataset.histogram import Ints
from fathometer.dataset.importers.base import (
    NO_SAMPLES,
    Bools,
    File,
    Imported,
    Importer,
    Options,
    Series,
    Summary,
    exact,
    label_of,
    ns,
    read_csv,
)  # fmt: skip
from fathometer.dataset.importers.runs import alone, begins
from fathometer.dataset.importers.totals import totals

_HEADER = re.compile(rb"^packet, ?txTime\(sec\), ?rxTime\(sec\), ?(rtt|latency)\(usec\)[ \t]*$", re.MULTILINE)
_SUMMARY = re.compile(r"Summary: (?:Latency|Round trip|RTT)[^\n]{0,200}? is ([\d.]+) usec", re.IGNORECASE)
_PERCENTILE = re.compile(r"percentile ([\d.]+)\s*=\s*([\d.]+)")
_EXTREME = re.compile(r"<(MIN|MAX)> observation\s*=\s*([\d.]+)")
_AVERAGE = re.compile(r"avg-(latency|rtt)=\s*([\d.]+)\s*\(std-dev=\s*([\d.]+)", re.IGNORECASE)
_RUN: Final = re.compile(rb"^(?:test was performed using |sockperf: ?== version )", re.MULTILINE)
_LOST: Final = 1 << 18
"""Maximum number of lost messages that get a row, if more than the rows: a printed number must not decide
memory.
"""
_HALVED = "sockperf printed latency = RTT/2 (no --full-rtt); "


def _detect(file: File) -> bool:
    return "txTime(sec)" in file.head or re.search(r"^sockperf:", file.head, re.MULTILINE) is not None


def _read(file: File, options: Options) -> Imported:
    parts = _runs(file)
    logs = [(begin, end, header) for begin, end, header in parts if header]
    if not logs:
        runs = tuple(_summary(file, file.data[b:e].decode("utf-8", "replace"), options) for b, e, _ in parts)
        return Imported("sockperf", file.path, summaries=runs)
    if len(logs) < len(parts):
        # sockperf's printed summary and its log describe the same runs.
        raise file.bad("it holds logs and printed summaries", "import each by itself")
    notes: list[str] = []
    rows = [_rows(file, *log) for log in logs]
    spans = [int(r.sent_ns.max(initial=0)) for r in rows]
    starts = begins(file, options, spans, notes)
    series = tuple(
        _series(file, options, one, began, tuple(notes)) for one, began in zip(rows, starts, strict=True)
    )
    return Imported("sockperf", file.path, series)


def _runs(file: File) -> list[tuple[int, int, re.Match[bytes] | None]]:
    """Start and end of each run, and the heading of its table; a run of several servers has several."""
    starts = [0, *(match.start() for match in _RUN.finditer(file.data))]
    parts: list[tuple[int, int, re.Match[bytes] | None]] = []
    for begin, end in itertools.pairwise([*starts, len(file.data)]):
        headers = list(_HEADER.finditer(file.data, begin, end))
        ends = [*(h.start() for h in headers[1:]), end]
        for from_, header, to in zip([begin, *ends], headers, ends, strict=False):
            parts.append((from_, to, header))
        if not headers and file.data[begin:end].strip(b"- \n"):
            parts.append((begin, end, None))
    return parts


def _facts(text: str, options: Options) -> tuple[int | None, str]:
    """The size and the mode; a log does not name the protocol."""
    size = re.search(r"--?msg-size[= ](\d+)", text)
    protocol = re.search(r"# (UDP|TCP)\b", text)
    return (int(size[1]) if size else options.size), protocol[1].lower() if protocol else "unknown"


def _counted(text: str) -> tuple[int | None, int | None, int | None, int]:
    """Valid messages that wanted a reply, replies, dropped, out of order; None: not printed."""
    valid = re.search(
        r"\[Valid Duration\][^\n]{0,80}SentMessages=(\d{1,15}); ReceivedMessages=(\d{1,15})", text
    )
    every = re.search(r"--reply-every=(\d{1,9})", text)
    observed = re.search(r"Total (\d{1,15}) observations", text)
    lost = re.search(r"dropped messages = (\d{1,15})", text)
    disordered = re.search(r"out-of-order messages = (\d{1,15})", text)
    sent = (int(valid[1]) - 1) // max(int(every[1]), 1) + 1 if valid and every else None
    received = int(valid[2]) if valid else int(observed[1]) if observed else None
    return sent, received, int(lost[1]) if lost else None, int(disordered[1]) if disordered else 0


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """One table of a log."""

    head: str
    """What stands before it."""
    sent_ns: Ints
    """Time since the start; for lost messages estimated."""
    rtt_ns: Ints
    answered: Bools
    left_out: int
    """Answered rows whose times give no round trip."""
    notes: tuple[str, ...]


def _rows(file: File, begin: int, after: int, header: re.Match[bytes]) -> _Rows:
    end = file.data.find(b"\n---", header.end(), after)
    notes: list[str] = []
    columns = read_csv(file, header.start(), end + 1 if end >= 0 else after, notes=notes, ended=True)
    sent, sent_there = exact(columns["txTime(sec)"], "s", what="txTime", file=file)
    received, received_there = exact(columns["rxTime(sec)"], "s", what="rxTime", file=file)
    packet, _ = exact(columns["packet"], "ns", what="packet", file=file)
    whole = sent_there & received_there
    timed = whole & (received >= sent)
    if not whole.all():
        notes.append(f"left out: {count(int((~whole).sum()), 'row')} without both times")
    if (whole & ~timed).any():
        backward = count(int((whole & ~timed).sum()), "row")
        notes.append(f"left out: {backward} received before they were sent, whose round trips are not known")
    sent, received, packet = sent[timed], received[timed], packet[timed]
    if header[1] == b"latency":
        notes.append(_HALVED + "the round trips here are rxTime - txTime")
    if not sent.size:
        notes.append("its log holds no sample: sockperf loses them when the server goes away")
    head = file.data[begin : header.start()].decode("utf-8", "replace")
    lost = _lost_times(file, sent, packet, _counted(head)[2] or 0)
    if lost.size:
        notes.append(f"lost: {count(lost.size, 'message')}; when they were sent is estimated from the others")
    order = np.argsort(np.append(sent, lost), kind="stable")
    answered = np.append(np.ones(sent.size, dtype=np.bool_), np.zeros(lost.size, dtype=np.bool_))[order]
    rtt = np.append(received - sent, np.zeros(lost.size, dtype=np.int64))[order]
    left_out = int((~timed).sum())
    return _Rows(head, np.append(sent, lost)[order], rtt, answered, left_out, tuple(notes))


def _lost_times(file: File, sent: Ints, packet: Ints, dropped: int) -> Ints:
    """Times of sending of the messages without a row, estimated from their numbers, or else from the gaps.
    sockperf numbers replies, and `fathom probe --sockperf-log` numbers messages.
    """
    if not sent.size:
        return np.zeros(0, dtype=np.int64)
    numbers, first = np.unique(packet, return_index=True)
    by_number = int(numbers[-1]) + 1 - numbers.size
    if max(by_number, dropped) > sent.size + _LOST or numbers[0] < 0:
        raise file.bad(f"its log holds {count(sent.size, 'message')}, and tells of many more that were lost")
    if by_number:
        step = np.median(np.diff(sent[first]) / np.diff(numbers)) if numbers.size > 1 else 0
        leading = sent[first[0]] - step * np.arange(numbers[0], 0, -1)
        between = _between(sent[first], np.diff(numbers) - 1)
        return np.append(np.maximum(leading, 0).astype(np.int64), between)
    return _in_widest(sent, dropped)


def _between(sent: Ints, missing: Ints) -> Ints:
    """Evenly spaced times for the missing messages of each gap."""
    each = [np.linspace(sent[i], sent[i + 1], int(missing[i]) + 2)[1:-1] for i in np.flatnonzero(missing)]
    return np.concatenate([np.zeros(0), *each]).astype(np.int64)


def _in_widest(sent: Ints, dropped: int) -> Ints:
    """Times of dropped messages, each in the widest remaining gap, because sockperf sends at even
    intervals.
    """
    if sent.size < 2:
        return np.full(dropped, sent[-1])
    steps = [max(int(step), 0) for step in np.diff(sent)]
    missing = np.zeros(len(steps), dtype=np.int64)
    widest = [(-step, place) for place, step in enumerate(steps)]
    heapq.heapify(widest)
    for _ in range(dropped):
        place = widest[0][1]
        missing[place] += 1
        heapq.heapreplace(widest, (-(steps[place] // (int(missing[place]) + 1)), place))
    return _between(sent, missing)


def _series(file: File, options: Options, rows: _Rows, began: int, shared: tuple[str, ...]) -> Series:
    sent, received, lost, disordered = _counted(rows.head)
    notes = [*rows.notes, *shared]
    if disordered:
        notes.append(
            f"left out: {count(disordered, 'reply', 'replies')} out of order, of which it logs nothing"
        )
    size, mode = _facts(rows.head, options)
    answered = int(rows.answered.sum())
    return Series(
        label_of(file, options), mode, size, began + rows.sent_ns, rows.rtt_ns, rows.answered,
        notes=tuple(notes),
        totals=totals(
            ("messages received", received, answered + rows.left_out),
            ("messages lost", lost, rows.answered.size - answered),
            ("messages sent", None if disordered else sent, rows.answered.size + rows.left_out),
        ),
    )  # fmt: skip


def _summary(file: File, text: str, options: Options) -> Summary:
    alone(file, text, r"Summary: ", r"Total \d+ observations")
    average, line = _AVERAGE.search(text), _SUMMARY.search(text)
    if average is None and line is None:
        raise file.bad(
            "sockperf's output without a result (it prints none when the server goes away)",
            "run it with --full-log",
        )
    halved = average is None or average[1].lower() == "latency"
    factor = 2 if halved else 1
    statistics: dict[str, int] = {}
    for which, value in _EXTREME.findall(text):
        statistics[which.lower()] = factor * ns(value, "us")
    if average:
        statistics["mean"], statistics["stddev"] = (
            factor * ns(average[2], "us"),
            factor * ns(average[3], "us"),
        )
    elif line:
        statistics["mean"] = factor * ns(line[1], "us")
    for percent, value in _PERCENTILE.findall(text):
        statistics[f"p{float(percent):g}".replace(".", "_")] = factor * ns(value, "us")
    observed = re.search(r"Total (\d{1,18}) observations", text)
    observations = int(observed[1]) if observed else None
    size, mode = _facts(text, options)
    _, received, lost, _ = _counted(text)
    notes = [_HALVED + "all of them are doubled"] if halved else []
    if lost:
        notes.append(f"lost: {count(lost, 'message')} beside those that its figures count")
    return Summary(
        label_of(file, options),
        mode,
        size,
        observations,
        statistics,
        cannot=NO_SAMPLES,
        notes=tuple(notes),
        totals=totals(("messages received", None if observed is None else received, observations or 0)),
    )


IMPORTER = Importer("sockperf", "--full-log, or the printed summary", _detect, _read)
