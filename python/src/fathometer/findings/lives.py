"""Connections: how they stalled, how they ended, and whether that had a pattern."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

import numpy as np

from fathometer.dataset import raw
from fathometer.dataset.model import Connection, Delay, Explanation, Stall
from fathometer.dataset.recording import Recording
from fathometer.dataset.selection import Selection
from fathometer.errors import FathometerError
from fathometer.findings import weight
from fathometer.findings.finding import Confidence, Fact, Finding, Place, ns, number
from fathometer.findings.model import Ended, Scenario
from fathometer.findings.parts import is_whole, recordings_of
from fathometer.findings.refusals import refusals
from fathometer.findings.shifts import NOTICE_NS, notice_fact
from fathometer.stats.coincidence import age_or_time, coincidence
from fathometer.stats.segments import LENGTH, ending

OURS = {"finished", "refreshed"}
"""Closing causes that are our own doing."""
TOGETHER_NS = 5_000_000_000
"""Ends and stalls this near to each other may have one cause, ns: the articles' 3 s, and the time a death
takes to be noticed."""
MOST_WAITING: Final = 1_000_000
"""Samples of a connection that are looked at for what a stall took that was not over."""
MOST_STORIES = 50
"""Stalls and ends told one by one; beyond that they are counted."""
_SURE: Final[dict[str, Confidence]] = {"high": "high", "medium": "medium"}
_Told = TypeVar("_Told", Stall, Delay)


def deaths(recording: Recording) -> list[Connection]:
    """Connections that samples went over, and that ended by no doing of ours."""
    return [c for c in recording.lasting if c.closed_ns is not None and c.cause not in OURS]


def ends(scenarios: Sequence[Scenario]) -> tuple[Ended, ...]:
    """The last segments of every connection that died, judged against the rest of its life."""
    made = []
    for scenario, recording in recordings_of(scenarios):
        # Segments that hold samples of several sizes, or idle and loaded ones, are comparable to nothing.
        if not all(is_whole(run) for run in scenario.runs if run.recording is recording):
            continue
        if recording.source is None:
            continue  # A rollup has no samples to look at.
        for connection in deaths(recording)[:MOST_STORIES]:
            if connection.closed_ns is None:
                continue
            try:
                means = raw.last_means(recording, connection.id, connection.closed_ns, LENGTH)
            except FathometerError:
                continue  # A file that changed since it was opened: one end less, and no report less.
            judged = ending(means)
            if judged:
                made.append(Ended(recording, scenario.name, connection.id, connection.closed_ns, judged))
    return tuple(sorted(made, key=lambda e: e.at_ns))


def findings(scenarios: Sequence[Scenario], ended: Sequence[Ended]) -> list[Finding]:
    """Deaths, stalls, refusals, and whether many ends have one age or one moment."""
    made: list[Finding] = []
    for scenario, recording in recordings_of(scenarios):
        where = Place(scenario.name, recording.manifest.id)
        made += _deaths(where, recording, ended)
        made += _stalls(where, recording)
        made += _delays(where, recording)
        made += refusals(where, recording)
    return made + _together(scenarios)


def _because(explanation: Explanation | None, name: str) -> list[Fact]:
    """The recording's own words."""
    reasons = explanation.because if explanation else ()
    return [Fact("recorded", terms={"text": text}, id=name) for text in reasons]


def _confidence(explanation: Explanation | None) -> Confidence:
    """As the recording has it; where it does not say how sure a verdict is, that is no more than a guess."""
    return _SURE.get((explanation.confidence if explanation else None) or "", "low")


def _verdict(explanation: Explanation | None) -> dict[str, str]:
    """What the verdict leaves open, and which way it names."""
    if explanation is None:
        return {}
    return {"could be": " ".join(explanation.could_be), "way": explanation.direction or ""}


