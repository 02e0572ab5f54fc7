"""``study stop``: what a study left running is ended, also after its runner was killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fathometer.errors import FathometerError
from fathometer.study.cgroups import remove_left
from fathometer.study.homes import clear_homes
from fathometer.study.hosts import find_fathom, last_line
from fathometer.study.journal import Journal, fabrics_left, first, read_journal, ssh_left
from fathometer.study.lock import LOCK, is_held, locked
from fathometer.study.processes import end_marked
from fathometer.study.ssh.fleet import Cleared, clear_left

RUNNER_S = 60.0
"""How long a runner has to take its study down: processes and fabrics have 5 s each."""


@dataclass(frozen=True)
class Stopped:
    """What was found and ended."""

    runner: bool
    processes: int
    fabrics: tuple[str, ...]
    hosts: tuple[str, ...]
    """Over SSH, that were cleared."""


def stop_study(output: Path, fathom: Path | None) -> Stopped:
    """Ends the runner of a study if there is one, then whatever else the study left. Raises
    `FathometerError`.
    """
    entries = read_journal(output)
    begun = first(entries)
    if begun is None:
        raise FathometerError("stop a study", f"{output} holds no study", "name the --output of a study")
    runner = _end_runner(output)
    with locked(output):
        entries = read_journal(output)
        fabrics = fabrics_left(entries)
        journal = Journal(output)
        try:
            binary = find_fathom(fathom or _path(begun.get("fathom"))) if fabrics else ""
            ended = clean(entries, str(begun["id"]), binary, journal)
            cleared = _clear_hosts(str(begun["id"]), entries, journal)
            journal.note("study.stopped")
        finally:
            journal.close()
    return Stopped(runner, ended + cleared.processes, tuple(fabrics), cleared.hosts)


def _clear_hosts(study_id: str, entries: list[dict[str, Any]], journal: Journal) -> Cleared:
    if not ssh_left(entries):
        return Cleared(0, (), ())
    cleared = asyncio.run(clear_left(study_id, entries, journal))
    if cleared.errors:
        more = f" ({len(cleared.errors) - 1} more)" if len(cleared.errors) > 1 else ""
        raise FathometerError("stop a study", cleared.errors[0], f"then try it again{more}")
    return cleared


def clean(entries: list[dict[str, Any]], study_id: str, fathom: str, journal: Journal) -> int:
    """Takes away the fabrics that a journal leaves open, then ends what bears the study's mark on this
    machine; tells how many processes that were. Hosts over SSH stay as they are.
    """
    for name in fabrics_left(entries):
        _down(fathom, name)
        journal.note("fabric.gone", name=name)
    ended = end_marked(study_id)
    remove_left(study_id)
    clear_homes()
    return ended


def _path(value: object) -> Path | None:
    return Path(value) if isinstance(value, str) and Path(value).is_file() else None


def _end_runner(output: Path) -> bool:
    """Asks a live runner to end, and waits for it; False: there was none. Whoever holds the lock is alive."""
    asked = False
    until = time.monotonic() + RUNNER_S
    while is_held(output):
        if time.monotonic() > until:
            raise FathometerError(
                "stop a study", f"the runner of {output} does not end", "end it yourself, then try again"
            )
        if not asked:
            word = (output / LOCK).read_text()
            if word.isdigit():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(word), signal.SIGINT)
                asked = True
        time.sleep(0.05)
    return asked


def _down(fathom: str, name: str) -> None:
    done = subprocess.run(  # noqa: S603 - our own binary, and a name of our own
        [fathom, "fabric", "down", name],
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
        timeout=RUNNER_S,
    )
    if done.returncode != 0 and "no fabric" not in done.stderr:
        raise FathometerError("stop a study", f"fabric {name}: {last_line(done.stderr)}", "try it again")
