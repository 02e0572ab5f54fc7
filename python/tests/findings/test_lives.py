"""Connections: whose lives count, and that what is told of an end is what the recording says."""

import numpy as np
import pytest

from fathometer.dataset import open_recordings
from fathometer.findings import render
from fathometer.findings.ageing import lives
from fathometer.findings.analyse import analyse
from fathometer.findings.scenarios import scenarios
from fathometer.report import modes
from fathometer.report.vega import WIDE
from support.ends import closed, explained, opened
from support.recordings import START, UNANSWERED, lognormal_ns, write

SECOND = 1_000_000_000
MINUTE = 60 * SECOND


def test_open_connections_count_as_survivors(tmp_path):
    """A thousand connections of constant hazard, seen for a while and then killed: the 900 that lived were
    left out, and the deaths alone looked like old age ("refresh before they are 11 min old; it saves 30 %").
    """
    rng = np.random.default_rng(7)
    length = 20 * MINUTE
    begins = np.sort(rng.integers(0, 2 * MINUTE, 1000))
    ages = rng.exponential(10.5 * length, 1000)
    events, deaths = [], 0
    for i, (begin, age) in enumerate(zip(begins.tolist(), ages.tolist(), strict=True)):
        events.append(opened(i, START + begin))
        if begin + age < length:
            deaths += 1
            events.append(closed(i, START + begin + int(age), int(age), sent=1, answered=1))
    assert 60 < deaths < 130
    write(tmp_path / "r", lognormal_ns(1, 1200), events=events, ended=False)
    analysis = analyse(open_recordings([tmp_path]))
    seen = lives(analysis.scenarios)
    assert len(seen) == 1000
    assert sum(one.died for one in seen) == deaths
    assert all(one.died or one.age_ns >= length - 2 * MINUTE - 2 * SECOND for one in seen)
    assert [a for a in analysis.advice if a.topic == "refresh age"] == []


@pytest.mark.parametrize("confidence", ["high", "medium", "low", "none", None])
def test_death_uses_recorded_reason_and_confidence(tmp_path, confidence):
    """The report had a table of its own: acknowledged silences were `high`, forgotten flows always `high`,
    and `path_down` said "for new connections neither" although a fresh one had been echoed.
    """
    because = "a fresh connection went without an answer too during the silence, and works now"
    more = {} if confidence is None else {"confidence": confidence}
    at = START + 100 * SECOND
    rtt = lognormal_ns(1, 200)
    rtt[70:100] = UNANSWERED
    write(
        tmp_path / "r",
        rtt,
        events=[
            opened(0, START),
            closed(0, at, 100 * SECOND, outstanding=30, silent_ns=30 * SECOND),
            explained(0, at, "path_down", [because], **more),
        ],
    )
    analysis = analyse(open_recordings([tmp_path]))
    (death,) = [f for f in analysis.findings if f.kind == "death"]
    assert death.cause == "path_down"
    assert death.confidence == {"high": "high", "medium": "medium"}.get(confidence, "low")
    assert because in render.evidence(death)
    told = " ".join([render.statement(death), *render.evidence(death)])
    assert "neither" not in told
    assert (death.from_ns, death.to_ns) == (at - 30 * SECOND, at)
    (incident,) = analysis.incidents
    assert (incident.toll.lost, incident.toll.silent_ns, incident.toll.connections) == (30, 30 * SECOND, 1)


@pytest.mark.parametrize("zeros", [1, 3, 500, 1000])
def test_round_trips_of_zero_break_nothing(tmp_path, zeros):
    """A tool that prints whole milliseconds has round trips of 0; ratios and logarithms of them ended in a
    traceback.
    """
    rng = np.random.default_rng(3)
    rtt = rng.integers(1, 3, 1000) * 1_000_000
    rtt[rng.permutation(1000)[:zeros]] = 0
    events = [opened(0, START), closed(0, START + 900 * SECOND, 900 * SECOND)]
    write(tmp_path / "a", rtt, label="a", events=events)
    write(tmp_path / "b", np.roll(rtt, 7), label="b")
    analysis = analyse(open_recordings([tmp_path]))
    for finding in analysis.findings:
        assert render.statement(finding)
        assert all(render.evidence(finding))
    assert all(render.advice(a) for a in analysis.advice)
    assert all(render.incident(i) for i in analysis.incidents)
    assert [s.rtt.count for s in scenarios(open_recordings([tmp_path]))] == [1000, 1000]


def test_silent_time_counts_overlaps_once(tmp_path):
    at = START + 100 * SECOND
    stalled = {"duration_ns": 4 * SECOND, "samples": 4, "recovered": True, "retransmits": 0}
    began = {"seq": 20, "outstanding": 1, "threshold_ns": SECOND}
    for label, silent in (("worse", 30), ("better", 10)):
        events = [
            opened(0, START),
            {"at_ns": START + 21 * SECOND, "kind": "stall.began", "connection": 0, **began},
            {"at_ns": START + 24 * SECOND, "kind": "stall.ended", "connection": 0, **stalled},
            closed(0, at, 100 * SECOND, outstanding=silent, silent_ns=silent * SECOND),
            opened(1, at + 2 * SECOND),
        ]
        write(tmp_path / label, lognormal_ns(1, 201), label=label, events=events)
    analysis = analyse(open_recordings([tmp_path]))
    told = {f.scenario: f.quantities for f in analysis.findings if f.kind == "without answers"}
    for label, silent in (("worse", 30), ("better", 10)):
        assert told[label]["total"].value == (4 + silent + 2) * SECOND
        assert told[label]["longest"].value == (silent + 2) * SECOND
        assert told[label]["times"].value == 2
        assert told[label]["share"].value == pytest.approx((4 + silent + 2) / 200)
    (table,) = [x.table for x in modes.extras(analysis) if x.name == "silent"]
    assert [row[0].text for row in table.rows] == ["worse", "better"]
    rows = modes.PICTURES["silent"].make(analysis, WIDE)["data"]["values"]
    assert [r["percent"] for r in rows] == [18.0, 8.0]


