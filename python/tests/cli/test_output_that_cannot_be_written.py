"""Issue 15, Pipes: a closed pipe ends quietly, `/dev/full` gives one line and exit 1. Each command showed a
traceback of forty lines, wherever Python happened to empty its buffer.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.recordings import lognormal_ns, write

STUDY = Path(__file__).parents[3] / "studies" / "hub-and-spoke.toml"
LINE = (
    "fathometer: cannot print the result: No space left on device; see that standard output can be written to"
)
COMMANDS = (
    "report near --json -",
    "report near far --markdown -",
    "report near",
    "compare near far",
    "compare near far --json",
    "changes near",
    "check table.csv",
    "check table.csv --json",
    "rollup near -o rollup",
    "import csv rtts.csv --time at --rtt rtt --unit us",
    f"study plan {STUDY}",
    f"study check {STUDY}",
    "report --help",
    "study --help",
    "--version",
)


@pytest.fixture
def directory(tmp_path):
    for seed, label in enumerate(("near", "far")):
        write(tmp_path / label, lognormal_ns(seed, 300, 500), label=label)
    (tmp_path / "table.csv").write_text("path,min,mean,max\na,1,2,3\n")
    (tmp_path / "rtts.csv").write_text("at,rtt\n1700000000,1.5\n1700000001,2.5\n")
    return tmp_path


def _run(directory, line, out):
    program = "from fathometer.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", program, *line.split()],
        cwd=directory, stdout=out, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("line", COMMANDS)
def test_what_cannot_be_printed_is_one_line_and_exit_code_1(directory, line):
    with Path("/dev/full").open("w") as full:
        ran = _run(directory, line, full)
    about = [told for told in ran.stderr.splitlines() if "cannot print" in told]
    assert about == [LINE], ran.stderr
    assert "Traceback" not in ran.stderr
    assert ran.returncode == 1


@pytest.mark.parametrize("line", COMMANDS)
def test_a_reader_that_has_gone_ends_it_quietly(directory, line):
    reads, writes = os.pipe()
    os.close(reads)
    try:
        ran = _run(directory, line, writes)
    finally:
        os.close(writes)
    assert "Traceback" not in ran.stderr
    assert "rror" not in ran.stderr, ran.stderr
    assert ran.returncode == 0
