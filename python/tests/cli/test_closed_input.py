"""Commands that read a standard input which was closed before they began (`<&-`): it has no words."""

import subprocess
import sys

import pytest

from support.command_line import run
from support.measured import FATHOMETER

CLOSE = "import os, sys; os.close(0); os.execv(sys.argv[1], sys.argv[1:])"


def by_call(words, cwd):
    return run(*words, cwd=cwd, stdin=None)


def by_program(words, cwd):
    argv = [sys.executable, "-c", CLOSE, *FATHOMETER, *words]
    return subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("call", "words", "says"),
    [
        (
            by_call,
            ("study", "from-outputs", "-", "--output", "study.toml"),
            "cannot read a lab's outputs: ",
        ),
        (by_call, ("check", "-"), "cannot check: -: "),
        (by_program, ("check", "-"), "cannot check: -: "),
        (by_call, ("changes", "-"), "standard-input.csv: it is empty"),
    ],
    ids=["from-outputs", "check", "check, a program", "changes"],
)
def test_a_closed_standard_input_is_no_traceback(tmp_path, call, words, says):
    done = call(words, tmp_path)
    assert (done.returncode in {1, 2}, "Traceback" in done.stderr) == (True, False)
    assert says in done.stderr
