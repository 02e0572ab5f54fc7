"""Help and usage of the commands that `fathom` hands on."""

import signal
import subprocess
import sys

import pytest

from fathometer.counts import count

COMMANDS = ("report", "compare", "rollup", "changes", "check", "import", "demo", "study", "study check")
MAIN = "from fathometer.cli import main; main()"
HELD = f"import signal; signal.pthread_sigmask(signal.SIG_BLOCK, {{signal.SIGINT}}); {MAIN}"


def said(program, *args):
    return subprocess.run([sys.executable, "-c", program, *args], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("command", COMMANDS)
def test_h_is_help(command):
    short, long = (said(MAIN, *command.split(), flag) for flag in ("-h", "--help"))
    assert (short.returncode, short.stdout) == (0, long.stdout)
    assert "Usage: " in short.stdout


def test_usage_names_the_program_that_was_started():
    """`fathom` holds Ctrl-C back while it hands over."""
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert "Usage: fathom report " in said(HELD, "report", "--help").stdout
    assert "Usage: fathom report " not in said(MAIN, "report", "--help").stdout


def test_scenarios_are_no_scenarioes():
    assert [count(9, one) for one in ("scenario", "echo", "ratio", "loss")] == [
        "9 scenarios",
        "9 echoes",
        "9 ratios",
        "9 losses",
    ]
