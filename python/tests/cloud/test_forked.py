"""What stands in for `subprocess.Popen` where programs are forked (support/forked.py)."""

import os
import signal
import subprocess

import pytest

from support.forked import Forked


def test_signal_after_unreported_exit_is_ignored(tmp_path, forker):
    """Between its end and the word of it `kill` found nobody, and a test failed at its cleaning up."""
    process = forker.popen("", env=os.environ, cwd=tmp_path)
    process.communicate(timeout=60)
    reader, writer = os.pipe()
    untold = Forked.__new__(Forked)
    untold.pid, untold.returncode, untold._told = process.pid, None, os.fdopen(reader)
    with untold._told, os.fdopen(writer, "w"):
        assert untold.poll() is None
        # No signal, which asks for a process by that id: somebody else may have it by now.
        untold.send_signal(0)


def test_communicate_times_out_after_closed_output(tmp_path, forker):
    program = "import os, signal; print('x', flush=True); os.close(1); os.close(2); signal.pause()"
    process = forker.popen(program, env=os.environ, cwd=tmp_path)
    assert (process.stdout.read(), process.stderr.read()) == ("x\n", "")
    with pytest.raises(subprocess.TimeoutExpired):
        process.communicate(timeout=0.2)
    assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    process.communicate()
