"""Pictures of whole scenarios: the tail, the figures with their intervals, the ratios of pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fathometer.findings.model import Scenario, Versus
from fathometer.report.axes import ratio_axis, round_trips
from fathometer.report.vega import COLOURS, INK, NARROW, WIDE, Spec, base, colours, microseconds, named_rows

ROW = 38
MOST_ROWS = 40
"""Rows of names in a picture."""
OTHERS = "others"
FARTHEST = 30
"""How many times a ratio its interval is drawn at most."""
TAIL = (0.0, 0.5, 0.9, 0.99, 0.999, 0.9999)
"""Marks of the tail scale: as far apart as they are rare."""


def tail(scenarios: Sequence[Scenario], foremost: Sequence[str], width: int = WIDE) -> Spec | None:
    """The distribution on a tail scale, to p99.99: a step to the right is ten times rarer. `foremost`: names
    of scenarios in order of their interest, of which the first get colours of their own.
    """
    have = [s for s in scenarios if s.rtt.count > 1]
    order = [name for name in foremost if any(s.name == name for s in have)]
    own = set(order[: len(COLOURS) if len(order) <= len(COLOURS) else len(COLOURS) - 1])
    rows = []
    for number, s in enumerate(have):
        n = s.rtt.count
        # As far as the count supports it: -log10 of the share beyond.
        deepest = min(4.0, math.log10(n / 3)) if n > 3 else 0.0
        for nines in np.linspace(0, max(deepest, 0.3), 80).tolist():
            quantile = s.rtt.quantile(min(max(1 - 10**-nines, 1e-9), 1.0))
            if quantile:
                rows.append(
                    {
                        "scenario": s.name if s.name in own else OTHERS,
                        "line": number,
                        "nines": round(nines, 3),
                        "us": microseconds(quantile.value_ns),
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
    colour = colours(names)
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
            "y": {"field": "us", **round_trips([r["us"] for r in rows])},
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
            if not e.shown:
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
    y = named_rows(order, "scenario")
    common: Spec = {"field": "figure", "type": "nominal", "title": None, "sort": kinds}
    colour = {**common, "scale": {"domain": kinds, "range": list(COLOURS[:3])}}
    shape = {**common, "scale": {"domain": kinds, "range": ["circle", "square", "triangle-up"]}}
    x = round_trips([float(r[end]) for r in rows for end in ("us", "low", "high") if end in r])
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
    rows, ends = [], list[float]()
    for v in comparisons[:MOST_ROWS]:
        d = next((x for x in v.differences if x.metric == metric), None)
        if d is None or d.ratio_interval is None:
            continue
        # Beyond this the data say nothing; drawn to its end it would hide what other pairs say.
        low = max(d.ratio_interval.low, d.ratio / FARTHEST)
        high = min(d.ratio_interval.high, d.ratio * FARTHEST)
        ends += [low, high]
        rows.append(
            {
                "pair": f"{v.b} / {v.a}",
                "ratio": d.ratio,
                "low": low,
                "high": high,
                "differs": d.differs,
            }
        )
    if not rows:
        return None
    spec = base(width, ROW * len(rows), rows)
    y = named_rows([str(r["pair"]) for r in rows], "pair")
    x = ratio_axis([1.0, *ends], f"ratio of {metric}")
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
