"""Do 95 % intervals cover the truth in 95 % of runs, at the correlation of real round trips?

400 runs of each: one standard error of a coverage is 1.1 points. The issue's figure, 93 to 97 %, is checked
with many more runs by benches/coverage.py; here the bounds leave three standard errors.
"""

import numpy as np
import pytest
from scipy.stats import norm

from fathometer.stats.quantiles import mean_estimate, quantile_estimates
from support import round_trips as made

RUNS = 400
SIGMA = 0.8
PS = (0.5, 0.95, 0.99, 0.999)
LOW, HIGH = 0.917, 0.983


def coverage(n, **process):
    """Per figure: how many runs gave an interval without a doubt, and the share of these that held."""
    rng = np.random.default_rng(1)
    hits = {p: [] for p in (*PS, "mean")}
    for _ in range(RUNS):
        x = made.lognormal(rng, n, sigma=SIGMA, **process)
        for p, estimate in zip(PS, quantile_estimates(x, PS), strict=True):
            if estimate.interval and not estimate.doubt:
                hits[p].append(np.exp(SIGMA * norm.ppf(p)) in estimate.interval)
        mean = mean_estimate(x)
        if not mean.doubt:
            hits["mean"].append(np.exp(SIGMA**2 / 2) in mean.interval)
    return {figure: (len(found), float(np.mean(found)) if found else None) for figure, found in hits.items()}


@pytest.mark.parametrize(
    "process",
    [{"time": 1, "share": 0.0}, {"time": 30, "share": 0.25}],
    ids=["independent", "like real traces"],
)
def test_intervals_cover_at_the_articles_length(process):
    for figure, (runs, share) in coverage(40_000, **process).items():
        assert runs > RUNS / 2, figure
        assert LOW <= share <= HIGH, (figure, share)


def test_a_tail_that_correlation_leaves_undecided_is_withheld_or_doubted():
    # 40,000 samples whose correlation time is 150 are worth some hundred and fifty independent ones: no p99.9
    # without a doubt.
    found = coverage(40_000, time=150, share=0.8)
    assert found[0.999][0] < RUNS / 20
    assert LOW <= found[0.5][1] <= HIGH
