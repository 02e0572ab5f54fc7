"""Standard output that cannot be written: a closed pipe ends a command quietly, and `/dev/full` gives one
line and exit code 1, wherever Python happens to empty its buffer.
"""

import contextlib
import os
import subprocess
from pathlib import Path

import pytest

from support.command_line import run
from support.measured import FATHOMETER
from support.recordings import lognormal_ns, write

STUDY = Path(__file__).parents[3] / "studies" / "hub-and-spoke.toml"
LINE = (
    "fathometer: cannot print the result: No space left on device; see that standard output can be written to"
)
COMMANDS = (
    "report near --json",
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
WHOLE = ("check table.csv", "--version")
"""Also by interpreters that begin and end with them."""


@pytest.fixture
def directory(tmp_path):
    for seed, label in enumerate(("near", "far")):
        write(tmp_path / label, lognormal_ns(seed, 300, 500), label=label)
    (tmp_path / "table.csv").write_text("path,min,mean,max\na,1,2,3\n")
    (tmp_path / "rtts.csv").write_text("at,rtt\n1700000000,1.5\n1700000001,2.5\n")
    return tmp_path


def by_call(directory, line, out):
    done = run(*line.split(), cwd=directory, out=out)
    return done.returncode, done.stderr


def by_program(directory, line, out):
    done = subprocess.run(
        [*FATHOMETER, *line.split()],
        cwd=directory, stdout=out, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stderr


EACH = [pytest.param(by_call, line, id=line) for line in COMMANDS]
EACH += [pytest.param(by_program, line, id=f"program: {line}") for line in WHOLE]


@contextlib.contextmanager
def left_pipe():
    """A pipe whose reader has gone."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as file:
        yield file


@pytest.mark.parametrize(("call", "line"), EACH)
def test_full_stdout_is_one_line_error(directory, call, line):
    with Path("/dev/full").open("w") as full:
        code, told = call(directory, line, full)
    assert [line for line in told.splitlines() if "cannot print" in line] == [LINE], told
    assert "Traceback" not in told
    assert code == 1


@pytest.mark.parametrize(("call", "line"), EACH)
def test_a_reader_that_has_gone_ends_it_quietly(directory, call, line):
    with left_pipe() as out:
        code, told = call(directory, line, out)
    assert "Traceback" not in told
    assert "rror" not in told, told
    assert code == 0
