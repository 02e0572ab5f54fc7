"""The five rules of the SQL Server article, answered by a study of days."""

from __future__ import annotations

from fathometer.findings.model import Analysis
from fathometer.report.rules import answers
from fathometer.report.sections import Section, table_of
from fathometer.report.tables import Cell, Table


def _table(analysis: Analysis) -> Table | None:
    rows = [(Cell(f"don't assume that {a.rule}"), Cell(a.holds), Cell(a.words)) for a in answers(analysis)]
    return table_of("Five rules", ("rule", "here", "what was measured"), rows)


SECTION = Section(
    "rules",
    "The rules of “Azure Network Latency & SQL Server Optimization”. Differs: what the rule warns of is so "
    "here. Hours and weekdays by the tests of “The week”; that it stays the same by the changes that were "
    "found, else by the medians of the days of both halves (Welch's t of their logarithms; the level is "
    "divided by the number of paths). One run is enough where 19 of 20 would have said the same to within "
    "5 %.",
    _table,
)
