"""What each policy left unserved on each path, where several policies were tried on several paths."""

from __future__ import annotations

from typing import Final

from fathometer.findings.model import Analysis
from fathometer.findings.policies import Compared, like_the_best
from fathometer.findings.policy_words import figures
from fathometer.report.sections import Section, table_of
from fathometer.report.tables import Cell, Table

FEWEST: Final = 2
"""Paths; of one, the table of policies says it."""


def _table(analysis: Analysis) -> Table | None:
    if len(analysis.policies) < FEWEST:
        return None
    names = sorted({p.name for c in analysis.policies for p in c.policies})
    rows = []
    for c in analysis.policies:
        by_name = {p.name: p for p in c.policies}
        best = set(like_the_best(c))
        apart = len(best) < len(c.policies)
        cells = [_cell(by_name.get(name), apart and name in best) for name in names]
        rows.append((Cell(c.path), *cells))
    return table_of("Requests not served, by path and policy", ("path", *names), rows)


def _cell(p: Compared | None, best: bool) -> Cell:
    value = p.figures["unserved"] if p else None
    return Cell("–") if value is None else Cell(figures("unserved", value.mean), "best" if best else "")


SECTION = Section(
    "policy-paths",
    "Of the requests that were due, those that were neither answered nor served otherwise; means over the "
    "repetitions. Best: by what they are ranked by it is told apart from others of the path, and from no "
    "other that is called best.",
    _table,
)
