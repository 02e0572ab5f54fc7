"""netperf's omni output and neper's tables."""

from __future__ import annotations

import csv
import io
import itertools
import re
from dataclasses import dataclass

import numpy as np

from fathometer.counts import count as _count
from fathometer.dataset.histogram import Ints
from fathometer.dataset.importers.base import (
    COLUMNS,
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
from fathometer.dataset.importers.runs import begins, tables

_NETPERF = {
    "minimum latency microseconds": "min", "maximum latency microseconds": "max",
    "mean latency microseconds": "mean",
    "stddev latency microseconds": "stddev", "50th percentile latency microseconds": "p50",
    "90th percentile latency microseconds": "p90", "95th percentile latency microseconds": "p95",
    "99th percentile latency microseconds": "p99",
    "min_latency": "min", "max_latency": "max", "mean_latency": "mean", "stddev_latency": "stddev",
    "p50_latency": "p50", "p90_latency": "p90", "p95_latency": "p95", "p99_latency": "p99",
}  # fmt: skip


def _netperf_fields(text: str) -> list[dict[str, str]]:
    """Names and values of each run, from ``-o`` (one line each) or ``-k`` (NAME=VALUE)."""
    found: list[dict[str, str]] = []
    lines = [line for line in text.splitlines() if line.strip()]
    keyed: dict[str, str] = {}
    for line in lines:
        match = re.match(r"([A-Z][A-Z0-9_]*)=(.*)$", line)
        if match and match[1].lower() in keyed:  # The next run.
            found.append(keyed)
            keyed = {}
        if match:
            keyed[match[1].lower()] = match[2]
    found = [run for run in [*found, keyed] if any(name in _NETPERF for name in run)]
    if found:
        return found
    for names, values in itertools.pairwise([*lines, ""]):
        header = [n.strip().lower() for n in next(csv.reader([names]))]
        if any(n in _NETPERF for n in header) or "throughput" in header:
            found.append(dict(zip(header, (v.strip() for v in next(csv.reader([values]))), strict=False)))
    return found


def _is_netperf(file: File) -> bool:
    return "MIGRATED" in file.head or any(
        name in file.head for name in ("Latency Microseconds", "P99_LATENCY=", "MEAN_LATENCY=")
    )


def _read_netperf(file: File, options: Options) -> Imported:
    runs = _netperf_fields(file.text) or [{}]
    return Imported("netperf", file.path, summaries=tuple(_netperf(run, file, options) for run in runs))


def _netperf(fields: dict[str, str], file: File, options: Options) -> Summary:
    statistics, unread = {}, []
    for name, value in fields.items():
        if name in _NETPERF:
            try:
                statistics[_NETPERF[name]] = ns(value, "us")
            except ArithmeticError:
                unread.append(name)
    if not statistics:
        raise file.bad(
            "netperf's output without a latency",
            "ask for it: netperf -t omni -- -d rr -o p50_latency,p99_latency,...",
        )
    size = fields.get("request size bytes") or fields.get("request_size")
    return Summary(
        label_of(file, options), "tcp-ping-pong", int(size) if size and size.isdigit() else options.size,
        None, statistics, cannot=NO_SAMPLES, notes=tuple(f"{n} holds no number" for n in unread),
    )  # fmt: skip


def _is_neper(file: File) -> bool:
    first = {c.strip() for c in file.head.split("\n", 1)[0].split(",")}
    return {"flow_id", "rtt"} <= first or bool(
        {"latency_mean", "latency_min", "num_transactions"} & first
    ) or bool(re.search(r"^num_transactions=|^latency_mean=", file.head, re.MULTILINE))  # fmt: skip


def _read_neper(file: File, options: Options) -> Imported:
    first = [c.strip() for c in file.head.split("\n", 1)[0].split(",")]
    if {"flow_id", "rtt"} <= set(first):
        notes: list[str] = []
        parts = [_neper_rows(file, begin, end) for begin, end in tables(file.data)]
        starts = _neper_starts(file, options, parts, notes)
        series = (_neper_series(file, options, *each, notes) for each in zip(parts, starts, strict=True))
        return Imported("neper", file.path, tuple(series))
    keyed = re.findall(r"^(latency_\w+|num_transactions|request_size)=(.*)$", file.text, re.MULTILINE)
    runs: list[dict[str, str]] = []
    for name, value in keyed:
        if not runs or name in runs[-1]:
            runs.append({})
        runs[-1][name] = value
    return Imported(
        "neper",
        file.path,
        summaries=tuple(_neper(run, file, options) for run in runs or _neper_tables(file, first)),
    )


def _neper_tables(file: File, first: list[str]) -> list[dict[str, str]]:
    """The single row of each table of results."""
    # A row of one letter would become a dictionary of as many columns as the first line has.
    if len(first) > COLUMNS:
        raise file.bad(f"its table has {len(first):,} columns, more than {COLUMNS:,}")
    found = []
    for begin, end in tables(file.data):
        text = file.data[begin:end].decode("utf-8", "replace")
        rows = list(itertools.islice(csv.DictReader(io.StringIO(text), skipinitialspace=True), 2))
        if len(rows) > 1:
            raise file.bad(
                "its table has several rows: neper's rows by interval are no result of a run",
                "import what neper printed (latency_mean=...), or --log-rtt",
            )
        found += rows
    return found or [{}]


def _neper(keyed: dict[str, str], file: File, options: Options) -> Summary:
    words = {"latency_min": "min", "latency_max": "max", "latency_mean": "mean", "latency_stddev": "stddev"}
    statistics = {}
    for name, value in keyed.items():
        short = words.get(name) or (
            name.replace("latency_", "") if re.fullmatch(r"latency_p\d[\d._]{0,8}", name) else None
        )
        if short:
            statistics[short] = ns(value, "s")
    if not statistics:
        raise file.bad("neper's output without a latency")
    count = keyed.get("num_transactions", "")
    return Summary(
        label_of(file, options), "tcp-ping-pong", options.size, int(float(count)) if count else None,
        statistics, cannot=NO_SAMPLES,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class _NeperRows:
    when: Ints
    rtt: Ints
    there: Bools
    connection: Ints
    notes: tuple[str, ...]


def _neper_rows(file: File, begin: int, end: int) -> _NeperRows:
    notes = ["neper's timestamps are taken as the times of the answers"]
    columns = read_csv(file, begin, end, notes=notes, ended=True)
    rtt, there = exact(columns["rtt"], "s", what="rtt", file=file)
    when, timed = exact(columns["timestamp"], "s", what="timestamp", file=file)
    thread, _ = exact(columns.get("thread_id", columns["flow_id"]), "ns", what="thread_id", file=file)
    flow, _ = exact(columns["flow_id"], "ns", what="flow_id", file=file)
    whole = there & timed
    if not whole.all():
        # neper logs answers, so an incomplete row was cut off.
        notes.append(f"left out: {_count(int((~whole).sum()), 'row')} without a time or a round trip")
    rtt, when, thread, flow = rtt[whole], when[whole], thread[whole], flow[whole]
    _, connection, rows = np.unique(np.stack([thread, flow]), axis=1, return_inverse=True, return_counts=True)
    if rows.size and rows.max() >= 10_000:
        notes.append("neper keeps at most 10,000 samples a flow: what came after them is not here")
    connection = connection.reshape(-1).astype(np.int64)
    return _NeperRows(when, rtt, np.ones(rtt.size, dtype=np.bool_), connection, tuple(notes))


def _neper_starts(file: File, options: Options, parts: list[_NeperRows], notes: list[str]) -> list[int]:
    # Before 1973: no time since the epoch.
    spans = [int(p.when.max(initial=0)) if p.when.max(initial=0) < 10**17 else 0 for p in parts]
    return begins(file, options, spans, notes) if any(spans) else spans


def _neper_series(file: File, options: Options, rows: _NeperRows, began: int, shared: list[str]) -> Series:
    relative = rows.when.max(initial=0) < 10**17
    return Series(
        label_of(file, options), "tcp-ping-pong", options.size,
        rows.when - rows.rtt + (began if relative else 0), rows.rtt, rows.there,
        connection=rows.connection, notes=(*rows.notes, *shared),
    )  # fmt: skip


NETPERF = Importer("netperf", "omni output: -o (names and values) or -k", _is_netperf, _read_netperf)
NEPER = Importer("neper", "--log-rtt (samples), or the table of results", _is_neper, _read_neper)
