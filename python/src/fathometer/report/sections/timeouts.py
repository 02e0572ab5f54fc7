"""What time-outs would cut off, by path: a table of those that people set, and a line over all of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from fathometer.findings.finding import Finding
from fathometer.findings.model import Analysis, Scenario
from fathometer.findings.seen.timeouts import WAITS_NS
from fathometer.findings.words import share
from fathometer.report.axes import round_trips
from fathometer.report.sections import Picture, Section, table_of
from fathometer.report.tables import Cell, Table
from fathometer.report.vega import COLOURS, WIDE, Spec, base, colours, microseconds

POINTS = 60
"""Of a line."""


def _told(analysis: Analysis) -> list[Finding]:
    """The worst paths first."""
    told = [f for f in analysis.findings if f.kind == "time-outs"]
    return sorted(told, key=lambda f: -f.quantities["share"].value)


def _table(analysis: Analysis) -> Table | None:
    rows = [(Cell(f.scenario or ""), *(_cell(f, name) for name in WAITS_NS)) for f in _told(analysis)]
    return table_of("What time-outs would cut off", ("path", *(f"after {name}" for name in WAITS_NS)), rows)


def _cell(f: Finding, name: str) -> Cell:
    if name not in f.quantities:
        return Cell("–")
    cut, sent = f.quantities[name].value, f.quantities["sent"].value
    return Cell(share(cut / sent) if cut else "0", f"{int(cut):,} of {int(sent):,}")


def _picture(analysis: Analysis, width: int = WIDE) -> Spec | None:
    """The share that is not there yet, over the time waited; as many paths as there are colours."""
    names = [f.scenario or "" for f in _told(analysis)][: len(COLOURS)]
    rows = [row for name in names for row in _line(analysis.scenario(name))]
    if not rows:
        return None
    spec = base(width, 240, rows, names)
    least = min(row["share"] for row in rows)
    spec |= {
        "mark": {"type": "line", "interpolate": "step-after", "clip": True},
        "encoding": {
            "x": {"field": "us", **round_trips([row["us"] for row in rows], "waited")},
            "y": {
                "field": "share",
                "type": "quantitative",
                "title": "not answered yet",
                "scale": {"type": "log", "domain": [least, 1]},
                "axis": {"format": "~%", "tickCount": 5},
            },
            "color": colours(names),
        },
    }
    return spec


def _line(s: Scenario) -> list[dict[str, Any]]:
    low, high = float(s.rtt.lows_ns[0]), float(s.rtt.highs_ns[-1])
    waits = np.geomspace(max(low, 1.0), max(high, 2.0), POINTS)
    answered = np.concatenate([[0], np.cumsum(s.rtt.counts)])
    late = s.sent - answered[np.searchsorted(s.rtt.highs_ns, waits, side="right")]
    pairs = zip(waits.tolist(), late.tolist(), strict=True)
    return [
        {"scenario": s.name, "us": microseconds(wait), "share": float(f"{n / s.sent:.4g}")}
        for wait, n in pairs
        if n
    ]


SECTION = Section(
    "time-outs",
    "Of the samples that were sent, those without an answer after so long, whether it came later or never. "
    "–: less than ten times the median, which nobody would set.",
    _table,
    Picture(
        "time-outs",
        "Not answered yet",
        "How many a client would have given up on, by its time-out.",
        _picture,
    ),
)
