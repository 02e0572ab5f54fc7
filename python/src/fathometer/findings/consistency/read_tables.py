"""Tables of Markdown and CSV files."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from itertools import takewhile

from fathometer.dataset.notation import COMMA, POINT, Notation, decide
from fathometer.findings.consistency.cells import (
    PrintedNumber,
    cell,
    digits,
    in_notation,
    is_count,
    statistic,
    unit,
    words,
)
from fathometer.findings.consistency.model import Claim, Document, Printed, StatisticsRow, Steps, TextTable
from fathometer.findings.consistency.read_singles import read_singles


def read_csv(text: str, name: str, default_unit: str, decimal: str | None = None) -> Document:
    """A CSV file: a line of headings, then one row a series (or one a statistic)."""
    head = next((line for line in text.splitlines() if line.strip()), "")
    # The headings decide, because in the rows a comma may be a decimal comma.
    delimiter = next((sign for sign in ";\t|" if sign in head), ",")
    reader = csv.reader(io.StringIO(text), delimiter=delimiter, skipinitialspace=True)
    lines = [row for row in reader if any(c.strip() for c in row)]
    if len(lines) < 2:
        return Document()
    # Spreadsheets write semicolons if the comma is the decimal sign.
    return _understood(
        [TextTable(name, lines[0], lines[1:])], default_unit, decimal, COMMA if delimiter == ";" else POINT
    )


def read_markdown(text: str, default_unit: str, decimal: str | None = None) -> Document:
    """Every pipe table of a Markdown file, with the heading that it stands under."""
    tables: list[TextTable] = []
    title, block = "", list[str]()
    for line in [*text.splitlines(), ""]:
        if "|" in line and line.strip():
            block.append(line)
            continue
        if block:
            if table := _table(title, block):
                tables.append(table)
            block = []
        if match := re.match(r"#+\s+(.*)", line):
            title = match[1].strip()
    return _understood(tables, default_unit, decimal, POINT)


def _in_plain_notation(
    tables: list[TextTable], decimal: str | None, usual: str
) -> tuple[list[TextTable], str]:
    """The tables with decimal points alone, and the decision about their commas, or "".

    A column decides by its own numbers, or else as all of them do; where they leave it open, `decimal` does,
    or else `usual`.
    """
    columns = {
        (id(table), j): [digits(row[j]) for row in table.rows if j < len(row)]
        for table in tables
        for j in range(1, max(map(len, table.rows), default=0))
    }
    whole = decide(number for column in columns.values() for number in column)
    default = decimal or whole.decimal or usual
    told = ""
    notations = {}
    for place, column in columns.items():
        own = decide(column)
        if own.example is not None and own.decimal is None:
            own = Notation(default, own.example)
            told = told or f"{own.told()} (--decimal comma or point says otherwise)"
        elif own.decimal == COMMA:
            told = told or own.told() or ""
        notations[place] = own if own.decimal else Notation(default, None)
    changed = [
        replace(
            table,
            rows=[
                [row[0], *(in_notation(row[j], notations[id(table), j]) for j in range(1, len(row)))]
                for row in table.rows
            ],
        )
        for table in tables
    ]
    return changed, told


def _table(title: str, lines: list[str]) -> TextTable | None:
    cells = [[c.strip().strip("*").strip() for c in line.strip().strip("|").split("|")] for line in lines]
    # A page that was copied from a browser may break a row after its first cell.
    for i in range(len(cells) - 1, 2, -1):
        broken = len(cells[i - 1]) == 1 and not lines[i - 1].lstrip().startswith("|")
        if broken and 1 + len(cells[i]) == len(cells[0]):
            cells[i - 1 : i + 1] = [cells[i - 1] + cells[i]]
    if len(cells) < 3 or not all(re.fullmatch(r":?-+:?", c) for c in cells[1]):
        return None
    return TextTable(title, cells[0], cells[2:])


def _understood(tables: list[TextTable], default_unit: str, decimal: str | None, usual: str) -> Document:
    document = Document()
    tables, told = _in_plain_notation(tables, decimal, usual)
    document.notes += [told] if told else []
    for table in tables:
        _printed(table, document, default_unit)
        if any(statistic(h) for h in table.head[1:]):
            _rows_are_series(table, document, default_unit)
        elif sum(statistic(r[0]) is not None for r in table.rows if r) >= 2:
            _columns_are_series(table, document, default_unit)
        _changes(table, document, default_unit)
        _differences(table, document)
    # What names rows of other tables comes when all are read.
    read_singles(tables, document, default_unit, _named)
    for table in tables:
        _ratios(table, document)
    _segments_of(document)
    return document


def _printed(table: TextTable, document: Document, default_unit: str) -> None:
    for row in table.rows:
        for heading, text in zip(table.head[1:], row[1:], strict=False):
            printed = cell(text)
            if printed and "." in printed.text and not printed.signed:
                its = printed.unit or unit(heading) or unit(row[0]) or default_unit
                document.printed.append(Printed(_name(table, row[0]), printed.value, printed.text, its))


def _name(table: TextTable, series: str) -> str:
    return f"{table.title}: {series}" if table.title else series


def _summary(
    table: TextTable,
    series: str,
    numbers: dict[str, PrintedNumber],
    units: dict[str, str],
    count: int | None,
    default: str,
) -> StatisticsRow | None:
    if not numbers:
        return None
    scale = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6}
    names = {units.get(n, default) for n in numbers}
    if len(names) == 1:
        return StatisticsRow(
            _name(table, series), {n: c.value for n, c in numbers.items()}, names.pop(), count
        )
    if names <= scale.keys():
        figures = {n: c.value * scale[units.get(n, default)] for n, c in numbers.items()}
        return StatisticsRow(_name(table, series), figures, "us", count)
    return None


def _rows_are_series(table: TextTable, document: Document, default_unit: str) -> None:
    for row in table.rows:
        numbers: dict[str, PrintedNumber] = {}
        units: dict[str, str] = {}
        count = None
        for heading, text in zip(table.head[1:], row[1:], strict=False):
            number = cell(text)
            if number is None:
                continue
            name = statistic(heading)
            if name and number.unit not in {"x", "%"} and "ratio" not in heading.lower():
                numbers[name] = number
                units[name] = number.unit or unit(heading) or default_unit
            elif is_count(heading):
                count = int(number.value)
        if summary := _summary(table, row[0], numbers, units, count, default_unit):
            document.summaries.append(summary)


def _columns_are_series(table: TextTable, document: Document, default_unit: str) -> None:
    for j, series in enumerate(table.head[1:], start=1):
        numbers: dict[str, PrintedNumber] = {}
        units: dict[str, str] = {}
        count = None
        for row in table.rows:
            number = cell(row[j]) if j < len(row) else None
            if number is None:
                continue
            name = statistic(row[0])
            if name:
                numbers[name] = number
                units[name] = number.unit or unit(row[0]) or default_unit
            elif is_count(row[0]):
                count = int(number.value)
        if summary := _summary(table, series, numbers, units, count, default_unit):
            document.summaries.append(summary)


def _changes(table: TextTable, document: Document, default_unit: str) -> None:
    """A column of figures followed by one of their percent changes."""
    for j in range(2, len(table.head)):
        if not ("%" in table.head[j] and "change" in table.head[j].lower()):
            continue
        pairs = [(cell(r[j - 1]), cell(r[j])) for r in table.rows if j < len(r)]
        # A last row of prose ("Overall pattern") ends the figures.
        pairs = list(takewhile(lambda pair: pair[0] is not None, pairs))
        whole = [value for value, _ in pairs if value is not None]
        percent = [change for _, change in pairs]
        if len(whole) < 2:
            continue
        its = unit(table.head[j - 1]) or whole[0].unit or default_unit
        document.steps.append(
            Steps(
                _name(table, re.sub(r"\s*\(.*?\)\s*$", "", table.head[j - 1])),
                tuple(v.value for v in whole),
                tuple(None if p is None else p.value for p in percent),
                its,
                length=_length(table),
            )
        )


def _length(table: TextTable) -> int:
    """Samples behind a segment, from row names such as `Records 500-401` or `Last 100 records`."""
    for row in table.rows:
        if match := re.search(r"(\d+)\s*[-–]\s*(\d+)", row[0]):
            return abs(int(match[1]) - int(match[2])) + 1
    return 100


def _differences(table: TextTable, document: Document) -> None:
    """Two columns of figures, and one of their difference."""
    for j, heading in enumerate(table.head):
        if "difference" not in heading.lower() or j < 3:
            continue
        for row in table.rows:
            a, b, d = (cell(row[k]) if k < len(row) else None for k in (j - 2, j - 1, j))
            if a and b and d and a.unit == b.unit and d.unit in {a.unit, None}:
                document.claims.append(
                    Claim(
                        _name(table, row[0]),
                        "difference",
                        a.value,
                        b.value,
                        d.value,
                        max(d.step, a.step),
                        a.unit or "",
                    )
                )


def _ratios(table: TextTable, document: Document) -> None:
    """Rows such as `Cross-AZ vs Baseline | ~2.1x`, by the means of the rows that they name."""
    for row in table.rows:
        named = re.split(r"\s+(?:vs\.?|versus|/|against)\s+", row[0], maxsplit=1)
        if len(named) != 2:
            continue
        b, a = (_mean_of(document, name) for name in named)
        for text in row[1:]:
            printed = cell(text)
            if printed and printed.unit == "x" and a is not None and b is not None:
                document.claims.append(
                    Claim(_name(table, row[0]), "ratio", a, b, printed.value, printed.step)
                )


def _mean_of(document: Document, name: str) -> float | None:
    summary = _named(document, name)
    return summary.figures.get("mean") if summary else None


def _named(document: Document, name: str) -> StatisticsRow | None:
    wanted = set(words(name.replace("-", " "))) - {"test", "scenario"}
    fitting = [
        s
        for s in document.summaries
        if wanted and wanted <= set(words(s.row.rpartition(": ")[2].replace("-", " ")))
    ]
    return fitting[0] if len(fitting) == 1 else None


def _segments_of(document: Document) -> None:
    """Ties series of segments to the summary of the same name."""
    for i, one in enumerate(document.steps):
        summary = _named(document, one.row.rpartition(": ")[2])
        if summary:
            document.steps[i] = Steps(one.row, one.values, one.percent, one.unit, summary.row, one.length)
