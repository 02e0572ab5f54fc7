"""Short series: known steps, laws, and silence on noise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fathometer.stats.changes import examine, find_changes
from stats.changes.series import BASE, noise


def steps(lengths: list[int], levels: list[float], seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.concatenate(
        [level + rng.standard_t(4, n) * 0.001 * BASE for n, level in zip(lengths, levels, strict=True)]
    )


lengths = st.lists(st.integers(40, 200), min_size=2, max_size=5)


@st.composite
def stepped(draw):
    """A series of clear steps (5 to 40 %) and the indices at which they begin."""
    parts = draw(lengths)
    levels = [BASE]
    for _ in parts[1:]:
        factor = 1 + draw(st.floats(0.05, 0.4))
        levels.append(levels[-1] * factor if draw(st.booleans()) else levels[-1] / factor)
    return steps(parts, levels, draw(st.integers(0, 1000))), [int(i) for i in np.cumsum(parts)[:-1]]


@settings(max_examples=40, deadline=None)
@given(stepped())
def test_clear_steps_are_found_exactly(case):
    rtt, truth = case
    assert [change.index for change in find_changes(rtt)] == truth


@settings(max_examples=25, deadline=None)
@given(stepped(), st.sampled_from([1e-6, 0.5, 3.0, 1000.0]))
def test_the_unit_does_not_matter(case, unit):
    rtt, _ = case
    ours, scaled = find_changes(rtt), find_changes(rtt * unit)
    assert [c.index for c in scaled] == [c.index for c in ours]
    assert [c.after_ns for c in scaled] == pytest.approx([c.after_ns * unit for c in ours])
    assert [c.confidence for c in scaled] == pytest.approx([c.confidence for c in ours])


@settings(max_examples=25, deadline=None)
@given(stepped())
def test_constant_offset_moves_levels_only(case):
    rtt, _ = case
    ours, moved = find_changes(rtt), find_changes(rtt + BASE / 4)
    assert [c.index for c in moved] == [c.index for c in ours]
    assert [c.before_ns for c in moved] == pytest.approx([c.before_ns + BASE / 4 for c in ours])


@settings(max_examples=25, deadline=None)
@given(stepped())
def test_reversed_series_has_mirrored_changes(case):
    rtt, _ = case
    ours, back = find_changes(rtt), find_changes(rtt[::-1])
    assert [len(rtt) - c.index for c in reversed(back)] == [c.index for c in ours]
    assert [c.after_ns for c in reversed(back)] == [c.before_ns for c in ours]


@settings(max_examples=25, deadline=None)
@given(stepped(), st.integers(0, 1000))
def test_unanswered_samples_shift_the_index_and_nothing_else(case, seed):
    rtt, _ = case
    answered = np.random.default_rng(seed).random(len(rtt) + 50) < 0.9
    answered[np.flatnonzero(~answered)[: max(0, len(rtt) - answered.sum())]] = True
    places = np.flatnonzero(answered)[: len(rtt)]
    holes = np.full(places[-1] + 1, np.nan)
    holes[places] = rtt
    at_ns = np.arange(len(holes)) * 1_000_000_000
    found = find_changes(holes, at_ns=at_ns)
    assert [c.index for c in found] == [places[c.index] for c in find_changes(rtt)]
    assert [c.at_ns for c in found] == [c.index * 1_000_000_000 for c in found]


@pytest.mark.parametrize(("count", "series"), [(1000, 30), (5000, 8)])
@pytest.mark.parametrize("correlation", [0.0, 0.9])
def test_no_change_in_correlated_noise_with_spikes(count, series, correlation):
    alarms = [bool(find_changes(noise(count, seed, correlation))) for seed in range(series)]
    # At a true rate of 1 % a series, two of 30 happen by chance in 3.6 % of runs; the seeds are fixed.
    assert sum(alarms) <= 1


@pytest.mark.parametrize("shape", ["constant", "rounded", "one step of a rounded clock"])
def test_series_of_few_values(shape):
    rng = np.random.default_rng(3)
    rtt = np.full(400, 5e6)
    if shape == "rounded":
        rtt = np.round(5 + rng.normal(size=400) * 0.2) * 1e6
        assert find_changes(rtt) == ()
    elif shape == "constant":
        assert find_changes(rtt) == ()
    else:
        rtt[250:] = 6e6
        rtt[rng.random(400) < 0.05] += 1e5
        (change,) = find_changes(rtt)
        assert (change.index, change.before_ns, change.after_ns) == (250, 5e6, 6e6)


def test_brief_ramp_is_one_change():
    rtt = steps([200, 200], [BASE, 1.3 * BASE], 2)
    rtt[197:203] = np.linspace(1.02, 1.28, 6) * BASE
    rtt[80] = 50 * BASE
    (change,) = find_changes(rtt)
    assert abs(change.index - 200) <= 3


def test_integers_and_floats_alike():
    rtt = steps([100, 100], [BASE, 1.2 * BASE], 4).round()
    assert find_changes(rtt.astype(np.int64)) == find_changes(rtt)


def test_too_few_samples_are_undecided_not_unchanged():
    result = examine(np.array([1e6, np.nan, 2e6, 1e6]))
    assert result.changes == ()
    assert [u.kind for u in result.undecided] == ["level", "tail"]
    assert "3 answered samples; 8 are needed" in result.undecided[0].reason
    assert find_changes(np.array([])) == ()


def test_tails_of_a_short_series_are_undecided():
    (undecided,) = examine(noise(5000, 1)).undecided
    assert (undecided.kind, undecided.events, undecided.needed) == ("tail", 50, 100)
    assert "too few tail events" in undecided.reason


def test_times_of_another_length_are_refused():
    with pytest.raises(ValueError, match="10 round trips, but 9 times"):
        find_changes(np.ones(10), at_ns=np.arange(9))


def test_large_lasting_change_has_higher_confidence():
    rtt = steps([200, 30, 200, 200], [BASE, 1.02 * BASE, BASE, 1.5 * BASE], 6)
    found = find_changes(rtt)
    assert [c.index for c in found] == [200, 230, 430]
    assert 0.5 <= found[0].confidence < found[2].confidence < 1


@settings(max_examples=150, deadline=None)
@given(
    st.integers(8, 120),
    st.lists(st.tuples(st.integers(0, 119), st.floats(0.01, 100)), min_size=1, max_size=2),
    st.sampled_from([0.0, 1e-4, 0.01]),
    st.integers(0, 1000),
)
def test_two_odd_samples_are_no_level(count, odd, spread, seed):
    """The first echo of a connection took twice as long: "the level fell 49.5 %"."""
    rtt = BASE * (1 + spread * np.random.default_rng(seed).standard_normal(count))
    usual = {c.index for c in find_changes(rtt)}
    for at, factor in odd:
        rtt[at % count] *= factor
    assert {c.index for c in find_changes(rtt)} <= usual


@pytest.mark.parametrize("at", [0, 1, 2, 57, 58, 59])
@pytest.mark.parametrize("samples", [1, 2, 3, 12])
def test_level_has_three_samples_at_least(at, samples):
    """At either end of a run as in its middle."""
    rtt = steps([60], [BASE], seed=7)
    first = min(at, 60 - samples)
    rtt[first : first + samples] *= 2
    told = [c.index for c in find_changes(rtt)]
    ends = [edge for edge in (first, first + samples) if 0 < edge < 60]
    for change in told:
        assert samples >= 3
        assert change in ends
    assert samples < 12 or told
