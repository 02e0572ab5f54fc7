"""One runner a study.

The lock belongs to the open file (an OFD lock, `man 2 fcntl`): the kernel lets go of it when its holder ends,
however that happens, and, unlike `flock`, it can be asked about without being taken. So whoever only looks is
never in the way of a runner that begins at that moment.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from fathometer.errors import FathometerError
from fathometer.reading import regular
from fathometer.writing import append_to

LOCK: Final = ".lock"


_KIND: Final = [("type", ctypes.c_short), ("whence", ctypes.c_short)]
_SPAN: Final = [("start", ctypes.c_int64), ("len", ctypes.c_int64), ("pid", ctypes.c_int)]


class _Range(ctypes.Structure):
    """`struct flock`: what kind of lock, and of which part of the file."""

    _fields_ = [*_SPAN, *_KIND] if sys.platform == "darwin" else [*_KIND, *_SPAN]


def _whole_file(kind: int) -> bytes:
    return bytes(_Range(type=kind, whence=os.SEEK_SET))


@contextlib.contextmanager
def locked(
    output: Path, work: str = "run a study", remedy: str = "wait for it, or `fathom study stop` it"
) -> Iterator[None]:
    """Holds a directory, so that two of us do not work in it at once; the file names who does. `work` and
    `remedy` are the words for who comes second.
    """
    try:
        opened = append_to(output / LOCK)
    except OSError as error:
        raise _not_held(work, output, error) from None
    with opened as file:
        try:
            fcntl.fcntl(file, fcntl.F_OFD_SETLK, _whole_file(fcntl.F_WRLCK))
        except OSError:
            raise FathometerError(work, f"{output} is being run already", remedy) from None
        # A number that had no room stays in the buffer, and would fail once more when the file is closed.
        try:
            os.ftruncate(file.fileno(), 0)
            os.write(file.fileno(), str(os.getpid()).encode())
        except OSError as error:
            raise _not_held(work, output, error) from None
        yield


def _not_held(work: str, output: Path, error: OSError) -> FathometerError:
    return FathometerError(
        work, f"{output / LOCK}: {error.strerror}", "see that you may write there, and that the disk has room"
    )


def is_held(output: Path) -> bool:
    """Whether somebody holds a study's directory. Takes nothing, so a runner may begin meanwhile."""
    try:
        with regular(output / LOCK) as file:
            answer = fcntl.fcntl(file, fcntl.F_OFD_GETLK, _whole_file(fcntl.F_RDLCK))
    except OSError:
        return False
    # The kernel writes into the question which lock is in the way; none: this one.
    in_the_way: Any = _Range.from_buffer_copy(answer)
    return bool(in_the_way.type != fcntl.F_UNLCK)
