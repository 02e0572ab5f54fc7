"""TOML files of published figures: tables of statistics, segments, settings and grids, as in our reference
data.
"""

from __future__ import annotations

import re
import tomllib
from datetime import datetime
from typing import Any

from fathometer.findings.consistency.cells import UNIT_WORDS, statistic
from fathometer.findings.consistency.model import (
    Document,
    Ends,
    Grid,
    Ladder,
    Printed,
    StatisticsRow,
    Steps,
)

_NAMES = ("scenario", "label", "name", "row")
_DISPERSION = {"sd", "low", "high", "interval", "ci", "spread"}


class _Shown(float):
    """A number that remembers its digits."""

    text: str

    def __new__(cls, text: str) -> _Shown:
        shown = super().__new__(cls, text)
        shown.text = text
        return shown


def read_toml(text: str, default_unit: str) -> Document:
    """Reads all that is understood, wherever it stands; what is not is left alone. Raises
    `tomllib.TOMLDecodeError`.
    """
    document = Document()
    _walk("", tomllib.loads(text, parse_float=_Shown), document, default_unit)
    return document


def _walk(path: str, table: dict[str, Any], document: Document, default_unit: str) -> None:
    unit = _unit(path) or default_unit
    rows = [r for key in ("rows", "row", "summary") for r in _tables(table.get(key))]
    if (
        not rows
        and any(statistic(k) for k in table)
        and all(_is_number(v) for k, v in table.items() if statistic(k))
    ):
        # A table that is itself one row.
        _summary(path, table, document, unit)
    for row in rows:
        _summary(_joined(path, _named(row)), row, document, unit)
    if "pacing" in table or rows:
        _ends(path, table, rows, document)
    numbers = {k: v for k, v in table.items() if _is_number(v)}
    if _unit(path):
        _settings(path, numbers, document, unit)
    _grid(path, table, document, unit)
    for key, value in table.items():
        if not isinstance(value, dict):
            if _is_number(value) and (own := _unit(key)):
                document.printed.append(Printed(_joined(path, key), float(value), _text(value), own))
            continue
        here = _joined(path, key)
        series = next((k for k in ("mean", "values", "p50") if isinstance(value.get(k), list)), None)
        if series and all(_is_number(v) for v in value[series]):
            parent = path.rpartition(".")[0]
            _steps(here, value, series, document, unit, of=_joined(parent, key))
            continue
        _walk(here, value, document, default_unit)


def _tables(value: object) -> list[dict[str, Any]]:
    return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []


def _named(row: dict[str, Any]) -> str:
    return next((str(row[n]) for n in _NAMES if n in row), "row")


def _joined(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _text(value: float) -> str:
    return value.text if isinstance(value, _Shown) else str(value)


def _unit(path: str) -> str | None:
    """The unit in the last part of a name: `latency_us`, `overhead_ms_as_printed`."""
    for part in path.rpartition(".")[2].lower().split("_")[1:]:
        if part in UNIT_WORDS:
            return UNIT_WORDS[part]
    return None


def _summary(row: str, table: dict[str, Any], document: Document, unit: str) -> None:
    figures: dict[str, float] = {}
    for key, value in table.items():
        name = statistic(key)
        if name and _is_number(value):
            figures[name] = float(value)
            if isinstance(value, _Shown):
                document.printed.append(Printed(row, float(value), value.text, _unit(key) or unit))
    count = table.get("count", table.get("samples"))
    if figures:
        document.summaries.append(
            StatisticsRow(row, figures, unit, count if isinstance(count, int) else None)
        )


def _steps(row: str, table: dict[str, Any], series: str, document: Document, unit: str, of: str) -> None:
    values = tuple(float(v) for v in table[series])
    change = table.get("change", table.get("change_percent", []))
    printed: list[float | None] = [float(c) for c in change if _is_number(c)]
    if len(printed) == len(values) - 1:
        printed.insert(0, None)
    if len(printed) != len(values):
        printed = [None] * len(values)
    length = table.get("length", 100)
    document.steps.append(
        Steps(row, values, tuple(printed), unit, of, length if isinstance(length, int) else 100)
    )


def _settings(path: str, numbers: dict[str, Any], document: Document, unit: str) -> None:
    for key, value in numbers.items():
        document.printed.append(Printed(_joined(path, key), float(value), _text(value), unit))
    if len(numbers) >= 3:
        document.ladders.append(Ladder(path, tuple(numbers), tuple(float(v) for v in numbers.values())))


def _grid(path: str, table: dict[str, Any], document: Document, unit: str) -> None:
    arrays = {
        k: v
        for k, v in table.items()
        if isinstance(v, list) and len(v) >= 2 and all(_is_number(x) for x in v)
    }
    places = next((k for k, v in arrays.items() if all(isinstance(x, int) for x in v)), None)
    rows = {k: v for k, v in arrays.items() if k != places and any(isinstance(x, float) for x in v)}
    lengths = {len(v) for v in rows.values()}
    if len(rows) < 3 or len(lengths) != 1:
        return
    width = lengths.pop()
    names = (
        tuple(f"{places.rstrip('s')} {x}" for x in arrays[places])
        if places
        else tuple(str(i + 1) for i in range(width))
    )
    if len(names) != width:
        return
    dispersion = bool(_DISPERSION & {part for k in table for part in k.split("_")})
    document.grids.append(
        Grid(
            path,
            tuple(rows),
            names,
            tuple(tuple(float(x) for x in v) for v in rows.values()),
            unit,
            dispersion,
        )
    )


def _ends(path: str, table: dict[str, Any], rows: list[dict[str, Any]], document: Document) -> None:
    """A sub-table of moments, with ages by count and pace where both are told."""
    pace = re.search(r"(\d+(?:\.\d+)?)\s*hz", str(table.get("pacing", "")).lower())
    for key, value in table.items():
        if (
            not isinstance(value, dict)
            or len(value) < 2
            or not all(isinstance(v, datetime) for v in value.values())
        ):
            continue
        cadence = 1 / float(pace[1]) if pace else 1.0
        counts = {_named(r): r.get("count") for r in rows}
        ages = {n: c * cadence for n in value if pace and isinstance(c := counts.get(n), int)}
        document.ends.append(Ends(_joined(path, key), dict(value), ages, cadence))
