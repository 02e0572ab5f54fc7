"""Issue 16, row 11: 60,000 stalls that never ended (18 MiB of events) took the report more than 90 s, and
`explain` 0.3 s: for each of them all were looked at.
"""

import time

import pytest

from fathometer.dataset import open_recordings
from fathometer.findings.analyse import analyse
from fathometer.report import write as writing
from support.recordings import START, lognormal_ns, write

SECOND = 1_000_000_000


def stalls(n):
    """That begin, on one connection, and never end."""
    return [
        {"kind": "stall.began", "connection": 0, "seq": i, "outstanding": 1, "threshold_ns": SECOND}
        for i in range(n)
    ]


def ended(n):
    """On connections of their own, each with an end that nobody saw begin."""
    return [
        {"kind": "stall.ended", "connection": i, "duration_ns": SECOND, "samples": 3, "recovered": i % 2 == 0}
        for i in range(n)
    ]


def deaths(n):
    """Each in a stall, of which its evidence says nothing."""
    return [
        event
        for i in range(n // 2)
        for event in (
            {"kind": "stall.began", "connection": i, "seq": 1, "outstanding": 1, "threshold_ns": SECOND},
            {"kind": "stall.ended", "connection": i, "duration_ns": SECOND, "samples": 1, "recovered": False},
            {
                "kind": "connection.closed",
                "connection": i,
                "cause": "reset",
                "age_ns": SECOND,
                "evidence": {},
            },
        )
    ]


def refusals(n):
    """Far apart, and no connection between them; before each an attempt."""
    return [
        event
        for i in range(n // 2)
        for event in (
            {"kind": "connection.opening", "connection": i, "target": "t", "remote": "r", "attempt": 1},
            {"kind": "connection.refused", "connection": i, "target": "t", "error": "refused", "errno": 111},
        )
    ]


def returns(n):
    """Attempts in vain, each followed by a connection, so that each is a row of its own."""
    opened = {"kind": "connection.opened", "target": "t", "local": "l", "remote": "r", "connect_ns": 1}
    refused = {"kind": "connection.refused", "target": "t", "error": "refused", "errno": 111}
    return [event | {"connection": i} for i in range(n // 2) for event in (refused, opened)]


KINDS = [stalls, ended, deaths, refusals, returns]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_analysis_cost_is_linear_in_events(kind, tmp_path):
    def cost(n):
        lines = kind(n)
        step = 100 * SECOND if kind in (refusals, returns) else SECOND // 10
        opened = {"kind": "connection.opened", "connection": 0, "target": "t", "local": "l", "remote": "r"}
        events = [opened | {"at_ns": START, "connect_ns": 1}]
        events += [event | {"at_ns": START + i * step} for i, event in enumerate(lines)]
        directory = write(tmp_path / str(n), lognormal_ns(1, 400), events=events)
        began = time.process_time()
        analysis = analyse(open_recordings([directory]))
        assert writing.as_text(analysis, "json")
        return time.process_time() - began

    cost(100)
    few, many = cost(2_000), cost(16_000)
    # Eight times as long is what they are; where one question held each against each other it was 16 times.
    assert many < 12 * few, (few, many)
