"""The peers that Debian packages, run on loopback, their real outputs brought in."""

import json
import re
import select
import subprocess
import time

import numpy as np
import pyarrow.parquet as pq
import pytest

from fathometer.dataset import Flags, Selection, importers, open_recording, raw
from fathometer.dataset.write import write_imported
from support import peers
from support.programs import LIMIT


def sound(fathom, directory):
    verified = subprocess.run(
        [fathom, "recording", "verify", directory], capture_output=True, text=True, check=False
    )
    assert verified.returncode == 0, verified.stdout + verified.stderr
    return open_recording(directory)


@pytest.mark.acceptance
@pytest.mark.parametrize("full_rtt", [False, True])
def test_sockperf(fathom, tmp_path, full_rtt):
    log, printed = peers.sockperf(tmp_path, *(["--full-rtt"] if full_rtt else []))
    imported = importers.read(log)
    (directory,) = write_imported(imported, tmp_path / "out")
    recording = sound(fathom, directory)
    # An independent reading of the same file.
    rows = re.findall(r"^\d+, (\d+\.\d+), (\d+\.\d+), ", log.read_text(), re.MULTILINE)
    expected = [round((float(rx) - float(tx)) * 1e9) for tx, rx in rows]
    assert raw.samples(recording).value_ns.tolist() == pytest.approx(expected, abs=1)
    assert recording.manifest.size == 64
    (summary,) = importers.read(printed).summaries
    # sockperf's own mean, doubled where it printed halves, is the mean of our samples.
    assert summary.statistics["mean"] == pytest.approx(np.mean(expected), rel=0.01)
    assert summary.statistics["max"] == pytest.approx(max(expected), abs=3)


@pytest.mark.acceptance
def test_qperf(tmp_path):
    out = peers.qperf(tmp_path)
    (summary,) = importers.read(out).summaries
    printed = re.search(r"latency\s+=\s+([\d.]+) (ns|us|ms)", out.read_text())
    assert summary.statistics["mean"] == round(
        2 * float(printed[1]) * {"ns": 1, "us": 1e3, "ms": 1e6}[printed[2]]
    )


@pytest.mark.acceptance
def test_iperf3(tmp_path):
    out = peers.iperf3(tmp_path)
    (summary,) = importers.read(out).summaries
    end = json.loads(out.read_text())["end"]["streams"][0]["sender"]
    assert (summary.statistics["min"], summary.statistics["max"]) == (
        end["min_rtt"] * 1_000,
        end["max_rtt"] * 1_000,
    )


@pytest.mark.acceptance
def test_irtt(fathom, tmp_path):
    out = peers.irtt(tmp_path)
    (directory,) = write_imported(importers.read(out), tmp_path / "out")
    recording = sound(fathom, directory)
    stats = json.loads(out.read_text())["stats"]
    assert recording.rows == stats["packets_sent"]
    assert recording.totals.answered == stats["packets_received"]
    residence = pq.read_table(recording.source.closed[0].path).column("reflector_ns").to_numpy()
    rtt = raw.samples(recording)
    # irtt's own mean leaves the server's time out.
    assert np.nanmean(rtt.value_ns) - np.nanmean(residence) == pytest.approx(stats["rtt"]["mean"], rel=0.05)


@pytest.mark.acceptance
@pytest.mark.parametrize("stamped", [True, False])
def test_ping(fathom, tmp_path, stamped):
    out = peers.ping(tmp_path, *(["-D"] if stamped else []))
    (directory,) = write_imported(importers.read(out), tmp_path / "out")
    recording = sound(fathom, directory)
    times = re.search(r"min/avg/max/mdev = ([\d.]+)/([\d.]+)/([\d.]+)", out.read_text())
    histogram = recording.rollup.histogram()
    assert recording.rows == 5
    assert (histogram.min_ns, histogram.max_ns) == (
        round(float(times[1]) * 1e6),
        round(float(times[3]) * 1e6),
    )


def test_live_probe_reads_as_running_recording(fathom, tmp_path, monkeypatch):
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
        assert recording.rollup.histogram().count == recording.totals.answered - recording.totals.warm_up
        # No row may be due between that reading and the signal: until one more is there, the run goes on.
        while open_recording(directory).rows == recording.rows:
            assert time.monotonic() < deadline, "the probe stopped recording"
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
    first = raw.samples(ended, Selection(warm_up=True))
    assert first.flags[0] & Flags.FIRST_ON_CONNECTION
    # Whatever had been read while it ran is still there, unchanged.
    before, after = raw.samples(recording), raw.samples(ended)
    assert after.value_ns[: before.value_ns.size].tolist() == before.value_ns.tolist()
