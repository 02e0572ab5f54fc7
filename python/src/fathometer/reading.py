"""Files and JSON that anybody may have written: a pipe is not waited for, and no value is one that others
cannot read.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from fathometer import portable

NO_FILE: Final = "it is no regular file"

DEEPEST: Final = 64
"""Levels of lists and objects in JSON that is read. Ours have a handful; who walks through a value calls
himself once a level."""


class NotAFileError(OSError):
    """It is there, and is a pipe, a device or the like."""


def regular(place: Path) -> io.BufferedReader:
    """A file of this machine. What is none, a pipe or a device, would be waited for or never end:
    `NotAFileError`.
    """
    # Without O_NONBLOCK the opening of a pipe waits for who writes to it.
    handle = os.open(place, os.O_RDONLY | portable.NO_WAIT | portable.NOT_INHERITED)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise NotAFileError(errno.EINVAL, NO_FILE)
        return os.fdopen(handle, "rb")
    except OSError:
        os.close(handle)
        raise


def digest(place: Path) -> str | None:
    """A file's SHA-256; None: it is no file that can be read."""
    try:
        with regular(place) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def parsed(text: bytes | str) -> Any:  # noqa: ANN401 - whatever JSON can hold
    """A value of JSON, of whole numbers that fit into 64 bits and of no more levels than `DEEPEST`; raises
    ``ValueError``.
    """
    data = text if isinstance(text, str) else text.decode(json.detect_encoding(text), "surrogatepass")
    try:
        value = (_CHECKED if data[:1] not in _OPENING or _LONG.search(data) else _PLAIN).decode(data)
    except RecursionError:
        raise _too_deep() from None
    if data.count("[") + data.count("{") <= DEEPEST:
        return value
    level = [value]
    for _ in range(DEEPEST):
        level = [child for one in level for child in _children(one)]
        if not level:
            return value
    raise _too_deep()


def _children(value: object) -> Iterable[Any]:
    """The lists and objects directly in a list or an object."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (child for child in inside if isinstance(child, (dict, list)))


def _too_deep() -> ValueError:
    return ValueError(f"it has more than {DEEPEST} levels")


def _whole(text: str) -> int:
    """An integer of JSON that fits into 64 bits with its sign; raises ``ValueError``."""
    value = int(text) if len(text) <= 20 else 1 << 64
    # Sequence numbers are without a sign, and stand in events, too.
    if not -(1 << 63) <= value < 1 << 64:
        raise ValueError("a number does not fit into 64 bits")
    return value


def _refused(text: str) -> float:
    """For ``NaN`` and ``Infinity``, which Python takes for JSON and nobody else does."""
    raise ValueError(f"{text} is no number of JSON")


_LONG: Final = re.compile(r"[\s:,\[]-?\d{19}")
"""A number that may not fit into 64 bits. Numbers are checked only in a text that has one."""
_OPENING: Final = frozenset("{[")
_PLAIN: Final = json.JSONDecoder(parse_constant=_refused)
_CHECKED: Final = json.JSONDecoder(parse_int=_whole, parse_constant=_refused)
