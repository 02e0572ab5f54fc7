"""The peers that Debian packages, run on loopback, their real outputs brought in."""

import contextlib
import json
import re
import select
import socket
import subprocess
import time

import numpy as np
import pytest

from conftest import missing
from fathometer.dataset import Flags, importers, open_recording, query
from fathometer.dataset.write import write_imported

LIMIT = 60
"""Seconds after which a tool counts as stuck."""


def free_port(kind=socket.SOCK_STREAM):
    with socket.socket(socket.AF_INET, kind) as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@contextlib.contextmanager
def serving(*command):
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def until_it_answers(command, accept=lambda ended: ended.returncode == 0):
    """A client that is refused while its server starts is asked again, within bounds."""
    deadline = time.monotonic() + LIMIT
    while True:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
        if accept(ended) or time.monotonic() > deadline:
            assert accept(ended), ended.stdout + ended.stderr
            return ended


def sound(fathom, directory):
    verified = subprocess.run(
        [fathom, "recording", "verify", directory], capture_output=True, text=True, check=False
    )
    assert verified.returncode == 0, verified.stdout + verified.stderr
    return open_recording(directory)


@pytest.mark.parametrize("full_rtt", [False, True])
def test_sockperf(tool, fathom, tmp_path, full_rtt):
    sockperf, port, log = tool("sockperf"), str(free_port()), tmp_path / "full.csv"
    with serving(sockperf, "server", "--tcp", "-i", "127.0.0.1", "-p", port):
        ran = until_it_answers(
            [sockperf, "ping-pong", "--tcp", "-i", "127.0.0.1", "-p", port, "-t", "1", "--mps", "200",
             "-m", "64", "--full-log", str(log), *(["--full-rtt"] if full_rtt else [])],
            # Refused, sockperf exits with 0 all the same.
            lambda _: log.exists() and "txTime" in log.read_text(),
        )  # fmt: skip
    imported = importers.read(log)
    (directory,) = write_imported(imported, tmp_path / "out")
    recording = sound(fathom, directory)
    # An independent reading of the same file.
    rows = re.findall(r"^\d+, (\d+\.\d+), (\d+\.\d+), ", log.read_text(), re.MULTILINE)
    expected = [round((float(rx) - float(tx)) * 1e9) for tx, rx in rows]
    assert query.samples(recording).value_ns.tolist() == pytest.approx(expected, abs=1)
    assert recording.manifest.size == 64
    (tmp_path / "summary.txt").write_text(ran.stdout)
    (summary,) = importers.read(tmp_path / "summary.txt").summaries
    # sockperf's own mean, doubled where it printed halves, is the mean of our samples.
    assert summary.statistics["mean"] == pytest.approx(np.mean(expected), rel=0.01)
    assert summary.statistics["max"] == pytest.approx(max(expected), abs=3)


def test_qperf(tool, tmp_path):
    qperf, port = tool("qperf"), str(free_port())
    with serving(qperf, "-lp", port):
        ran = until_it_answers([qperf, "-lp", port, "-t", "1", "127.0.0.1", "tcp_lat"])
    (tmp_path / "q.txt").write_text(ran.stdout)
    (summary,) = importers.read(tmp_path / "q.txt").summaries
    printed = re.search(r"latency\s+=\s+([\d.]+) (ns|us|ms)", ran.stdout)
    assert summary.statistics["mean"] == round(
        2 * float(printed[1]) * {"ns": 1, "us": 1e3, "ms": 1e6}[printed[2]]
    )


def test_iperf3(tool, tmp_path):
    iperf3, port = tool("iperf3"), str(free_port())
    with serving(iperf3, "-s", "-B", "127.0.0.1", "-p", port):
        ran = until_it_answers(
            [iperf3, "-c", "127.0.0.1", "-p", port, "-t", "2", "-b", "20M", "-J"],
            # Refused, iperf3 -J exits with 0 all the same and says so in its JSON.
            accept=lambda ended: ended.returncode == 0 and "error" not in json.loads(ended.stdout),
        )
    (tmp_path / "i.json").write_text(ran.stdout)
    (summary,) = importers.read(tmp_path / "i.json").summaries
    end = json.loads(ran.stdout)["end"]["streams"][0]["sender"]
    assert (summary.statistics["min"], summary.statistics["max"]) == (
        end["min_rtt"] * 1_000,
        end["max_rtt"] * 1_000,
    )


