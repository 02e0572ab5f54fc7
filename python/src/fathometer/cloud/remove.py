"""`down`: a lab is removed, also one that was half made; and what is left of it is looked for."""

from __future__ import annotations

import contextlib
import dataclasses
import shlex
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from fathometer.clean import cleaned
from fathometer.cloud import left, register, where
from fathometer.cloud.journal import OWN_FILES, STATE, removed
from fathometer.cloud.labs import variables_of
from fathometer.cloud.planned import Resource
from fathometer.cloud.prices import estimate
from fathometer.cloud.states import named_by
from fathometer.cloud.tool import LOOK_S, message, wait_for_tool
from fathometer.cloud.work import RefusedStateError, Work, note_things, table, tell
from fathometer.counts import are, count
from fathometer.errors import FathometerError
from fathometer.reading import digest
from fathometer.study.journal import JOURNAL, read_journal, ssh_left, unfinished
from fathometer.study.lock import LOCK, is_held

_SLOW: Final = {"aws": ", and AWS lists for about an hour what is gone"}
"""Clouds whose list lags behind: https://github.com/boto/boto3/issues/1704."""
_FIND_OUT: Final = "find out whether something is left"
_BY_STATE: Final = "nothing of it is left in its state; the cloud was not asked"


def down(work: Work, *, by_state: bool) -> None:
    """Removes a lab. Raises `FathometerError` where something is left, or that cannot be found out."""
    if work.place.begun is None:
        _without_journal(work, by_state=by_state)
        return
    agreed = _stop_study(work)
    with work.held(end_earlier=True):
        shutil.rmtree(removed(work.place.directory), ignore_errors=True)
        words = "by its journal nothing of it was ever made"
        if not register.is_confirmed(work.place):
            words += (
                f", which no entry in {register.directory()} confirms: where that journal may be an older"
                " copy, or one that lost its end, look into the cloud yourself"
            )
        if register.may_exist(work.place):
            register.must_be_named(work.place, "remove the lab")
            if not _state_is_lost(work):
                _destroy(work, agreed=agreed)
            _look(work, by_state=by_state)
            words = _BY_STATE if by_state else left.nothing_left(_asked(work))
        work.say(words)
        register.forget(work.place)
        work.place.remove()


def _without_journal(work: Work, *, by_state: bool) -> None:
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
    """Raises `FathometerError` where a state lies beside the journal that is gone, and names things: they
    exist, whatever a cloud answers that may not even be asked in the right place.
    """
    # What was set aside is newer than a state that lies beside it: destroyed first, that would be newer yet,
    # and the tool would refuse the other.
    for state in sorted(work.place.states, key=lambda one: one.name == STATE):
        number = named_by(state, work.command("down"))
        if number == 0:
            continue
        if number is None:
            work.say(f"{state} is torn: it says nothing")
            continue
        here = f"-chdir={state.parent}"
        calls = f"`{shlex.join(['terraform', here, 'destroy'])}`"
        if state.name != STATE:
            push = shlex.join(["terraform", here, "state", "push", state.name])
            calls = f"`{push}`, move {state} elsewhere, and call {calls}"
        things = count(number, "thing") + (entry.where.words if entry is not None else "")
        knows = entry is not None and entry.may_exist
        rest = (
            f"{work.command('down')}, which asks the cloud what is left"
            if knows
            else f"look yourself in the cloud whether something is left, and remove {work.place.directory}"
        )
        raise FathometerError(
            "remove the lab",
            f"{work.place.directory / JOURNAL} is gone, and {state} names {things}",
            f"put back a copy of the journal, if you have one; else call {calls} (or `tofu` in the place of"
            f" `terraform`), then {rest}",
        )


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
            _FIND_OUT,
            "the state is gone, and says nothing",
            f"{work.command('down')} without --by-state asks the cloud"
            if asked.cloud != "gcp"
            else f"look yourself, for networks too ({commands}), then remove {entry.file}",
        )
    answer = left.look(asked)
    if answer.problem is not None:
        raise FathometerError(
            _FIND_OUT,
            f"the state is gone, and {answer.problem}",
            f"then {work.command('down')} again; where you see yourself that nothing of it is left, "
            f"remove {entry.file}",
        )
    _must_be_nothing(work, asked, answer.things)
    where.must_prove(asked, _FIND_OUT, f"{work.command('down')} again", f"remove {entry.file}")
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


