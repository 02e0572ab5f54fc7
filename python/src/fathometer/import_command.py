"""``fathometer import``: another tool's output into recordings and summaries."""

from __future__ import annotations

import re
from datetime import UTC, timedelta, tzinfo
from datetime import timezone as fixed
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import typer

from fathometer import console
from fathometer.counts import count
from fathometer.decimal_sign import Decimals, DecimalSign, sign_of
from fathometer.errors import ExitCode, FathometerError

if TYPE_CHECKING:
    from fathometer.dataset.importers import Options

EPILOG = """\
Examples:

    fathom import samples.csv --record same-zone
    fathom import sockperf full.log --record idle --started-at 2026-01-02T03:04:05Z
    fathom import csv trace.csv --time epoch --rtt rtt --unit ms --delimiter ';' --missing negative \
--record atlas
    fathom import csv log.csv --time when --rtt rtt_ms --date-order dmy --timezone Europe/Berlin

Tools: echo-client, sockperf, iperf3, irtt, flent, ethr, latte (and lagscope), psping, qperf, netperf, neper,
ping, fping, csv.
"""


# What a table's columns mean: `fathometer changes` takes the same.
TimeColumn = Annotated[str | None, typer.Option(metavar="COLUMN", help="csv: the time of sending.")]
RttColumn = Annotated[str | None, typer.Option(metavar="COLUMN", help="csv: the round trip.")]
RttUnit = Annotated[
    str | None, typer.Option(metavar="UNIT", help="csv: unit of the round trip: s, ms, us, ns.")
]
Delimiter = Annotated[str, typer.Option(metavar="CHARACTER", help="csv: what stands between two cells.")]
Unanswered = Annotated[
    list[str] | None,
    typer.Option(metavar="WHAT", help="csv: what means unanswered: negative, zero, or a cell; repeatable."),
]


class DateOrder(StrEnum):
    """Of dates such as 03/04/2026."""

    DMY = "dmy"
    MDY = "mdy"
    YMD = "ymd"


Dates = Annotated[
    DateOrder | None,
    typer.Option(
        "--date-order",
        metavar="ORDER",
        help="csv: how 3.4.2026 or 3/4/2026 is meant, where the column leaves it open: dmy, mdy or ymd.",
    ),
]
Zone = Annotated[str, typer.Option(metavar="ZONE", help="Zone of dates that name none.")]
Offset = Annotated[
    str | None,
    typer.Option(
        "--utc-offset",
        metavar="OFFSET",
        help="Distance from UTC of dates that name no zone, as +02:00; with --timezone only of those that "
        "exist twice, when daylight saving ends.",
    ),
]


def import_command(
    source: Annotated[
        list[str],
        typer.Argument(
            metavar="[TOOL] FILE...", help="What to bring in; the tool is recognised unless named."
        ),
    ],
    record: Annotated[
        Path | None, typer.Option("--record", metavar="DIR", help="Write it here [default: the file's name].")
    ] = None,
    label: Annotated[
        str | None, typer.Option(metavar="NAME", help="The scenario's name [default: the file's name].")
    ] = None,
    time: TimeColumn = None,
    rtt: RttColumn = None,
    unit: RttUnit = None,
    delimiter: Delimiter = ",",
    missing: Unanswered = None,
    started_at: Annotated[
        str | None, typer.Option(metavar="TIME", help="When it began, for tools with relative times.")
    ] = None,
    size: Annotated[
        int | None,
        typer.Option(metavar="BYTES", min=1, help="Payload bytes each way, where the file does not say."),
    ] = None,
    timezone: Zone = "UTC",
    utc_offset: Offset = None,
    date_order: Dates = None,
    decimal: Decimals = None,
) -> None:
    """Bring another tool's output in, as a recording, or as a summary where it has no samples."""
    from fathometer.dataset import importers, write  # Only who imports pays for them.

    named = source[0] in importers.REGISTRY and (len(source) > 1 or not Path(source[0]).exists())
    tool = source[0] if named else None
    files = [Path(s) for s in (source[1:] if named else source)]
    if not files:
        raise FathometerError("import", f"{tool} names no file", "add one", exit_code=ExitCode.USAGE)
    options = options_of(
        label=label,
        started_at=started_at,
        size=size,
        timezone=timezone,
        time=time,
        rtt=rtt,
        unit=unit,
        delimiter=delimiter,
        missing=missing,
        date_order=date_order,
        decimal=decimal,
        utc_offset=utc_offset,
    )
    for file in files:
        imported = importers.read(file, options, tool=tool)
        where = _target(record, file, len(files))
        for directory in write.write_imported(imported, where):
            console.tell(str(directory))
        for one in imported.series:
            lost = int((~one.answered).sum())
            unanswered = f", {lost} unanswered" if lost else ""
            console.tell(
                f"{imported.tool}: {one.label}: {count(one.sent_ns.size, 'sample')}{unanswered}", err=True
            )
            _tell(one.notes)
        for summary in imported.summaries:
            console.tell(f"{imported.tool}: {summary.label}: a summary without samples", err=True)
            _tell((*summary.notes, *summary.cannot))


