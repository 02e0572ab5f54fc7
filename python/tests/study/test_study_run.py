"""Studies run with the real binary: on loopback, and on a fabric where we are root."""

import contextlib
import json
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fathometer.cli import app
from fathometer.dataset import open_recording, open_recordings
from fathometer.errors import FathometerError
from fathometer.study.agree import disagreement
from fathometer.study.command import study_app
from fathometer.study.journal import finished, first, read_journal
from fathometer.study.places import PortTakenError, is_taken
from fathometer.study.plan import plan, quick
from fathometer.study.processes import marked
from fathometer.study.read import read_study
from fathometer.study.run import run_study
from fathometer.study.stop import stop_study
from support.programs import ROOT, need_control_groups, need_fabrics, serving, until_it_answers
from support.programs import fathom as built


@pytest.fixture
def fathom(monkeypatch):
    monkeypatch.setenv("FATHOM_CLOUD", "off")
    return Path(built())


def free_ports(count):
    """Ports that were free a moment ago, all different."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [s.getsockname()[1] for s in sockets]
    finally:
        for s in sockets:
            s.close()


def write(directory, *, probe="every = '5ms'\ncount = 20\nwarm-up = 5", top="", labels=("a", "b"), port=None):
    port = port or free_ports(1)[0]
    text = f"format = 1\nname = 'local'\n{top}\n[[host]]\nname = 'here'\nlocal = true\n"
    for label in labels:
        text += f"[[scenario]]\nlabel = '{label}'\nfrom = 'here'\nto = 'here'\nport = {port}\n"
    path = directory / "study.toml"
    path.write_text(f"{text}[[probe]]\n{probe}\n")
    return path


def kinds(output):
    return [e["kind"] for e in read_journal(output)]


def left_running(output):
    return marked(first(read_journal(output))["id"])


CHILD = """
import os, signal, sys
from pathlib import Path
from fathometer.study.run import run_study

file, output, fathom, word = sys.argv[1:]

def progress(line):
    print(line, file=sys.stderr, flush=True)
    if word and word in line:
        os.kill(os.getpid(), signal.SIGKILL)

