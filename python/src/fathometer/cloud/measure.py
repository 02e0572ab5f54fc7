"""`run`: a lab's outputs become a study, which is run, or what is left of it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from fathometer.cloud import running
from fathometer.cloud.journal import KNOWN_HOSTS, STUDY
from fathometer.cloud.labs import variables_of
from fathometer.cloud.make import key_of, know_hosts, outputs
from fathometer.cloud.page import may_replace, page_of
from fathometer.cloud.work import Work, expires, remaining
from fathometer.errors import ExitCode, FathometerError
from fathometer.study import plan as planning
from fathometer.study.journal import finished, read_journal
from fathometer.study.model import DEFAULT_PORT
from fathometer.study.outputs import study_text
from fathometer.study.places import PortTakenError
from fathometer.study.read import read_study
from fathometer.study.run import run_study
from fathometer.study.watch.terminal import view_of_own
from fathometer.study.words import duration_text
from fathometer.writing import replace

_SSH_PORT: Final = 22
_LAST_PORT: Final = 65_535


def run(
    work: Work,
    output: Path | None,
    like: Path | None,
    fathom: Path | None,
    remote: Iterable[Path],
    *,
    quick: bool,
    report: bool,
) -> Path:
    """Measures on a lab; tells where the recordings are. Raises `FathometerError`, before anything is
    measured where a report was asked for and may not be written.
    """
    with work.held():
        if not work.place.is_made:
            raise FathometerError(
                "measure on the lab",
                f"{work.lab} is not there, or not all of it",
                f"make it: {work.command('up')}",
            )
        last = work.place.last("study.started")
        if output is None:
            output = Path(str(last["output"])) if last is not None else Path.cwd() / work.lab
        output = output.absolute()
        if work.place.overlaps(output):
            raise FathometerError(
                "measure on the lab",
                f"recordings in {output} would be lost: `down` removes the lab's directory "
                f"{work.place.directory}",
                "name a directory apart from it: --output DIR",
                exit_code=ExitCode.USAGE,
            )
        if report:
            may_replace(work, page_of(output))
        work.prepare("run")
        lab = outputs(work)
        # An end that passed since `up` may have been that of the hosts, too. What the state has of them is
        # as old as the last `up`: it says how they are started, and not whether they run.
        running.note_end(work.place, datetime.now(UTC))
        running.must_run(work, lab, key_of(work), work.exists(), says=())
        know_hosts(work, lab)
        # A study's paths go from its file's directory, and `--like` names its policies' files from there.
        file = work.place.directory / STUDY
        known = str(work.place.directory / KNOWN_HOSTS)
        goes_on = last is not None and Path(str(last["output"])) == output and like is None and file.is_file()
        # Of other hosts, ports or users it is another study.
        goes_on = goes_on and work.place.last("study.started", "outputs.changed") is last
        if not goes_on:
            text = study_text(lab, like.absolute() if like else None, key_of(work), file.parent, known)
            replace(file, text.encode())
            _say_unlike(work, like)
        _say_left(work, output)
        _must_fit(work, file, output, quick=quick)
        named = (last or {}).get("like") if goes_on else str(like.absolute()) if like else None
        work.place.note("study.started", output=str(output), file=str(file), like=named)
        try:
            with view_of_own(output) as say:
                run_study(file, output, fathom, quick, say, tuple(remote))
        except FathometerError as error:
            work.place.note("study.failed", output=str(output), reason=str(error))
            work.say_what_exists()
            raise _of_lab(work, error) from None
        work.place.note("study.done", output=str(output))
        if reminder := remaining(work.place, datetime.now(UTC)):
            work.say(reminder)
        work.say(f"{work.command('down')} removes it")
        return output


def _say_unlike(work: Work, like: Path | None) -> None:
    """That a study that is made anew measures the usual, where an earlier one measured what another does."""
    before = _like_before(work)
    if like is None and before is not None:
        work.say(
            f"a new study, which measures ten samples a second for 25s: --like {shlex.quote(before)} measures"
            " what the one before did"
        )


def _like_before(work: Work) -> str | None:
    """What the last study that was done measured like another, or one that was started since; None: what was
    done last measured the usual.
    """
    entries = [e for e in work.place.entries if e.get("kind") in {"study.started", "study.done"}]
    done = next((n for n, e in reversed([*enumerate(entries)]) if e["kind"] == "study.done"), 0)
    # That one's start, and all that follows.
    began = next((n for n in range(done, 0, -1) if entries[n]["kind"] == "study.started"), 0)
    return next((str(e["like"]) for e in reversed(entries[began:]) if e.get("like")), None)


def _of_lab(work: Work, error: FathometerError) -> FathometerError:
    """An error of the study's with what can be done about it on a lab, whose study nobody writes by hand."""
    if not isinstance(error, PortTakenError) or "port" not in variables_of(work.place.root):
        return error
    other = error.port + 1
    # The lab takes none that is SSH's.
    other += other == _SSH_PORT
    other = other if other <= _LAST_PORT else DEFAULT_PORT
    up = work.command("up", "--var", f"port={other}")
    remedy = f"{error.remedy}. Another port: {up}, then {work.command('run')} with a new --output"
    return PortTakenError(error.operation, error.object, remedy, error.port)


def _say_left(work: Work, output: Path) -> None:
    """That an earlier study in another directory was killed: its reflectors have the ports of this one's."""
    last = work.place.last("study.started", "study.done", "study.failed")
    if last is None or last["kind"] != "study.started" or Path(str(last["output"])) == output:
        return
    before = shlex.quote(str(last["output"]))
    work.say(
        f"the study in {before} was killed, and what it started may be in the way of this one:"
        f" {work.command('run')} with --output {before} goes on with it, `fathom study stop {before}` ends it"
    )


def _must_fit(work: Work, file: Path, output: Path, *, quick: bool) -> None:
    """Asks where what is left of a study takes longer than the lab is there."""
    study = read_study(file)
    study = planning.quick(study) if quick else study
    done = finished(read_journal(output))
    left = tuple(run for run in planning.plan(study) if str(run.directory) not in done)
    if not left:
        return
    takes = planning.estimate_ns(study, left)
    now = datetime.now(UTC)
    ends, reminder = expires(work.place), remaining(work.place, now)
    if ends is None or reminder is None:
        return
    if now + timedelta(microseconds=takes // 1000) <= ends:
        work.say(reminder)
        return
    what = f"it takes about {duration_text(takes)}, and {reminder}"
    if not work.agreed(f"{work.lab}: {what}. Begin all the same?"):
        remedy = (
            f"{work.command('up')} with --for 12h prolongs it"
            if now < ends
            else f"{work.command('down')}, then {work.command('up')}"
        )
        raise FathometerError("measure on the lab", what, remedy)
