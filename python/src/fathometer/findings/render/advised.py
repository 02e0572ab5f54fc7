"""Advice in words: what to change, and what that saves."""

from __future__ import annotations

from fathometer.findings.finding import Advice, Fact
from fathometer.findings.render.facts import whole
from fathometer.findings.render.table import ADVICE, FACTS, says
from fathometer.findings.words import count, duration, listed, lower, share, span, times


@says(ADVICE, "placement")
def _placement(a: Advice) -> str:
    return f"{listed(list(a.paths), 6)}: p99 {a.terms['class']}: {a.terms['use']}"


@says(FACTS, "another class")
def _another(one: Fact) -> str:
    return f"{one.terms['path']}: its interval reaches into another class"


@says(ADVICE, "choice")
def _choice(a: Advice) -> str:
    fast, slow = a.paths
    figure = {"p50": "median"}.get(a.terms["figure"], a.terms["figure"])
    return (
        f"prefer {fast} to {slow}: its {figure} is {lower(a.quantities['ratio'].value)}, "
        f"{_saves(a)} a round trip"
    )


def _saves(a: Advice) -> str:
    """`3.20 ms (3.00 ms to 3.40 ms)`."""
    if a.saves is None:
        return ""
    ends = "" if a.saves.low is None or a.saves.high is None else f" ({span(a.saves.low, a.saves.high)})"
    return f"{duration(a.saves.value)}{ends}"


@says(ADVICE, "batch")
def _batch(a: Advice) -> str:
    n = int(a.quantities["round trips"].value)
    cost = duration(a.quantities["cost"].value)
    return (
        f"{a.paths[0]}: send what belongs together at once: {n} round trips in a row cost {cost} here, "
        "and one "
        f"instead of {n} saves {_saves(a)}"
    )


@says(ADVICE, "reuse")
def _reuse(a: Advice) -> str:
    return f"{a.paths[0]}: keep connections open (a pool): each that need not be made saves {_saves(a)}"


@says(FACTS, "connected")
def _connected(one: Fact) -> str:
    made = count(whole(one, "connections"), "connection")
    return (
        f"{made}, {duration(one.quantities['value'].value)} each in the median until the first "
        "answer can be asked for"
    )


@says(FACTS, "first")
def _first(one: Fact) -> str:
    return f"its first sample takes {times(one.quantities['ratio'].value)} as long as the others"


@says(ADVICE, "cache")
def _cache(a: Advice) -> str:
    allowed = duration(a.quantities["allowed"].value)
    kind = f"a {a.terms['class']} path" if a.terms["class"] else "chatty use"
    return (
        f"{a.paths[0]}: cache what is read often on the near side, or partition data by region: the "
        "median is above the "
        f"{allowed} that {kind} allows, and each round trip that is not made saves {_saves(a)}"
    )


@says(ADVICE, "user timeout")
def _user_timeout(a: Advice) -> str:
    setting, silent = (duration(a.quantities[n].value) for n in ("setting", "silent"))
    return (
        f"set TCP_USER_TIMEOUT to {setting} (or keepalives that fail as soon): a forgotten flow was "
        "silent for up to "
        f"{silent}, and this notices it {duration(a.saves.value) if a.saves else ''} earlier"
    )


@says(FACTS, "forgotten")
def _forgotten(one: Fact) -> str:
    return f"{count(whole(one, 'connections'), 'flow')} forgotten on the way"


@says(ADVICE, "retry budget")
def _retry(a: Advice) -> str:
    longest = duration(a.quantities["longest"].value)
    outages = count(int(a.quantities["outages"].value), "outage")
    saved = ""
    if a.saves:
        n = int(a.saves.value)
        saved = f"; {count(n, 'sample')} of ours {'was' if n == 1 else 'were'} not answered meanwhile"
    return (
        f"retry for longer than {longest}, with back-off and a budget: that is how long the "
        f"longest of {outages} lasted{saved}"
    )


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
