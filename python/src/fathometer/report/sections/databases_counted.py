"""What a database's server counts of the time that it could not send, beside the split of these queries."""

from __future__ import annotations

from fathometer.counts import count
from fathometer.findings.databases import Asked, ServerCount, databases, shortened
from fathometer.findings.model import Analysis
from fathometer.findings.words import duration, within
from fathometer.report.sections import Section, table_of
from fathometer.report.tables import Cell, Table


def _table(analysis: Analysis) -> Table | None:
    known = [(one, of) for one in databases(analysis.scenarios) if (of := one.by_server) is not None]
    head = ("path and query", "queries", "wall, together", "counted by the server", "path", "client")
    return table_of("Databases, the server's own count", head, [_row(one, of) for one, of in known])


def _row(one: Asked, of: ServerCount) -> tuple[Cell, ...]:
    return (
        Cell(one.path, shortened(one.asked, _LETTERS)),
        Cell(f"{of.queries:,}"),
        Cell(duration(of.wall_ns)),
        Cell(f"{'≥ ' if of.lost_sessions else ''}{duration(of.ns)}", _note(of)),
        *(Cell(within(of.low_ns[party], of.high_ns[party], " … ")) for party in ("path", "client")),
    )


def _note(of: ServerCount) -> str:
    lost = f", without {count(of.lost_sessions, 'lost session')}" if of.lost_sessions else ""
    return f"{count(of.waits, 'wait')}, {of.wait}{lost}"


_LETTERS = 60
SECTION = Section(
    "database-counts",
    "What SQL Server counts as ASYNC_NETWORK_IO over all queries of fathom sql, by its view of the session's "
    "waits before and after them, and beside it how much of the same time was surely the path's and the "
    "client's, and how much may have been. The server counts that nobody took its bytes, and cannot tell "
    "whether the path or the client was why; what its kernel takes at once it does not count at all.",
    _table,
)
