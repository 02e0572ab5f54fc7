"""The values of a lab's variables: those that it has, with those of the command line on top."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from fathometer.cloud import sshkeys
from fathometer.cloud.journal import Record
from fathometer.cloud.left import ACCOUNT
from fathometer.durations import UNITS, read
from fathometer.errors import ExitCode, FathometerError
from fathometer.reading import parsed

TO_MAKE: Final = timedelta(minutes=10)
"""Hosts are made within that time."""
_SHORTEST: Final = timedelta(minutes=30)
"""Azure ends a host at a time of day: an end that passed during the making would come a day later."""
_LONGEST: Final = timedelta(hours=24)
_OPTIONS: Final = {
    "ssh_from": "--from",
    "public_jump": "--public-jump",
    "ssh_public_key": "--key",
    "expires": "--for",
}
"""Variables that are set by an option, and not by `--var`."""


@dataclass(frozen=True)
class Given:
    """The options of the command line that set a lab's variables."""

    variables: Mapping[str, str] = field(default_factory=dict)
    hours: str | None = None
    ssh_from: str | None = None
    key: Path | None = None
    jump: bool | None = None


def proposed(
    record: Record, known: frozenset[str], given: Given, now: datetime, owner: Callable[[], str | None]
) -> Record:
    """The record with the values of the command line; raises `FathometerError`.

    `known`: the names of the lab's variables. `owner`: finds the account of the login.
    """
    is_made = record.state == "made"
    values = {**record.values, **_variables(known, given)}
    if nulls := [name for name, value in values.items() if value is None]:
        if is_made and any(name in record.values for name in nulls):
            raise _wrong(f'"{nulls[0]}" has a value in this lab', "write the value that it shall have")
        values = {name: value for name, value in values.items() if value is not None}
    if "ssh_from" in known and "ssh_from" not in values:
        what = "--from is required: the network that may connect by SSH"
        raise _wrong(what, "give your own public address: --from 198.51.100.7/32")
    key = record.key
    if "ssh_public_key" in known and (given.key is not None or "ssh_public_key" not in values):
        key, values["ssh_public_key"] = sshkeys.key_pair(given.key)
    hours = given.hours or record.hours
    if "expires" in known and (given.hours is not None or not is_made):
        values["expires"] = end_of(hours, now)
    # Without it the provider takes any login, and to another account all of the lab seems gone.
    is_open = ACCOUNT not in given.variables and not (is_made and values.get(ACCOUNT))
    if ACCOUNT in known and is_open and (account := owner()):
        values[ACCOUNT] = account
    return dataclasses.replace(record, values=values, key=key, hours=hours)


def _variables(known: frozenset[str], given: Given) -> dict[str, Any]:
    """The values that the command line sets."""
    options = {"ssh_from": given.ssh_from, "public_jump": given.jump}
    values = {name: _value(name, text) for name, text in given.variables.items()}
    values |= {name: value for name, value in options.items() if value is not None}
    for name in values:
        if name not in known:
            raise _wrong(f'it has no variable "{name}"', f"use one of: {', '.join(sorted(known))}")
    for name in given.variables:
        if name in _OPTIONS:
            raise _wrong(f'"{name}" is not set by --var', f"use {_OPTIONS[name]}")
    return values


def _value(name: str, text: str) -> object:
    """A value as JSON, or as text where it is no JSON."""
    try:
        value = parsed(text)
        # Python also reads 1e999, which JSON lacks.
        json.dumps(value, allow_nan=False)
    except json.JSONDecodeError:
        return text
    except ValueError:
        raise _wrong(f'"{name}" cannot be {text}: JSON has no such number', "give a finite number") from None
    return value


def end_of(hours: str, now: datetime) -> str:
    """The variable `expires` of a lab whose hosts run for that long; raises `FathometerError`."""
    ns = read(hours)
    least, most = (int(bound.total_seconds()) * UNITS["s"] for bound in (_SHORTEST, _LONGEST))
    if ns is None or not least <= ns <= most:
        raise _wrong(f'its hosts cannot run for "{hours}"', "use a duration from 30m to 24h")
    return (now + timedelta(microseconds=int(ns) // 1000)).strftime("%Y-%m-%dT%H:%M:%SZ")


def end_in(record: Record) -> datetime | None:
    """The time at which a lab's hosts end; None where it has no such variable."""
    try:
        return datetime.fromisoformat(str(record.values.get("expires")))
    except ValueError:
        return None


def _wrong(what: str, remedy: str) -> FathometerError:
    return FathometerError("make the lab", what, remedy, exit_code=ExitCode.USAGE)
