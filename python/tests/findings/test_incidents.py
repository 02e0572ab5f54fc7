"""Findings folded into incidents: laws that hold for any findings, and the cases that made them necessary."""

import random
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fathometer.findings import render
from fathometer.findings.finding import Finding, Place, ns
from fathometer.findings.incidents import RULES, incidents, numbered, related
from support.found import SECOND, T0, death, overrun, pause, refused, shift, stall, whole

PATHS = st.sampled_from(["a", "b", "c"])
AT = st.integers(0, 900).map(lambda x: x / 3)
LENGTH = st.sampled_from([0.1, 0.5, 3.0, 20.0, 100.0])
EVENTS = st.lists(
    st.one_of(
        st.builds(pause, PATHS, AT, LENGTH, st.sampled_from(["local", "remote"])),
        st.builds(stall, PATHS, AT, LENGTH, st.integers(0, 3)),
        st.builds(
            death,
            PATHS,
            AT,
            LENGTH,
            st.integers(0, 3),
            st.sampled_from(["flow_forgotten", "path_down", "unknown", "idle_expired"]),
        ),
        st.builds(shift, PATHS, AT, st.sampled_from([1.0, 2.0]), st.sampled_from([0.0, 1.5, 3.0])),
        st.builds(overrun, PATHS, AT),
        st.builds(refused, PATHS, AT, LENGTH),
        st.builds(whole, PATHS),
    ),
    max_size=25,
)


@settings(max_examples=100, deadline=None)
@given(EVENTS)
def test_every_event_is_in_exactly_one_incident(findings):
    findings = numbered(findings)
    folded = incidents(findings)
    parts = [part.id for incident in folded for part in incident.parts]
    assert sorted(parts) == sorted(f.id for f in findings if f.is_event)
    for incident in folded:
        assert incident.from_ns == min(f.from_ns for f in incident.parts)
        assert incident.to_ns == max(max(f.to_ns, f.from_ns) for f in incident.parts)
        assert set(incident.paths) == {p.path for f in incident.parts for p in f.where}
        # What it cost is what its parts cost, each once.
        lost = sum(f.quantities["lost"].value for f in incident.parts if f.kind == "death")
        assert incident.toll.lost == lost
        assert incident.toll.connections == sum(f.kind == "death" for f in incident.parts)
        assert render.incident(incident)
        assert render.whom(incident)
        assert all(render.remedies(incident))


@settings(max_examples=100, deadline=None)
@given(EVENTS, st.integers(0, 2**32))
def test_the_order_of_findings_does_not_matter(findings, seed):
    shuffled = list(findings)
    random.Random(seed).shuffle(shuffled)
    assert incidents(shuffled) == incidents(findings)
    assert numbered(shuffled) == numbered(findings)


def test_simultaneous_pauses_fold_identically_in_any_order():
    """Two pauses of one moment and length, of either host: whichever came first gave its cause."""
    findings = [pause("a", 0), pause("b", 0, host="local"), pause("b", 0, host="remote")]
    (expected,) = incidents(findings)
    for order in permutations(findings):
        assert incidents(order) == (expected,)


@settings(max_examples=100, deadline=None)
@given(EVENTS)
def test_relation_between_findings_is_symmetric(findings):
    for a in findings[:6]:
        for b in findings[:6]:
            if a.is_event and b.is_event:
                assert related(a, b) == related(b, a)


def test_simultaneous_stalls_and_pauses_are_one_incident():
    (incident,) = incidents([pause("a", 0), pause("b", 0.1), stall("c", 0.2), stall("a", 0.1)])
    assert incident.kind == "standstill"
    assert incident.paths == ("a", "b", "c")
    assert incident.toll.silent_ns == 3 * SECOND
    assert "timeout" in incident.remedies


STOPPED = pause("a", 100, reason="stopped", host="local")
FOLDED = {
    "a minute apart": (
        [stall("a", 0), stall("b", 60), shift("c", 200)],
        ["standstill", "standstill", "shift"],
    ),
    "level change elsewhere": ([stall("a", 0), shift("b", 1)], ["standstill", "shift"]),
    "level change on the path": ([stall("a", 0), shift("a", 1)], ["standstill"]),
    "connection opened later": ([pause("a", 100), death("a", 220, age=50.0)], ["standstill", "flow loss"]),
    "stopped process": ([STOPPED, death("a", 220), death("b", 220)], ["standstill", "flow loss"]),
}


