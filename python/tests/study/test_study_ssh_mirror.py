"""The host's side by the eyes of the runner: a mirror has what is there, whatever happened between looks."""

import asyncio
import json
import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fathometer.dataset import open_recording
from fathometer.errors import FathometerError
from fathometer.study.model import SshHost
from fathometer.study.processes import Processes
from fathometer.study.ssh.answers import (
    BadAnswer,
    FilePiece,
    Look,
    Seen,
    State,
    read_look,
    read_said,
    read_sums,
)
from fathometer.study.ssh.connection import SshConnection
from fathometer.study.ssh.mirror import Mirror
from fathometer.study.ssh.place import RemotePlace
from fathometer.study.ssh.remote import Remote
from fathometer.study.ssh.trouble import HostError
from support.programs import fathom

MOST = 1 << 20


class There:
    """A host's home in a directory, for which this machine's ``fathom host`` answers."""

    def __init__(self, home):
        self.home = home
        self.job = home / ".fathom/studies/0123/vm/jobs/run"
        (self.job / "rec").mkdir(parents=True)
        own = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        supervisor = {"pid": os.getpid(), "start": int(own), "boot": boot, "began_s": 0}
        (self.job / "supervisor").write_text(json.dumps(supervisor))
        self.rec = self.job / "rec"
        self.segment = 0
        self.open = self.rec / "samples-00000.arrows"
        self.open.touch()
        (self.rec / "recording.json").write_text("{}")
        (self.rec / ".lock").touch()

    def ask(self, verb, **fields):
        request = {"format": 1, "study": "0123", "host": "vm", "ask": {"verb": verb, **fields}}
        done = subprocess.run(
            [fathom(), "host", "answer"],
            input=json.dumps(request).encode() + b"\n",
            env={**os.environ, "HOME": str(self.home)},
            capture_output=True,
            check=True,
        )
        assert done.stderr == b""
        return done.stdout

    def look(self, mirror, budget):
        """What a mirror asks for; whether there is more."""
        look = read_look(self.ask("look", job="run", budget=budget, want=mirror.wants()))
        assert sum(len(p.data) for p in look.pieces) <= budget
        return look, mirror.take(look, budget)

    def append(self, data):
        with self.open.open("ab") as file:
            file.write(data)
        with (self.rec / "events.jsonl").open("ab") as file:
            file.write(data[:7])

    def close(self, data):
        """As the recorder does: the closed segment at once, then the open one goes, and another begins."""
        part = self.rec / f"samples-{self.segment:05d}.parquet.tmp"
        part.write_bytes(data * 3)
        part.rename(part.with_suffix(""))
        self.open.unlink()
        self.segment += 1
        self.open = self.rec / f"samples-{self.segment:05d}.arrows"
        self.open.write_bytes(b"")

    def describe(self, data):
        part = self.rec / "recording.json.tmp"
        part.write_bytes(data)
        part.rename(self.rec / "recording.json")


STEP = st.tuples(
    st.sampled_from(["append", "close", "describe", "look"]),
    st.binary(min_size=0, max_size=40),
    st.integers(1, 90),
)


# An empty file in the place of one that had arrived was never fetched: that one lay here by its name.
REPLACED_BY_AN_EMPTY_ONE = [("look", b"", 90), ("look", b"", 90), ("describe", b"", 1)]


@settings(max_examples=12)
@example(steps=REPLACED_BY_AN_EMPTY_ONE)
@given(steps=st.lists(STEP, max_size=10))
def test_mirror_matches_source_after_any_steps(steps):
    with tempfile.TemporaryDirectory() as directory:
        there, mirror = There(Path(directory) / "there"), Mirror(Path(directory) / "here", MOST)
        for what, data, budget in steps:
            if what == "look":
                there.look(mirror, budget)
            else:
                getattr(there, what)(data)
            # What is here of a file that grows is what its begin is there.
            for path in mirror.directory.glob("*.arrows"):
                if (there.rec / path.name).exists():
                    assert (there.rec / path.name).read_bytes().startswith(path.read_bytes())
        (there.job / "ended").write_text('{"state":"exited","code":0}')
        for _ in range(40):
            look, more = there.look(mirror, 100)
            assert look.state.succeeded
            if not more:
                break
        here = {p.name: p.read_bytes() for p in mirror.directory.iterdir() if p.suffix != ".part"}
        assert here == {p.name: p.read_bytes() for p in there.rec.iterdir() if p.name != ".lock"}
        sums = read_sums(there.ask("sums", job="run"))
        assert mirror.differences(sums) is None
        (mirror.directory / "recording.json").write_bytes(b"another")
        assert mirror.differences(sums) == "recording.json is not here as it is there"
        (mirror.directory / "recording.json").unlink()
        assert mirror.differences(sums) == "recording.json did not arrive"


def test_truncated_answer_is_rejected(tmp_path):
    there, mirror = There(tmp_path / "there"), Mirror(tmp_path / "here", MOST)
    there.append(b"0123456789")
    there.look(mirror, 1000)
    answer = there.ask("look", job="run", budget=1000, want=mirror.wants())
    assert any(p.data == b"0123456789" for p in read_look(answer).pieces)
    for end in range(len(answer)):
        with pytest.raises(BadAnswer):
            read_look(answer[:end])
    # What a login shell says before is no part of it.
    assert read_look(b"Welcome!\nYou have mail." + answer) == read_look(answer)


