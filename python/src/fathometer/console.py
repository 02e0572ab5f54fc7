"""Talk on standard error: what is being done, and what was left out."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Final

import typer
from rich.console import Console
from rich.status import Status

from fathometer.clean import cleaned
from fathometer.errors import FathometerError

QUIET_S: Final = 2.0
"""Seconds between two lines where nobody watches a terminal; shorter work says nothing."""


class Progress:
    """Told each step in words: a moving line on a terminal; plain lines elsewhere once it takes long.

    with Progress() as progress:
        progress("reading")
    """

    def __init__(self) -> None:
        self._told = time.monotonic()
        self._status: Status | None = None

    def __enter__(self) -> Progress:
        if sys.stderr.isatty():
            self._status = Console(stderr=True).status("starting")
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status:
            self._status.stop()

    def __call__(self, step: str) -> None:
        """Says what begins."""
        step = cleaned(step)
        if self._status:
            self._status.update(step.replace("[", "\\["))
        elif time.monotonic() - self._told > QUIET_S:
            self._told = time.monotonic()
            typer.echo(f"fathometer: {step}", err=True)


def say(line: str) -> None:
    """A line of ours on standard error."""
    typer.echo(f"fathometer: {cleaned(line)}", err=True)


def tell(line: str, *, err: bool = False) -> None:
    """A line that may hold text from outside, on standard output unless `err`."""
    typer.echo(cleaned(line), err=err)


def refused(error: FathometerError) -> None:
    """Says that a recording is left out, and why."""
    typer.echo(f"fathometer: left out: {error}", err=True)


def tables() -> Console:
    """Standard output for a table: as wide as the terminal, and unbroken where it is read by a program."""
    return Console(width=None if sys.stdout.isatty() else 240, highlight=False, markup=False, soft_wrap=False)
