"""Lengths in a recording whose wall clock was set."""

from __future__ import annotations

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from fathometer.dataset.wall import elapsed_ns, lasted_ns, stretches

SECOND = 1_000_000_000
START = 1_800_000_000 * SECOND

scripts = st.lists(st.tuples(st.integers(1, 1_000), st.integers(-10_000, 10_000)), max_size=5)


class Clock:
    """A wall clock that was set, and the events that say so."""

    def __init__(self, script):
        self.steps, self.events, mono, by = [], [], 0, 0
        for after, step in script:
            mono, by = mono + after, by + step
            self.steps.append((mono, by))
            at, fields = START + (mono + by) * SECOND, {"step_ns": step * SECOND}
            self.events.append(
                SimpleNamespace(kind="clock.stepped", at_ns=at, mono_ns=mono * SECOND, fields=fields)
            )

    def at(self, mono):
        by = max((step for step in self.steps if step[0] <= mono), default=(0, 0))[1]
        return START + (mono + by) * SECOND


@given(scripts, st.integers(0, 5_000), st.integers(0, 5_000))
def test_no_step_makes_lengths_longer(script, began, lasted):
    """A clock that is set back repeats times: then the shortest length counts."""
    clock = Clock(script)
    told = elapsed_ns(stretches(clock.events), clock.at(began), clock.at(began + lasted))
    assert 0 <= told <= lasted * SECOND
    if all(step >= 0 for _, step in script):
        assert told == lasted * SECOND


@given(scripts)
def test_length_of_run_is_monotonic(script):
    events = Clock([(1, 0), *script]).events
    assert lasted_ns(events) == sum(after for after, _ in script) * SECOND


def test_clock_set_back_shows_known_lengths():
    clock = Clock([(100, 3_600), (100, -10_800)])
    passed = stretches(clock.events)
    assert elapsed_ns(passed, clock.at(50), clock.at(150)) == 100 * SECOND
    assert elapsed_ns(passed, clock.at(150), clock.at(250)) == 100 * SECOND
    assert elapsed_ns(passed, clock.at(50), clock.at(250)) == 200 * SECOND
