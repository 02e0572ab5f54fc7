"""Advice in words: what to change, and what that saves."""

from __future__ import annotations

from fathometer.findings.finding import Advice, Fact
from fathometer.findings.render.phrase import ends
from fathometer.findings.render.table import ADVICE, FACTS, advised, facts, says
from fathometer.findings.verdicts import of_refresh
from fathometer.findings.words import count, duration, listed, lower, often, share
from fathometer.stats.lifetimes import Refresh

advised(
    {
        "batch": (
            "{path}: send what belongs together at once: {round trips} round trips in a row cost "
            "{cost:duration} here, and one instead of {round trips} saves {saves:duration and ends}"
        ),
        "reuse": (
            "{path}: keep connections open (a pool): each that need not be made saves "
            "{saves:duration and ends}"
        ),
        "user timeout": (
            "set TCP_USER_TIMEOUT to {setting:duration} (or keepalives that fail as soon): a forgotten "
            "flow was silent for up to {silent:duration}, and this notices it {saves:duration} earlier"
        ),
        "under load": (
            "{path}: keep bulk transfers off this path, or hold them below its rate (pacing, a smaller send "
            "buffer, fair queueing): beside them p99 is {ratio:times} as long"
        ),
        "time-out": (
            "give clients a time-out above {longest:duration}, the longest stall that recovered by itself; a "
            "shorter one would have turned it into a lost connection. With its margin TCP_USER_TIMEOUT is "
            "{setting:duration}"
        ),
        "breaker": (
            "{path}: give a circuit breaker a window of {calls:count call}, which are {window:duration} "
            "here: in {troubles:count trouble} it would have opened after {after:duration} at the most. The "
            "default of {default calls:count call} takes {default window:duration}, and would have opened in "
            "{opened} of them"
        ),
        "lifetime": (
            "{path}: close connections before they are {setting:duration} old: they lived for "
            "{survived:duration}, and were dead by {died:duration}"
        ),
    }
)
facts(
    {
        "another class": "{path}: its interval reaches into another class",
        "connected": (
            "{connections:count connection}, {value:duration} each in the median until the first answer "
            "can be asked for"
        ),
        "false alarms": "without an outage, by tries that failed apart from those, it would have opened "
        "{alarms:count time}",
        "no false alarm": "it would not have opened without an outage",
        "first": "its first sample takes {ratio:times} as long as the others",
        "forgotten": "{connections:count flow} forgotten on the way",
        "lives": "{deaths:count death} among {connections:count connection}",
        "no stall recovered": (
            "no stall recovered in these recordings: {least:duration} is what Azure recommends, and no value "
            "of this path"
        ),
        "not answered": "{path}: {lost} of {due:count sample} not answered",
        "retries of each": (
            "a request that is due at its beginning may take {retries:count retry|retries}: a budget that "
            "all requests share must have as many for each that falls due meanwhile, or it gives some up; "
            "what is sent twice must be safe to do twice"
        ),
        "troubles": (
            "{times:count trouble} of {shortest:duration} to {longest:duration}, in each of which ten tries "
            "failed or more"
        ),
        "recovered": "{times:count stall} recovered",
    }
)


@says(ADVICE, "placement")
def _placement(a: Advice) -> str:
    return f"{listed(list(a.paths), 6)}: p99 {a.terms['class']}: {a.terms['use']}"


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
    return "" if a.saves is None else duration(a.saves.value) + ends(a.saves)


@says(ADVICE, "cache")
def _cache(a: Advice) -> str:
    allowed = duration(a.quantities["allowed"].value)
    kind = f"a {a.terms['class']} path" if a.terms["class"] else "chatty use"
    return (
        f"{a.paths[0]}: cache what is read often on the near side, or partition data by region: the median "
        f"is above the {allowed} that {kind} allows, and each round trip that is not made saves {_saves(a)}"
    )


@says(ADVICE, "retry budget")
def _retry(a: Advice) -> str:
    longest = duration(a.quantities["longest"].value)
    outages = count(int(a.quantities["outages"].value), "outage")
    saved = ""
    if a.saves:
        n = int(a.saves.value)
        saved = f"; {count(n, 'sample')} of ours {'was' if n == 1 else 'were'} not answered meanwhile"
    lasted = f"that is how long the longest of {outages} lasted"
    if a.terms.get("over") == "no":
        lasted = f"the longest of {outages} lasted at least so long, and its end was not seen"
    how = ""
    if "deadline" in a.quantities:
        tries = count(int(a.quantities["retries"].value), "retry", "retries")
        how = f" ({tries} and {duration(a.quantities['deadline'].value)} for the caller to wait are enough)"
    return f"retry for longer than {longest}, with back-off and a budget{how}: {lasted}{saved}"


@says(ADVICE, "refresh age")
def _refresh(a: Advice) -> str:
    saved = f"; it saves {share(a.saves.value)} of the cost of deaths" if a.saves else ""
    return (
        f"refresh connections before they are {duration(a.quantities['age'].value)} old{saved}, if a death "
        "costs ten refreshes"
    )


@says(FACTS, "refresh")
def _refresh_fact(one: Fact) -> str:
    return of_refresh(one.result) if isinstance(one.result, Refresh) else ""


@says(ADVICE, "keepalive")
def _keepalive(a: Advice) -> str:
    setting, idle = a.quantities.get("setting"), a.quantities.get("idle")
    if setting and idle:
        return (
            f"{listed(list(a.paths), 6)}: send a keepalive at least every {duration(setting.value)}: "
            f"connections lived on after {duration(a.quantities['survived'].value)} of silence, and were "
            f"dead after {duration(idle.value)}"
        )
    seen = f" (seen after {duration(idle.value)} of silence)" if idle else ""
    return (
        f"send something (a keepalive or a request) more often than the idle limit on this path{seen}, or "
        "raise the limit"
    )


@says(FACTS, "longest stall")
def _longest_stall(one: Fact) -> str:
    q = one.quantities
    stalls = count(int(q["times"].value), "stall")
    least = duration(q["least"].value)
    said = (
        f"{often(int(q['margin'].value))} the longest of {stalls} that recovered, "
        f"{duration(q['longest'].value)}, and not below {least}"
    )
    return (
        f"{said}, because so few stalls of a path do not show how long its next one is"
        if one.terms["few"] == "yes"
        else said
    )
