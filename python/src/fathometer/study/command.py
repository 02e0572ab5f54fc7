"""``fathometer study``: check, plan, run, watch, stop, from-outputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from fathometer import help_text
from fathometer.clean import cleaned
from fathometer.counts import count
from fathometer.errors import ExitCode

study_app = typer.Typer(
    name="study",
    cls=help_text.CommandGroup,
    help="Measure many paths by one file: check it, plan it, run it, watch it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

File = Annotated[Path, typer.Argument(metavar="STUDY.toml", help="The study file.")]
Quick = Annotated[bool, typer.Option("--quick", help="Cut it short, to see that it runs: no figures.")]
Fathom = Annotated[
    Path | None,
    typer.Option("--fathom", metavar="FILE", help="The fathom binary [default: beside python, then PATH]."),
]


@study_app.command(
    cls=help_text.Command,
    epilog="""\
Example:

    fathom study check studies/hub-and-spoke.toml

Exit codes: 0 the files can be run; 1 something is wrong with one; 2 wrong usage.
""",
)
def check(files: Annotated[list[Path], typer.Argument(metavar="STUDY.toml...", help="Study files.")]) -> None:
    """Tell everything that is wrong with study files, by line and column."""
    fine = [_is_fine(file) for file in files]
    if not all(fine):
        raise typer.Exit(ExitCode.FAILED)


def _is_fine(file: Path) -> bool:
    from fathometer.study.plan import plan
    from fathometer.study.read import notes, parse, read_text

    study, problems = parse(read_text(file), file.parent)
    for problem in problems:
        where = f"{file}:{problem.line}:{problem.column}"
        typer.echo(cleaned(f"{where}: {problem.what}; {problem.remedy}"), err=True)
    if study is None or problems:
        return False
    for note in notes(study):
        typer.echo(cleaned(f"{file}: note: {note}"), err=True)
    scenarios, rounds = count(len(study.scenario), "scenario"), count(study.rounds, "repetition")
    typer.echo(f"{file}: {scenarios}, {rounds}, {count(len(plan(study)), 'run')}")
    return True


@study_app.command(
    "plan",
    cls=help_text.Command,
    epilog="""\
Example:

    fathom study plan studies/eleven-hours.toml --json | jq .runs

Exit codes: 0 done; 1 something is wrong with the file; 2 wrong usage.
""",
)
def plan_command(
    file: File,
    quick: Quick = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Print the runs in their order, and how long they take."""
    from fathometer.study import plan as planning
    from fathometer.study.read import read_study
    from fathometer.study.words import duration_text

    study = read_study(file)
    study = planning.quick(study) if quick else study
    runs = planning.plan(study)
    total = planning.estimate_ns(study, runs)
    if as_json:
        rows = [
            {
                "run": r.number,
                "round": r.round,
                "label": r.scenario.label,
                "probe": r.probe.name,
                "mode": r.probe.mode,
                # An application's file says it, and a search or a connection has none.
                "size": r.size or None,
                "interval_ns": r.probe.interval_ns,
                "directory": str(r.directory),
                "estimate_ns": r.estimate_ns,
            }
            for r in runs
        ]
        value = {"format": 1, "study": study.name, "seed": study.seed, "order": study.order, "runs": rows}
        typer.echo(json.dumps({**value, "estimate_ns": total}, indent=1))
        return
    for run in runs:
        typer.echo(
            cleaned(
                f"{run.number:>5}  round {run.round:<3} {run.scenario.label:<32} {run.probe.name} "
                f"{run.probe.mode}{f' {run.size} B' if run.size else ''}  {duration_text(run.estimate_ns)}"
            )
        )
    how = " side by side in each round" if study.order == "side-by-side" else ""
    waits = ", and the waits for its hours" if study.schedule.hours or study.schedule.weekdays else ""
    typer.echo(f"{count(len(runs), 'run')}{how}, about {duration_text(total)}{waits}")


@study_app.command(
    cls=help_text.Command,
    epilog="""\
Example:

    fathom study run studies/hub-and-spoke.toml --output hub

Recordings are DIR/label=.../run=NN. The same command goes on with a study that was interrupted.

Exit codes: 0 every run is finished; 1 not all are; 2 wrong usage.
""",
)
def run(
    file: File,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Recordings and journal.")],
    quick: Quick = False,
    fathom: Fathom = None,
    remote_binary: Annotated[
        list[Path] | None,
        typer.Option(
            "--remote-binary",
            metavar="FILE",
            help="The fathom for hosts over SSH; again for another machine [default: --fathom's, if static].",
        ),
    ] = None,
) -> None:
    """Run a study, or what is left of it."""
    from fathometer.study.run import run_study
    from fathometer.study.watch.terminal import view_of_own

    with view_of_own(output) as say:
        run_study(file, output, fathom, quick, say, remote_binary or ())
    typer.echo(str(output))


