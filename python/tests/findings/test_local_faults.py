"""Failures in this host are reported as its own, and lower no availability. Hanging attempts are reported
while they hang.
"""

import pytest

from fathometer.dataset import open_recordings
from fathometer.findings import render
from fathometer.findings.analyse import analyse
from support.ends import closed, explained, opened
from support.recordings import START, UNANSWERED, lognormal_ns, write

SECOND = 1_000_000_000


def tried(at, local):
    both = {"at_ns": START + at * SECOND, "kind": "connection.refused", "target": "t", "error": "no port"}
    return both | ({"local": True, "errno": 99} if local else {"errno": 111})


def unsent(at, reason):
    return {
        "at_ns": START + at * SECOND,
        "kind": "schedule.overrun",
        "skipped": 10,
        "behind_ns": SECOND,
        "reason": reason,
    }


@pytest.mark.parametrize("local", [True, False])
def test_missing_ports_lower_no_availability(tmp_path, local):
    events = [*(tried(at, local) for at in range(40, 50)), unsent(50, "local" if local else "unconnected")]
    write(tmp_path / "r", lognormal_ns(1, 40), mode="connect", size=0, events=events)
    analysis = analyse(open_recordings([tmp_path]))
    assert analysis.scenarios[0].availability == (1 if local else 0.8)
    (incident,) = [i for i in analysis.incidents if any(f.kind == "refused" for f in i.parts)]
    assert incident.kind == ("local fault" if local else "outage")
    assert ("fault of this host" in render.incident(incident)) == local
    assert any("the target was not at fault" in text for text in render.remedies(incident)) == local
    assert ("retry budget" in {a.topic for a in analysis.advice}) == (not local)


@pytest.mark.parametrize(
    ("verdict", "availability"), [("local", 1), ("local_paused", 1), ("path_down", 0.75), ("unknown", 0.75)]
)
def test_samples_lost_here_lower_no_availability(tmp_path, verdict, availability):
    rtt = lognormal_ns(1, 40)
    rtt[20:30] = UNANSWERED
    at = START + 30 * SECOND
    events = [
        opened(0, START),
        closed(0, at, 30 * SECOND, sent=30, answered=20, outstanding=10, silent_ns=10 * SECOND),
        explained(0, at, verdict, ["seen"], confidence="high"),
        opened(1, at),
    ]
    write(tmp_path / "r", rtt, events=events)
    assert analyse(open_recordings([tmp_path])).scenarios[0].availability == availability


def test_local_and_remote_failures_stay_apart(tmp_path):
    events = [tried(at, local) for at, local in [(1, True), (2, True), (3, False), (4, True)]]
    write(tmp_path / "r", lognormal_ns(1, 10), mode="connect", size=0, events=events)
    found = [f for f in analyse(open_recordings([tmp_path])).findings if f.kind == "refused"]
    assert [(f.cause, f.quantities["attempts"].value) for f in found] == [
        ("local", 2),
        (None, 1),
        ("local", 1),
    ]


def test_hanging_attempts_last_until_next_connection(tmp_path):
    """Each attempt was answered in the end, so the report had no outage."""
    hang = {
        "kind": "connection.unanswered",
        "target": "t",
        "remote": "192.0.2.7:7",
        "latest_waited_ns": SECOND,
    }
    events = [
        opened(0, START),
        {"at_ns": START + 12 * SECOND, "attempts": 2, "waited_ns": 2 * SECOND, **hang},
        {"at_ns": START + 18 * SECOND, "attempts": 8, "waited_ns": 8 * SECOND, **hang},
        opened(1, START + 19 * SECOND),
    ]
    write(tmp_path / "r", lognormal_ns(1, 60), mode="connect", size=0, events=events)
    (found,) = [f for f in analyse(open_recordings([tmp_path])).findings if f.kind == "refused"]
    assert (found.from_ns, found.to_ns) == (START + 10 * SECOND, START + 19 * SECOND)
    assert "8 attempts had no answer" in render.statement(found)


def test_late_failure_prolongs_no_outage(tmp_path):
    """A kernel gave up a silent address after two minutes, when other connections had been made."""
    hang = {
        "kind": "connection.unanswered",
        "target": "t",
        "remote": "192.0.2.7:7",
        "latest_waited_ns": SECOND,
    }
    late = {"kind": "connection.refused", "target": "t", "error": "timed out", "errno": 110}
    events = [
        opened(0, START),
        {"at_ns": START + 12 * SECOND, "attempts": 2, "waited_ns": 2 * SECOND, **hang},
        opened(1, START + 14 * SECOND),
        {"at_ns": START + 140 * SECOND, "waited_ns": 130 * SECOND, **late},
    ]
    write(tmp_path / "r", lognormal_ns(1, 200), mode="connect", size=0, events=events)
    (found,) = [f for f in analyse(open_recordings([tmp_path])).findings if f.kind == "refused"]
    assert (found.from_ns, found.to_ns) == (START + 10 * SECOND, START + 14 * SECOND)
    alone = [opened(0, START), opened(1, START + 14 * SECOND), events[-1]]
    write(tmp_path / "s", lognormal_ns(1, 200), mode="connect", size=0, events=alone)
    (found,) = [f for f in analyse(open_recordings([tmp_path / "s"])).findings if f.kind == "refused"]
    assert (found.from_ns, found.to_ns) == (START + 10 * SECOND, START + 14 * SECOND)
