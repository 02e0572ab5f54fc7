"""`plan` and `up`: a lab's variables, what would be made, and its making."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from fathometer.cloud import keys, register, running, sshkey, twice, where, whose
from fathometer.cloud.journal import KNOWN_HOSTS, PROPOSAL, LabPlace
from fathometer.cloud.labs import Root, variables_of
from fathometer.cloud.planned import ENDS, HOSTS, Plan, read_plan
from fathometer.cloud.prices import Price, estimate
from fathometer.cloud.settings import Given, Proposal, propose
from fathometer.cloud.tool import VARIABLE, find_tool, message, not_passed_on
from fathometer.cloud.work import Work, ending, expires, moment, note_things, remaining, table, tell
from fathometer.counts import count
from fathometer.errors import FathometerError
from fathometer.study.outputs import Lab, read_lab

_PLAN: Final = "lab.plan"
_CENT: Final = 0.01
_ROOM: Final = 32 << 20
_TO_MAKE: Final = timedelta(minutes=10)
"""Hosts are there by then. What takes longer, as a gateway, has no end of its own."""
_FREE: Final = (
    "nothing is made, changed or removed, and no cost: only what `run` reads of the lab changes, its outputs"
)
_Clock = Callable[[], datetime]


def _utc_now() -> datetime:
    return datetime.now(UTC)


def plan(work: Work, root: Root, given: Given) -> Plan:
    """Shows what `up` would do."""
    with work.held():
        proposal, planned, price, asked = _plan(work, root, given, _utc_now())
        try:
            _must_log_in(work, given, proposal)
            twice.must_have_its_name_alone(work, asked)
        except FathometerError as error:
            work.say(f"{work.command('up')} would be refused: {error.object}; {error.remedy}")
        _show(planned, price)
        if what := work.emptied_state():
            ask = f"{work.command('up')} asks the cloud first what it has of the lab"
            work.say(f"{work.place.state_file} {what}: {ask}")
        if register.may_exist(work.place):
            if reminder := remaining(work.place, _utc_now()):
                work.say(reminder)
        else:
            proposal.keep(work.place)
            if ends := moment(proposal.values.get("expires")):
                work.say(f"made now, its hosts end at {ends:%Y-%m-%d %H:%M} UTC")
        return planned


def up(work: Work, root: Root, given: Given, clock: _Clock = _utc_now) -> Lab:
    """Makes a lab, or what is left of it to be made."""
    with work.held():
        proposal, planned, price, asked = _plan(work, root, given, clock())
        if planned.is_empty:
            work.say("everything of it is there")
            # Another file may have the same key.
            running.note_end(work.place, clock())
            proposal.take(work.place)
            note_things(work)
            if not work.place.is_made:
                # A crash between the last thing and its entry.
                work.place.note("apply.done")
        else:
            if not planned.is_free:
                _must_log_in(work, given, proposal)
            twice.must_have_its_name_alone(work, asked)
            twice.must_not_be_there(work, asked)
            _must_have_room(work.place)
            _must_end_later(work, planned, proposal, clock())
            if planned.is_free:
                work.say(_FREE)
            else:
                _approve(work, planned, price, proposal, clock)
            where.note(work.place, asked)
            # It may have passed while somebody was asked.
            running.note_end(work.place, clock())
            proposal.take(work.place)
            if any(resource.kind in HOSTS for resource in (*planned.made, *planned.removed)):
                # One at the address of another, also of one that vanished, has keys of its own.
                work.place.note("keys.void")
            if planned.outputs:
                work.place.note("outputs.changed")
            _apply(work, len(planned.made) + len(planned.changed) + len(planned.removed))
        lab = outputs(work)
        made = {resource.address for resource in planned.made if resource.kind in HOSTS}
        try:
            # One that is new takes as long as those of a new lab, and what it replaces is no matter.
            patience_s = keys.PATIENCE_S if made else None
            before = [thing for thing in planned.before if thing.address not in made]
            running.must_run(work, lab, key_of(work), before, patience_s=patience_s)
            know_hosts(work, lab)
        finally:
            work.say_what_exists()
        return lab


def outputs(work: Work) -> Lab:
    """The lab as its outputs tell of it."""
    return read_lab(work.outputs(), f"the lab {work.lab}")


def know_hosts(work: Work, lab: Lab) -> None:
    """Sees to it that the keys of the hosts are known; raises `FathometerError` where nobody takes them."""
    addresses = [lab.jump.address] if lab.jump is not None else []
    addresses += [host.address for host in lab.hosts]
    taken = work.place.last("keys.taken", "keys.void")
    known = work.place.directory / KNOWN_HOSTS
    if taken is not None and taken.get("addresses") == addresses and known.is_file():
        return
    work.place.note("keys.started", addresses=addresses)
    new = known.with_name(f"{KNOWN_HOSTS}.new")
    keys.fetch(lab, key_of(work), new, work.say)
    tell("the hosts' keys, as they came over the network:", err=True)
    for line in keys.fingerprints(new):
        tell(f"    {line}", err=True)
    if not work.agreed("Take them?"):
        raise FathometerError(
            "make the hosts known", "their keys were not taken", f"{work.command('up')} asks again"
        )
    new.rename(known)
    work.place.note("keys.taken", addresses=addresses)


def key_of(work: Work) -> str | None:
    """The file of the private key; None: as `ssh` finds it."""
    key = (work.place.last("settings") or {}).get("key")
    return None if key is None else str(key)


def _plan(work: Work, root: Root, given: Given, now: datetime) -> tuple[Proposal, Plan, Price, where.Where]:
    place = work.place
    if place.has("destroy.started"):
        raise FathometerError(
            "make the lab", "its removal has begun", f"end that first, with {work.command('down')}"
        )
    if register.may_exist(place):
        # In another place everything would seem gone.
        register.must_be_named(place, "make the lab")
        where.must_be_guarded(
            register.where(place), variables_of(place.root), "make the lab", f"{work.command('up')} again"
        )
        _state_must_be_whole(work)
    if place.begun is None:
        place.begin(root, work.named or find_tool(None))
        work.register()
    else:
        place.begin(root, place.program)
    _must_have_time_left(work, given, now)
    proposal = propose(place, root, given, now)
    if given.usual:
        work.say(f"as usual in this lab, whatever was said before: {', '.join(given.usual)}")
    if named := not_passed_on():
        options = ", ".join(f"--var {name.removeprefix(VARIABLE)}=VALUE" for name in named)
        work.say(f"not passed on from the environment: {', '.join(named)}; give it by {options}")
    work.prepare("up")
    work.say("planning")
    words = ("plan", "-input=false", "-json", f"-var-file={PROPOSAL}", f"-out={_PLAN}")
    ended = work.step("plan", *words)
    if not ended.is_done and (fetched := work.fetch_again(ended.words)):
        ended = work.step("plan", *words) if fetched.is_done else fetched
    if not ended.is_done:
        if given.names:
            work.say(f"not kept, as it could not be planned: {', '.join(given.names)}")
        ways = dict.fromkeys(given.option_of(name) for name in ended.variables)
        raise work.failed("plan the lab", ended, "up", f"set it with {' and '.join(ways)}" if ways else None)
    document = work.tool.shown(_PLAN)
    planned = read_plan(document)
    asked = where.of_plan(register.where(place), document, planned, may_exist=register.may_exist(place))
    return proposal, planned, estimate(planned.after), asked


def _state_must_be_whole(work: Work) -> None:
    """What the cloud has and no state knows would be made a second time, and paid for twice."""
    what = None if work.is_aside() else work.broken_state()
    # A crash may have come before the first thing: the cloud is asked when the plan has said the lab's tag.
    if what is not None and (work.place.is_made or work.place.state_file.exists()):
        raise FathometerError(
            "make the lab",
            f"{work.place.state_file} {what}",
            f"{work.command('down')} asks the cloud what it has of the lab",
        )


def _must_log_in(work: Work, given: Given, proposal: Proposal) -> None:
    """Hosts of a lab that is whole have let somebody in."""
    public = proposal.values.get("ssh_public_key")
    if isinstance(public, str) and (given.key is not None or not work.place.is_made):
        sshkey.must_log_in(public, proposal.key)


def _must_have_room(place: LabPlace) -> None:
    """Where a state cannot be written nobody knows what was made."""
    free = shutil.disk_usage(place.directory).free
    if free < _ROOM:
        raise FathometerError(
            "make the lab",
            f"{place.directory} has room for {free >> 20} MiB, and the state of what is made goes there",
            f"make room for {_ROOM >> 20} MiB, or name another place with --directory",
        )


def _must_have_time_left(work: Work, given: Given, now: datetime) -> None:
    """Hosts that were ended are not started again, and one that is made now would have its end behind it."""
    ends = expires(work.place)
    if not register.may_exist(work.place) or given.hours is not None:
        return
    if ends is not None and ends <= now:
        raise FathometerError(
            "make the lab",
            f"its hosts were ended at {ends:%Y-%m-%d %H:%M} UTC",
            f"{work.command('down')}, then {work.command('up')}; with --for 4h it makes what is missing",
        )


def _must_end_later(work: Work, planned: Plan, proposal: Proposal, now: datetime) -> None:
    """A host whose end passes while it is made, or while its end is set anew, has none today: clouds end it
    at a time of day, or take no time that is past.
    """
    ends = moment(proposal.values.get("expires"))
    touched = any(r.kind in HOSTS | ENDS for r in (*planned.made, *planned.changed))
    if ends is None or ends >= now + _TO_MAKE or not touched:
        return
    raise FathometerError(
        "make the lab",
        f"its hosts are to end at {ends:%Y-%m-%d %H:%M} UTC, and it may not be done by then",
        f"{work.command('up')} with --for 4h",
    )


def _show(planned: Plan, price: Price) -> bool:
    """Whether anybody can have read all of it."""
    shown = []
    for words, resources in (
        ("made", planned.made),
        ("changed", planned.changed),
        ("removed", planned.removed),
    ):
        if resources:
            shown += [tell(f"to be {words}: {count(len(resources), 'thing')}"), tell(table(resources))]
    if planned.is_free:
        shown.append(tell(_FREE if planned.outputs else "nothing to be done"))
    return all([*shown, tell(f"costs {price}")])


def _approve(work: Work, planned: Plan, price: Price, proposal: Proposal, clock: _Clock) -> None:
    if _is_approved(work.place, planned, price) and proposal.is_as_agreed(work.place):
        work.say(f"going on: {count(len(planned.made), 'thing')} to be made")
        return
    if not _show(planned, price) and not work.yes:
        raise FathometerError(
            "make the lab",
            "what it costs could not be shown",
            "see that standard output can be written to, or add --yes",
        )
    if ends := moment(proposal.values.get("expires")):
        work.say(ending(ends, clock()))
    if not work.agreed("Do that, and pay for it?"):
        raise FathometerError("make the lab", "nobody wanted it", "nothing was changed")
    # Whoever was asked may have been away for most of the time that the hosts were to be there.
    _must_end_later(work, planned, proposal, clock())
    work.place.note(
        "approved",
        addresses=[resource.address for resource in planned.made],
        tag=planned.tag,
        low=price.low,
        high=price.high,
        unknown=price.unknown,
        number_unknown=price.number_unknown,
        hours=proposal.hours,
    )


def _is_approved(place: LabPlace, planned: Plan, price: Price) -> bool:
    """Whether it is what a crash or a failure left of what was agreed to, and costs no more than that."""
    last = place.last("approved", "apply.done")
    if last is None or last["kind"] != "approved" or not planned.is_within(last["addresses"]):
        return False
    # Sums in another order differ in their last digits.
    dearer = price.high > float(last["high"]) + _CENT / 2
    return not dearer and set(price.unknown) <= set(last.get("unknown", ()))


def _apply(work: Work, number: int) -> None:
    done = 0

    def heard(value: Mapping[str, Any]) -> None:
        nonlocal done
        if value.get("type") == "apply_complete":
            done += 1
            work.say(f"[{done}/{number}] {message(value)}")
        elif value.get("type") == "apply_errored":
            work.say(message(value))

    with register.held():
        # Whoever makes another one of its name registers that before, too.
        twice.must_have_its_name_alone(work, register.where(work.place))
        work.register(may_exist=True)
    whose.expect_another(work.place)
    ended = work.step("apply", "apply", "-input=false", "-json", _PLAN, heard=heard)
    (work.place.root / _PLAN).unlink(missing_ok=True)
    note_things(work)
    if not ended.is_done:
        raise work.failed("make the lab", ended, "up")
