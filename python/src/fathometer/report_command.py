"""``fathometer report`` and ``fathometer compare``: recordings explained."""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from dataclasses import replace
from datetime import UTC, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import typer

from fathometer import console
from fathometer.clean import all_cleaned, cleaned
from fathometer.counts import count
from fathometer.errors import ExitCode, FathometerError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fathometer.dataset.recording import Recording
    from fathometer.findings.model import Scenario, Versus
    from fathometer.findings.policies import Weigh
    from fathometer.stats.family import Metric

_CODES = """\
Exit codes: 0 done; 1 a recording is damaged or cannot be read, or the result could not be written; 2 wrong
usage. A recording that cannot be read among others that can is named and left out. Of a damaged one, what
can be read is used, and what is missing is named on standard error. One that was interrupted is not damaged.
"""
_MATTERS = "A smaller difference, either way, counts as none that matters."
_CODES_OF_REPORT = """\
With --slo or --baseline, for CI: 0 every goal is met and nothing became worse; 1 there is no report; 2 wrong
usage, as a goal that concerns no path; 3 a goal is not met, or a path became slower or less available or is
gone; 4 none of these, and a goal cannot be decided or a path not be compared. The last line names what is not
met. But for 1 the report is written. Damage: a goal that the readable part misses is missed; one that it
meets cannot be decided, nor can any beside a recording left out.
"""
REPORT_EPILOG = f"""\
Examples:

    fathom report recordings/
    fathom report same-zone/ cross-zone/ -o zones.html --title 'One zone or two'
    fathom report recordings/ --json | jq .findings
    fathom report recordings/ --markdown report.md --figures figures/ --zone Europe/London
    fathom report recordings/ --slo 'p99<2ms' --slo 'cross-*: availability>99.9%'
    fathom report today/ --baseline last-week.json --json-file today.json
    fathom report policies/ --weigh latency

{_CODES}
{_CODES_OF_REPORT}"""
COMPARE_EPILOG = f"""\
Examples:

    fathom compare same-zone/ cross-zone/
    fathom compare before/ after/ --metric p99
    fathom compare hub/ --with hub-last-month/
    fathom compare s3://b/before s3://b/after --json | jq '.comparisons[] | select(.metric == "p99")'

{_CODES}"""


