import fcntl
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fathometer.dataset import Flags, format_utc, open_recording, open_recordings, parse_utc, raw
from fathometer.dataset.format import arrow_schema
from fathometer.dataset.layout import whole_table
from fathometer.dataset.regroup import envelope as envelope_of
from fathometer.dataset.source import opened
from fathometer.errors import FathometerError
from support.programs import ROOT

SCHEMA = ROOT / "schema"
GOLDEN = SCHEMA / "golden"
EXPECTED = json.loads((GOLDEN / "expected.json").read_text())


@pytest.fixture
def golden(tmp_path):
    """A copy of a golden recording that a test may spoil."""

    def copy(name):
        return Path(shutil.copytree(GOLDEN / name, tmp_path / name))

    return copy


@pytest.mark.parametrize(
    "name",
    [
        *("manifest.schema.json", "event.schema.json", "samples.json", "queries.json"),
        "imported-summary.schema.json",
    ],
)
def test_the_package_carries_the_schema_of_the_repository(name):
    import fathometer.dataset

    carried = Path(fathometer.dataset.__file__).parent / "schema" / name
    told = f"cp schema/{name} python/src/fathometer/dataset/schema/"
    assert carried.read_text() == (SCHEMA / name).read_text(), told


def test_the_flags_are_the_schemas():
    names = json.loads((SCHEMA / "samples.json").read_text())["flags"]
    assert [f.name.lower() for f in Flags] == names
    assert [int(f) for f in Flags] == [1 << i for i in range(len(names))]


@pytest.mark.parametrize("name", ["closed", "derived", "torn"])
def test_golden_recordings_read_as_their_rows(name):
    recording = open_recording(GOLDEN / name)
    tables = [] if recording.source.open is None else [recording.source.open]
    for segment in recording.source.closed:
        with opened(segment) as file:
            tables.append(whole_table(pq.ParquetFile(file)))
    rows = [row.values() for row in pa.concat_tables(tables).to_pylist()]
    key = (EXPECTED["columns"].index("connection"), EXPECTED["columns"].index("seq"))
    assert sorted(map(list, rows), key=lambda r: (r[key[0]], r[key[1]])) == EXPECTED[name]["rows"]
    assert recording.rows == len(EXPECTED[name]["rows"])
    assert len(recording.events) == EXPECTED[name]["events"]
    torn = {d.file: {"offset": d.offset, "bytes": d.bytes} for d in recording.damage}
    stated = EXPECTED[name].get("torn", {})
    assert set(torn) == set(stated)
    for file, where in stated.items():
        assert where.items() <= torn[file].items()
    assert all(d.torn for d in recording.damage)
    assert (recording.running, recording.interrupted) == (False, name == "torn")


def test_unknown_events_and_fields_are_kept():
    recording = open_recording(GOLDEN / "closed")
    assert "tide" in [e.kind for e in recording.events]
    assert recording.manifest.extra == {"written_by_a_later_version": [1]}
    assert recording.manifest.path.start == "zone-1"


def test_a_tree_gives_every_recording_once(tmp_path):
    for label in ("a", "b"):
        shutil.copytree(GOLDEN / "closed", tmp_path / f"label={label}/date=2025-06-15/run")
    found = open_recordings(
        [tmp_path, tmp_path / "label=a", tmp_path / "label=b/date=2025-06-15/run/recording.json"]
    )
    assert [r.directory.parts[-3] for r in found] == ["label=a", "label=b"]


def test_locked_recording_is_running_with_whole_batches(golden):
    directory = golden("torn")
    with (directory / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        recording = open_recording(directory)
    assert recording.running
    assert not recording.interrupted
    assert recording.rows == 6


def spoil(path, at, value):
    data = bytearray(path.read_bytes())
    data[at] ^= value
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("what", "spoiling"),
    [
        ("checksum", lambda d: spoil(d / "samples-00000.parquet", 200, 1)),
        ("should have", lambda d: (d / "samples-00000.parquet").write_bytes(b"short")),
        ("missing", lambda d: (d / "samples-00000.parquet").unlink()),
        ("no event lists it", lambda d: (d / "events.jsonl").unlink()),
    ],
)
def test_segment_contradicting_its_event_is_left_out(golden, what, spoiling):
    directory = golden("closed")
    spoiling(directory)
    recording = open_recording(directory)
    assert recording.rows == 0
    assert recording.rollup.histogram().count == 0
    (damage,) = recording.damage
    assert what in damage.reason
    assert not damage.torn


