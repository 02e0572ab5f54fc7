"""Time without answers, by path."""

from __future__ import annotations

from fathometer.findings.finding import Finding
from fathometer.findings.model import Analysis
from fathometer.findings.words import duration, share
from fathometer.report.sections import Picture, Section, table_of
from fathometer.report.tables import Cell, Table
from fathometer.report.vega import COLOURS, WIDE, Spec, base


def _table(analysis: Analysis) -> Table | None:
    rows = [
        (
            Cell(f.scenario or ""),
            Cell(f"{int(f.quantities['times'].value):,}"),
            *(Cell(duration(f.quantities[name].value)) for name in ("total", "longest")),
            Cell(share(f.quantities["share"].value)),
        )
        for f in _without_answers(analysis)
    ]
    head = ("path", "times", "in all", "longest", "of the time")
    return table_of("Time without answers", head, rows)


def _without_answers(analysis: Analysis) -> list[Finding]:
    silent = [f for f in analysis.findings if f.kind == "without answers"]
    return sorted(silent, key=lambda f: -f.quantities["share"].value)


def _picture(analysis: Analysis, width: int = WIDE) -> Spec | None:
    """The share of the time without answers, the worst paths first, as many as there are colours."""
    rows = [
        {"path": f.scenario, "percent": float(f"{100 * f.quantities['share'].value:.3g}")}
        for f in _without_answers(analysis)[: len(COLOURS)]
    ]
    if len(rows) < 2:
        return None  # One bar says no more than its number.
    spec = base(width, 28 * len(rows), rows)
    spec |= {
        "mark": {"type": "bar", "color": COLOURS[0]},
        "encoding": {
            "x": {"field": "percent", "type": "quantitative", "title": "% of the time without answers"},
            "y": {"field": "path", "type": "nominal", "title": None, "sort": None},
        },
    }
    return spec


SECTION = Section(
    "silent",
    "Counted are stalls, and the time from the last answer of a connection that ended to the first of the "
    "next. What overlaps counts once.",
    _table,
    Picture("silent-share", "As a share of the whole time", "The worst paths first.", _picture),
)
