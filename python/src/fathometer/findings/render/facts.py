"""Pieces of evidence in words."""

from __future__ import annotations

from fathometer.findings.finding import Fact
from fathometer.findings.render.phrase import HOSTS, ends
from fathometer.findings.render.table import FACTS, facts, says
from fathometer.findings.words import count, duration, figure, lower, moment, times

__all__ = ["HOSTS", "fact", "length", "whole"]


def fact(one: Fact) -> str:
    """A sentence without its full stop."""
    return FACTS[one.code](one)


def length(one: Fact, name: str = "length") -> str:
    """One of its durations."""
    return duration(one.quantities[name].value)


def whole(one: Fact, name: str) -> int:
    """One of its counts."""
    return int(one.quantities[name].value)


facts(
    {
        "recorded": "{text}",
        "reasons": "the reason recorded {times:often}: {reason}",
        "notice": "{cloud} announced {what} to {host} for {at:moment}",
        "address changed": "the path's {what} changed from {from} to {to}",
        "opened": "connection {connection} was opened at {at:moment}",
        "stall": "a stall of {length:duration} began at {at:moment}",
        "nothing near": (
            "no pause, no new connection, no notice and {retransmissions:count retransmission} within "
            "{within:duration}"
        ),
        "waited": "{samples:count sample} waited",
        "retransmissions": "{times:count retransmission}",
        "silent before": "no echo had come for {length:duration} before",
        "errors": "{error}: {times}",
        "ages": "ages from {youngest:duration} to {oldest:duration}",
        "moments": "moments from {at:moment} to {last:moment}",
        "share": "{what}: {value:share}",
    }
)


@says(FACTS, "fields")
def _fields(one: Fact) -> str:
    return ", ".join(f"{k} {v}" for k, v in one.terms.items())


@says(FACTS, "pause")
def _pause(one: Fact) -> str:
    reason = one.terms["reason"] or "reason not known"
    return f"{HOSTS[one.terms['host']]} did not run for {length(one)} at {moment(one.at_ns or 0)} ({reason})"


@says(FACTS, "chance")
def _chance(one: Fact) -> str:
    expected, p = one.quantities["expected"].value, one.quantities["p"].value
    return (
        f"{count(whole(one, 'pairs'), 'such pair')} {'was' if whole(one, 'pairs') == 1 else 'were'} seen "
        f"where chance makes {figure(expected, 2)} (p = {p:.3f})"
    )


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
    behind = count(whole(one, "count"), one.terms["unit"].removesuffix("s"))
    return f"{one.terms['figure']} {duration(q.value)}{ends(q)} from {behind}"


@says(FACTS, "ratio")
def _ratio(one: Fact) -> str:
    q = one.quantities["ratio"]
    interval = "" if q.low is None or q.high is None else f" ({lower(q.low)} to {lower(q.high)})"
    return f"its {one.terms['figure']} is {lower(q.value)}{interval}, {one.terms['pairing']}"