def test_mirror_is_locked_while_written(tmp_path):
    mirror = Mirror(tmp_path / "here", MOST)
    with mirror.being_written():
        assert (tmp_path / "here" / ".lock").exists()
        with pytest.raises(FathometerError, match=r"has no recording\.json"):
            open_recording(tmp_path / "here")
    assert list((tmp_path / "here").iterdir()) == []


ENDED = State("exited", 0)


def look(*files, pieces=(), state=ENDED):
    return Look(state, tuple(files), tuple(pieces))


def test_mirror_rejects_oversize_and_missing_data(tmp_path):
    events, manifest = Seen("events.jsonl", 1, 6, 0), Seen("recording.json", 2, 2, 0)
    with pytest.raises(BadAnswer, match="has 1,048,577 bytes there, and cannot have more than 1,048,576"):
        Mirror(tmp_path / "large", MOST).take(look(Seen("events.jsonl", 1, MOST + 1, 0)), 4)
    whole = look(events, manifest)
    mirror = Mirror(tmp_path / "still", MOST)
    assert mirror.take(whole, 4)
    with pytest.raises(BadAnswer, match="missing of the recording: 8 bytes"):
        mirror.take(whole, 4)
    mirror = Mirror(tmp_path / "grows", MOST)
    assert mirror.take(whole, 4)
    with pytest.raises(BadAnswer, match="changes after its end"):
        mirror.take(look(Seen("events.jsonl", 1, 7, 0), manifest), 4)
    mirror = Mirror(tmp_path / "comes", MOST)
    assert mirror.take(whole, 4)
    assert mirror.take(look(events, manifest, pieces=[FilePiece(events, 0, b"abcd")]), 4)
    rest = [FilePiece(events, 4, b"ef"), FilePiece(manifest, 0, b"{}")]
    assert not mirror.take(look(events, manifest, pieces=rest), 4)
    assert (tmp_path / "comes" / "events.jsonl").read_bytes() == b"abcdef"
    for empty in (Seen("recording.json", 2, 0, 0), Seen("samples-00000.arrows", 3, 0, 0)):
        mirror = Mirror(tmp_path / "empty", MOST)
        assert mirror.take(look(empty), 4)
        with pytest.raises(BadAnswer, match=f"missing of the recording: {empty.name}, which is empty"):
            mirror.take(look(empty), 4)
        assert not mirror.take(look(empty, pieces=[FilePiece(empty, 0, b"")]), 4)


def test_a_mirror_follows_no_link(tmp_path):
    """One in its place is replaced by a file, or refused; what it points to stays as it is."""
    precious = tmp_path / "precious"
    precious.write_bytes(b"kept")
    for name in ("recording.json", "events.jsonl"):
        here = tmp_path / name.partition(".")[0]
        here.mkdir()
        mirror, seen = Mirror(here, MOST), Seen(name, 1, 6, 0)
        for link in (name, f".{name}.part", ".lock"):
            (here / link).symlink_to(precious)
        mirror.take(look(seen, pieces=[FilePiece(seen, 0, b"abc")], state=State("running")), 4)
        # And one that comes between two pieces.
        target = here / (name if seen.grows else f".{name}.part")
        assert target.read_bytes() == b"abc"
        assert not target.is_symlink()
        target.unlink()
        target.symlink_to(precious)
        with pytest.raises(FathometerError, match="copy a recording"):
            mirror.take(look(seen, pieces=[FilePiece(seen, 3, b"def")], state=State("running")), 4)
        with pytest.raises(FathometerError, match="copy a recording"), mirror.being_written():
            pass
        assert precious.read_bytes() == b"kept"
        assert list(tmp_path.glob("precious*")) == [precious]


def test_endless_remote_probe_is_abandoned(tmp_path, monkeypatch):
    """Its host ends it at its limit; one that says otherwise was asked again and again, without end."""
    connection = SshConnection("b", SshHost(address="vm"), "0", tmp_path / "control", Processes("0"))
    remote = Remote(connection, lambda _: None)

    async def runs(*_):
        return look(state=State("running"))

    monkeypatch.setattr(remote, "look", runs)
    with pytest.raises(HostError, match='host "b": the probe still runs there, long after its time limit'):
        asyncio.run(RemotePlace(remote, "vm")._follow("job", Mirror(tmp_path / "here", MOST), 0.0, over=-1.0))


def test_a_host_s_words(tmp_path):
    """The host's side by the eyes of the runner's; how jobs run and end is the Rust half's test."""
    there = There(tmp_path / "home")
    assert read_look(there.ask("look", job="run", budget=0)).state.running
    (there.job / "out").write_bytes(b"out\n" * (1 << 18))
    (there.job / "err").write_bytes(b"\xff it's\n")
    said = read_said(there.ask("said", job="run"))
    assert said.err == "\ufffd it's\n"
    assert len(said.out) == 1 << 19
    assert said.out.endswith("out\n")
