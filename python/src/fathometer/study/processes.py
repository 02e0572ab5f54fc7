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
from fathometer.writing import append_to

MARK: Final = "FATHOMETER_STUDY"
MOST_OUTPUT: Final = 16 << 20
"""Bytes that a command may write to one of its outputs, unless it is said otherwise."""
_CHUNK: Final = 64 << 10
GRACE_S: Final = 5.0
"""How long a process has from SIGTERM to SIGKILL; a probe closes its recording in that time."""


class OutputTooLong(Exception):  # noqa: N818 - that is what it is
    """A command wrote more than it may, and was ended."""

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self.most = most


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
            error = PIPE if stderr is None else stack.enter_context(append_to(stderr))
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

    async def exchange(
        self, argv: list[str], given: bytes | None = None, most: int = MOST_OUTPUT
    ) -> tuple[int, bytes, bytes]:
        """The same in bytes, with something to read for the command. One that writes more than `most` bytes
        to one of its outputs is ended: `OutputTooLong`.
        """
        process = await self.start(argv, fed=given is not None)
        works = [
            asyncio.create_task(_read(process.stdout, most)),
            asyncio.create_task(_read(process.stderr, most)),
            asyncio.create_task(_feed(process, given)),
        ]
        try:
            out, err, _ = await asyncio.gather(*works)
            await process.wait()
        except OutputTooLong:
            # It does not listen to us: nothing gentle.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            _close_pipes(process)
            raise
        finally:
            for work in works:
                work.cancel()
            await self.stop(process)
            _close_pipes(process)
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


def _close_pipes(process: Process) -> None:
    """Also those that another process holds open. asyncio waits for their end, and has no public way."""
    process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001


async def _read(output: asyncio.StreamReader | None, most: int) -> bytes:
    """All that a command writes. Where it is too long its end is not waited for: another process may hold the
    pipe open, as the master of a shared connection of ``ssh`` does.
    """
    data = bytearray()
    while output is not None and (chunk := await output.read(_CHUNK)):
        data += chunk
        if len(data) > most:
            raise OutputTooLong(most)
    return bytes(data)


async def _feed(process: Process, given: bytes | None) -> bytes:
    if process.stdin is None or given is None:
        return b""
    # It may have ended before it read all.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        for at in range(0, len(given), _CHUNK):
            process.stdin.write(given[at : at + _CHUNK])
            await process.stdin.drain()
    process.stdin.close()
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        await process.stdin.wait_closed()
    return b""


def marked(study_id: str) -> list[int]:
    """The processes that bear a study's mark, but for ourselves."""
    wanted = f"{MARK}={study_id}".encode()
    pids = []
    for entry in Path("/proc").glob("[0-9]*"):
        # Gone meanwhile, or another user's: not ours to end.
        with contextlib.suppress(OSError):
            state = (
                (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
            )
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
