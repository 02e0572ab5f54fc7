"""Advice: who is preferred to whom, by what, and what a change saves, held against numpy."""

import numpy as np
import pytest

from fathometer.dataset import open_recordings
from fathometer.findings import render
from fathometer.findings.analyse import analyse
from support import queries
from support.ends import closed, explained, opened
from support.recordings import START, UNANSWERED, lognormal_ns, write

SECOND = 1_000_000_000


def path(directory, rtt, label, ends=("here", "there"), tags=()):
    start, to = ends
    manifest = {"path": {"from": start, "to": to, "via": None, "tags": dict(tags)}}
    write(directory / label, rtt, label=label, manifest=manifest, interval_ns=50_000_000)


def of(analysis, topic):
    return [a for a in analysis.advice if a.topic == topic]


def test_faster_of_two_paths_is_preferred(tmp_path):
    fast, slow = lognormal_ns(1, 4000, 600), lognormal_ns(2, 4000, 900)
    path(tmp_path, slow, "a-way")
    path(tmp_path, fast, "another")
    (advice,) = of(analyse(open_recordings([tmp_path])), "choice")
    assert advice.paths == ("another", "a-way")
    saved = np.quantile(slow, 0.99) - np.quantile(fast, 0.99)
    assert advice.saves.value == pytest.approx(saved, rel=0.02)
    assert advice.saves.unit == "ns"
    assert advice.saves.low <= saved <= advice.saves.high
    assert advice.quantities["ratio"].value == pytest.approx(
        np.quantile(slow, 0.99) / np.quantile(fast, 0.99), rel=0.02
    )
    told = render.advice(advice)
    assert told.startswith("prefer another to a-way: its p99 is 3")
    assert "% lower" in told


def test_how_labels_are_spelled_groups_nothing(tmp_path):
    """Two paths whose ends had nothing in common were compared because their names shared words."""
    path(tmp_path, lognormal_ns(1, 3000, 600), "cross-zone", ("a", "b"))
    path(tmp_path, lognormal_ns(2, 3000, 900), "cross-zone-lb", ("c", "d"))
    assert of(analyse(open_recordings([tmp_path])), "choice") == []


@pytest.mark.parametrize(("other", "grouped"), [({"nic": "off"}, True), ({"nic": "off", "zone": "2"}, False)])
def test_paths_differing_in_one_tag_are_compared(tmp_path, other, grouped):
    mine = {"nic": "on", "zone": "1"}
    path(tmp_path, lognormal_ns(1, 3000, 600), "x", ("a", "b"), mine)
    path(tmp_path, lognormal_ns(2, 3000, 900), "y", ("c", "d"), mine | other)
    assert bool(of(analyse(open_recordings([tmp_path])), "choice")) == grouped


def contradicting(directory):
    """One with the lower median, the other with the lower p99."""
    steady = lognormal_ns(1, 6000, 1200, 0.02)
    spiky = lognormal_ns(2, 6000, 1000, 0.02)
    spiky[np.random.default_rng(5).permutation(6000)[:200]] = 3_000_000
    path(directory, steady, "steady")
    path(directory, spiky, "spiky")
    return open_recordings([directory])


def test_contradicting_metrics_give_no_preference_by_default(tmp_path):
    """It said to prefer the path whose p99 was lower, although its median was 21 % higher."""
    recordings = contradicting(tmp_path)
    assert of(analyse(recordings), "choice") == []
    (advice,) = of(analyse(recordings, metric="p99"), "choice")
    assert advice.paths == ("steady", "spiky")
    assert 0 < advice.saves.low <= advice.saves.value <= advice.saves.high
    (advice,) = of(analyse(recordings, metric="p50"), "choice")
    assert advice.paths == ("spiky", "steady")
    assert 0 < advice.saves.low <= advice.saves.value <= advice.saves.high


def unanswered(rtt, which):
    lossy = rtt.copy()
    lossy[which] = UNANSWERED
    return lossy


def slow_at_times(rtt):
    """Half a second for eight in a thousand: too few to move p99, and the mean is four times higher."""
    slow = rtt.copy()
    slow[np.random.default_rng(4).random(len(slow)) < 0.008] = 500_000_000
    return slow


LOSSY = unanswered(lognormal_ns(1, 4000, 1000), np.random.default_rng(3).random(4000) < 0.3)
DEAD = unanswered(lognormal_ns(1, 4000, 1000), np.arange(4000) >= 1000)
CLEAN = lognormal_ns(2, 4000, 1300)
NOT_PREFERRED = {
    "loses 3 in 10": (LOSSY, CLEAN, None),
    "loses 3 in 10, by p99": (LOSSY, CLEAN, "p99"),
    "died": (DEAD, CLEAN, None),
    "died, by p99": (DEAD, CLEAN, "p99"),
    "higher mean": (slow_at_times(lognormal_ns(1, 20_000, 1000)), lognormal_ns(2, 20_000, 1200), None),
    "negligible difference": (lognormal_ns(1, 20_000, 1000, 0.01), lognormal_ns(2, 20_000, 1010, 0.01), None),
}