def test_cut_open_segment_reads_whole_batches(golden):
    directory = golden("torn")
    path = directory / "samples-00001.arrows"
    whole = path.read_bytes()
    counts = set()
    for length in range(0, len(whole), 13):
        path.write_bytes(whole[:length])
        recording = open_recording(directory)
        counts.add(recording.rows)
        assert all(d.torn for d in recording.damage)
    assert counts == {3, 5, 6}  # The closed segment's three, then batches of two and one.


def test_wrong_message_length_is_damage_not_torn(golden):
    directory = golden("torn")
    path = directory / "samples-00001.arrows"
    first = path.read_bytes().find(b"\xff\xff\xff\xff", 8)
    spoil(path, first + 5, 0x20)  # 8 KiB more of metadata than the file has.
    recording = open_recording(directory)
    assert recording.rows == 3
    (damage,) = [d for d in recording.damage if d.file == path.name]
    assert (damage.torn, damage.offset, damage.reason) == (False, first, "a message has a wrong length")


def test_bit_flip_never_changes_rows_read(golden):
    directory = golden("torn")
    path = directory / "samples-00001.arrows"
    whole = path.read_bytes()
    end = EXPECTED["torn"]["torn"]["samples-00001.arrows"]["offset"]
    sound = open_recording(directory)
    table = sound.source.open.to_pylist()
    for at in range(1, end, 37):
        spoil(path, at, 0x10)
        spoiled = open_recording(directory)
        rows = spoiled.source.open.to_pylist() if spoiled.source.open is not None else []
        # Bytes of padding mean nothing; what is read is always what was written.
        assert rows == table[: len(rows)]
        path.write_bytes(whole)


def manifest(directory, **changes):
    value = json.loads((directory / "recording.json").read_text())
    (directory / "recording.json").write_text(json.dumps(value | changes))


@pytest.mark.parametrize(
    ("spoiling", "says"),
    [
        (lambda d: manifest(d, format_version=3), "format version 3.*install a newer fathometer"),
        (lambda d: manifest(d, format_version="1"), "no format_version that ever was"),
        (lambda d: manifest(d, started_at="yesterday"), "started_at must be date-time"),
        (lambda d: manifest(d, label=7), "label must be string"),
        (lambda d: (d / "recording.json").write_text("{"), "no JSON"),
        (lambda d: (d / "recording.json").write_text("[]"), "no recording of ours"),
        (lambda d: (d / "recording.json").unlink(), "has samples but no recording.json"),
        (shutil.rmtree, "does not exist"),
        (lambda d: (shutil.rmtree(d), d.mkdir()), "holds no recording"),
        (lambda d: (shutil.rmtree(d), d.write_text("x")), "is a file.*fathom import"),
    ],
)
def test_invalid_recording_is_one_line_error(golden, spoiling, says):
    directory = golden("closed")
    spoiling(directory)
    with pytest.raises(FathometerError, match=says) as refused:
        open_recordings([directory])
    assert "\n" not in str(refused.value)
    assert str(directory) in str(refused.value)


def test_one_bad_recording_does_not_hide_others(golden, tmp_path):
    golden("torn")
    manifest(golden("closed"), format_version=9)
    told = []
    found = open_recordings([tmp_path], on_error=told.append)
    assert [r.directory.name for r in found] == ["torn"]
    assert len(told) == 1


