"""A cycle among block means: found where there is one, and not where there is none."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fathometer.stats.cycle import HARMONICS, cycle_of, without_cycle
from support.generators import ar

BLOCKS = 256


def series(rng, cycle, amplitude, rho=0.0, blocks=BLOCKS):
    phase = rng.random()
    at = (np.arange(blocks) + phase) / blocks
    return 5 + amplitude * np.sin(2 * np.pi * cycle * at) + ar(rng, 1, blocks, rho)[0]


@given(st.integers(0, 1 << 32), st.integers(6, 100), st.sampled_from([0.0, 0.5]))
def test_a_cycle_above_the_noise_is_found(seed, cycle, rho):
    assert cycle_of(series(np.random.default_rng(seed), cycle, 3, rho)) == cycle


def test_noise_of_any_colour_has_no_cycle():
    rng = np.random.default_rng(4)
    for rho in (0.0, 0.5, 0.9, 0.99):
        found = sum(cycle_of(series(rng, 8, 0, rho)) is not None for _ in range(500))
        assert found <= 6, (
            rho,
            found,
        )  # One in 500 is chance; more than six of 500 once in a thousand tables.


@given(st.integers(0, 1 << 32), st.integers(6, 40), st.sampled_from([64, 100, 255, 256]))
def test_without_cycle_removes_only_that_cycle(seed, cycle, blocks):
    values = series(np.random.default_rng(seed), cycle, 3, blocks=blocks)
    left = without_cycle(values, cycle)
    assert np.isclose(left.mean(), values.mean())
    power = np.abs(np.fft.rfft(left - left.mean()))
    gone = [k for k in range(cycle, HARMONICS * cycle + 1, cycle) if k < len(power)]
    assert np.allclose(power[gone], 0, atol=1e-9)
    # Nothing else is touched.
    kept = np.setdiff1d(np.arange(len(power)), [*gone, 0])
    assert np.allclose(np.fft.rfft(left)[kept], np.fft.rfft(values)[kept])


def test_too_few_blocks_or_all_alike_have_none():
    assert cycle_of(series(np.random.default_rng(1), 8, 50, blocks=63)) is None
    assert cycle_of(np.ones(BLOCKS)) is None
    assert cycle_of(np.zeros(0)) is None
