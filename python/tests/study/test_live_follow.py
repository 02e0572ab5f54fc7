"""Whoever reads a study as it grows sees what one sees who reads it at its end."""

import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from fathometer.dataset import follow as followed
from fathometer.dataset import open_recording, segments
from fathometer.dataset.follow import NONE, RecordingFollower, Tail
from fathometer.study.live.follow import StudyFollower, follow
from support.growing import MS, Growing, StudyDirectory
from support.recordings import START, UNANSWERED, lognormal_ns, write

SECOND = 1_000_000_000
ROUND_TRIPS = st.lists(st.one_of(st.just(UNANSWERED), st.integers(0, 10**9)), min_size=1, max_size=20)
CUT = st.floats(0, 1)


class Reader:
    """Follows a recording, and keeps what it is told."""

    def __init__(self):
        self.follower, self.where = RecordingFollower(), None
        self.manifests, self.events, self.samples = [], [], []

    def look(self):
        grown = self.follower.poll(self.where)
        assert not grown.more
        self.manifests += [grown.manifest] if grown.manifest else []
        self.events += grown.events
        self.samples += list(
            zip(
                *(a.tolist() for a in (grown.samples.sent_ns, grown.samples.rtt_ns, grown.samples.warm_up)),
                strict=True,
            )
        )

    def told(self):
        return [m.id for m in self.manifests], [(e.at_ns, e.kind) for e in self.events], self.samples


STEP = st.one_of(
    st.tuples(st.just("samples"), ROUND_TRIPS, CUT),
    st.tuples(st.just("event"), st.sampled_from(["note", "connection.refused"]), CUT),
    st.tuples(st.just("close"), st.none(), CUT),
    st.tuples(st.just("move"), st.none(), CUT),
)


@given(st.lists(STEP, max_size=12), st.lists(st.booleans(), min_size=1))
def test_growing_recording_is_read_once(steps, looks):
    with TemporaryDirectory() as directory:
        reader = Reader()
        moments = iter(looks * 200)

        def look():
            if next(moments):
                reader.look()

        reader.where = Path(directory) / "0"
        recording = Growing(reader.where, look, warm_up=3)
        expected = []
        for number, (what, value, cut) in enumerate(steps, 1):
            at_ns = START + number * SECOND
            if what == "samples":
                first = recording.rows
                recording.samples(value, cut)
                expected += [
                    (START + i * 100 * MS, NONE if v == UNANSWERED else v, i < 3)
                    for i, v in enumerate(value, first)
                ]
            elif what == "event":
                fields = {"text": "x"} if value == "note" else {"target": "t", "error": "e"}
                recording.event(at_ns, value, cut, **fields)
            elif what == "close":
                recording.close_segment(at_ns)
            else:
                reader.where = Path(directory) / str(number)
                recording.move(reader.where)
        reader.look()
        assert reader.samples == expected
        at_once = Reader()
        at_once.where = reader.where
        at_once.look()
        assert reader.told() == at_once.told()
        # And it is what stands in the recording, by the reader whose word counts.
        opened = open_recording(reader.where)
        assert opened.rows == len(expected)
        assert [e.at_ns for e in opened.events] == [e.at_ns for e in reader.events]


def test_segment_closing_mid_read_loses_nothing(tmp_path):
    reader = Reader()
    reader.where = tmp_path / "r"
    recording = Growing(reader.where)
    recording.samples(range(10))
    reader.look()
    recording.samples(range(10, 30))
    recording.close_segment(START)
    recording.samples(range(30, 33))
    reader.look()
    assert [rtt for _, rtt, _ in reader.samples] == list(range(33))


def test_a_copy_whose_next_segment_is_here_first(tmp_path):
    reader = Reader()
    reader.where = tmp_path / "copy"
    recording = Growing(tmp_path / "there")
    reader.where.mkdir()

    def copy(name):
        (reader.where / name).write_bytes((recording.directory / name).read_bytes())

    recording.samples(range(10))
    copy("samples-00000.arrows")
    recording.samples(range(10, 30))
    recording.close_segment(START)
    recording.samples(range(30, 33))
    # The open segment was closed there before its end came here; what came next is here already.
    copy("samples-00001.arrows")
    reader.look()
    assert sorted(rtt for _, rtt, _ in reader.samples) == [*range(10), *range(30, 33)]
    copy("samples-00000.parquet")
    (reader.where / "samples-00000.arrows").unlink()
    reader.look()
    assert sorted(rtt for _, rtt, _ in reader.samples) == list(range(33))


