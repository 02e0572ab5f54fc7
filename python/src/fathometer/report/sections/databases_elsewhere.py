"""How long a database's queries would take over the other paths, beside what was measured there."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from fathometer.findings.databases import shortened
from fathometer.findings.model import Analysis, Scenario
from fathometer.findings.prediction import Elsewhere, elsewhere
from fathometer.findings.words import count, duration, span
from fathometer.report.sections import Section, table_of
from fathometer.report.tables import Cell, Table, figure

CAPTION: Final = "Databases, elsewhere"


def table(scenarios: tuple[Scenario, ...]) -> Table | None:
    """Of these paths; None: no query was asked over one of them, or there is no other."""
    rows = [_row(one) for one in elsewhere(scenarios)]
    head = ("path and query", "over", "round trips", "would take", "measured there", "advice")
    return table_of(CAPTION, head, rows)


def _table(analysis: Analysis) -> Table | None:
    return table(analysis.scenarios)


def _row(one: Elsewhere) -> tuple[Cell, ...]:
    at = one.predicted
    ends = "" if at.low_ns is None or at.high_ns is None else span(at.low_ns, at.high_ns, to=" … ")
    once = at.at_once_ns
    advice = "" if once is None else f"in one round trip: {duration(once)} (a larger fetch, or one statement)"
    return (
        Cell(one.path, shortened(one.asked, _LETTERS)),
        Cell(one.other, f"a round trip: {duration(one.other_rtt_ns)}"),
        Cell(count(at.turns, "round trip")),
        Cell(duration(at.ns), ends),
        Cell("–") if one.measured is None else _measured(one, figure(one.measured)),
        Cell(advice or "–"),
    )


def _measured(one: Elsewhere, cell: Cell) -> Cell:
    # A doubt of its interval is reckoned with.
    return cell if one.beyond is None else replace(cell, note=_BEYOND.format(one.beyond))


_LETTERS = 60
_BEYOND = (
    "{} than predicted, beyond both intervals: more than the round trips differs, be it the server or what "
    "else it did at the time, how fast either path carries bytes, losses, or round trips that vary"
)
SECTION = Section(
    "database-elsewhere",
    "How long queries of fathom sql would take over another path, in the median: what they took without "
    "their round trips, and as many round trips of the other path. A long answer takes longer where the "
    "server's windows have to grow anew, or where its kernel paces; nobody else knows which it does: the "
    "table shows windows, as most kernels' default has them, and the 95 % interval beneath takes in both. It "
    "holds where both paths carry bytes equally fast, and none loses: on a path whose round trips vary "
    "by about as much as they take, long answers take several times as long. Of "
    "connections side by side it says nothing: what they take from each other at the server and on the path "
    "is another thing elsewhere.",
    _table,
)
