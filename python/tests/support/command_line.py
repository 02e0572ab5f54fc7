"""The command line: in this process, as importing what a report needs takes longer than most reports; or
`started` by an interpreter of its own, as people do.
"""

import contextlib
import signal
import subprocess
import sys
import tempfile
import traceback
from functools import cache
from pathlib import Path

import typer.main

from fathometer import cli, console
from support.measured import FATHOMETER, STUCK_S

# A program builds the tree of its commands once. Here each call would: that takes longer than most commands.
typer.main.get_command = cache(typer.main.get_command)


def run(*args, cwd=None, stdin="", out=None, encoding="utf-8"):
    """Calls `fathometer.cli.main`, and returns what `subprocess.run` would.

    `stdin`: its text; None: it was closed before. `out`: a file to print to. `encoding`: that of the locale.
    """
    with tempfile.TemporaryDirectory(prefix="fathom-run-") as directory:
        places = [Path(directory, name) for name in ("in", "out", "err")]
        places[0].write_text(stdin or "", encoding="utf-8")
        with contextlib.ExitStack() as during:
            texts = {"encoding": encoding, "errors": "surrogateescape" if encoding == "utf-8" else "strict"}
            given, told, said = (
                during.enter_context(place.open(mode, **texts))
                for place, mode in zip(places, ("r", "w", "w"), strict=True)
            )
            during.enter_context(contextlib.chdir(cwd or "."))
            during.enter_context(_instead(sys, "stdin", None if stdin is None else given))
            during.enter_context(_instead(sys, "stdout", out or told))
            during.enter_context(_instead(sys, "stderr", said))
            during.enter_context(_instead(sys, "argv", ["fathometer", *map(str, args)]))
            # How long something takes decides whether a line tells of it.
            during.enter_context(_instead(console, "QUIET_S", STUCK_S))
            during.enter_context(_alarm())
            code = _code(said)
            if stdin is None:
                sys.stdin.close()
        printed = [place.read_bytes().decode("utf-8", "surrogateescape") for place in places[1:]]
    return subprocess.CompletedProcess(args, code, *printed)


def started(*args, cwd=None, **more):
    """The same by an interpreter that begins with it."""
    command = [*FATHOMETER, *map(str, args)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, **more)


def _code(errors):
    try:
        cli.main()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except Exception:  # noqa: BLE001 - as the interpreter ends
        traceback.print_exc(file=errors)
        return 1
    return 0


@contextlib.contextmanager
def _instead(of, name, value):
    before = getattr(of, name)
    setattr(of, name, value)
    try:
        yield
    finally:
        setattr(of, name, before)


@contextlib.contextmanager
def _alarm():
    """A command that waits for ever fails its test."""

    def stuck(*_):
        raise TimeoutError(f"stuck for {STUCK_S} s")

    before = signal.signal(signal.SIGALRM, stuck)
    signal.alarm(STUCK_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