def _deaths(where: Place, recording: Recording, ended: Sequence[Ended]) -> list[Finding]:
    died = deaths(recording)
    made = [_death(replace(where, connection=c.id), recording, c, ended) for c in died[:MOST_STORIES]]
    if len(died) > MOST_STORIES:
        causes = Counter((c.cause or "", c.verdict or "unknown") for c in died[MOST_STORIES:])
        facts = tuple(
            Fact("ends", {"times": number(n, "connections")}, {"cause": cause, "verdict": verdict})
            for (cause, verdict), n in causes.most_common()
        )
        more = number(len(died) - MOST_STORIES, "connections")
        made.append(
            Finding("more deaths", (where,), confidence="medium", quantities={"more": more}, facts=facts)
        )
    return made


def _death(where: Place, recording: Recording, c: Connection, ended: Sequence[Ended]) -> Finding:
    verdict = (c.explanation.verdict if c.explanation else c.verdict) or "unknown"
    name = f"{where.recording}/connection/{c.id}"
    facts = _because(c.explanation, name)
    closed_ns = c.closed_ns or 0
    silent_ns = silence_before(recording, c)
    lost, sent, answered = (c.evidence.get(n) for n in ("outstanding", "sent", "answered"))
    quantities = {"silent": ns(silent_ns)}
    if c.age_ns is not None:
        quantities["age"] = ns(c.age_ns)
    if isinstance(lost, int):
        quantities["lost"] = number(lost, "samples")
    elif isinstance(sent, int) and isinstance(answered, int):
        quantities["lost"] = number(sent - answered, "samples")
    if silent_ns:
        facts.append(Fact("silent before", {"length": ns(silent_ns)}, id=name))
    mine = next((e for e in ended if e.recording is recording and e.connection == c.id), None)
    if mine:
        facts.append(Fact("ending", result=mine.ending))
    return Finding(
        "death",
        (where,),
        closed_ns - silent_ns,
        closed_ns,
        verdict,
        _confidence(c.explanation),
        quantities,
        {"how": c.cause or "", **_verdict(c.explanation)},
        tuple(facts),
        uncertain_ns=recording.manifest.interval_ns or 0,
    )


def silence_before(recording: Recording, c: Connection) -> int:
    """For how long no echo had come on a connection when it ended, ns; 0: there was no silence, or it is not
    known.
    """
    silent = c.evidence.get("silent_ns")
    if isinstance(silent, int):
        # An idle connection is silent because nothing was asked.
        return silent if c.evidence.get("outstanding") != 0 else 0
    stall = recording.last_stalls.get(c.id)
    return (stall.duration_ns or 0) if stall else 0


def _stalls(where: Place, recording: Recording) -> list[Finding]:
    # A silence that ended with its connection is part of that end's story.
    gone = {c.id for c in deaths(recording)}
    stalls = [
        (n, s) for n, s in enumerate(recording.stalls) if s.recovered is not False or s.connection not in gone
    ]
    known = {c.id: c for c in recording.connections}

    def length(s: Stall) -> int:
        return recording.over_ns - s.began_ns if s.ended_ns is None else s.duration_ns or 0

    told, more = _longest(where, "more stalls", stalls, length)
    return [
        _stall(replace(where, connection=s.connection), recording, n, s, _to_the_end(recording, s, known))
        for n, s in told
    ] + more


def _to_the_end(
    recording: Recording, s: Stall, connections: Mapping[int, Connection]
) -> tuple[int, int | None] | None:
    """Until when a stall is known to have lasted that no event ends, and how many samples it took; None: it
    did end, or its connection did, which tells of it. A damaged line may have told the end of it.
    """
    c = connections.get(-1 if s.connection is None else s.connection)
    if s.ended_ns is not None or (c is not None and c.closed_ns is not None and c.cause not in OURS):
        return None
    if c is not None and c.closed_ns is not None:
        silent_ns, lost = (c.evidence.get(name) for name in ("silent_ns", "outstanding"))
        if isinstance(silent_ns, int) and c.closed_ns - silent_ns >= s.began_ns:
            return None
        return c.closed_ns, lost if isinstance(lost, int) else None
    if recording.source is None or s.connection is None:
        return recording.over_ns, None
    try:
        wanted = Selection(connection=s.connection, start_ns=s.began_ns - s.threshold_ns, warm_up=True)
        mine = raw.samples(recording, wanted, limit=MOST_WAITING)
    except FathometerError:
        return recording.over_ns, None
    answered = ~np.isnan(mine.value_ns)
    if answered[mine.sent_ns >= s.began_ns].any():
        return None
    return recording.over_ns, int((~answered).sum())


