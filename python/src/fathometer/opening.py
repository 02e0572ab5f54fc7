"""Opening what a command is told to read: recordings, rollups and other tools' summaries, wherever they lie.

What cannot be read is told in one line each and left out; the others go on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fathometer import console
from fathometer.dataset.places import Place
from fathometer.dataset.recording import Recording, open_recordings
from fathometer.dataset.summaries import OpenedSummary, open_summaries
from fathometer.errors import FathometerError

_TOLD: Final = 3
"""Damaged parts of a recording that are named; the others are counted."""


@dataclass(frozen=True, slots=True)
class Opened:
    """What could be read, and what could not."""

    recordings: tuple[Recording, ...]
    summaries: tuple[OpenedSummary, ...]
    refused: list[FathometerError]


def open_all(paths: Sequence[str], progress: console.Progress, *, counted: bool = True) -> Opened:
    """Raises `FathometerError` where nothing can be read."""
    refused: list[FathometerError] = []
    recordings: dict[Place, Recording] = {}
    summaries: dict[Place, OpenedSummary] = {}
    for path in paths:
        here = open_summaries([path], on_error=refused.append)
        summaries |= {one.directory.resolve(): one for one in here}
        try:
            opened = open_recordings([path], on_error=refused.append, counted=counted, progress=progress)
            for one in opened:
                recordings.setdefault(one.directory.resolve(), one)
        except FathometerError as error:
            # That there is no recording is no error where there is a summary.
            if not here:
                refused.append(error)
    if not (recordings or summaries):
        raise refused[0]
    for one_refused in refused:
        console.refused(one_refused)
    for recording in recordings.values():
        if recording.broken:
            parts = "; ".join(f"{d.file}: {d.reason}" for d in recording.broken[:_TOLD])
            others = len(recording.broken) - _TOLD
            more = f"; and {others:,} other parts" if others > 0 else ""
            console.say(f"{recording.directory} is damaged, what can be read is used: {parts}{more}")
    return Opened(tuple(recordings.values()), tuple(summaries.values()), refused)
