"""All paths over one axis of time, a row each, with the incidents on them: what happened when, and to whom.

A row shows its path's own everyday range: a spike of a thousand times the median would flatten everything
else, so it is cut at the row's top and marked there. Its length stands in the incident, and in the chart of
the path.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fathometer.dataset.regroup import Envelope
from fathometer.report.axes import UNIT_LABEL
from fathometer.report.clock import Clock
from fathometer.report.timeline import Mark
from fathometer.report.vega import BLUE, INK, NARROW, RED, Spec, base, microseconds

ROWS: Final = 24
"""Paths in the picture of a screen; a phone shows `ROWS_NARROW`."""
ROWS_NARROW: Final = 12
HEIGHT: Final = 46
_TALL: Final = 60
"""Of a row where there are no more than `_FEW`."""
_FEW: Final = 3
BINS: Final = 360
"""Of a row, all its recordings together: a third of the pixels that it has."""
ALL_BINS: Final = 12 * BINS
"""Of all rows: of more than twelve each gets fewer, so that the page still has room for its script."""
FULL_BIN: Final = 5
"""Samples that a bin should hold, or its median is as restless as they are."""
_EVERYDAY: Final = 0.97
"""Share of a row's bins that must lie below its top."""
_FAR: Final = 10
"""Times the median of the others, beyond which a bin of an incident does not count for the scale."""
_ROOM: Final = 1.6
"""How far above them the top is."""


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """One path: its recordings, in order of time."""

    name: str
    envelopes: tuple[Envelope, ...]


def overview(rows: Sequence[TimelineRow], marks: Sequence[Mark], clock: Clock, width: int) -> Spec | None:
    """The picture. `rows`: from top to bottom, as many as fit."""
    shown = [r for r in rows if any(len(e.start_ns) for e in r.envelopes)]
    shown = shown[: ROWS if width > NARROW else ROWS_NARROW]
    if not shown:
        return None
    names = [r.name for r in shown]
    height = _TALL if len(shown) <= _FEW else HEIGHT
    values = [v for row in shown for v in _values(row, marks, clock)]
    values += [v for mark in marks for v in _marked(mark, clock, set(names))]
    spec = base(width, height, [])
    size = {name: spec.pop(name) for name in ("width", "height")}
    spec |= {
        "data": {"name": "overview", "values": values},
        "facet": {
            "row": {
                "field": "path",
                "type": "nominal",
                "sort": names,
                "title": None,
                "header": {
                    "labelAngle": 0,
                    "labelAlign": "left",
                    "labelAnchor": "start",
                    "labelOrient": "top",
                    "labelPadding": 2,
                    "labelFontWeight": "bold",
                    "labelLimit": width,
                },
            }
        },
        "spacing": 4,
        "resolve": {"scale": {"y": "independent"}},
        "spec": size | {"layer": list(_layers(clock, width, height))},
    }
    return spec


def _layers(clock: Clock, width: int, height: int) -> Iterator[Spec]:
    x: Spec = {"field": "t", "type": "temporal", "scale": {"type": "utc"}}
    x["axis"] = {
        "labelOverlap": "greedy",
        "labelFlush": True,
        "tickCount": 10 if width > NARROW else 4,
        "grid": False,
        **clock.axis(),
    }
    ends: Spec = {"x": x, "x2": {"field": "u"}}
    tip: Spec = {"tooltip": {"field": "tip"}}
    y: Spec = {
        "type": "quantitative",
        "scale": {"zero": False, "nice": False},
        "axis": {
            "title": None,
            "labelExpr": UNIT_LABEL,
            "tickCount": 3,
            "labelOverlap": True,
            "domain": False,
        },
    }
    yield {
        "transform": [{"filter": "datum.is == 'mark'"}],
        "mark": {"type": "rect", "color": RED, "opacity": 0.16, "clip": True},
        "encoding": ends | tip,
    }
    yield {
        "transform": [{"filter": "datum.is == 'mark'"}],
        "mark": {"type": "rule", "color": RED, "strokeWidth": 1.2, "clip": True},
        "encoding": {"x": x} | tip,
    }
    bins: Spec = {"transform": [{"filter": "datum.is == 'bin'"}]}
    yield bins | {
        # What is picked here is what the charts of the paths show (templates/report.js).
        "params": [{"name": "brush", "select": {"type": "interval", "encodings": ["x"]}}],
        "mark": {"type": "rect", "color": BLUE, "opacity": 0.28, "clip": True},
        "encoding": ends | {"y": {"field": "low", **y}, "y2": {"field": "high"}},
    }
    yield bins | {
        "mark": {
            "type": "line",
            "interpolate": "step-after",
            "color": BLUE,
            "strokeWidth": 1.4,
            "clip": True,
            # Where nothing was answered there is no line.
            "invalid": "break-paths-show-domains",
        },
        "encoding": {"x": x, "y": {"field": "p50", **y}},
    }
    yield bins | {
        "transform": [{"filter": "datum.over"}],
        "mark": {
            "type": "point",
            "shape": "triangle-up",
            "filled": True,
            "size": 22,
            "color": RED,
            "opacity": 1,
        },
        "encoding": {"x": x, "y": {"value": 3}} | tip,
    }
    yield {
        "transform": [{"filter": "datum.lost > 0"}],
        "mark": {"type": "rect", "color": RED, "clip": True},
        "encoding": ends | {"y": {"value": height - 4}, "y2": {"value": height}} | tip,
    }
    yield {
        "transform": [{"filter": "datum.is == 'mark'"}],
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
    }