def _stall(
    where: Place, recording: Recording, n: int, s: Stall, to_the_end: tuple[int, int | None] | None
) -> Finding:
    """`to_the_end`: until when it lasted, and what it took, where it was not over."""
    name = f"{where.recording}/stall/{n}"
    # It began when the oldest sample was sent, and was called a stall later.
    began_ns, ended_ns = s.began_ns - s.threshold_ns, s.ended_ns
    if s.ended_ns is not None and s.duration_ns is not None:
        began_ns = s.ended_ns - s.duration_ns
    waited = s.samples if s.samples is not None else s.outstanding
    if to_the_end is not None:
        ended_ns, lost = to_the_end
        # As the recorder called it a stall so many waited already, and none of them was answered.
        waited = max(waited, lost or 0)
    facts = _because(s.explanation, name)
    facts.append(Fact("waited", {"samples": number(waited, "samples")}, id=name))
    if s.retransmits:
        facts.append(Fact("retransmissions", {"times": number(s.retransmits)}, id=name))
    cause = s.explanation.verdict if s.explanation else "unknown"
    announced = _notice(recording, began_ns, s.ended_ns or s.began_ns, cause)
    if announced is not None:
        facts.append(notice_fact(recording, announced))
    quantities = {"waited": number(waited, "samples")}
    if s.duration_ns is not None:
        quantities["length"] = ns(s.duration_ns)
    elif to_the_end is not None:
        length_ns = recording.elapsed_ns(began_ns, to_the_end[0])
        quantities |= {"length": ns(length_ns), "lost": number(waited, "samples")}
    ends = {True: "recovered", False: "not recovered", None: "open"}
    return Finding(
        "stall",
        (where,),
        began_ns,
        ended_ns,
        cause,
        _confidence(s.explanation),
        quantities,
        {
            "end": ends[s.recovered],
            "announced": "" if announced is None else recording.maintenance[announced].host,
            **_who(recording, cause),
            **_verdict(s.explanation),
        },
        tuple(facts),
        uncertain_ns=recording.manifest.interval_ns or 0,
    )


_PAUSED: Final = {"local_paused": "local", "peer_paused": "remote"}
"""The host that stood still, by the verdict."""


def _who(recording: Recording, cause: str) -> dict[str, str]:
    """Whose clock tells when it was, and who stood still: what findings of several recordings may share."""
    host = _PAUSED.get(cause)
    return {
        "clock": weight.names(recording, "local"),
        "who": weight.names(recording, host) if host else "",
    }


def _delays(where: Place, recording: Recording) -> list[Finding]:
    told, more = _longest(where, "more delays", list(enumerate(recording.delays)), lambda d: d.most_ns)
    return [_delay(replace(where, connection=d.connection), recording, n, d) for n, d in told] + more


def _longest(
    where: Place, rest: str, every: list[tuple[int, _Told]], length: Callable[[_Told], int]
) -> tuple[list[tuple[int, _Told]], list[Finding]]:
    """The longest of them in the order of their beginnings, and how many more there were."""
    longest = sorted(every, key=lambda one: -length(one[1]))[:MOST_STORIES]
    left = number(len(every) - len(longest))
    more = [Finding(rest, (where,), quantities={"more": left})] if len(every) > len(longest) else []
    return sorted(longest, key=lambda one: one[1].began_ns), more


