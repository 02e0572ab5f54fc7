"""What the Rust half writes in other tools' formats comes back with the recording's own numbers."""

import contextlib
import csv
import json
import subprocess

import numpy as np
import pytest

from fathometer.dataset import Flags, importers

COUNT, WARM_UP = 2_000, 100


@contextlib.contextmanager
def reflecting(fathom):
    command = [fathom, "echo", "--json", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            yield f"127.0.0.1:{json.loads(process.stdout.readline())['port']}"
        finally:
            process.terminate()


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def measured(fathom, tmp_path_factory):
    """A run with every format asked for: its recording, its sockperf log, and what it printed."""
    work = tmp_path_factory.mktemp("formats")
    with reflecting(fathom) as target:
        printed = run(
            fathom, "probe", target, "--ping-pong", "--count", str(COUNT), "--warm-up", str(WARM_UP),
            "--quiet", "--record", work / "recording", "--sockperf-log", work / "full.log",
            "--histogram", "10", "--latte",
        )  # fmt: skip
    table = list(csv.DictReader(run(fathom, "recording", "export", work / "recording").splitlines()))
    rows = {name: np.array([int(row[name]) for row in table]) for name in ("sent_ns", "rtt_ns", "flags")}
    counted = rows["flags"] & int(Flags.WARM_UP) == 0
    return work, printed, {name: values[counted] for name, values in rows.items()}


def test_the_sockperf_log_is_exact(fathom, measured):
    work, _, rows = measured
    exported = run(fathom, "recording", "export", work / "recording", "--format", "sockperf-log")
    assert exported == (work / "full.log").read_text(), "while running and afterwards"
    imported = importers.read(work / "full.log")
    assert imported.tool == "sockperf"
    (series,) = imported.series
    assert series.size == 64
    np.testing.assert_array_equal(series.rtt_ns, rows["rtt_ns"])
    np.testing.assert_array_equal(np.diff(series.sent_ns), np.diff(rows["sent_ns"]))
    assert series.answered.all()
    assert len(series.rtt_ns) == COUNT - WARM_UP


@pytest.mark.parametrize(("tool", "beginning"), [("latte", "Protocol "), ("psping", "TCP latency test")])
def test_what_is_printed_is_what_is_exported(fathom, measured, tool, beginning):
    work, printed, _ = measured
    options = ["--histogram", "10"] if tool == "psping" else []
    exported = run(fathom, "recording", "export", work / "recording", "--format", tool, *options)
    assert exported.startswith(beginning)
    # Where it was asked for by its name, the probe knows no more than the recording does.
    assert exported in printed


def test_lattes_histogram_is_within_a_microsecond(fathom, measured, tmp_path):
    work, _, rows = measured
    export = [fathom, "recording", "export", work / "recording", "--format", "latte"]
    run(*export, "--output", tmp_path / "latte")
    imported = importers.read(tmp_path / "latte")
    assert imported.tool == "latte"
    (summary,) = imported.summaries
    rtt = rows["rtt_ns"]
    assert (summary.size, summary.count, summary.bin_ns) == (64, rtt.size, 1_000)
    assert summary.statistics["mean"] == pytest.approx(rtt.mean(), abs=5)
    assert summary.histogram is not None
    assert summary.histogram.count == rtt.size
    for q in (0.5, 0.9, 0.99):
        exact = np.quantile(rtt, q, method="inverted_cdf")
        assert summary.histogram.quantile(q).value_ns == pytest.approx(exact, abs=1_000 + exact * 0.002)


def test_latte_histogram_is_capped_as_requested(fathom, measured, tmp_path):
    work, _, rows = measured
    cap_us = int(np.quantile(rows["rtt_ns"], 0.9) // 1_000)
    export = [fathom, "recording", "export", work / "recording", "--format", "latte"]
    run(*export, "--latte-hl", "1", "--latte-hc", str(cap_us), "--output", tmp_path / "latte")
    (summary,) = importers.read(tmp_path / "latte").summaries
    assert summary.count == rows["rtt_ns"].size, "latte's iterations count every one"
    # A value within our histogram's 0.05 % of the cap may count on either side of it.
    above = int(np.sum(rows["rtt_ns"] >= cap_us * 1_000))
    near = int(np.sum(np.abs(rows["rtt_ns"] - cap_us * 1_000) <= cap_us + 1))
    assert abs(summary.count - summary.histogram.count - above) <= near
    assert above > 0
    assert any("outside the capped histogram" in note for note in summary.notes)


def test_pspings_histogram_is_within_a_bucket(fathom, measured, tmp_path):
    work, _, rows = measured
    out = tmp_path / "psping"
    beginnings = "0,0.02,0.04,0.06,0.1,0.2,0.5,1,2,5,10,100,1000"
    export = [fathom, "recording", "export", work / "recording", "--format", "psping"]
    run(*export, "--histogram", beginnings, "--output", out)
    imported = importers.read(out)
    assert imported.tool == "psping"
    (summary,) = imported.summaries
    rtt = rows["rtt_ns"]
    assert (summary.mode, summary.size, summary.count) == ("tcp-ping-pong", 64, rtt.size)
    for name, value in (("min", rtt.min()), ("max", rtt.max()), ("mean", rtt.mean())):
        assert summary.statistics[name] == pytest.approx(value, abs=5_001), name
    edges = [float(ms) * 1e6 for ms in beginnings.split(",")]
    counts, _ = np.histogram(rtt, [*edges, np.inf])
    printed = [line.split("\t") for line in out.read_text().splitlines() if "\t" in line][1:]
    # A value within our histogram's 0.05 % of an edge may count on either side of it.
    near = sum(int(np.sum(np.abs(rtt - edge) <= edge * 0.0005 + 1)) for edge in edges)
    assert np.abs(np.array([int(n) for _, n in printed]) - counts).sum() <= 2 * near
    assert [float(ms) * 1e6 for ms, _ in printed] == edges


def test_connections_are_psping_s_too(fathom, tmp_path):
    with reflecting(fathom) as target:
        printed = run(
            fathom, "probe", target, "--connect", "--every", "2ms", "--count", "50", "--quiet",
            "--record", tmp_path / "recording", "--histogram", "5",
        )  # fmt: skip
    assert "Sent = 50, Received = 50, Lost = 0 (0% loss)" in printed
    export = [fathom, "recording", "export", tmp_path / "recording", "--format", "psping"]
    run(*export, "--histogram", "5", "--output", tmp_path / "psping")
    imported = importers.read(tmp_path / "psping")
    (summary,) = imported.summaries
    assert (imported.tool, summary.mode, summary.count, summary.size) == ("psping", "connect", 50, None)
    refused = subprocess.run(
        [fathom, "recording", "export", tmp_path / "recording", "--format", "latte"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert refused.returncode == 2
    assert "connections" in refused.stderr


def test_a_format_with_one_size_refuses_several(fathom, tmp_path):
    with reflecting(fathom) as target:
        run(
            fathom, "probe", target, "--sizes", "64,128", "--ping-pong", "--count", "20", "--quiet",
            "--record", tmp_path / "recording",
        )  # fmt: skip
    refused = subprocess.run(
        [fathom, "recording", "export", tmp_path / "recording", "--format", "sockperf-log"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert refused.returncode == 2
    assert "several sizes" in refused.stderr
    assert not refused.stdout