def _stop_study(work: Work) -> bool:
    """Ends what a study still has running, as its hosts are about to go, once somebody agreed to that and to
    the removal: it tells whether it asked. Raises `FathometerError` where nobody agrees.
    """
    started = work.place.last("study.started")
    if started is None or work.place.last("study.started", "study.done") is not started:
        return False
    output = Path(str(started["output"]))
    if not (output / JOURNAL).is_file():
        return False
    # Who agreed once is not asked again.
    asks = not work.place.has("destroy.started")
    if asks:
        # Nor is a study ended for a removal that is refused.
        register.must_be_named(work.place, "remove the lab")
        is_lost = _say_unfetched(work, output)
        there: tuple[Resource, ...] = ()
        with contextlib.suppress(FathometerError):
            there = work.exists()
        _must_be_agreed(work, there, "Remove the lab without it?" if is_lost else "Remove it?")
    from fathometer.study.stop import RUNNER_S, stop_study  # only who ends a study pays for it

    try:
        stop_study(output, None)
    except FathometerError as error:
        # Of hosts that are about to be removed nothing stays.
        work.say(f"{error}")
    # Whoever ran it still says what exists.
    until = time.monotonic() + RUNNER_S
    while is_held(work.place.directory) and time.monotonic() < until:
        time.sleep(LOOK_S)
    return asks


def _say_unfetched(work: Work, output: Path) -> bool:
    """Says that a study goes on, and what it has on hosts alone, and tells whether that is anything: whoever
    ends it there ends that, too.
    """
    if is_held(output):
        work.say(f"the study in {output} goes on: this ends it, and what it has fetched by then stays there")
    try:
        entries = read_journal(output)
    except FathometerError:
        # Whoever ends the study says why; the lab goes on costing until it is removed.
        return False
    runs = unfinished(entries) if ssh_left(entries) else []
    if not runs:
        return False
    number = len(runs)
    work.say(
        f"{count(number, 'run')} of {output} {are(number)} not fetched, and what the hosts have of that goes"
        f" with them; {work.command('run')} fetches it"
    )
    return True


def _must_be_agreed(work: Work, there: tuple[Resource, ...], question: str) -> None:
    """Shows what is about to be removed, and asks."""
    if there:
        tell(f"to be removed: {count(len(there), 'thing')}")
        tell(table(there))
        tell(f"costs {estimate(there)}")
    if not work.agreed(question):
        raise FathometerError("remove the lab", "nobody wanted it", "nothing was changed")


def _state_is_lost(work: Work) -> bool:
    """Whether nobody can tell from the state what there is: it is gone, torn, or empty though it was not.
    What was lost may be back: it is looked at each time. Raises `FathometerError` where that fails.
    """
    place = work.place
    if place.has("destroy.done"):
        return False
    what = _why_lost(work)
    if what is None:
        if place.is_state_lost:
            work.say(f"{place.state_file} can be read again")
            place.note("state.found")
        return False
    work.say(f"{place.state_file} {what}: the cloud is asked what it has of the lab")
    if not place.is_state_lost or (place.last("state.lost") or {}).get("reason") != what:
        place.note("state.lost", reason=what, sha256=digest(place.state_file))
    return True


def _why_lost(work: Work) -> str | None:
    place = work.place
    if work.is_aside():
        # It knows of things that the state does not.
        older = "is older than what was set aside"
        if work.broken_aside() is not None:
            return older
        try:
            work.prepare("down")
        except RefusedStateError:
            return older
    if (what := work.broken_state()) is not None:
        return what
    last = place.last("state.lost", "state.found", "push.done")
    if last is not None and last["kind"] == "state.lost" and last.get("sha256") == digest(place.state_file):
        # It is no newer because somebody took away what was set aside.
        return str(last["reason"])
    work.prepare("down")
    return work.emptied_state() if place.is_made else None