def test_damaged_segment_is_skipped(tmp_path):
    reader = Reader()
    reader.where = tmp_path / "r"
    recording = Growing(reader.where)
    recording.samples([1000] * 5)
    segment = reader.where / "samples-00000.arrows"
    recording.samples([2000] * 5)
    damaged = bytearray(segment.read_bytes())
    damaged[-40] ^= 0xFF
    segment.write_bytes(damaged)
    reader.look()
    assert [rtt for _, rtt, _ in reader.samples] == [1000] * 5
    recording._segment, recording._batches = 1, []
    recording.samples([3000] * 5)
    reader.look()
    assert [rtt for _, rtt, _ in reader.samples] == [1000] * 5 + [3000] * 5


def test_tail_handles_growth_cut_and_replacement(tmp_path):
    path, tail = tmp_path / "f", Tail()
    assert tail.lines(path) == []
    path.write_bytes(b"one\ntw")
    assert tail.lines(path) == [b"one"]
    assert tail.lines(path) == []
    path.write_bytes(b"one\ntwo\n\nthr")
    assert tail.lines(path) == [b"two"]
    # A runner that goes on cuts the torn line off, and writes another.
    path.write_bytes(b"one\ntwo\n\nfour\n")
    assert tail.lines(path) == [b"four"]
    path.write_bytes(b"new\n")
    assert tail.lines(path) == [b"new"]


def figures(follower):
    """All that a board and its charts say."""
    live = follower.live
    bins = {
        (recent, key): [(at, b.low_ns, b.high_ns, b.sum_ns, b.answered, b.unanswered) for at, b in s.bins()]
        for recent in (True, False)
        for key, s in live.series(recent=recent).items()
    }
    return live.board(START + 10**12, alive=True), bins


PIECE = st.tuples(st.sampled_from(["samples", "close", "stall", "pause"]), ROUND_TRIPS, CUT)
RUN = st.tuples(
    st.sampled_from(["a", "b"]), st.lists(PIECE, max_size=5), st.sampled_from(["end", "fail", "go on"])
)


@given(st.lists(RUN, max_size=5), st.lists(st.booleans(), min_size=1))
def test_followed_study_matches_one_read(script, looks):
    with TemporaryDirectory() as root:
        moments = iter(looks * 500)
        follower = None

        def look():
            if follower is not None and next(moments):
                follower.poll()

        study = StudyDirectory(Path(root), look)
        follower = StudyFollower(study.output)
        at = iter(range(START, START + 10**13, SECOND))
        paths = [{"directory": f"label={name}", "runs": 5, "run_ns": SECOND} for name in "ab"]
        study.note(
            next(at), "study.started", study="s", runs=10, plan={"order": "one-by-one", "paths": paths}
        )
        for number, (label, pieces, end) in enumerate(script, 1):
            run = f"label={label}/run={number:02}"
            recording = study.begin(next(at), run, warm_up=2, probe={"count": 50})
            for what, value, cut in pieces:
                if what == "samples":
                    recording.samples(value, cut)
                elif what == "close":
                    recording.close_segment(next(at))
                elif what == "stall":
                    stall = {"seq": 1, "outstanding": 2, "threshold_ns": SECOND}
                    recording.event(next(at), "stall.began", cut, connection=0, **stall)
                else:
                    recording.event(next(at), "pause", cut, host="local", duration_ns=value[0] % 400 * MS)
            if end == "end":
                study.finish(next(at), run, recording, cut=0.5)
            elif end == "fail":
                study.note(next(at), "run.failed", 0.3, run=run, reason="no")
        while follower.poll():
            pass
        at_once = follow(study.output)
        while at_once.poll():
            pass
        assert figures(follower) == figures(at_once)
        told, told_at_once = ({(h.at_ns, h.text) for h in f.happenings()} for f in (follower, at_once))
        assert told == told_at_once


