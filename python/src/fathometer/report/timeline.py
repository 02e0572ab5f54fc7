"""Figures over time: a recording with its events, and the week of a scenario."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fathometer.dataset.regroup import Envelope
from fathometer.findings.finding import Finding
from fathometer.findings.model import Scenario
from fathometer.findings.render import statement
from fathometer.findings.words import offset_ns, zone_name
from fathometer.report.charts import COLOURS, NARROW, WIDE, Spec, base, microseconds, rtt_axis

EVENT_COLOURS = {
    "stall": "#E69F00",
    "death": "#D55E00",
    "change": "#0072B2",
    "pause": "#7F7F7F",
    "maintenance": "#CC79A7",
    "coincidence": "#D55E00",
    "migration": "#009E73",
}
EVENT_DASHES = {
    "stall": [1, 0],
    "death": [1, 0],
    "change": [6, 3],
    "pause": [2, 3],
    "maintenance": [8, 2, 2, 2],
    "coincidence": [4, 2],
    "migration": [10, 3],
}
"""Besides colour, so that it is not needed."""
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
MOST_EVENTS = 100
"""Lines in one picture: those of most weight."""


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
        at, end = int(series.start_ns[0]), int(series.start_ns[-1]) + series.width_ns
        offset = offset_ns(zone, at)
        found: list[tuple[int, int]] = []
        last = offset
        for day in range(at, end, _DAY_NS):
            until = min(day + _DAY_NS, end)
            if offset_ns(zone, until) == last:
                continue
            # Clocks change on whole quarters of an hour.
            quarters = range(day // _QUARTER_NS + 1, until // _QUARTER_NS + 1)
            changed = next(q * _QUARTER_NS for q in quarters if offset_ns(zone, q * _QUARTER_NS) != last)
            last = offset_ns(zone, until)
            found.append((changed, last - offset))
        return cls(zone_name(zone), offset, tuple(found))

    def ms(self, at_ns: int) -> float:
        """Where a moment stands on the axis."""
        return round((at_ns + self.offset_ns) / 1e6, 3)

    def axis(self) -> Spec:
        """The labels, and the zone as the title."""
        made: Spec = {"title": self.name}
        if not self.changes:
            return made | {"format": CLOCK}
        moved = "toNumber(datum.value)"
        for at, by in self.changes:
            moved = f"(toNumber(datum.value) < {self.ms(at)} ? {moved} : toNumber(datum.value) + {by / 1e6})"
        # The later a change, the sooner it is looked at.
        return made | {"labelExpr": f"utcFormat({moved}, {json.dumps(CLOCK)})"}


def columns(fine: Envelope, coarse: Envelope, clock: Clock) -> dict[str, Any]:
    """The data of a zooming chart: the band in the finest bins (`bins`), median and p99 in bins that hold
    enough samples for them (`lines`). Columns are a third of the size of rows; null: not known.

    The middle of each bin, in ms as `Clock.ms` has them, is `start` and steps of `width`, of which it is the
    `k`th; without `k` no bin is missing.
    """
    lines = _times(coarse, clock) | {"p50": _rounded(coarse.p50_ns)}
    if not np.isnan(coarse.p99_ns).all():
        lines["p99"] = _rounded(coarse.p99_ns)
    band = _times(fine, clock) | {"low": _rounded(fine.min_ns), "high": _rounded(fine.max_ns)}
    return {"bins": band, "lines": lines}


def _times(envelope: Envelope, clock: Clock) -> dict[str, Any]:
    made: dict[str, Any] = {
        "start": clock.ms(int(envelope.start_ns[0]) + envelope.width_ns // 2),
        "width": envelope.width_ns / 1e6,
    }
    steps = (envelope.start_ns - envelope.start_ns[0]) // envelope.width_ns
    if int(steps[-1]) != len(steps) - 1:
        made["k"] = steps.tolist()
    return made


def _rounded(ns: NDArray[np.float64]) -> list[float | None]:
    return [None if math.isnan(v) else _short(v / 1e3) for v in ns.tolist()]


def _short(value: float) -> float:
    """Four significant digits are a tenth of a pixel; whole numbers without `.0`."""
    short = float(f"{value:.4g}")
    return int(short) if short == int(short) else short


def over_time(
    envelope: Envelope, events: Sequence[Finding], clock: Clock, width: int = WIDE, *, zoom: bool = False
) -> Spec | None:
    """A recording over time: the band from the smallest to the largest of each bin, the median, the p99 where
    it is supported, and events as lines. `zoom`: for a chart that gets its `columns` as the data `bins`.
    """
    if not len(envelope.start_ns):
        return None
    # A recording cannot show more lines than this; those of most weight come first.
    told = [e for e in events if e.from_ns is not None and e.kind in EVENT_COLOURS][:MOST_EVENTS]
    kinds = sorted({e.kind for e in told})
    spec = base(width, 240, [], kinds)
    lines: Spec = {}
    if zoom:
        lines = {"data": {"name": "lines"}}
        spec["data"] = {"name": "bins"}
        spec["autosize"] = {"type": "fit", "contains": "padding"}
        spec["height"] = 300
    else:
        spec["data"] = {"values": _rows(envelope, clock)}
    spec["padding"] = {"left": 4, "top": 4, "bottom": 4, "right": 14}
    x: Spec = {
        "field": "t",
        "type": "temporal",
        "scale": {"type": "utc"},
        "axis": {
            "labelOverlap": "greedy",
            "labelFlush": True,
            "tickCount": 8 if width > NARROW else 4,
            **clock.axis(),
        },
    }
    y = rtt_axis()
    band: Spec = {
        # Its outline shows a spike that is narrower than a pixel.
        "mark": {
            "type": "area",
            "fillOpacity": 0.25,
            "stroke": COLOURS[0],
            "strokeWidth": 0.7,
            "strokeOpacity": 0.4,
            "color": COLOURS[0],
            "clip": True,
            "interpolate": "step",
        },
        "encoding": {"x": x, "y": {"field": "low", **y}, "y2": {"field": "high"}},
    }
    if zoom:
        band["params"] = [
            {"name": "zoom", "select": {"type": "interval", "encodings": ["x"]}, "bind": "scales"}
        ]
    layers: list[Spec] = [
        band,
        lines
        | {
            "mark": {"type": "line", "strokeWidth": 1.6, "color": COLOURS[0], "clip": True},
            "encoding": {"x": x, "y": {"field": "p50", **y}},
        },
    ]
    if not np.isnan(envelope.p99_ns).all():
        layers.append(
            lines
            | {
                "transform": [{"filter": "isValid(datum.p99)"}],
                "mark": {"type": "line", "strokeWidth": 0.8, "color": COLOURS[3], "clip": True},
                "encoding": {"x": x, "y": {"field": "p99", **y}},
            }
        )
    if told:
        colour = {"domain": kinds, "range": [EVENT_COLOURS[k] for k in kinds]}
        dash = {"domain": kinds, "range": [EVENT_DASHES[k] for k in kinds]}
        common = {"field": "kind", "type": "nominal", "title": None}
        layers.append(
            {
                "data": {
                    "values": [
                        {"t": clock.ms(e.from_ns or 0), "kind": e.kind, "s": statement(e)} for e in told
                    ]
                },
                "mark": {"type": "rule", "strokeWidth": 1.5, "opacity": 0.9, "clip": True},
                "encoding": {
                    "x": x,
                    "color": {**common, "scale": colour},
                    "strokeDash": {**common, "scale": dash},
                    "tooltip": [{"field": "s"}],
                },
            }
        )
    spec["layer"] = layers
    return spec


def _rows(envelope: Envelope, clock: Clock) -> list[dict[str, Any]]:
    rows = []
    middle = envelope.width_ns // 2
    for i in range(len(envelope.start_ns)):
        row: dict[str, Any] = {"t": clock.ms(int(envelope.start_ns[i]) + middle)}
        if envelope.answered[i]:
            row |= {
                "low": microseconds(envelope.min_ns[i]),
                "high": microseconds(envelope.max_ns[i]),
                "p50": microseconds(envelope.p50_ns[i]),
            }
            if not math.isnan(envelope.p99_ns[i]):
                row["p99"] = microseconds(envelope.p99_ns[i])
        rows.append(row)
    return rows


def heat(scenario: Scenario, zone: str, width: int = WIDE) -> Spec | None:
    """Hour by weekday: each cell's median against that of the whole."""
    calendar = scenario.calendar
    if calendar is None:
        return None
    days = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
    rows = [
        {
            "day": days[w],
            "hour": h,
            "us": microseconds(float(calendar.cell[w, h])),
            "hours": int(calendar.hours[w, h]),
        }
        for w in range(7)
        for h in range(24)
        if not math.isnan(calendar.cell[w, h])
    ]
    spec = base(width, 170, rows)
    spec |= {
        "mark": {"type": "rect"},
        "encoding": {
            "x": {
                "field": "hour",
                "type": "ordinal",
                "title": f"hour of the day, {zone}",
                "axis": {"labelAngle": 0, "labelOverlap": "greedy"},
            },
            "y": {"field": "day", "type": "ordinal", "sort": list(days), "title": None},
            "color": {
                "field": "us",
                "type": "quantitative",
                "title": "median, µs",
                "scale": {"scheme": "viridis"},
                "legend": {"orient": "top", "gradientLength": min(width - 20, 300)},
            },
        },
    }
    return spec
