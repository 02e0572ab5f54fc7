"""What `list` says of the labs that were begun: of the usual place, registered ones, and those it is told."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from fathometer.clean import cleaned
from fathometer.cloud import register
from fathometer.cloud.journal import LabPlace, all_usual
from fathometer.cloud.work import command_for, summary
from fathometer.errors import FathometerError


def lines(named: Iterable[Path], now: datetime) -> tuple[list[str], bool]:
    """A line for each lab, and whether any needs attention: it cannot be read, is gone and may cost, or is
    not where somebody named it.
    """
    named = [place.absolute() for place in named]
    _follow_moved(named)
    entries, unreadable = register.entries()
    usual, problems = _usual()
    texts = []
    places: dict[Path, Path] = {}
    for place in (*usual, *(entry.directory for entry in entries), *named):
        places.setdefault(register.real(place), place)
    asked_for = {register.real(place) for place in named}
    for real, place in places.items():
        try:
            line = summary(place, now)
        except FathometerError as error:
            problems.append(f"{place.name}  cannot be read: {error.object}; {error.remedy}")
            continue
        if line is not None:
            texts.append(line)
        elif real in asked_for:
            problems.append(f"{place}  holds no lab")
    for entry in entries:
        try:
            is_gone = entry.is_gone
        except FathometerError:
            # Told above.
            continue
        if is_gone and not entry.may_exist:
            entry.forget()
        elif is_gone:
            problems.append(_gone(entry))
    problems += [
        f"{file}  cannot be read: it says where a lab is, which may go on costing; look into it, and if a"
        " newer fathom wrote it, use that"
        for file in unreadable
    ]
    return [cleaned(line) for line in (*texts, *problems)], bool(problems)


def _usual() -> tuple[list[Path], list[str]]:
    """What lies in the usual place, and a line where nobody can look into that."""
    directory = all_usual()
    try:
        return sorted(directory.iterdir()), []
    except FileNotFoundError:
        return [], []
    except OSError as error:
        return [], [f"{directory}  cannot be read: {error.strerror}; see that you may look into it"]


def _gone(entry: register.Entry) -> str:
    what, when = "is gone", ""
    down = command_for("down", entry.lab, entry.directory)
    if entry.directory.is_dir():
        what = "holds another lab or none"
        there = LabPlace(entry.directory)
        # By its name and directory `down` would remove that one.
        if there.begun is not None:
            when = " once the lab that is there now is removed"
        elif states := there.states:
            return (
                f"{entry.lab}  the journal in {entry.directory} is gone, and {states[0]} is there: what"
                f" exists{entry.where.words} may go on costing; {down} says what to do"
            )
    return (
        f"{entry.lab}  {entry.directory} {what}, with its state: what exists{entry.where.words} is not"
        f" known, and may go on costing; {down} asks the cloud{when}. If it was moved, name it once:"
        " `fathom cloud list --directory DIR`"
    )


def _follow_moved(named: Iterable[Path]) -> None:
    """Notes the new place of a lab that is gone from where it was, and is named."""
    for entry in register.entries()[0]:
        for place in named:
            with contextlib.suppress(FathometerError):
                if entry.is_gone and (moved := LabPlace(place)).id == entry.id:
                    register.note(moved, may_exist=entry.may_exist)
