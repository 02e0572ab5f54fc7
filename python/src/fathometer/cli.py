"""The command line: ``fathometer``, to which `fathom` hands ``report``, ``compare``, ``rollup`` and so on."""

from __future__ import annotations

from fathometer import early  # isort: skip  (before what takes its time)

import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from fathometer import __version__, help_text
from fathometer.changes_command import EPILOG as CHANGES_EPILOG
from fathometer.changes_command import changes_command
from fathometer.check_command import EPILOG as CHECK_EPILOG
from fathometer.check_command import check_command
from fathometer.cloud.command import cloud_app
from fathometer.demo.command import EPILOG as DEMO_EPILOG
from fathometer.demo.command import demo_command
from fathometer.errors import ExitCode, FathometerError
from fathometer.import_command import EPILOG, import_command
from fathometer.output import Output, UnwritableError, any_locale
from fathometer.report_command import COMPARE_EPILOG, REPORT_EPILOG, compare_command, report_command
from fathometer.rollup_command import EPILOG as ROLLUP_EPILOG
from fathometer.rollup_command import rollup_command
from fathometer.study.command import study_app

# The reason for "no_args_is_help": a bare command is a question, and the help answers it.
app = typer.Typer(
    name="fathometer",
    cls=help_text.CommandGroup,
    help="Understand recordings of round-trip times.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], **help_text.LAYOUT},
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"fathometer {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Understand recordings of round-trip times."""


app.command("report", cls=help_text.Command, epilog=REPORT_EPILOG, no_args_is_help=True)(report_command)
app.command("compare", cls=help_text.Command, epilog=COMPARE_EPILOG, no_args_is_help=True)(compare_command)
app.command("rollup", cls=help_text.Command, epilog=ROLLUP_EPILOG, no_args_is_help=True)(rollup_command)
app.command("changes", cls=help_text.Command, epilog=CHANGES_EPILOG, no_args_is_help=True)(changes_command)
app.command("check", cls=help_text.Command, epilog=CHECK_EPILOG, no_args_is_help=True)(check_command)
app.command("import", cls=help_text.Command, epilog=EPILOG)(import_command)
app.command("demo", cls=help_text.Command, epilog=DEMO_EPILOG)(demo_command)
app.add_typer(study_app, name="study")
app.add_typer(cloud_app, name="cloud")

early.imported()


def main() -> None:
    """Runs the command line; the one place where an error becomes an exit code."""
    any_locale()
    output = Output()
    _open_input()
    try:
        try:
            app(prog_name="fathom" if early.FROM_FATHOM else None)
        finally:
            output.flush()
    except FathometerError as error:
        _complain(str(error))
        sys.exit(error.exit_code)
    except UnwritableError as error:
        _complain(f"cannot print the result: {error.strerror}; see that standard output can be written to")
        sys.exit(ExitCode.FAILED)
    except KeyboardInterrupt:
        # Before a command begins; what comes later Typer ends in the same way.
        sys.exit(128 + signal.SIGINT)
    except BrokenPipeError:
        # The reader of our standard output has gone (`| head`): nothing is wrong, and nobody listens.
        sys.stderr.close()
        sys.exit(ExitCode.DONE)
    except SystemExit:
        # That is how Typer and Rich end where the reader has gone.
        if output.reader_left:
            sys.exit(ExitCode.DONE)
        raise


def _open_input() -> None:
    """Python has None for a standard input that was closed before we began (`<&-`): it is an empty one."""
    if sys.stdin is None:
        sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115 - until the process ends


def _complain(line: str) -> None:
    # The terminal may have gone; the exit code is told all the same.
    with contextlib.suppress(OSError):
        Console(stderr=True, soft_wrap=True, highlight=False, markup=False).print(f"fathometer: {line}")
