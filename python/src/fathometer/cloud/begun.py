"""What `list` says of the labs that were begun: of the usual place, registered ones, and those it is told."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from fathometer.clean import cleaned
from fathometer.cloud import register, rescued, whose
from fathometer.cloud.journal import LabPlace, all_usual
from fathometer.cloud.prices import at_least, hourly
from fathometer.cloud.states import EMPTY, broken, document_in, is_encrypted, named_by
from fathometer.cloud.work import command_for, remaining
from fathometer.counts import are, count
from fathometer.errors import FathometerError


def lines(named: Iterable[Path], now: datetime) -> tuple[list[str], bool]:
    """A line for each lab, and whether any needs attention: it cannot be read, is gone and may cost, or is
    not where somebody named it.
    """
    named = [place.absolute() for place in named]
    entries, unreadable = register.entries()
    entries = [_followed(entry, named) for entry in entries]
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
    states = rescued.kept(entry.id, entry.directory)
    down = command_for("down", entry.lab, entry.directory)
    if entry.directory.is_dir():
        what = "holds another lab or none"
        there = LabPlace(entry.directory)
        # By its name and directory `down` would remove that one.
        if there.begun is not None:
            when = " once the lab that is there now is removed"
        else:
            states += there.states
    if states and not when:
        # Of a directory that is there the journal is what `up` misses.
        gone = entry.directory if what == "is gone" else f"the journal in {entry.directory}"
        return (
            f"{entry.lab}  {gone} is gone, and {states[0]} is there: what exists{entry.where.words} may go on"
            f" costing; {down} says what to do"
        )
    return (
        f"{entry.lab}  {entry.directory} {what}, with its state: what exists{entry.where.words} is not"
        f" known, and may go on costing; {down} asks the cloud{when}. If it was moved, name it once:"
        " `fathom cloud list --directory DIR`"
    )


def _followed(entry: register.Entry, named: Iterable[Path]) -> register.Entry:
    """A lab's entry; where it is gone from where it was, and its new place is named, that is noted in it."""
    for place in named:
        with contextlib.suppress(FathometerError):
            if entry.is_gone and (moved := LabPlace(place)).id == entry.id:
                register.note(moved, may_exist=entry.may_exist)
                return dataclasses.replace(entry, directory=register.real(place))
    return entry


def _why_no_more(place: LabPlace, down: str) -> str:
    """Of a lab of which nothing is made: why `up` has nothing to go on with; empty where it has a plan."""
    last = place.last("init.failed", "planned", "plan.done", "plan.failed")
    kind = None if last is None else last["kind"]
    if kind in {"planned", "plan.done"}:
        return ""
    what = "nothing was planned" if kind is None else "its last plan failed"
    return f", and {what}: {down} takes it out of this list"


def _unmade(place: LabPlace, down: str) -> str:
    """Of a lab whose journal does not have that its making began, which its entry or its files may say."""
    if register.may_exist(place):
        return f"what exists is not known, as its journal does not have that its making began; {down} looks"
    nothing = f"nothing was made yet{_why_no_more(place, down)}"
    if register.is_confirmed(place):
        return nothing
    return f"no entry in {register.directory()} says so, but by its journal {nothing}"


def summary(directory: Path, now: datetime) -> str | None:
    """A line on a lab's directory, of its journal alone; None: it holds no lab. It names the directory where
    that is not the usual one, or where no end of its hosts is known.
    """
    place = LabPlace(directory)
    begun = place.begun
    if begun is None:
        return None
    last = place.last(
        "apply.started", "apply.done", "apply.failed", "destroy.started", "destroy.failed", "destroy.done"
    )
    down = command_for("down", str(begun.get("lab")), place.directory)
    kind = None if last is None else str(last["kind"])
    state = {None: _unmade(place, down), "apply.done": "made"}.get(kind, "half made, or half removed")
    if kind == "destroy.done":
        # Of no other the state has to be read.
        state = _removed(place, down)
    if (what := whose.anothers(place)) is not None:
        state += f", but {what}: what exists is not known"
    elif place.is_made and (what := _says_nothing(place.state_file, down)):
        state += f", but {place.state_file.name} {what}: what exists is not known"
    price = _price(place.last("approved"))
    parts = [f"{begun.get('lab')}  {state}{price}"]
    if (last is not None or register.may_exist(place)) and (reminder := remaining(place, now)):
        parts.append(reminder)
    if len(parts) == 1 or place.directory.parent != all_usual():
        parts.append(str(place.directory))
    return cleaned("; ".join(parts))


def _price(approved: Mapping[str, Any] | None) -> str:
    """What it costs by what was agreed to, in words after a comma; empty: nobody agreed to anything."""
    if approved is None:
        return ""
    unknown = approved.get("unknown", ())
    low, high = float(approved["low"]), float(approved["high"])
    if unknown and not high:
        return f", price not known: there is none here of {', '.join(unknown)}"
    if unknown:
        return f", by an estimate {at_least(low, int(approved.get('number_unknown', 0)), unknown)}"
    return f", estimated at {hourly(low, high)}"


def _removed(place: LabPlace, down: str) -> str:
    """Of a lab whose removal the tool ended in order, which it may have done without removing anything."""
    if named := named_by(place.state_file, down):
        return f"half removed: its state names {count(named, 'thing')}"
    looked = place.last("destroy.done", "left.looked")
    if looked is not None and (number := looked.get("left")):
        return f"half removed: {count(int(number), 'thing')} of it {are(int(number))} left"
    return "removed; whether something is left was not found out"


def _says_nothing(state: Path, down: str) -> str | None:
    """Why a state says nothing of a lab that was made, without the tool; None: it names things."""
    if what := broken(state, down):
        return what
    text = state.read_bytes()
    # What a lab only reads is not nothing.
    document = document_in(text) or {}
    return None if document.get("resources") or is_encrypted(text) else EMPTY
