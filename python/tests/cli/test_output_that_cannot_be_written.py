"""Issue 15, Pipes: a closed pipe ends quietly, `/dev/full` gives one line and exit 1. Each command showed a
traceback of forty lines, wherever Python happened to empty its buffer.
"""

import os
import subprocess
from pathlib import Path

import pytest

from support.command_line import forked
from support.measured import FATHOMETER
from support.recordings import lognormal_ns, write
from support.zygote import GONE

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


WHOLE = {"compare near far", "check table.csv", "report --help", "--version"}
"""Also by interpreters that begin and end with them: the others are forked from one that has all imported."""


def _whole(directory, line, out):
    done = subprocess.run(
        [*FATHOMETER, *line.split()],
        cwd=directory, stdout=out, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stderr


def _forked(directory, line, out):
    done = forked(*line.split(), cwd=directory, out=out)
    return done.code, done.stderr


def _is_one_line(code, told):
    about = [line for line in told.splitlines() if "cannot print" in line]
    assert about == [LINE], told
    assert "Traceback" not in told
    assert code == 1


def _is_quiet(code, told):
    assert "Traceback" not in told
    assert "rror" not in told, told
    assert code == 0


@pytest.mark.parametrize("line", COMMANDS)
def test_full_stdout_is_one_line_error(directory, line):
    _is_one_line(*_forked(directory, line, "/dev/full"))
    if line in WHOLE:
        with Path("/dev/full").open("w") as full:
            _is_one_line(*_whole(directory, line, full))


@pytest.mark.parametrize("line", COMMANDS)
def test_a_reader_that_has_gone_ends_it_quietly(directory, line):
    _is_quiet(*_forked(directory, line, GONE))
    if line in WHOLE:
        reads, writes = os.pipe()
        os.close(reads)
        try:
            _is_quiet(*_whole(directory, line, writes))
        finally:
            os.close(writes)