@pytest.mark.parametrize(
    ("moments", "told"),
    [((1000,), []), ((1000, 2000), []), ((900, 1800, 2700), ["either"]), ((900, 1810, 2610), ["age"])],
)
def test_simultaneous_deaths_count_once_for_age_limit(tmp_path, moments, told):
    """Six connections of one age at each of a few moments: an outage each, or an age limit. Twelve deaths in
    two moments were told as one, although two moments always agree in something.
    """
    events = []
    for n, moment in enumerate(moments):
        for lane in range(6):
            age = 800 * SECOND + lane * SECOND // 10
            at = START + moment * SECOND + lane * SECOND // 5
            events += [opened(6 * n + lane, at - age), closed(6 * n + lane, at, age)]
    write(tmp_path / "r", lognormal_ns(1, 3_000), events=events)
    analysis = analyse(open_recordings([tmp_path]))
    assert sum(i.toll.connections for i in analysis.incidents) == 6 * len(moments)
    assert len([i for i in analysis.incidents if i.toll.connections]) == len(moments)
    found = [f for f in analysis.findings if f.kind == "ages"]
    assert [f.result.better for f in found] == told


@pytest.mark.parametrize("connections", [60, 120])
def test_deaths_beyond_story_limit_are_evidence(tmp_path, connections):
    """Only fifty deaths of a recording are told one by one."""
    events = []
    for n in range(connections):
        at = START + (1_000 + n // 40 * 300) * SECOND + n
        events += [opened(n, at - 900 * SECOND - n), closed(n, at, 900 * SECOND + n)]
    write(tmp_path / "r", lognormal_ns(1, 3_000), events=events)
    analysis = analyse(open_recordings([tmp_path]))
    found = [f for f in analysis.findings if f.kind == "ages"]
    assert len(found) == (connections == 120)


def told_of(tmp_path, *events):
    write(tmp_path / "r", lognormal_ns(1, 200), events=[opened(0, START), *events])
    return analyse(open_recordings([tmp_path]))


def test_ambiguous_causes_are_named(tmp_path):
    at = START + 100 * SECOND
    more = {"could_be": ["path_down", "peer_paused"], "confidence": "none"}
    began = {"seq": 20, "outstanding": 1, "threshold_ns": SECOND}
    stall = {"at_ns": at - 3 * SECOND, "kind": "stall.began", "connection": 0, **began}
    analysis = told_of(tmp_path, stall, {**explained(0, at, "unknown", ["a fact"], **more), "about": "stall"})
    (finding,) = [f for f in analysis.findings if f.kind == "stall"]
    assert (finding.cause, finding.confidence) == ("unknown", "low")
    told = render.statement(finding)
    assert told.endswith("why is not known: the path was down or the reflector did not run")


@pytest.mark.parametrize(
    ("verdict", "direction", "words"),
    [
        ("path_down", "return", "the path was down on the way back"),
        ("path_down", None, "the path was down"),
        ("flow_forgotten", "forward", "something on the way forgot the flow"),
    ],
)
def test_known_loss_direction_is_named(tmp_path, verdict, direction, words):
    at = START + 100 * SECOND
    more = {} if direction is None else {"direction": direction}
    end = closed(0, at, 100 * SECOND, outstanding=3)
    analysis = told_of(tmp_path, end, explained(0, at, verdict, ["a fact"], **more))
    (death,) = [f for f in analysis.findings if f.kind == "death"]
    assert render.statement(death).endswith(f": {words}")


@pytest.mark.parametrize("ended", [True, False])
def test_late_echoes_are_delay_not_loss(tmp_path, ended):
    at = START + 100 * SECOND
    began = {"seq": 100, "rtt_ns": SECOND, "threshold_ns": SECOND // 5}
    over = {"duration_ns": 6 * SECOND, "samples": 5, "most_ns": 3 * SECOND, "confidence": "high"}
    ways = {"forward_ns": SECOND // 50, "back_ns": 29 * SECOND // 10, "direction": "return"}
    events = [{"at_ns": at, "kind": "delay.began", "connection": 0, **began}]
    if ended:
        told = {"kind": "delay.ended", "connection": 0, "verdict": "delayed", **over, **ways}
        events.append({"at_ns": at + 10 * SECOND, **told})
    analysis = told_of(tmp_path, *events)
    (delay,) = [f for f in analysis.findings if f.kind == "delay"]
    assert (delay.cause, delay.confidence) == ("delayed", "high" if ended else "medium")
    assert delay.from_ns == at - SECOND
    said = render.statement(delay)
    assert said.startswith("path: connection 0 was slow ")
    if ended:
        assert delay.to_ns == at + 5 * SECOND
        assert said.endswith("5 echoes took up to 3.00 s, a queue or a slower path on the way back")
        (evidence,) = render.evidence(delay)
        assert evidence.endswith("late by 20.0 ms on the way there and by 2.90 s back")
    (incident,) = [i for i in analysis.incidents if delay.id in {f.id for f in i.parts}]
    assert (incident.kind, incident.toll.silent_ns, incident.toll.lost) == ("delay", 0, 0)
