"""``fathom cloud``: list, plan, up, run, down."""

from __future__ import annotations

import contextlib
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
    from fathometer.cloud.settings import Given
    from fathometer.cloud.work import Work

cloud_app = typer.Typer(
    name="cloud",
    cls=help_text.CommandGroup,
    help="Make a lab in a subscription of yours by OpenTofu or Terraform, measure on it, remove it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_RESUME: Final = "The same command goes on after any interruption or crash."
Name = Annotated[str, typer.Argument(metavar="LAB", help="The lab; `fathom cloud list` names them.")]
_STATE = "Its state and journal [default: fathom/cloud/LAB in $XDG_STATE_HOME, else ~/.local/state]."
Directory = Annotated[Path | None, typer.Option("--directory", metavar="DIR", help=_STATE)]
_LABS = "Where labs are, as CLOUD/ROOT/main.tf [default: our own]."
Infra = Annotated[Path | None, typer.Option("--infra", metavar="DIR", help=_LABS)]
_TOOL = "OpenTofu or Terraform [default: the lab's; of a new one tofu, else terraform]."
ToolOption = Annotated[Path | None, typer.Option("--tool", metavar="FILE", help=_TOOL)]
Yes = Annotated[bool, typer.Option("--yes", help="Ask nothing: everything is agreed to.")]
_VAR = "A variable of the lab, lists as JSON, null for its usual value; again for more."
Var = Annotated[list[str] | None, typer.Option("--var", metavar="NAME=VALUE", help=_VAR)]
_HOURS = "The time that its hosts run, 30m to 24h [default: 4h]."
Hours = Annotated[str | None, typer.Option("--for", metavar="DURATION", help=_HOURS)]
_FROM = "The network that may connect by SSH, as in 198.51.100.7/32."
From = Annotated[str | None, typer.Option("--from", metavar="CIDR", help=_FROM)]
_KEY = "The private key for SSH, FILE.pub beside it [default: ~/.ssh/id_ed25519, else id_rsa]."
Key = Annotated[Path | None, typer.Option("--key", metavar="FILE", help=_KEY)]
_JUMP = "Reach the hosts by a small one with a public address."
Jump = Annotated[bool | None, typer.Option("--public-jump/--no-public-jump", help=_JUMP)]
_OUTPUT = "Recordings [default: the last one, or ./LAB]."
_LIKE = "Measure what that study measures; again for a new --output [default: ten samples a second for 25s]."
_REPORT = "Write DIR.html afterwards [default: asks on a terminal]."
_BINARY = "The fathom binary [default: beside python, then PATH]."
_REMOTE = "The fathom for the hosts; again for another machine [default: --fathom's, if static]."
_MORE = "The directory of another lab; again for more."
_BY_STATE = "Trust the state: the cloud is not asked what is left."


@cloud_app.command(
    "list",
    cls=help_text.Command,
    epilog="""\
Examples:

    fathom cloud list
    fathom cloud list --directory /srv/lab  one of another user or machine, too

Labs that were begun in a --directory are known, too. One whose directory is gone may still cost money.

Exit codes: 0 done; 1 a lab is gone or cannot be read; 2 wrong usage.
""",
)
def list_command(
    infra: Infra = None,
    directory: Annotated[list[Path] | None, typer.Option("--directory", metavar="DIR", help=_MORE)] = None,
) -> None:
    """Name the labs, the question that each answers, and those that were begun."""
    from fathometer.cloud.labs import roots
    from fathometer.cloud.work import begun

    known = roots(infra)
    width = max(len(root.name) for root in known)
    for root in known:
        typer.echo(cleaned(f"{root.name:<{width}}  {root.question}"))
    lines, has_problems = begun(directory or (), datetime.now(UTC))
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

`up` of a lab that is not made yet begins with the options given here.

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
    from fathometer.cloud import labs, make

    root, given = labs.find(infra, lab), _given(var, hours, ssh_from, key, public_jump)
    with _in_one_line():
        make.plan(_work(lab, directory, yes=False, tool=tool), root, given)


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
    """Make a lab, or the rest of it."""
    from fathometer.cloud import labs, make
    from fathometer.cloud.work import tell

    root, given = labs.find(infra, lab), _given(var, hours, ssh_from, key, public_jump)
    with _in_one_line():
        work = _work(lab, directory, yes=yes, tool=tool)
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
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="DIR", help=_OUTPUT)] = None,
    like: Annotated[Path | None, typer.Option("--like", metavar="STUDY.toml", help=_LIKE)] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Cut it short, to see that it runs: no figures.")
    ] = False,
    report: Annotated[bool | None, typer.Option("--report/--no-report", help=_REPORT)] = None,
    yes: Yes = False,
    fathom: Annotated[Path | None, typer.Option("--fathom", metavar="FILE", help=_BINARY)] = None,
    remote_binary: Annotated[
        list[Path] | None, typer.Option("--remote-binary", metavar="FILE", help=_REMOTE)
    ] = None,
    directory: Directory = None,
    tool: ToolOption = None,
) -> None:
    """Measure on a lab that is there, and fetch the recordings."""
    from fathometer.cloud import measure

    with _in_one_line():
        work = _work(lab, directory, yes=yes, tool=tool)
        recordings = measure.run(work, output, like, fathom, remote_binary or (), quick=quick)
    typer.echo(str(recordings))
    page = recordings.with_name(f"{recordings.name}.html")
    if report is None and sys.stdin.isatty() and sys.stderr.isatty():
        report = typer.confirm(f"Write the report, {page}?", default=True, err=True)
    if report:
        from fathometer.report_command import report_command

        report_command([str(recordings)], output=page)
    elif report is None:
        typer.echo(f"fathom report {recordings}", err=True)


