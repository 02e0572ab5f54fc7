"""What explains a thing is as large as it: no cut is a pause of 26 ms, no stall's echoes are a level."""

import numpy as np
import pytest

from fathometer.dataset import open_recordings
from fathometer.findings import render
from fathometer.findings.analyse import analyse
from fathometer.findings.weight import covers
from fathometer.findings.words import is_far
from support.ends import opened
from support.recordings import START, lognormal_ns, write

SECOND, MS = 1_000_000_000, 1_000_000


def pause(at_ns, length_ns, host="local", reason="host_scheduling"):
    return {"at_ns": at_ns, "kind": "pause", "host": host, "duration_ns": length_ns, "reason": reason}


def stalled(from_ns, to_ns, samples, threshold_ns=200 * MS):
    began = {"seq": 1, "outstanding": 3, "threshold_ns": threshold_ns}
    ended = {"duration_ns": to_ns - from_ns, "samples": samples, "recovered": True}
    return [
        {"at_ns": from_ns + threshold_ns, "kind": "stall.began", "connection": 0, **began},
        {"at_ns": to_ns, "kind": "stall.ended", "connection": 0, **ended},
    ]


def test_what_a_pause_may_be_all_of():
    assert covers(3 * SECOND, 3 * SECOND)
    # Retransmissions at times that double: the last but one just before the host ran again.
    assert covers(3 * SECOND, 6.3 * SECOND)
    assert not covers(26 * MS, SECOND // 2)
    assert not covers(120 * MS, 20 * SECOND)


def cut(tmp_path, pause_ns, length_s=20):
    """A path of 20 us at 100/s that was cut for so long, while this host did not run for a moment of it."""
    every = 10 * MS
    first, last = 3_000, 3_000 + length_s * 100
    rtt = lognormal_ns(1, 6_000, 20, 0.05)
    # What was sent meanwhile came back at its end.
    rtt[first:last] = (last - np.arange(first, last)) * every
    at = START + first * every
    events = [opened(0, START), *stalled(at, START + last * every, last - first)]
    events.append(pause(at + pause_ns + SECOND, pause_ns))
    write(tmp_path / "r", rtt, events=events, interval_ns=every)
    return analyse(open_recordings([tmp_path]))


@pytest.mark.parametrize(
    ("pause_ns", "cut_s", "kind", "cause"),
    [
        (26 * MS, 20, "stall", "unknown"),
        (120 * MS, 20, "stall", "unknown"),
        (2 * SECOND, 20, "stall", "unknown"),
        (3 * SECOND, 4, "standstill", "local_paused"),
    ],
)
def test_only_a_pause_covering_the_cut_explains_it(tmp_path, pause_ns, cut_s, kind, cause):
    analysis = cut(tmp_path, pause_ns, cut_s)
    (incident,) = analysis.incidents
    assert (incident.kind, incident.cause) == (kind, cause)
    explained = cause != "unknown"
    assert ("host" in incident.remedies) == explained
    if not explained:
        assert incident.toll.silent_ns == cut_s * SECOND
        assert "did not run" not in render.incident(incident)
        blamed = [f for f in analysis.findings if f.cause in {"local_paused", "busy host"}]
        assert {f.kind for f in blamed} <= {"pause"}


def test_stall_echoes_are_not_a_level_change(tmp_path):
    """It said that the level rose 23,100 times."""
    analysis = cut(tmp_path, 26 * MS)
    assert [f for f in analysis.findings if f.kind in {"change", "burst", "restless"}] == []
    assert [i.toll.added_ns for i in analysis.incidents] == [0]


def test_of_a_recording_known_by_its_steps_too(tmp_path, monkeypatch):
    from fathometer.findings import shifts

    monkeypatch.setattr(shifts, "RAW", 1_000)
    analysis = cut(tmp_path, 26 * MS)
    assert [f for f in analysis.findings if f.kind in {"change", "burst", "restless"}] == []


def shifted(tmp_path, before_us, after_us, events=()):
    rtt = np.concatenate([lognormal_ns(1, 1_000, before_us, 0.05), lognormal_ns(2, 1_000, after_us, 0.05)])
    write(tmp_path / "r", rtt, events=[opened(0, START), *events])
    (change,) = (f for f in analyse(open_recordings([tmp_path])).findings if f.kind == "change")
    return render.statement(change)


def test_level_change_across_outage_shows_both_levels(tmp_path):
    at = START + 1_000 * SECOND
    told = shifted(tmp_path, 500, 900, stalled(at - 5 * SECOND, at, 5))
    assert "the level went from 499 µs to 899 µs" in told
    assert "times" not in told
    assert "%" not in told


def test_plain_level_change_shows_relative_size(tmp_path):
    assert "the level rose 8" in shifted(tmp_path, 500, 900)


def test_huge_ratio_is_shown_as_levels(tmp_path):
    told = shifted(tmp_path, 20, 460_000)
    assert "the level went from 20.0 µs to 459 ms" in told
    assert "times" not in told
    assert is_far(1, 101)
    assert is_far(101, 1)
    assert not is_far(1, 100)


@pytest.mark.parametrize(("length_ns", "explains"), [(26 * MS, False), (800 * MS, True)])
def test_only_long_pause_explains_level_change(tmp_path, length_ns, explains):
    told = shifted(tmp_path, 500, 900, [pause(START + 1_000 * SECOND, length_ns)])
    assert ("this host was paused" in told) == ("paused" in told) == explains


@pytest.mark.parametrize(("length_ns", "cause"), [(4 * MS, "unknown"), (40 * MS, "busy host")])
def test_only_long_pauses_explain_restless_period(tmp_path, length_ns, cause):
    rng = np.random.default_rng(3)
    level = np.full(4_000, 1_000.0)
    events = [opened(0, START)]
    for k in range(6):
        begin = 2_000 + 6 * k
        if k % 2 == 0:
            level[begin : begin + 6] = 30_000.0
        events.append(pause(START + begin * SECOND, length_ns))
    rtt = np.round(level * 1e3 * np.exp(0.02 * rng.standard_normal(4_000))).astype(np.int64)
    write(tmp_path / "r", rtt, events=events)
    analysis = analyse(open_recordings([tmp_path]))
    (restless,) = (f for f in analysis.findings if f.kind == "restless")
    assert restless.cause == cause
    assert ("busy host" in render.statement(restless)) == (cause == "busy host")