run_study(Path(file), Path(output), Path(fathom), False, progress)
"""
"""Runs a study; kills itself at the progress line with a word."""


def child(file, output, fathom, word=""):
    """The program in a process of its own, whose progress lines are on its standard error."""
    argv = [sys.executable, "-c", CHILD, *map(str, (file, output, fathom, word))]
    return subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)


def kill_at(word, file, output, fathom):
    """Runs a study whose runner is killed at that line."""
    with child(file, output, fathom, word) as process:
        said = process.communicate(timeout=60)[1]
    assert process.returncode == -signal.SIGKILL, said


def signal_at(word, sign):
    """A listener of a study in this process, which gets the signal at that line."""
    return lambda line: signal.raise_signal(sign) if word in line else None


def test_local_study_runs_resumes_and_is_reported(tmp_path, fathom):
    file = write(tmp_path, top="repetitions = 3")
    output, said = tmp_path / "out", []
    assert run_study(file, output, fathom, False, said.append) == 6
    runs = plan(read_study(file))
    for run in runs:
        recording = open_recording(output / run.directory)
        assert recording.label == run.scenario.label
        assert recording.totals.samples == 20
        assert recording.manifest.path.tags["round"] == str(run.round)
        assert disagreement(output / run.directory, run, run.scenario.port) is None
        assert "talked to" in disagreement(output / run.directory, run, 1)
    assert len(list(open_recordings([output]))) == 6
    started = [e["run"] for e in read_journal(output) if e["kind"] == "run.started"]
    assert started == [str(r.directory) for r in runs]
    assert kinds(output)[-1] == "study.ended"
    assert left_running(output) == []
    assert not (tmp_path / "out.unfinished").exists()
    assert stat.S_IMODE(output.stat().st_mode) == 0o700
    # Nothing is repeated; nothing is even started.
    before = kinds(output).count("run.started")
    assert run_study(file, output, fathom, False, said.append) == 6
    assert kinds(output).count("run.started") == before
    # What the recording says is held against the plan, field by field.
    other = plan(read_study(write(tmp_path, probe="every = '5ms'\ncount = 20\nsize = 128", port=1)))
    assert "size was 64" in disagreement(output / runs[0].directory, other[0], None)
    with pytest.raises(FathometerError, match="with another study file, scenario, policy"):
        run_study(file, output, fathom, False, said.append)
    page, machine = tmp_path / "report.html", tmp_path / "report.json"
    done = CliRunner().invoke(
        app, ["report", str(output), "--output", str(page), "--json-file", str(machine)]
    )
    assert done.exit_code == 0, done.output
    assert page.read_text().startswith("<!doctype html>")
    # Five of a run's samples are its warm-up.
    counts = {s["name"]: s["samples"] for s in json.loads(machine.read_text())["scenarios"]}
    assert counts == {"a": 45, "b": 45}


def test_side_by_side_modes_and_sizes(tmp_path, fathom):
    probe = "mode = 'udp'\nevery = '2ms'\ncount = 10\nsizes = [32, 64]\n[[probe]]\nname = 'pp'\n"
    probe += "mode = 'tcp-ping-pong'\nfor = '100ms'\nconnections = 2"
    file = write(tmp_path, probe=probe, top="repetitions = 2\norder = 'side-by-side'")
    output = tmp_path / "out"
    assert run_study(file, output, fathom, False, print) == 12
    found = {(r.label, r.manifest.mode, r.manifest.size) for r in open_recordings([output])}
    assert found == {(la, *m) for la in "ab" for m in (("udp", 32), ("udp", 64), ("tcp-ping-pong", 64))}
    # All runs of a round begin before any of it ends.
    assert [k for k in kinds(output) if k.startswith("run.")][:6] == ["run.started"] * 6
    assert left_running(output) == []


SHORT = "every = '5ms'\ncount = 10"


def test_ctrl_c_interrupts_and_study_resumes(tmp_path, fathom):
    file = write(tmp_path, probe=SHORT, top="repetitions = 2")
    output = tmp_path / "out"
    with pytest.raises(FathometerError, match=r"interrupted after 1 of 4 runs; the same command goes on"):
        run_study(file, output, fathom, False, signal_at("[1/4]", signal.SIGINT))
    assert kinds(output)[-1] == "study.interrupted"
    assert left_running(output) == []
    (done,) = finished(read_journal(output))
    recording_id = open_recording(output / done).manifest.id
    assert run_study(file, output, fathom, False, print) == 4
    assert open_recording(output / done).manifest.id == recording_id
    assert len(list(open_recordings([output]))) == 4
    finishes = [e["run"] for e in read_journal(output) if e["kind"] == "run.finished"]
    assert len(finishes) == len(set(finishes)) == 4


@pytest.mark.parametrize("ignored", [True, False])
def test_ignored_hang_up_stays_ignored(tmp_path, fathom, ignored):
    """`nohup fathom study run` ended when SSH was cut: the handler took the place of the ignored signal."""
    file, output = write(tmp_path, probe=SHORT, top="repetitions = 2", labels="a"), tmp_path / "out"
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)
    try:
        interrupted = pytest.raises(FathometerError, match="interrupted after 1 of 2 runs")
        with contextlib.nullcontext() if ignored else interrupted:
            run_study(file, output, fathom, False, signal_at("[1/2]", signal.SIGHUP))
    finally:
        signal.signal(signal.SIGHUP, before)
    assert kinds(output)[-1] == ("study.ended" if ignored else "study.interrupted")
    assert left_running(output) == []


@pytest.fixture
def killed(tmp_path, fathom):
    """A study whose runner was killed at the end of its first run; its file and its output."""
    # The other run of the round still goes on then.
    file = write(tmp_path, probe=f"name = 'p'\n{SHORT}\n[[probe]]\nname = 'q'\nevery = '5ms'\ncount = 100",
                 top="repetitions = 1\norder = 'side-by-side'", labels="a")  # fmt: skip
    kill_at("  a  p ", file, tmp_path / "out", fathom)
    yield file, tmp_path / "out"
    stop_study(tmp_path / "out", fathom)


def test_stop_after_a_crash(killed, fathom):
    file, output = killed
    assert len(left_running(output)) >= 1  # The reflector, at the least.
    stopped = stop_study(output, fathom)
    assert not stopped.runner
    assert stopped.processes >= 1
    assert left_running(output) == []
    assert stop_study(output, fathom).processes == 0
    assert run_study(file, output, fathom, False, print) == 2


def test_killed_study_resumes_without_stop(killed, tmp_path, fathom):
    file, output = killed
    # With another --output the reflector's study is not known.
    with pytest.raises(
        FathometerError, match=r"in use.*a study whose runner was killed: `fathom study stop`"
    ):
        run_study(file, tmp_path / "other", fathom, False, print)
    assert run_study(file, output, fathom, False, print) == 2
    assert left_running(output) == []


def test_stop_ends_a_study_that_runs(tmp_path, fathom):
    file = write(tmp_path, probe="every = '5ms'\nfor = '10m'", top="repetitions = 1")
    output = tmp_path / "out"
    with child(file, output, fathom) as process:
        assert any("runs to go" in line for line in process.stderr)
        assert stop_study(output, fathom).runner
        process.communicate(timeout=60)
    assert process.returncode == 1
    assert left_running(output) == []


def test_a_port_that_is_taken(tmp_path, fathom):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        file = write(tmp_path, port=taken.getsockname()[1])
        with pytest.raises(FathometerError, match=r"start a reflector.*in use.*`port`"):
            run_study(file, tmp_path / "out", fathom, False, print)
    assert left_running(tmp_path / "out") == []


def test_unusable_output_or_binary_is_refused(tmp_path, fathom):
    file = write(tmp_path)
    with pytest.raises(FathometerError, match="is not empty"):
        run_study(file, tmp_path, fathom, False, print)
    with pytest.raises(FathometerError, match="holds no study"):
        stop_study(tmp_path, fathom)
    with pytest.raises(FathometerError, match="is no program"):
        run_study(file, tmp_path / "out", tmp_path / "none", False, print)


def fabrics(fathom):
    done = subprocess.run([fathom, "fabric", "down", "no-such"], capture_output=True, text=True, check=False)
    return done.stderr


@pytest.fixture
def network(fathom):
    need_fabrics()
    return fathom


READY = sorted(p for p in (ROOT / "studies").glob("*.toml") if p.stem != "firewall-in-path")


@contextlib.contextmanager
def by_hand(study, fathom):
    """The servers that a study wants and does not start."""
    ports = {s.port for s in study.scenario} if any(q.database == "mssql" for q in study.query) else set()
    with contextlib.ExitStack() as servers:
        for port in ports:
            echo = [fathom, "echo", "--listen", "tcp://127.0.0.1:0", "--tds", str(port), "--tds-encrypt"]
            servers.enter_context(serving(*echo))
            asked = [fathom, "probe", f"127.0.0.1:{port}", "--connect", "--count", "1", "--no-record"]
            until_it_answers(asked)
        yield


@pytest.mark.acceptance
@pytest.mark.parametrize("path", READY, ids=lambda p: p.stem)
def test_every_ready_study_runs_to_its_end(tmp_path, network, path):
    study = read_study(path)
    if any(host.limits for host in study.host):
        need_control_groups()
    words = ["run", str(path), "--output", str(tmp_path / "out"), "--quick", "--fathom", str(network)]
    with by_hand(study, network):
        done = CliRunner().invoke(study_app, words)
    assert done.exit_code == 0, done.output
    assert done.stdout == f"{tmp_path / 'out'}\n"
    runs = plan(quick(read_study(path)))
    assert len(list(open_recordings([tmp_path / "out"]))) == len(runs)
    assert left_running(tmp_path / "out") == []


@pytest.mark.acceptance
def test_a_ready_study_on_the_fabric(tmp_path, network):
    output = tmp_path / "out"
    assert run_study(ROOT / "studies" / "firewall-in-path.toml", output, network, True, print) == 8
    recordings = list(open_recordings([output]))
    assert len(recordings) == 8
    assert {r.manifest.marks for r in recordings} == {("emulated", "quick")}
    (truth,) = output.glob("truth/*/truth.jsonl")
    assert '"truth.ended"' in truth.read_text()
    # The network was there: the firewall's way is longer in every single round (2,418 µs against 58 µs).
    for number in ("01", "02"):
        direct, through = (
            open_recording(output / f"label={label}" / f"run={number}").manifest
            for label in ("peered-zone-1", "hub-firewall-zone-1")
        )
        assert median_ns(output, direct.label, number) < median_ns(output, through.label, number)
    name = truth.parent.name
    assert name not in fabrics(network)
    assert left_running(output) == []


def median_ns(output, label, number):
    histogram = open_recording(output / f"label={label}" / f"run={number}").rollup.histogram()
    return histogram.quantile(0.5).value_ns


def write_fabric(directory):
    """A study of one path of an emulated network."""
    file = directory / "study.toml"
    scenario = ROOT / "scenarios" / "azure-same-zone.toml"
    hosts = "".join(
        f"[[host]]\nname = '{h}'\nfabric = {{ scenario = '{scenario}', host = 'zone1-{h}' }}\n"
        for h in ("client", "server")
    )
    file.write_text(
        f"format = 1\nname = 'f'\nrepetitions = 1\n{hosts}"
        f"[[scenario]]\nlabel = 'z'\nfrom = 'client'\nto = 'server'\n[[probe]]\n{SHORT}\n"
    )
    return file


def test_stop_takes_a_crashed_fabric_away(tmp_path, network):
    file, output = write_fabric(tmp_path), tmp_path / "out"
    kill_at("reflectors listen", file, output, network)
    (name,) = [e["name"] for e in read_journal(output) if e["kind"] == "fabric.making"]
    assert name in fabrics(network)
    assert stop_study(output, network).fabrics == (name,)
    assert name not in fabrics(network)
    assert left_running(output) == []


def test_fabric_study_resumes_in_another_fabric(tmp_path, network):
    """The truth of the first is kept beside that of the second."""
    file, output = write_fabric(tmp_path), tmp_path / "out"
    with pytest.raises(FathometerError, match="interrupted after 0 of 1 run"):
        run_study(file, output, network, False, signal_at("reflectors listen", signal.SIGINT))
    assert run_study(file, output, network, False, print) == 1
    (recording,) = open_recordings([output])
    assert recording.manifest.marks == ("emulated",)
    truths = sorted(path.parent.name for path in output.glob("truth/*/truth.jsonl"))
    assert len(truths) == 2
    assert truths[1] == f"{truths[0]}-2"
    assert truths[0] not in fabrics(network)


def test_the_journal_is_json_lines(tmp_path, fathom):
    file = write(tmp_path, labels=("a",))
    run_study(file, tmp_path / "out", fathom, True, print)
    for line in (tmp_path / "out" / "journal.jsonl").read_text().splitlines():
        assert {"at", "kind"} <= json.loads(line).keys()


@pytest.mark.parametrize("probe", ["every = '5ms'", "every = '5ms'\nmode = 'udp'"], ids=["tcp", "udp"])
def test_taken_port_raises_port_taken_error(tmp_path, fathom, probe):
    """By what the reflector tells machines: whoever runs the study can do about it what it cannot know of."""
    kind = socket.SOCK_DGRAM if "udp" in probe else socket.SOCK_STREAM
    with socket.socket(socket.AF_INET, kind) as other:
        other.bind(("127.0.0.1", 0))
        if kind == socket.SOCK_STREAM:
            other.listen()
        port = other.getsockname()[1]
        file = write(tmp_path, probe=f"{probe}\ncount = 20", port=port)
        with pytest.raises(PortTakenError, match=f"port {port}: .*ss -l.np") as caught:
            run_study(file, tmp_path / "out", fathom, False, lambda _: None)
    assert caught.value.port == port


@pytest.mark.parametrize(
    ("lines", "taken"),
    [
        ('{"event": "address_in_use", "port": 7}', True),
        ('no JSON\n[1]\n{"event": "address_in_use", "port": 8}', False),
        ('{"event": "listening", "port": 7}\nAddress already in use', False),
    ],
)
def test_only_reflector_event_means_port_taken(lines, taken):
    assert is_taken(lines, 7) == taken
