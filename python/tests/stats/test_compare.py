import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from fathometer.stats.compare import METRICS, compare, superiority
from fathometer.stats.family import judged
from fathometer.stats.series import (
    from_series,
    from_windows,
    joined,
    mid_quantiles_of,
    paired,
    quantiles_of,
    rounded,
)
from support import round_trips as made
from support.tiers import repeated

SECOND = 1_000_000_000


@given(st.lists(st.integers(1, 50), min_size=1, max_size=80), st.sampled_from([0.01, 0.5, 0.9, 0.99, 1.0]))
def test_quantiles_from_counts_are_those_of_the_samples(values, p):
    blocks = from_series(np.array(values, dtype=float))
    assert blocks.quantile(p) == np.quantile(values, p, method="inverted_cdf")
    assert blocks.mean() == pytest.approx(np.mean(values))
    assert blocks.count == len(values)


def test_an_empty_row_has_no_quantile():
    assert np.isnan(quantiles_of(np.array([1.0, 2.0]), np.array([[0, 0], [0, 3]]), (0.5,))[0, 0])


@given(
    st.integers(0, 10**6), st.integers(1, 9), st.integers(1, 40), st.sampled_from([0.0, 0.3, 0.5, 0.99, 1.0])
)
def test_mid_quantiles_match_linear_interpolation(seed, number, distinct, p):
    rng = np.random.default_rng(seed)
    blocks, values = rng.integers(1, 9, (number, distinct)), np.sort(rng.random(distinct))
    weights = rng.multinomial(number, np.full(number, 1 / number), size=5).astype(float)
    told = mid_quantiles_of(values, blocks, weights, (p,))[:, 0]
    for times, mine in zip(weights.astype(int), told, strict=True):
        counts = np.repeat(blocks, times, axis=0).sum(axis=0)
        line = np.interp(p * counts.sum(), np.cumsum(counts) - counts / 2, values)
        assert mine == pytest.approx(line, rel=1e-12)
    assert np.isnan(mid_quantiles_of(values, blocks, np.zeros((1, number)), (p,))).all()


@given(st.integers(2, 300), st.integers(2, 7))
def test_joining_keeps_every_sample(n, neighbours):
    x = np.random.default_rng(n).integers(1, 20, n).astype(float)
    windows = from_windows(x, np.arange(n) * SECOND, 3 * SECOND)
    fewer = joined(windows, neighbours)
    assert fewer.count == n
    assert fewer.sums.sum() == pytest.approx(x.sum())
    assert fewer.number == max(windows.number // neighbours, 1)
    assert fewer.began_ns[0] == windows.began_ns[0]


def test_rounding_stays_below_a_twentieth_of_a_percent():
    x = np.random.default_rng(3).lognormal(12, 2, 50_000)
    assert np.max(np.abs(rounded(x) / x - 1)) <= 0.0005


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=40), st.lists(st.integers(1, 9), min_size=1, max_size=40)
)
def test_superiority_is_that_of_all_pairs(a, b):
    wins = np.mean([(y > x) + (y == x) / 2 for x in a for y in b])
    both = (from_series(np.array(x, dtype=float)) for x in (a, b))
    assert superiority(*both) == pytest.approx(wins)


@repeated("pairs", 6, 60)
def test_identical_scenarios_rarely_differ(pairs):
    rng = np.random.default_rng(2)
    verdicts = [
        {d.verdict for d in compare(*(from_series(made.lognormal(rng, 10_000)) for _ in "ab")).differences}
        for _ in range(pairs)
    ]
    assert sum(bool(v & {"slower", "faster"}) for v in verdicts) <= binom.ppf(0.998, pairs, 0.05)
    assert not any("cannot be decided" in v for v in verdicts)


@repeated("pairs", 5, 40)
def test_known_ratio_is_within_its_interval(pairs):
    rng = np.random.default_rng(4)
    held = dict.fromkeys(METRICS, 0)
    for _ in range(pairs):
        found = compare(
            from_series(made.lognormal(rng, 20_000)), from_series(made.lognormal(rng, 20_000) * 1.25)
        )
        assert found.of("p50").verdict == "slower"
        for metric in METRICS:
            held[metric] += 1.25 in found.of(metric).ratio_interval
            assert found.of(metric).difference == pytest.approx(found.of(metric).b - found.of(metric).a)
    assert min(held.values()) >= binom.ppf(0.002, pairs, 0.95), held


def test_side_by_side_sees_what_shared_noise_hides():
    rng = np.random.default_rng(8)
    n = 10_000
    shared = np.exp(0.5 * made.gaussian(rng, n, 600, 1.0))
    a = made.lognormal(rng, n, sigma=0.2, time=1, share=0.0) * shared
    b = made.lognormal(rng, n, sigma=0.2, time=1, share=0.0) * shared * 1.03
    at = np.arange(n) * SECOND
    blocks = [from_windows(x, at, 30 * SECOND) for x in (a, b)]
    together, apart = compare(*blocks, side_by_side=True), compare(*blocks)
    assert judged([together.of("p50")], matters=0.01)[0].verdict == "slower"
    assert apart.of("p50").verdict == "no difference shown"
    width = lambda c: c.of("p50").ratio_interval.high - c.of("p50").ratio_interval.low  # noqa: E731
    assert width(together) < width(apart) / 3


def test_too_short_series_are_not_judged():
    found = compare(from_series(np.arange(1.0, 41.0)), from_series(np.arange(1.0, 41.0)))
    assert {d.verdict for d in found.differences} == {"cannot be decided"}
    assert found.of("p50").ratio_interval is None


def test_only_windows_of_both_are_paired():
    x = np.ones(100)
    a = from_windows(x, np.arange(100) * SECOND, 10 * SECOND)
    b = from_windows(x, (np.arange(100) + 50) * SECOND, 10 * SECOND)
    left, right = paired(a, b)
    assert left.number == right.number == 5
    with pytest.raises(ValueError, match="without times"):
        paired(from_series(x), from_series(x))


@settings(max_examples=8)
@given(st.integers(0, 10_000))
def test_swapping_turns_the_ratio_round(seed):
    rng = np.random.default_rng(seed)
    a, b = from_series(made.lognormal(rng, 4000)), from_series(made.lognormal(rng, 4000) * 1.5)
    there, back = compare(a, b), compare(b, a)
    for metric in METRICS:
        assert there.of(metric).ratio * back.of(metric).ratio == pytest.approx(1)
    assert there.superiority + back.superiority == pytest.approx(1)
    assert (there.of("p50").verdict, back.of("p50").verdict) == ("slower", "faster")
