"""Issue 16, row 10: a file of a few bytes made an importer take gigabytes; damaged ones were tracebacks."""

import contextlib
import gzip
import json
import re
import subprocess
import time
from pathlib import Path

import pytest

from fathometer.dataset import importers
from fathometer.dataset.importers import Options
from fathometer.dataset.write import write_imported
from fathometer.errors import FathometerError
from support.command_line import run
from support.outputs import CASES, ECHO, IRTT, LATTE, NEPER_TABLE, PING

MIB = 1 << 10
"""In KiB, as the peak of memory is told."""
MEMBER = gzip.compress(b"1,2,3,4,5,6,7,8\n" * (1 << 20))
BOMB = MEMBER * (2_000_000 // len(MEMBER))
"""2 MB that unpack to gigabytes."""
ATTACKS = {
    "number": PING.splitlines()[0] + "\n64 bytes from 192.0.2.1: icmp_seq=2000000000 ttl=64 time=0.5 ms\n",
    "count": PING.splitlines()[0] + "\n\n10000000000000000000 packets transmitted, 0 received\n",
    "exponent": LATTE.replace("67.66", "1e999999"),
    "bomb": BOMB,
}


def peak_kib():
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)[1])


@pytest.mark.parametrize("name", ATTACKS)
def test_malicious_file_is_refused_within_memory_limit(name, tmp_path):
    (tmp_path / "p.txt").write_text(PING)
    content = ATTACKS[name]
    (tmp_path / "run.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    # Also imports what an import needs.
    honest = run("import", "p.txt", "--record", "honest", cwd=tmp_path)
    assert honest.returncode == 0, honest.stderr
    # The peak begins anew (proc_pid_clear_refs(5)).
    Path("/proc/self/clear_refs").write_text("5")
    before = peak_kib()
    done = run("import", "run.csv", "--record", "out", cwd=tmp_path)
    assert peak_kib() < before + 64 * MIB
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith("fathometer: cannot import: run.csv"), done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_well_compressed_measurements_are_unpacked(tmp_path):
    rows = "".join(
        f"{i},,{10**18 + i * 10**9},{10**18 + i * 10**9 + 300_000 + i * 7919 % 9973},\n" for i in range(5000)
    )
    text = ECHO.splitlines()[0] + "\n" + rows
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(text.encode()))
    (series,) = importers.read(tmp_path / "a.csv.gz").series
    assert series.sent_ns.size == 5000


WRONG = {
    "damaged": gzip.compress(PING.encode())[:40] + b"\xff" * 20,
    "cut": gzip.compress(PING.encode())[:-20],
    "no text": b"\0" * 10_000,
    "deep": b'{"irtt_version": "1", "round_trips": ' + b"[" * 100_000,
    "deep in lines": b'{"Type": "LatencyResult", "x": ' + b"[" * 100_000,
    "digits": PING.replace("icmp_seq=1 ", "icmp_seq=" + "9" * 5_000 + " ").encode(),
    "cells": b"latency_mean,latency_min\n" + b"1" * 200_000 + b",1\n",
    "columns": b"a," * 100_000 + b"num_transactions\n" + b"1\n" * 10,
    "infinite": json.dumps(IRTT).replace("112377", "1e400").encode(),
    "results": b'{"Type": "LatencyResult", "Avg": "1us"}\n' * 2_000,
    "bins": LATTE.replace(
        "Frequency\n", "Frequency\n   10\t  9223372036854775807\n   20\t  9223372036854775807\n"
    ).encode(),
    "words": json.dumps(
        IRTT | {"config": {"params": {"length": "many", "interval": [1]}, "remote_address": {}}}
    ).encode(),
    "negative": json.dumps(IRTT | {"config": {"params": {"length": -5, "interval": 10**30}}}).encode(),
    "counts": LATTE.replace("Iterations    10000000", "Iterations    " + "9" * 30).encode(),
}


@pytest.mark.parametrize("tool", [None, *CASES, "csv"])
@pytest.mark.parametrize("name", WRONG)
def test_what_no_tool_writes_is_one_line(name, tool, tmp_path):
    path = tmp_path / "run.txt"
    path.write_bytes(WRONG[name])
    options = Options(time="time", rtt="rtt", unit="ms") if tool == "csv" else Options()
    told = "read"
    try:
        write_imported(importers.read(path, options, tool=tool), tmp_path / "out")
    except FathometerError as error:
        told = str(error)
    assert "\n" not in told
    assert len(told) < 800


@pytest.mark.parametrize("name", sorted(WRONG.keys() - {"digits", "bins", "cells"}))
def test_it_is_refused(name, tmp_path):
    path = tmp_path / "run.txt"
    path.write_bytes(WRONG[name])
    with pytest.raises(FathometerError):
        importers.read(path)


LONG = {
    "psping": lambda n: "PsPing\nMinimum = 1ms\n" + "1" * n,
    "latte": lambda n: "lagscope\nLatency(usec) 1\nInterval(usec)\t Frequency\n" + "\n" * n,
    "ping": lambda n: "PING " + "a" * n,
    "sockperf": lambda n: "sockperf:\n" + "Summary: RTT is 1 " * (n // 18),
}


@pytest.mark.acceptance
@pytest.mark.parametrize("name", LONG)
def test_import_time_is_linear_in_file_size(name, tmp_path):
    """Expressions looked at the same letters again from each of them: eight times the file took 64 times."""

    def cost(n):
        path = tmp_path / f"{n}.txt"
        path.write_text(LONG[name](n))
        took = []
        for _ in range(3):
            began = time.process_time()
            importer = importers.detect(path)
            with contextlib.suppress(FathometerError):
                importers.read(path, tool=name)
            took.append(time.process_time() - began)
        assert importer is not None
        return min(took)

    few, many = cost(20_000), cost(160_000)
    assert many < 24 * max(few, 1e-3)


@pytest.mark.acceptance
def test_drop_log_import_time_is_linear(tmp_path):
    """Each was looked for in all rows."""

    def cost(n):
        directory = tmp_path / str(n)
        directory.mkdir()
        rows = "".join(f"{i},,{10**18 + i * 10**9},{10**18 + i * 10**9 + 300_000},300\n" for i in range(n))
        (directory / "run.csv").write_text(ECHO.splitlines()[0] + "\n" + rows)
        stamp = "2001-09-09 01:46:{:02d},500 - ERROR - CONNECTION DROP: gone\n"
        (directory / "run.log").write_text("".join(stamp.format(i % 60) for i in range(n)))
        imported = importers.read(directory / "run.csv")
        began = time.process_time()
        write_imported(imported, directory / "out")
        return time.process_time() - began

    cost(100)
    few, many = cost(4_000), cost(32_000)
    assert many < 24 * few


def test_names_that_are_no_text_are_cleaned(tmp_path, fathom):
    """Half a character of a file's name made a recording that the Rust half cannot read."""
    path = Path(str(tmp_path / "a\udcff\x1b[31mb.txt"))
    path.write_text(PING)
    imported = importers.read(path)
    (directory,) = write_imported(imported, tmp_path / "out")
    done = subprocess.run(
        [fathom, "recording", "verify", directory], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    manifest = json.loads((directory / "recording.json").read_text())
    assert manifest["label"] == "a\ufffd\ufffd[31mb"


def test_last_neper_table_row_is_read(tmp_path):
    path = tmp_path / "n.csv"
    path.write_text(NEPER_TABLE)
    assert importers.read(path).summaries[0].statistics
