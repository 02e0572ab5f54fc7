"""A lab's variables. What the command line says of them is a proposal, which a plan is made with. It becomes
the lab's settings when its making begins: one that was only planned, that the lab or the cloud refused, or
that nobody agreed to, changes nothing of what `down`, `run` and `list` go by.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from fathometer.cloud import register, sshkey, where
from fathometer.cloud.journal import LabPlace
from fathometer.cloud.labs import Root, variables_of
from fathometer.durations import UNITS, read
from fathometer.errors import ExitCode, FathometerError

_USUAL: Final = "4h"
_SHORTEST: Final = timedelta(minutes=30)
"""Making takes minutes, and a host's end has to lie ahead when it is there: Azure ends it at a time of day,
and would end one whose time is past a day later.
"""
_LONGEST: Final = timedelta(hours=24)
_OPTIONS: Final = {
    "ssh_from": "--from",
    "public_jump": "--public-jump",
    "ssh_public_key": "--key",
    "expires": "--for",
}
"""Variables that have an option of their own."""
_EXAMPLES: Final = {"--from": " CIDR", "--key": " FILE", "--for": " DURATION"}


@dataclass(frozen=True)
class Given:
    """What the command line says of a lab's variables."""

    variables: Mapping[str, str] = field(default_factory=dict)
    hours: str | None = None
    ssh_from: str | None = None
    key: Path | None = None
    jump: bool | None = None

    @property
    def names(self) -> list[str]:
        """What it says something of."""
        return [*self.variables, *self.options]

    @property
    def usual(self) -> list[str]:
        """The variables that are to have their usual values."""
        return [name for name, text in self.variables.items() if text.strip() == "null"]

    @property
    def options(self) -> list[str]:
        """Those of the options that stand for a variable."""
        options = (
            ("--for", self.hours),
            ("--from", self.ssh_from),
            ("--key", self.key),
            ("--public-jump", self.jump),
        )
        return [name for name, value in options if value is not None]

    def option_of(self, name: str) -> str:
        """How the command line says a variable's value: as this one did, else as it can."""
        option = _OPTIONS.get(name)
        if option is None or name in self.variables:
            return f"--var {name}=VALUE"
        return option + _EXAMPLES.get(option, "")


@dataclass(frozen=True)
class Proposal:
    """What a plan is made with. `propose` makes one and writes it for the tool; then either `keep`, once a
    plan of a lab of which nothing is made went well, or `take`, directly before the making begins.
    """

    values: Mapping[str, Any]
    key: str | None
    """The file of the private key."""
    hours: str | None
    """How long it is for, as somebody said it."""

    def keep(self, place: LabPlace) -> None:
        """Makes it what `up` begins with."""
        place.keep_proposal()
        place.note("planned", names=sorted(self.values), key=self.key, hours=self.hours)

    def take(self, place: LabPlace) -> None:
        """Makes it the lab's settings."""
        place.set(self.values)
        place.note("settings", names=sorted(self.values), expires=self.values.get("expires"), key=self.key)

    def is_as_agreed(self, place: LabPlace) -> bool:
        """Whether it is what the lab's making was begun with. Its end may be later if it is for as long."""
        agreed = (place.last("approved") or {}).get("hours")
        # Which account it is made in changes nothing of what that costs, and may be known since.
        left_out = {where.ACCOUNT} | ({"expires"} if self.hours in {None, agreed} else set())
        mine, theirs = (
            {k: v for k, v in s.items() if k not in left_out} for s in (self.values, place.settings)
        )
        return mine == theirs


def propose(place: LabPlace, root: Root, given: Given, now: datetime) -> Proposal:
    """What the command line says, on top of what the lab was made with, or planned. How long it is for counts
    from `now`. Raises `FathometerError`.
    """
    known = root.variables
    begun = register.may_exist(place)
    last = place.last("settings") if begun else place.last("planned", "settings")
    last = last or {}
    values = {**(place.planned if last.get("kind") == "planned" else place.settings)}
    is_lost = are_lost(place)
    if is_lost and last.get("expires") is not None:
        # Of all that they were the journal has their names, and this.
        values["expires"] = last["expires"]
    for name, text in given.variables.items():
        _must_be_known(name, known)
        _must_be_said_once(name, given)
        values[name] = _value(name, text)
        if values[name] is None:
            # What the tool would make of it depends on the variable, down to errors of its functions.
            del values[name]
            continue
        if name == "ssh_public_key":
            sshkey.must_be_public_key(str(values[name]), name)
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
    private = last.get("key")
    if "ssh_public_key" in known and (given.key is not None or "ssh_public_key" not in values):
        named = Path(str(private)) if private is not None and given.key is None else given.key
        private, values["ssh_public_key"] = _key(named)
    hours = given.hours if given.hours is not None else (None if begun else last.get("hours"))
    if "expires" in known and (hours is not None or "expires" not in values or not begun):
        values["expires"] = end_of(_USUAL if hours is None else hours, now)
    if where.ACCOUNT in variables_of(place.root) and where.ACCOUNT not in given.variables:
        # One that was only planned may have had another login.
        owner = register.where(place).owner if begun else None
        if owner := owner or where.owner_now(root.cloud):
            values[where.ACCOUNT] = owner
    if is_lost:
        _must_have_all(given, {*last.get("names", ())} - {*values, where.ACCOUNT})
    place.propose(values)
    return Proposal(values, private, hours)