@study_app.command(
    "from-outputs",
    cls=help_text.Command,
    epilog="""\
Examples:

    terraform output -json | fathom study from-outputs - --output lab.toml
    fathom study from-outputs lab.json -o lab.toml --like studies/vm-size.toml

Exit codes: 0 done; 1 these are no outputs of a lab; 2 wrong usage.
""",
)
def from_outputs(
    outputs: Annotated[
        Path, typer.Argument(metavar="FILE", help="The outputs as JSON; - is standard input.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="STUDY.toml", help="The study to write.")],
    like: Annotated[
        Path | None,
        typer.Option(
            "--like",
            metavar="STUDY.toml",
            help="Measure what that study measures [default: ten samples a second for 25s].",
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="FILE", help="The private key for SSH [default: as ssh finds it]."),
    ] = None,
) -> None:
    """Write a study of a lab that Terraform or OpenTofu made (docs/cloud.md)."""
    from fathometer.study.outputs import MAX_BYTES, known_hosts_commands, read_lab, study_text
    from fathometer.study.outputs_file import existing, read_bytes, write_new

    lab = read_lab(read_bytes(outputs, MAX_BYTES), "standard input" if str(outputs) == "-" else str(outputs))
    # `ssh` is called from the study's directory or elsewhere: a path from here would be another one there.
    whole_key = None if key is None else str(existing(Path(key).expanduser().absolute()))
    write_new(output, study_text(lab, like, whole_key, output.parent))
    hosts, scenarios = count(len(lab.hosts), "host"), count(len(lab.scenarios), "scenario")
    typer.echo(f"{output}: {hosts}, {scenarios}")
    typer.echo("A study takes no host whose key is not known. To make those of this lab known:", err=True)
    for command in known_hosts_commands(lab, whole_key):
        typer.echo(f"    {command}", err=True)


@study_app.command(
    cls=help_text.Command,
    epilog="""\
Examples:

    fathom study watch hub
    fathom study watch hub --http :8080

To see that page from a desk, run there:

    ssh -L 8080:127.0.0.1:8080 HOST

Exit codes: 0 the study is finished, or you left it; 1 it ended otherwise; 2 wrong usage.
""",
)
def watch(
    output: Annotated[Path, typer.Argument(metavar="DIR", help="The study's --output.")],
    http: Annotated[
        str | None,
        typer.Option(
            "--http",
            metavar="[ADDRESS]:PORT",
            help="Serve a page instead; without an address to this machine alone. Port 0: any.",
        ),
    ] = None,
    port_file: Annotated[
        Path | None, typer.Option("--port-file", metavar="FILE", help="Write the page's port there.")
    ] = None,
) -> None:
    """Show a study of another process, while it runs or afterwards."""
    from fathometer.study.watch.terminal import left_by_signal

    with left_by_signal():
        if http is not None:
            from fathometer.study.watch.serve import serve

            serve(output, http, port_file, lambda line: typer.echo(line, err=True))
            return
        from fathometer.study.watch.terminal import watch as watch_study

        if watch_study(output).state != "finished":
            raise typer.Exit(ExitCode.FAILED)


@study_app.command(
    cls=help_text.Command,
    epilog="""\
Example:

    fathom study stop hub

Exit codes: 0 nothing of it runs; 1 something could not be ended; 2 wrong usage.
""",
)
def stop(
    output: Annotated[Path, typer.Argument(metavar="DIR", help="The study's --output.")],
    fathom: Fathom = None,
) -> None:
    """End whatever a study started and left, also after a crash."""
    from fathometer.study.stop import stop_study

    done = stop_study(output, fathom)
    ended = ["the study's runner"] if done.runner else []
    ended += [count(done.processes, "process")] if done.processes else []
    ended += [f"fabric {name}" for name in done.fabrics]
    ended += [f"what was left on host {name}" for name in done.hosts]
    typer.echo(f"ended: {', '.join(ended)}" if ended else "nothing was left running")
