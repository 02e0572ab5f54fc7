"""Large lasting changes of noisy series are found, however much the samples overlap."""

import numpy as np
import pytest

from fathometer.stats.changes import find_changes
from support import round_trips as made


@pytest.mark.parametrize(("series", "fewest"), [(3, 2), pytest.param(8, 6, marks=pytest.mark.acceptance)])
@pytest.mark.parametrize(
    ("n", "sigma", "step"),
    [(n, sigma, 0.5) for n in (1000, 6000, 15_000) for sigma in (0.1, 0.15)]
    + [(n, 0.1, -0.17) for n in (6000, 15_000)],
)
def test_a_large_step_is_found_where_it_is(n, sigma, step, series, fewest):
    rng = np.random.default_rng(1)
    seen = 0
    for _ in range(series):
        rtt = 1e6 * made.lognormal(rng, n, sigma=sigma)
        rtt[n // 2 :] *= 1 + step
        levels = [c for c in find_changes(rtt) if c.kind == "level"]
        seen += any(abs(c.index - n // 2) <= max(20, n // 100) for c in levels)
    assert seen >= fewest


def test_wide_noise_rarely_looks_like_steps():
    rng = np.random.default_rng(2)
    alarms = sum(
        any(c.kind == "level" for c in find_changes(1e6 * made.lognormal(rng, 6000, sigma=0.3)))
        for _ in range(20)
    )
    assert alarms <= 3