def are_lost(place: LabPlace) -> bool:
    """Whether a lab has a state, and nothing of the settings that it was made with: by its usual ones, of
    another region say, all of it would seem gone.
    """
    return place.state_file.exists() and not place.has_settings and bool(variables_of(place.root))


def _must_have_all(given: Given, missing: Iterable[str]) -> None:
    """Raises `FathometerError` where nobody says what a lab was made with."""
    if missing := sorted(missing):
        ways = dict.fromkeys(given.option_of(name) for name in missing)
        raise FathometerError(
            "make the lab",
            f"its settings are gone, and it was made with values of {', '.join(missing)}, which nobody says",
            f"give it what it was made with: {' '.join(ways)}",
            exit_code=ExitCode.USAGE,
        )


def _must_be_known(name: str, known: frozenset[str]) -> None:
    if name not in known:
        raise FathometerError(
            "make the lab",
            f'it has no variable "{name}"',
            f"use one of: {', '.join(sorted(known))}",
            exit_code=ExitCode.USAGE,
        )


def _must_be_said_once(name: str, given: Given) -> None:
    option = _OPTIONS.get(name)
    if option in given.options:
        what, remedy = f'{option} says what --var says of "{name}"', "use one of the two"
    elif name == "expires":
        # `--for` counts from each call on, and has bounds.
        what, remedy = f'"{name}" is no variable for --var', "say how long it is for: --for 6h"
    else:
        return
    raise FathometerError("make the lab", what, remedy, exit_code=ExitCode.USAGE)


def _value(name: str, text: str) -> object:
    """As JSON, and as a text where it is none."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    try:
        # Python reads numbers that JSON has not, and 1e999.
        json.dumps(value, allow_nan=False)
    except ValueError:
        raise FathometerError(
            "make the lab",
            f'"{name}" cannot be {text}: that is no number of JSON',
            f"give a finite number; a text of these letters is written --var '{name}=\"{text}\"'",
            exit_code=ExitCode.USAGE,
        ) from None
    return value


def _key(named: Path | None) -> tuple[str | None, str]:
    """The file of a private key, and its public half, which alone is read."""
    of_ssh = sshkey.home() / ".ssh"
    if named is not None:
        places = [named.expanduser().absolute()]
    else:
        # Somebody with another $HOME than their account's may have theirs there, where `ssh` does not look.
        places = [home / name for home in (of_ssh, Path.home() / ".ssh") for name in sshkey.USUAL]
    for place in places:
        public = sshkey.public_file(place)
        try:
            text = public.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            continue
        sshkey.must_be_public_key(text, public)
        # Where none was named `ssh` finds it, or its agent has it.
        is_found = named is None and place.parent == of_ssh
        return (None if is_found else str(public.with_suffix(""))), text
    raise FathometerError(
        "make the lab",
        f"there is no public key {places[0]}.pub",
        "name the key for SSH: --key FILE, with FILE.pub beside it (`ssh-keygen -t ed25519` makes one)",
    )


def end_of(hours: str, now: datetime) -> str:
    """The variable `expires` of a lab that is for so long; raises `FathometerError`."""
    ns = read(hours)
    least, most = (int(bound.total_seconds()) * UNITS["s"] for bound in (_SHORTEST, _LONGEST))
    if ns is None or not least <= ns <= most:
        raise FathometerError(
            "make the lab",
            f'it cannot be there for "{hours}"',
            "use a duration of at least 30m, as making takes minutes, and at most 24h",
            exit_code=ExitCode.USAGE,
        )
    return (now + timedelta(microseconds=int(ns) // 1000)).strftime("%Y-%m-%dT%H:%M:%SZ")