def _delay(where: Place, recording: Recording, n: int, d: Delay) -> Finding:
    """Nothing was missing, so it is neither silence nor loss."""
    quantities = {"most": ns(d.most_ns)}
    if d.ended_ns is not None:
        quantities["length"] = ns(d.ended_ns - d.began_ns)
    if d.samples is not None:
        quantities["late"] = number(d.samples, "samples")
    facts: tuple[Fact, ...] = ()
    if d.forward_ns is not None and d.back_ns is not None:
        name = f"{where.recording}/delay/{n}"
        facts = (Fact("ways", {"there": ns(d.forward_ns), "back": ns(d.back_ns)}, id=name),)
    return Finding(
        "delay",
        (where,),
        d.began_ns,
        d.ended_ns,
        "delayed",
        _SURE.get(d.confidence or "", "low"),
        quantities,
        {"way": d.direction or "", **_who(recording, "delayed")},
        facts,
        uncertain_ns=recording.manifest.interval_ns or 0,
    )


def _notice(recording: Recording, began_ns: int, ended_ns: int, cause: str) -> int | None:
    """Index of the cloud's notice for that time, and for the host that stood still if one did."""
    hosts = {_PAUSED[cause]} if cause in _PAUSED else {"local", "remote"}
    for n, m in enumerate(recording.maintenance):
        if m.not_before_ns is None or m.host not in hosts:
            continue
        # A notice names the earliest moment and, if at all, a typical length; a minute on either side is its
        # own vagueness.
        last = m.not_before_ns + (m.duration_ns or 0) + NOTICE_NS
        if began_ns <= last and ended_ns >= m.not_before_ns - NOTICE_NS:
            return n
    return None


def _together(scenarios: Sequence[Scenario]) -> list[Finding]:
    """Ends and stalls of several connections within seconds, against chance; and age as the rival
    explanation.
    """
    at: list[int] = []
    group: list[int] = []
    places: list[Place] = []
    age: list[int | None] = []
    for count, (scenario, recording) in enumerate(recordings_of(scenarios)):
        where = Place(scenario.name, recording.manifest.id)
        # The connections of one recording are one group: a path that fails twice is not a coincidence.
        for c in deaths(recording):
            at.append(c.closed_ns or 0)
            group.append(count)
            places.append(replace(where, connection=c.id))
            age.append(c.age_ns)
        for s in recording.stalls:
            if s.recovered:
                at.append(s.began_ns)
                group.append(count)
                places.append(replace(where, connection=s.connection))
                age.append(None)
    if len(set(group)) < 2:
        return []
    pairs = coincidence(np.array(at, dtype=np.int64), np.array(group, dtype=np.int64), TOGETHER_NS)
    made = []
    for cluster in pairs.clusters if pairs.p_value < 0.05 else ():
        facts = [
            Fact(
                "chance",
                {
                    "pairs": number(pairs.pairs),
                    "expected": number(pairs.expected),
                    "p": number(pairs.p_value, ""),
                },
            )
        ]
        ages = [(at[i], a) for i in cluster if (a := age[i]) is not None]
        confidence: Confidence = "high"
        if len(ages) >= 2:
            other = age_or_time(np.array([t for t, _ in ages]), np.array([a for _, a in ages]))
            if other and other.better == "age":
                continue  # One moment is not claimed where one age is the better explanation.
            if other:
                facts.append(Fact("rivals", result=other))
                confidence = "high" if other.better == "event" else "medium"
        made.append(
            Finding(
                "coincidence",
                tuple(sorted({places[i] for i in cluster}, key=_by_name)),
                min(at[i] for i in cluster),
                max(at[i] for i in cluster),
                "common cause",
                confidence,
                {"events": number(len(cluster))},
                facts=tuple(facts),
            )
        )
    return made


def _by_name(place: Place) -> tuple[str, str, int]:
    return place.path, place.recording, -1 if place.connection is None else place.connection
