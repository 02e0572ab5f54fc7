import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathometer.stats.family import judged
from fathometer.stats.results import Doubt, DoubtCode
from fathometer.stats.runs import (
    brunner_munzel,
    compare_runs,
    median_of_runs,
    percentile_rule,
    wilcoxon_of,
)


def test_twenty_run_median_uses_ranks_6_and_15():
    # Hoefler & Belli and the tables of the binomial distribution: 95.9 %.
    found = median_of_runs(np.arange(1.0, 21.0))
    assert (found.interval.low, found.interval.high) == (6, 15)
    assert found.interval.level == pytest.approx(0.9586, abs=1e-4)
    assert found.doubt is None


def test_six_runs_are_the_fewest_with_an_interval():
    assert median_of_runs(np.arange(5.0)).interval is None
    six = median_of_runs(np.arange(6.0))
    assert (six.interval.low, six.interval.high) == (0, 5)
    assert six.doubt == Doubt(DoubtCode.FEW_RUNS, 6, needed=20)


def test_the_worst_of_twenty_is_no_p95():
    rule = percentile_rule(np.arange(1.0, 21.0))
    assert (rule.p95, rule.worst) == (19, 20)
    assert rule.confidence_worst == pytest.approx(1 - 0.95**20)
    assert rule.runs_needed == 59
    with pytest.raises(ValueError, match="no runs"):
        percentile_rule(np.array([]))


def test_hodges_lehmann_with_rs_published_example():
    # R's help of wilcox.test: the Hollander & Wolfe (1973, 29f.) depression scores; R prints V = 40, p =
    # 0.03906 (two-sided).
    x = np.array([1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30])
    y = np.array([0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29])
    found = wilcoxon_of(x - y)
    assert found.p_value == pytest.approx(0.03906, abs=5e-5)
    # Of the same differences: pseudomedian 0.46, exact 95 % interval 0.010 to 0.786 (Hollander & Wolfe, table
    # of Walsh averages).
    assert found.middle == pytest.approx(0.46, abs=5e-3)
    assert found.interval.low == pytest.approx(0.010, abs=5e-4)
    assert found.interval.high == pytest.approx(0.786, abs=5e-4)


def test_brunner_munzel_with_the_published_pain_scores():
    # Brunner & Munzel (2000), Biometrical Journal 42, and R's lawstat: statistic 3.1375, df 17.683, p =
    # 0.005786.
    y = np.array([1, 2, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 1, 1], dtype=float)
    n = np.array([3, 3, 4, 3, 1, 2, 3, 1, 1, 5, 4], dtype=float)
    assert brunner_munzel(y, n).p_value == pytest.approx(0.005786, abs=1e-6)


def verdict(a, b, *, interleaved):
    return judged([compare_runs("p50", a, b, interleaved=interleaved)])[0].verdict


def test_too_few_runs_are_not_judged():
    assert verdict(np.ones(5), np.ones(5), interleaved=True) == "cannot be decided"


@pytest.mark.parametrize("runs", [10, 30])
def test_runs_without_overlap_differ_surely(runs):
    a, b = 100.0 + np.arange(runs), 200.0 + np.arange(runs)
    assert verdict(a, b, interleaved=False) == "slower"
    assert verdict(b, a, interleaved=False) == "faster"


@pytest.mark.parametrize("runs", [6, 20])
def test_identical_runs_have_no_difference_that_matters(runs):
    for interleaved in (True, False):
        assert verdict(np.ones(runs), np.ones(runs), interleaved=interleaved) == "no difference that matters"


@given(st.integers(0, 500), st.booleans(), st.sampled_from([8, 20]))
def test_verdict_agrees_with_the_interval(seed, interleaved, runs):
    rng = np.random.default_rng(seed)
    a, b = np.exp(rng.normal(0, 0.1, runs)), np.exp(rng.normal(rng.normal(0, 0.1), 0.1, runs))
    found = judged([compare_runs("p99", a, b, interleaved=interleaved)])[0]
    assert found.ratio_interval.low <= found.ratio <= found.ratio_interval.high
    if found.verdict == "slower":
        assert found.ratio_interval.low > 1
    if found.verdict == "faster":
        assert found.ratio_interval.high < 1
    if found.verdict == "no difference that matters":
        assert found.ratio_interval.low >= 1 / 1.05
        assert found.ratio_interval.high <= 1.05


@given(st.integers(0, 500), st.booleans(), st.sampled_from([8, 20, 25]))
def test_a_difference_is_that_of_its_own_figures(seed, interleaved, runs):
    # 1.0 against 3.2 ms was told as 0.21 ms longer, 1.21 times: figures were medians of runs, the rest the
    # test's own estimate.
    rng = np.random.default_rng(seed)
    a, b = np.exp(rng.normal(0, 1, runs)), np.exp(rng.normal(0.3, 1, runs))
    d = compare_runs("p50", a, b, interleaved=interleaved)
    assert (d.a, d.b) == (np.median(a), np.median(b))
    assert d.difference == d.b - d.a
    assert d.ratio == d.b / d.a
    assert d.difference_interval.low <= d.difference <= d.difference_interval.high
    assert d.ratio_interval.low <= d.ratio <= d.ratio_interval.high