def test_irtt(tool, fathom, tmp_path):
    irtt, port, out = tool("irtt"), free_port(socket.SOCK_DGRAM), tmp_path / "irtt.json"
    with serving(irtt, "server", "-b", f"127.0.0.1:{port}"):
        until_it_answers(
            [irtt, "client", "-i", "10ms", "-d", "500ms", "-q", "-o", str(out), f"127.0.0.1:{port}"]
        )
    (directory,) = write_imported(importers.read(out), tmp_path / "out")
    recording = sound(fathom, directory)
    stats = json.loads(out.read_text())["stats"]
    assert recording.rows == stats["packets_sent"]
    assert recording.totals.answered == stats["packets_received"]
    rtt, residence = query.samples(recording), query.samples(recording, "reflector")
    # irtt's own mean leaves the server's time out.
    assert np.nanmean(rtt.value_ns - residence.value_ns) == pytest.approx(stats["rtt"]["mean"], rel=0.05)


@pytest.mark.parametrize("stamped", [True, False])
def test_ping(tool, fathom, tmp_path, stamped):
    ping = tool("ping")
    command = [ping, "-c", "5", "-i", "0.2", *(["-D"] if stamped else []), "127.0.0.1"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    if "permitted" in ran.stderr:
        missing("the right to ping")
    (tmp_path / "ping.txt").write_text(ran.stdout)
    (directory,) = write_imported(importers.read(tmp_path / "ping.txt"), tmp_path / "out")
    recording = sound(fathom, directory)
    times = re.search(r"min/avg/max/mdev = ([\d.]+)/([\d.]+)/([\d.]+)", ran.stdout)
    histogram = query.histogram(recording)
    assert recording.rows == 5
    assert (histogram.min_ns, histogram.max_ns) == (
        round(float(times[1]) * 1e6),
        round(float(times[3]) * 1e6),
    )


def test_a_probe_that_is_still_going_reads_as_a_running_recording(fathom, tmp_path, monkeypatch):
    monkeypatch.setenv("FATHOM_CLOUD", "off")
    directory = tmp_path / "live"
    echo = subprocess.Popen(
        [fathom, "echo", "--listen", "127.0.0.1:0", "--json"], stdout=subprocess.PIPE, text=True
    )
    probe = None
    try:
        assert select.select([echo.stdout], [], [], LIMIT)[0]
        port = re.search(r"127\.0\.0\.1:(\d+)", echo.stdout.readline())[1]
        probe = subprocess.Popen(
            [fathom, "probe", f"127.0.0.1:{port}", "--every", "5ms", "--record", directory, "--quiet"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        deadline = time.monotonic() + LIMIT
        recording = None
        while recording is None or recording.rows < 20:
            assert time.monotonic() < deadline, "the probe recorded nothing"
            assert probe.poll() is None, "the probe ended by itself"
            recording = open_recording(directory) if (directory / "recording.json").exists() else None
        assert recording.running
        assert not recording.interrupted
        assert [c.closed_ns for c in recording.connections] == [None]
        assert query.histogram(recording).count == recording.totals.answered - recording.totals.warm_up
        probe.terminate()
        assert probe.wait(LIMIT) == 0
        ended = open_recording(directory)
    finally:
        for process in (probe, echo):
            if process is not None:
                process.kill()
                process.wait()
        echo.stdout.close()
    assert not ended.running
    assert ended.rows > recording.rows
    assert ended.damage == ()
    assert [c.cause for c in ended.connections] == ["finished"]
    first = query.first_samples(ended)
    assert first.flags[0] & Flags.FIRST_ON_CONNECTION
    # Whatever had been read while it ran is still there, unchanged.
    before, after = query.samples(recording), query.samples(ended)
    assert after.value_ns[: before.value_ns.size].tolist() == before.value_ns.tolist()
