"""What each policy left unserved on each path, where several policies were tried on several paths."""

from __future__ import annotations

from fathometer.findings.model import Analysis
from fathometer.findings.policy_paths import Unserved, unserved_by_path
from fathometer.findings.policy_words import figures
from fathometer.report.sections import Section, table_of
from fathometer.report.tables import Cell, Table


def _table(analysis: Analysis) -> Table | None:
    paths = unserved_by_path(analysis.policies)
    names = [u.policy for u in paths[0].policies] if paths else []
    rows = [(Cell(x.path), *(_cell(u) for u in x.policies)) for x in paths]
    return table_of("Requests not served, by path and policy", ("path", *names), rows)


def _cell(u: Unserved) -> Cell:
    if u.share is None:
        return Cell("–")
    return Cell(figures("unserved", u.share.mean), "best" if u.best else "")


SECTION = Section(
    "policy-paths",
    "Of the requests that were due, those that were neither answered nor served otherwise; means over the "
    "repetitions. Best: by what they are ranked by it is told apart from others of the path, and from no "
    "other that is called best.",
    _table,
)