@pytest.mark.parametrize("why", NOT_PREFERRED)
def test_path_without_clear_advantage_is_not_preferred(tmp_path, why):
    fast, other, metric = NOT_PREFERRED[why]
    path(tmp_path, fast, "fast")
    path(tmp_path, other, "other")
    assert of(analyse(open_recordings([tmp_path]), metric=metric), "choice") == []


def test_minor_losses_are_listed_with_the_choice(tmp_path):
    path(tmp_path, unanswered(lognormal_ns(1, 4000, 1000), [77]), "fast")
    path(tmp_path, lognormal_ns(2, 4000, 1300), "slow")
    (advice,) = of(analyse(open_recordings([tmp_path])), "choice")
    assert advice.paths == ("fast", "slow")
    assert "fast: 1 of 4,000 samples not answered" in [render.fact(f) for f in advice.facts]


def test_batch_and_cache_savings_match_samples(tmp_path):
    near, far = lognormal_ns(1, 3000, 200), lognormal_ns(2, 3000, 5000)
    path(tmp_path, near, "near", ("a", "b"))
    path(tmp_path, far, "far", ("a", "c"))
    analysis = analyse(open_recordings([tmp_path]))
    (batch,) = of(analysis, "batch")
    assert batch.paths == ("far",)
    median = np.median(far)
    # Every ten in a row that were measured, on average.
    in_a_row = far.reshape(-1, 10).sum(axis=1).mean()
    assert batch.quantities["cost"].value == pytest.approx(in_a_row, rel=1e-6)
    assert batch.saves.value == pytest.approx(0.9 * in_a_row, rel=1e-6)
    assert batch.saves.low < 0.9 * in_a_row < batch.saves.high
    (cache,) = of(analysis, "cache")
    assert cache.paths == ("far",)
    assert cache.saves.value == pytest.approx(median, rel=0.01)


def test_slow_round_trips_count_in_batch_cost(tmp_path):
    """One in twenty takes ten times as long: two transactions in five meet one of them. Ten medians were
    told, two thirds of what ten took.
    """
    rtt = lognormal_ns(1, 6000, 2000)
    rtt[np.random.default_rng(2).random(len(rtt)) < 0.05] *= 10
    path(tmp_path, rtt, "far")
    (batch,) = of(analyse(open_recordings([tmp_path])), "batch")
    in_a_row = rtt.reshape(-1, 10).sum(axis=1).mean()
    assert batch.quantities["cost"].value == pytest.approx(in_a_row, rel=1e-6)
    assert in_a_row > 1.4 * 10 * np.median(rtt)


def test_single_outlier_lowers_batch_advice_confidence(tmp_path):
    """One of 5,000 took 30 s: "saves 67.5 ms (827 us to 401 ms), high confidence", at a median of 1.5 ms."""
    rtt = np.linspace(1e6, 2e6, 5000).astype(np.int64)
    np.random.default_rng(3).shuffle(rtt)
    path(tmp_path, rtt, "steady", ("a", "b"))
    rtt[2500] = 30 * SECOND
    path(tmp_path, rtt, "struck", ("a", "c"))
    sure = {batch.paths[0]: batch.confidence for batch in of(analyse(open_recordings([tmp_path])), "batch")}
    assert sure == {"steady": "high", "struck": "low"}


def test_class_threshold_decides_cache_advice(tmp_path):
    rtt = lognormal_ns(1, 3000, 1500)
    path(tmp_path, rtt, "one", ("a", "b"), {"class": "same-zone"})
    path(tmp_path, rtt, "two", ("c", "d"), {"class": "cross-zone"})
    (cache,) = of(analyse(open_recordings([tmp_path])), "cache")
    assert cache.paths == ("one",)
    assert cache.quantities["allowed"].value == 1_000_000


