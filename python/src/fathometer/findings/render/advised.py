"""Advice in words: what to change, and what that saves."""

from __future__ import annotations

from fathometer.findings.finding import Advice, Fact
from fathometer.findings.render.facts import whole
from fathometer.findings.render.table import ADVICE, FACTS, says
from fathometer.findings.words import count, duration, lower, share, times


@says(ADVICE, "placement")
def _placement(a: Advice) -> str:
    return f"{a.paths[0]}: p99 {a.terms['class']}: {a.terms['use']}"


@says(FACTS, "another class")
def _another(_: Fact) -> str:
    return "its interval reaches into another class"


@says(ADVICE, "choice")
def _choice(a: Advice) -> str:
    fast, slow = a.paths
    saved = f" ({duration(a.saves.value)})" if a.saves else ""
    return f"prefer {fast} to {slow}: its p99 is {lower(a.quantities['ratio'].value)}{saved}"


@says(ADVICE, "under load")
def _under_load(a: Advice) -> str:
    return (
        f"{a.paths[0]}: keep bulk transfers off this path, or hold them below its rate (pacing, a "
        "smaller send "
        f"buffer, fair queueing): beside them p99 is {times(a.quantities['ratio'].value)} as long"
    )


@says(ADVICE, "refresh age")
def _refresh(a: Advice) -> str:
    saved = f"; it saves {share(a.saves.value)} of the cost of deaths" if a.saves else ""
    return (
        f"refresh connections before they are {duration(a.quantities['age'].value)} old{saved}, if a "
        "death costs "
        "ten refreshes"
    )


@says(FACTS, "lives")
def _lives(one: Fact) -> str:
    return f"{count(whole(one, 'deaths'), 'death')} among {count(whole(one, 'connections'), 'connection')}"


@says(ADVICE, "keepalive")
def _keepalive(a: Advice) -> str:
    idle = a.quantities.get("idle")
    seen = f" (seen after {duration(idle.value)} of silence)" if idle else ""
    return (
        f"send something (a keepalive or a request) more often than the idle limit on this path{seen}, "
        "or raise "
        "the limit"
    )


@says(ADVICE, "time-out")
def _timeout(a: Advice) -> str:
    return (
        f"give clients a time-out above {duration(a.quantities['longest'].value)}, the longest stall that "
        "recovered by itself; a shorter one would have turned it into a lost connection"
    )


@says(FACTS, "recovered")
def _recovered(one: Fact) -> str:
    return f"{count(whole(one, 'times'), 'stall')} recovered"
