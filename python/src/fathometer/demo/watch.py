"""What is going on while the demo measures: how far it is, and what the network does, from its own log."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final

from rich.console import Console
from rich.status import Status

TOLD: Final = {
    ("event.began", "live-migration brownout"): "the database's machine begins to move: its memory is copied",
    ("event.began", "live-migration freeze"): "it stands still",
    (
        "event.ended",
        "live-migration freeze",
    ): "it runs again, elsewhere; connections from before take a detour",
    (
        "event.ended",
        "live-migration redirect",
    ): "the detour ends: what still takes it is dropped without a word",
}
"""Lines of the network's log, and what they mean."""
LOOK_S: Final = 0.5
LINE_S: Final = 15.0
"""From one line to the next where nobody watches a terminal."""


class Watch:
    """Talks on standard error until it is left: a moving line on a terminal, plain lines elsewhere.

    with Watch(truth, seconds) as watch:
        run_study(..., watch)
    """

    def __init__(self, truth: Path, seconds: float) -> None:
        self._truth = truth
        self._seconds = seconds
        self._console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
        self._status: Status | None = None
        self._began: float | None = None
        self._told = 0.0
        self._read = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> Watch:
        if sys.stderr.isatty():
            self._status = self._console.status("starting")
            self._status.start()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()
        # A terminal that has gone cannot be given back.
        with contextlib.suppress(OSError):
            if self._status:
                self._status.stop()

    def __call__(self, line: str) -> None:
        """A line of the study's progress."""
        if line.endswith("reflectors listen"):
            self._began = time.monotonic()
        self._console.print(f"  {line}")

    def _follow(self) -> None:
        # Whoever closes the terminal wants no error of ours.
        with contextlib.suppress(OSError):
            while not self._done.wait(LOOK_S):
                for sentence in self._happened():
                    self._console.print(f"  {self._second():.0f} s: {sentence}")
                self._tell()

    def _second(self) -> float:
        return 0.0 if self._began is None else min(time.monotonic() - self._began, self._seconds)

    def _tell(self) -> None:
        if self._began is None:
            return
        line = f"measuring: {self._second():.0f} of {self._seconds:.0f} s"
        if self._status:
            self._status.update(line)
        elif time.monotonic() - max(self._told, self._began) > LINE_S:
            self._told = time.monotonic()
            self._console.print(f"  {line}")

    def _happened(self) -> Iterator[str]:
        for path in sorted(self._truth.glob("*/truth.jsonl")):
            with path.open("rb") as log:
                log.seek(self._read)
                for line in log:
                    if not line.endswith(b"\n"):
                        break  # It is being written.
                    self._read += len(line)
                    entry = json.loads(line)
                    sentence = TOLD.get((entry.get("kind"), entry.get("event")))
                    if sentence:
                        yield sentence
