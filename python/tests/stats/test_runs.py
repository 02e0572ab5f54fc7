import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathometer.stats.runs import compare_runs, median_of_runs, percentile_rule, variances


def test_median_of_twenty_runs_uses_ranks_6_and_15():
    # Hoefler & Belli and the tables of the binomial distribution: 95.9 %.
    found = median_of_runs(np.arange(1.0, 21.0))
    assert (found.interval.low, found.interval.high) == (6, 15)
    assert found.interval.level == pytest.approx(0.9586, abs=1e-4)
    assert found.doubt is None


def test_six_runs_are_the_fewest_with_an_interval():
    assert median_of_runs(np.arange(5.0)).interval is None
    six = median_of_runs(np.arange(6.0))
    assert (six.interval.low, six.interval.high) == (0, 5)
    assert "fewer than 20" in six.doubt


def test_the_worst_of_twenty_is_no_p95():
    rule = percentile_rule(np.arange(1.0, 21.0))
    assert (rule.p95, rule.worst) == (19, 20)
    assert rule.confidence_worst == pytest.approx(1 - 0.95**20)
    assert rule.runs_needed == 59
    with pytest.raises(ValueError, match="no runs"):
        percentile_rule(np.array([]))


def test_variance_components_of_searle():
    # A balanced table worked by hand: groups (1, 3), (5, 7), (9, 11). Within: each (2/2)... = 2; between mean
    # square 32; (32 - 2) / 2 = 15.
    found = variances([np.array([1.0, 3.0]), np.array([5.0, 7.0]), np.array([9.0, 11.0])])
    assert found.within == pytest.approx(2)
    assert found.between == pytest.approx(15)
    assert found.share_between == pytest.approx(15 / 17)


def test_variance_components_recover_what_was_put_in():
    rng = np.random.default_rng(1)
    runs = [100 + rng.normal(0, 3) + rng.normal(0, 2, 50) for _ in range(400)]
    found = variances(runs)
    assert found.between == pytest.approx(9, rel=0.2)
    assert found.within == pytest.approx(4, rel=0.05)
    assert found.runs_needed is None


def test_runs_needed_would_reach_the_precision():
    rng = np.random.default_rng(2)
    few = [100 + rng.normal(0, 10) + rng.normal(0, 1, 10) for _ in range(20)]
    needed = variances(few, precision=0.01).runs_needed
    spread = np.std([r.mean() for r in few], ddof=1)
    # Large n: Student's t is near 1.96.
    assert needed == pytest.approx((1.96 * spread / (0.01 * np.mean([r.mean() for r in few]))) ** 2, rel=0.05)


def test_hodges_lehmann_with_rs_published_example():
    # R's help of wilcox.test: the Hollander & Wolfe (1973, 29f.) depression scores; R prints V = 40, p =
    # 0.03906 (two-sided).
    x = np.array([1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30])
    y = np.array([0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29])
    found = compare_runs(np.exp(y), np.exp(x), interleaved=True)
    assert found.p_value == pytest.approx(0.03906, abs=5e-5)
    # Of the same differences: pseudomedian 0.46, exact 95 % interval 0.010 to 0.786 (Hollander & Wolfe, table
    # of Walsh averages).
    assert np.log(found.ratio) == pytest.approx(0.46, abs=5e-3)
    assert np.log(found.ratio_interval.low) == pytest.approx(0.010, abs=5e-4)
    assert np.log(found.ratio_interval.high) == pytest.approx(0.786, abs=5e-4)
    assert found.verdict == "slower"


def test_brunner_munzel_with_the_published_pain_scores():
    # Brunner & Munzel (2000), Biometrical Journal 42, and R's lawstat: statistic 3.1375, df 17.683, p =
    # 0.005786.
    y = np.array([1, 2, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 1, 1], dtype=float)
    n = np.array([3, 3, 4, 3, 1, 2, 3, 1, 1, 5, 4], dtype=float)
    assert compare_runs(y, n, interleaved=False).p_value == pytest.approx(0.005786, abs=1e-6)


def test_too_few_runs_are_not_judged():
    assert compare_runs(np.ones(5), np.ones(5), interleaved=True).verdict == "cannot be decided"


def test_runs_without_overlap_differ_surely():
    assert compare_runs(np.arange(1.0, 11), np.arange(21.0, 31), interleaved=False).verdict == "slower"


def test_identical_runs_show_no_difference():
    for interleaved in (True, False):
        assert (
            compare_runs(np.ones(20), np.ones(20), interleaved=interleaved).verdict == "no difference shown"
        )


@given(st.integers(0, 500), st.booleans())
def test_verdict_agrees_with_the_interval(seed, interleaved):
    rng = np.random.default_rng(seed)
    a, b = np.exp(rng.normal(0, 0.1, 20)), np.exp(rng.normal(rng.normal(0, 0.1), 0.1, 20))
    found = compare_runs(a, b, interleaved=interleaved)
    assert found.ratio_interval.low <= found.ratio <= found.ratio_interval.high
    if found.verdict == "slower":
        assert found.ratio_interval.low > 1
    if found.verdict == "faster":
        assert found.ratio_interval.high < 1
