"""What advice counts: events, connections, and the work that this takes."""

import numpy as np
from hypothesis import given
from hypothesis import settings as of_hypothesis
from hypothesis import strategies as st

from fathometer import changes_command
from fathometer.dataset import open_recordings
from fathometer.findings import settings, shifts, values
from fathometer.findings.ageing import Life
from fathometer.findings.ageing import events as events_of
from fathometer.findings.model import Between
from fathometer.findings.scenarios import scenarios
from fathometer.stats import coincidence
from support.recordings import START, lognormal_ns, write

SECOND = 1_000_000_000


def test_deaths_two_nanoseconds_apart_are_one_event():
    """Events were cut out of five seconds by the clock: what lay on both sides of an edge was two."""
    edge = START // (5 * SECOND) * 5 * SECOND
    every = [
        Life("path", SECOND, edge - 1, True),
        Life("path", SECOND, edge + 60 * SECOND, True),
        Life("path", SECOND, edge + 1, True),
    ]
    lived = [Life("path", SECOND, edge, False)]
    one, other, same, apart = events_of(every + lived).tolist()
    assert one == same
    assert len({one, other, apart}) == 3


def test_five_stalls_of_one_connection_are_one_connection(tmp_path):
    events = []
    for at in (100, 200, 300, 400, 500):
        stalled = START + at * SECOND
        events += [
            {"at_ns": stalled, "connection": 0, "kind": "stall.began", "seq": at, "outstanding": 3}
            | {"threshold_ns": 300_000_000},
            {"at_ns": stalled + 4 * SECOND, "connection": 0, "kind": "stall.ended"}
            | {"duration_ns": 4 * SECOND, "samples": 4, "recovered": True},
        ]
    write(tmp_path / "r", lognormal_ns(1, 1_000), events=events)
    (advice,) = settings._timeout(settings._recovered(scenarios(open_recordings([tmp_path]))), told=False)
    assert advice.saves.value == 1


WAITS = st.lists(st.integers(1, 60_000), min_size=1, max_size=25)


@of_hypothesis(max_examples=60, derandomize=True, database=None)
@given(st.lists(WAITS, min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_timeout_advice_names_extreme_of_all_paths(stalls, random):
    """The advice used the path with most stalls, 404 ms, though another path recovered after 1.10 s."""
    waits = [
        settings._Wait(f"path {n}", Between(f"a{n}", "b"), (str(n), i), i * 60 * SECOND, ms * 1_000_000)
        for n, each in enumerate(stalls)
        for i, ms in enumerate(each)
    ]
    random.shuffle(waits)
    (advice,) = settings._timeout(waits, told=False)
    longest = max(ms for each in stalls for ms in each) * 1_000_000
    assert advice.quantities["longest"].value == longest
    assert advice.quantities["setting"].value >= 2 * longest
    # By itself, no path would ask for more than this.
    alone = [values.user_timeout([ms * 1_000_000 for ms in each]) for each in stalls]
    assert advice.quantities["setting"].value == max(alone)
    (margin,) = [fact for fact in advice.facts if fact.code == "longest stall"]
    assert margin.quantities["longest"].value == longest
    assert margin.quantities["times"].value == sum(map(len, stalls))


def test_a_thousand_lone_groups_are_no_thousand_searches(monkeypatch):
    """Groups of one event, which have no pair, were gone through in each of 1,999 trials: 19 s a report."""
    looked_through = []
    pairs = coincidence._pairs

    def watched(at, of, within_ns, several):
        looked_through.append(len(several))
        return pairs(at, of, within_ns, several)

    monkeypatch.setattr(coincidence, "TRIALS", 9)
    monkeypatch.setattr(coincidence, "_pairs", watched)
    group = np.append(np.arange(1_000), 7)
    at = START + np.arange(1_001) * 60 * SECOND
    assert coincidence.coincidence(at, group, 5 * SECOND).pairs == 0
    assert looked_through == [1] * 10


def test_changes_and_report_look_at_the_same_series(tmp_path, monkeypatch):
    """From 2 to 20 M samples one looked at each, and the other at medians: two answers to one question."""
    write(tmp_path / "r", lognormal_ns(1, 9_000))
    monkeypatch.setattr(shifts, "RAW", 5_000)
    (recording,) = open_recordings([tmp_path / "r"])
    (theirs,) = changes_command._recordings(str(tmp_path / "r"))
    assert len(theirs.rtt_ns) == len(shifts.series(recording)[0])
