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
columns = json.loads((pathlib.Path(__file__).parent / "samples.json").read_text())["columns"]
expected = pa.schema([pa.field(c["name"], getattr(pa, c["type"])(), c["nullable"]) for c in columns])
events = [json.loads(line) for line in (directory / "events.jsonl").read_text().splitlines(True) if line.endswith("\n")]
rows = 0
for event in events:
    if event["kind"] == "segment.closed":
        data = (directory / event["file"]).read_bytes()
        assert (len(data), zlib.crc32(data)) == (event["bytes"], event["crc32"]), event["file"]
        table = pq.read_table(directory / event["file"])
        assert table.schema.remove_metadata().equals(expected), table.schema
        table.validate(full=True)
        assert table.num_rows == event["rows"]
        rows += table.num_rows
for path in sorted(directory.glob("samples-*.arrows")):
    for batch in pa.ipc.open_stream(path.open("rb")):
        assert batch.schema.remove_metadata().equals(expected)
        batch.validate(full=True)
        rows += batch.num_rows
print(f"{directory}: pyarrow {pa.__version__} reads {rows} rows, {len(events)} events")
