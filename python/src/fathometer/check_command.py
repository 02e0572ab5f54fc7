"""``fathometer check``: whether the figures of a table hold together."""

from __future__ import annotations

import csv
import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from fathometer import console
from fathometer.clean import all_cleaned, cleaned
from fathometer.decimal_sign import Decimals, sign_of
from fathometer.errors import ExitCode, FathometerError

EPILOG = """\
Examples:

    fathom check results.csv --unit ms
    fathom check README.md
    pbpaste | fathom check - --json

The table's headings name statistics (min, mean, p50, p95, p99, p99.9, max, sd, count), or what was measured
(latency, rtt, throughput, wait) where there is one figure of each. A unit in a heading counts before --unit.
Also read: ratios, differences and percent changes beside their figures, segments of a series, when
connections ended, figures by size or by place.

Exit codes: 0 nothing impossible; 1 something is impossible, or the table cannot be read; 2 wrong usage.
"""


_MOST: Final = 16 << 20
"""Bytes of a table that is looked at: of printed figures nobody has more."""


class Unit(StrEnum):
    """Of figures whose table names none."""

    NS = "ns"
    US = "us"
    MS = "ms"
    S = "s"


def check_command(
    table: Annotated[
        str, typer.Argument(metavar="TABLE", help="A CSV, TOML or Markdown file, or - for any of them.")
    ],
    machine: Annotated[bool, typer.Option("--json", help="JSON instead of a table.")] = False,
    unit: Annotated[
        Unit, typer.Option(metavar="UNIT", help="Unit of figures that name none: ns, us, ms or s.")
    ] = Unit.US,
    decimal: Decimals = None,
) -> None:
    """Hold a table of statistics against the laws that it must obey."""
    from fathometer.findings.consistency import remarks as remarks_of
    from fathometer.findings.consistency import understood

    try:
        document = understood(_text(table), table, unit.value, sign_of(decimal))
        remarks = remarks_of(document)
    except (ArithmeticError, LookupError, TypeError, ValueError, RecursionError, csv.Error) as error:
        raise FathometerError(
            "check",
            f"{table}: it is not understood ({type(error).__name__}: {str(error)[:200]})",
            "check that it is a table of figures",
        ) from error
    for note in document.notes:
        console.say(note)
    if machine:
        from fathometer.report.as_json import remark_as_json

        told = all_cleaned([remark_as_json(r) for r in remarks])
        typer.echo(json.dumps(told, indent=1, ensure_ascii=False))
    else:
        from rich.table import Table

        shown = Table("row", "law", "verdict", "explanation", box=None, pad_edge=False)
        shown.columns[0].max_width = 40
        colours = {"impossible": "red", "implausible": "yellow", "ok": "green"}
        for r in remarks:
            words = (cleaned(text) for text in (r.row, r.law, r.verdict, r.explanation))
            shown.add_row(*words, style=colours[r.verdict])
        console.tables().print(shown)
    if any(r.verdict == "impossible" for r in remarks):
        raise typer.Exit(ExitCode.FAILED)


def _text(table: str) -> str:
    try:
        if table == "-":
            data = sys.stdin.buffer.read(_MOST + 1)
        else:
            with Path(table).open("rb") as file:
                data = file.read(_MOST + 1)
        if len(data) > _MOST:
            raise FathometerError(
                "check", f"{table}: it is larger than {_MOST >> 20} MiB", "check a part of it"
            )
        return data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except OSError as error:
        raise FathometerError("check", f"{table}: {error.strerror}", "check the path") from None
    except UnicodeDecodeError:
        raise FathometerError("check", f"{table}: it is no text in UTF-8", "save it as UTF-8") from None
