"""``fathometer changes --follow``: changes of a recording that grows, told as they are confirmed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import numpy as np

from fathometer.dataset.follow import NONE, NewSamples, RecordingFollower
from fathometer.dataset.manifest import read_manifest
from fathometer.dataset.model import Manifest
from fathometer.errors import FathometerError
from fathometer.stats.changes import Change, OnlineDetector

LOOK_EVERY_S: Final = 1.0
"""The recorder writes once a second; looking more often shows nothing more."""
ENDED: Final = "recording.ended"


def refuse_applications(manifest: Manifest, operation: str) -> None:
    """Raises `FathometerError` where a recording's rows are no round trips of a path."""
    if manifest.is_client:
        what = f"{manifest.label} is of an application under a policy, whose tries are no samples of a path"
        raise FathometerError(operation, what, "`fathom report` says what became of its requests")


def follow(directory: Path, wait: Callable[[], None] = lambda: time.sleep(LOOK_EVERY_S)) -> Iterator[Change]:
    """Each change once, some samples after it happened; ends when the recording does.

    `wait` is called where nothing new is to be read. Samples of all connections are one series, in the order
    of sending as far as they are there at one look.
    """
    # Says what is wrong where this is no recording; the follower would wait for one.
    manifest = read_manifest(directory)
    refuse_applications(manifest, "follow changes")
    if manifest.mixed:
        raise FathometerError(
            "follow changes",
            f"{directory} gets samples that are never pooled (several sizes, silences, or a load)",
            "`fathom report` tells the changes of each, while it grows, too",
        )
    follower, detector = RecordingFollower(), OnlineDetector()
    ended = False
    while True:
        growth = follower.poll(directory)
        ended = ended or any(event.kind == ENDED for event in growth.events)
        yield from _push(detector, growth.samples)
        if growth.more:
            continue
        # The last samples are on disk before the event that ends the recording, but were perhaps not yet when
        # this look passed them: one more after it.
        if ended and not len(growth.samples.sent_ns):
            return
        if not ended:
            wait()


def _push(detector: OnlineDetector, samples: NewSamples) -> Iterator[Change]:
    for at in np.argsort(samples.sent_ns, kind="stable"):
        if samples.warm_up[at]:
            continue
        rtt = int(samples.rtt_ns[at])
        change = detector.push(None if rtt == NONE else float(rtt), int(samples.sent_ns[at]))
        if change is not None:
            yield change
