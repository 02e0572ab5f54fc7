"""What time it is on an axis."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import tzinfo

from fathometer.dataset.regroup import Envelope
from fathometer.findings.words import offset_ns, zone_name
from fathometer.report.vega import Spec

CLOCK = {
    "milliseconds": "%H:%M:%S.%L",
    "seconds": "%H:%M:%S",
    "minutes": "%H:%M",
    "hours": "%H:%M",
    "day": "%a %d %b",
    "date": "%d %b",
    "week": "%d %b",
    "month": "%b %Y",
    "quarter": "%b %Y",
    "year": "%Y",
}
"""How times stand on an axis, by what a tick falls on; in 24 hours."""
_DAY_NS = 86_400_000_000_000
_QUARTER_NS = 900_000_000_000


@dataclass(frozen=True, slots=True)
class Clock:
    """What time it is on an axis. Vega knows UTC only: times are moved by the zone's offset where the series
    begins, so that ticks fall on its hours and days, and labels after a change of the clocks put it right.
    """

    name: str
    offset_ns: int = 0
    changes: tuple[tuple[int, int], ...] = ()
    """When clocks changed within the series, and by how much they differ from `offset_ns` since then, ns."""

    @classmethod
    def of(cls, zone: tzinfo, series: Envelope) -> Clock:
        """The clock of a zone during a series."""
        if not len(series.start_ns):
            return cls(zone_name(zone))
        return cls.over(zone, int(series.start_ns[0]), int(series.start_ns[-1]) + series.width_ns)

    @classmethod
    def over(cls, zone: tzinfo, began_ns: int, ended_ns: int) -> Clock:
        """The clock of a zone from one moment to another."""
        offset = offset_ns(zone, began_ns)
        changes: list[tuple[int, int]] = []
        last = offset
        for day in range(began_ns, ended_ns, _DAY_NS):
            until = min(day + _DAY_NS, ended_ns)
            if offset_ns(zone, until) == last:
                continue
            # Clocks change on whole quarters of an hour.
            quarters = range(day // _QUARTER_NS + 1, until // _QUARTER_NS + 1)
            changed = next(q * _QUARTER_NS for q in quarters if offset_ns(zone, q * _QUARTER_NS) != last)
            last = offset_ns(zone, until)
            changes.append((changed, last - offset))
        return cls(zone_name(zone), offset, tuple(changes))

    def ms(self, at_ns: int) -> float:
        """Where a moment stands on the axis."""
        return round((at_ns + self.offset_ns) / 1e6, 3)

    def axis(self) -> Spec:
        """The labels, and the zone as the title."""
        title: Spec = {"title": self.name}
        if not self.changes:
            return title | {"format": CLOCK}
        moved = "toNumber(datum.value)"
        for at, by in self.changes:
            moved = f"(toNumber(datum.value) < {self.ms(at)} ? {moved} : toNumber(datum.value) + {by / 1e6})"
        # The later a change, the sooner it is looked at.
        return title | {"labelExpr": f"utcFormat({moved}, {json.dumps(CLOCK)})"}
