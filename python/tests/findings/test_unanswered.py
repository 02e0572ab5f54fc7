"""Time without answers: of a path, over all its connections."""

import re

import numpy as np
import pytest

from fathometer.dataset import open_recordings
from fathometer.findings import render
from fathometer.findings.analyse import analyse
from fathometer.findings.words import duration
from fathometer.report import templates
from fathometer.report.page import Page
from support.ends import closed, explained, opened
from support.recordings import START, iso, lognormal_ns, write

SECOND = 1_000_000_000


def told(tmp_path, events, n=400):
    write(tmp_path / "r", lognormal_ns(1, n), events=events)
    analysis = analyse(open_recordings([tmp_path]))
    silent = [f for f in analysis.findings if f.kind == "without answers"]
    return (silent[0].quantities if silent else None), analysis.incidents


def test_attempts_in_vain_are_one_silence(tmp_path):
    """A reflector that went away for the last 20 s: 80 connections were opened to it, as UDP has it, and none
    answered. It was told as 81 silences, the longest of 0.1 s.
    """
    gone = START + 30 * SECOND
    events = [
        opened(0, START),
        closed(0, gone, 30 * SECOND, "unreachable", outstanding=1, silent_ns=SECOND // 50),
    ]
    for i in range(1, 81):
        at = gone + i * SECOND // 4
        events += [
            opened(i, at - SECOND // 10),
            closed(i, at, SECOND // 10, "unreachable", sent=1, answered=0, outstanding=1),
        ]
    quantities, incidents = told(tmp_path, events, 51)
    assert quantities["times"].value == 1
    assert 20 * SECOND <= quantities["longest"].value <= 22 * SECOND
    assert quantities["total"].value == quantities["longest"].value
    assert max(i.toll.silent_ns for i in incidents) == quantities["longest"].value
    # No more than 50 are told one by one; it said "50 connections ended".
    assert sum(i.toll.connections for i in incidents) == 81
    assert sum(i.toll.lost for i in incidents) == 81


def test_an_outage_to_the_end_has_its_length(tmp_path):
    """A path that had no connection for 3 h 20 min was without answers for 6.40 s."""
    events = [
        opened(0, START),
        closed(0, START + 100 * SECOND, 100 * SECOND, outstanding=6, silent_ns=6 * SECOND),
        {"at_ns": START + 12_000 * SECOND, "kind": "note", "text": "it goes on"},
    ]
    quantities, incidents = told(tmp_path, events, 100)
    assert quantities["longest"].value == pytest.approx(11_906 * SECOND)
    assert quantities["share"].value == pytest.approx(11_906 / 12_000)
    assert max(i.toll.silent_ns for i in incidents) == quantities["longest"].value


def test_a_recovery_makes_no_outage_longer(tmp_path):
    """A probe was killed 6 s into an outage, and its recording recovered 45 s later: the outage had lasted
    51 s, and the advice was to retry for as long. What recovery writes bears the time of recovery.
    """
    gone, recovered = START + 100 * SECOND, START + 3_700 * SECOND
    outage = [
        opened(0, START),
        closed(0, gone, 100 * SECOND, outstanding=1, silent_ns=SECOND),
        {"at_ns": gone + 6 * SECOND, "kind": "note", "text": "it goes on"},
    ]
    recovery = [
        {
            "at_ns": recovered,
            "kind": "segment.closed",
            "file": "samples-00001.parquet",
            "rows": 0,
            "bytes": 1,
            "crc32": 1,
        },
        {"at_ns": recovered, "kind": "recording.overflowed", "lost": 3, "reason": "crash", "connection": 0},
        {"at_ns": recovered, "kind": "recording.recovered", "rows": 100, "torn_bytes": 0},
    ]
    write(tmp_path / "r", lognormal_ns(1, 100), events=[*outage, *recovery])
    [recording] = open_recordings([tmp_path])
    assert recording.over_ns == gone + 6 * SECOND
    found = [f for f in analyse([recording]).findings if f.kind == "without answers"]
    assert found[0].quantities["longest"].value == 7 * SECOND


def failed(*seconds):
    """Attempts that were refused."""
    both = {"target": "t", "remote": "192.0.2.7:7"}
    kinds = {"connection.opening": {}, "connection.refused": {"error": "refused", "errno": 111}}
    return [
        {"at_ns": START + at * SECOND, "kind": kind, **both, **more}
        for at in seconds
        for kind, more in kinds.items()
    ]


@pytest.mark.parametrize(
    ("before", "connected", "after", "rows"),
    [
        ((0, 2), 5, (), [(2, 0, 5)]),
        # The recording ends 11 s after its start.
        ((0, 5), None, (), [(2, 0, 5)]),
        # Two rows until the same connection would count the same time twice.
        ((0, 120, 360), 400, (600,), [(3, 0, 400), (1, 600, 600)]),
    ],
    ids=["until connected", "until the last attempt", "one row until connected"],
)
def test_failed_attempts_last_until_connection(tmp_path, before, connected, after, rows):
    made = [] if connected is None else [opened(0, START + connected * SECOND)]
    write(
        tmp_path / "r",
        lognormal_ns(1, 0 if connected is None else 10),
        start_ns=START + (connected or 0) * SECOND,
        events=[*failed(*before), *made, *failed(*after)],
        manifest={"ended_at": iso(START + 11 * SECOND)} if connected is None else (),
    )
    found = [f for f in analyse(open_recordings([tmp_path])).findings if f.kind == "refused"]
    told = [(f.quantities["attempts"].value, f.from_ns, f.to_ns) for f in found]
    assert told == [(n, START + begin * SECOND, START + end * SECOND) for n, begin, end in rows]


def test_path_with_answering_connection_is_not_silent(tmp_path):
    events = [
        opened(0, START),
        opened(1, START),
        closed(0, START + 100 * SECOND, 100 * SECOND, outstanding=50, silent_ns=50 * SECOND),
        closed(1, START + 399 * SECOND, 399 * SECOND, "finished"),
    ]
    assert told(tmp_path, events)[0] is None


def test_a_connection_that_answers_ends_the_silence(tmp_path):
    events = [
        opened(0, START),
        closed(0, START + 100 * SECOND, 100 * SECOND, outstanding=5, silent_ns=5 * SECOND),
        opened(1, START + 103 * SECOND),
        closed(1, START + 399 * SECOND, 296 * SECOND, "finished"),
    ]
    quantities, _ = told(tmp_path, events)
    assert quantities["longest"].value == 8 * SECOND
    assert quantities["times"].value == 1


def test_outage_length_is_its_unanswered_time(tmp_path):
    """A reflector was gone for 4.1 s, and each datagram that was tried meanwhile refused at once; three
    seconds later the level moved for a moment, which is of the same incident. Its head said 7.45 s, and the
    advice was to retry for as long.
    """
    gone, back = START + 100 * SECOND, START + 104 * SECOND + SECOND // 10
    dies = {"cause": "unreachable", "outstanding": 1}
    silent = SECOND // 50
    events = [opened(0, START), closed(0, gone, 100 * SECOND, silent_ns=silent, **dies)]
    events.append(explained(0, gone, "peer_down", ["nobody there"]))
    for i, after in enumerate((60, 140, 370, 690, 2050), 1):
        at = gone + after * SECOND // 1000
        events += [opened(i, at - SECOND // 100), closed(i, at, SECOND // 100, answered=0, sent=1, **dies)]
        events.append(explained(i, at, "peer_down", ["nobody there"]))
    events += [opened(6, back), closed(6, START + 400 * SECOND, START + 400 * SECOND - back, "finished")]
    unsent = {"skipped": 41, "behind_ns": back - gone, "reason": "unconnected"}
    events.append({"at_ns": back, "kind": "schedule.overrun", **unsent})
    rtt = lognormal_ns(1, 4_000, 1000, 0.02)
    rtt[1_029:1_049] *= 3
    # While it was gone nothing was sent.
    sent = {"sent_ns": lambda seq: START + np.where(seq < 1_000, seq, seq + 41) * SECOND // 10}
    write(tmp_path / "r", rtt, events=events, interval_ns=SECOND // 10, columns=sent)
    analysis = analyse(open_recordings([tmp_path]))
    (incident,) = [i for i in analysis.incidents if i.kind == "outage"]
    assert {f.kind for f in incident.parts} >= {"death", "schedule.overrun", "burst"}
    assert incident.lasted_ns == back - gone + silent
    assert incident.to_ns - incident.from_ns > incident.lasted_ns + SECOND
    told = duration(incident.lasted_ns)
    assert told == "4.12 s"
    assert f", for {told}: " in render.what(incident)
    page = templates.html(Page("", analysis))
    (head,) = re.findall(r'<h3><span class="number">.*</h3>', page)
    assert f"UTC, {told}<" in head
    (advice,) = [a for a in analysis.advice if a.topic == "retry budget"]
    assert advice.quantities["longest"].value == incident.lasted_ns
    assert not [a for a in analysis.advice if a.topic == "reuse" and a.saves.value <= 0]


def test_opening_what_has_no_handshake_saves_nothing(tmp_path):
    """Of datagrams: "keep connections open: each that need not be made saves 0 ns"."""
    events = []
    for i in range(8):
        at = START + i * 10 * SECOND
        events += [opened(i, at) | {"connect_ns": 0}, closed(i, at + 9 * SECOND, 9 * SECOND, "refreshed")]
    write(tmp_path / "r", lognormal_ns(1, 400), events=events)
    assert not [a for a in analyse(open_recordings([tmp_path])).advice if a.topic == "reuse"]
