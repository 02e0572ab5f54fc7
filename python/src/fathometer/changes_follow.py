"""``fathometer changes --follow``: reports the changes of growing recordings once they are confirmed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from fathometer.dataset.follow import NONE, NewSamples, RecordingFollower
from fathometer.dataset.manifest import read_manifest
from fathometer.dataset.model import Manifest
from fathometer.dataset.recording import recordings_in
from fathometer.dataset.runs import beside, runs
from fathometer.errors import FathometerError
from fathometer.stats.changes import Change, OnlineDetector

LOOK_EVERY_S: Final = 1.0
"""The recorder writes once a second; looking more often shows nothing more."""
ENDED: Final = "recording.ended"
ROTATED: Final = "recording.rotated"


def refuse_applications(manifest: Manifest, operation: str) -> None:
    """Raises `FathometerError` where a recording's rows are no round trips of a path."""
    if manifest.is_client:
        what = f"{manifest.label} is of an application under a policy, whose tries are no samples of a path"
        raise FathometerError(operation, what, "`fathom report` says what became of its requests")


@dataclass(slots=True)
class Followed:
    """A run that is followed from one recording into the next."""

    directory: Path
    manifest: Manifest
    over: bool = False
    _recording: RecordingFollower = field(default_factory=RecordingFollower)
    _detector: OnlineDetector = field(default_factory=OnlineDetector)
    _ended: bool = False
    _next: str | None = None
    """The id of the recording in which the run goes on."""

    def look(self) -> tuple[list[Change], bool]:
        """Newly confirmed changes, and whether more can be read at once."""
        growth = self._recording.poll(self.directory)
        for event in growth.events:
            self._ended = self._ended or event.kind == ENDED
            if event.kind == ROTATED and event.known:
                self._next = str(event.fields["next"])
        changes = list(_push(self._detector, growth.samples))
        if growth.more:
            return changes, True
        # The last samples are on disk before the event that ends the recording, but were perhaps not yet when
        # this look passed them: one more after it.
        if self._ended and not len(growth.samples.sent_ns):
            return changes, self._go_on()
        return changes, self._ended

    def _go_on(self) -> bool:
        """Continues in the next recording, which began before this one ended; False: the run is over."""
        following = self._next and beside(self.directory, self._next)
        if not following:
            self.over = True
            return False
        self.directory, self._recording = following, RecordingFollower()
        self._ended, self._next = False, None
        return True


def followed(place: Path) -> list[Followed]:
    """The newest run of each path in a directory. Raises `FathometerError`."""
    begun = [Followed(Path(str(one)), read_manifest(one)) for one in recordings_in(place)]
    newest: dict[str, Followed] = {}
    # The first existing recording of a run; a later run takes its place.
    for first, *_ in runs(begun):
        newest[first.manifest.label] = first
    for one in newest.values():
        refuse_applications(one.manifest, "follow changes")
        if one.manifest.mixed:
            raise FathometerError(
                "follow changes",
                f"{one.directory} gets samples that are never pooled (several sizes, silences, or a load)",
                "`fathom report` tells the changes of each, while it grows, too",
            )
    return list(newest.values())


def follow(
    every: list[Followed], wait: Callable[[], None] = lambda: time.sleep(LOOK_EVERY_S)
) -> Iterator[tuple[Followed, Change]]:
    """Yields each change once, some samples after it happened; ends when the runs do. `wait` is called when
    there is nothing new to read. Samples of all connections form one series, in order of sending as far as
    one look shows it.
    """
    while running := [one for one in every if not one.over]:
        more = False
        for one in running:
            changes, at_once = one.look()
            more = more or at_once or one.over
            yield from ((one, change) for change in changes)
        if not more:
            wait()


def _push(detector: OnlineDetector, samples: NewSamples) -> Iterator[Change]:
    for at in np.argsort(samples.sent_ns, kind="stable"):
        if samples.warm_up[at]:
            continue
        rtt = int(samples.rtt_ns[at])
        change = detector.push(None if rtt == NONE else float(rtt), int(samples.sent_ns[at]))
        if change is not None:
            yield change
