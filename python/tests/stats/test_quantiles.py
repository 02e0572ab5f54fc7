import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as oracle

from fathometer.stats.blocks import block_means, correlated, cut
from fathometer.stats.quantiles import effective_count, shares_around, supported
from fathometer.stats.results import DoubtCode
from fathometer.stats.rollup import rollup_estimates, rollup_mean
from fathometer.stats.series import from_series
from support import round_trips as made


def quantile_estimates(x, ps):
    return rollup_estimates(from_series(x), ps)


def mean_estimate(x):
    return rollup_mean(from_series(x))


def test_wilks_numbers_are_the_published_ones():
    # Wilks 1941: 59 for p95 at 95 %; the rest follow from 1 - p**n.
    for p, needed in ((0.95, 59), (0.99, 299), (0.999, 2995), (0.9999, 29956)):
        assert supported(p, needed)
        assert not supported(p, needed - 1)


def test_independent_share_interval_matches_clopper_pearson():
    rng = np.random.default_rng(5)
    x = (rng.random(200_000) < 0.3).astype(float)
    blocks = cut(x)
    share = float(x.mean())
    effective = effective_count(share, block_means(x, blocks), len(x))
    low, high = shares_around(share, effective)
    exact = oracle.binomtest(int(x.sum()), len(x)).proportion_ci(0.95, method="exact")
    assert effective == pytest.approx(len(x), rel=0.25)
    assert low == pytest.approx(exact.low, abs=5e-4)
    assert high == pytest.approx(exact.high, abs=5e-4)


def test_blocks_grow_with_the_correlation():
    rng = np.random.default_rng(6)
    white = cut(rng.standard_normal(40_000))
    slow = cut(made.gaussian(rng, 40_000, 150, 0.8))
    assert white.independent
    assert slow.length >= 2 * white.length


def test_a_trend_is_said_to_be_correlated():
    assert correlated(np.arange(50.0))
    assert not cut(np.arange(5000.0)).independent


def test_rank_ratio_rejects_at_nominal_rate():
    rng = np.random.default_rng(7)
    rejected = np.mean([correlated(rng.standard_normal(64), 0.10) for _ in range(2000)])
    # 10 % one-sided; three standard errors of 2,000 trials are 0.02.
    assert 0.08 < rejected < 0.12


@pytest.mark.parametrize(("n", "p"), [(10, 0.95), (50, 0.95), (2000, 0.999), (0, 0.5)])
def test_unsupported_quantile_has_no_interval(n, p):
    (estimate,) = quantile_estimates(np.arange(n, dtype=float), (p,))
    assert estimate.interval is None
    assert estimate.doubt.code in {DoubtCode.UNSUPPORTED, DoubtCode.FEW_SAMPLES, DoubtCode.NO_SAMPLES}


def test_constant_series_has_a_point_for_an_interval():
    (median,) = quantile_estimates(np.full(5000, 7.0), (0.5,))
    assert (median.interval.low, median.interval.high) == (7.0, 7.0)
    mean = mean_estimate(np.full(5000, 7.0))
    assert (mean.interval.low, mean.interval.high) == (7.0, 7.0)


@settings(max_examples=20)
@given(st.floats(1e-3, 1e6), st.integers(0, 1000))
def test_scaling_scales_value_and_interval(factor, seed):
    x = made.lognormal(np.random.default_rng(seed), 4000)
    for a, b in zip(
        quantile_estimates(x, (0.5, 0.95)), quantile_estimates(x * factor, (0.5, 0.95)), strict=True
    ):
        assert b.value == pytest.approx(a.value * factor)
        assert (a.interval is None) == (b.interval is None)
        if a.interval:
            assert b.interval.low == pytest.approx(a.interval.low * factor)
            assert b.interval.high == pytest.approx(a.interval.high * factor)
