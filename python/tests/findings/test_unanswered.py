"""Time without answers: of a path, over all its connections."""

import pytest

from fathometer.dataset import open_recordings
from fathometer.findings.analyse import analyse
from support.ends import closed, opened
from support.recordings import START, lognormal_ns, write

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
        {"at_ns": START + 12_000 * SECOND, "kind": "clock.stepped", "step_ns": 1},
    ]
    quantities, incidents = told(tmp_path, events, 100)
    assert quantities["longest"].value == pytest.approx(11_906 * SECOND)
    assert quantities["share"].value == pytest.approx(11_906 / 12_000)
    assert max(i.toll.silent_ns for i in incidents) == quantities["longest"].value


def test_while_another_connection_answers_the_path_is_not_silent(tmp_path):
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
