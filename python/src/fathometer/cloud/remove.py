"""`down`: removes a lab, and looks for what is left of it."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path
from typing import Final

from fathometer.clean import cleaned
from fathometer.cloud import left
from fathometer.cloud.journal import SETTINGS
from fathometer.cloud.planned import LAB_TAG, Resource, estimate, table
from fathometer.cloud.tool import LOCK_TIMEOUT, ToolProgress
from fathometer.cloud.work import Work, tell
from fathometer.counts import are, count
from fathometer.errors import FathometerError
from fathometer.study.journal import read_journal, ssh_left, unfinished

_REMOVE: Final = "remove the lab"
_LOOK: Final = "find out what is left of the lab"


def down(work: Work, *, by_state: bool) -> None:
    """Removes a lab. Raises `FathometerError` where something is left, or that cannot be found out."""
    with work.held():
        if work.record.state == "planned":
            words = "nothing of it was made"
        else:
            left.must_be_same(work.record.where)
            if work.record.state == "made":
                _destroy(work)
            words = _words_of_look(work, by_state=by_state)
        work.say(words)
        work.place.remove(work.record)


def _destroy(work: Work) -> None:
    """Removes what the state has. The record then is `removed`, unless the state had nothing: that may be a
    lost one.
    """
    work.place.write_values(work.record, SETTINGS)
    tool = work.prepare("down")
    try:
        there = work.exists()
    except FathometerError as error:
        work.say(f"the state cannot be read: {error.object}")
        return
    _must_be_agreed(work, there)
    heard = ToolProgress(work.say, len(there))
    ended = tool.run("destroy", "-auto-approve", "-input=false", "-json", LOCK_TIMEOUT, heard=heard)
    if not ended.is_done:
        raise work.failed(_REMOVE, ended, "down")
    if stayed := work.exists():
        _list("in the state", [resource.address for resource in stayed])
        how = f"{work.command('down')} tries it again; by hand: {tool.by_hand('destroy')}"
        raise FathometerError(_REMOVE, f"{count(len(stayed), 'thing')} {are(len(stayed))} left", how)
    if there or heard.done:
        work.note(dataclasses.replace(work.record, state="removed"))


def _must_be_agreed(work: Work, there: tuple[Resource, ...]) -> None:
    """Shows what is about to be removed, asks, and ends a study that was killed."""
    output = work.record.output
    entries = read_journal(Path(output)) if output else []
    if runs := unfinished(entries) if ssh_left(entries) else []:
        number = f"{count(len(runs), 'run')} of {output} {are(len(runs))} not fetched, and"
        work.say(f"{number} will be lost with the hosts; {work.command('run')} fetches the rest")
    if there:
        tell(f"to be removed: {count(len(there), 'thing')}")
        tell(table(there))
        tell(f"costs {estimate(there)}")
    if not work.agreed("Remove it?"):
        raise FathometerError(_REMOVE, "you did not agree", "nothing was changed")
    if output and ssh_left(entries):
        from fathometer.study.stop import stop_study  # its imports take long, and few calls need it

        try:
            stop_study(Path(output), None)
        except FathometerError as error:
            work.say(str(error))


def _words_of_look(work: Work, *, by_state: bool) -> str:
    """The words on what is left, after a look; raises `FathometerError` where anything is, or may be."""
    where, is_removed = work.record.where, work.record.state == "removed"
    state = "the tool removed all that its state had" if is_removed else "its state has nothing, or is torn"
    again = f"then {work.command('down')} looks again"
    forget = f"; where you see yourself that nothing is left, remove {work.place.directory}"
    again += "; --by-state trusts the state" if is_removed else forget
    if by_state and not is_removed:
        raise FathometerError(_LOOK, state, f"log in to the cloud, {again}")
    if by_state:
        return "its state is empty; the cloud was not asked"
    try:
        found = left.look(where)
    except FathometerError as error:
        remedy = f"{error.remedy}; {again}"
        raise FathometerError(error.operation, f"{state}, and {error.object}", remedy) from None
    if found.things:
        _list(f"in {where}, with the tag {LAB_TAG}", found.things)
        number = f"{count(len(found.things), 'thing')} {are(len(found.things))} left"
        slow = "; AWS lists things for about an hour after their removal" if where.cloud == "aws" else ""
        how = f"another lab of its name has the same tag: see whose they are, remove what is its, {again}"
        raise FathometerError(_REMOVE, f"{number} that no state has{slow}", how)
    if where.cloud == "gcp" and not is_removed:
        listed = "; ".join(shlex.join(command) for command in left.commands_for(where))
        what = f"{state}, and Google lists only hosts by their label ({listed})"
        raise FathometerError(_LOOK, what, f"look for networks, too{forget}")
    return str(found)


def _list(place: str, names: list[str] | tuple[str, ...]) -> None:
    tell(f"left, {place}:")
    for name in names:
        tell(f"    {cleaned(name)}")
