"""Sections of the report that only some recordings call for: a table, and perhaps a chart. Whichever module
lies here, with a `SECTION`, has one; ARCHITECTURE.md ("Where to put") says what else belongs to it.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module

from fathometer.findings.model import Analysis
from fathometer.report.tables import Cell, Table
from fathometer.report.vega import Spec


@dataclass(frozen=True, slots=True)
class Extra:
    """A section as it stands in a report."""

    name: str
    """Of its anchor, and of its pictures."""
    table: Table
    note: str


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart of such a section."""

    name: str
    title: str
    note: str
    make: Callable[[Analysis, int], Spec | None]
    """For a width; None: there is nothing to draw."""


@dataclass(frozen=True, slots=True)
class Section:
    """What a module here gives."""

    name: str
    """As `Extra.name`."""
    note: str
    table: Callable[[Analysis], Table | None]
    """None: these recordings do not call for it."""
    picture: Picture | None = None


def every() -> list[Section]:
    """In the order of the modules' names."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return [import_module(f"{__name__}.{name}").SECTION for name in names]


def extras(analysis: Analysis) -> list[Extra]:
    """Those that these recordings call for."""
    return [Extra(s.name, table, s.note) for s in every() if (table := s.table(analysis)) is not None]


def pictures() -> dict[str, Picture]:
    """By section."""
    return {s.name: s.picture for s in every() if s.picture}


def table_of(caption: str, head: tuple[str, ...], rows: Sequence[tuple[Cell, ...]]) -> Table | None:
    """None: there is nothing to tell."""
    return Table(caption, head, tuple(rows)) if rows else None
