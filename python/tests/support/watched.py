"""Studies that run in a process of their own while a test watches."""

import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from support.programs import fathom, free_port

PROGRAM = [sys.executable, "-c", "from fathometer.cli import main; main()"]


def study_file(directory, *, labels=("near", "far"), probe="every = '20ms'\nfor = '10m'", top=""):
    """A study of this machine."""
    port = free_port()
    text = f"format = 1\nname = 'watched'\n{top}\n[[host]]\nname = 'here'\nlocal = true\n"
    for label in labels:
        text += f"[[scenario]]\nlabel = '{label}'\nfrom = 'here'\nto = 'here'\nport = {port}\n"
    path = directory / "study.toml"
    path.write_text(f"{text}[[probe]]\n{probe}\n")
    return path


def run_command(directory, file):
    """The command line that runs a study into `out`."""
    where = ["--output", str(directory / "out"), "--fathom", fathom()]
    return [*PROGRAM, "study", "run", str(file), *where]


def environment():
    # pytest-xdist tells its workers of 80 columns, and a program believes that before its own terminal.
    ours = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES"}}
    return {**ours, "FATHOM_CLOUD": "off", "TERM": "xterm-256color"}


def begin(argv):
    """A program whose words we read."""
    return subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    )


def read_until(stream, pattern):
    """The first line that has the pattern."""
    for line in stream:
        if re.search(pattern, line):
            return line
    return pytest.fail(f"it ended without saying {pattern!r}")


@contextmanager
def running(directory, **options):
    """A study whose first run has begun; it is ended with the block."""
    process = begin(run_command(directory, study_file(directory, **options)))
    try:
        read_until(process.stderr, "begins")
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
