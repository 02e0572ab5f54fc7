"""The view on a terminal, and plain lines elsewhere."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TextIO

import typer
from rich.console import Console
from rich.live import Live as Screen

from fathometer.clean import cleaned
from fathometer.counts import count
from fathometer.study.live.board import Board
from fathometer.study.live.follow import StudyFollower, follow
from fathometer.study.live.happenings import Happening
from fathometer.study.watch.table import picture
from fathometer.study.watch.words import line

PERIOD_S: Final = 1.0
"""From one picture to the next."""
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP)
"""What ends a view, or puts it aside."""


def is_screen(console: Console) -> bool:
    """Whether pictures can be drawn over one another there."""
    return console.is_terminal and not console.is_dumb_terminal


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Signals that come meanwhile are handled afterwards. A screen that has half begun cannot be ended, and
    the terminal would stay on its other page. To be called in the main thread, where handlers are set.
    """
    pending: list[int] = []
    before: dict[signal.Signals, Any] = {}
    try:
        for sign in _SIGNALS:
            before[sign] = signal.getsignal(sign)
            signal.signal(sign, lambda number, _: pending.append(number))
        yield
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)
    for number in pending:
        signal.raise_signal(number)


class _Drawing:
    """Draws the study on the terminal's other page from `begin` on, and leaves that as it was by `end`."""

    def __init__(self, console: Console, follower: StudyFollower, hint: str, *, own: bool) -> None:
        self._own = own
        self._words = hint
        self._console = console
        self._follower = follower
        self._lock = threading.RLock()
        self._screen = self._new()

    def _new(self) -> Screen:
        return Screen(console=self._console, screen=True, auto_refresh=False)

    def begin(self) -> None:
        """Takes the terminal."""
        with _undisturbed():
            self._screen.start(refresh=False)

    def say(self, words: str) -> None:
        """Takes words for the last line."""
        self._words = words

    def draw(self) -> Board:
        """Reads what is new, and shows it."""
        while True:
            more = self._follower.poll()
            self._follower.happenings()
            now_ns = time.time_ns()
            board = self._follower.live.board(now_ns, alive=self._own or self._follower.alive())
            with self._lock:
                width, height = self._console.size
                words = f"reading, {count(board.done, 'run')} so far" if more else self._words
                self._screen.update(picture(board, now_ns, width, height, words), refresh=True)
            if not more:
                return board

    def end(self) -> None:
        """Gives the terminal back, and leaves the last picture on it."""
        with self._lock:
            self._screen.stop()
            if not self._follower.begun():
                return  # Refused before it began: the error says all.
            while self._follower.poll():
                pass
            now_ns = time.time_ns()
            board = self._follower.live.board(now_ns, alive=self._follower.alive())
            self._console.print(picture(board, now_ns, self._console.width, None))

    def suspend(self, *_: object) -> None:
        """Ctrl-Z: the shell gets its own page back until we go on."""
        with self._lock:
            self._screen.stop()
            os.kill(os.getpid(), signal.SIGSTOP)
            self._screen = self._new()
            self.begin()


@contextlib.contextmanager
def _drawing(console: Console, follower: StudyFollower, hint: str, *, own: bool) -> Iterator[_Drawing]:
    """`own`: this process runs the study, so it runs, whatever its lock says before it is taken."""
    drawing = _Drawing(console, follower, hint, own=own)
    before = signal.signal(signal.SIGTSTP, drawing.suspend)
    try:
        drawing.begin()
        yield drawing
    finally:
        signal.signal(signal.SIGTSTP, before)
        # A terminal that has gone cannot be given back.
        with contextlib.suppress(OSError):
            drawing.end()


class _Lines:
    """A line for each thing that happens."""

    def __init__(self, follower: StudyFollower, wanted: Callable[[Happening], bool], file: TextIO) -> None:
        self._follower = follower
        self._wanted = wanted
        self._file = file
        self._lock = threading.Lock()

    def draw(self) -> Board:
        """Reads what is new, and says it."""
        with self._lock:
            while self._follower.poll():
                self._say()
            self._say()
            return self._follower.live.board(time.time_ns(), alive=self._follower.alive())

    def skip(self) -> None:
        """What is there already is not said."""
        while self._follower.poll():
            pass
        self._follower.happenings()

    def say(self, words: str) -> None:
        """Says what happened until now, then these words."""
        self.draw()
        typer.echo(cleaned(words), file=self._file)

    def _say(self) -> None:
        for happening in self._follower.happenings():
            if self._wanted(happening):
                typer.echo(line(happening), file=self._file)


@contextlib.contextmanager
def view_of_own(output: Path) -> Iterator[Callable[[str], None]]:
    """The view of a study that this process runs, on standard error; what is yielded takes what the runner
    says.
    """
    console = Console(stderr=True)
    with contextlib.ExitStack() as stack:
        if is_screen(console):
            hint = "Ctrl-C ends the study in order; the same command goes on"
            drawing = stack.enter_context(_drawing(console, StudyFollower(output), hint, own=True))
            draw, say = drawing.draw, drawing.say
        else:
            lines = _Lines(StudyFollower(output, samples=False), _runner_is_silent, sys.stderr)
            lines.skip()
            draw, say = lines.draw, lines.say
        stack.enter_context(_repeated(draw))
        yield say


def _runner_is_silent(happening: Happening) -> bool:
    """Whether the runner does not say it itself, with more in it."""
    return happening.kind == "run.started" or not happening.kind.startswith(("run.", "ssh.", "study."))


@contextlib.contextmanager
def _repeated(draw: Callable[[], Board]) -> Iterator[None]:
    over = threading.Event()

    def loop() -> None:
        # Whoever closes the terminal wants the study to end in order, and not by an error of ours.
        with contextlib.suppress(OSError):
            while not over.is_set():
                draw()
                over.wait(PERIOD_S)

    thread = threading.Thread(target=loop, name="view", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def watch(output: Path) -> Board:
    """Shows a study on standard output until it runs no longer; gives the last board. Raises
    `FathometerError` where there is no study.
    """
    follower = follow(output)
    console = Console(highlight=False)
    with contextlib.ExitStack() as stack:
        if is_screen(console) and follower.running():
            drawing = stack.enter_context(
                _drawing(console, follower, "Ctrl-C ends the view; the study goes on", own=False)
            )
            return _until_over(drawing.draw)
        # Of a study that is over a terminal is told the last few things, and a file or a program all.
        watching = is_screen(console)
        board = _until_over(_Lines(follower, lambda _: not watching, sys.stdout).draw)
        console.print(picture(board, time.time_ns(), console.width, None, happenings=6 if watching else 0))
        return board


def _until_over(draw: Callable[[], Board]) -> Board:
    while (board := draw()).state == "running":
        time.sleep(PERIOD_S)
    return board


@contextlib.contextmanager
def left_by_signal() -> Iterator[None]:
    """Ctrl-C, SIGTERM and a closed terminal end a view quietly: it is not the study."""

    def leave(*_: object) -> None:
        raise KeyboardInterrupt

    before = {sign: signal.signal(sign, leave) for sign in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)
