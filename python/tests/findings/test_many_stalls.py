"""Issue 16, row 11: 60,000 stalls that never ended (18 MiB of events) took the report more than 90 s, and
`explain` 0.3 s: for each of them all were looked at.
"""

import sys
import time
from pathlib import Path

import pytest

import fathometer
from fathometer.dataset import open_recordings
from fathometer.findings.analyse import analyse
from fathometer.report import write as writing
from support.rate import assert_rate
from support.recordings import START, lognormal_ns, write

SECOND = 1_000_000_000
OURS = str(Path(fathometer.__file__).parent)


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
EACH_KIND = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


def analysed(directory, kind, n):
    lines = kind(n)
    step = 100 * SECOND if kind in (refusals, returns) else SECOND // 10
    opened = {"kind": "connection.opened", "connection": 0, "target": "t", "local": "l", "remote": "r"}
    events = [opened | {"at_ns": START, "connect_ns": 1}]
    events += [event | {"at_ns": START + i * step} for i, event in enumerate(lines)]
    recordings = open_recordings([write(directory / str(n), lognormal_ns(1, 400), events=events)])
    assert writing.as_text(analyse(recordings), "json")


def lines_of(work):
    """The number of lines of ours that run."""
    number, before = 0, sys.gettrace()

    def of_line(_frame, event, _argument):
        nonlocal number
        number += event == "line"
        return of_line

    def of_call(frame, _event, _argument):
        return of_line if OURS in frame.f_code.co_filename else None

    sys.settrace(of_call)
    try:
        work()
    finally:
        sys.settrace(before)
    return number


@EACH_KIND
def test_analysis_steps_are_linear_in_events(kind, tmp_path):
    """An event more costs the same among few and among many."""
    analysed(tmp_path, kind, 50)
    at = [lines_of(lambda n=n: analysed(tmp_path, kind, n)) for n in (100, 200, 400)]
    assert at[2] - at[1] < 2.1 * (at[1] - at[0]), at


@pytest.mark.acceptance
@EACH_KIND
def test_analysis_time_is_linear_in_events(kind, tmp_path):
    """Also what runs within one line of ours."""

    def cost(directory, n):
        began = time.process_time()
        analysed(directory, kind, n)
        return time.process_time() - began

    runs = iter(range(3))

    def measured():
        directory = tmp_path / str(next(runs))
        cost(directory, 100)
        few, many = cost(directory, 1_000), cost(directory, 8_000)
        # Linear is eight times as long; one question held each event against each other: 16 times.
        assert many < 12 * few, (few, many)

    assert_rate(2, 3, measured)
