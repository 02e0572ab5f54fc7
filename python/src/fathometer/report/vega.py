"""What every picture of the report is made of: Vega-Lite specifications as plain dictionaries, and the
settings that they share. `render` draws them.

Times are given as milliseconds since the Unix epoch (what Vega calls a date), durations as microseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

Spec = dict[str, Any]
SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
INK = "#123456"
"""Stands for the text's own colour: `render` turns it into `currentColor`, so that one picture does for light
and dark."""
# Okabe & Ito (2008), "Color universal design": told apart with any colour vision, and on white as on black.
BLUE: Final = "#0072B2"
RED: Final = "#D55E00"
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#8C6D00", "#7F7F7F")
FULL, WIDE, NARROW = 1180, 580, 340
"""Widths in CSS pixels: of a page, of half a page, and of a phone, where a wide picture would have letters of
5 px."""
ROW = 38
MOST_ROWS = 40
"""Rows of names in a picture."""


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
            # Words for each of thousands of bars make half of a page, and help nobody who has it read to
            # them: the picture as a whole has its title.
            "aria": False,
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


def named_rows(order: Sequence[str], field: str) -> Spec:
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


def colours(scenarios: Sequence[str]) -> Spec:
    """A colour each; names beyond those that there are begin again."""
    names = list(scenarios)
    return {
        "field": "scenario",
        "type": "nominal",
        "title": None,
        "sort": names,
        "scale": {"domain": names, "range": [COLOURS[i % len(COLOURS)] for i in range(len(names))]},
    }
