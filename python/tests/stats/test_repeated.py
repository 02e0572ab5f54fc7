import math

import numpy as np
import pytest
from scipy import stats as oracle

from fathometer.stats.repeated import difference, mean, ranked
from support.tiers import repeated


def by_run(*values):
    return {f"run {n}": v for n, v in enumerate(values)}


def ranks(**values):
    return [(r.name, r.rank) for r in ranked({name: by_run(*v) for name, v in values.items()})]


def test_an_interval_is_students():
    """By hand: the mean of 1, 2 and 3 is 2, their standard deviation 1, and t of 2 degrees of freedom at
    97.5 % is 4.303 (NIST/SEMATECH e-Handbook, table 1.3.6.7.2): 4.303 / sqrt(3) = 2.484.
    """
    m = mean([1.0, 2.0, 3.0])
    assert (m.mean, m.low, m.high) == pytest.approx((2, 2 - 2.484, 2 + 2.484), abs=0.001)
    assert (mean([5.0]).low, mean([])) == (None, None)
    assert (mean([4.0, 4.0]).low, mean([4.0, 4.0]).high) == (4, 4)


def test_indistinguishable_policies_share_a_rank():
    # `a` is always 1 more than `b`, however much the runs differ.
    assert ranks(a=(3, 9, 30), b=(2, 8, 29)) == [("b", 1), ("a", 2)]
    # Now one is more, now the other.
    assert ranks(a=(3, 1, 3), b=(1, 3, 2)) == [("b", 1), ("a", 1)]
    assert ranks(a=(2, 2), b=(2, 2), c=(5, 5)) == [("a", 1), ("b", 1), ("c", 3)]
    # `c` is more than `a`, and not told apart from `b`, the first of the second rank.
    assert ranks(a=(0,) * 5, b=(5,) * 5, c=(6, 4, 7, 5, 6)) == [("a", 1), ("b", 2), ("c", 2)]
    assert ranks(a=(2,), b=(1,)) == [("b", 1), ("a", 2)]
    assert ranks(a=(), b=(1,)) == [("b", 1)]


def test_unpaired_runs_match_welch_interval():
    """Against scipy's own interval of Welch's test."""
    rng = np.random.default_rng(3)
    a, b = rng.normal(5, 1, 8), rng.normal(3, 4, 5)
    got = difference({f"a{n}": v for n, v in enumerate(a)}, {f"b{n}": v for n, v in enumerate(b)})
    want = oracle.ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
    assert (got.low, got.high) == pytest.approx((want.low, want.high))


def test_interval_holds_truth_at_nominal_rate():
    """2,000 studies of 4 runs, from a distribution with a long tail: Student's holds 0 in about 95 % of
    them, and never in less than 93 %.
    """
    rng = np.random.default_rng(5)
    a, b = rng.exponential(1, (2, 2_000, 4))
    held = sum(
        (d := difference(by_run(*x), by_run(*y))).low <= 0 <= d.high for x, y in zip(a, b, strict=True)
    )
    assert 0.93 < held / 2_000 < 0.98
    assert not math.isnan(held)


def test_best_difference_uses_the_ranking_interval():
    """One of eight may be 1.8 more "with 95 % confidence" by itself, and share the rank of the best. By hand:
    28 pairs, t of 4 degrees of freedom at 1 - 0.05 / 56 is 7.39 (it is 2.78 at 0.975), and the standard error
    of (1, 2, 3, 2, 1) is 0.374.
    """
    values = {f"p{k}": by_run(*[10 + k] * 5) for k in range(7)} | {"q": by_run(9, 8, 7, 8, 9)}
    of = {r.name: r for r in ranked(values)}
    assert (of["q"].rank, of["p0"].rank) == (1, 1)
    assert of["p0"].behind.mean == pytest.approx(1.8)
    assert of["p0"].behind.low == pytest.approx(1.8 - 7.39 * 0.374, abs=0.01)


@repeated("studies", 60, 500)
def test_equal_policies_rarely_differ(studies):
    """Some of eight were in two comparisons of five: each was held against the best of the sample at 5 %."""
    random = np.random.default_rng(5)
    for runs in (2, 5, 20):
        wrong = sum(
            any(rank > 1 for _, rank in ranks(**{f"p{k}": random.normal(size=runs) for k in range(8)}))
            for _ in range(studies)
        )
        assert wrong <= oracle.binom.ppf(0.998, studies, 0.05), (runs, wrong)


@repeated("studies", 40, 500)
@pytest.mark.parametrize("policies", [2, 8])
@pytest.mark.parametrize("lost", [0.5, 1, 5, 50])
def test_equal_lossy_policies_rarely_differ(policies, lost, studies):
    """Some of eight were in seven comparisons of ten: what lost one request less in both of two repetitions
    had differences without any variance, and was surely better.
    """
    random = np.random.default_rng(6)
    for runs in (2, 3, 5, 20):
        wrong = sum(
            any(
                r.rank > 1
                for r in ranked(
                    {f"p{k}": by_run(*random.poisson(lost, runs) / 1000) for k in range(policies)}, 1e-3
                )
            )
            for _ in range(studies)
        )
        assert wrong <= oracle.binom.ppf(0.999, studies, 0.05), (wrong, runs)


def test_two_runs_with_equal_difference_are_uncertain():
    """By hand: one more in each of two runs, of figures that are counted. What a step of 1 hides is
    sqrt((1 + 1) / 12 / 2) = 0.289, and t of 1 degree of freedom at 97.5 % is 12.706: 3.67 about 1.
    """
    got = difference(by_run(3, 4), by_run(2, 3), step=1.0)
    assert (got.low, got.high) == pytest.approx((-2.668, 4.668), abs=0.001)
    assert difference(by_run(3, 4), by_run(2, 3)).is_positive
    assert difference(by_run(13, 14), by_run(2, 3), step=1.0).is_positive


def test_large_consistent_difference_is_separated():
    values = {"a": by_run(*[0.010] * 4), "b": by_run(*[0.030] * 4)}
    assert [r.rank for r in ranked(values, 1e-3)] == [1, 2]
    # By hand: t of 3 degrees of freedom is 3.182 (NIST/SEMATECH, 1.3.6.7.2), the deviation 1e-3 / sqrt(6).
    behind = ranked(values, 1e-3)[1].behind
    assert behind.high - behind.mean == pytest.approx(3.182 * 1e-3 / 6**0.5 / 2, rel=1e-3)


def test_no_difference_at_all_has_no_doubt():
    assert difference(by_run(0.5, 0.25), by_run(0.5, 0.25), step=0.25).high == 0