@pytest.mark.parametrize("case", FOLDED)
def test_findings_fold_into_their_incidents(case):
    findings, kinds = FOLDED[case]
    assert [i.kind for i in incidents(findings)] == kinds


def test_outage_includes_refusals_and_unsent_samples():
    parts = [death("a", 0, cause="path_down"), refused("a", 30), overrun("a", 30, 12)]
    (incident,) = incidents(parts)
    assert incident.kind == "outage"
    assert (incident.toll.lost, incident.toll.unsent, incident.toll.connections) == (30, 12, 1)
    assert "retry" in incident.remedies
    cost = render.cost(incident)
    assert (
        cost == "30 samples lost, 12 samples not sent, up to 30.0 s without an answer and 1 connection ended"
    )


def test_pause_then_flow_loss_is_not_migration():
    alone = [pause("a", 100), stall("a", 100), death("a", 220)]
    (incident,) = incidents(alone)
    assert (incident.kind, incident.confidence) == ("pause then loss", "low")
    assert "migrat" not in render.incident(incident)
    assert "a pause, then the flow was lost" in render.incident(incident).lower()


def test_standstill_time_ignores_earlier_shift():
    """On a busy machine the demo's incident began with a shift of another path, 2.6 s before the host stood
    still, and it said that the host had stood still then.
    """
    (incident,) = incidents([shift("b", 98), pause("a", 100), shift("a", 100.5), death("a", 220)])
    assert incident.from_ns == T0 + 98 * SECOND
    assert (incident.kind, incident.paths) == ("pause then loss", ("a", "b"))
    assert "stood still for 3.00 s at 2025-03-20 00:01:40" in render.incident(incident)


def test_slow_rtt_until_standstill_means_migration():
    parts = [shift("a", 40), pause("a", 100), death("a", 220)]
    (incident,) = incidents(parts)
    assert (incident.kind, incident.confidence) == ("migration", "medium")
    # A level that had fallen again before shows nothing of the kind.
    (incident,) = [i for i in incidents([*parts, shift("a", 90, 2.0, 1.0)]) if i.toll.connections]
    assert incident.kind == "pause then loss"


@pytest.mark.parametrize("cause", ["idle_expired", "path_down", "peer_down", "unknown"])
def test_unrelated_death_is_separate_from_standstill(cause):
    folded = incidents([pause("a", 100), death("a", 220, cause=cause)])
    assert folded[0].kind == "standstill"
    assert len(folded) == 2


def test_a_long_way_off_is_not_its_doing():
    assert len(incidents([pause("a", 0), death("a", 700)])) == 2
    assert len(incidents([pause("a", 0, 0.1), death("a", 120)])) == 2


def test_stolen_time_after_slow_rtt_is_migration():
    parts = [shift("a", 40), pause("a", 100, reason="steal", host="local"), death("a", 220)]
    (incident,) = incidents(parts)
    assert (incident.kind, incident.confidence) == ("migration", "high")
    assert incident.quantities["brownout"].value == 60 * SECOND
    told = render.incident(incident)
    assert told.startswith("This host was migrated live: it stood still for 3.00 s")
    assert "stolen" in told


def test_late_echoes_join_their_stall():
    late = Finding(
        "delay",
        (Place("a", "r-a", 0),),
        T0 + 102 * SECOND,
        T0 + 106 * SECOND,
        "delayed",
        "high",
        {"most": ns(2 * SECOND)},
        {"way": ""},
    )
    (incident,) = incidents([stall("a", 100), late])
    assert (incident.kind, incident.cause) == ("standstill", "peer_paused")
    (incident,) = incidents([late])
    assert (incident.kind, incident.cause) == ("delay", "delayed")


def test_every_rule_names_kinds_that_exist():
    from fathometer.findings.render.table import STATEMENTS

    for rule in RULES:
        assert rule.kinds | rule.others <= set(STATEMENTS)
