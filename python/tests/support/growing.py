"""A study's output as it grows: recordings written a piece at a time, in the format of `schema/`."""

import json
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fathometer.dataset.format import arrow_schema
from support.recordings import START, UNANSWERED, bucket, iso

MS = 1_000_000


def batch_of(first, rtt_ns, warm_up=0, interval_ns=100 * MS, start_ns=START):
    """Rows `first`, `first` + 1, … of a recording with these round trips."""
    rtt = np.asarray(rtt_ns, dtype=np.int64)
    seq = np.arange(first, first + len(rtt))
    lost = rtt == UNANSWERED
    known = np.maximum(rtt, 0)
    columns = {
        "connection": np.zeros(len(rtt)),
        "seq": seq,
        "size": np.full(len(rtt), 64),
        "sent_ns": start_ns + seq * interval_ns,
        "lateness_ns": np.zeros(len(rtt)),
        "rtt_ns": pa.array(known, mask=lost),
        "rtt_bucket": pa.array(bucket(known), mask=lost),
        "flags": np.where(lost, 8, 0) | np.where(seq < warm_up, 2, 0),
    }
    arrays = [
        pa.array(columns[f.name]).cast(f.type) if f.name in columns else pa.nulls(len(rtt), f.type)
        for f in arrow_schema()
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema())


def message(batch):
    """A batch as it stands in an open segment."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, arrow_schema()) as writer:
        body = pa.ipc.read_message(batch.serialize()).body
        writer.write_batch(batch, custom_metadata={"crc32": str(zlib.crc32(body))})
    return sink.getvalue().to_pybytes()[len(head()) : -8]


def head():
    """The beginning of an open segment, which tells its columns."""
    sink = pa.BufferOutputStream()
    pa.ipc.new_stream(sink, arrow_schema()).close()
    return sink.getvalue().to_pybytes()[:-8]


class Growing:
    """A recording that a probe writes; `look` is called where a reader may come in between."""

    def __init__(self, directory, look=lambda: None, *, label="path", start_ns=START, warm_up=0, probe=()):
        self.directory = directory
        self.look = look
        self.start_ns, self.warm_up = start_ns, warm_up
        self.rows = 0
        self._segment, self._batches = 0, []
        directory.mkdir(parents=True)
        made = {
            "format_version": 1,
            "id": f"{start_ns:032x}",
            "label": label,
            "path": {"from": "here", "to": "there", "via": None, "tags": {}},
            "started_at": iso(start_ns),
            "ended_at": None,
            "tool": {"version": "0.1.0", "revision": None},
            "probe": {"mode": "tcp", "size": 64, "interval_ns": 100 * MS, **dict(probe)},
            "host": {},
            "cloud": None,
            "reflector": {"address": "192.0.2.7:7", "resolved": None, "software": None, "stamps": None},
            "clock_anchors": [{"mono_ns": 0, "utc": iso(start_ns)}],
        }
        (directory / "recording.json").write_text(json.dumps(made))
        self.event(start_ns, "recording.started")

    def _append(self, name, data, cut):
        """Writes in two pieces, so that the first one's end is torn."""
        middle = int(len(data) * cut)
        for part in (data[:middle], data[middle:]):
            with (self.directory / name).open("ab") as file:
                file.write(part)
            self.look()

    def event(self, at_ns, kind, cut=1.0, **fields):
        line = {"at": iso(at_ns), "mono_ns": int(at_ns - self.start_ns), "kind": kind, **fields}
        self._append("events.jsonl", json.dumps(line).encode() + b"\n", cut)

    def samples(self, rtt_ns, cut=1.0):
        """Appends a batch to the open segment."""
        batch = batch_of(self.rows, rtt_ns, self.warm_up, start_ns=self.start_ns)
        data = message(batch) if self._batches else head() + message(batch)
        self._batches.append(batch)
        self.rows += len(rtt_ns)
        self._append(f"samples-{self._segment:05}.arrows", data, cut)

    def close_segment(self, at_ns):
        """Turns the open segment into Parquet, in the order in which the recorder does it."""
        if not self._batches:
            return
        name = f"samples-{self._segment:05}"
        table = pa.Table.from_batches(self._batches, arrow_schema())
        part = self.directory / f"{name}.parquet.tmp"
        pq.write_table(table, part, compression="zstd", row_group_size=7)
        data = part.read_bytes()
        part.rename(self.directory / f"{name}.parquet")
        self.look()
        self.event(
            at_ns,
            "segment.closed",
            file=f"{name}.parquet",
            rows=table.num_rows,
            bytes=len(data),
            crc32=zlib.crc32(data),
        )
        (self.directory / f"{name}.arrows").unlink()
        self._segment, self._batches = self._segment + 1, []
        self.look()

    def move(self, to):
        """What a study does with a recording that is whole."""
        to.parent.mkdir(parents=True, exist_ok=True)
        self.directory.rename(to)
        self.directory = to
        self.look()


class StudyDirectory:
    """The output of a study, as its runner writes it."""

    def __init__(self, root, look=lambda: None):
        self.output, self.look = root / "out", look
        self.output.mkdir()
        self.unfinished = root / "out.unfinished"

    def note(self, at_ns, kind, cut=1.0, **fields):
        data = json.dumps({"at": iso(at_ns), "kind": kind, **fields}).encode() + b"\n"
        middle = int(len(data) * cut)
        for part in (data[:middle], data[middle:]):
            with (self.output / "journal.jsonl").open("ab") as file:
                file.write(part)
            self.look()

    def begin(self, at_ns, run, **options):
        """A run begins: its entry, then its recording."""
        self.note(at_ns, "run.started", run=run)
        label = run.partition("/")[0].removeprefix("label=")
        return Growing(self.unfinished / run, self.look, label=label, start_ns=at_ns, **options)

    def finish(self, at_ns, run, recording, cut=1.0):
        """A run ends: its recording takes its place, then its entry."""
        recording.move(self.output / run)
        self.note(at_ns, "run.finished", cut, run=run, samples=recording.rows, answered=recording.rows)