def _destroy(work: Work, *, agreed: bool) -> None:
    place = work.place
    last = place.last("destroy.started", "destroy.done")
    if last is not None and last["kind"] == "destroy.done":
        work.prepare("down")
        if not work.exists():
            return
    there = note_things(work)
    where.must_be_guarded(
        register.where(place), variables_of(place.root), "remove the lab", f"{work.command('down')} again"
    )
    # Who was asked once is not asked again after a crash.
    if last is None and not agreed:
        _must_be_agreed(work, there, "Remove it?")
    done = 0

    def heard(value: Mapping[str, Any]) -> None:
        nonlocal done
        hook = value.get("hook") or {}
        if value.get("type") == "apply_complete" and hook.get("action") == "delete":
            done += 1
            work.say(f"[{done}/{len(there)}] {message(value)}")
        elif value.get("type") == "apply_errored":
            work.say(message(value))

    ended = work.step("destroy", "destroy", "-auto-approve", "-input=false", "-json", heard=heard)
    if ended.code != 0 or ended.interrupted:
        raise work.failed("remove the lab", ended, "down")


def _look(work: Work, *, by_state: bool) -> None:
    place = work.place
    is_lost = place.is_state_lost
    if not is_lost:
        work.prepare("down")
    stayed = () if is_lost else work.exists()
    asked = _asked(work)
    forget = f"remove {place.directory} and {register.file_of(place)}"
    if is_lost and (by_state or asked.cloud == "gcp"):
        made = [a for e in place.entries if e.get("kind") == "approved" for a in e["addresses"]]
        _list("as the journal has it, or never made", dict.fromkeys(made))
        commands = [shlex.join(one) for tag in asked.tags for one in left.commands_for(asked, tag)]
        raise FathometerError(
            _FIND_OUT,
            "the state is lost, and says nothing",
            f"{work.command('down')} without --by-state asks the cloud"
            if asked.cloud != "gcp"
            else f"look yourself, for networks too ({'; '.join(commands)}), then {forget}",
        )
    if stayed:
        _list("in the state", (resource.address for resource in stayed))
        raise FathometerError(
            "remove the lab",
            f"{count(len(stayed), 'thing')} {are(len(stayed))} left",
            f"{work.command('down')} tries it again",
        )
    if by_state:
        return
    place.note("left.started")
    answer = left.look(asked)
    trusts = "" if is_lost else "; with --by-state it trusts the state"
    # Of a lab that lost its tag with its journal the cloud can never be asked.
    by_hand = f"; where you see yourself that nothing of it is left, {forget}" if is_lost else ""
    if answer.problem is not None:
        raise FathometerError(
            _FIND_OUT,
            f"the state is {'lost, and' if is_lost else 'empty, but'} {answer.problem}",
            f"then {work.command('down')} again{trusts}{by_hand}",
        )
    place.note("left.looked", left=len(answer.things))
    _must_be_nothing(work, asked, answer.things)
    if is_lost or not place.begun_in_vain:
        # Of what was never made there is nothing anywhere.
        where.must_prove(register.where(place), _FIND_OUT, f"{work.command('down')} again{trusts}", forget)


def _must_be_nothing(work: Work, asked: where.Where, things: Sequence[str]) -> None:
    """Lists what the cloud has of a lab; raises `FathometerError` where that is anything."""
    if things:
        names = " or ".join(f"fathom-lab={tag}" for tag in asked.tags)
        _list(f"with the tag {names}{asked.words}", things)
        raise FathometerError(
            "remove the lab",
            f"{count(len(things), 'thing')} {are(len(things))} left that no state knows",
            f"see whose it is: another lab of the same name bears the same tag{_SLOW.get(asked.cloud, '')}. "
            f"Remove by hand what is this lab's, then {work.command('down')} again",
        )


def _asked(work: Work) -> where.Where:
    """Where is looked: of a lab that nobody knows the subscription of, in the environment's."""
    known = register.where(work.place)
    return dataclasses.replace(known, owner=known.owner or where.owner_now(known.cloud))


def _list(place: str, names: Iterable[str]) -> None:
    tell(f"left, {place}:")
    for name in names:
        tell(f"    {cleaned(name)}")
