"""Commands as programs of their own, with what they cost."""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass

STUCK_S = 300
"""A command that takes longer hangs. What it may cost is compared with honest input."""
FATHOMETER = (sys.executable, "-c", "from fathometer.cli import main; main()")
_SMALL = """\
import json, os, signal, sys
child = os.fork()
if child == 0:
    signal.alarm(int(sys.argv[2]))
    os.execvp(sys.argv[3], sys.argv[3:])
_, status, usage = os.wait4(child, 0)
ended = [os.waitstatus_to_exitcode(status), usage.ru_maxrss, usage.ru_utime + usage.ru_stime]
os.write(int(sys.argv[1]), json.dumps(ended).encode())
"""
"""A process begins with the peak of memory of the one that it was forked from: so that is a small one."""


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
    reader, writer = os.pipe()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, os.fdopen(reader, "rb") as cost:
        words = [sys.executable, "-I", "-S", "-c", _SMALL, str(writer), str(STUCK_S), *map(str, command)]
        try:
            subprocess.run(
                words,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=cwd,
                pass_fds=[writer],
                check=True,
            )
        finally:
            os.close(writer)
        code, peak_kib, cpu_s = json.loads(cost.read())
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "surrogateescape"))
    return Ended(code, *texts, peak_kib, cpu_s)


def fathometer(*args, cwd=None):
    """The Python half's command line."""
    return measured(*FATHOMETER, *args, cwd=cwd)