def options_of(
    *,
    time: str | None,
    rtt: str | None,
    unit: str | None,
    delimiter: str,
    missing: list[str] | None,
    timezone: str,
    utc_offset: str | None = None,
    date_order: DateOrder | None = None,
    decimal: DecimalSign | None = None,
    label: str | None = None,
    started_at: str | None = None,
    size: int | None = None,
) -> Options:
    """What the command line says of a table, checked; `fathometer changes` takes the same."""
    from fathometer.dataset import importers

    if unit is not None:
        _unit(unit)
    offset = _offset(utc_offset)
    return importers.Options(
        label=label,
        started_ns=_time(started_at),
        size=size,
        zone=fixed(offset) if offset is not None and timezone == "UTC" else _zone(timezone),
        offset=offset,
        decimal=sign_of(decimal),
        date_order=date_order and date_order.value,
        time=time,
        rtt=rtt,
        unit=unit,
        delimiter=_delimiter(delimiter),
        missing=tuple(missing or ()),
    )


def _tell(notes: tuple[str, ...]) -> None:
    for note in notes:
        console.tell(f"  note: {note}", err=True)


def _target(record: Path | None, file: Path, files: int) -> Path:
    name = file.name.split(".")[0] or file.name
    if record is None:
        # Beside nothing of the user's: the working directory, as `fathom probe --record` has it.
        return Path(name) if Path(name).resolve() != file.resolve() else Path(f"{name}-imported")
    return record / name if files > 1 else record


def _usage(option: str, value: str, remedy: str) -> FathometerError:
    return FathometerError(
        "import", f"{option} {value!r} is not understood", remedy, exit_code=ExitCode.USAGE
    )


def _time(text: str | None) -> int | None:
    from fathometer.dataset import parse_utc

    try:
        return None if text is None else parse_utc(text)
    except ValueError:
        raise _usage("--started-at", str(text), "write it as 2026-01-02T03:04:05Z") from None


def _offset(text: str | None) -> timedelta | None:
    if text is None:
        return None
    match = re.fullmatch(r"([+-])(\d{1,2})(?::?([0-5]\d))?", text)
    if match is None or int(match[2]) > 14:
        raise _usage("--utc-offset", text, "write it as +02:00")
    size = timedelta(hours=int(match[2]), minutes=int(match[3] or 0))
    return -size if match[1] == "-" else size


def _zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        raise _usage("--timezone", name, "name one as Europe/London") from None


def _delimiter(text: str) -> str:
    delimiter = {"\\t": "\t", "tab": "\t"}.get(text, text)
    if len(delimiter) != 1:
        raise _usage("--delimiter", text, "give one character, or tab")
    return delimiter


def _unit(text: str) -> None:
    from fathometer.dataset.importers.base import unit_word

    try:
        unit_word(text)
    except ValueError:
        raise _usage("--unit", text, "use s, ms, us or ns") from None
