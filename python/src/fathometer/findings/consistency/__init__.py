"""`fathom check`: do the figures of a table hold together?

A law is either mathematical (no series can break it: *impossible*) or a matter of experience (*implausible*).
"""

from __future__ import annotations

import re
import tomllib
from pathlib import PurePath

from fathometer.errors import FathometerError
from fathometer.findings.consistency.laws import LAWS
from fathometer.findings.consistency.model import Document, Remark, StatisticsRow
from fathometer.findings.consistency.read_tables import read_csv, read_markdown
from fathometer.findings.consistency.read_toml import read_toml
from fathometer.findings.consistency.relations import relations

__all__ = ["Document", "Remark", "StatisticsRow", "check", "read", "remarks", "understood"]


def read(text: str, name: str, default_unit: str = "us", decimal: str | None = None) -> Document:
    """The figures of a file's text. Its name says what it is (.toml, .csv, .tsv; anything else is Markdown);
    of what comes by a pipe (`-`) the text does. `decimal` stands before decimals where the numbers leave it
    open.
    """
    suffix = _suffix(text) if name == "-" else PurePath(name).suffix.lower()
    if suffix == ".toml":
        try:
            return read_toml(text, default_unit)
        except tomllib.TOMLDecodeError as error:
            raise FathometerError("check", f"{name}: {error}", "mend the TOML") from error
    if suffix in {".csv", ".tsv"}:
        return read_csv(text, "" if name == "-" else PurePath(name).stem, default_unit, decimal)
    return read_markdown(text, default_unit, decimal)


_RULE = re.compile(r"^\s*\|?\s*:?-+:?\s*(?:\|\s*:?-*:?\s*)+$", re.MULTILINE)
"""The line beneath the headings of a table of Markdown."""


def _suffix(text: str) -> str:
    """What a text without a name is: Markdown where a table is ruled, TOML where it reads as such, CSV where
    its first line has several cells.
    """
    if _RULE.search(text):
        return ".md"
    try:
        return ".toml" if tomllib.loads(text) else ".md"
    except tomllib.TOMLDecodeError:
        first = next((line for line in text.splitlines() if line.strip()), "")
        return ".csv" if re.search(r"[,;\t|]", first) else ".md"


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


def understood(text: str, name: str, default_unit: str = "us", decimal: str | None = None) -> Document:
    """As `read`; raises `FathometerError` where there is no figure."""
    document = read(text, name, default_unit, decimal)
    if document.empty():
        raise FathometerError(
            "check",
            f"{name}: no table of statistics in it",
            "give a CSV, TOML or Markdown table whose headings name statistics (min, mean, p50, p95, "
            "p99, max, sd, count) or what was measured (latency, throughput)",
        )
    return document


def check(text: str, name: str, default_unit: str = "us") -> tuple[Remark, ...]:
    """Reads and checks a table."""
    return remarks(understood(text, name, default_unit))
