"""Changes of level and tail in words."""

from __future__ import annotations

from typing import Final

from fathometer.findings.finding import Finding
from fathometer.findings.render.table import finding
from fathometer.findings.words import count, duration, is_far, moment, rose

CAUSES: Final = {
    "maintenance": "it falls into an announced maintenance",
    "address changed": "the connection's address or interface changed",
    "new connection": "a new connection was opened, perhaps over another path or to another backend",
    "stall": "it came with a stall, as a live migration or a rerouting makes it",
    "peer_paused": "the reflector's host was paused; it may have moved",
    "local_paused": "this host was paused; it may have moved",
    "unknown": "cause not known",
    "path changed": "a change of the path is the likeliest explanation",
    "passing": "a passing disturbance; cause not known",
}


@finding("change", 50)
def _change(f: Finding) -> str:
    before, after = (f.quantities[n].value for n in ("before", "after"))
    # A ratio is of one path: before and after an outage it may be two.
    if f.terms.get("across") or is_far(before, after):
        return (
            f"the {f.terms['of']} went from {duration(before)} to {duration(after)} at "
            f"{moment(f.from_ns or 0)}: {CAUSES[f.cause or 'unknown']}"
        )
    return (
        f"the {f.terms['of']} {rose(before, after)} at {moment(f.from_ns or 0)}, from {duration(before)} to "
        f"{duration(after)}: {CAUSES[f.cause or 'unknown']}"
    )


@finding("burst", 50)
def _burst(f: Finding) -> str:
    began, ended = f.from_ns or 0, f.to_ns or 0
    before, during = (duration(f.quantities[n].value) for n in ("before", "during"))
    return (
        f"for {duration(ended - began)} from {moment(began)} the level was {during} instead of {before}: "
        f"{CAUSES[f.cause or 'unknown']}"
    )


@finding("restless", 50)
def _restless(f: Finding) -> str:
    q, began, ended = f.quantities, f.from_ns or 0, f.to_ns or 0
    words = (
        f"restless for {duration(ended - began)} from {moment(began)}: "
        f"{count(int(q['changes'].value), 'change')}"
    )
    if "lowest" in q:
        words += f", the level between {duration(q['lowest'].value)} and {duration(q['highest'].value)}"
    if f.cause == "busy host":
        pauses = count(int(q["pauses"].value), "pause")
        return f"{words}; {pauses} of a host in that time; a busy host is the likeliest explanation"
    return f"{words}; cause not known"
