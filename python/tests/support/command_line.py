"""The command line, as `fathometer.cli.main` in a process of its own: its arguments, environment, directory,
output and exit code. What it imports is there already (`support.zygote`): most of a short command is that,
and a suite has hundreds. `started` begins with the interpreter, as people do.
"""

import atexit
import os
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from support.measured import FATHOMETER
from support.zygote import Zygote

_READ_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "OMP_", "OPENBLAS_", "COVERAGE")
"""What an interpreter and its libraries look at but once."""


def run(*args, cwd=None, stdin=None, timeout=None):
    """As `subprocess.run` tells it."""
    if stdin is not None or timeout is not None or _at_start() != _zygote()[1]:
        return started(*args, cwd=cwd, stdin=stdin, timeout=timeout)
    ended = forked(*args, cwd=cwd)
    return subprocess.CompletedProcess(args, ended.code, ended.stdout, ended.stderr)


def forked(*args, cwd=None, out=None):
    """As `Zygote.run` has it and tells it: what was printed need be no UTF-8."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTEST_CURRENT_TEST"}
    return _zygote()[0].run(*args, cwd=cwd or Path.cwd(), env=environment, out=out)


def started(*args, cwd=None, stdin=None, timeout=None):
    """The same by an interpreter that begins with it."""
    command = [*FATHOMETER, *map(str, args)]
    return subprocess.run(
        command, cwd=cwd, input=stdin, capture_output=True, text=True, check=False, timeout=timeout
    )


def _at_start():
    return {k: v for k, v in os.environ.items() if k.startswith(_READ_AT_START)}


@cache
def _zygote():
    directory = tempfile.TemporaryDirectory(prefix="fathom-zygote-")
    zygote = Zygote(Path(directory.name))

    def end():
        zygote.end()
        directory.cleanup()

    atexit.register(end)
    return zygote, _at_start()
