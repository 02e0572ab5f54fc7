"""What the figures of recordings may not be taken for: said at the top of whatever shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fathometer.counts import count
from fathometer.dataset.recording import Recording

_MEANT: Final = {
    "emulated": ("Emulated", "measured on a network that `fathom fabric` made on one machine"),
    "simulated": ("Simulated, not measured", "made in virtual time; nothing went over any network"),
    "quick": ("Quick", "cut short to see that it runs; too short for its figures to count"),
}


def marks_of(recordings: Sequence[Recording]) -> dict[str, list[str]]:
    """Each mark, with the ids of the recordings that bear it."""
    every: dict[str, list[str]] = {}
    for recording in recordings:
        for mark in recording.manifest.marks:
            every.setdefault(mark, []).append(recording.manifest.id)
    return every


def told(recordings: Sequence[Recording]) -> tuple[str, ...]:
    """A sentence a mark, which says how many of the recordings bear it where not all do."""
    return tuple(_sentence(mark, len(ids), len(recordings)) for mark, ids in marks_of(recordings).items())


def _sentence(mark: str, number: int, of: int) -> str:
    head, meant = _MEANT.get(mark, ("Marked", mark))
    share = "" if number == of else f" ({number} of {count(of, 'recording')})"
    return f"{head}{share}: {meant}."
