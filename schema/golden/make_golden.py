"""Makes the golden recordings with pyarrow, so that the reader is tested against another implementation.

    python3 schema/golden/make_golden.py

`closed/` ended in order; `derived/` has the same rows in the columns of a closed segment of format version 2; `torn/` was
cut in the middle of its last record batch and of its last event. The rows are written down here by hand; `expected.json` holds them as rows of plain numbers for either half's tests.
"""

import json
import pathlib
import shutil
import zlib

import pyarrow as pa
import pyarrow.parquet as pq

HERE = pathlib.Path(__file__).parent
SAMPLES = json.loads((HERE.parent / "samples.json").read_text())


def field(column):
    return pa.field(column["name"], getattr(pa, column["type"])(), column["nullable"])


SCHEMA = pa.schema([field(c) for c in SAMPLES["columns"]])
CLOSED = pa.schema([SCHEMA.field(c) if isinstance(c, str) else field(c) for c in SAMPLES["closed"]])
START = 1_750_000_000_000_000_000  # 2025-06-15T15:06:40Z


def bucket(value):
    """The definition in recording.md, in Python."""
    if value is None or value < 2048:
        return value
    octave = value.bit_length() - 12
    return 2048 * octave + (value >> octave)


def row(connection, seq, rtt, flags=0, **more):
    sent = START + seq * 1_000_000_000
    base = dict(connection=connection, seq=seq, size=64, sent_ns=sent, lateness_ns=55_000, rtt_ns=rtt,
                rtt_bucket=bucket(rtt), flags=flags)
    return {name: {**base, **more}.get(name) for name in SCHEMA.names}


ROWS = [
    row(0, 0, 912_345, flags=1 | 2, srtt_us=900, retransmits=0),
    row(0, 1, 0),
    row(0, 2, 2_047, send_stack_ns=2_700, recv_stack_ns=33_000),
    row(0, 3, 2_048, reflector_ns=35_000, forward_ns=-400_000_000, backward_ns=400_500_000),
    row(0, 4, None, flags=8),
    row(0, 5, 20_123_456_789, flags=4, retransmits=7, srtt_us=4_294_967_295),
    row(0, 6, 2**42 - 1, lateness_ns=-1),
    row(4_294_967_295, 2**64 - 1, 1, sent_ns=-1),
]


def arrows(batches):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA) as writer:
        for rows in batches:
            batch = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
            body = pa.ipc.read_message(batch.serialize()).body
            writer.write_batch(batch, custom_metadata={"crc32": str(zlib.crc32(body))})
    return sink.getvalue().to_pybytes()[:-8]  # an open segment has no mark of its end


def line(kind, **more):
    return json.dumps({"at": "2025-06-15T15:06:40Z", "mono_ns": 5_000_000_000, "kind": kind, **more}) + "\n"


def derived(row):
    """A row in the columns of a closed segment of format version 2."""
    rest = (row["rtt_ns"] or 0) - (row["reflector_ns"] or 0) - (row["forward_ns"] or 0)
    shift = None if row["backward_ns"] is None else row["backward_ns"] - rest
    row = {**row, "due_ns": row["sent_ns"] - row["lateness_ns"], "clock_shift_ns": shift}
    return {name: row[name] for name in CLOSED.names}


def manifest(ended_at, version=1):
    return {
        "format_version": version, "id": "01976f5e-1c00-7000-8000-000000000001", "label": "golden",
        "path": {"from": "zone-1", "to": "zone-2", "via": None, "tags": {"size": "B1"}},
        "started_at": "2025-06-15T15:06:40Z", "ended_at": ended_at, "tool": {"version": "0.0.0", "revision": None},
        "probe": {"every_ns": 1_000_000_000}, "host": {"os": "linux"}, "cloud": None,
        "reflector": {"address": "there:7007", "resolved": "192.0.2.1:7007", "software": None, "stamps": True},
        "clock_anchors": [{"mono_ns": 5_000_000_000, "utc": "2025-06-15T15:06:40Z"}],
        "written_by_a_later_version": [1],
    }


def make(name, files):
    directory = HERE / name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    for file, content in files.items():
        (directory / file).write_bytes(content if isinstance(content, bytes) else content.encode())


def parquet(rows, schema=SCHEMA):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), sink, compression="zstd")
    return sink.getvalue().to_pybytes()


for version, name in [(1, "closed"), (2, "derived")]:
    segment = parquet(ROWS) if version == 1 else parquet([derived(row) for row in ROWS], CLOSED)
    sums = {"rows": len(ROWS), "bytes": len(segment), "crc32": zlib.crc32(segment)}
    make(name, {
        "recording.json": json.dumps(manifest("2025-06-15T15:07:40Z", version), indent=2) + "\n",
        "samples-00000.parquet": segment,
        "events.jsonl": line("recording.started") + line("tide", height_mm=3)
        + line("segment.closed", file="samples-00000.parquet", **sums) + line("recording.ended", samples=len(ROWS)),
    })
head = parquet(ROWS[:3])
stream = arrows([ROWS[3:5], ROWS[5:6], ROWS[6:]])
whole = len(arrows([ROWS[3:5], ROWS[5:6]]))
make("torn", {
    "recording.json": json.dumps(manifest(None), indent=2) + "\n",
    "samples-00000.parquet": head,
    "samples-00001.arrows": stream[: whole + 100],
    "events.jsonl": line("recording.started")
    + line("segment.closed", file="samples-00000.parquet", rows=3, bytes=len(head), crc32=zlib.crc32(head))
    + line("note", text="cut")[:-9],
})
expected = {
    "columns": SCHEMA.names,
    "closed": {"rows": [list(r.values()) for r in ROWS], "events": 4},
    "derived": {"rows": [list(r.values()) for r in ROWS], "events": 4},
    "torn": {"rows": [list(r.values()) for r in ROWS[:6]], "events": 2, "torn": {
        "samples-00001.arrows": {"offset": whole, "bytes": 100},
        "events.jsonl": {"bytes": len(line("note", text="cut")) - 9},
    }},
}
(HERE / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
