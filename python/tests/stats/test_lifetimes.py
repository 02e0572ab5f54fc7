import math

import numpy as np
import pytest
from scipy import stats as oracle
from scipy.integrate import quad

from fathometer.stats.lifetimes import Weibull, refresh_age, survival, weibull
from fathometer.stats.results import Interval

# Freireich et al. (1963), the 6-MP arm: Kalbfleisch & Prentice print its Kaplan-Meier estimate.
MP_WEEKS = np.array(
    [6, 6, 6, 6, 7, 9, 10, 10, 11, 13, 16, 17, 19, 20, 22, 23, 25, 32, 32, 34, 35], dtype=float
)
MP_DIED = np.array([1, 1, 1, 0, 1, 0, 1, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0], dtype=bool)
MP_ALIVE = [0.857, 0.807, 0.753, 0.690, 0.627, 0.538, 0.448]


def test_kaplan_meier_of_the_published_leukaemia_trial():
    found = survival(MP_WEEKS, MP_DIED)
    assert found.age_ns == (6, 7, 10, 13, 16, 22, 23)
    assert found.alive == pytest.approx(MP_ALIVE, abs=5e-4)
    assert found.at_risk == (21, 17, 15, 12, 11, 7, 6)
    assert (found.deaths, found.censored) == (9, 12)


def test_intervals_are_scipys():
    ecdf = oracle.ecdf(oracle.CensoredData.right_censored(MP_WEEKS, ~MP_DIED)).sf
    theirs = ecdf.confidence_interval(method="log-log")
    found = survival(MP_WEEKS, MP_DIED)
    assert [i.low for i in found.interval] == pytest.approx(theirs.low.evaluate(np.array(found.age_ns)))
    assert [i.high for i in found.interval] == pytest.approx(theirs.high.evaluate(np.array(found.age_ns)))


def test_nelson_aalen_is_the_running_sum():
    found = survival(MP_WEEKS, MP_DIED)
    assert found.hazard[-1] == pytest.approx(3 / 21 + 1 / 17 + 1 / 15 + 1 / 12 + 1 / 11 + 1 / 7 + 1 / 6)


def test_connections_seen_late_do_not_count_before():
    late = survival(np.array([5.0, 8.0]), np.array([True, True]), np.array([0.0, 6.0]))
    assert late.at_risk == (1, 1)


def test_weibull_is_scipys_maximum():
    rng = np.random.default_rng(1)
    age = rng.weibull(1.7, 150) * 40
    limit = rng.uniform(10, 80, 150)
    seen, died = np.minimum(age, limit), age <= limit
    shape, _, scale = oracle.weibull_min.fit(oracle.CensoredData.right_censored(seen, ~died), floc=0)
    found = weibull(seen, died)
    assert found.shape == pytest.approx(shape, rel=1e-3)
    assert found.scale_ns == pytest.approx(scale, rel=1e-3)
    assert found.shape in found.shape_interval


def test_weibull_interval_covers():
    rng = np.random.default_rng(2)
    held = sum(
        1.5 in weibull(rng.weibull(1.5, 30), np.ones(30, dtype=bool)).shape_interval for _ in range(300)
    )
    # Binomial(300, 0.95): below 273 has a chance of 0.1 %. The likelihood ratio is slightly liberal for 30.
    assert held >= 270


def test_few_deaths_have_no_shape():
    assert weibull(np.arange(1.0, 8), np.ones(7, dtype=bool)) is None
    assert weibull(np.full(20, 3.0), np.ones(20, dtype=bool)) is None
    assert refresh_age(None).age_ns is None


def test_no_refresh_where_age_does_not_matter():
    age = np.random.default_rng(3).exponential(100, 500)
    assert refresh_age(weibull(age, np.ones(500, dtype=bool))).age_ns is None


def test_refresh_age_is_the_cheapest_by_integration():
    fit = Weibull(3.0, Interval(2.5, 3.5), 100.0, 500)

    def rate(t):
        alive = math.exp(-((t / 100) ** 3))
        return (alive + 10 * (1 - alive)) / quad(lambda u: math.exp(-((u / 100) ** 3)), 0, t)[0]

    found = refresh_age(fit, cost_ratio=10)
    grid = np.linspace(5, 200, 2000)
    assert found.age_ns == pytest.approx(grid[np.argmin([rate(t) for t in grid])], rel=0.01)
    assert found.saved == pytest.approx(1 - rate(found.age_ns) / rate(5000), rel=0.01)