def test_figures_are_those_of_the_recording(tmp_path):
    study = StudyDirectory(tmp_path)
    rng = np.random.default_rng(3)
    study.note(START, "study.started", study="s", runs=2)
    run = "label=a/run=01"
    recording = study.begin(START, run, warm_up=10)
    for _ in range(3):
        recording.samples(rng.integers(10**5, 10**7, 150).tolist() + [UNANSWERED] * 4)
        recording.close_segment(START + 60 * SECOND)
    study.finish(START + 61 * SECOND, run, recording)
    follower = follow(study.output)
    assert not follower.poll()
    (row,) = follower.live.board(time.time_ns(), alive=True).rows
    histogram = open_recording(study.output / run).rollup.histogram()
    assert (row.count, row.unanswered) == (histogram.count, 12) == (440, 12)
    assert (row.p50_ns, row.p99_ns) == tuple(q.value_ns for q in histogram.quantiles([0.5, 0.99]))


def test_only_what_is_new_is_read(tmp_path, monkeypatch):
    study = StudyDirectory(tmp_path)
    study.note(START, "study.started", study="s", runs=1)
    recording = study.begin(START, "label=a/run=01")
    follower = follow(study.output)
    read = []
    for module in (followed, segments):
        opened = module.regular
        monkeypatch.setattr(module, "regular", lambda path, opened=opened: _counted(opened(path), read))
    sizes = []
    for _ in range(30):
        recording.samples([1000] * 1000)
        read.clear()
        follower.poll()
        sizes.append(sum(read))
    assert sizes[1] > 0
    # The thirtieth look reads no more than the second, though thirty times as much is there.
    assert sizes[-1] < 1.5 * sizes[1]
    assert (study.unfinished / "label=a/run=01/samples-00000.arrows").stat().st_size > 10 * sizes[-1]


class _Counted:
    def __init__(self, file, read):
        self._file, self._read = file, read

    def __getattr__(self, name):
        return getattr(self._file, name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._file.close()

    def read(self, *size):
        data = self._file.read(*size)
        self._read.append(len(data))
        return data


def _counted(file, read):
    return _Counted(file, read)


def test_a_study_that_takes_anothers_place(tmp_path):
    study = StudyDirectory(tmp_path)
    study.note(START, "study.started", study="one", runs=1)
    study.note(START, "run.started", run="label=a/run=01")
    follower = follow(study.output)
    follower.poll()
    (study.output / "journal.jsonl").unlink()
    study.note(START + SECOND, "study.started", study="two", runs=3)
    follower.poll()
    board = follower.live.board(START + SECOND, alive=True)
    assert (board.study, board.of, board.rows) == ("two", 3, ())


LOOK = """
import sys
from pathlib import Path
import fathometer.study.watch.terminal
from fathometer.dataset.follow import RecordingFollower
before = set(sys.modules)
print(len(RecordingFollower().poll(Path(sys.argv[1])).samples.sent_ns))
loaded = {name.partition(".")[0] for name in set(sys.modules) - before}
print(*sorted(loaded - sys.stdlib_module_names))
"""


def test_a_look_at_a_recording_loads_no_package(tmp_path):
    """Arrow loaded pandas, where it is installed, at the first samples: in the thread that draws, which had
    no picture for as long; seconds, on a busy machine.
    """
    rtt = lognormal_ns(1, 50)
    rtt[7] = UNANSWERED
    write(tmp_path / "r", rtt)
    command = [sys.executable, "-c", LOOK, str(tmp_path / "r")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["50", ""]


def test_closed_segments_are_read_by_arrow_itself(tmp_path, monkeypatch):
    """A file of Python's is let go by Arrow's threads, which takes the interpreter: a view that had just read
    one when its process ended died of SIGABRT, three times in 250."""
    read = []

    class Checked(pq.ParquetFile):
        def __init__(self, source):
            read.append(type(source))
            super().__init__(source)

    monkeypatch.setattr(followed.pq, "ParquetFile", Checked)
    write(tmp_path / "0", np.full(10, MS))
    reader = Reader()
    reader.where = tmp_path / "0"
    reader.look()
    assert len(reader.samples) == 10
    assert read
    assert all(issubclass(kind, pa.NativeFile) for kind in read)
