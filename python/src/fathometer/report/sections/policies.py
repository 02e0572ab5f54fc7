"""Policies compared over repetitions: a table, and a picture of what each left unserved and what it cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from fathometer.findings.model import Analysis
from fathometer.findings.policies import Compared, PolicyComparison
from fathometer.findings.policy_words import figures
from fathometer.report.sections import Picture, Section, table_of
from fathometer.report.tables import Cell, Table
from fathometer.report.vega import BLUE, MOST_ROWS, ROW, WIDE, Spec, base, named_rows

_COLUMNS: Final = {
    "not served": "unserved",
    "nobody could": "unservable",
    "failed": "failed",
    "ambiguous": "ambiguous",
    "waited p99": "waited_p99_ns",
    "noticed after": "notice_p50_ns",
    "recovered after": "recover_p50_ns",
    "extra connections": "extra_connections",
    "most in a second": "reconnections_a_second",
}
FEWEST_RUNS: Final = 2
"""Repetitions, below which nothing is told apart."""
_PICTURED: Final = {
    "not served, %": ("unserved", 100.0),
    "callers waited (p99), ms": ("waited_p99_ns", 1e-6),
    "extra connections": ("extra_connections", 1.0),
}


def _table(analysis: Analysis) -> Table | None:
    rows = [_row(c, p) for c in analysis.policies for p in c.policies]
    table = table_of("Policies compared", ("policy", "rank", "runs", *_COLUMNS), rows)
    if table is None:
        return None
    return Table(table.caption, table.head, table.rows, ("runs", "nobody could", "failed", "noticed after"))


def _row(c: PolicyComparison, p: Compared) -> tuple[Cell, ...]:
    rank = Cell("–" if p.rank is None or c.runs < FEWEST_RUNS else f"{p.rank}")
    return (Cell(p.name, c.path), rank, Cell(f"{p.runs:,}"), *(_cell(p, name) for name in _COLUMNS.values()))


def _cell(p: Compared, name: str) -> Cell:
    value = p.figures[name]
    if value is None:
        return Cell("–")
    shown = figures(name, value.mean)
    if value.low is None or value.high is None or value.low == value.high:
        return Cell(shown)
    # A share or a time is never below 0, whatever the interval of its mean.
    return Cell(shown, f"{figures(name, max(value.low, 0.0))} … {figures(name, value.high)}")


def _picture(analysis: Analysis, width: int = WIDE) -> Spec | None:
    """A panel a figure, a row a policy: a mark for the mean and a bar for its interval."""
    names = [_name(analysis, c, p) for c in analysis.policies for p in c.policies][:MOST_ROWS]
    values = [v for c in analysis.policies for p in c.policies for v in _values(analysis, c, p)]
    values = [v for v in values if v["policy"] in names]
    if not values:
        return None
    height = ROW * len(names)
    spec = base(width, height, [])
    spec.pop("width"), spec.pop("height")
    y = named_rows(names, "policy")
    panels = []
    for title in _PICTURED:
        mine = [v for v in values if v["figure"] == title]
        x: Spec = {
            "type": "quantitative",
            "title": title,
            "scale": {"zero": True, "nice": True},
            "axis": {"tickCount": 4},
        }
        panels.append(
            {
                "width": width,
                "height": height,
                "data": {"values": mine},
                "layer": [
                    {
                        "mark": {"type": "rule", "color": BLUE, "strokeWidth": 2},
                        "encoding": {"y": y, "x": {"field": "low", **x}, "x2": {"field": "high"}},
                    },
                    {
                        "mark": {"type": "point", "filled": True, "color": BLUE, "size": 50, "opacity": 1},
                        "encoding": {"y": y, "x": {"field": "mean", **x}},
                    },
                ],
            }
        )
    del spec["data"]
    return spec | {"vconcat": panels, "spacing": 12}


def _values(analysis: Analysis, c: PolicyComparison, p: Compared) -> Iterator[dict[str, Any]]:
    for title, (name, scale) in _PICTURED.items():
        value = p.figures[name]
        if value is not None:
            low, high = (value.mean if end is None else end for end in (value.low, value.high))
            yield {
                "figure": title,
                "policy": _name(analysis, c, p),
                "mean": float(f"{value.mean * scale:.5g}"),
                "low": float(f"{max(low, 0.0) * scale:.5g}"),
                "high": float(f"{high * scale:.5g}"),
            }


def _name(analysis: Analysis, c: PolicyComparison, p: Compared) -> str:
    return p.name if len(analysis.policies) == 1 else f"{p.name}, {c.path}"


SECTION = Section(
    "policies",
    "Means over repetitions, with 95 % intervals of the mean (Student's t). Policies of one rank are not "
    "told apart: the interval of their difference contains 0; those intervals are so wide that all of them "
    "hold together with 95 %. A single repetition gives no rank. Nobody could: requests that fell due while "
    "the path, or its end, was away for longer than callers wait, by what the "
    "emulated network says that it did; –: nothing says. Repetitions "
    "differ by chance alone, so an interval says nothing of another network or of other events.",
    _table,
    Picture("policies", "What each policy came to", "Dots: means; bars: 95 % intervals.", _picture),
)
