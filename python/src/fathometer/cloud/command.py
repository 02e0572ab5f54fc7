"""``fathom cloud``: list, plan, up, run, down."""

from __future__ import annotations

import contextlib
import errno
import signal
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from fathometer import help_text
from fathometer.clean import cleaned
from fathometer.errors import ExitCode, FathometerError

if TYPE_CHECKING:
    from fathometer.cloud.work import Work

cloud_app = typer.Typer(
    name="cloud",
    cls=help_text.CommandGroup,
    help="Make a lab in a subscription of yours by OpenTofu or Terraform, measure on it, remove it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)
_RESUME: Final = "The same command goes on after any interruption or crash."
Name = Annotated[str, typer.Argument(metavar="LAB", help="Which one; `fathom cloud list` names them.")]
Directory = Annotated[
    Path | None,
    typer.Option(
        "--directory",
        metavar="DIR",
        help="Its state and journal [default: fathom/cloud/LAB in $XDG_STATE_HOME, else ~/.local/state].",
    ),
]
Infra = Annotated[
    Path | None,
    typer.Option("--infra", metavar="DIR", help="Where labs are, as CLOUD/ROOT/main.tf [default: our own]."),
]
ToolOption = Annotated[
    Path | None,
    typer.Option(
        "--tool",
        metavar="FILE",
        help="OpenTofu or Terraform [default: the lab's; of a new one tofu, else terraform].",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Ask nothing: everything is agreed to.")]
Var = Annotated[
    list[str] | None,
    typer.Option(
        "--var",
        metavar="NAME=VALUE",
        help="A variable of the lab, lists as JSON, null for its usual value; again for more.",
    ),
]
Hours = Annotated[
    str | None,
    typer.Option(
        "--for", metavar="DURATION", help="When its hosts end, from now on; 30m to 24h [default: 4h]."
    ),
]
From = Annotated[
    str | None, typer.Option("--from", metavar="CIDR", help="Whence SSH may come, as in 198.51.100.7/32.")
]
Key = Annotated[
    Path | None,
    typer.Option(
        "--key", metavar="FILE", help="The private key for SSH, FILE.pub beside it [default: ssh's]."
    ),
]
Jump = Annotated[
    bool | None,
    typer.Option(
        "--public-jump/--no-public-jump", help="Reach the hosts by a small one with a public address."
    ),
]


@cloud_app.command(
    "list",
    cls=help_text.Command,
    epilog="""\
Examples:

    fathom cloud list
    fathom cloud list --directory /srv/lab  one of another user or machine, too

Labs that were begun in a --directory are known, too. One whose directory is gone may still cost money.

Exit codes: 0 done; 1 one that was begun is gone or cannot be read, or there are no labs; 2 wrong usage.
""",
)
def list_command(
    infra: Infra = None,
    directory: Annotated[
        list[Path] | None,
        typer.Option(
            "--directory",
            metavar="DIR",
            help="A lab that was begun there, besides those that are known; again for more.",
        ),
    ] = None,
) -> None:
    """Name the labs, what each answers, and those that were begun."""
    from fathometer.cloud import begun
    from fathometer.cloud.labs import roots

    known = roots(infra)
    width = max(len(root.name) for root in known)
    for root in known:
        typer.echo(cleaned(f"{root.name:<{width}}  {root.question}"))
    lines, has_problems = begun.lines(directory or (), datetime.now(UTC))
    if lines:
        typer.echo("\nbegun here:")
        for line in lines:
            typer.echo(line)
    if has_problems:
        raise typer.Exit(ExitCode.FAILED)


@cloud_app.command(
    "plan",
    cls=help_text.Command,
    epilog="""\
Example:

    fathom cloud plan azure-zones --from 198.51.100.7/32 --public-jump

Of a lab of which nothing is made, what is given here is kept for `up`.

Exit codes: 0 done; 1 it cannot be planned: the cloud's own words, and what to do; 2 wrong usage.
""",
)
def plan_command(
    lab: Name,
    ssh_from: From = None,
    public_jump: Jump = None,
    key: Key = None,
    hours: Hours = None,
    var: Var = None,
    directory: Directory = None,
    infra: Infra = None,
    tool: ToolOption = None,
) -> None:
    """Show what a lab consists of, and what it costs. Makes nothing."""
    from fathometer.cloud.labs import find
    from fathometer.cloud.make import plan
    from fathometer.cloud.settings import Given

    root = find(infra, lab)
    given = Given(_variables(var), hours, ssh_from, key, public_jump)
    plan(_work(lab, directory, yes=False, tool=tool), root, given)


@cloud_app.command(
    cls=help_text.Command,
    epilog=f"""\
Examples:

    fathom cloud up azure-zones --from 198.51.100.7/32 --public-jump
    fathom cloud up azure-balancer --var 'zones=["1","3"]' --for 2h --yes
    fathom cloud up azure-zones --for 6h  prolongs it

{_RESUME} Shows what would be made and an estimate of its price, and asks.

Exit codes: 0 all of it is there; 1 not all, with the cloud's own words and what to do; 2 wrong usage.
""",
)
def up(
    lab: Name,
    ssh_from: From = None,
    public_jump: Jump = None,
    key: Key = None,
    hours: Hours = None,
    var: Var = None,
    yes: Yes = False,
    directory: Directory = None,
    infra: Infra = None,
    tool: ToolOption = None,
) -> None:
    """Make a lab, or what is left of it to be made."""
    from fathometer.cloud import make
    from fathometer.cloud.labs import find
    from fathometer.cloud.settings import Given
    from fathometer.cloud.work import tell

    root = find(infra, lab)
    given = Given(_variables(var), hours, ssh_from, key, public_jump)
    work = _work(lab, directory, yes=yes, tool=tool)
    with _interruptible():
        make.up(work, root, given)
    tell(work.command("run").strip("`"))


@cloud_app.command(
    cls=help_text.Command,
    epilog=f"""\
Examples:

    fathom cloud run azure-zones --remote-binary fathom-static --report
    fathom cloud run azure-zones --like studies/vm-size.toml -o sizes

{_RESUME}

Exit codes: 0 every run is finished; 1 not all are; 2 wrong usage.
""",
)
def run(
    lab: Name,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="Recordings [default: ./LAB, or the last one]."),
    ] = None,
    like: Annotated[
        Path | None,
        typer.Option(
            "--like",
            metavar="STUDY.toml",
            help="Measure what that study measures; again for a new --output"
            " [default: ten samples a second for 25s].",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Cut it short, to see that it runs: no figures.")
    ] = False,
    report: Annotated[
        bool | None,
        typer.Option("--report/--no-report", help="Write DIR.html afterwards [default: asks on a terminal]."),
    ] = None,
    yes: Yes = False,
    fathom: Annotated[
        Path | None,
        typer.Option(
            "--fathom", metavar="FILE", help="The fathom binary [default: beside python, then PATH]."
        ),
    ] = None,
    remote_binary: Annotated[
        list[Path] | None,
        typer.Option(
            "--remote-binary",
            metavar="FILE",
            help="The fathom for the hosts; again for another machine [default: --fathom's, if static].",
        ),
    ] = None,
    directory: Directory = None,
    tool: ToolOption = None,
) -> None:
    """Measure on a lab that is there, and fetch the recordings."""
    from fathometer.cloud.measure import run as measure
    from fathometer.cloud.page import page_of, writing

    work = _work(lab, directory, yes=yes, tool=tool)
    with _interruptible():
        where = measure(work, output, like, fathom, remote_binary or (), quick=quick, report=bool(report))
    typer.echo(str(where))
    page = page_of(where)
    if report is None and sys.stdin.isatty() and sys.stderr.isatty():
        report = typer.confirm(f"Write the report, {page}?", default=True, err=True)
    if report:
        from fathometer.report_command import report_command

        with writing(work, page):
            report_command([str(where)], output=page)
    elif report is None:
        typer.echo(f"fathom report {where}", err=True)


@cloud_app.command(
    cls=help_text.Command,
    epilog=f"""\
Examples:

    fathom cloud down azure-zones
    fathom cloud down azure-zones --yes --by-state

Removes a half-made lab, too, then asks the cloud (`az`, `aws`, `gcloud`) what still bears the lab's tag.
Recordings that were fetched stay. {_RESUME}

Exit codes: 0 nothing is left; 1 something is, or that could not be found out; 2 wrong usage.
""",
)
def down(
    lab: Name,
    yes: Yes = False,
    by_state: Annotated[
        bool, typer.Option("--by-state", help="Trust the state: the cloud is not asked what is left.")
    ] = False,
    directory: Directory = None,
    tool: ToolOption = None,
) -> None:
    """Remove a lab, and list what is left of it."""
    from fathometer.cloud.remove import down as remove

    with _interruptible():
        remove(_work(lab, directory, yes=yes, tool=tool), by_state=by_state)


def _work(lab: str, directory: Path | None, *, yes: bool, tool: Path | None) -> Work:
    from fathometer.cloud.journal import LabPlace, usual
    from fathometer.cloud.work import Work

    if "/" in lab or lab.startswith("."):
        raise FathometerError(
            "find the lab", f'"{lab}" is no name of one', "see `fathom cloud list`", exit_code=ExitCode.USAGE
        )
    place = LabPlace(directory or usual(lab))
    there = lab if place.begun is None else str(place.begun.get("lab"))
    if there != lab:
        raise FathometerError(
            "use a lab's directory",
            f"{place.directory}: it holds the lab {there}",
            f"call it by that name, or name the --directory of {lab}",
            exit_code=ExitCode.USAGE,
        )
    return Work(place, lab, yes=yes, tool=tool)


def _variables(given: list[str] | None) -> dict[str, str]:
    values = {}
    for one in given or ():
        name, equals, value = one.partition("=")
        if not equals or not name:
            raise FathometerError(
                "read --var", f'"{one}" has no name or no value', "write NAME=VALUE", exit_code=ExitCode.USAGE
            )
        if name in values:
            raise FathometerError(
                "read --var", f'"{name}" is given twice', "give it once", exit_code=ExitCode.USAGE
            )
        values[name] = value
    return values


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Between two calls of the tool nothing is under way: Ctrl-C ends us, and the journal says where."""

    def leave(*_: object) -> None:
        raise KeyboardInterrupt

    before = {}
    for sign in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(sign) is not signal.SIG_IGN:
            before[sign] = signal.signal(sign, leave)
    try:
        yield
    except KeyboardInterrupt:
        raise FathometerError("go on", "it was interrupted", "the same command goes on from there") from None
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        raise FathometerError(
            "go on",
            f"{error.filename or 'a file of the lab'}: {error.strerror}",
            "make room for it; the same command goes on from there",
        ) from None
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)
