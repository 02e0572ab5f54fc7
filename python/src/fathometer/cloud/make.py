"""`plan` and `up`: a lab's variables, what would be made, and its making."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from fathometer.clean import cleaned
from fathometer.cloud import keys, left, where
from fathometer.cloud.journal import KNOWN_HOSTS, LabPlace
from fathometer.cloud.labs import Root
from fathometer.cloud.planned import HOSTS, Plan, read_plan
from fathometer.cloud.prices import Price, estimate
from fathometer.cloud.tool import find_tool, message
from fathometer.cloud.work import Work, expires, remaining, table, tell
from fathometer.counts import are, count
from fathometer.durations import UNITS, read
from fathometer.errors import ExitCode, FathometerError
from fathometer.study.outputs import Lab, read_lab

_PLAN: Final = "lab.plan"
_USUAL: Final = "4h"
_CENT: Final = 0.01
_ROOM: Final = 32 << 20
_LONGEST: Final = timedelta(hours=24)
_USUAL_KEYS: Final = ("id_ed25519", "id_rsa")


@dataclass(frozen=True)
class Given:
    """What the command line says of a lab's variables."""

    variables: Mapping[str, str] = field(default_factory=dict)
    hours: str | None = None
    ssh_from: str | None = None
    key: Path | None = None
    jump: bool | None = None


def plan(work: Work, root: Root, tool: Path | None, given: Given) -> Plan:
    """Shows what `up` would do."""
    with work.held():
        planned, price = _plan(work, root, tool, given)
        _show(planned, price)
        if reminder := remaining(work.place, datetime.now(UTC)):
            work.say(reminder)
        return planned


def up(work: Work, root: Root, tool: Path | None, given: Given) -> Lab:
    """Makes a lab, or what is left of it to be made."""
    with work.held():
        planned, price = _plan(work, root, tool, given)
        if planned.is_empty:
            work.say("everything of it is there")
            if not work.place.is_made:
                # A crash between the last thing and its entry.
                work.place.note("apply.done")
        else:
            _must_not_be_there(work)
            _must_have_room(work.place)
            _approve(work, planned, price)
            if any(resource.kind in HOSTS for resource in (*planned.made, *planned.removed)):
                # One at the address of another, also of one that vanished, has keys of its own.
                work.place.note("keys.void")
            _apply(work, len(planned.made) + len(planned.changed) + len(planned.removed))
        lab = outputs(work)
        try:
            know_hosts(work, lab)
        finally:
            work.say_what_exists()
        return lab


def _must_not_be_there(work: Work) -> None:
    """What bears the lab's tag before anything is made is somebody else's. Where an earlier call began to
    make it and there is no state, it is that call's, and would be paid for twice.
    """
    place = work.place
    what = work.broken_state()
    if what is None:
        return
    asked = where.known(place)
    found = left.look(asked)
    number = len(found.things)
    if not place.has("apply.started"):
        if found.things:
            raise FathometerError(
                "make the lab",
                f"{count(number, 'thing')} {are(number)} there already of a lab of this name, which is not"
                f" this one{asked.words}: {cleaned(found.things[0])}",
                "it may be somebody else's: begin with another name, --var name=NAME",
            )
        return
    begun = f"it was begun, {place.state_file} {what}"
    if found.problem is not None:
        raise FathometerError(
            "make the lab",
            f"{begun}, and whether something was made could not be found out: {found.problem}",
            f"then {work.command('up')} again",
        )
    if found.things:
        raise FathometerError(
            "make the lab",
            f"{begun}, and of what bears its tag {count(number, 'thing')} {are(number)} there{asked.words}: "
            f"{cleaned(found.things[0])}",
            f"{work.command('down')} lists what is left of it",
        )


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


def _plan(work: Work, root: Root, tool: Path | None, given: Given) -> tuple[Plan, Price]:
    place = work.place
    if place.has("destroy.started"):
        raise FathometerError(
            "make the lab", "its removal has begun", f"end that first, with {work.command('down')}"
        )
    if place.may_exist:
        # In another place everything would seem gone.
        where.must_be_named(place, "make the lab")
        _state_must_be_whole(work)
    begun = place.begun
    place.begin(root, str(begun["tool"]) if begun is not None else find_tool(tool))
    _must_have_time_left(work, given)
    _set(work, root, given)
    work.prepare("up")
    work.say("planning")
    ended = work.step("plan", "plan", "-input=false", "-json", f"-out={_PLAN}")
    if ended.code != 0 or ended.interrupted:
        raise work.failed("plan the lab", ended, "up")
    document = json.loads(work.tool.output("show", "-json", _PLAN))
    planned = read_plan(document)
    where.note(place, document, planned.after, planned.tag)
    return planned, estimate(planned.after)


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


def _must_have_room(place: LabPlace) -> None:
    """Where a state cannot be written nobody knows what was made."""
    free = shutil.disk_usage(place.directory).free
    if free < _ROOM:
        raise FathometerError(
            "make the lab",
            f"{place.directory} has room for {free >> 20} MiB, and the state of what is made goes there",
            f"make room for {_ROOM >> 20} MiB, or name another place with --directory",
        )


