"""The files around `fathom study from-outputs`: what is read, and the study that is written."""

from __future__ import annotations

import sys
from pathlib import Path

from fathometer.errors import FathometerError


def read_bytes(path: Path, most: int) -> bytes:
    """A file, or standard input as `-`; a byte more than `most` at the most. Raises `FathometerError`."""
    try:
        if str(path) == "-":
            return sys.stdin.buffer.read(most + 1)
        with path.open("rb") as file:
            return file.read(most + 1)
    except OSError as error:
        raise FathometerError("read a lab's outputs", f"{path}: {error.strerror}", "check the path") from None


def existing(key: Path) -> Path:
    """The file of a key for SSH. Raises `FathometerError` where it is not there: `ssh` would try others, and
    say of each host that it is not let in.
    """
    if not key.is_file():
        raise FathometerError(
            "make a study of a lab",
            f"{key}: there is no such file, which --key names",
            "name the private key whose public half the hosts let in, or the FILE.pub of one in ssh's agent",
        )
    return key


def write_new(path: Path, text: str) -> None:
    """Writes a file that is not there yet: what was added to an earlier one by hand is not lost. Raises
    `FathometerError`.
    """
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise FathometerError(
            "write the study", f"{path} is there already", "name another file, or take it away"
        ) from None
    except OSError as error:
        raise FathometerError("write the study", f"{path}: {error.strerror}", "check the path") from None
