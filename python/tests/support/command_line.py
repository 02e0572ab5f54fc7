"""The command line as a program of its own."""

import subprocess
import sys


def run(*args, cwd=None, stdin=None, timeout=None):
    command = [sys.executable, "-c", "from fathometer.cli import main; main()", *map(str, args)]
    return subprocess.run(
        command, cwd=cwd, input=stdin, capture_output=True, text=True, check=False, timeout=timeout
    )
