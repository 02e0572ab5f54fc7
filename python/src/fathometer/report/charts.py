"""Every figure of the report as a Vega-Lite specification: plain dictionaries, rendered by `render`.

Times are given as milliseconds since the Unix epoch (what Vega calls a date), durations as microseconds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fathometer.findings.model import Analysis, Scenario, Versus
from fathometer.report.supported import is_shown

Spec = dict[str, Any]
SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
INK = "#123456"
"""Stands for the text's own colour: `render` turns it into `currentColor`, so that one picture does for light
and dark."""
# Okabe & Ito (2008), "Color universal design": told apart with any colour vision, and on white as on black.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#8C6D00", "#7F7F7F")
WIDE, NARROW = 680, 340
"""Widths in CSS pixels: of a page, and of a phone, where a wide picture would have letters of 5 px."""
ROW = 38
MOST_ROWS = 40
"""Rows of names in a picture."""
OTHERS = "others"
TAIL = (0.0, 0.5, 0.9, 0.99, 0.999, 0.9999)
"""Marks of the tail scale: as far apart as they are rare."""


def microseconds(ns: float) -> float:
    """To five digits: more than a picture shows."""
    return float(f"{ns / 1e3:.5g}")


def base(width: int, height: int, data: list[dict[str, Any]], legend: Sequence[str] = ()) -> Spec:
    """What every picture begins with. `legend`: its labels, which share out its width."""
    columns = max(1, min(5, width // (7 * max(map(len, legend), default=30) + 30)))
    axis = {
        "labelColor": INK,
        "titleColor": INK,
        "tickColor": INK,
        "domainColor": INK,
        "gridColor": INK,
        "gridOpacity": 0.15,
        "labelLimit": max(width - 20, 60),
        "titleFontWeight": "normal",
    }
    return {
        "$schema": SCHEMA,
        "width": width,
        "height": height,
        "background": None,
        "padding": 4,
        "data": {"values": data},
        "config": {
            "font": "system-ui, sans-serif",
            "view": {"stroke": None},
            "axis": axis,
            "legend": {
                "labelColor": INK,
                "titleColor": INK,
                "orient": "top",
                "labelLimit": width // columns - 30,
                "columns": columns,
            },
            "header": {"labelColor": INK, "titleColor": INK, "labelLimit": width},
            "text": {"color": INK},
        },
    }


def _named_rows(order: Sequence[str], field: str) -> Spec:
    """An axis of names that stand inside the picture, each above its row: however long, they push nothing."""
    return {
        "field": field,
        "type": "nominal",
        "title": None,
        "sort": list(order),
        "axis": {
            "labelAlign": "left",
            "labelPadding": -2,
            "labelOffset": -12,
            "ticks": False,
            "domain": False,
            "grid": False,
        },
    }


def _colour(scenarios: Sequence[str]) -> Spec:
    names = list(scenarios)
    return {
        "field": "scenario",
        "type": "nominal",
        "title": None,
        "sort": names,
        "scale": {"domain": names, "range": [COLOURS[i % len(COLOURS)] for i in range(len(names))]},
    }


_IN_UNITS = (
    "datum.value >= 1e6 ? format(datum.value / 1e6, ',~r') + ' s' : datum.value >= 1e3 ? "
    "format(datum.value / 1e3, ',~r') + ' ms' : format(datum.value, ',~r') + ' µs'"
)
"""Microseconds as people write durations."""


def rtt_axis(title: str = "round trip") -> Spec:
    """Round trips in microseconds on a log scale, labelled as people write durations."""
    return {
        "type": "quantitative",
        "title": title,
        "scale": {"type": "log", "nice": False},
        "axis": {"labelExpr": _IN_UNITS, "tickCount": 6, "labelOverlap": "greedy", "labelSeparation": 8},
    }


def _marked(scenarios: Sequence[Scenario]) -> list[Scenario]:
    """Those that get a colour of their own: all where there are colours enough, else the fastest and the
    slowest.
    """
    if len(scenarios) <= len(COLOURS) - 1:
        return list(scenarios)
    half = (len(COLOURS) - 1) // 2
    return [*scenarios[:half], *scenarios[-half:]]


def tail(scenarios: Sequence[Scenario], width: int = WIDE) -> Spec | None:
    """The distribution on a tail scale, to p99.99: a step to the right is ten times rarer."""
    have = [s for s in scenarios if s.rtt.count > 1]
    own = {s.name for s in _marked(have)}
    rows = []
    for number, s in enumerate(have):
        n = s.rtt.count
        # As far as the count supports it: -log10 of the share beyond.
        deepest = min(4.0, math.log10(n / 3)) if n > 3 else 0.0
        for nines in np.linspace(0, max(deepest, 0.3), 80).tolist():
            found = s.rtt.quantile(min(max(1 - 10**-nines, 1e-9), 1.0))
            if found:
                rows.append(
                    {
                        "scenario": s.name if s.name in own else OTHERS,
                        "line": number,
                        "nines": round(nines, 3),
                        "us": microseconds(found.value_ns),
                    }
                )
    if not rows:
        return None
    shares = TAIL if width > NARROW else tuple(p for p in TAIL if p != 0.5)
    marks = [-math.log10(1 - p) for p in shares]
    labels = (
        " : ".join(
            f"abs(datum.value - {m:.4f}) < 0.01 ? '{100 * p:g} %'" for m, p in zip(marks, shares, strict=True)
        )
        + " : ''"
    )
    names = [s.name for s in have if s.name in own]
    colour = _colour(names)
    if len(own) < len(have):
        colour["scale"] = {
            "domain": [*names, OTHERS],
            "range": [*(COLOURS[i % (len(COLOURS) - 1)] for i in range(len(names))), COLOURS[-1]],
        }
        colour["sort"] = [*names, OTHERS]
    spec = base(width, 300, rows, names)
    spec |= {
        "mark": {"type": "line", "clip": True},
        "encoding": {
            "x": {
                "field": "nines",
                "type": "quantitative",
                "title": "share of samples at or below",
                "scale": {"domain": [0, 4]},
                "axis": {"values": marks, "labelExpr": labels, "labelFlush": True, "labelOverlap": False},
            },
            "y": {"field": "us", **rtt_axis()},
            "color": colour,
            "detail": {"field": "line"},
            "strokeWidth": {
                "condition": {"test": f"datum.scenario == '{OTHERS}'", "value": 0.8},
                "value": 2,
            },
        },
    }
    return spec


def figures(scenarios: Sequence[Scenario], width: int = WIDE) -> Spec | None:
    """p50, p95 and p99 of every scenario with their intervals."""
    rows = []
    for s in scenarios[:MOST_ROWS]:
        for name in ("p50", "p95", "p99"):
            e = s.figure(name)
            if not is_shown(e):
                continue
            row = {"scenario": s.name, "figure": name, "us": e.value / 1e3}
            if e.interval and e.interval.low > 0:
                row |= {"low": e.interval.low / 1e3, "high": e.interval.high / 1e3}
            rows.append(row)
    if not rows:
        return None
    shown = {r["scenario"] for r in rows}
    order = [s.name for s in scenarios if s.name in shown]
    kinds = ["p50", "p95", "p99"]
    spec = base(width, ROW * len(order), rows, kinds)
    y = _named_rows(order, "scenario")
    common: Spec = {"field": "figure", "type": "nominal", "title": None, "sort": kinds}
    colour = {**common, "scale": {"domain": kinds, "range": list(COLOURS[:3])}}
    shape = {**common, "scale": {"domain": kinds, "range": ["circle", "square", "triangle-up"]}}
    x = rtt_axis()
    spec["layer"] = [
        {
            "transform": [{"filter": "isValid(datum.low)"}],
            "mark": {"type": "rule", "strokeWidth": 4, "opacity": 0.5, "yOffset": 4},
            "encoding": {"y": y, "x": {"field": "low", **x}, "x2": {"field": "high"}, "color": colour},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 55, "opacity": 1, "yOffset": 4},
            "encoding": {"y": y, "x": {"field": "us", **x}, "color": colour, "shape": shape},
        },
    ]
    return spec


def ratios(comparisons: Sequence[Versus], metric: str = "p50", width: int = WIDE) -> Spec | None:
    """Ratios of pairs with their intervals, on a log scale; 1 is no difference."""
    rows = []
    for v in comparisons[:MOST_ROWS]:
        d = next((x for x in v.differences if x.metric == metric), None)
        if d is None or d.ratio_interval is None:
            continue
        rows.append(
            {
                "pair": f"{v.b} / {v.a}",
                "ratio": d.ratio,
                "low": d.ratio_interval.low,
                "high": d.ratio_interval.high,
                "differs": d.differs,
            }
        )
    if not rows:
        return None
    spec = base(width, ROW * len(rows), rows)
    y = _named_rows([str(r["pair"]) for r in rows], "pair")
    x: Spec = {
        "type": "quantitative",
        "scale": {"type": "log", "nice": False, "padding": 12},
        "title": f"ratio of {metric}",
        "axis": {"format": ".3~g", "tickCount": 6, "labelOverlap": "greedy", "labelSeparation": 8},
    }
    colour: Spec = {
        "condition": {"test": "!datum.differs", "value": COLOURS[7]},
        "value": COLOURS[0],
    }
    spec["layer"] = [
        {
            "data": {"values": [{"one": 1}]},
            "mark": {"type": "rule", "color": INK, "strokeDash": [4, 4]},
            "encoding": {"x": {"field": "one", **x}},
        },
        {
            "mark": {"type": "rule", "strokeWidth": 4, "opacity": 0.5, "yOffset": 4},
            "encoding": {"y": y, "x": {"field": "low", **x}, "x2": {"field": "high"}, "color": colour},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 55, "opacity": 1, "yOffset": 4},
            "encoding": {"y": y, "x": {"field": "ratio", **x}, "color": colour},
        },
    ]
    return spec


def distribution(scenarios: Sequence[Scenario], width: int = WIDE) -> Spec | None:
    """One histogram a scenario, on one log scale, each by share of its samples."""
    have = [s for s in scenarios if s.rtt.count > 1][:MOST_ROWS]
    if not have:
        return None
    low = min(s.rtt.min_ns or 1 for s in have)
    high = max(float(s.rtt.quantile(0.999).value_ns) for s in have if s.rtt.quantile(0.999))  # type: ignore[union-attr]
    edges = np.geomspace(max(low, 1) * 0.98, max(high * 1.05, low * 1.1), 90)
    rows = []
    for s in have:
        middles = (s.rtt.lows_ns + s.rtt.highs_ns) / 2
        counts, _ = np.histogram(middles, edges, weights=s.rtt.counts)
        for a, b, n in zip(edges[:-1].tolist(), edges[1:].tolist(), counts.tolist(), strict=True):
            if n:
                rows.append(
                    {
                        "scenario": s.name,
                        "a": microseconds(a),
                        "b": microseconds(b),
                        "share": float(f"{n / s.rtt.count:.4g}"),
                    }
                )
    names = [s.name for s in have]
    spec = base(width, 60 if len(have) <= 8 else 32, rows)
    spec |= {
        "mark": {"type": "rect", "opacity": 0.85},
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
            "x": {"field": "a", **rtt_axis("round trip (to p99.9)")},
            "x2": {"field": "b"},
            "y": {
                "field": "share",
                "type": "quantitative",
                "title": None,
                "axis": {"format": ".0~%", "tickCount": 2},
            },
            "y2": {"datum": 0},
            "color": {**_colour(names), "legend": None},
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
        {"size": s.key.size, "us": s.estimates["p50"].value / 1e3}
        for s in analysis.scenarios
        if s.key.size and s.rtt.count
    ]
    lines = [
        {"size": size, "us": (line.fixed + line.per_byte * size) / 1e3, "line": i}
        for i, line in enumerate(analysis.sweep.lines)
        for size in (line.from_bytes, line.to_bytes)
    ]
    spec = base(width, 260, points)
    x: Spec = {
        "field": "size",
        "type": "quantitative",
        "title": "payload, bytes",
        "scale": {"type": "log", "base": 2},
    }
    spec["layer"] = [
        {
            "mark": {"type": "point", "filled": True, "size": 60},
            "encoding": {"x": x, "y": {"field": "us", **rtt_axis("median round trip")}},
        },
        {
            "data": {"values": lines},
            "mark": {"type": "line", "strokeDash": [4, 3], "color": COLOURS[3]},
            "encoding": {
                "x": x,
                "y": {"field": "us", **rtt_axis("median round trip")},
                "detail": {"field": "line"},
            },
        },
    ]
    return spec
