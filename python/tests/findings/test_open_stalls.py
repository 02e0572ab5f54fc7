"""A stall that was not over when the recording was: it cost nothing, as no event said how long it was."""

import numpy as np
import pytest

from fathometer.dataset import open_recordings
from fathometer.findings import render
from fathometer.findings.analyse import analyse
from support.ends import closed, opened
from support.recordings import START, UNANSWERED, lognormal_ns, write

SECOND = 1_000_000_000
SENT = 400
"""Samples, one a second; from the 300th on nothing is answered."""


def began(at, seq, connection=0):
    return {
        "at_ns": START + at * SECOND,
        "kind": "stall.began",
        "connection": connection,
        "seq": seq,
        "outstanding": 2,
        "threshold_ns": 2 * SECOND,
    }


def told(tmp_path, events, rtt, **more):
    write(tmp_path / "r", rtt, events=events, **more)
    analysis = analyse(open_recordings([tmp_path]))
    (incident,) = analysis.incidents
    (stall,) = (f for f in incident.parts if f.kind == "stall")
    return incident, stall


def silent_from(first):
    rtt = lognormal_ns(1, SENT)
    rtt[first:] = UNANSWERED
    return rtt


def test_open_stall_costs_unanswered_samples_until_end(tmp_path):
    """As a probe writes it whose run ends while the reflector is stopped."""
    over = START + 405 * SECOND
    facts = {"sent": SENT, "answered": 300, "outstanding": 100, "silent_ns": 106 * SECOND}
    events = [opened(0, START), began(302, 300), closed(0, over, 405 * SECOND, "finished", **facts)]
    incident, stall = told(tmp_path, events, silent_from(300))
    assert (incident.from_ns, incident.to_ns) == (START + 300 * SECOND, over)
    assert incident.toll.lost == 100
    assert incident.toll.silent_ns == incident.lasted_ns == 105 * SECOND
    assert stall.terms["end"] == "open"
    assert "stalled for 1 min 45 s, until the end" in render.statement(stall)
    assert render.cost(incident) == "100 samples lost and up to 1 min 45 s without an answer"
    assert "timeout" not in incident.remedies


@pytest.mark.parametrize("rolled_up", [False, True])
def test_killed_probe_stall_is_costed_from_samples(tmp_path, rolled_up):
    from fathometer.dataset.rollup_writer import write_rollups

    incident, _ = told(tmp_path, [opened(0, START), began(302, 300)], silent_from(300), ended=False)
    over = START + SENT * SECOND  # The last event: its segment was closed.
    assert (incident.toll.lost, incident.toll.silent_ns) == (100, over - START - 300 * SECOND)
    if rolled_up:
        (recording,) = open_recordings([tmp_path / "r"])
        write_rollups((recording,), (recording.rollup,), "local", tmp_path / "rollup")
        (incident,) = analyse(open_recordings([tmp_path / "rollup"])).incidents
        # Without samples, those that waited as it was called a stall are all that is known.
        assert (incident.toll.lost, incident.toll.silent_ns) == (2, over - START - 300 * SECOND)


CLOSED = closed(0, START + 400 * SECOND, 400 * SECOND, "finished", silent_ns=SECOND)


@pytest.mark.parametrize("more", [[], [CLOSED]], ids=["end is damaged", "close contradicts it"])
def test_open_stall_with_answers_costs_nothing(tmp_path, more):
    events = [opened(0, START), began(102, 100), *more]
    incident, stall = told(tmp_path, events, lognormal_ns(1, SENT), ended=bool(more))
    assert (incident.toll.lost, incident.toll.silent_ns) == (0, 0)
    assert more or "until the recording ended" in render.statement(stall)


def test_another_connection_that_answers_does_not_end_it(tmp_path):
    rtt = lognormal_ns(1, SENT)
    rtt[300::2] = UNANSWERED
    connection = np.arange(SENT, dtype=np.uint32) % 2
    events = [opened(0, START), opened(1, START), began(302, 300)]
    incident, _ = told(tmp_path, events, rtt, ended=False, connection=connection)
    assert (incident.toll.lost, incident.toll.silent_ns) == (50, 100 * SECOND)


def test_a_stall_that_was_over_costs_no_samples(tmp_path):
    over = {"duration_ns": 5 * SECOND, "samples": 5, "recovered": True}
    ended = {"at_ns": START + 105 * SECOND, "kind": "stall.ended", "connection": 0, **over}
    incident, _ = told(tmp_path, [opened(0, START), began(102, 100), ended], lognormal_ns(1, SENT))
    assert (incident.toll.lost, incident.toll.silent_ns) == (0, 5 * SECOND)
