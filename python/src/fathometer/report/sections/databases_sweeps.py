"""Settings of a database's queries that were asked in turn, each against the first."""

from __future__ import annotations

from fathometer.counts import count
from fathometer.findings.databases import shortened
from fathometer.findings.model import Analysis
from fathometer.findings.sweeps import QuerySweep, Swept, sweeps
from fathometer.report.sections import Section, table_of
from fathometer.report.tables import Cell, Table, figure


def _table(analysis: Analysis) -> Table | None:
    rows = [_row(sweep, one) for sweep in sweeps(analysis.scenarios) for one in sweep.each]
    head = ("path and query", "setting", "queries", "wall p50", "against the first")
    return table_of("Databases, settings in turn", head, rows)


def _row(sweep: QuerySweep, one: Swept) -> tuple[Cell, ...]:
    return (
        Cell(sweep.path, shortened(sweep.asked, _LETTERS)),
        Cell(one.words),
        Cell(f"{one.counted:,}"),
        figure(one.wall),
        _against(one, len(sweep.ids)),
    )


def share(ratio: float) -> str:
    """`-12.4 %`: by how much more or less than the first."""
    return f"{(ratio - 1) * 100:+.1f} %"


def _against(one: Swept, recordings: int) -> Cell:
    if one.ratio is None:
        return Cell("–")
    if one.ratio.interval is None:
        few = f"of {count(one.ratio.count, one.basis.removesuffix('s'))}, too few to say more"
        return Cell(share(one.ratio.value) if one.ratio.count else "–", few)
    ends, level = one.ratio.interval, f"{one.ratio.interval.level * 100:.1f}".removesuffix(".0")
    told = f"{share(ends.low)} … {share(ends.high)} ({level} %)"
    if recordings > 1 and one.basis != "runs":
        told += f", no surer than {count(recordings, 'recording')} can be"
    return Cell(share(one.ratio.value), told, "" if one.verdict in {"slower", "faster"} else one.verdict)


_LETTERS = 60
SECTION = Section(
    "database-sweeps",
    "Settings of fathom sql that were asked in turn, each once in a round and in an order of chance, so that "
    "what drifts hits all of them alike. Against the first: the setting's wall time by that of the first one "
    "in the same round, in the median, with the interval that order statistics give it; the settings of a "
    "sweep are one family. Sizes of packets have connections of their own, and no two connections are alike: "
    "there the unit is what was asked between two logins, and not the round. Of several recordings, but too "
    "few to be the units themselves, the interval is at least as wide as these differ among themselves. What "
    "of each was the server, the path and the client: Databases.",
    _table,
)
