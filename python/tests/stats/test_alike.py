"""Two paths that are alike are told "different" in at most one report of twenty: whatever their round trips
are like, with one run or with several that differ, side by side or in turn. Through rollups, scenarios and
comparisons as a report makes them; benches/verdicts.py counts over many more.
"""

import numpy as np
import pytest
from scipy.stats import binom

from fathometer.findings.comparisons import comparisons
from support.alike import false_verdicts, measured, versus
from support.generators import BY_NAME
from support.tiers import repeated

FEW_OR_MANY = repeated("trials", 5, 40)


def most(trials):
    """More false verdicts come once in a thousand tables if the law holds."""
    return binom.ppf(0.999, trials, 0.05)


@FEW_OR_MANY
@pytest.mark.parametrize("name", ["bursts", "regimes", "AR 0.8"])
def test_equal_paths_side_by_side_rarely_differ(name, trials):
    # Blocks of pairs were taken as independent: regimes were told different in 16 of 60 reports.
    false, undecided = false_verdicts(name, 1, trials, side_by_side=True)
    assert false <= most(trials)
    assert undecided == 0


@FEW_OR_MANY
@pytest.mark.parametrize(("runs", "side_by_side"), [(2, False), (3, True), (5, False)])
def test_few_differing_runs_are_rarely_separated(runs, side_by_side, trials):
    # Three runs side by side: 13 of 40 reports, because blocks of one run do not know the others.
    false, _ = false_verdicts("GARCH", runs, trials, side_by_side=side_by_side, unlike=0.2)
    assert false <= most(trials)


def test_a_single_run_is_not_exact():
    # Five runs of B differ by a fifth, so another one of A's would, too; A's own was taken as the truth.
    rng = np.random.default_rng(2)
    clean = lambda level: np.rint(1e6 * level * rng.lognormal(0, 0.05, 2_000)).astype(np.int64)  # noqa: E731
    paths = {"a": [clean(1.0)], "b": [clean(level) for level in (1.02, 1.15, 1.25, 1.35, 1.48)]}
    (one,) = comparisons(measured(paths, side_by_side=False))
    assert not any(d.differs for d in one.differences)
    # Student's t of four degrees of freedom, of a spread of 0.14 times sqrt(1 + 1 / 5): 0.43 either way.
    assert one.of("p50").ratio_interval.high / one.of("p50").ratio > 1.4
    paths["b"] = [clean(level) for level in (1.24, 1.25, 1.26, 1.25, 1.24)]
    (one,) = comparisons(measured(paths, side_by_side=False))
    assert one.of("p50").verdict == "slower"


@repeated("trials", 1, 3)
@pytest.mark.parametrize("runs", [1, 2, 3, 5, 10])
@pytest.mark.parametrize("side_by_side", [True, False])
def test_a_fifth_more_is_slower_in_clean_data(runs, side_by_side, trials):
    rng = np.random.default_rng(7)
    told = [
        versus(rng, "GARCH", runs, side_by_side=side_by_side, n=4_000, slower=1.2).of("p50").verdict
        for _ in range(trials)
    ]
    assert told == ["slower"] * trials


@repeated("trials", 4, 20)
def test_single_bucket_path_is_compared_correctly(trials):
    # 70 ms and a spread of 10 us: a bucket is 66 us, and stood in each scenario for another mean. The chance
    # that B takes longer was 0.85 for a difference of 1 us, and with `--matters 0` paths that are alike were
    # told apart with p = 0.
    rng = np.random.default_rng(3)
    a, b = BY_NAME["far and narrow"].series(rng, 2, 4_000)
    (one,) = comparisons(measured({"a": [a], "b": [b + 1_000]}, side_by_side=False))
    true = np.mean(np.searchsorted(np.sort(a), b + 1_000) / len(a))
    assert one.superiority == pytest.approx(true, abs=0.05)
    for side_by_side in (True, False):
        false, _ = false_verdicts("far and narrow", 1, trials, side_by_side=side_by_side, matters=0.0)
        assert false <= most(trials)
    bucket = 2.0**16
    for d in one.differences:
        if d.metric != "mean":
            assert d.difference_interval.high - d.difference_interval.low >= 2 * bucket


def test_runs_stay_pairs_where_one_lacks_a_figure():
    # Each run has its own weather, and B takes a fifth longer in each. A's third and B's ninth have too few
    # samples for p99: what was left was paired by position, with the weather of other hours.
    rng = np.random.default_rng(11)
    clean = lambda level, n: np.rint(1e6 * level * rng.lognormal(0, 0.05, n)).astype(np.int64)  # noqa: E731
    weather = np.exp(rng.standard_normal(12))
    paths = {
        "a": [clean(w, 50 if i == 2 else 500) for i, w in enumerate(weather)],
        "b": [clean(1.2 * w, 50 if i == 8 else 500) for i, w in enumerate(weather)],
    }
    (one,) = comparisons(measured(paths, side_by_side=True))
    assert one.of("p99").units == (10, 10)
    assert one.of("p99").p_value < 1e-6


def test_order_and_comparison_match_table_figures():
    # The strip called 1.20 ms the fastest median and 1.05 ms the slowest: the order was by all samples, one
    # long run of which outweighs eight others, and the figures by runs.
    rng = np.random.default_rng(12)
    clean = lambda level, n: np.rint(1e6 * level * rng.lognormal(0, 0.05, n)).astype(np.int64)  # noqa: E731
    paths = {
        "a": [clean(1.2, 300) for _ in range(8)] + [clean(0.9, 5_000)],
        "b": [clean(1.05, 300) for _ in range(9)],
    }
    order = measured(paths, side_by_side=False)
    assert [s.name for s in order] == ["b", "a"]
    (one,) = comparisons(order)
    for d in one.differences:
        assert (d.a, d.b) == tuple(s.figure(d.metric).value for s in order)
