"""`down` of a lab whose journal is gone: what its state, its entry and the cloud still say of it."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Collection
from pathlib import Path

from fathometer.clean import cleaned
from fathometer.cloud import left, register, rescued, where, whose
from fathometer.cloud.journal import ASIDE, FILES, OWN_FILES, STATE, removed
from fathometer.cloud.states import document_in, is_encrypted, named_in, unreadable
from fathometer.cloud.tool import wait_for_tool
from fathometer.cloud.work import Work
from fathometer.counts import count
from fathometer.errors import FathometerError
from fathometer.study.journal import JOURNAL
from fathometer.study.lock import LOCK


def remove(work: Work, *, by_state: bool) -> None:
    """Of a directory that does not say that a lab was begun there."""
    directory = work.place.directory
    entry = register.of_directory(directory, work.lab)
    _must_name_nothing(work, entry)
    if entry is not None and entry.may_exist:
        _look_without_journal(work, entry, by_state=by_state)
        return
    if (gone := removed(directory)).is_dir():
        _end_removal(work, gone)
        return
    if states := work.place.states:
        raise FathometerError(
            "remove the lab",
            f"{directory / JOURNAL} is gone, {states[0]} names nothing, and where the lab was is not known",
            "look yourself wherever it may have been; where nothing of it is left, remove the directory",
        )
    unreadable = register.entries()[1]
    what = f", and {unreadable[0]}, which may be of it, cannot be read" if unreadable else ""
    raise FathometerError(
        "remove the lab",
        f"{directory} holds none{what}",
        "name its --directory; `fathom cloud list` names the labs that are known",
    )


def _must_name_nothing(work: Work, entry: register.Entry | None) -> None:
    """Raises `FathometerError` where the lab's state is there, without its journal, and names things: they
    exist, whatever a cloud answers that may not even be asked in the right place.
    """
    directory = work.place.directory
    cloud, _, name = work.lab.partition("-")
    root = directory / FILES / cloud / name
    lab_id = "" if entry is None else entry.id
    if root.is_dir():
        rescued.bring_back(lab_id, directory, root / ASIDE, work.say)
    # What was set aside is newer than a state that lies beside it: destroyed first, that would be newer yet,
    # and the tool would refuse the other.
    states = sorted(work.place.states, key=lambda one: one.name == STATE)
    for state in (*rescued.kept(lab_id, directory), *states):
        what = _named(work, state, () if entry is None else entry.where.tags)
        if what is None:
            continue
        things = what + (entry.where.words if entry is not None else "")
        knows = entry is not None and entry.may_exist
        rest = (
            f"{work.command('down')}, which asks the cloud what is left"
            if knows
            else f"look yourself in the cloud whether something is left, and remove {directory}"
        )
        calls = _by_hand(state, root, is_in_root=state in states)
        raise FathometerError(
            "remove the lab",
            f"{directory / JOURNAL} is gone, and {state} {things}",
            f"put back a copy of the journal, if you have one; else {calls} (or `tofu` in the place of"
            f" `terraform`), then {rest}",
        )


def _by_hand(state: Path, root: Path, *, is_in_root: bool) -> str:
    """The calls that remove what a state names, in words. `root` is gone where the state is not in it."""
    here = ["terraform"] + ([f"-chdir={state.parent}"] if is_in_root else [])
    destroy = f"`{shlex.join([*here, 'destroy'])}`"
    if state.name == STATE:
        return f"call {destroy}"
    push = f"`{shlex.join([*here, 'state', 'push', state.name if is_in_root else str(state)])}`"
    if is_in_root:
        return f"call {push}, move {state} elsewhere, and call {destroy}"
    return (
        f"call `terraform init`, {push} and {destroy} in {root.name} of a copy of infra/{root.parent.name},"
        f" move {state} elsewhere"
    )


def _named(work: Work, state: Path, own: Collection[str]) -> str | None:
    """What a state names, in words; None: nothing, or it is torn, which is said. `own`: the lab's tags."""
    try:
        text = rescued.text_of(state)
    except OSError as error:
        raise unreadable(state, error, work.command("down")) from None
    number = named_in(text)
    if number is None:
        work.say(f"{state} is torn: it says nothing")
    elif number:
        tags = whose.tags_of(document_in(text) or {})
        others = ", ".join(sorted(tags)) if own and not tags & {*own} else ""
        return f"names {count(number, 'thing')}" + (f" of another lab, {others}" if others else "")
    elif is_encrypted(text):
        return "is encrypted, and may name things"
    return None


def _look_without_journal(work: Work, entry: register.Entry, *, by_state: bool) -> None:
    """Of a lab whose directory is gone or says nothing of it: the cloud alone knows what it consists of.
    The entry is all that leads there: it is forgotten only where the right cloud has nothing.
    """
    asked = entry.where
    where.must_be_asked(asked, "remove the lab")
    wait_for_tool(entry.id, work.say, end=True)
    # Of one that still worked, its last words.
    _must_name_nothing(work, entry)
    work.say(f"{entry.directory} does not hold it any more: the cloud is asked what it has of the lab")
    if by_state or asked.cloud == "gcp":
        commands = "; ".join(shlex.join(one) for tag in asked.tags for one in left.commands_for(asked, tag))
        raise FathometerError(
            left.FIND_OUT,
            "the state is gone, and says nothing",
            f"{work.command('down')} without --by-state asks the cloud"
            if asked.cloud != "gcp"
            else f"look yourself, for networks too ({commands}), then remove {entry.file}",
        )
    answer = left.look(asked)
    if answer.problem is not None:
        raise FathometerError(
            left.FIND_OUT,
            f"the state is gone, and {answer.problem}",
            f"then {work.command('down')} again; where you see yourself that nothing of it is left, "
            f"remove {entry.file}",
        )
    left.must_be_nothing(work, asked, answer.things)
    where.must_prove(asked, left.FIND_OUT, f"{work.command('down')} again", f"remove {entry.file}")
    work.say(left.nothing_left(asked))
    _remove_rest(work)
    entry.forget()


def _remove_rest(work: Work) -> None:
    """Takes away what lies in the directory of a lab without its journal: `up` begins nothing beside it."""
    directory = work.place.directory
    shutil.rmtree(removed(directory), ignore_errors=True)
    if not directory.exists():
        return
    with work.held():
        if work.place.begun is not None:
            # Another lab began there meanwhile.
            return
        others = sorted({one.name for one in directory.iterdir()} - OWN_FILES)
        if others:
            work.say(f"{directory} holds {cleaned(others[0])}, too: look into it, and remove it yourself")
            return
        work.place.remove()


def _end_removal(work: Work, gone: Path) -> None:
    """Of a lab that was removed, and its directory not to the end."""
    with work.held():
        directory = work.place.directory
        if others := sorted(entry.name for entry in directory.iterdir() if entry.name != LOCK):
            raise FathometerError(
                "remove the lab",
                f"{directory} holds {cleaned(others[0])}, and no lab",
                "look into it, and remove it or move it elsewhere yourself",
            )
        shutil.rmtree(gone)
        # Whether something of the lab is left was found out before, and not now.
        work.say("it was removed before, and the rest of its directory is now")
        (directory / LOCK).unlink()
        directory.rmdir()
