"""What each factor does to round trips: the levels of a study's ``[[vary]]``, or tags of its scenarios."""

from __future__ import annotations

from fathometer.findings.doubts import in_words
from fathometer.findings.factors import METRICS, Effect, effects
from fathometer.findings.model import Analysis
from fathometer.findings.words import figure
from fathometer.report.sections import Section, table_of
from fathometer.report.tables import Cell, Table
from fathometer.stats.family import Difference


def _table(analysis: Analysis) -> Table | None:
    rows = [_row(e) for e in effects(analysis)]
    return table_of("By factor", ("factor", "from", "to", "paths", *METRICS, "verdict (median)"), rows)


def _row(e: Effect) -> tuple[Cell, ...]:
    median = e.of("p50")
    return (
        Cell(e.factor),
        Cell(e.level),
        Cell(e.to_level),
        Cell(e.to_path, f"against {e.path}"),
        *(_change(e.of(metric)) for metric in METRICS),
        Cell("–" if median is None else median.verdict),
    )


def _change(d: Difference | None) -> Cell:
    if d is None or not d.decided or d.ratio_interval is None:
        return Cell("–", "", (in_words(d.doubt) or d.verdict) if d is not None else "")
    ends = (d.ratio_interval.low, d.ratio_interval.high)
    return Cell(_percent(d.ratio), " … ".join(_percent(end) for end in ends), in_words(d.doubt) or "")


def _percent(ratio: float) -> str:
    return f"{'-' if ratio < 1 else '+'}{figure(100 * abs(ratio - 1))} %"


SECTION = Section(
    "factors",
    "Paths that are alike in all tags but one: what that one changes, each level against the first, with its "
    "95 % interval. These are comparisons of the table of ratios, arranged by tag, and judged together with "
    "all of them. Where a factor does another thing at each level of the others, its rows say so together.",
    _table,
)
