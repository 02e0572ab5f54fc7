"""`down`: a lab is removed, also one that was half made; and what is left of it is looked for."""

from __future__ import annotations

import contextlib
import dataclasses
import shlex
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from fathometer.cloud import left, register, where, whose, without_journal
from fathometer.cloud.journal import removed
from fathometer.cloud.labs import variables_of
from fathometer.cloud.planned import Resource
from fathometer.cloud.prices import estimate
from fathometer.cloud.settings import are_lost
from fathometer.cloud.tool import LOOK_S, message
from fathometer.cloud.work import RefusedStateError, Work, note_things, table, tell
from fathometer.counts import are, count
from fathometer.errors import FathometerError
from fathometer.reading import digest
from fathometer.study.journal import JOURNAL, read_journal, ssh_left, unfinished
from fathometer.study.lock import is_held

_BY_STATE: Final = "nothing of it is left in its state; the cloud was not asked"


def down(work: Work, *, by_state: bool) -> None:
    """Removes a lab. Raises `FathometerError` where something is left, or that cannot be found out."""
    if work.place.begun is None:
        without_journal.remove(work, by_state=by_state)
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
            is_lost = _state_is_lost(work)
            if not is_lost and (there := _without_settings(work)):
                _must_be_gone(work, there, by_state=by_state)
            else:
                if not is_lost:
                    _destroy(work, agreed=agreed)
                _look(work, by_state=by_state)
            words = _BY_STATE if by_state else left.nothing_left(_asked(work))
        work.say(words)
        register.forget(work.place)
        work.place.remove()


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
        whose.must_be_own(work.place, work.command("down"))
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


def _without_settings(work: Work) -> tuple[Resource, ...]:
    """What the state names, where the tool cannot be called to remove it."""
    if not are_lost(work.place):
        return ()
    work.prepare("down")
    return work.exists()


def _must_be_gone(work: Work, there: tuple[Resource, ...], *, by_state: bool) -> None:
    """Raises `FathometerError` where the cloud may have something of a lab whose settings are gone."""
    place, asked = work.place, _asked(work)
    last = place.last("settings") or {}
    names = [name for name in last.get("names", ()) if name != "expires"]
    had = f" (values of {', '.join(names)})" if names else ""
    what = f"{place.settings_file} is not there, without which the tool removes nothing"
    if place.has("destroy.started"):
        # `up` begins nothing of a lab whose removal has begun.
        by_hand = shlex.join([work.tool.program, f"-chdir={place.root}", "destroy"])
        way = f"call `{by_hand}` with -var NAME=VALUE for what it was made with{had}"
    else:
        way = f"{work.command('up')} with the options that it was made with{had} writes it again"
    remedy = f"put it back; or {way}. Then {work.command('down')}"
    if not by_state and asked.cloud != "gcp":
        work.say(f"{what}: the cloud is asked what it has of the lab")
        place.note("left.started")
        answer = left.look(asked)
        if answer.problem is not None:
            what += f", and what is there could not be found out: {answer.problem}"
        else:
            place.note("left.looked", left=len(answer.things))
            if not answer.things:
                forget = f"remove {place.directory} and {register.file_of(place)}"
                where.must_prove(
                    register.where(place), left.FIND_OUT, f"{work.command('down')} again", forget
                )
                return
            left.show(f"in the cloud{asked.words}", answer.things)
    left.show("as the state names it", (thing.address for thing in there))
    raise FathometerError("remove the lab", what, remedy)


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
    if not ended.is_done:
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
        left.show("as the journal has it, or never made", dict.fromkeys(made))
        commands = [shlex.join(one) for tag in asked.tags for one in left.commands_for(asked, tag)]
        raise FathometerError(
            left.FIND_OUT,
            "the state is lost, and says nothing",
            f"{work.command('down')} without --by-state asks the cloud"
            if asked.cloud != "gcp"
            else f"look yourself, for networks too ({'; '.join(commands)}), then {forget}",
        )
    if stayed:
        left.show("in the state", (resource.address for resource in stayed))
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
            left.FIND_OUT,
            f"the state is {'lost, and' if is_lost else 'empty, but'} {answer.problem}",
            f"then {work.command('down')} again{trusts}{by_hand}",
        )
    place.note("left.looked", left=len(answer.things))
    left.must_be_nothing(work, asked, answer.things)
    if is_lost or not place.begun_in_vain:
        # Of what was never made there is nothing anywhere.
        where.must_prove(
            register.where(place), left.FIND_OUT, f"{work.command('down')} again{trusts}", forget
        )


def _asked(work: Work) -> where.Where:
    """Where is looked: of a lab that nobody knows the subscription of, in the environment's."""
    known = register.where(work.place)
    return dataclasses.replace(known, owner=known.owner or where.owner_now(known.cloud))