@cloud_app.command(
    cls=help_text.Command,
    epilog=f"""\
Examples:

    fathom cloud down azure-zones
    fathom cloud down azure-zones --yes --by-state

Removes a half-made lab, too, then asks the cloud (`az`, `aws`, `gcloud`) what still has the lab's tag.
Recordings that were fetched stay. {_RESUME}

Exit codes: 0 nothing is left; 1 something is, or that could not be found out; 2 wrong usage.
""",
)
def down(
    lab: Name,
    yes: Yes = False,
    by_state: Annotated[bool, typer.Option("--by-state", help=_BY_STATE)] = False,
    directory: Directory = None,
    tool: ToolOption = None,
) -> None:
    """Remove a lab, and list what is left of it."""
    from fathometer.cloud import remove

    with _in_one_line():
        remove.down(_work(lab, directory, yes=yes, tool=tool), by_state=by_state)


def _work(lab: str, directory: Path | None, *, yes: bool, tool: Path | None) -> Work:
    from fathometer.cloud.journal import LabDirectory, usual
    from fathometer.cloud.work import Work

    if "/" in lab or lab.startswith("."):
        raise FathometerError(
            "find the lab", f'"{lab}" is no name of one', "see `fathom cloud list`", exit_code=ExitCode.USAGE
        )
    return Work(LabDirectory((directory or usual(lab)).absolute()), lab, yes=yes, tool=tool)


def _given(
    var: list[str] | None, hours: str | None, ssh_from: str | None, key: Path | None, jump: bool | None
) -> Given:
    from fathometer.cloud.settings import Given

    pairs = [one.partition("=") for one in var or ()]
    values = {name: value for name, equals, value in pairs if name and equals}
    if len(values) < len(pairs):
        raise FathometerError(
            "read --var",
            f"{', '.join(var or ())}: one has no name or no value, or is given twice",
            "write each once, as NAME=VALUE",
            exit_code=ExitCode.USAGE,
        )
    return Given(values, hours, ssh_from, key, jump)


@contextlib.contextmanager
def _in_one_line() -> Iterator[None]:
    """Turns Ctrl-C and errors of files into errors of one line. The journal has what was done before."""
    try:
        yield
    except KeyboardInterrupt:
        raise FathometerError("go on", "it was interrupted", "the same command goes on from there") from None
    except OSError as error:
        raise FathometerError(
            "go on",
            f"{error.filename or 'a file of the lab'}: {error.strerror or error}",
            "see to room and rights there; the same command goes on",
        ) from None
