"""``fathometer demo``."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import typer

from fathometer import console
from fathometer.errors import ExitCode, FathometerError

EPILOG: Final = """\
Examples:

    fathom demo                      an emulated region, twelve paths, a live migration: about two minutes
    fathom demo --quick --no-open    the same story in half a minute, with wider intervals
    fathom demo --for 10m -o map     more samples, narrower intervals, in ./map

It needs root or user namespaces, and /dev/net/tun; without them it measures loopback, and says so.
What it leaves: DIR/report.html, DIR/recordings, and the study and network files that it ran, to change and
run again.

Exit codes: 0 done; 1 it could not be finished; 2 wrong usage.
"""


def demo_command(
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="A new directory [default: demo-output/UTCTIME]."),
    ] = None,
    length: Annotated[
        str, typer.Option("--for", metavar="DURATION", help="How long to measure, from 20s [default: 90s].")
    ] = "",
    quick: Annotated[bool, typer.Option("--quick", help="Measure for 24 s.")] = False,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open the report on a desktop.")] = False,
    fathom: Annotated[
        Path | None,
        typer.Option(
            "--fathom", metavar="FILE", help="The fathom binary [default: beside python, then PATH]."
        ),
    ] = None,
) -> None:
    """Measure an emulated cloud region on this machine, a live migration in the middle, and explain it."""
    from fathometer.study.hosts import find_fathom

    length_ns = _length(length, quick)
    binary = Path(find_fathom(fathom))
    directory = _directory(output)
    recordings, failed = _measure(directory, length_ns, binary)
    page = _report(recordings, directory / "report.html")
    if failed:
        typer.echo(f"fathometer: {failed}", err=True)
    typer.echo(f"Report: {page}")
    if not no_open and desktop():
        import webbrowser

        webbrowser.open(page.resolve().as_uri())
    if failed:
        raise typer.Exit(ExitCode.FAILED)


def _length(text: str, quick: bool) -> int:
    from fathometer.demo.files import LENGTH_NS, QUICK_NS, SHORTEST_NS
    from fathometer.study.words import duration_ns

    if quick and text:
        raise _usage("--quick and --for both say how long", "leave one of them out")
    if not text:
        return QUICK_NS if quick else LENGTH_NS
    try:
        ns = duration_ns(text)
    except ValueError as error:
        what, _, remedy = str(error).partition("; ")
        raise _usage(f"--for: {what}", remedy) from None
    if ns < SHORTEST_NS:
        raise _usage(f"--for {text} is too short for a migration to be seen in it", "give it 20s or more")
    return ns


def _usage(what: str, remedy: str) -> FathometerError:
    return FathometerError("run the demo", what, remedy, exit_code=ExitCode.USAGE)


def _directory(output: Path | None) -> Path:
    path = output or Path("demo-output") / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{os.getpid()}"
    try:
        path.mkdir(parents=True, exist_ok=True)
        used = any(path.iterdir())
    except OSError as error:
        raise FathometerError(
            "run the demo", f"{path}: {error.strerror}", "choose another --output"
        ) from None
    if used:
        raise _usage(f"{path} is not empty", "choose a new --output")
    return path


def _measure(directory: Path, length_ns: int, binary: Path) -> tuple[Path, FathometerError | None]:
    """Where the recordings are, and what was not measured."""
    from fathometer.demo.files import write_loopback, write_region

    typer.echo(
        f"An emulated region on this machine: twelve paths, {length_ns / 1e9:.0f} s, and a live migration.",
        err=True,
    )
    study = write_region(directory, length_ns)
    try:
        return _run(study, directory / "recordings", length_ns, binary)
    except FathometerError as error:
        if error.operation != "make a fabric":
            raise
        reason = error.object
    typer.echo(
        f"No network can be emulated here ({reason}). Measuring loopback instead: it shows the tool at work, "
        "but no distances, no load balancer or firewall, and no migration. As root, or where user namespaces "
        "and /dev/net/tun are to be had, the demo has them.",
        err=True,
    )
    # A third of the story's length: nothing happens in it.
    return _run(write_loopback(directory, length_ns), directory / "loopback", length_ns // 3, binary)


def _run(study: Path, output: Path, length_ns: int, binary: Path) -> tuple[Path, FathometerError | None]:
    from fathometer.demo.watch import Watch
    from fathometer.study.journal import read_journal
    from fathometer.study.run import run_study

    try:
        with Watch(output / "truth", length_ns / 1e9) as watch:
            run_study(study, output, binary, False, watch)
    except FathometerError as error:
        if "interrupted" in error.object:
            raise FathometerError(
                "finish the demo", "interrupted; nothing was left running", "run it again"
            ) from None
        if any(e.get("kind") == "run.finished" for e in read_journal(output)):
            return output, error
        raise
    return output, None


def _report(recordings: Path, page: Path) -> Path:
    from fathometer.dataset import open_recordings
    from fathometer.demo.staged import staged
    from fathometer.demo.table import show

    played = staged(recordings)
    refused: list[FathometerError] = []
    with console.Progress() as progress:
        progress("reading recordings")
        from fathometer.findings.analyse import analyse
        from fathometer.report.write import write

        opened = tuple(open_recordings([recordings], on_error=refused.append))
        analysis = analyse(opened, refused=refused, progress=progress)
        write(
            analysis,
            html=page,
            markdown=None,
            machine=[page.with_suffix(".json")],
            pictures=None,
            title=f"A cloud region, emulated: {played}" if played else "A cloud region, emulated",
            progress=progress,
        )
    show(analysis, console.tables(), played)
    return page


def desktop() -> bool:
    """Whether somebody sits before a screen of this machine."""
    if any(os.environ.get(name) for name in ("SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY")):
        return False
    return sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
