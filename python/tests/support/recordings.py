"""Recordings made for a test: known round trips in the format of `schema/`, written with pyarrow and json
only, so that what a report says can be held against the arrays that went in.
"""

import json
import uuid
import zlib
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fathometer.dataset.format import arrow_schema

START = 1_742_428_800_000_000_000
"""2025-03-20 00:00:00 UTC: the article's day."""
UNANSWERED = -1


def iso(at_ns):
    whole, rest = divmod(int(at_ns), 1_000_000_000)
    return f"{datetime.fromtimestamp(0, UTC) + timedelta(seconds=whole):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"


def bucket(rtt_ns):
    """The log-linear bucket of DESIGN.md 5, by floating point: exact below 2^53."""
    known = np.minimum(rtt_ns, (1 << 42) - 1)
    octave = np.maximum(np.frexp(np.asarray(known, dtype=np.float64))[1] - 12, 0)
    return 2048 * octave + (known >> octave)


def lognormal_ns(seed, n, median_us=1000.0, sigma=0.15):
    rng = np.random.default_rng(seed)
    return np.round(median_us * 1e3 * np.exp(sigma * rng.standard_normal(n))).astype(np.int64)


def without_derived(table):
    """The columns of a closed segment of format version 2, as `schema/recording.md` has them, by integers of
    Python.
    """

    def wrapped(value):
        return None if value is None else (value + (1 << 63)) % (1 << 64) - (1 << 63)

    column = {name: table.column(name).to_pylist() for name in table.column_names}
    due = [wrapped(s - late) for s, late in zip(column["sent_ns"], column["lateness_ns"], strict=True)]
    parts = zip(*(column[f"{name}_ns"] for name in ("backward", "rtt", "reflector", "forward")), strict=True)
    shift = [wrapped(None if b is None else b - (r or 0) + (x or 0) + (f or 0)) for b, r, x, f in parts]
    fields = []
    for field in table.schema:
        if field.name == "lateness_ns":
            fields.append((pa.field("due_ns", pa.int64(), nullable=False), pa.array(due, pa.int64())))
        elif field.name == "backward_ns":
            fields.append((pa.field("clock_shift_ns", pa.int64()), pa.array(shift, pa.int64())))
        elif field.name != "rtt_bucket":
            fields.append((field, table.column(field.name)))
    return pa.table([array for _, array in fields], schema=pa.schema([field for field, _ in fields]))


def write(
    directory,
    rtt_ns,
    *,
    label="path",
    interval_ns=1_000_000_000,
    start_ns=START,
    mode="tcp",
    size=64,
    connection=None,
    warm_up=0,
    columns=(),
    events=(),
    ended=True,
    manifest=(),
    derived=lambda _: False,
):
    """Writes a recording; `rtt_ns` an array (`UNANSWERED` where no echo came) or an iterable of arrays.

    `columns`: more of them by name, each a function of the samples' ordinals; `flags` are added to ours.
    `derived`: whether the segment of an ordinal lacks the columns that can be derived (format version 2).
    `events`: dictionaries with `at_ns` and `kind`; `manifest`: fields that replace ours.
    """
    directory.mkdir(parents=True)
    parts = [rtt_ns] if isinstance(rtt_ns, np.ndarray) else rtt_ns
    schema = arrow_schema()
    lines, sent_so_far, whole = [], 0, True
    for ordinal, given in enumerate(parts):
        part = np.asarray(given, dtype=np.int64)
        n = len(part)
        seq = np.arange(sent_so_far, sent_so_far + n)
        lost = part < 0
        flags = np.where(lost, 8, 0) | np.where(seq == 0, 1, 0) | np.where(seq < warm_up, 2, 0)
        known = np.maximum(part, 0)
        given_columns = {name: make(seq) for name, make in dict(columns).items()}
        ours = {
            "connection": np.zeros(n, dtype=np.uint32) if connection is None else connection,
            "seq": seq,
            "size": np.full(n, size),
            "sent_ns": start_ns + seq * interval_ns,
            "lateness_ns": np.zeros(n, dtype=np.int64),
            "rtt_ns": pa.array(known, mask=lost),
            "rtt_bucket": pa.array(bucket(known), mask=lost),
            **given_columns,
            "flags": flags | given_columns.get("flags", 0),
        }
        arrays = [
            pa.array(ours[f.name]).cast(f.type) if f.name in ours else pa.nulls(n, f.type) for f in schema
        ]
        name = f"samples-{ordinal:05}.parquet"
        table = pa.Table.from_arrays(arrays, schema=schema)
        whole = whole and not derived(ordinal)
        table = without_derived(table) if derived(ordinal) else table
        pq.write_table(table, directory / name, compression="zstd")
        data = (directory / name).read_bytes()
        sent_so_far += n
        lines.append(
            {
                "at_ns": start_ns + sent_so_far * interval_ns,
                "kind": "segment.closed",
                "file": name,
                "rows": n,
                "bytes": len(data),
                "crc32": zlib.crc32(data),
            }
        )
    end_ns = start_ns + sent_so_far * interval_ns
    lines = [{"at_ns": start_ns, "kind": "recording.started"}, *events, *lines]
    if ended:
        lines.append({"at_ns": end_ns, "kind": "recording.ended", "samples": sent_so_far})
    lines.sort(key=lambda e: e["at_ns"])
    with (directory / "events.jsonl").open("w") as file:
        for e in lines:
            at = e["at_ns"]
            said = {
                "at": iso(at),
                "mono_ns": int(at - start_ns),
                **{k: v for k, v in e.items() if k != "at_ns"},
            }
            file.write(json.dumps(said) + "\n")
    made = {
        "format_version": 1 if whole else 2,
        "id": str(uuid.uuid5(uuid.NAMESPACE_URL, f"{directory.name} {label} {start_ns}")),
        "label": label,
        "path": {"from": "here", "to": "there", "via": None, "tags": {}},
        "started_at": iso(start_ns),
        "ended_at": iso(end_ns) if ended else None,
        "tool": {"version": "0.1.0", "revision": None},
        "probe": {"mode": mode, "size": size, "interval_ns": interval_ns},
        "host": {"os": "Debian GNU/Linux 12", "kernel": "6.1.0", "cpu": "a cpu"},
        "cloud": None,
        "reflector": {"address": "192.0.2.7:7", "resolved": None, "software": None, "stamps": None},
        "clock_anchors": [{"mono_ns": 0, "utc": iso(start_ns)}],
        **dict(manifest),
    }
    (directory / "recording.json").write_text(json.dumps(made, indent=2))
    return directory
