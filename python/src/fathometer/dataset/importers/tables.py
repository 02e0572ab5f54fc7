"""netperf's omni output and neper's tables."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections import deque

import numpy as np

from fathometer.dataset.importers.base import (
    COLUMNS,
    NO_SAMPLES,
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

_NETPERF = {
    "minimum latency microseconds": "min", "maximum latency microseconds": "max",
    "mean latency microseconds": "mean",
    "stddev latency microseconds": "stddev", "50th percentile latency microseconds": "p50",
    "90th percentile latency microseconds": "p90", "95th percentile latency microseconds": "p95",
    "99th percentile latency microseconds": "p99",
    "min_latency": "min", "max_latency": "max", "mean_latency": "mean", "stddev_latency": "stddev",
    "p50_latency": "p50", "p90_latency": "p90", "p95_latency": "p95", "p99_latency": "p99",
}  # fmt: skip


def _netperf_fields(text: str) -> dict[str, str]:
    """Names and values, from ``-o`` (a line of each) or ``-k`` (NAME=VALUE)."""
    keyed = dict(re.findall(r"^([A-Z][A-Z0-9_]*)=(.*)$", text, re.MULTILINE))
    if any(name.lower() in _NETPERF for name in keyed):
        return {name.lower(): value for name, value in keyed.items()}
    lines = [line for line in text.splitlines() if line.strip()]
    for names, values in itertools.pairwise(lines):
        header = [n.strip().lower() for n in next(csv.reader([names]))]
        if any(n in _NETPERF for n in header) or "throughput" in header:
            return dict(zip(header, (v.strip() for v in next(csv.reader([values]))), strict=False))
    return {}


def _is_netperf(file: File) -> bool:
    return "MIGRATED" in file.head or any(
        name in file.head for name in ("Latency Microseconds", "P99_LATENCY=", "MEAN_LATENCY=")
    )


def _read_netperf(file: File, options: Options) -> Imported:
    fields = _netperf_fields(file.text)
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
    summary = Summary(
        label_of(file, options), "tcp-ping-pong", int(size) if size and size.isdigit() else options.size,
        None, statistics, cannot=NO_SAMPLES, notes=tuple(f"{n} holds no number" for n in unread),
    )  # fmt: skip
    return Imported("netperf", file.path, summaries=(summary,))


def _is_neper(file: File) -> bool:
    first = {c.strip() for c in file.head.split("\n", 1)[0].split(",")}
    return {"flow_id", "rtt"} <= first or bool(
        {"latency_mean", "latency_min", "num_transactions"} & first
    ) or bool(re.search(r"^num_transactions=|^latency_mean=", file.head, re.MULTILINE))  # fmt: skip


def _read_neper(file: File, options: Options) -> Imported:
    first = [c.strip() for c in file.head.split("\n", 1)[0].split(",")]
    if {"flow_id", "rtt"} <= set(first):
        return Imported("neper", file.path, (_neper_samples(file, options),))
    keyed = dict(re.findall(r"^(latency_\w+|num_transactions|request_size)=(.*)$", file.text, re.MULTILINE))
    if not keyed:
        # Each row of one letter would become a dictionary of as many columns as the first line has.
        if len(first) > COLUMNS:
            raise file.bad(f"its table has {len(first):,} columns, more than {COLUMNS:,}")
        last = deque(csv.DictReader(io.StringIO(file.text), skipinitialspace=True), maxlen=1)
        keyed = last[0] if last else {}
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
    summary = Summary(
        label_of(file, options), "tcp-ping-pong", options.size, int(float(count)) if count else None,
        statistics, cannot=NO_SAMPLES,
    )  # fmt: skip
    return Imported("neper", file.path, summaries=(summary,))


def _neper_samples(file: File, options: Options) -> Series:
    columns = read_csv(file, 0)
    rtt, there = exact(columns["rtt"], "s", what="rtt", file=file)
    when, _ = exact(columns["timestamp"], "s", what="timestamp", file=file)
    thread, _ = exact(columns.get("thread_id", columns["flow_id"]), "ns", what="thread_id", file=file)
    flow, _ = exact(columns["flow_id"], "ns", what="flow_id", file=file)
    notes = ["neper's timestamps are taken as the times of the answers"]
    _, connection, rows = np.unique(np.stack([thread, flow]), axis=1, return_inverse=True, return_counts=True)
    if rows.size and rows.max() >= 10_000:
        notes.append("neper keeps at most 10,000 samples a flow: what came after them is not here")
    sent = when - rtt
    if when.size and when.max() < 10**17:  # Before 1973: no time since the epoch.
        sent = sent + file.started_ns(options, int(when.max()), notes)
    return Series(
        label_of(file, options), "tcp-ping-pong", options.size, sent, rtt, there,
        connection=connection.reshape(-1).astype(np.int64), notes=tuple(notes),
    )  # fmt: skip


NETPERF = Importer("netperf", "omni output: -o (names and values) or -k", _is_netperf, _read_netperf)
NEPER = Importer("neper", "--log-rtt (samples), or the table of results", _is_neper, _read_neper)
