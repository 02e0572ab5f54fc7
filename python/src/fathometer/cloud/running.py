"""Whether the hosts of a lab run once an end of theirs has passed: by then they have switched themselves off,
or their cloud has. A later end starts none of them again.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from fathometer.cloud import keys, register
from fathometer.cloud.journal import LabPlace
from fathometer.cloud.planned import HOSTS, Resource
from fathometer.cloud.work import Work, expires, moment
from fathometer.errors import FathometerError
from fathometer.study.outputs import Lab

PATIENCE_S: Final = 20.0
"""How long hosts that run may take to answer to SSH."""
_RUNNING: Final = {
    "aws_instance": ("instance_state", "running"),
    "google_compute_instance": ("current_status", "RUNNING"),
}
"""Kinds that say whether they run; azurerm says nothing of that."""


def note_end(place: LabPlace, now: datetime) -> None:
    """Notes that the hosts' end has passed, before they get another."""
    ends = expires(place)
    last = place.last("hosts.ended", "hosts.answered")
    is_noted = last is not None and ends is not None and last.get("at") == ends.isoformat()
    if ends is not None and ends <= now and register.may_exist(place) and not is_noted:
        place.note("hosts.ended", at=ends.isoformat())


def must_run(
    work: Work,
    lab: Lab,
    key: str | None,
    there: Iterable[Resource],
    *,
    says: Iterable[Resource] | None = None,
    patience_s: float | None = None,
) -> None:
    """Raises `FathometerError` where hosts do not run whose end has passed since they last answered. `there`
    is what there is; `says` what the cloud itself said of that now (None: all of it).
    """
    last = work.place.last("hosts.ended", "hosts.answered")
    if last is None or last["kind"] == "hosts.answered":
        return
    hosts = [thing for thing in there if thing.kind in HOSTS]
    if off := [host for host in (hosts if says is None else says) if _is_off(host)]:
        names = ", ".join(str(host.values.get("name") or host.address) for host in off)
        raise _ended(work, last["at"], f"{names} {_verb(off)} not run", off)
    look = work.place.directory / "known_hosts.look"
    work.say("the hosts' end has passed since they last answered: looking whether they run")
    try:
        silent = keys.silent(lab, key, look, PATIENCE_S if patience_s is None else patience_s, work.say)
    finally:
        look.unlink(missing_ok=True)
    if silent:
        by_address = {host.address: host.name for host in lab.hosts}
        names = ", ".join(f"{by_address.get(one, 'the jump host')} ({one})" for one in silent)
        # They may run all the same.
        network = "; if they run, see that you come from the network that `ssh_from` names"
        raise _ended(work, last["at"], f"{names} {_verb(silent)} not answer to SSH", hosts, network)
    work.place.note("hosts.answered")


def _ended(work: Work, at: object, what: str, hosts: Sequence[Resource], more: str = "") -> FathometerError:
    ends = moment(at)
    when = "" if ends is None else f": its hosts were ended at {ends:%Y-%m-%d %H:%M} UTC"
    commands = start_commands(hosts)
    start = f"`{'; '.join(commands)}` starts them" if commands else "start them in the cloud's portal"
    until = expires(work.place)
    # Without an end of their own they would run on.
    new_end = () if until is None or until > datetime.now(UTC) else ("--for", "4h")
    looks, down, up = work.command("up", *new_end), work.command("down"), work.command("up")
    return FathometerError(
        "use the lab's hosts",
        f"{what}{when}, and no later end starts them again",
        f"{start}, then {looks} looks again; or {down}, and {up} makes it anew{more}",
    )


def start_commands(hosts: Iterable[Resource]) -> list[str]:
    """What starts hosts that were switched off, by the clouds' own commands; it leaves alone what runs."""
    commands: dict[tuple[str, ...], list[str]] = {}
    for host in hosts:
        values = host.values
        if host.kind == "azurerm_linux_virtual_machine" and values.get("id"):
            commands.setdefault(("az", "vm", "start", "--ids"), []).append(str(values["id"]))
        elif host.kind == "aws_instance" and values.get("id"):
            region = str(values.get("arn") or "").split(":")[3:4]
            there = ("--region", *region) if region else ()
            start = ("aws", "ec2", "start-instances", *there, "--instance-ids")
            commands.setdefault(start, []).append(str(values["id"]))
        elif host.kind == "google_compute_instance" and values.get("name"):
            there = tuple(f"--{name}={values[name]}" for name in ("zone", "project") if values.get(name))
            commands.setdefault(("gcloud", "compute", "instances", "start", *there), []).append(
                str(values["name"])
            )
    return [shlex.join([*command, *names]) for command, names in commands.items()]


def _is_off(host: Resource) -> bool:
    name, runs = _RUNNING.get(host.kind, ("", ""))
    return host.values.get(name) not in {None, "", runs}


def _verb(many: Sequence[object]) -> str:
    return "does" if len(many) == 1 else "do"
