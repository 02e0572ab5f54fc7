"""How the paths of a study were interrupted, and which differ in it."""

from __future__ import annotations

from fathometer.findings.interruptions import Interrupted, interrupted
from fathometer.findings.model import Analysis
from fathometer.findings.render.ends import verdict
from fathometer.findings.words import count, duration, span
from fathometer.report.sections import Section, table_of
from fathometer.report.tables import Cell, Table


def _table(analysis: Analysis) -> Table | None:
    rows = [_row(x) for x in interrupted(analysis)]
    head = ("path", "rank", "longest wait of a run", "connections that ended", "why they ended")
    return table_of("Interruptions", head, rows)


def _row(x: Interrupted) -> tuple[Cell, ...]:
    longest = x.longest_ns
    around = "" if longest.low is None or longest.high is None else span(longest.low, longest.high, to=" … ")
    why = "; ".join(f"{verdict(name)} ({number:,})" for name, number in x.verdicts.items())
    return (
        Cell(x.name, count(x.runs, "run")),
        Cell(f"{x.rank}"),
        Cell(duration(longest.mean), around),
        Cell(f"{x.ended:,} of {x.of:,}" if x.ended else f"none of {x.of:,}"),
        Cell(why or "–"),
    )


SECTION = Section(
    "interruptions",
    "The longest that a connection waited for an answer, once in each run: a round trip, a stall, or the "
    "silence in which it ended. Means over the runs, with 95 % intervals (Student's t). Paths of one rank "
    "are not told apart: the interval of their difference, by round, contains 0; those intervals are so wide "
    "that all of them hold together with 95 %. A connection that took another's place counts as one more.",
    _table,
)
