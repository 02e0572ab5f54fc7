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
    """A line for each lab, and whether all is well: each can be read, and none is gone that may cost."""
    usual = all_usual()
    named = [place.absolute() for place in named]
    _follow_moved(named)
    entries, broken = register.entries()
    places = [place for place in (sorted(usual.iterdir()) if usual.is_dir() else []) if place.is_dir()]
    places += [entry.directory for entry in entries if entry.directory.is_dir()]
    said, well = [], not broken
    for place in dict.fromkeys([*places, *named]):
        try:
            line = summary(place, now)
        except FathometerError as error:
            well = False
            line = f"{place.name}  cannot be read: {error.object}; {error.remedy}"
        if line is None and place in named:
            well = False
            line = f"{place}  holds no lab"
        elif line is not None and place.parent != usual:
            line += f"; {place}"
        said += [cleaned(line)] if line else []
    for entry in entries:
        try:
            gone = entry.is_gone
        except FathometerError:
            # Told above.
            continue
        if gone and not entry.may_exist:
            entry.forget()
        elif gone:
            well = False
            said.append(cleaned(_gone(entry)))
    said += [cleaned(f"{file}  cannot be read: it says where a lab is; remove it") for file in broken]
    return said, well


def _gone(entry: register.Entry) -> str:
    what, when = "is gone", ""
    if entry.directory.is_dir():
        what = "holds another lab or none"
        # By its name and directory `down` would remove that one.
        if LabPlace(entry.directory).begun is not None:
            when = " once the lab that is there now is removed"
    down = command_for("down", entry.lab, entry.directory)
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
