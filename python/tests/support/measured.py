"""Commands as programs of their own, with what they cost."""

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass

STUCK_S = 300
"""A command that takes longer hangs. What it may cost is compared with honest input."""
FATHOMETER = (sys.executable, "-c", "from fathometer.cli import main; main()")


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    """Negative: the signal that ended it."""
    stdout: str
    stderr: str
    peak_kib: int
    cpu_s: float


def measured(*command, cwd=None):
    """Runs a command to its end, or for `STUCK_S`."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            ["timeout", "--signal=KILL", str(STUCK_S), *map(str, command)],
            stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=cwd,
        )  # fmt: skip
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = code = os.waitstatus_to_exitcode(status)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "surrogateescape"))
    return Ended(code, *texts, usage.ru_maxrss, usage.ru_utime + usage.ru_stime)


def fathometer(*args, cwd=None):
    """The Python half's command line."""
    return measured(*FATHOMETER, *args, cwd=cwd)
