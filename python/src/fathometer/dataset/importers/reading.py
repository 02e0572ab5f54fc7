"""The bytes of a file to import, within bounds: how large it is the user sees, what it unpacks to nobody
does.
"""

from __future__ import annotations

import gzip
import io
import re
import zlib
from pathlib import Path
from typing import Final

from fathometer.errors import FathometerError

MOST: Final = 1 << 30
"""Bytes of a file: ten million samples as text. A larger one would take several times as much memory."""
_FREE: Final = 16 << 20
_RATIO: Final = 20
"""Text of measurements packs to a tenth. A file may unpack to `_FREE` bytes, or to this many times its own:
2 MB that unpack to 4 GB are an attack."""
_HEAD: Final = 64 << 10
_ANSI: Final = re.compile(rb"\x1b\[[0-9;]*[A-Za-z]")
_BYTE_ORDER: Final = (b"\xff\xfe", b"\xfe\xff")
"""What Windows' shells begin a file of UTF-16 with."""


def contents(path: Path) -> bytes:
    """A file unpacked, in UTF-8, without a byte order mark, terminal colours and carriage returns; raises
    `FathometerError`.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(MOST + 1)
    except OSError as error:
        raise _refused(path, error.strerror or str(error), "check the path and its permissions") from None
    if len(raw) > MOST:
        raise _refused(path, f"it is larger than {MOST >> 30} GiB", "cut it into several files")
    if raw[:2] == b"\x1f\x8b":
        raw = _unpacked(path, raw)
    if raw[:2] in _BYTE_ORDER:
        raw = raw.decode("utf-16", "replace").encode()
    if b"\0" in raw[:_HEAD]:
        raise _refused(path, "it is no text", "name what the tool printed or wrote as text")
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    if b"\x1b" in raw:
        raw = _ANSI.sub(b"", raw)
    return raw.replace(b"\r\n", b"\n") if b"\r" in raw else raw


def _unpacked(path: Path, packed: bytes) -> bytes:
    most = max(_FREE, _RATIO * len(packed))
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
            raw = file.read(most + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise _refused(
            path, f"it cannot be unpacked ({error})", "pack it again, or give it unpacked"
        ) from None
    if len(raw) > most:
        raise _refused(
            path, f"it unpacks to more than {_RATIO} times its size", "unpack it yourself, and import that"
        )
    return raw


def _refused(path: Path, reason: str, remedy: str) -> FathometerError:
    return FathometerError("import", f"{path}: {reason}", remedy)