def report_command(
    recordings: Annotated[
        list[str],
        typer.Argument(
            metavar="DIR...",
            help="Recordings, or directories that hold some; also in an object store (s3://bucket/prefix).",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Where the page goes [default: report.html]."),
    ] = None,
    machine: Annotated[
        bool,
        typer.Option("--json", help="JSON instead of the page: on standard output, or where --output says."),
    ] = False,
    machine_file: Annotated[
        Path | None, typer.Option("--json-file", metavar="FILE", help="JSON, too.")
    ] = None,
    markdown: Annotated[
        str | None, typer.Option(metavar="FILE", help="Markdown, too; - for standard output.")
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Every figure as SVG and PNG, for slides.")
    ] = None,
    title: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The heading [default: the labels].")
    ] = None,
    zone: Annotated[
        str, typer.Option(metavar="ZONE", help="Whose clocks the charts and the calendar show.")
    ] = "UTC",
    matters: Annotated[str, typer.Option(metavar="SHARE", help=_MATTERS)] = "5%",
    metric: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="By what paths are to be chosen from: median, p95, p99 or mean [default: median and p99, "
            "where they agree].",
        ),
    ] = None,
    weigh: Annotated[
        str,
        typer.Option(
            metavar="WHAT",
            help="By what policies of applications are ranked: failed, latency or load.",
        ),
    ] = "failed",
    slo: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GOAL",
            help="A limit that paths are to keep: 'p99<2ms', 'availability>99.9%', 'far*: p50<3ms'; "
            "again for more.",
        ),
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option(
            metavar="REPORT.json", help="An earlier report's JSON: say what became slower or faster."
        ),
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Explain recordings: a page that needs no network, with figures, findings and advice."""
    where, threshold, chosen = _zone(zone), _share("report", matters), _metric("report", metric)
    by = _weigh(weigh)
    from fathometer.report import baseline as baselines
    from fathometer.report import goals

    # What is wrong with them is told before the recordings are read.
    wanted = [goals.parsed(text) for text in slo or ()]
    earlier = baselines.read(baseline) if baseline else None
    printed = _printed(machine and output is None, markdown)
    page = None if machine else output or (None if printed else Path("report.html"))
    documents = [output if machine else None, machine_file]
    from fathometer.report.write import refuse_to_destroy

    _refuse_file_of_flag(recordings)
    outputs = {
        "--output": output or page,
        "--json-file": machine_file,
        "--markdown": _file(markdown),
        "--figures": figures,
    }
    refuse_to_destroy({option: path for option, path in outputs.items() if path}, recordings)
    with console.Progress() as progress:
        progress("reading recordings")
        if page:
            _prepare()
        from fathometer.opening import open_all

        opened = open_all(recordings, progress)
        from fathometer.findings.analyse import analyse

        analysis = analyse(
            opened.recordings,
            summaries=opened.summaries,
            refused=opened.refused,
            zone=where,
            matters=threshold,
            metric=chosen,
            weigh=by,
            progress=progress,
        )
        from fathometer.report.judgement import Judgement, told
        from fathometer.report.write import as_text, write

        misdirected: FathometerError | None = None
        try:
            outcomes = goals.judged(wanted, analysis.scenarios, opened.refused)
        except FathometerError as error:
            # A path may be gone, and then the report that tells what is there is wanted most.
            misdirected, outcomes = error, ()
        judgement = Judgement(
            outcomes, baselines.drift(earlier, analysis.scenarios, threshold) if earlier else None
        )
        written = write(
            analysis,
            html=page,
            markdown=_file(markdown),
            machine=[path for path in documents if path],
            pictures=figures,
            title=title,
            judgement=judgement,
            progress=progress,
        )
        text = as_text(analysis, printed, title, judgement) if printed else ""
    if text:
        sys.stdout.write(text)
    for path in written:
        typer.echo(str(path), err=bool(printed))
    if show and page:
        import webbrowser

        webbrowser.open(page.resolve().as_uri())
    if misdirected is not None:
        raise misdirected
    # Printed on standard error too, so that a log of CI shows it without the page.
    for line in told(judgement):
        console.say(line)
    if judgement.status == "not met":
        raise typer.Exit(ExitCode.MISSED)
    if judgement.status == "cannot be decided":
        raise typer.Exit(ExitCode.UNDECIDED)
    if not opened.whole:
        raise typer.Exit(ExitCode.FAILED)


def _wrong(command: str, what: str, remedy: str) -> FathometerError:
    return FathometerError(command, what, remedy, exit_code=ExitCode.USAGE)


def _printed(machine: bool, markdown: str | None) -> Literal["json", "markdown"] | None:
    """The format that goes to standard output."""
    if machine and markdown == "-":
        raise _wrong("report", "--json and --markdown - both want standard output", "give one of them a file")
    if machine:
        return "json"
    return "markdown" if markdown == "-" else None


def _refuse_file_of_flag(recordings: list[str]) -> None:
    """Refuses a file after `--json`, which once was an option with a value."""
    from fathometer.dataset.format import MANIFEST

    for one in recordings:
        if one == "-" or (one.endswith(".json") and Path(one).name != MANIFEST):
            raise _wrong(
                "report",
                f"{one} is not a recording, and --json takes no file",
                "write --json alone, --json -o FILE, or --json-file FILE for a page beside it",
            )


def _file(given: str | None) -> Path | None:
    """None: nothing, or standard output."""
    return Path(given) if given and given != "-" else None


def _prepare() -> None:
    """Begins to bundle the page's script, which takes a second the first time; the analysis takes as long."""
    from fathometer.report import render  # Here and not in the thread: two threads must not import at once.

    threading.Thread(target=render.script, daemon=True).start()


def _zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise _wrong("report", f"--zone {name!r} is not known here", "name one as Europe/London") from None


