"""``fathometer changes``: when a series of round trips became different."""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fathometer import console
from fathometer.clean import cleaned
from fathometer.counts import count
from fathometer.decimal_sign import Decimals
from fathometer.errors import ExitCode, FathometerError
from fathometer.import_command import (
    Dates,
    Delimiter,
    Offset,
    RttColumn,
    RttUnit,
    TimeColumn,
    Unanswered,
    Zone,
    options_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from fathometer.dataset.importers import Options
    from fathometer.dataset.model import Manifest
    from fathometer.dataset.recording import Recording
    from fathometer.stats.changes import Examined

EPILOG = """\
Examples:

    fathom changes recordings/same-zone
    fathom changes trace.csv --time epoch --rtt rtt --unit ms --delimiter ';' --missing negative --json
    fathom changes recordings/same-zone --follow
    cut -d, -f2 rtts.csv | fathom changes - --unit us

A file may also hold nothing but round trips, one a line; it then needs --unit.

Exit codes: 0 done, whether or not there are changes; 1 it cannot be read; 2 wrong usage.
"""


@dataclass(frozen=True, slots=True)
class _Series:
    rtt_ns: NDArray[np.float64]
    at_ns: NDArray[np.int64] | None
    note: str | None = None
    of: Recording | None = None
    """The recording of the series, or its first one."""
    medians: bool = False
    """True if the recording has too many samples to keep each one."""


def changes_command(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="Recordings in a directory (also in an object store), a CSV file of round trips, or -.",
        ),
    ],
    machine: Annotated[
        bool, typer.Option("--json", help="JSON instead of a table; with --follow an object a line.")
    ] = False,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow",
            help="Watch a recording that is being written, or the newest of each path in a directory: tell "
            "each change of level once the samples after it confirm it, until the run ends or Ctrl-C.",
        ),
    ] = False,
    time: TimeColumn = None,
    rtt: RttColumn = None,
    unit: RttUnit = None,
    delimiter: Delimiter = ",",
    missing: Unanswered = None,
    timezone: Zone = "UTC",
    utc_offset: Offset = None,
    date_order: Dates = None,
    decimal: Decimals = None,
) -> None:
    """Find when the level or the tail of round trips changed."""
    if follow:
        _follow(Path(source), machine=machine)
        return
    options = options_of(
        time=time,
        rtt=rtt,
        unit=unit,
        delimiter=delimiter,
        missing=missing,
        timezone=timezone,
        date_order=date_order,
        decimal=decimal,
        utc_offset=utc_offset,
    )
    with console.Progress() as progress:
        progress("reading")
        every = _read(source, options)
        progress("looking for changes")
        examined = [_examined(series) for series in every]
    for series, found in zip(every, examined, strict=True):
        name = f"{series.of.directory}: " if series.of and len(every) > 1 else ""
        if series.note:
            console.say(f"{name}{series.note}")
        for open_ in found.undecided:
            console.say(f"{name}not decided: {open_.reason}")
    if machine:
        named = zip(every, examined, strict=True)
        changes = [c for s, e in named for c in _as_json(e, s.of if len(every) > 1 else None)]
        typer.echo(json.dumps(changes, indent=1, allow_nan=False))
        return
    for series, found in zip(every, examined, strict=True):
        if series.of and len(every) > 1:
            typer.echo(cleaned(f"{series.of.directory}:"))
        _print(found)


def _examined(series: _Series) -> Examined:
    from fathometer.stats.changes import Examined, examine

    if not len(series.rtt_ns):
        return Examined((), ())
    examined = examine(series.rtt_ns, at_ns=series.at_ns)
    if series.of is None or not series.medians:
        return examined
    from fathometer.dataset.selection import ALL
    from fathometer.findings import shifts

    return shifts.placed_among_samples(series.of, ALL, examined)


