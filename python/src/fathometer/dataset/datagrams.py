"""The datagrams of a recording: which way they were lost, and how far the clocks of both ends may differ."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fathometer.dataset.model import Event


@dataclass(frozen=True, slots=True)
class Losses:
    """Datagrams by what became of them: the sums of all ``loss.attributed``. Samples that were never answered
    and are in none of the first three had not been told of when the recording ended.
    """

    forward: int
    """Lost on the way to the reflector, or refused there."""
    backward: int
    """Lost on the way back."""
    unknown: int
    """Nobody can say where."""
    duplicates: int
    """Echoes that came again."""
    reordered: int
    """Echoes that came after that of a sample sent later (RFC 4737)."""

    @property
    def lost(self) -> int:
        """Of which it is told that they were lost."""
        return self.forward + self.backward + self.unknown


def losses(events: Iterable[Event]) -> Losses | None:
    """None: the recording tells of none."""
    names = ("forward", "backward", "unknown", "duplicates", "reordered")
    attributions = [e.fields for e in events if e.kind == "loss.attributed"]
    every = [[f.get(name) for name in names] for f in attributions]
    counts = [row for row in every if all(isinstance(n, int) and n >= 0 for n in row)]
    return Losses(*(sum(column) for column in zip(*counts, strict=True))) if counts else None


def clock_error_ns(events: Iterable[Event]) -> int | None:
    """How far ``forward_ns`` and ``backward_ns`` may be from the truth, the largest bound that was told (RFC
    8762: both ends' Error Estimates); None: nobody bounds it, and one-way delays mean nothing.
    """
    bounds = [e.fields.get("error_ns") for e in events if e.kind == "clock.bounded"]
    return max((n for n in bounds if isinstance(n, int) and n >= 0), default=None)
