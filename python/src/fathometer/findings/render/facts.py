"""Pieces of evidence in words."""

from __future__ import annotations

from fathometer.findings.finding import Fact
from fathometer.findings.render.table import FACTS, says
from fathometer.findings.words import count, duration, figure, lower, moment, share, span, times

HOSTS = {"local": "this host", "remote": "the reflector's host"}


def fact(one: Fact) -> str:
    """A sentence without its full stop."""
    return FACTS[one.code](one)


def length(one: Fact, name: str = "length") -> str:
    """One of its durations."""
    return duration(one.quantities[name].value)


def whole(one: Fact, name: str) -> int:
    """One of its counts."""
    return int(one.quantities[name].value)


@says(FACTS, "recorded")
def _recorded(one: Fact) -> str:
    return one.terms["text"]


@says(FACTS, "fields")
def _fields(one: Fact) -> str:
    return ", ".join(f"{k} {v}" for k, v in one.terms.items())


@says(FACTS, "pause")
def _pause(one: Fact) -> str:
    reason = one.terms["reason"] or "reason not known"
    return f"{HOSTS[one.terms['host']]} did not run for {length(one)} at {moment(one.at_ns or 0)} ({reason})"


@says(FACTS, "reasons")
def _reasons(one: Fact) -> str:
    return f"{one.terms['reason']}: {whole(one, 'times'):,}"


@says(FACTS, "notice")
def _notice(one: Fact) -> str:
    return f"{one.terms['cloud']} announced {one.terms['what']} for {moment(one.at_ns or 0)}"


@says(FACTS, "address changed")
def _address(one: Fact) -> str:
    return f"the path's {one.terms['what']} changed from {one.terms['from']} to {one.terms['to']}"


@says(FACTS, "opened")
def _opened(one: Fact) -> str:
    return f"connection {one.terms['connection']} was opened at {moment(one.at_ns or 0)}"


@says(FACTS, "stall")
def _stall(one: Fact) -> str:
    return f"a stall of {length(one)} began at {moment(one.at_ns or 0)}"


@says(FACTS, "nothing near")
def _nothing(one: Fact) -> str:
    again = count(whole(one, "retransmissions"), "retransmission")
    return f"no pause, no new connection, no notice and {again} within {length(one, 'within')}"


@says(FACTS, "waited")
def _waited(one: Fact) -> str:
    return f"{count(whole(one, 'samples'), 'sample')} waited"


@says(FACTS, "retransmissions")
def _retransmissions(one: Fact) -> str:
    return count(whole(one, "times"), "retransmission")


@says(FACTS, "silent before")
def _silent(one: Fact) -> str:
    return f"no echo had come for {length(one)} before"


@says(FACTS, "errors")
def _errors(one: Fact) -> str:
    return f"{one.terms['error']}: {whole(one, 'times'):,}"


@says(FACTS, "chance")
def _chance(one: Fact) -> str:
    expected, p = one.quantities["expected"].value, one.quantities["p"].value
    return (
        f"{count(whole(one, 'pairs'), 'such pair')} {'was' if whole(one, 'pairs') == 1 else 'were'} seen "
        f"where chance makes {figure(expected, 2)} (p = {p:.3f})"
    )


@says(FACTS, "ages")
def _ages(one: Fact) -> str:
    return f"ages from {length(one, 'youngest')} to {length(one, 'oldest')}"


@says(FACTS, "moments")
def _moments(one: Fact) -> str:
    return f"moments from {moment(one.at_ns or 0)} to {moment(int(one.quantities['last'].value))}"


@says(FACTS, "growth")
def _growth(one: Fact) -> str:
    what = one.terms["figure"]
    if one.terms["verdict"] == "cannot be decided":
        return f"whether the {what} differs cannot be decided"
    ratio = one.quantities["ratio"]
    more = times(ratio.value)
    if ratio.low is not None and ratio.high is not None:
        more += f", {figure(ratio.low)} to {figure(ratio.high)}"
    shown = "" if one.terms["verdict"] == "shown" else f", {one.terms['verdict']}"
    return f"the {what} goes from {length(one, 'plain')} to {length(one, 'changed')} ({more}{shown})"


@says(FACTS, "figure")
def _figure(one: Fact) -> str:
    q = one.quantities["value"]
    ends = "" if q.low is None or q.high is None else f" ({span(q.low, q.high)})"
    behind = count(whole(one, "count"), one.terms["unit"].removesuffix("s"))
    return f"{one.terms['figure']} {duration(q.value)}{ends} from {behind}"


@says(FACTS, "ratio")
def _ratio(one: Fact) -> str:
    q = one.quantities["ratio"]
    ends = "" if q.low is None or q.high is None else f" ({lower(q.low)} to {lower(q.high)})"
    return f"its {one.terms['figure']} is {lower(q.value)}{ends}, {one.terms['pairing']}"


@says(FACTS, "share")
def _share(one: Fact) -> str:
    return f"{one.terms['what']}: {share(one.quantities['value'].value)}"