def test_an_empty_recording_answers_every_question_honestly(record):
    recording = record([], [])
    assert recording.totals.samples == 0
    assert recording.totals.first_sent_ns is None
    assert recording.rollup.histogram().count == 0
    assert envelope_of(recording.rollup, 10).start_ns.size == 0
    assert recording.rollup.counted(0, 10**9).stretch.size == 0
    assert raw.last_means(recording, 0, 10**18, 100).size == 0
    assert raw.samples(recording).seq.size == 0


def test_a_single_sample_is_all_there_is(record):
    recording = record([10**18], [5_000])
    histogram = recording.rollup.histogram()
    assert (histogram.count, histogram.quantile(0.5).value_ns, histogram.stddev_ns) == (1, 5_000, None)
    envelope = envelope_of(recording.rollup, 10)
    assert (envelope.p50_ns.tolist(), np.isnan(envelope.p99_ns).tolist()) == ([5_000.0], [True])
    assert raw.samples(recording).value_ns.tolist() == [5_000.0]


def test_unanswered_recording_has_counts_without_values(record):
    recording = record([10**18, 10**18 + 10**9], [0, 0], [False, False])
    assert (recording.totals.unanswered, recording.totals.answered) == (2, 0)
    assert recording.rollup.histogram().count == 0
    envelope = envelope_of(recording.rollup, 1)
    assert (envelope.sent.tolist(), envelope.unanswered.tolist()) == ([2], [2])
    assert np.isnan(envelope.min_ns).all()
    assert raw.samples(recording).seq.tolist() == [0, 1]


@pytest.mark.parametrize("ns", [0, -1, 1_750_000_000_123_456_789, 253_402_300_799_000_000_000 // 1000])
def test_times_go_there_and_back_exactly(ns):
    assert parse_utc(format_utc(ns)) == ns
    assert parse_utc("2026-01-02T05:04:05.5+02:00") == parse_utc("2026-01-02T03:04:05.500000000Z")


def test_the_rust_half_sees_the_same(fathom, record):
    rng = np.random.default_rng(7)
    n = 5_000
    sent = 1_750_000_000_000_000_000 + np.arange(n) * 10**7
    answered = rng.random(n) > 0.01
    connection = (np.arange(n) // 2_000).astype(np.int64)
    warm_up = np.arange(n) < 20
    recording = record(
        sent, rng.lognormal(13, 0.5, n).astype(np.int64), answered, connection=connection, warm_up=warm_up
    )
    verified = subprocess.run(
        [fathom, "recording", "verify", recording.directory], capture_output=True, text=True, check=False
    )
    assert verified.returncode == 0, verified.stdout + verified.stderr
    told = subprocess.run(
        [fathom, "recording", "summary", "--json", recording.directory],
        capture_output=True,
        text=True,
        check=True,
    )
    theirs = json.loads(told.stdout)
    ours = recording.rollup.histogram()
    totals = recording.totals
    assert (theirs["samples"], theirs["answered"], theirs["unanswered"], theirs["warm_up"]) == (
        totals.samples, totals.answered, totals.unanswered, totals.warm_up)  # fmt: skip
    rtt = theirs["rtt_ns"]
    assert (rtt["count"], rtt["min"], rtt["max"]) == (ours.count, ours.min_ns, ours.max_ns)
    for name, q in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p99_9", 0.999)):
        assert rtt[name] == pytest.approx(ours.quantile(q).value_ns, rel=1e-3)
    assert rtt["p99_99"] is None
    assert ours.supported_quantile(0.9999) is None
    assert rtt["mean"] == pytest.approx(ours.mean_ns, abs=1)
    assert rtt["stddev"] == pytest.approx(ours.stddev_ns, rel=1e-5)


def test_the_schema_of_an_open_segment_is_checked(golden):
    directory = golden("torn")
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, arrow_schema().remove(3)):
        pass
    (directory / "samples-00001.arrows").write_bytes(sink.getvalue().to_pybytes()[:-8])
    recording = open_recording(directory)
    assert recording.rows == 3
    assert "columns" in recording.damage[1].reason
