"""What is printed can be printed in every locale, and an output that is full is one line and an exit code.

A write fails wherever Python empties its buffer: in `typer.echo`, in Rich, or as the interpreter ends, and
each of them would show a traceback. So the file below the buffer raises once, and then takes the rest.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class UnwritableError(OSError):
    """Standard output cannot be written. Who writes to a terminal that may go away expects an `OSError`."""


class _Descriptor(io.FileIO):
    reader_left = False

    def write(self, data: ReadableBuffer) -> int:
        try:
            return super().write(data) or 0
        except OSError as error:
            # What is still in buffers would fail again as the interpreter ends.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            if isinstance(error, BrokenPipeError):
                self.reader_left = True
                raise
            raise UnwritableError(error.errno, error.strerror) from error


def any_locale() -> None:
    """Makes standard output and error take every character: UTF-8, whatever the locale is. A terminal keeps
    its own encoding, and shows a question mark for a character that it lacks.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding=None if stream.isatty() else "utf-8", errors="replace")


class Output:
    """Takes the place of `sys.stdout` where that is a file or a pipe, and knows what became of it."""

    def __init__(self) -> None:
        self._below: _Descriptor | None = None
        out = sys.stdout
        # Not of a terminal, which is never full: a view's handler of Ctrl-Z draws, too, and nobody may write
        # while a write of ours, which is no single instruction, is under way.
        if not isinstance(out, io.TextIOWrapper) or out.isatty():
            return
        with contextlib.suppress(OSError):
            self._below = _Descriptor(out.fileno(), "wb", closefd=False)
        if self._below is not None:
            sys.stdout = io.TextIOWrapper(
                io.BufferedWriter(self._below),
                encoding=out.encoding,
                errors=out.errors,
                line_buffering=out.line_buffering or out.write_through,
            )

    @property
    def reader_left(self) -> bool:
        """Whether whoever read has gone (`| head`)."""
        return self._below is not None and self._below.reader_left

    def flush(self) -> None:
        """To be called before the exit code is known. Raises what could not be written."""
        if self._below is not None:
            with contextlib.suppress(BrokenPipeError):
                sys.stdout.flush()
