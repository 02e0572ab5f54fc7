"""Counts over the samples of a recording, by path."""

from __future__ import annotations

from dataclasses import dataclass

from fathometer.dataset.selection import Selection, Silence


@dataclass(frozen=True, slots=True)
class Group:
    """Samples of one size, idle or under load, around one silence, warm-up or not."""

    size: int
    loaded: bool
    silence: int
    """`Silence.code`; 0: around none."""
    warm_up: bool
    samples: int
    answered: int
    late: int
    corrupted: int
    first_sent_ns: int
    last_sent_ns: int


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts over the samples of a recording, warm-up included."""

    groups: tuple[Group, ...]
    connections: int
    """Of the whole recording, also in `part`; 0: not counted."""

    def part(self, selection: Selection) -> Totals:
        """Of the samples of one size, under load or idle, around one silence, as a selection names them; it
        may name nothing else.
        """
        size, loaded = selection.size, selection.under_load
        silence = None if selection.silence is None else selection.silence.code
        return Totals(
            tuple(
                g
                for g in self.groups
                if size in {None, g.size} and loaded in {None, g.loaded} and silence in {None, g.silence}
            ),
            self.connections,
        )

    def after_warm_up(self) -> Totals:
        """Of the samples that figures are made of."""
        return Totals(tuple(g for g in self.groups if not g.warm_up), self.connections)

    @property
    def samples(self) -> int:
        """All that were sent."""
        return sum(g.samples for g in self.groups)

    @property
    def answered(self) -> int:
        """With an intact echo."""
        return sum(g.answered for g in self.groups)

    @property
    def late(self) -> int:
        """Of the answered: after the timeout."""
        return sum(g.late for g in self.groups)

    @property
    def lost(self) -> int:
        """Without an intact echo: `unanswered` and `corrupted`."""
        return self.samples - self.answered

    @property
    def unanswered(self) -> int:
        """No echo came."""
        return self.lost - self.corrupted

    @property
    def corrupted(self) -> int:
        """An echo came, and was not what had been sent."""
        return sum(g.corrupted for g in self.groups)

    @property
    def warm_up(self) -> int:
        """Sent to warm up."""
        return sum(g.samples for g in self.groups if g.warm_up)

    @property
    def under_load(self) -> int:
        """Sent while the path was loaded on purpose."""
        return sum(g.samples for g in self.groups if g.loaded)

    @property
    def first_sent_ns(self) -> int | None:
        """When the first was sent; None: there is none."""
        return min((g.first_sent_ns for g in self.groups), default=None)

    @property
    def last_sent_ns(self) -> int | None:
        """When the last was sent; None: there is none."""
        return max((g.last_sent_ns for g in self.groups), default=None)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Payload bytes each way, ascending."""
        return tuple(sorted({g.size for g in self.groups}))

    @property
    def silences(self) -> tuple[Silence, ...]:
        """What there is around silences, ascending, the first samples after each before the warm ones."""
        silences = {Silence(abs(g.silence), g.silence > 0) for g in self.groups if g.silence}
        return tuple(sorted(silences, key=lambda s: (s.gap_ns, not s.first)))

    @property
    def span_ns(self) -> int:
        """From the first sample sent to the last."""
        return (
            0
            if self.first_sent_ns is None or self.last_sent_ns is None
            else self.last_sent_ns - self.first_sent_ns
        )
