"""Opening what a command is told to read: recordings, rollups and other tools' summaries, wherever they lie.

What cannot be read is told in one line each and left out; the others go on.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from fathometer import console
from fathometer.counts import count
from fathometer.dataset.copies import Copy, each_once
from fathometer.dataset.places import Place, is_url
from fathometer.dataset.recording import NothingRecordedError, Recording, open_recordings
from fathometer.dataset.summaries import OpenedSummary, open_summaries
from fathometer.errors import FathometerError

_TOLD: Final = 3
"""Damaged parts of a recording, and copies, that are named; the others are counted."""


@dataclass(frozen=True, slots=True)
class Opened:
    """What could be read, and what could not."""

    recordings: tuple[Recording, ...]
    summaries: tuple[OpenedSummary, ...]
    refused: list[FathometerError]

    @property
    def whole(self) -> bool:
        """Whether everything could be read; of what could not, standard error has a line."""
        return not self.refused and not any(one.broken for one in self.recordings)


def open_all(paths: Sequence[str], progress: console.Progress, *, counted: bool = True) -> Opened:
    """Raises `FathometerError` where nothing can be read."""
    refused: list[FathometerError] = []
    begun: list[NothingRecordedError] = []
    recordings: list[Recording] = []
    summaries: dict[Place, OpenedSummary] = {}
    for path in _each_path_once(paths):
        here = open_summaries([path], on_error=refused.append)
        summaries |= {one.directory.resolve(): one for one in here}
        try:
            recordings += open_recordings([path], on_error=refused.append, counted=counted, progress=progress)
        except NothingRecordedError as error:
            begun.append(error)
        except FathometerError as error:
            # That there is no recording is no error where there is a summary.
            if not here:
                refused.append(error)
    if not (recordings or summaries):
        raise (*refused, *begun)[0]
    for nothing in begun:
        console.say(f"left out: {nothing.object}; {nothing.remedy}")
    for one_refused in refused:
        console.refused(one_refused)
    once = once_and_told(recordings)
    for recording in once:
        if recording.broken:
            parts = "; ".join(f"{d.file}: {d.reason}" for d in recording.broken[:_TOLD])
            others = len(recording.broken) - _TOLD
            more = f"; and {count(others, 'other part')}" if others > 0 else ""
            console.say(f"{recording.directory} is damaged, what can be read is used: {parts}{more}")
    return Opened(once, tuple(summaries.values()), refused)


def once_and_told(recordings: Iterable[Recording]) -> tuple[Recording, ...]:
    """Each recording once, whether it was given twice, by a link or as a copy. What is left out is told."""
    once, copies = each_once(recordings)
    for copy in copies[:_TOLD]:
        console.say(_copied(copy))
    if len(copies) > _TOLD:
        others = count(len(copies) - _TOLD, "other recording")
        console.say(f"{others} {'was' if len(copies) == _TOLD + 1 else 'were'} given more than once, too")
    return once


def _copied(copy: Copy) -> str:
    here, there = copy.left_out.directory, copy.kept.directory
    if here.resolve() == there.resolve():
        return f"{there} was given more than once: it counts once"
    return f"{here} is a copy of the recording {there} (id {copy.kept.manifest.id}): it counts once"


def _each_path_once(paths: Sequence[str]) -> list[str]:
    """Paths that differ, links followed: nothing is read twice."""
    kept: dict[str, str] = {}
    for path in paths:
        # Not `Path.resolve`, which raises on links that lead to each other.
        where = path.rstrip("/") if is_url(path) else os.path.realpath(path)
        if where in kept:
            console.say(f"{path} was given more than once: it counts once")
        kept.setdefault(where, path)
    return list(kept.values())
