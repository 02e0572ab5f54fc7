"""The calls that differ between Linux, macOS and Windows.

Reports, comparisons, checks and imports run on all three.
"""

from __future__ import annotations

import os
import sys
from typing import BinaryIO, Final

if sys.platform != "win32":
    import fcntl

NO_WAIT: Final = getattr(os, "O_NONBLOCK", 0)
"""Opens a named pipe without waiting for its writer. Windows has no such files in directories."""

NOT_INHERITED: Final = getattr(os, "O_CLOEXEC", 0)
"""Python's own default on Windows."""


NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)
"""Refuses to open a symbolic link. On Windows only an administrator can make one."""


def is_of_root_or_user(status: os.stat_result) -> bool:
    """True if root or this user owns a file. Windows has no numeric owners."""
    return sys.platform == "win32" or status.st_uid in {0, os.geteuid()}


def processors() -> int:
    """Number of processors that this program may use."""
    if sys.platform == "linux":
        usable = len(os.sched_getaffinity(0))
    else:
        usable = os.cpu_count() or 1
    return max(1, usable)


def memory() -> int:
    """The machine's memory in bytes; raises ``OSError`` where the system does not say."""
    if sys.platform == "win32":
        raise OSError("Windows has no sysconf")
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def is_locked(file: BinaryIO) -> bool:
    """True if another program holds the lock that Rust's `File::lock` takes. This is flock, and LockFileEx on
    Windows.
    """
    try:
        if sys.platform == "win32":
            # Windows refuses to read a file that another program has locked.
            file.read(1)
        else:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return True
    return False
