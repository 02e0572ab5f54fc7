"""Paths on which a proxy or balancer answers the handshake, or the server is slow."""

from __future__ import annotations

from fathometer.findings.finding import Finding
from fathometer.findings.model import Analysis
from fathometer.findings.words import duration
from fathometer.report.sections import Section, table_of
from fathometer.report.tables import Cell, Table


def _table(analysis: Analysis) -> Table | None:
    rows = [
        (
            Cell(f.scenario or ""),
            *(Cell(duration(f.quantities[name].value)) for name in ("connect", "shortest", "behind")),
            Cell(_whose(f)),
        )
        for f in analysis.findings
        if f.kind == "third party"
    ]
    head = ("path", "connection made in", "shortest round trip", "behind the handshake", "whose that is")
    return table_of("Handshakes that are answered nearer by", head, rows)


def _whose(f: Finding) -> str:
    return "not known: a proxy's path, or the server's time" if f.terms["server"] else "a proxy's path"


SECTION = Section(
    "between",
    "No path is shorter for a handshake than for a small message: where it is, a proxy or load balancer near "
    "by answers it, or the server takes that long for each answer. `fathom echo` in its place tells which.",
    _table,
)
