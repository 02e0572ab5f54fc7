"""Incidents in words: what happened, when, to whom, what it cost, what to change."""

from __future__ import annotations

from typing import Final

from fathometer.findings.finding import Incident
from fathometer.findings.render import ends
from fathometer.findings.render.facts import HOSTS
from fathometer.findings.words import capital, count, duration, listed, moment

NAMES: Final = {
    "migration": "live migration",
    "pause then loss": "a pause, then the flow was lost",
    "standstill": "standstill",
    "stall": "stall",
    "delay": "delay",
    "flow loss": "flow forgotten",
    "idle limit": "idle limit",
    "outage": "outage",
    "local fault": "fault of this host",
    "end": "end of a connection",
    "shift": "shift",
    "coincidence": "coincidence",
    "refused": "attempts that failed",
    "clock.stepped": "wall clock set",
    "schedule.overrun": "samples not sent",
    "recording.overflowed": "samples not recorded",
}
SIGNS: Final = {
    "notice": "the cloud announced it",
    "stolen": "the host's own accounts say that the time was stolen from it",
    "copied": "round trips were longer until then, as they are while memory is copied",
    "hosts": "flows of different hosts were forgotten together",
}
"""What only a migration shows."""
REMEDIES: Final = {
    "keepalive": "send a keepalive more often than the idle limit, or raise the limit",
    "user timeout": (
        "set TCP_USER_TIMEOUT (or keepalives) so that a forgotten flow is noticed in seconds, and reconnect"
    ),
    "retry": "reconnect with back-off, and keep a retry budget for as long as the outage lasted",
    "timeout": "let clients wait longer than the standstill before they give a connection up",
    "host": "give this host more processor time; what it measured meanwhile is its own delay",
    "own network": (
        "look after this host's ports, descriptors, addresses and routes: the target was not at fault"
    ),
    "probe host": "measure at a lower rate, or from a host that keeps it",
}


def name(incident: Incident) -> str:
    """What it is, in a word or two."""
    return NAMES.get(incident.kind, incident.kind)


def whom(incident: Incident) -> str:
    """The paths and connections that it concerned."""
    return ends.whom(incident.where)


def what(incident: Incident) -> str:
    """What happened, in a sentence without its full stop."""
    if incident.kind in {"migration", "pause then loss"}:
        return _migration(incident)
    where = listed(list(incident.paths), 3)
    lasted = incident.lasted_ns
    when = f"at {moment(incident.from_ns)}"
    if lasted:
        when += f", for {duration(lasted)}"
    why = f": {ends.verdict(incident.cause)}" if incident.cause in ends.VERDICTS else ""
    parts = [p for p in incident.parts if p.kind != "coincidence"] or list(incident.parts)
    if len(parts) == 1:
        from fathometer.findings.render import statement

        return statement(parts[0])
    return f"{where}: {name(incident)} {when}{why}"


def _migration(i: Incident) -> str:
    q = i.quantities
    host = HOSTS.get(i.terms["host"], i.terms["host"])
    stood = duration(q["stood"].value)
    sentence = f"{host} stood still for {stood} at {moment(_froze(i))}"
    if "brownout" in q:
        ahead = duration(q["brownout"].value)
        sentence += f", after {ahead} of longer round trips"
        if "level during" in q:
            sentence += (
                f" ({duration(q['level during'].value)} instead of {duration(q['level before'].value)})"
            )
    if "lost" in q:
        flows = count(int(q["lost"].value), "flow")
        verb = "was" if q["lost"].value == 1 else "were"
        sentence += f"; {flows} from before {verb} lost {duration(max(q['lost after'].value, 0))} later"
    if i.kind == "migration":
        signs = listed([SIGNS[s] for s in i.terms["signs"].split()])
        return f"{host} was migrated live: it {sentence.removeprefix(host + ' ')}; {signs}"
    return f"a pause, then the flow was lost: {sentence}; that the one caused the other is not shown"


def _froze(i: Incident) -> int:
    pauses = [p for p in i.parts if p.kind == "pause"]
    longest = max(pauses, key=lambda p: p.quantities["length"].value)
    return longest.from_ns or 0


def when_each(incident: Incident) -> list[str]:
    """When each of several paths was hit, in order of time; empty: it was one path."""
    if len(incident.paths) < 2 or incident.kind == "coincidence":
        return []
    spans = sorted((incident.of_path(path), path) for path in incident.paths)
    return [
        f"{path}: {moment(began)}" + (f", for {duration(ended - began)}" if ended > began else "")
        for (began, ended), path in spans
    ]


def cost(incident: Incident) -> str:
    """What it cost, in a sentence without its full stop; empty: nothing that was measured."""
    t = incident.toll
    parts = []
    if t.lost:
        parts.append(f"{count(t.lost, 'sample')} lost")
    if t.unsent:
        parts.append(f"{count(t.unsent, 'sample')} not sent")
    if t.silent_ns:
        parts.append(f"up to {duration(t.silent_ns)} without an answer")
    if t.connections:
        parts.append(f"{count(t.connections, 'connection')} ended")
    if t.added_ns > 0:
        lasted = f" for {duration(t.added_for_ns)}" if t.added_for_ns else " since then"
        parts.append(f"round trips {duration(t.added_ns)} longer{lasted}")
    return listed(parts)


def incident(one: Incident) -> str:
    """What happened and what it cost."""
    toll = cost(one)
    return capital(what(one)) + (f". Cost: {toll}" if toll else "")


def remedies(one: Incident) -> list[str]:
    """What to change, a sentence each without its full stop."""
    return [REMEDIES[code] for code in one.remedies]
