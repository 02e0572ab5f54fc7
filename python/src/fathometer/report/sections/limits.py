"""The limits that searches found, path by path, and whether paths differ."""

from __future__ import annotations

from typing import Final

from fathometer.findings.limits_compared import Beside, End, Searched, beside, searched
from fathometer.findings.model import Analysis
from fathometer.findings.words import count, duration, listed, per_second
from fathometer.report.sections import Section, table_of
from fathometer.report.tables import Cell, Table

HOW: Final = {
    "silent": "without a word",
    "not_answered": "acknowledged, not answered",
    "reset_while_idle": "RST while idle",
    "reset_on_request": "RST to the next packet",
    "closed_while_idle": "FIN while idle",
    "closed_on_request": "FIN to the next packet",
    "other": "otherwise",
    "loss": "loss begins",
    "delay": "delay begins",
    "both": "loss and delay begin",
    "held_back": "TCP holds packets back",
}
BY: Final = {"reflector": "the reflector", "between": "something between"}


def _table(analysis: Analysis) -> Table | None:
    rows = [_row(x) for x in beside(searched(analysis.scenarios))]
    head = ("path", "limit", "survived, or carried", "died of, or too much", "how", "by", "differs from")
    table = table_of("Limits", head, rows)
    plain = ("by", "survived, or carried")
    return None if table is None else Table(table.caption, table.head, table.rows, plain)


def _row(one: Beside) -> tuple[Cell, ...]:
    x = one.searched
    nobody = x.high is None or x.limit == "rate"
    how = listed([HOW.get(name, name) for name in sorted(x.how, key=lambda n: -x.how[n])])
    return (
        Cell(x.name, searched_for(x)),
        Cell(found(x), "" if x.sure else "not sure", "" if x.sure else _UNSURE),
        _end(x, x.low),
        _end(x, x.high),
        Cell(how or "–"),
        Cell(listed([BY[by] for by in x.by]) or ("–" if nobody else "not known")),
        Cell(listed(list(one.others), 3) if one.others else "none is told apart" if one.several else "–"),
    )


_UNSURE: Final = "A search did not come to its end, or the runs of the path do not agree."


def searched_for(x: Searched) -> str:
    """What was looked for: `idle, a keepalive each 30 s; 2 runs`."""
    return f"{x.limit}{beside_it(x)}; {count(x.runs, 'run')}"


def beside_it(x: Searched) -> str:
    """What moved meanwhile: `, a keepalive each 30 s`, or over what: `, over 3 connections`."""
    if x.traffic is None:
        return f", over {count(x.connections, 'connection')}" if x.connections else ""
    return f", {_TRAFFIC[x.traffic.kind]} each {duration(x.traffic.every_ns)}"


_TRAFFIC: Final = {
    "keepalive": "a keepalive",
    "here": "traffic from here alone",
    "there": "traffic from there alone",
}


def found(x: Searched) -> str:
    """The bracket in words."""
    if x.high is None and x.unanswered_ns is not None:
        return f"not answered after {duration(x.unanswered_ns)}"
    if x.high is None and x.dies_from_ns is not None:
        return f"unclear: some died from {duration(x.dies_from_ns)} on"
    if x.high is None:
        return f"none up to {_at(x, x.low)}" if x.low else "not known"
    return f"{_at(x, x.low)} to {_at(x, x.high)}" if x.low else f"below {_at(x, x.high)}"


def _at(x: Searched, end: End) -> str:
    return per_second(end.at) if x.limit == "rate" else duration(end.at)


def _end(x: Searched, end: End | None) -> Cell:
    if end is None:
        return Cell("–")
    lost = " lost" if x.limit == "rate" else ""
    return Cell(_at(x, end), f"{end.hits:,} of {end.of:,}{lost}")


SECTION = Section(
    "limits",
    "Connections that were left idle for a length each and then asked once, or kept in use until they ended "
    "(age). Survived: the longest length that most connections lived through; died of: the shortest above it "
    "that most died of; beneath each how many of how many connections, all runs together. Of packets at a "
    "rising rate (rate), carried is the highest rate that was as good as those below it, and too much the "
    "next, at which loss or delay began; beneath each how many packets were lost. The limit lies between the "
    "two; of several runs, between the lowest and the highest end. Two paths differ where these do not "
    "overlap. Not answered: the other end's kernel, or a proxy's, acknowledged the request and no answer "
    "came: the application's doing, or a proxy's that lost what is behind it.",
    _table,
)
