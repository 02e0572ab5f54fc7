"""Files that only their owner can read, and that another account's link cannot redirect. Recordings, rollups
and studies name hosts. In a directory that others may write to (such as /tmp), another account could plant a
link under the name of our next file.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from typing import IO, TYPE_CHECKING, Final

from fathometer import portable

if TYPE_CHECKING:
    from pathlib import Path

PRIVATE: Final = 0o600
SHARED: Final = 0o666
"""Mode of a shared file, before the process's umask."""
_LINKS: Final = 40
"""Maximum number of links in a row, as in the kernel."""


def create(place: Path, mode: int = PRIVATE) -> IO[bytes]:
    """Creates a new file; an existing file or link of that name is an error (`OSError`)."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | portable.NO_LINK | portable.NOT_INHERITED
    return os.fdopen(os.open(place, flags, mode), "w+b")


def append_to(place: Path) -> IO[bytes]:
    """Opens a file to append to, and creates it if missing; a link in its place is an error (`OSError`)."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | portable.NO_LINK | portable.NOT_INHERITED
    return os.fdopen(os.open(place, flags, PRIVATE), "ab+")


def replace(place: Path, content: bytes, *, shared: bool = False, sync: bool = False) -> None:
    """Replaces a file in one step: a reader sees the old one or the new one, whole. Raises `OSError`.

    A link of this account or of root stays, and what it leads to is replaced; any other is an error.

    Args:
        place: the file.
        content: all of it.
        shared: whether others may read it, as far as the umask lets them; one that is there keeps its mode.
        sync: whether it is on disk when this returns.
    """
    target = _followed(place)
    part = target.with_name(f".{target.name}.{secrets.token_hex(8)}.part")
    file = create(part, SHARED if shared else PRIVATE)
    try:
        with file:
            file.write(content)
            if shared and target.exists():
                part.chmod(stat.S_IMODE(target.stat().st_mode))
            if sync:
                file.flush()
                os.fsync(file.fileno())
        part.replace(target)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink()
        raise


def make_directories(place: Path) -> None:
    """Makes a directory and its missing parents, for their owner alone."""
    missing = [one for one in (place, *place.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(mode=0o700, exist_ok=True)


def _followed(place: Path) -> Path:
    """The path with its links resolved; raises `OSError`."""
    for _ in range(_LINKS):
        try:
            there = place.lstat()
        except FileNotFoundError:
            return place
        if not stat.S_ISLNK(there.st_mode):
            return place
        if not portable.is_of_root_or_user(there):
            raise PermissionError(errno.EPERM, "it is a link of another account")
        place = place.parent / place.readlink()
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
