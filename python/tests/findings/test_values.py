"""From evidence to values: each does what it claims to the evidence that it was made of."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from fathometer.findings import values

S = values.S
LENGTHS = st.integers(1, 400 * 24 * 3600 * S)


@given(LENGTHS, st.sampled_from([values.MS, S]))
def test_rounding_is_towards_the_safe_side(ns, step):
    below, above = values.round_below(ns, step), values.round_above(ns, step)
    assert below % step == above % step == 0
    assert ns <= above
    assert below <= ns or below == step
    # Round, and not far off: by a tenth, or by the smallest step that there is.
    assert above - ns < max(ns / 5, 100 * values.MS, step)
    assert ns - below < max(ns / 5, 100 * values.MS, step)


@given(st.lists(LENGTHS, max_size=40))
def test_user_timeout_exceeds_every_recovered_stall(recovered):
    timeout = values.user_timeout(recovered)
    assert all(timeout >= 2 * stall for stall in recovered)
    assert timeout >= (5 if len(recovered) >= 19 else 30) * S


def shortest_waits(p):
    """Of retries whose waits double and are drawn from their upper half."""
    return [min(p.cap_ns, p.first_ns * 2**n) / 2 for n in range(p.retries)]


@given(st.integers(1, 600 * S))
def test_shortest_retries_outlast_the_outage(outage):
    p = values.patience(outage)
    assert sum(shortest_waits(p)) > outage
    # And no more of them than it takes.
    assert sum(shortest_waits(p)[:-1]) <= outage


@given(st.integers(1, 600 * S), st.data())
def test_first_retry_after_outage_meets_deadline(outage, data):
    """Whatever waits are drawn, and however long each try takes to fail."""
    p = values.patience(outage)
    at = 0
    for n in itertools.count():
        at += data.draw(st.integers(0, values.TRY_NS))
        if n == p.retries:
            raise AssertionError("they were used up")
        ceiling = min(p.cap_ns, p.first_ns * 2**n)
        at += data.draw(st.integers(-(-ceiling // 2), ceiling))
        if at > outage:
            break
    assert at + values.TRY_NS <= p.deadline_ns


def test_hours_of_outage_get_no_retries():
    assert values.patience(0) is None
    assert values.patience(11 * 60 * S) is None