def _must_have_time_left(work: Work, given: Given) -> None:
    """Hosts that were ended are not started again, and one that is made now would have its end behind it."""
    ends = expires(work.place)
    if not work.place.may_exist or given.hours is not None:
        return
    if ends is not None and ends <= datetime.now(UTC):
        raise FathometerError(
            "make the lab",
            f"its hosts were ended at {ends:%Y-%m-%d %H:%M} UTC",
            f"{work.command('down')}, then {work.command('up')}; with --for 4h it makes what is missing",
        )


def _set(work: Work, root: Root, given: Given) -> None:
    known = root.variables
    values = {**work.place.settings}
    for name, text in given.variables.items():
        _must_be_known(name, known)
        values[name] = _value(text)
    if given.jump is not None:
        _must_be_known("public_jump", known)
        values["public_jump"] = given.jump
    if given.ssh_from is not None:
        values["ssh_from"] = given.ssh_from
    if "ssh_from" in known and "ssh_from" not in values:
        raise FathometerError(
            "make the lab",
            "nobody said whence SSH may come",
            "give your own address, as others see it: --from 198.51.100.7/32",
            exit_code=ExitCode.USAGE,
        )
    key = work.place.last("settings")
    private = None if key is None else key.get("key")
    if "ssh_public_key" in known and (given.key is not None or "ssh_public_key" not in values):
        private, values["ssh_public_key"] = _key(given.key)
    if "expires" in known and (
        given.hours is not None or "expires" not in values or not work.place.has("apply.started")
    ):
        values["expires"] = _end(given.hours or _USUAL, datetime.now(UTC))
    work.place.set(values)
    work.place.note("settings", names=sorted(values), expires=values.get("expires"), key=private)


def _must_be_known(name: str, known: frozenset[str]) -> None:
    if name not in known:
        raise FathometerError(
            "make the lab",
            f'it has no variable "{name}"',
            f"use one of: {', '.join(sorted(known))}",
            exit_code=ExitCode.USAGE,
        )


def _value(text: str) -> object:
    """As JSON, and as a text where it is none."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _key(named: Path | None) -> tuple[str | None, str]:
    """The file of a private key, and its public half, which alone is read."""
    home = Path.home() / ".ssh"
    private = named.expanduser().absolute() if named is not None else None
    places = [private] if private is not None else [home / name for name in _USUAL_KEYS]
    for place in places:
        public = place if place.suffix == ".pub" else place.with_name(f"{place.name}.pub")
        try:
            text = public.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            continue
        # Where none was named `ssh` finds it, or its agent has it.
        return (str(public.with_suffix("")) if named is not None else None), text
    raise FathometerError(
        "make the lab",
        f"there is no public key {places[0]}.pub",
        "name the key for SSH: --key FILE, with FILE.pub beside it (`ssh-keygen -t ed25519` makes one)",
    )


def _end(hours: str, now: datetime) -> str:
    ns = read(hours)
    if ns is None or not 0 < ns <= int(_LONGEST.total_seconds()) * UNITS["s"]:
        raise FathometerError(
            "make the lab",
            f'it cannot be there for "{hours}"',
            "use a duration of at most 24h, as in 4h",
            exit_code=ExitCode.USAGE,
        )
    return (now + timedelta(microseconds=int(ns) // 1000)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _show(planned: Plan, price: Price) -> bool:
    """Whether anybody can have read all of it."""
    told = []
    for words, resources in (
        ("made", planned.made),
        ("changed", planned.changed),
        ("removed", planned.removed),
    ):
        if resources:
            told += [tell(f"to be {words}: {count(len(resources), 'thing')}"), tell(table(resources))]
    if planned.is_empty:
        told.append(tell("nothing to be done"))
    return all([*told, tell(f"costs {price}")])


def _approve(work: Work, planned: Plan, price: Price) -> None:
    if _is_approved(work.place, planned, price):
        work.say(f"going on: {count(len(planned.made), 'thing')} to be made")
        return
    if not _show(planned, price) and not work.yes:
        raise FathometerError(
            "make the lab",
            "what it costs could not be shown",
            "see that standard output can be written to, or add --yes",
        )
    if reminder := remaining(work.place, datetime.now(UTC)):
        work.say(reminder)
    if not work.agreed("Do that, and pay for it?"):
        raise FathometerError("make the lab", "nobody wanted it", "nothing was changed")
    work.place.note(
        "approved",
        addresses=[resource.address for resource in planned.made],
        tag=planned.tag,
        low=price.low,
        high=price.high,
        unknown=price.unknown,
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

    ended = work.step("apply", "apply", "-input=false", "-json", _PLAN, heard=heard)
    (work.place.root / _PLAN).unlink(missing_ok=True)
    with contextlib.suppress(FathometerError):
        where.note_things(work.place, work.exists())
    if ended.code != 0 or ended.interrupted:
        raise work.failed("make the lab", ended, "up")