def top_us(row: TimelineRow, marks: Sequence[Mark] = ()) -> float:
    """Where a row is cut, µs: somewhat above what nearly all its bins reach, not counting those far above the
    others in which samples waited through an incident. A standstill of three seconds may be a fifth of a
    short recording; a level that has moved is seen in full.
    """
    answered = [e.answered > 0 for e in row.envelopes]
    highs, medians = (
        np.concatenate([getattr(e, name)[some] for e, some in zip(row.envelopes, answered, strict=True)])
        / 1e3
        for name in ("max_ns", "p50_ns")
    )
    if not len(highs):
        return math.inf
    waited = np.concatenate(
        [_waited(e, row.name, marks)[s] for e, s in zip(row.envelopes, answered, strict=True)]
    )
    others = highs[~waited] if len(highs[~waited]) else highs
    counted = ~waited | (highs <= _FAR * float(np.median(others)))
    highs, medians = highs[counted], medians[counted]
    return float(max(np.quantile(highs, _EVERYDAY), np.quantile(medians, _EVERYDAY)) * _ROOM)


def _waited(e: Envelope, path: str, marks: Sequence[Mark]) -> NDArray[np.bool_]:
    """Which bins lie in an incident of that path through which samples waited."""
    waited = np.zeros(len(e.start_ns), dtype=np.bool_)
    for m in marks:
        if m.waited and path in m.paths:
            waited |= (e.start_ns + e.width_ns > m.from_ns) & (e.start_ns <= m.to_ns)
    return waited


def _values(row: TimelineRow, marks: Sequence[Mark], clock: Clock) -> Iterator[dict[str, Any]]:
    top = top_us(row, marks)
    for e in row.envelopes:
        for i in range(len(e.start_ns)):
            start = int(e.start_ns[i])
            end = clock.ms(start + e.width_ns)
            value: dict[str, Any] = {
                "is": "bin",
                "path": row.name,
                "t": clock.ms(start),
                "u": end,
                "p50": None,
            }
            if e.unanswered[i]:
                value["lost"] = int(e.unanswered[i])
            if e.answered[i]:
                high = microseconds(e.max_ns[i])
                value |= {"low": min(microseconds(e.min_ns[i]), top), "high": min(high, top)}
                value["p50"] = min(microseconds(e.p50_ns[i]), top)
                if high > top:
                    value["over"] = True
            yield value
            if i + 1 == len(e.start_ns) or int(e.start_ns[i + 1]) > start + e.width_ns:
                yield {"is": "bin", "path": row.name, "t": end, "u": end, "p50": None}


def _marked(mark: Mark, clock: Clock, shown: set[str]) -> Iterator[dict[str, Any]]:
    for path in mark.paths:
        if path in shown:
            yield {
                "is": "mark",
                "path": path,
                "t": clock.ms(mark.from_ns),
                "u": clock.ms(max(mark.to_ns, mark.from_ns)),
                "number": str(mark.number),
                "tip": mark.text,
            }
