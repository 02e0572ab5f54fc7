"""Stalls, ends of connections and refusals in words. What a verdict rests on is told in the recording's own
words.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from fathometer.findings.finding import Fact, Finding, Place
from fathometer.findings.render.facts import HOSTS, whole
from fathometer.findings.render.table import FACTS, finding, says
from fathometer.findings.verdicts import of_ages, of_ending, of_rivals
from fathometer.findings.words import count, duration, listed, moment, often, share
from fathometer.stats.ages import Ages
from fathometer.stats.coincidence import Rivals
from fathometer.stats.segments import Ending

VERDICTS: Final = {
    "flow_forgotten": "something on the way forgot the flow",
    "idle_expired": "an idle limit ended it",
    "path_down": "the path was down",
    "peer_down": "the reflector was down",
    "peer_paused": "the reflector did not run",
    "local_paused": "this host did not run",
    "local": "this host could not send: no port, no descriptor, no address or no route of its own",
    "delayed": "a queue or a slower path held echoes up",
    "unknown": "why is not known",
}
"""The codes as a person calls them; what speaks for them is the recording's."""
HOW: Final = {
    "finished": "the run was over",
    "refreshed": "it was refreshed by policy",
    "peer_closed": "the peer closed it",
    "reset": "it was reset",
    "timed_out": "the kernel gave up retransmitting",
    "unreachable": "the network said that the peer cannot be reached",
    "abandoned": "given up, as the policy of the run says",
    "local_error": "an error of this host, or a peer that does not echo",
}


WAYS: Final = {"forward": " on the way there", "return": " on the way back"}
"""From the probe to the reflector, and from there."""


def verdict(code: str | None) -> str:
    """A verdict as a person calls it."""
    return VERDICTS.get(code or "unknown", (code or "unknown").replace("_", " "))


def _verdict(f: Finding) -> str:
    """The verdict of a stall or an end, with the way that it names, or with what it leaves open."""
    could_be = f.terms.get("could be", "").split()
    if f.cause in {None, "unknown"} and could_be:
        return f"{verdict(f.cause)}: {' or '.join(map(verdict, could_be))}"
    way = WAYS.get(f.terms.get("way", ""), "") if f.cause == "path_down" else ""
    return verdict(f.cause) + way


@finding("death", 80)
def _death(f: Finding) -> str:
    age = f.quantities.get("age")
    lived = f" at an age of {duration(age.value)}" if age else ""
    how = HOW.get(f.terms["how"], f.terms["how"] or "how is not recorded")
    return f"connection {f.connection} ended{lived} ({how}): {_verdict(f)}"


@finding("more deaths", 80)
def _more_deaths(f: Finding) -> str:
    return f"{count(int(f.quantities['more'].value), 'more connection')} ended"


@says(FACTS, "ends")
def _ends(one: Fact) -> str:
    how = HOW.get(one.terms["cause"], "how is not recorded")
    return f"{how}, {verdict(one.terms['verdict'])}: {whole(one, 'times'):,}"


@finding("stall", 55)
def _stall(f: Finding) -> str:
    length = f.quantities.get("length")
    lasted = f"for {duration(length.value)}" if length else "until the recording ended"
    open_ = ", until the end" if length else ""
    over = {"recovered": " and recovered", "not recovered": " and did not recover", "open": open_}
    announced = f.terms["announced"]
    notice = f"; it falls into a maintenance that was announced to {HOSTS[announced]}" if announced else ""
    return f"connection {f.connection} stalled {lasted}{over[f.terms['end']]}: {_verdict(f)}{notice}"


@finding("more stalls", 55)
def _more_stalls(f: Finding) -> str:
    return count(int(f.quantities["more"].value), "shorter stall")


@finding("delay", 50)
def _delay(f: Finding) -> str:
    q = f.quantities
    lasted = f"for {duration(q['length'].value)}" if "length" in q else "until the recording ended"
    late = f"{count(int(q['late'].value), 'echo')} ".replace("echos", "echoes") if "late" in q else "echoes "
    way = WAYS.get(f.terms["way"], "")
    most = duration(q["most"].value)
    return (
        f"connection {f.connection} was slow {lasted}: {late}took up to {most}, a queue or a slower path{way}"
    )


@finding("more delays", 50)
def _more_delays(f: Finding) -> str:
    return count(int(f.quantities["more"].value), "smaller delay")


@says(FACTS, "ways")
def _ways(one: Fact) -> str:
    there, back = (duration(one.quantities[way].value) for way in ("there", "back"))
    return f"by the reflector's stamps the slowest was late by {there} on the way there and by {back} back"


@finding("refused", 60)
def _refused(f: Finding) -> str:
    attempts = int(f.quantities["attempts"].value)
    hanging = int(f.quantities["hanging"].value) if "hanging" in f.quantities else 0
    when = f"at {moment(f.from_ns or 0)}"
    if attempts + hanging > 1:
        when = f"between {moment(f.from_ns or 0)} and {moment(f.to_ns or 0)}"
    if not attempts:
        return f"no new connection was made {when}: {count(hanging, 'attempt')} had no answer"
    where = " in this host, which sent nothing" if f.cause == "local" else ""
    return f"{count(attempts, 'attempt')} to connect failed{where} {when}"


@finding("without answers", 58)
def _without_answers(f: Finding) -> str:
    q = f.quantities
    return (
        f"no answers for {duration(q['total'].value)} in all ({share(q['share'].value)} of the time), "
        f"{often(int(q['times'].value))}, the longest for {duration(q['longest'].value)}"
    )


@finding("coincidence", 85)
def _coincidence(f: Finding) -> str:
    span = duration((f.to_ns or 0) - (f.from_ns or 0))
    return (
        f"{whom(f.where)} were hit within {span}, from {moment(f.from_ns or 0)} on: one cause is likelier "
        "than chance"
    )


def whom(where: tuple[Place, ...], most: int = 5) -> str:
    """`cross-zone's connection 3, 2 connections of same-zone`."""
    by_path = Counter(p.path for p in where)
    names = []
    for path, n in by_path.items():
        mine = [p.connection for p in where if p.path == path and p.connection is not None]
        if n == 1 and mine:
            names.append(f"{path}'s connection {mine[0]}")
        else:
            names.append(f"{count(len(mine), 'connection')} of {path}" if mine else path)
    return listed(names, most)


@finding("ages", 40)
def _ages(f: Finding) -> str:
    told = of_ages(f.result) if isinstance(f.result, Ages) else ""
    return f"of all {count(int(f.quantities['deaths'].value), 'death')}: {told}"


@says(FACTS, "rivals")
def _rivals_fact(one: Fact) -> str:
    return of_rivals(one.result) if isinstance(one.result, Rivals) else ""


@says(FACTS, "ending")
def _ending(one: Fact) -> str:
    return of_ending(one.result) if isinstance(one.result, Ending) else ""
