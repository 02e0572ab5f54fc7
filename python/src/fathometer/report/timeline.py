"""Figures over time: a recording with its events, and the week of a scenario."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fathometer.dataset.regroup import Envelope
from fathometer.findings.model import Scenario
from fathometer.report.axes import round_trips
from fathometer.report.clock import Clock
from fathometer.report.vega import BLUE, FULL, INK, NARROW, RED, WIDE, Spec, base, microseconds

MOST_MARKS = 100
"""Incidents in one picture."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One incident, on the charts of its paths."""

    number: int
    """That it has in the report."""
    from_ns: int
    to_ns: int
    paths: tuple[str, ...]
    text: str
    waited: bool = False
    """Whether samples waited through it: they are as long as it was, and say nothing of the path."""


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
    times: dict[str, Any] = {
        "start": clock.ms(int(envelope.start_ns[0]) + envelope.width_ns // 2),
        "width": envelope.width_ns / 1e6,
    }
    steps = (envelope.start_ns - envelope.start_ns[0]) // envelope.width_ns
    if int(steps[-1]) != len(steps) - 1:
        times["k"] = steps.tolist()
    return times


def _rounded(ns: NDArray[np.float64]) -> list[float | None]:
    return [None if math.isnan(v) else _short(v / 1e3) for v in ns.tolist()]


def _short(value: float) -> float:
    """Four significant digits are a tenth of a pixel; whole numbers without `.0`."""
    short = float(f"{value:.4g}")
    return int(short) if short == int(short) else short


def over_time(
    envelope: Envelope, marks: Sequence[Mark], clock: Clock, width: int = FULL, *, zoom: bool = False
) -> Spec | None:
    """A recording over time: the band from the smallest to the largest of each bin, the median, the p99 where
    it is supported, and incidents with their numbers. `zoom`: for a chart that gets its `columns` as the data
    `bins` and `lines`.
    """
    if not len(envelope.start_ns):
        return None
    spec = base(width, 300 if zoom else 240, [])
    lines: Spec = {}
    if zoom:
        lines = {"data": {"name": "lines"}}
        spec["data"] = {"name": "bins"}
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
    y = round_trips([*envelope.min_ns / 1e3, *envelope.max_ns / 1e3])
    spec["layer"] = [
        *_marks(marks[:MOST_MARKS], x, clock),
        _band(x, y, zoom=zoom),
        lines
        | {
            "mark": {"type": "line", "strokeWidth": 1.6, "color": BLUE, "clip": True},
            "encoding": {"x": x, "y": {"field": "p50", **y}},
        },
    ]
    if not np.isnan(envelope.p99_ns).all():
        spec["layer"].append(
            lines
            | {
                "transform": [{"filter": "isValid(datum.p99)"}],
                "mark": {"type": "line", "strokeWidth": 0.8, "color": RED, "clip": True},
                "encoding": {"x": x, "y": {"field": "p99", **y}},
            }
        )
    if zoom:
        spec["layer"].append(lines | _hover(x))
    return spec


def _band(x: Spec, y: Spec, *, zoom: bool) -> Spec:
    band: Spec = {
        # Its outline shows a spike that is narrower than a pixel.
        "mark": {
            "type": "area",
            "fillOpacity": 0.25,
            "stroke": BLUE,
            "strokeWidth": 0.7,
            "strokeOpacity": 0.4,
            "color": BLUE,
            "clip": True,
            "interpolate": "step",
        },
        "encoding": {"x": x, "y": {"field": "low", **y}, "y2": {"field": "high"}},
    }
    if zoom:
        band["params"] = [
            {"name": "zoom", "select": {"type": "interval", "encodings": ["x"]}, "bind": "scales"}
        ]
    return band


def _hover(x: Spec) -> Spec:
    """Unseen lines, of which the one under the pointer tells its figures."""
    values: list[Spec] = [{"field": "t", "type": "temporal", "title": "time", "format": "%d %b %H:%M:%S"}]
    values += [{"field": name, "title": name.removesuffix("_text")} for name in ("p50_text", "p99_text")]
    texts = [
        {"calculate": f"isValid(datum.{n}) ? {_IN_WORDS.format(n)} : '–'", "as": f"{n}_text"}
        for n in ("p50", "p99")
    ]
    return {
        "transform": texts,
        "mark": {"type": "rule", "strokeWidth": 6, "color": "transparent", "clip": True},
        "encoding": {"x": x, "tooltip": values},
    }


_IN_WORDS = (
    "(datum.{0} >= 1e6 ? format(datum.{0} / 1e6, '.3~r') + ' s' : datum.{0} >= 1e3 ? "
    "format(datum.{0} / 1e3, '.3~r') + ' ms' : format(datum.{0}, '.3~r') + ' µs')"
)
"""A duration, to three digits."""


def _marks(marks: Sequence[Mark], x: Spec, clock: Clock) -> list[Spec]:
    if not marks:
        return []
    values = [
        {
            "t": clock.ms(m.from_ns),
            "u": clock.ms(max(m.to_ns, m.from_ns)),
            "number": str(m.number),
            "s": m.text,
        }
        for m in marks
    ]
    data: Spec = {"data": {"values": values}}
    tip: Spec = {"tooltip": {"field": "s"}}
    return [
        data
        | {
            "mark": {"type": "rect", "color": RED, "opacity": 0.14, "clip": True},
            "encoding": {"x": x, "x2": {"field": "u"}} | tip,
        },
        data
        | {
            "mark": {"type": "rule", "color": RED, "strokeWidth": 1.2, "clip": True},
            "encoding": {"x": x} | tip,
        },
        data
        | {
            "mark": {
                "type": "text",
                "align": "left",
                "baseline": "top",
                "dx": 3,
                "dy": 2,
                "fontWeight": "bold",
                "color": INK,
                "clip": True,
            },
            "encoding": {"x": x, "y": {"value": 0}, "text": {"field": "number"}} | tip,
        },
    ]


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
