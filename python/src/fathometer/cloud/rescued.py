"""A state that OpenTofu or Terraform prints because it can write it nowhere, as on a full disk.

It is all that knows what was made last. So its output has room that is set aside beforehand (`reserve`), and
what is printed there is kept as the file that the tool sets a state aside in (`keep`), else on another file
system, from where the next call of ours takes it back (`bring_back`).
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from fathometer.cloud.journal import LOGS, LabPlace, all_usual
from fathometer.errors import FathometerError
from fathometer.writing import replace

_RESERVED: Final = 8 << 20
"""Bytes for what the tool prints: a line or two for each thing, and a state."""
_KEEP_SIZE: Final = 1
"""FALLOC_FL_KEEP_SIZE of fallocate(2): the room is the file's, and its size stays as it is."""
_DUMP: Final = '"Emergency state dump"'
_STATE: Final = '"state":'
_TEMPORARY: Final = Path("/var/tmp")  # noqa: S108 - only what we own is taken from there
"""Kept over a restart: https://refspecs.linuxfoundation.org/FHS_3.0/fhs/ch05s15.html."""
_PRINTED: Final = ".printed"
"""Of a tool's whole output that is kept, as a state in it could be written nowhere else."""


def reserve(fd: int) -> None:
    """Sets room aside for a file, as far as the file system can do that: at the most a quarter of what is
    free, as the state itself needs some.
    """
    if sys.platform != "linux":
        return
    room = min(_RESERVED, shutil.disk_usage(fd).free // 4)
    if room:
        # Where it fails, the file has only the room that is left when it is written.
        libc = ctypes.CDLL(None)
        libc.fallocate(fd, _KEEP_SIZE, ctypes.c_int64(0), ctypes.c_int64(room))


def is_dump(line: str) -> bool:
    """Whether a line of the tool's output is a printed state, or the beginning of one that was cut."""
    return _DUMP in line[:200] and line.startswith("{")


def state_of(line: str) -> str | None:
    """The state in such a line, exactly as it was printed; None: it was cut, or is no state."""
    try:
        at = line.index(_STATE) + len(_STATE)
        at += len(line[at:]) - len(line[at:].lstrip())
        value, end = json.JSONDecoder().raw_decode(line, at)
    except ValueError:
        return None
    return line[at:end] if isinstance(value, dict) else None


def keep(place: LabPlace, raw: Path, say: Callable[[str], None]) -> None:
    """Keeps the last state that is printed in the tool's output, where there is one, and says where."""
    line = _last_dump(raw)
    if line is None:
        return
    # The room that was set aside and not needed.
    with contextlib.suppress(OSError):
        os.truncate(raw, raw.stat().st_size)
    text = state_of(line)
    if text is None:
        say("the tool printed its state, as it could write it nowhere, and the end of that is missing")
        return
    for file in (place.aside, *_elsewhere(place.id)):
        with contextlib.suppress(OSError):
            _write(file, text)
            say(f"the state could not be written; what was printed of it is kept in {file}")
            return
    # A name costs no room. Secrets that the cloud quotes are better in there than a lab that nobody knows.
    kept = raw.with_suffix(_PRINTED)
    raw.replace(kept)
    raw.touch(mode=0o600)
    say(f"the state could be written nowhere; it is in {kept}, from where the next call takes it back")


def bring_back(lab_id: str, directory: Path, aside: Path, say: Callable[[str], None]) -> None:
    """Puts a state that was kept elsewhere where the tool would have set it aside. Raises `FathometerError`
    where that cannot be written: without it nobody knows what exists.
    """
    for file in kept(lab_id, directory):
        try:
            _write(aside, text_of(file))
        except OSError as error:
            raise FathometerError(
                "take back the lab's state",
                f"{file} cannot be copied to {aside}: {error.strerror}",
                f"see to room and rights on the disk of {directory}; then the same command goes on",
            ) from None
        say(f"{file} has the lab's state: it is now {aside}")
        file.unlink()


def kept(lab_id: str, directory: Path) -> list[Path]:
    """Files that have a state of a lab which had no room where it belongs: by the lab's id, or in its
    directory what the tool said.
    """
    return [f for f in (*_elsewhere(lab_id), *sorted(directory.glob(f"{LOGS}/*{_PRINTED}"))) if _is_own(f)]


def text_of(file: Path) -> str:
    """The state in one of them. Raises `OSError`."""
    if file.suffix == _PRINTED:
        return state_of(_last_dump(file) or "") or ""
    return file.read_text(encoding="utf-8", errors="replace")


def _is_own(file: Path) -> bool:
    # Anybody may write into a directory for temporary files.
    try:
        status = file.lstat()
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.getuid()


def _last_dump(raw: Path) -> str | None:
    with raw.open(encoding="utf-8", errors="replace") as lines:
        return next((one for one in reversed([*lines]) if is_dump(one)), None)


def _elsewhere(lab_id: str) -> Iterator[Path]:
    """Where a state is kept that has no room beside the lab's own, by the lab's id: last where another call
    may not look, and what a restart of the machine may empty.
    """
    places = (all_usual().parent, Path.home(), _TEMPORARY, Path(tempfile.gettempdir()))
    for directory in dict.fromkeys(places):
        yield directory / f"fathom-{lab_id}.tfstate"


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace(file, text.encode(), sync=True)
