"""Pictures of how round trips are distributed: histograms, and the median against the payload."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fathometer.findings.model import Analysis, Scenario
from fathometer.report.axes import round_trips
from fathometer.report.vega import COLOURS, NARROW, WIDE, Spec, base, colours, microseconds

MOST_ROWS, MOST_ROWS_NARROW = 24, 12
"""Histograms in a picture, and on a phone."""


def distribution(scenarios: Sequence[Scenario], width: int = WIDE) -> Spec | None:
    """One histogram a scenario, on one log scale, each by share of its samples."""
    have = [s for s in scenarios if s.rtt.count > 1]
    have = have[: MOST_ROWS if width > NARROW else MOST_ROWS_NARROW]
    if not have:
        return None
    low = min(s.rtt.min_ns or 1 for s in have)
    high = max(float(s.rtt.quantile(0.999).value_ns) for s in have if s.rtt.quantile(0.999))  # type: ignore[union-attr]
    edges = np.geomspace(max(low, 1) * 0.98, max(high * 1.05, low * 1.1), 90)
    rows = []
    for s in have:
        middles = (s.rtt.lows_ns + s.rtt.highs_ns) / 2
        counts, _ = np.histogram(middles, edges, weights=s.rtt.counts)
        shares = [float(f"{n / s.rtt.count:.4g}") for n in counts.tolist()]
        # One outline a scenario: a bar each would make the page large.
        rows += [
            {"scenario": s.name, "a": microseconds(a), "share": share}
            for a, share in zip(edges.tolist(), [*shares, 0.0], strict=True)
        ]
    names = [s.name for s in have]
    spec = base(width, 60 if len(have) <= 8 else 32, rows)
    spec |= {
        "mark": {"type": "area", "interpolate": "step-after", "opacity": 0.85, "line": False},
        "encoding": {
            "row": {
                "field": "scenario",
                "type": "nominal",
                "sort": names,
                "title": None,
                "header": {
                    "labelAngle": 0,
                    "labelAlign": "left",
                    "labelAnchor": "start",
                    "labelOrient": "top",
                },
            },
            "x": {"field": "a", **round_trips((edges / 1e3).tolist(), "round trip (to p99.9)")},
            "y": {
                "field": "share",
                "type": "quantitative",
                "title": None,
                "axis": {"format": ".0~%", "tickCount": 2},
            },
            "color": {**colours(names), "legend": None},
        },
        "resolve": {"scale": {"y": "independent"}},
        "spacing": 4,
    }
    return spec


def sweep(analysis: Analysis, width: int = WIDE) -> Spec | None:
    """Round trips against payload size, with the fitted lines."""
    if analysis.sweep is None:
        return None
    points = [
        {"size": s.key.size, "us": s.figure("p50").value / 1e3}
        for s in analysis.scenarios
        if s.key.size and s.rtt.count
    ]
    lines = [
        {"size": size, "us": (line.fixed + line.per_byte * size) / 1e3, "line": i}
        for i, line in enumerate(analysis.sweep.lines)
        for size in (line.from_bytes, line.to_bytes)
    ]
    spec = base(width, 260, points)
    y = {"field": "us", **round_trips([r["us"] for r in [*points, *lines]], "median round trip")}
    x: Spec = {
        "field": "size",
        "type": "quantitative",
        "title": "payload, bytes",
        "scale": {"type": "log", "base": 2},
    }
    spec["layer"] = [
        {
            "mark": {"type": "point", "filled": True, "size": 60},
            "encoding": {"x": x, "y": y},
        },
        {
            "data": {"values": lines},
            "mark": {"type": "line", "strokeDash": [4, 3], "color": COLOURS[3]},
            "encoding": {
                "x": x,
                "y": y,
                "detail": {"field": "line"},
            },
        },
    ]
    return spec
