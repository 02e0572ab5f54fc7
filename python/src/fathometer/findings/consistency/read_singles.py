"""Tables of figures that name no statistic: `Latency (usec)`, a wait by packet size, throughput off and on;
when connections ended; and counts of samples that stand in a table of their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from fathometer.findings.consistency.cells import (
    COUNT_WORDS,
    PrintedNumber,
    cell,
    is_count,
    single,
    statistic,
    unit,
)
from fathometer.findings.consistency.model import Document, Ends, Grid, Ladder, StatisticsRow, TextTable

Named = Callable[[Document, str], StatisticsRow | None]
"""The row of a document that a name in another table means."""

_PLACE: Final = re.compile(r"\b(?:availability zone|zone|az|region|site|host|rack)\b", re.IGNORECASE)
_SIZE: Final = re.compile(r"^\d[\d,.]*\s*(?:[kKMG]i?)?[Bb](?:ytes?)?$")
_MOMENT: Final = re.compile(r"^\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d$")
_PACE: Final = re.compile(
    r"(\d+(?:\.\d+)?) (?:packet|sample|request|message)s? (?:per|a) second", re.IGNORECASE
)
_SPREAD: Final = re.compile(r"sd|std|stddev|±|interval|\bci\b|spread|low|high", re.IGNORECASE)
_FEWEST_ROWS: Final = 3


def read_singles(tables: Sequence[TextTable], document: Document, default_unit: str, named: Named) -> None:
    """Adds what these tables say. `named` finds the row that a name in another table means."""
    for table in tables:
        _counts(table, document, named)
    for table in tables:
        _ends(table, tables, document, named)
        if any(statistic(h) for h in table.head[1:]) or any(statistic(r[0]) for r in table.rows):
            continue
        _columns(table, document, default_unit)
        _rows(table, document, default_unit)
        _ladder(table, document)
    _grids(tables, document, default_unit)


def _name(table: TextTable, *parts: str) -> str:
    name = ", ".join(part for part in parts if part)
    return f"{table.title}: {name}" if table.title else name


def _at(row: Sequence[str], j: int) -> PrintedNumber | None:
    number = cell(row[j]) if j < len(row) else None
    return None if number is None or number.unit in {"%", "x"} or number.signed else number


def _figures(table: TextTable) -> list[int]:
    """The columns that hold single figures."""
    return [j for j, heading in enumerate(table.head) if j and single(heading)]


def _add(document: Document, row: str, number: PrintedNumber, its: str) -> None:
    document.summaries.append(StatisticsRow(row, {"single": number.value}, its))


def _columns(table: TextTable, document: Document, default_unit: str) -> None:
    columns = _figures(table)
    for row in table.rows:
        for j in columns:
            if number := _at(row, j):
                which = table.head[j] if len(columns) > 1 else ""
                its = number.unit or unit(table.head[j]) or default_unit
                _add(document, _name(table, row[0], _place_of(table, row), which), number, its)


def _rows(table: TextTable, document: Document, default_unit: str) -> None:
    """`Latency | 156.5 us | 72.9 us` under `Setting | off | on`."""
    if _figures(table):
        return
    for row in table.rows:
        if not single(row[0]):
            continue
        for j, heading in enumerate(table.head[1:], start=1):
            if number := _at(row, j):
                _add(
                    document,
                    _name(table, row[0], heading),
                    number,
                    number.unit or unit(row[0]) or default_unit,
                )


def _counts(table: TextTable, document: Document, named: Named) -> None:
    """`Baseline packets | 40,500`: how many samples a row of another table has."""
    for row in table.rows:
        number = cell(row[1]) if len(row) == 2 else None
        if number is None or number.unit or "." in number.text or not is_count(row[0]):
            continue
        whose = " ".join(w for w in row[0].split() if w.lower() not in COUNT_WORDS)
        summary = named(document, whose) if whose else None
        if summary is not None and summary.count is None:
            at = document.summaries.index(summary)
            document.summaries[at] = replace(summary, count=int(number.value))


def _ladder(table: TextTable, document: Document) -> None:
    """Figures by the size of something, as a wait by packet size."""
    for j in _figures(table):
        pairs = [(r[0], number) for r in table.rows if _SIZE.match(r[0].strip()) and (number := _at(r, j))]
        if len(pairs) >= _FEWEST_ROWS and len(pairs) == len(table.rows):
            values = tuple(number.value for _, number in pairs)
            document.ladders.append(
                Ladder(_name(table, table.head[j]), tuple(size for size, _ in pairs), values)
            )


def _place_column(table: TextTable) -> int | None:
    places = [j for j, heading in enumerate(table.head) if _PLACE.search(heading) and not single(heading)]
    return places[0] if len(places) == 1 else None


def _place_of(table: TextTable, row: Sequence[str]) -> str:
    j = _place_column(table)
    return f"{table.head[j]} {row[j]}" if j and j < len(row) else ""


def _grids(tables: Sequence[TextTable], document: Document, default_unit: str) -> None:
    """The same places measured in several ways: a table for each way, or one with a column for each place."""
    by_head: dict[tuple[tuple[str, ...], tuple[str, ...]], list[tuple[str, tuple[float, ...], str]]] = {}
    for table in tables:
        if any(_SPREAD.search(heading) for heading in table.head):
            continue
        place, columns = _place_column(table), _figures(table)
        if place is None or len(columns) != 1 or len(table.rows) < 2:
            continue
        numbers = [_at(row, columns[0]) for row in table.rows]
        values = tuple(number.value for number in numbers if number is not None)
        if len(values) == len(table.rows):
            places = tuple(f"{table.head[place]} {row[place]}" for row in table.rows if place < len(row))
            its = unit(table.head[columns[0]]) or default_unit
            by_head.setdefault((tuple(table.head), places), []).append((table.title, values, its))
    for (head, places), found in by_head.items():
        if len(found) >= _FEWEST_ROWS and len({its for _, _, its in found}) == 1:
            names = tuple(title or f"table {i}" for i, (title, _, _) in enumerate(found, 1))
            document.grids.append(
                Grid(head[-1], names, places, tuple(values for _, values, _ in found), found[0][2])
            )


def _ends(table: TextTable, tables: Sequence[TextTable], document: Document, named: Named) -> None:
    """A column of moments; ages by count and pace, where the document tells both."""
    pace = next((m for t in tables for r in t.rows for text in r if (m := _PACE.search(text))), None)
    columns = [
        j
        for j in range(1, len(table.head))
        if sum(j < len(row) and _MOMENT.match(row[j].strip()) is not None for row in table.rows) >= 2
    ]
    if pace is None or not float(pace[1]) or len(columns) != 1:
        return
    cadence, at, ages = 1 / float(pace[1]), dict[str, datetime](), dict[str, float]()
    for row in table.rows:
        if columns[0] < len(row) and _MOMENT.match(row[columns[0]].strip()):
            at[row[0]] = datetime.fromisoformat(row[columns[0]].strip())
            summary = named(document, row[0])
            if summary is not None and summary.count:
                ages[row[0]] = summary.count * cadence
    if len(at) >= 2:
        document.ends.append(Ends(_name(table, table.head[columns[0]]), at, ages, cadence))
