"""Directories in which servers of a study have their data while they run: each is locked by its runner, so
that those of a runner that was killed are known for what they are, and taken away by whoever comes next.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import stat
import tempfile
import time
from pathlib import Path
from typing import Final

from fathometer.study.lock import is_held, locked
from fathometer.study.processes import GRACE_S

PREFIX: Final = "fathometer-postgres-"
_MAKING: Final = "fathometer-making-"


class Home:
    """One of ours; others may go through it, to what they are given in it."""

    def __init__(self) -> None:
        making = Path(tempfile.mkdtemp(prefix=_MAKING))
        self._held = contextlib.ExitStack()
        self._held.enter_context(locked(making))
        making.chmod(0o711)
        # Under its name it is never without its lock.
        self.path = making.rename(making.with_name(making.name.replace(_MAKING, PREFIX)))

    def take_away(self) -> None:
        """Nothing of it stays."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._held.close()


def clear_homes() -> int:
    """Ends the servers of runners that were killed, and takes their data away; tells how many those were."""
    left = 0
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        if _is_ours(path) and not is_held(path):
            _end_within(path)
            shutil.rmtree(path, ignore_errors=True)
            left += 1
    return left


def _is_ours(path: Path) -> bool:
    """Anybody may write into the directory for temporary files."""
    with contextlib.suppress(OSError):
        status = path.lstat()
        return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
    return False


def _within(path: Path) -> list[int]:
    """The processes that work in a directory, as all of a PostgreSQL's do in that of its data."""
    pids = []
    for entry in Path("/proc").glob("[0-9]*"):
        # Gone meanwhile, or not ours to see.
        with contextlib.suppress(OSError):
            at = (entry / "cwd").readlink()
            if path in (at, *at.parents):
                pids.append(int(entry.name))
    return pids


def _end_within(path: Path) -> None:
    for sign in (signal.SIGTERM, signal.SIGKILL):
        until = time.monotonic() + GRACE_S
        for pid in _within(path):
            with contextlib.suppress(OSError):
                os.kill(pid, sign)
        while _within(path) and time.monotonic() < until:
            time.sleep(0.02)
