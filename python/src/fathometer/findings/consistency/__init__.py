"""`fathom check`: do the figures of a table hold together?

A law is either mathematical (no series can break it: *impossible*) or a matter of experience (*implausible*).
"""

from __future__ import annotations

import tomllib
from pathlib import PurePath

from fathometer.errors import FathometerError
from fathometer.findings.consistency.laws import LAWS
from fathometer.findings.consistency.model import Document, Remark, StatisticsRow
from fathometer.findings.consistency.read_tables import read_csv, read_markdown
from fathometer.findings.consistency.read_toml import read_toml
from fathometer.findings.consistency.relations import relations

__all__ = ["Document", "Remark", "StatisticsRow", "check", "read", "remarks"]


def read(text: str, name: str, default_unit: str = "us") -> Document:
    """The figures of a file's text; its kind is told by its name (.toml, .csv, .tsv; anything else is taken
    for Markdown).
    """
    suffix = PurePath(name).suffix.lower()
    if suffix == ".toml":
        try:
            return read_toml(text, default_unit)
        except tomllib.TOMLDecodeError as error:
            raise FathometerError("check", f"{name}: {error}", "mend the TOML") from error
    if suffix in {".csv", ".tsv"}:
        return read_csv(text, PurePath(name).stem, default_unit)
    return read_markdown(text, default_unit)


def remarks(document: Document) -> tuple[Remark, ...]:
    """Every law held against every row; a row that breaks none of its own gets one "ok"."""
    every: list[Remark] = []
    for summary in document.summaries:
        broken = [remark for law in LAWS for remark in law(summary)]
        if not broken:
            laws = (
                "order, mean, spread and count hold together"
                if len(summary.figures) > 1
                else "a single figure"
            )
            broken = [Remark(summary.row, "statistics of one series", "ok", laws)]
        every += broken
    every += relations(document)
    return tuple(every)


def check(text: str, name: str, default_unit: str = "us") -> tuple[Remark, ...]:
    """Reads and checks a table."""
    document = read(text, name, default_unit)
    if document.empty():
        raise FathometerError(
            "check",
            f"{name}: no table of statistics in it",
            "give a CSV, TOML or Markdown table whose headings name statistics (min, mean, p50, p95, "
            "p99, max, sd, count)",
        )
    return remarks(document)