def test_reuse_saves_what_connections_took_to_make(tmp_path):
    events, made = [], []
    for i in range(9):
        made.append(3_000_000 + 100_000 * i)
        events.append(opened(i, START + i * SECOND) | {"connect_ns": made[-1]})
        end = START + i * SECOND + SECOND // 2
        events.append(closed(i, end, SECOND // 2, "finished", sent=1, answered=1))
    write(tmp_path / "r", lognormal_ns(1, 400), events=events)
    (reuse,) = of(analyse(open_recordings([tmp_path])), "reuse")
    assert reuse.saves.value == pytest.approx(np.median(made))
    assert reuse.saves.low <= np.median(made) <= reuse.saves.high
    assert "keep connections open" in render.advice(reuse)


@pytest.mark.parametrize("mode", ["connect", "tcp"])
def test_connections_beside_queries_are_none_to_keep(tmp_path, mode):
    """A report of databases alone said to keep connections open, by fathom's own set-ups (a stranger)."""
    for n in range(8):
        asked, at = [queries.sure(4 * queries.MS, queries.MS, 0)] * 30, START + n * 1000 * SECOND
        # Of a reflector's echoes, or `COM_PING`, one stays.
        events = [opened(0, at) | {"connect_ns": 3_000_000}] if mode == "tcp" else []
        queries.recording(tmp_path / f"r{n}", asked, start_ns=at, mode=mode, events=events)
    assert of(analyse(open_recordings([tmp_path])), "reuse") == []
    write(tmp_path / "probe", lognormal_ns(1, 400), mode="connect", label="elsewhere")
    (reuse,) = of(analyse(open_recordings([tmp_path])), "reuse")
    assert reuse.paths == ("elsewhere",)


def test_forgotten_flow_suggests_user_timeout(tmp_path):
    silent, at = 300 * SECOND, START + 390 * SECOND
    events = [
        opened(0, START),
        closed(0, at, 390 * SECOND, sent=390, answered=90, outstanding=300, silent_ns=silent),
        explained(0, at, "flow_forgotten", ["a fresh connection was answered"], confidence="medium"),
    ]
    write(tmp_path / "r", lognormal_ns(1, 400), events=events)
    analysis = analyse(open_recordings([tmp_path]))
    (advice,) = of(analysis, "user timeout")
    assert advice.quantities["setting"].value == 30 * SECOND
    assert advice.saves.value == 270 * SECOND
    assert advice.evidence == (analysis.incidents[0].id,)
    # Stalls of another path say nothing of how long this one's last: twenty short ones made it 5 s.
    stalls = []
    for n in range(20):
        began = START + (10 + 15 * n) * SECOND
        at_stall = {"connection": 0, "seq": 10 + 15 * n, "outstanding": 1, "threshold_ns": SECOND // 5}
        stalls += [
            {"at_ns": began, "kind": "stall.began", **at_stall},
            {"at_ns": began + SECOND // 2, "kind": "stall.ended", "connection": 0}
            | {"duration_ns": SECOND // 2, "samples": 1, "recovered": True},
        ]
    path = {"from": "a", "to": "b", "label": "other"}
    events = [opened(0, START), *stalls]
    write(tmp_path / "other", lognormal_ns(2, 400), label="other", events=events, manifest={"path": path})
    (advice,) = of(analyse(open_recordings([tmp_path])), "user timeout")
    assert advice.quantities["setting"].value == 30 * SECOND


def refused(at_ns):
    return {"at_ns": at_ns, "kind": "connection.refused", "target": "t", "error": "refused", "errno": 111}


def test_connect_mode_outage_at_end_has_length(tmp_path):
    """The advice was to retry for longer than 0 ns: the one attempt that failed was the last of the run."""
    rtt = lognormal_ns(1, 60)
    rtt[-1] = UNANSWERED
    events = [
        refused(START + 59 * SECOND),
        {"at_ns": START + 60 * SECOND, "kind": "schedule.ended", "due": 60},
    ]
    write(tmp_path / "r", rtt, mode="connect", size=0, events=events)
    (advice,) = of(analyse(open_recordings([tmp_path])), "retry budget")
    assert advice.quantities["longest"].value == SECOND
    assert "longer than 1.00 s" in render.advice(advice)
    assert "the longest of 1 outage lasted at least so long, and its end was not seen" in render.advice(
        advice
    )


@pytest.mark.parametrize("back", [True, False])
def test_unfinished_outage_length_is_a_minimum(tmp_path, back):
    """ "That is how long the longest lasted", of one that lasted as long as anybody looked."""
    gone = [
        opened(0, START),
        closed(0, START + 30 * SECOND, 30 * SECOND, cause="reset", sent=30, answered=30),
        refused(START + 41 * SECOND),
        refused(START + 48 * SECOND),
    ]
    again = [opened(1, START + 49 * SECOND)] if back else []
    events = [*gone, *again, {"at_ns": START + 60 * SECOND, "kind": "schedule.ended", "due": 60}]
    write(tmp_path / "r", lognormal_ns(1, 60 if back else 30), events=events)
    (advice,) = of(analyse(open_recordings([tmp_path])), "retry budget")
    assert ("at least so long" in render.advice(advice)) == (not back)
    assert ("that is how long" in render.advice(advice)) == back


def test_outage_at_end_lasts_until_schedule_ends(tmp_path):
    """Attempts grow rarer: after the last of them nothing came back either."""
    at = START + 30 * SECOND
    events = [
        opened(0, START),
        closed(0, at, 30 * SECOND, cause="reset", sent=30, answered=30),
        refused(at + SECOND),
        refused(at + 3 * SECOND),
        {"at_ns": at + 9 * SECOND, "kind": "schedule.ended", "due": 39},
    ]
    write(tmp_path / "r", lognormal_ns(1, 30), events=events)
    incidents = analyse(open_recordings([tmp_path])).incidents
    (incident,) = [i for i in incidents if any(f.kind == "refused" for f in i.parts)]
    assert incident.to_ns == at + 9 * SECOND


def test_placement_is_grouped_by_class_and_last(tmp_path):
    for i, median in enumerate((200, 300, 5000)):
        path(tmp_path, lognormal_ns(i, 3000, median), f"p{i}", ("a", f"b{i}"))
    analysis = analyse(open_recordings([tmp_path]))
    assert [set(a.paths) for a in of(analysis, "placement")] == [{"p0", "p1"}, {"p2"}]
    order = [a.actionable for a in analysis.advice]
    assert order == sorted(order, reverse=True)
    assert all(a.evidence for a in analysis.advice)