def _share(command: str, text: str) -> float:
    """`5%`, `5 %` or `0.05`, as 0.05."""
    number = text.strip()
    try:
        share = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise _wrong(command, f"--matters {text!r} is no share between 0 and 100 %", "give it as 5% or 0.05")
    return share


def _is_same(one: str, other: str) -> bool:
    """Whether two arguments name one place; of an object store by its text alone."""
    try:
        return one == other or Path(one).samefile(other)
    except OSError:
        return False


_METRICS: Final[dict[str, Metric]] = {
    "median": "p50",
    "p50": "p50",
    "p95": "p95",
    "p99": "p99",
    "mean": "mean",
}


def _metric(command: str, name: str | None) -> Metric | None:
    """A metric as people call it."""
    if name is None or name.lower() in _METRICS:
        return None if name is None else _METRICS[name.lower()]
    raise _wrong(command, f"--metric {name!r} is none of {', '.join(_METRICS)}", "name one of them")


def _weigh(name: str) -> Weigh:
    from fathometer.findings.policies import WEIGHS

    for known in WEIGHS:
        if name == known:
            return known
    raise _wrong("report", f"--weigh {name!r} is none of {', '.join(WEIGHS)}", "name one of them")


def compare_command(
    recordings: Annotated[
        list[str],
        typer.Argument(
            metavar="A B...",
            help="Recordings, or directories that hold some, also in an object store; each is a scenario.",
        ),
    ],
    last: Annotated[
        str | None,
        typer.Option(
            "--with",
            metavar="LAST",
            help="An earlier run of the study: compare each path with itself as it was then, and no others.",
        ),
    ] = None,
    matters: Annotated[str, typer.Option(metavar="SHARE", help=_MATTERS)] = "5%",
    metric: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Compare by the median, p95, p99 or mean alone [default: by all four]; fewer questions "
            "get surer answers.",
        ),
    ] = None,
    machine: Annotated[bool, typer.Option("--json", help="JSON instead of a table.")] = False,
) -> None:
    """Say which of several scenarios is faster, by how much, and how surely."""
    threshold, chosen = _share("compare", matters), _metric("compare", metric)
    with console.Progress() as progress:
        progress("reading recordings")
        from fathometer.findings.comparisons import comparisons
        from fathometer.findings.scenarios import scenarios
        from fathometer.stats.family import METRICS

        arguments = [*recordings, *([last] if last else [])]
        if last and any(_is_same(last, one) for one in recordings):
            raise _wrong(
                "compare", f"{last} would be compared with itself", "name an earlier run of the study"
            )
        opened, whole, given = _one_scenario_each(arguments, progress)
        if applied := [r.label for r in opened if r.manifest.is_client]:
            what = (
                f"{applied[0]} is of an application under a policy, whose tries are no round trips of a path"
            )
            raise FathometerError("compare", what, "compare policies with `fathom report`")
        paths = scenarios(opened, progress=lambda name: progress(f"figures of {name}"))
        answered = sum(bool(s.rtt.count) for s in paths)
        if answered < 2 and any(run.recording.throughput for path in paths for run in path.runs):
            raise FathometerError(
                "compare",
                f"throughput was measured in {', '.join(arguments)}, and there is no such comparison: round "
                "trips are compared",
                "`fathom report` has a table of each test's throughput",
            )
        if answered < 2:
            raise FathometerError(
                "compare",
                f"{count(answered, 'scenario')} with answered samples in {', '.join(arguments)}",
                "name recordings of two or more",
            )
        progress("comparing")
        wanted = _then_and_now(given, last) if last else None
        versus = comparisons(paths, threshold, (chosen,) if chosen else METRICS, wanted)
        if last and not versus:
            what = (
                f"no path of {', '.join(recordings)} was measured in {last}, by its label and in the same way"
            )
            raise FathometerError("compare", what, "name an earlier run of the same study")
    compared = {name for v in versus for name in (v.a, v.b)}
    if alone := [s.name for s in paths if last and s.name not in compared]:
        typer.echo(cleaned(f"measured only then or only now: {', '.join(alone)}"), err=True)
    if machine:
        from fathometer.report.as_json import comparisons_as_json, marks_as_json, scenario_as_json
        from fathometer.report.databases_json import predictions_as_json

        document = {
            "format": 1,
            "marks": marks_as_json(opened),
            "scenarios": [scenario_as_json(s) for s in paths],
            "comparisons": comparisons_as_json(versus),
            "database_predictions": predictions_as_json(paths),
        }
        typer.echo(json.dumps(all_cleaned(document), indent=1, allow_nan=False))
    else:
        from fathometer.findings import marks

        for sentence in marks.told(opened):
            typer.echo(cleaned(sentence))
        _print(paths, versus)
    if not whole:
        raise typer.Exit(ExitCode.FAILED)


