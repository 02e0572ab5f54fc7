"""Reads a study's output directory as it grows, and tells the model; each byte once."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any, Final

from fathometer.dataset.follow import RecordingFollower, Tail
from fathometer.errors import FathometerError
from fathometer.reading import parsed
from fathometer.study.journal import JOURNAL
from fathometer.study.live.happenings import Happening
from fathometer.study.live.model import LiveStudy
from fathometer.study.lock import is_held

_ENTRIES: Final = 64
"""Entries after which one look ends, so that who looks at a long study for the first time can say how far it
is."""
_RUN_ENDS: Final = frozenset({"run.finished", "run.failed"})
_LEAVE_RUNS: Final = frozenset({"study.resumed", "study.ended"})


class StudyFollower:
    """Follows one study. It reads, and changes nothing.

    A run that failed and was tried again before we looked is not looked for: its recording has another name.
    """

    def __init__(self, output: Path, *, samples: bool = True) -> None:
        """Of the study whose `--output` this is; without `samples` for who wants happenings alone."""
        self.live = LiveStudy()
        self._output = output
        self._unfinished = output.with_name(output.name + ".unfinished")
        self._samples = samples
        self._journal = Tail()
        self._entries: deque[dict[str, Any]] = deque()
        self._runs: dict[str, RecordingFollower] = {}
        self._told: list[Happening] = []

    def begun(self) -> bool:
        """Whether there is a study."""
        return (self._output / JOURNAL).is_file()

    def alive(self) -> bool:
        """Whether a runner holds the study's lock, which is asked about and not taken."""
        return is_held(self._output)

    def running(self) -> bool:
        """Whether the study goes on, as far as it is read."""
        return self.live.board(0, alive=self.alive()).state == "running"

    def happenings(self) -> list[Happening]:
        """What was told since the last call, in the order of reading."""
        news, self._told = self._told, []
        return news

    def poll(self) -> bool:
        """Reads what is new; True: there is more, to be read at once."""
        for line in self._journal.lines(self._output / JOURNAL):
            entry = _entry(line)
            if entry is not None:
                self._entries.append(entry)
        for _ in range(_ENTRIES):
            if not self._entries:
                break
            # What a run left is told before its end, whose entry decides what becomes of it.
            run = self._entries[0].get("run")
            if self._entries[0].get("kind") in _RUN_ENDS and run in self._runs and self._read(run):
                return True
            self._take(self._entries.popleft())
        more = [self._read(run) for run in self._runs]
        return any(more) or bool(self._entries)

    def _take(self, entry: dict[str, Any]) -> None:
        kind, run = entry.get("kind"), str(entry.get("run"))
        if kind == "study.started":
            # A new study where another was: nothing of that one counts.
            self.live, self._runs = LiveStudy(), {}
        elif kind == "run.started":
            self._runs[run] = RecordingFollower(samples=self._samples)
        elif kind in _RUN_ENDS:
            self._runs.pop(run, None)
        elif kind in _LEAVE_RUNS:
            self._runs.clear()
        happening = self.live.journal(entry)
        if happening:
            self._told.append(happening)

    def _read(self, run: str) -> bool:
        """Reads on in a run's recording, wherever it is now; True: there is more."""
        directory = self._unfinished / run
        if not directory.is_dir():
            directory = self._output / run
        growth = self._runs[run].poll(directory)
        self._told += self.live.grown(run, growth)
        return growth.more


def _entry(line: bytes) -> dict[str, Any] | None:
    try:
        entry = parsed(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) else None


def follow(output: Path, *, samples: bool = True) -> StudyFollower:
    """Begins to follow the study in a directory; raises `FathometerError` where there is none."""
    follower = StudyFollower(output, samples=samples)
    if not follower.begun():
        raise FathometerError("watch a study", f"{output} holds no study", "name the --output of a study")
    return follower
