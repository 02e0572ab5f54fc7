"""The processes of a study: each bears the study's mark in its environment, so that none is lost by a crash.

A process id may be another's by the time that it is read from a file; a mark in ``/proc/PID/environ`` cannot.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Final

from fathometer.errors import FathometerError

MARK: Final = "FATHOMETER_STUDY"
GRACE_S: Final = 5.0
"""How long a process has from SIGTERM to SIGKILL; a probe closes its recording in that time."""


class Processes:
    """What runs for a study now."""

    def __init__(self, study_id: str) -> None:
        self._environment = {**os.environ, MARK: study_id}
        self._running: list[Process] = []

    async def start(self, argv: list[str], *, stderr: Path | None = None, fed: bool = False) -> Process:
        """Starts a command in a session of its own: Ctrl-C is ours, and what we stop we stop in order.
        One that is `fed` reads its standard input from us.
        """
        with contextlib.ExitStack() as stack:
            error = PIPE if stderr is None else stack.enter_context(stderr.open("ab"))
            try:
                process = await asyncio.create_subprocess_exec(
                    *argv,
                    stdin=PIPE if fed else asyncio.subprocess.DEVNULL,
                    stdout=PIPE,
                    stderr=error,
                    env=self._environment,
                    start_new_session=True,
                )
            except OSError as problem:
                remedy = "name the binary with --fathom" if "/" in argv[0] else "install it"
                raise FathometerError("run a study", f"{argv[0]}: {problem.strerror}", remedy) from None
        self._running.append(process)
        return process

    async def output(self, argv: list[str]) -> tuple[int, str, str]:
        """Runs a command to its end: exit code, standard output, standard error. Ends it when cancelled."""
        code, out, err = await self.exchange(argv)
        return code, out.decode(errors="replace"), err.decode(errors="replace")

    async def exchange(self, argv: list[str], given: bytes | None = None) -> tuple[int, bytes, bytes]:
        """The same in bytes, with something to read for the command."""
        process = await self.start(argv, fed=given is not None)
        try:
            out, err = await process.communicate(given)
        finally:
            await self.stop(process)
        return process.returncode or 0, out, err

    async def stop(self, process: Process) -> None:
        """Ends a process and its group, gently first."""
        for sign in (signal.SIGTERM, signal.SIGKILL):
            if process.returncode is not None:
                break
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, sign)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), GRACE_S)
        if process in self._running:
            self._running.remove(process)

    async def stop_all(self) -> None:
        """Ends everything, last started first: probes before their reflectors."""
        for process in reversed(self._running.copy()):
            await self.stop(process)


def marked(study_id: str) -> list[int]:
    """The processes that bear a study's mark, but for ourselves."""
    wanted = f"{MARK}={study_id}".encode()
    pids = []
    for entry in Path("/proc").glob("[0-9]*"):
        # Gone meanwhile, or another user's: not ours to end.
        with contextlib.suppress(OSError):
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            if wanted in (entry / "environ").read_bytes().split(b"\0") and state != "Z":
                pids.append(int(entry.name))
    return sorted(p for p in pids if p != os.getpid())


def end_marked(study_id: str) -> int:
    """Ends what a crashed study left; tells how many processes that were."""
    ended: set[int] = set()
    for sign in (signal.SIGTERM, signal.SIGKILL):
        until = time.monotonic() + GRACE_S
        for pid in (left := marked(study_id)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, sign)
        ended.update(left)
        while marked(study_id) and time.monotonic() < until:
            time.sleep(0.02)
    left = marked(study_id)
    if left:
        raise FathometerError("stop a study", f"process {left[0]} does not end", "end it by hand")
    return len(ended)
