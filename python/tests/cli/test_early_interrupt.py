"""Ctrl-C in the first moments of a command: it ends, without a traceback."""

import os
import signal
import subprocess
import sys

import pytest

PROGRAM = "from fathometer.cli import main; main()"


def _heard():
    """A shell's background job ignores the signal, and so would what these tests start."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("module", ["typer", "rich", "numpy"])
def test_ctrl_c_while_it_is_being_read(module, tmp_path):
    """What the program imports sends the signal: no moment of reading has another handler."""
    sent = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n"
    (tmp_path / f"{module}.py").write_text(sent)
    paths = [str(tmp_path), *sys.path]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "report", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True, text=True, timeout=60, check=False, preexec_fn=_heard,
    )  # fmt: skip
    assert done.returncode in {-signal.SIGINT, 128 + signal.SIGINT}, done
    assert "Traceback" not in done.stderr, done.stderr
    assert len(done.stderr.splitlines()) <= 1, done.stderr


def test_afterwards_ctrl_c_is_an_exception_again_with_which_commands_end_in_order():
    line = (
        "import fathometer.cli, signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    )
    done = subprocess.run(
        [sys.executable, "-c", line],
        capture_output=True, text=True, timeout=60, check=True, preexec_fn=_heard,
    )  # fmt: skip
    assert done.stdout.strip() == "True"
