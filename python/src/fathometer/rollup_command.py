"""``fathometer rollup``: recordings counted by an engine that is made for many machines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fathometer import console
from fathometer.counts import count
from fathometer.errors import FathometerError

EPILOG = """\
Examples:

    fathom rollup recordings/ --output rollup/
    fathom rollup s3://bucket/recordings --engine duckdb --output rollup/ && fathom report rollup/
    MASTER=spark://head:7077 fathom rollup hdfs://data/recordings --engine spark --output rollup/

The rollup is the same, bit by bit, whichever engine makes it. `local` needs none; the others are extras:
pip install 'fathometer[duckdb]' (or clickhouse, spark).

Exit codes: 0 done; 1 no recording could be read, or the rollup could not be made; 2 wrong usage.
"""


def rollup_command(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE...",
            help="Recordings, or directories that hold some; also in an object store (s3://bucket/prefix).",
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Where the rollup goes: a new directory.")
    ],
    engine: Annotated[
        str, typer.Option(metavar="NAME", help="local, duckdb, clickhouse or spark.")
    ] = "local",
) -> None:
    """Count recordings once, into a small table that `report` reads instead of them."""
    with console.Progress() as progress:
        progress("opening recordings")
        from fathometer.dataset.rollup_writer import write_rollups
        from fathometer.opening import open_all

        opened = open_all(sources, progress, counted=engine == "local")
        recordings = tuple(r for r in opened.recordings if not r.manifest.is_client)
        applied = len(opened.recordings) - len(recordings)
        of = f"{count(applied, 'recording')} of applications under policies"
        if applied and not recordings:
            what = f"only {of}, whose tries are no samples of a path"
            raise FathometerError("make a rollup", what, "`fathom report` reads them as they are")
        if engine == "local":
            rollups = tuple(r.rollup for r in recordings)
        else:
            from fathometer.dataset.engines import roll_up

            rollups = roll_up(recordings, engine, progress)
        progress("writing")
        write_rollups(recordings, rollups, engine, output)
    if applied:
        console.say(f"{of} left out: their tries are no samples of a path")
    typer.echo(str(output))
