"""The report on outputs of peers: its numbers are those in their own files, read here without the importers.

Stored outputs in `make test`; real ones of the peers that Debian packages in `make acceptance`.
"""

import json
import re

import numpy as np
import pytest

from support import outputs, peers
from support.command_line import run
from support.independent import same_figures

UNITS = {"ns": 1, "us": 1e3, "ms": 1e6, "sec": 1e9}


def reported(directory, *outputs):
    """Imports outputs as people do, and reports on what comes out: the JSON, the page, the Markdown."""
    for number, output in enumerate(outputs):
        ran = run("import", output, "--record", directory / "in" / str(number))
        assert ran.returncode == 0, ran.stderr
    files = [directory / f"report.{kind}" for kind in ("json", "html", "md")]
    ran = run("report", directory / "in", "--json-file", files[0], "-o", files[1], "--markdown", files[2])
    assert ran.returncode == 0, ran.stderr
    return json.loads(files[0].read_text()), files[1].read_text(), files[2].read_text()


def impossible(report):
    return [r for r in report["consistency"] if r["verdict"] == "impossible"]


STORED_RTT_NS = {
    "sockperf": (81_361, 100_000, 80_000),
    # By irtt's monotonic clock, with the server's time.
    "irtt": (112_277, 100_000),
    "ping": (500_000, 250_000),
}


def test_stored_outputs_have_their_figures(tmp_path):
    stored = [tmp_path / f"{name}.txt" for name in (*STORED_RTT_NS, "qperf", "iperf3")]
    for file in stored:
        file.write_text(outputs.CASES[file.stem])
    report, page, text = reported(tmp_path, *stored)
    by_name = {s["name"]: s for s in report["scenarios"]}
    assert len(by_name) == len(STORED_RTT_NS)
    for name, rtt in STORED_RTT_NS.items():
        same_figures(by_name[name], np.array(rtt))
    told = {(s["tool"], *sorted(s["rtt_ns"].items())) for s in report["summaries"]}
    assert told == {
        # qperf prints halves of round trips.
        ("qperf", ("mean", 32_600)),
        ("qperf", ("mean", 2_400_000)),
        ("iperf3", ("max", 104_000), ("mean", 100_000), ("min", 96_000)),
    }
    for summary in report["summaries"]:
        for sentence in summary["cannot"]:
            # The page and Markdown write apostrophes and underscores in their own ways.
            assert sentence.replace("'", "&#39;") in page
            assert sentence.replace("_", "\\_") in text
    assert not impossible(report)


@pytest.mark.acceptance
def test_sockperf(tmp_path):
    log, printed = peers.sockperf(tmp_path)
    report, page, text = reported(tmp_path, log, printed)
    lines = (line.split(", ") for line in log.read_text().splitlines() if re.match(r"\d+, \d", line))
    # Microsecond digits as the file has them, without floats: seconds and nanoseconds apart.
    rtt = np.array([whole(rx) - whole(tx) for _, tx, rx, *_ in lines])
    (scenario,) = report["scenarios"]
    same_figures(scenario, rtt)
    (summary,) = report["summaries"]
    own = re.search(r"Summary: Latency is ([\d.]+) usec", printed.read_text())
    # It prints halves; the report has round trips.
    assert summary["rtt_ns"]["mean"] == round(2 * float(own[1]) * 1e3)
    assert summary["rtt_ns"]["mean"] == pytest.approx(scenario["rtt_ns"]["mean"]["value"], rel=0.01)
    assert "Other tools" in page
    assert "Other tools" in text
    assert not impossible(report)


def whole(seconds):
    before, _, after = seconds.partition(".")
    return int(before) * 10**9 + int(after.ljust(9, "0")[:9])


@pytest.mark.acceptance
def test_qperf_summary_states_its_limits(tmp_path):
    output = peers.qperf(tmp_path)
    report, page, text = reported(tmp_path, output)
    number, unit = re.search(r"latency\s*=\s*([\d.,]+) (\w+)", output.read_text()).groups()
    (summary,) = report["summaries"]
    assert summary["tool"] == "qperf"
    assert summary["rtt_ns"]["mean"] == round(2 * float(number.replace(",", "")) * UNITS[unit])
    assert summary["count"] is None
    assert report["scenarios"] == report["recordings"] == report["comparisons"] == []
    for sentence in summary["cannot"]:
        assert sentence in page
        assert sentence in text
    assert "- Other tools: **1 summary** (qperf)" in text
    (finding,) = report["findings"]
    assert finding["kind"] == "summary"
    assert not impossible(report)


@pytest.mark.acceptance
def test_iperf3(tmp_path):
    output = peers.iperf3(tmp_path)
    report, page, _ = reported(tmp_path, output)
    sender = json.loads(output.read_text())["end"]["streams"][0]["sender"]
    (summary,) = report["summaries"]
    assert (summary["rtt_ns"]["min"], summary["rtt_ns"]["max"]) == (
        sender["min_rtt"] * 1_000,
        sender["max_rtt"] * 1_000,
    )
    # It cuts its own mean off at the microsecond.
    assert 0 <= summary["rtt_ns"]["mean"] - sender["mean_rtt"] * 1_000 < 1_000
    assert "iperf3" in page
    assert report["scenarios"] == []
    assert report["consistency"], "its figures are held against the laws, too"
    assert not impossible(report)


@pytest.mark.acceptance
def test_irtt(tmp_path):
    output = peers.irtt(tmp_path)
    report, _, _ = reported(tmp_path, output)
    trips = json.loads(output.read_text())["round_trips"]
    back = [t for t in trips if t["lost"] == "false"]
    stamps = [(t["timestamps"]["client"]["send"], t["timestamps"]["client"]["receive"]) for t in back]
    # By its monotonic clock, the server's time in it: what every other tool here measures.
    rtt = np.array([receive["monotonic"] - send["monotonic"] for send, receive in stamps])
    (scenario,) = report["scenarios"]
    assert (scenario["samples"], scenario["answered"]) == (len(trips), len(back))
    same_figures(scenario, rtt)
    assert not impossible(report)


@pytest.mark.acceptance
def test_ping(tmp_path):
    output = peers.ping(tmp_path, "-D")
    report, _, _ = reported(tmp_path, output)
    times = re.findall(r" time=([\d.]+) ms", output.read_text())
    (scenario,) = report["scenarios"]
    same_figures(scenario, np.array([round(float(ms) * 1e6) for ms in times]))
    assert scenario["mode"] == "icmp"
    assert not impossible(report)