def _follow(directory: Path, *, machine: bool) -> None:
    from fathometer.changes_follow import follow, followed
    from fathometer.findings.words import duration, moment, signed_change
    from fathometer.report.as_json import change_as_json

    if not directory.is_dir():
        raise FathometerError(
            "follow changes",
            f"{directory} is no recording's directory",
            "name what `fathom probe --record` writes into",
            exit_code=ExitCode.USAGE,
        )
    every = followed(directory)
    if len(every) > 1:
        console.say(f"following {', '.join(str(one.directory) for one in every)}")
    for one, c in follow(every):
        if machine:
            of = _named(one.manifest) if len(every) > 1 else {}
            line = json.dumps({**of, **change_as_json(c)}, allow_nan=False)
        else:
            by = signed_change(c.before_ns, c.after_ns)
            when = moment(c.at_ns) if c.at_ns is not None else ""
            label = f"{one.manifest.label}: " if len(every) > 1 else ""
            line = (
                f"{when}  {label}level {duration(c.before_ns)} -> {duration(c.after_ns)} ({by}), "
                f"confidence {c.confidence:.2f}"
            )
        typer.echo(cleaned(line))
        sys.stdout.flush()


def _as_json(examined: Examined, of: Recording | None) -> list[dict[str, object]]:
    from fathometer.report.as_json import change_as_json

    named = _named(of.manifest) if of else {}
    return [{**named, **change_as_json(c)} for c in examined.changes]


def _named(manifest: Manifest) -> dict[str, object]:
    """The fields that name the recording of a change, as in the report."""
    return {"recording": manifest.id, "scenario": manifest.label}


def _print(examined: Examined) -> None:
    from rich.table import Table

    from fathometer.findings.words import duration, moment, signed_change

    if not examined.changes:
        typer.echo("no change found")
        return
    table = Table("sample", "at", "kind", "before", "after", "by", "confidence", box=None, pad_edge=False)
    for c in examined.changes:
        by = signed_change(c.before_ns, c.after_ns)
        at = moment(c.at_ns) if c.at_ns is not None else ""
        table.add_row(
            f"{c.index:,}", at, c.kind, duration(c.before_ns), duration(c.after_ns), by, f"{c.confidence:.2f}"
        )
    console.tables().print(table)


def _read(source: str, options: Options) -> list[_Series]:
    from fathometer.dataset.places import is_url

    if source != "-":
        if is_url(source):
            return _recordings(source)
        path = Path(source)
        if not path.exists():
            raise FathometerError("find changes", f"{path} does not exist", "check the path")
        return _recordings(source) if path.is_dir() else [_file(path, options)]
    from fathometer.dataset.importers.reading import MOST

    # The readers of tables want a file; a pipe cannot be read twice.
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "standard-input.csv"
        path.write_bytes(sys.stdin.buffer.read(MOST + 1))  # One more than is read of a file.
        return [_file(path, options)]


def _recordings(path: str) -> list[_Series]:
    """The series of each run in a directory, in order of their start; a rotated run is one series."""
    from fathometer.dataset import open_recordings
    from fathometer.dataset.runs import runs
    from fathometer.findings import shifts
    from fathometer.opening import once_and_told

    every: list[_Series] = []
    for run in runs(once_and_told(open_recordings([path]))):
        for one in run:
            _refuse_unlike(one)
        if all(one.source is not None for one in run) and sum(one.rows for one in run) <= shifts.RAW:
            every.append(_joined(run))
        else:
            every += [_medians(one) for one in run]
    return every


def _refuse_unlike(recording: Recording) -> None:
    """Raises `FathometerError` if a recording's samples are not one series of round trips."""
    from fathometer.changes_follow import refuse_applications
    from fathometer.findings.parts import parts

    refuse_applications(recording.manifest, "find changes")
    apart = parts(recording)
    if len(apart) > 1:
        names = "; ".join(dict.fromkeys(f"{p.key.name}, {p.key.pacing}" for p in apart))
        raise FathometerError(
            "find changes",
            f"{recording.directory} holds samples that are never pooled ({names})",
            "`fathom report` tells the changes of each",
        )


def _joined(run: Sequence[Recording]) -> _Series:
    import numpy as np

    from fathometer.dataset import raw

    samples = [raw.samples(one) for one in run]
    values, at = (
        np.concatenate(part) for part in zip(*((s.value_ns, s.sent_ns) for s in samples), strict=True)
    )
    return _Series(values, at, of=run[0])


