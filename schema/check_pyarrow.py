"""Reads a recording of ours with pyarrow and holds its columns and checksums against samples.json.

    python3 schema/check_pyarrow.py RECORDING_DIR
"""

import json
import pathlib
import sys
import zlib

import pyarrow as pa
import pyarrow.parquet as pq

directory = pathlib.Path(sys.argv[1])
samples = json.loads((pathlib.Path(__file__).parent / "samples.json").read_text())


def field(column):
    return pa.field(column["name"], getattr(pa, column["type"])(), column["nullable"])


expected = pa.schema([field(c) for c in samples["columns"]])
version = json.loads((directory / "recording.json").read_text())["format_version"]
# From format version 2 on a closed segment lacks what can be derived.
closed = [expected.field(c) if isinstance(c, str) else field(c) for c in samples["closed"]]
closed = expected if version == 1 else pa.schema(closed)
events = [json.loads(line) for line in (directory / "events.jsonl").read_text().splitlines(True) if line.endswith("\n")]
rows = 0
for event in events:
    if event["kind"] == "segment.closed":
        data = (directory / event["file"]).read_bytes()
        assert (len(data), zlib.crc32(data)) == (event["bytes"], event["crc32"]), event["file"]
        table = pq.read_table(directory / event["file"])
        assert table.schema.remove_metadata().equals(closed), table.schema
        table.validate(full=True)
        assert table.num_rows == event["rows"]
        rows += table.num_rows
for path in sorted(directory.glob("samples-*.arrows")):
    for batch in pa.ipc.open_stream(path.open("rb")):
        assert batch.schema.remove_metadata().equals(expected)
        batch.validate(full=True)
        rows += batch.num_rows
print(f"{directory}: pyarrow {pa.__version__} reads {rows} rows, {len(events)} events")
