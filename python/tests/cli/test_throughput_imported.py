"""A throughput that another tool measured, from its file through the import to the report."""

import json

from support.command_line import run
from support.outputs import IPERF3


def test_report_shows_throughput_of_iperf3_import(tmp_path):
    file = tmp_path / "iperf3.json"
    end = {
        "sum_sent": {"bits_per_second": 2.82e9, "retransmits": 1},
        "sum_received": {"bits_per_second": 2.01e9},
    }
    file.write_text(json.dumps({**IPERF3, "error": None, "end": end}))
    done = run("import", file, "--record", tmp_path / "in" / "off")
    assert done.returncode == 0, done.stderr
    done = run(
        "report",
        tmp_path / "in",
        "-o",
        tmp_path / "r.html",
        "--json-file",
        tmp_path / "r.json",
        "--markdown",
        "-",
    )
    assert done.returncode == 0, done.stderr
    (row,) = [line for line in done.stdout.splitlines() if line.startswith("| iperf3")]
    assert "2.01 Gbit/s (as received, 1 segment sent again)" in row, row
    assert "2.01 Gbit/s" in (tmp_path / "r.html").read_text()
    (summary,) = json.loads((tmp_path / "r.json").read_text())["summaries"]
    assert summary["throughput"] == {
        "sent_bits_per_s": 2_820_000_000, "received_bits_per_s": 2_010_000_000, "retransmits": 1
    }  # fmt: skip


def test_report_omits_unmeasured_throughput(tmp_path):
    file = tmp_path / "iperf3.json"
    file.write_text(json.dumps(IPERF3))
    assert run("import", file, "--record", tmp_path / "in" / "off").returncode == 0
    told = run("report", tmp_path / "in", "-o", tmp_path / "r.html", "--markdown", "-").stdout
    assert "throughput" not in told
