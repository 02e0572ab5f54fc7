"""`run`: the lab's outputs become a study, which is run, or what is left of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from fathometer.cloud.journal import KNOWN_HOSTS, STUDY, private
from fathometer.cloud.make import know_hosts
from fathometer.cloud.settings import end_in
from fathometer.cloud.work import Work, ending
from fathometer.errors import ExitCode, FathometerError
from fathometer.study import plan as planning
from fathometer.study.journal import finished, read_journal
from fathometer.study.outputs import study_text
from fathometer.study.read import read_study
from fathometer.study.run import run_study
from fathometer.study.watch.terminal import view_of_own
from fathometer.study.words import duration_text

_MEASURE: Final = "measure on the lab"


def run(
    work: Work,
    output: Path | None,
    like: Path | None,
    fathom: Path | None,
    remote: Iterable[Path],
    *,
    quick: bool,
) -> Path:
    """Measures on a lab; returns the directory of the recordings. Raises `FathometerError`."""
    with work.held():
        record = work.record
        if record.state != "made" or not record.whole:
            what = f"{work.lab} is not made, or not all of it"
            raise FathometerError(_MEASURE, what, f"make it: {work.command('up')}")
        output = (output or Path(record.output or Path.cwd() / work.lab)).absolute()
        own = work.place.directory.resolve()
        if own.is_relative_to(output.resolve()) or output.resolve().is_relative_to(own):
            what = f"`down` would remove recordings in {output} with the lab's directory"
            raise FathometerError(_MEASURE, what, "name another --output", exit_code=ExitCode.USAGE)
        lab = work.outputs()
        know_hosts(work, lab)
        if like is None and record.like is not None and record.output == str(output):
            # The same study goes on.
            like = Path(record.like)
        like = like.absolute() if like else None
        # `study_text` names policies' files from the study's directory.
        file = work.place.directory / STUDY
        known = str(file.with_name(KNOWN_HOSTS))
        text = study_text(lab, like, record.key, file.parent, known)
        private(file).write_text(text, encoding="utf-8")
        _must_fit(work, file, output, quick=quick)
        work.note(dataclasses.replace(record, output=str(output), like=str(like) if like else None))
        try:
            with view_of_own(output) as say:
                run_study(file, output, fathom, quick, say, tuple(remote))
        finally:
            if words := ending(record, datetime.now(UTC)):
                work.say(words)
            work.say(f"{work.command('down')} removes it")
        return output


def _must_fit(work: Work, file: Path, output: Path, *, quick: bool) -> None:
    """Asks where the rest of a study takes longer than the hosts run."""
    study = read_study(file)
    study = planning.quick(study) if quick else study
    done = finished(read_journal(output))
    rest = tuple(run for run in planning.plan(study) if str(run.directory) not in done)
    ends, now = end_in(work.record), datetime.now(UTC)
    if not rest or ends is None:
        return
    takes = planning.estimate_ns(study, rest)
    if now + timedelta(microseconds=takes // 1000) <= ends:
        return
    what = f"it takes about {duration_text(takes)}, and {ending(work.record, now)}"
    if not work.agreed(f"{work.lab}: {what}. Begin all the same?"):
        longer = f"{work.command('up', '--for', '12h')} prolongs it"
        anew = f"{work.command('down')}, and then {work.command('up')}"
        raise FathometerError(_MEASURE, what, longer if now < ends else anew)