def _medians(recording: Recording) -> _Series:
    from fathometer.findings import shifts

    values, at = shifts.series(recording)
    if recording.source is not None and recording.rows <= shifts.RAW:
        return _Series(values, at, of=recording)
    of, medians = count(recording.rows, "sample"), count(len(values), "median")
    note = f"{of} are too many to look at each: `sample` counts {medians}"
    return _Series(values, at, note, recording, medians=True)


def _file(path: Path, options: Options) -> _Series:
    import numpy as np

    from fathometer.dataset import importers

    if options.rtt is None:
        plain = _plain(path, options)
        if plain is not None:
            return plain
    if options.rtt is not None and options.time is None:
        return _untimed(path, options)
    imported = importers.read(path, options)
    if len(imported.series) != 1:
        has = f"{len(imported.series)} series of samples"
        raise FathometerError("find changes", f"{path} has {has}", "import it and name one recording")
    (series,) = imported.series
    note = "; ".join(series.notes) or None
    return _Series(np.where(series.answered, series.rtt_ns.astype(np.float64), np.nan), series.sent_ns, note)


def _plain(path: Path, options: Options) -> _Series | None:
    """Nothing but numbers, one a line, perhaps under a heading. An empty line is an unanswered sample."""
    import numpy as np

    from fathometer.dataset.importers.base import UNITS, unit_word
    from fathometer.dataset.importers.reading import contents
    from fathometer.dataset.notation import decided

    try:
        lines = contents(path).decode().splitlines()
    except UnicodeDecodeError:
        return None
    cells = [line.strip() for line in lines]
    where = "standard input" if path.name == "standard-input.csv" else str(path)
    notation = decided(cells, given=options.decimal, where=where, operation="find changes")
    cells = [notation.plain(cell) for cell in cells]
    if cells and not _number(cells[0]):
        cells = cells[1:]
    if not any(cells) or not all(_number(c) for c in cells if c):
        return None
    if options.unit is None:
        raise FathometerError(
            "find changes",
            f"{path}: no unit is given for its numbers",
            "add --unit ms (or s, us, ns)",
            exit_code=ExitCode.USAGE,
        )
    scale = 10 ** UNITS[unit_word(options.unit)]
    values = _durations(path, [float(c) * scale if c else np.nan for c in cells])
    notes = ["negative numbers count as unanswered"] if (values < 0).any() else []
    notes += [told] if (told := notation.told()) else []
    return _Series(np.where(values < 0, np.nan, values), None, "; ".join(notes) or None)


def _durations(path: Path, values: list[float]) -> NDArray[np.float64]:
    """As an array; raises `FathometerError` where one is none."""
    import numpy as np

    array = np.array(values, dtype=np.float64)
    longest = float(np.nanmax(np.abs(array), initial=0.0))
    if longest >= 1 << 63:
        raise FathometerError(
            "find changes", f"{path}: a round trip is more than 292 years", "check the file and its --unit"
        )
    return array


def _number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _untimed(path: Path, options: Options) -> _Series:
    """A column of round trips in order of sending, without times."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    from fathometer.dataset.importers.base import File, exact, read_csv, unit_word
    from fathometer.dataset.importers.generic import in_plain_notation

    file, notes = File(path), list[str]()
    columns = read_csv(file, 0, delimiter=options.delimiter, notes=notes)
    if options.rtt not in columns:
        raise FathometerError(
            "find changes",
            f"{path}: there is no column {options.rtt!r}",
            f"name one of {', '.join(columns)} with --rtt",
            exit_code=ExitCode.USAGE,
        )
    if options.unit is None:
        raise FathometerError(
            "find changes",
            f"{path}: no unit is given",
            "add --unit ms (or s, us, ns)",
            exit_code=ExitCode.USAGE,
        )
    cells = in_plain_notation(columns[options.rtt], columns, options, file, notes, options.rtt)
    cells = pc.if_else(pc.is_in(cells, value_set=pa.array(options.missing, pa.string())), "", cells)
    rtt, known = exact(cells, unit_word(options.unit), what=f"column {options.rtt}", file=file)
    lost = ~known | (rtt < 0)
    if "zero" in options.missing:
        lost |= rtt == 0
    return _Series(np.where(lost, np.nan, rtt.astype(np.float64)), None, "; ".join(notes) or None)
