"""`plan` and `up`: what would be made, and its making."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from fathometer.cloud import left, sshkeys
from fathometer.cloud.journal import KNOWN_HOSTS, PROPOSAL, SETTINGS, STATE_FILE, Record
from fathometer.cloud.labs import Root
from fathometer.cloud.planned import HOSTS, Plan, estimate, read_plan, table
from fathometer.cloud.settings import TO_MAKE, Given, end_in, proposed
from fathometer.cloud.tool import LOCK_TIMEOUT, VARIABLE, ToolProgress
from fathometer.cloud.work import Work, ending, tell
from fathometer.counts import are, count
from fathometer.errors import FathometerError
from fathometer.study.outputs import Lab

_PLAN: Final = "lab.plan"
_MAKE: Final = "make the lab"
_FREE: Final = "no resource changes: only the outputs, by which `run` makes its study"


def utc_now() -> datetime:
    """The time."""
    return datetime.now(UTC)


def plan(work: Work, root: Root, given: Given) -> None:
    """Shows what `up` would make."""
    with work.held(begins=True):
        record, changes = _planned(work, root, given, utc_now())
        _show(changes, record)
        if record.state == "planned":
            work.note(record)
        if words := ending(work.record, utc_now()):
            work.say(words)


def up(work: Work, root: Root, given: Given, clock: Callable[[], datetime] = utc_now) -> None:
    """Makes a lab, or what is missing of it."""
    with work.held(begins=True):
        record, changes = _planned(work, root, given, clock())
        if changes.is_empty:
            work.say("everything of it is there")
        else:
            _must_have_time(work, record, TO_MAKE, clock())
            left.must_be_known(record.where, _MAKE)
            public = record.values.get("ssh_public_key")
            if isinstance(public, str) and record.key and any(r.kind in HOSTS for r in changes.made):
                sshkeys.must_log_in(public, record.key)
            _must_be_alone(work, record)
            if changes.is_free:
                work.say(_FREE)
            else:
                _show(changes, record)
                if words := ending(record, clock()):
                    work.say(words)
                if not work.agreed(f"Make it, at {record.price}?"):
                    raise FathometerError(_MAKE, "you did not agree", "nothing was changed")
                # The answer may have come late.
                _must_have_time(work, record, TO_MAKE, clock())
            _apply(work, record, changes)
        work.note(dataclasses.replace(record, state="made", whole=True))
        try:
            know_hosts(work, work.outputs())
        finally:
            work.say_what_exists()


def know_hosts(work: Work, lab: Lab) -> None:
    """Fetches the keys of the hosts where they are not known; raises `FathometerError`."""
    known = work.place.directory / KNOWN_HOSTS
    if known.is_file():
        return
    new = known.with_name(f"{KNOWN_HOSTS}.new")
    sshkeys.fetch(lab, work.record.key, new, work.say)
    tell("the hosts' keys, as they came over the network:", err=True)
    for line in sshkeys.fingerprints(new):
        tell(f"    {line}", err=True)
    if not work.agreed("Take them?"):
        again = f"{work.command('up')} asks again"
        raise FathometerError("make the hosts known", "you did not take their keys", again)
    new.rename(known)


def _planned(work: Work, root: Root, given: Given, now: datetime) -> tuple[Record, Plan]:
    """The record that the lab would have, and the changes; raises `FathometerError`."""
    work.begin(root)
    if work.record.state == "removed":
        raise FathometerError(_MAKE, "it was removed, and more may be left", f"{work.command('down')} looks")
    if work.record.state == "made":
        left.must_be_same(work.record.where)
        _must_have_time(work, work.record, timedelta(0), now)
    record = proposed(work.record, root.variables, given, now, lambda: left.owner_now(root.cloud))
    if ignored := sorted(name for name in os.environ if name.startswith(VARIABLE)):
        options = ", ".join(f"--var {name.removeprefix(VARIABLE)}=VALUE" for name in ignored)
        work.say(f"{', '.join(ignored)} of the environment is not used; add {options}")
    tool = work.prepare("up")
    work.place.write_values(record, PROPOSAL)
    work.say("planning")
    words = ("-input=false", "-json", LOCK_TIMEOUT, f"-var-file={PROPOSAL}", f"-out={_PLAN}")
    ended = tool.run("plan", *words)
    if not ended.is_done:
        raise work.failed("plan the lab", ended, "up")
    document = tool.shown(_PLAN)
    changes = read_plan(document)
    where = left.place_of(root.cloud, document, changes, left.owner_now(root.cloud) or record.where.owner)
    where = record.where.joined(where) if record.state == "made" else where
    return dataclasses.replace(record, where=where, price=str(estimate(changes.after))), changes


def _must_have_time(work: Work, record: Record, least: timedelta, now: datetime) -> None:
    """Refuses what needs the hosts for longer. Made after its end, a host would run on; a later end does not
    start one that was switched off.
    """
    ends = end_in(record)
    if ends is not None and ends < now + least:
        anew = f"{work.command('down')}, and then {work.command('up')} makes it anew"
        how = anew if ends < now else work.command("up", "--for", "4h")
        raise FathometerError(_MAKE, f"its hosts end at {ends:%Y-%m-%d %H:%M} UTC, too early", how)


def _must_be_alone(work: Work, record: Record) -> None:
    """Refuses to make a lab whose tag the cloud lists, while the state is empty: they are of another lab of
    the same name, or of this one after a crash, and would be paid for twice.
    """
    if work.exists():
        return
    work.say("asking the cloud for the lab's tag")
    try:
        things = left.look(record.where).things
    except FathometerError as error:
        what = f"what the cloud has with its tag is unknown: {error.object}"
        if record.state == "made":
            raise FathometerError(_MAKE, f"its state is empty, and {what}", error.remedy) from None
        work.say(what)
        return
    if things:
        number = f"{count(len(things), 'thing')} {are(len(things))} there already with its tag"
        down = f"{work.command('down')} lists them; of another lab: " * (record.state == "made")
        what = f"{number}, and {STATE_FILE} has none: {things[0]}"
        raise FathometerError(_MAKE, what, f"{down}begin with another name, --var name=NAME")


def _show(changes: Plan, record: Record) -> None:
    parts = {"made": changes.made, "changed": changes.changed, "removed": changes.removed}
    for words, resources in parts.items():
        if resources:
            tell(f"to be {words}: {count(len(resources), 'thing')}")
            tell(table(resources))
    if changes.is_free:
        tell(_FREE if changes.outputs else "nothing to be done")
    tell(f"costs {record.price}")


def _apply(work: Work, record: Record, changes: Plan) -> None:
    work.note(dataclasses.replace(record, state="made", whole=False))
    work.place.write_values(record, SETTINGS)
    if any(resource.kind in HOSTS for resource in (*changes.made, *changes.removed)):
        # A new host has a new key, also at an old address.
        (work.place.directory / KNOWN_HOSTS).unlink(missing_ok=True)
    number = len(changes.made) + len(changes.changed) + len(changes.removed)
    heard = ToolProgress(work.say, number)
    ended = work.tool.run("apply", "-input=false", "-json", LOCK_TIMEOUT, _PLAN, heard=heard)
    (work.tool.root / _PLAN).unlink(missing_ok=True)
    if not ended.is_done:
        raise work.failed(_MAKE, ended, "up")