def _then_and_now(given: Mapping[str, tuple[str, str]], last: str) -> Callable[[Scenario, Scenario], bool]:
    """Whether two scenarios are one path, measured in the same way, in `last` and not in it. Its ends may be
    others by now: a lab that is made anew has new machines.
    """

    def wanted(a: Scenario, b: Scenario) -> bool:
        (path_a, label_a), (path_b, label_b) = given[a.key.label], given[b.key.label]
        if label_a != label_b or (path_a == last) == (path_b == last):
            return False
        return replace(a.key, label=label_b, ends=b.key.ends) == replace(b.key, label=label_b)

    return wanted


def _one_scenario_each(
    paths: list[str], progress: console.Progress
) -> tuple[list[Recording], bool, dict[str, tuple[str, str]]]:
    """The recordings, and whether all of them could be read whole. Where two arguments bear the same label,
    the argument is in it, for they were named apart: by each label then the argument and the label as it was.
    """
    from fathometer.opening import once_and_told, open_all

    groups = []
    whole = True
    for path in paths:
        try:
            opened = open_all([path], progress)
            groups.append((path, opened.recordings))
            whole = whole and opened.whole
        except FathometerError as error:
            if len(paths) <= 2:
                raise
            console.refused(error)
            whole = False
    if not groups:
        raise FathometerError("compare", "none of the recordings can be read", "see above")
    once = set(once_and_told(one for _, recordings in groups for one in recordings))
    groups = [(path, tuple(r for r in recordings if r in once)) for path, recordings in groups]
    labels = Counter(label for _, recordings in groups for label in {r.label for r in recordings})
    named, given = [], {}
    for path, recordings in groups:
        for one in recordings:
            label = one.label if labels[one.label] == 1 else f"{one.label} [{path}]"
            given[label] = (path, one.label)
            named.append(one if label == one.label else one.named(label))
    return named, whole, given


def _print(paths: tuple[Scenario, ...], versus: tuple[Versus, ...]) -> None:
    from rich.table import Table

    from fathometer.findings import render
    from fathometer.findings.seen import ways
    from fathometer.report import tables
    from fathometer.report.sections import databases_elsewhere

    out = console.tables()
    for shown in (tables.summary(paths), tables.ratios(versus), databases_elsewhere.table(paths)):
        if shown is None:
            continue
        if shown.caption == databases_elsewhere.CAPTION:
            out.print(f"{shown.caption}: {databases_elsewhere.SECTION.note}", soft_wrap=True)
        table = Table(*shown.head, box=None, pad_edge=False)
        for column in table.columns[1:]:
            column.justify = "right"
        for row in shown.rows:
            marked = [(c.text + (f" [{shown.letter(c.note)}]" if c.note else ""), c.under) for c in row]
            table.add_row(
                *(cleaned(text) + (f"\n{cleaned(under)}" if under else "") for text, under in marked)
            )
        out.print(table)
        for note in shown.notes:
            out.print(f"[{shown.letter(note)}] {cleaned(note)}", soft_wrap=True)
        out.print()
    out.print("Beneath each figure its 95 % interval. ≈: no difference that matters is shown.")
    for finding in ways.findings(paths):
        out.print(cleaned(render.statement(finding)) + ".", soft_wrap=True)
