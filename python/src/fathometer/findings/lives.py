"""Connections: how they stalled, how they ended, and whether that had a pattern."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fathometer.dataset import query
from fathometer.dataset.model import Connection, Explanation
from fathometer.dataset.recording import Recording
from fathometer.findings.model import Advice, Confidence, Ended, Finding, Scenario
from fathometer.findings.parts import Part, is_whole, recordings_of
from fathometer.findings.verdicts import of_ending, of_rivals
from fathometer.findings.words import count, duration, listed, moment
from fathometer.stats.coincidence import age_or_time, coincidence
from fathometer.stats.lifetimes import refresh_age, weibull
from fathometer.stats.segments import LENGTH, ending

OURS = {"finished", "refreshed"}
"""Closing causes that are our own doing."""
TOGETHER_NS = 5_000_000_000
"""Ends and stalls this near to each other may have one cause, ns: the articles' 3 s, and the time a death
takes to be noticed."""
MOST_STORIES = 50
"""Stalls and ends told one by one; beyond that they are counted."""
_CONFIDENCE: dict[str, Confidence] = {
    "flow_forgotten": "high",
    "idle_expired": "high",
    "path_down": "medium",
    "peer_down": "medium",
    "peer_paused": "high",
    "local_paused": "high",
    "unknown": "low",
}


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
        died = {c.id: c for c in deaths(recording)[:MOST_STORIES]}
        if not died:
            continue
        chunks = query.ask(recording, _stretches(recording, tuple(died)))
        for number, connection in died.items():
            mine = (chunks.connection == number) & (chunks.sent == LENGTH) & (chunks.answered > 0)
            # From the end; the statistics want the oldest first.
            judged = ending(chunks.mean_ns[mine][::-1])
            if judged and connection.closed_ns is not None:
                made.append(Ended(recording, scenario.name, number, connection.closed_ns, judged))
    return tuple(sorted(made, key=lambda e: e.at_ns))


def questions(part: Part) -> Iterator[query.Question[Any, Any]]:
    """What `ends` will ask of a part."""
    died = deaths(part.recording)[:MOST_STORIES]
    if died and is_whole(part):
        yield _stretches(part.recording, tuple(c.id for c in died))


def _stretches(recording: Recording, died: tuple[int, ...]) -> query.Stretches:
    return query.stretches(recording, LENGTH, connections=died)


def findings(scenarios: Sequence[Scenario], ended: Sequence[Ended]) -> list[Finding]:
    """Deaths, stalls, refusals, and their coincidence."""
    made: list[Finding] = []
    for scenario, recording in recordings_of(scenarios):
        made += _deaths(scenario, recording, ended)
        made += _stalls(scenario, recording)
        made += _refusals(scenario, recording)
    return made + _together(scenarios) + _rivals(scenarios)


def _because(explanation: Explanation | None) -> list[str]:
    return list(explanation.because) if explanation else []


def _deaths(scenario: Scenario, recording: Recording, ended: Sequence[Ended]) -> list[Finding]:
    made = []
    died = deaths(recording)
    for c in died[:MOST_STORIES]:
        verdict = (c.explanation.verdict if c.explanation else c.verdict) or "unknown"
        age = f" at an age of {duration(c.age_ns)}" if c.age_ns is not None else ""
        said = (
            f"{scenario.name}: connection {c.id} ended{age} ({c.cause or 'cause not recorded'}): "
            f"{_verdict(verdict)}"
        )
        evidence = _because(c.explanation)
        silence = next((s for s in recording.stalls if s.connection == c.id and s.recovered is False), None)
        if silence and silence.duration_ns is not None:
            evidence.append(f"it had been silent for {duration(silence.duration_ns)} before")
        mine = next((e for e in ended if e.recording is recording and e.connection == c.id), None)
        if mine:
            evidence.append(of_ending(mine.ending))
        confidence = _CONFIDENCE.get(verdict, "low") if c.explanation else "low"
        made.append(
            Finding(
                "death", c.closed_ns, said, tuple(evidence), confidence, scenario.name, recording.manifest.id
            )
        )
    if len(died) > MOST_STORIES:
        causes = Counter(f"{c.cause} / {c.verdict or 'unknown'}" for c in died[MOST_STORIES:])
        told = tuple(f"{cause}: {number:,}" for cause, number in causes.most_common())
        said = f"{scenario.name}: {len(died) - MOST_STORIES:,} more connections ended"
        made.append(Finding("death", None, said, told, "medium", scenario.name, recording.manifest.id))
    return made


_VERDICTS = {
    "flow_forgotten": "the flow was forgotten on the way; new connections worked",
    "idle_expired": "an idle limit on the way had expired it",
    "path_down": "nothing crossed the path, for new connections neither",
    "peer_down": "the reflector was gone",
    "peer_paused": "the reflector did not run",
    "local_paused": "this host did not run",
    "unknown": "why is not known",
}


def _verdict(verdict: str) -> str:
    return _VERDICTS.get(verdict, verdict.replace("_", " "))


def _stalls(scenario: Scenario, recording: Recording) -> list[Finding]:
    made = []
    # A silence that ended with its connection is part of that end's story.
    gone = {c.id for c in deaths(recording)}
    stalls = [s for s in recording.stalls if s.recovered is not False or s.connection not in gone]
    longest = sorted(stalls, key=lambda s: -(s.duration_ns or 0))[:MOST_STORIES]
    for s in sorted(longest, key=lambda s: s.began_ns):
        verdict = s.explanation.verdict if s.explanation else "unknown"
        length = (
            f"for {duration(s.duration_ns)}" if s.duration_ns is not None else "until the recording ended"
        )
        over = "and recovered" if s.recovered else "and did not recover" if s.recovered is False else ""
        notice = _notice(recording, s.began_ns - (s.threshold_ns or 0), s.ended_ns or s.began_ns)
        said = (
            f"{scenario.name}: connection {s.connection} stalled {length} {over}".rstrip()
            + f": {_verdict(verdict)}"
        )
        evidence = [*_because(s.explanation), f"{count(s.samples or s.outstanding, 'sample')} waited"]
        if s.retransmits:
            evidence.append(count(s.retransmits, "retransmission"))
        if notice:
            said += f"; it falls into a maintenance that was announced ({notice})"
        confidence = _CONFIDENCE.get(verdict, "low") if s.explanation else "low"
        made.append(
            Finding(
                "stall", s.began_ns, said, tuple(evidence), confidence, scenario.name, recording.manifest.id
            )
        )
    if len(stalls) > MOST_STORIES:
        said = f"{scenario.name}: {len(stalls) - MOST_STORIES:,} shorter stalls"
        made.append(Finding("stall", None, said, (), "high", scenario.name, recording.manifest.id))
    return made


def _notice(recording: Recording, began_ns: int, ended_ns: int) -> str | None:
    for m in recording.maintenance:
        if m.not_before_ns is None:
            continue
        # A notice names the earliest moment and, if at all, a typical length; a minute on either side is its
        # own vagueness.
        last = m.not_before_ns + (m.duration_ns or 0) + 60_000_000_000
        if began_ns <= last and ended_ns >= m.not_before_ns - 60_000_000_000:
            return f"{m.cloud}: {m.what}, not before {moment(m.not_before_ns)}"
    return None


def _refusals(scenario: Scenario, recording: Recording) -> list[Finding]:
    refused = [e for e in recording.events if e.kind == "connection.refused"]
    if not refused:
        return []
    said = (
        f"{scenario.name}: {count(len(refused), 'attempt')} to connect failed between "
        f"{moment(refused[0].at_ns)} and {moment(refused[-1].at_ns)}"
    )
    errors = Counter(str(e.fields.get("error", e.fields.get("errno", "error not recorded"))) for e in refused)
    return [
        Finding(
            "refused",
            refused[0].at_ns,
            said,
            tuple(f"{e}: {n:,}" for e, n in errors.most_common(5)),
            "high",
            scenario.name,
            recording.manifest.id,
        )
    ]


def _together(scenarios: Sequence[Scenario]) -> list[Finding]:
    """Ends and stalls of several connections within seconds, against chance; and age as the rival
    explanation.
    """
    at: list[int] = []
    group: list[int] = []
    name: list[str] = []
    age: list[int | None] = []
    for number, (scenario, recording) in enumerate(recordings_of(scenarios)):
        # The connections of one recording are one group: a path that fails twice is not a coincidence.
        for c in deaths(recording):
            at.append(c.closed_ns or 0)
            group.append(number)
            name.append(f"{scenario.name}'s connection {c.id}")
            age.append(c.age_ns)
        for s in recording.stalls:
            if s.recovered:
                at.append(s.began_ns)
                group.append(number)
                name.append(f"a stall of {scenario.name}")
                age.append(None)
    if len(set(group)) < 2:
        return []
    found = coincidence(np.array(at, dtype=np.int64), np.array(group, dtype=np.int64), TOGETHER_NS)
    made = []
    for cluster in found.clusters if found.p_value < 0.05 else ():
        first = min(at[i] for i in cluster)
        span = max(at[i] for i in cluster) - first
        who = sorted({name[i] for i in cluster})
        shown = listed(who) if len(who) <= 6 else f"{listed(who[:5])} and {len(who) - 5} others"
        chance = f"chance makes {found.expected:.2g} (p = {found.p_value:.3f})"
        evidence = [f"{found.pairs} such pairs were seen where {chance}"]
        ages = [(at[i], a) for i in cluster if (a := age[i]) is not None]
        confidence: Confidence = "high"
        if len(ages) >= 2:
            rivals = age_or_time(np.array([t for t, _ in ages]), np.array([a for _, a in ages]))
            if rivals:
                evidence.append(of_rivals(rivals))
                confidence = "high" if rivals.better == "event" else "medium"
        said = (
            f"within {duration(span)} of {moment(first)} happened together: {shown}: one cause is likelier "
            "than chance"
        )
        made.append(Finding("coincidence", first, said, tuple(evidence), confidence))
    return made


def _rivals(scenarios: Sequence[Scenario]) -> list[Finding]:
    """Over all deaths: one age, or one moment? Told from three on, because two always agree in something."""
    died = [c for _, recording in recordings_of(scenarios) for c in deaths(recording) if c.age_ns is not None]
    if len(died) < 3:
        return []
    closed, ages = np.array([c.closed_ns or 0 for c in died]), np.array([c.age_ns or 0 for c in died])
    found = age_or_time(closed, ages)
    if found is None:
        return []
    said = f"of all {count(len(died), 'death')}: {of_rivals(found)}"
    evidence = (
        f"ages from {duration(int(ages.min()))} to {duration(int(ages.max()))}",
        f"moments from {moment(int(closed.min()))} to {moment(int(closed.max()))}",
    )
    return [Finding("rivals", None, said, evidence, "medium")]


def advice(scenarios: Sequence[Scenario]) -> list[Advice]:
    """What the lives of connections say about keepalive, time-outs and refreshing."""
    made: list[Advice] = []
    everyone = [
        c
        for _, recording in recordings_of(scenarios)
        for c in recording.lasting
        if c.age_ns is not None and c.cause is not None
    ]
    if any(c.cause not in OURS for c in everyone):
        ages = np.array([float(c.age_ns or 0) for c in everyone])
        died = np.array([c.cause not in OURS for c in everyone])
        fit = weibull(ages[ages > 0], died[ages > 0])
        found = refresh_age(fit)
        evidence = (
            f"{count(int(died.sum()), 'death')} among {count(len(everyone), 'connection')}",
            found.said,
        )
        if found.age_ns is not None:
            said = (
                f"refresh connections before they are {duration(found.age_ns)} old; it saves "
                f"{found.saved:.0%} of the cost of deaths, if a death costs ten refreshes"
            )
            made.append(Advice("refresh age", said, evidence, "medium"))
        else:
            made.append(Advice("no refresh", found.said, evidence[:1], "medium"))
    made += _idle(scenarios)
    waits = [
        s.duration_ns
        for _, recording in recordings_of(scenarios)
        for s in recording.stalls
        if s.recovered and s.duration_ns
    ]
    if waits:
        longest = max(waits)
        said = (
            f"give clients a time-out above {duration(longest)}, the longest stall that recovered by "
            "itself; a shorter one would have turned it into a lost connection"
        )
        made.append(Advice("time-out", said, (f"{count(len(waits), 'stall')} recovered",), "medium"))
    return made


def _idle(scenarios: Sequence[Scenario]) -> list[Advice]:
    expired = [
        c
        for _, recording in recordings_of(scenarios)
        for c in deaths(recording)
        if c.explanation and c.explanation.verdict == "idle_expired"
    ]
    if not expired:
        return []
    idle = [int(i) for c in expired if isinstance(i := c.evidence.get("idle_ns"), int)]
    shown = f" (seen after {duration(min(idle))} of silence)" if idle else ""
    said = (
        f"send something (a keepalive or a request) more often than the idle limit on this path{shown}, or "
        "raise the limit"
    )
    evidence = tuple(
        f"connection {c.id}: {listed(_because(c.explanation)) or 'idle expired'}" for c in expired[:3]
    )
    return [Advice("keepalive", said, evidence, "high")]
