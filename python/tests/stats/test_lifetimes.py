import math

import numpy as np
import pytest
from scipy import stats as oracle
from scipy.integrate import quad

from fathometer.stats.lifetimes import Hazard, Lives, hazard, refresh_age
from fathometer.stats.results import Interval
from support.tiers import repeated


def weibull(age, died):
    return hazard(Lives(age, died))


def fleet(rng, shape, places, span):
    """Each place has one connection after another; the last of each is open when the recording is read."""
    ages, died = [], []
    for _ in range(places):
        time = 0.0
        while time < span:
            life = rng.weibull(shape)
            ages.append(min(life, span - time))
            died.append(time + life <= span)
            time += life
    return Lives(np.array(ages), np.array(died))


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
    assert refresh_age(None).why == "few deaths"


def test_no_refresh_where_age_does_not_matter():
    age = np.random.default_rng(3).exponential(100, 500)
    assert refresh_age(weibull(age, np.ones(500, dtype=bool))).age_ns is None


def test_refresh_age_is_the_cheapest_by_integration():
    fit = Hazard(3.0, Interval(2.5, 3.5), 100.0, 500, 1e-9, 250.0)

    def rate(t):
        alive = math.exp(-((t / 100) ** 3))
        return (alive + 10 * (1 - alive)) / quad(lambda u: math.exp(-((u / 100) ** 3)), 0, t)[0]

    found = refresh_age(fit, cost_ratio=10)
    grid = np.linspace(5, 200, 2000)
    assert found.age_ns == pytest.approx(grid[np.argmin([rate(t) for t in grid])], rel=0.01)
    assert found.saved == pytest.approx(1 - rate(found.age_ns) / rate(5000), rel=0.01)


def test_connections_that_are_still_open_count():
    # 1,000 connections of constant hazard, 91 of them dead when the recording is killed. The others vanished,
    # and what was left looked as if none outlived 11 minutes: "refresh them before that, it saves 30 %".
    # That they are in the list is tested in tests/findings/test_lives.py.
    ends = np.sort(np.random.default_rng(3).exponential(7_000, 1_000))
    last = ends[90]
    lives = Lives(np.minimum(ends, last), ends <= last)
    assert lives.deaths == 91
    assert refresh_age(hazard(lives)).why == "constant"
    # Deaths alone rise with age in any recording that ends.
    assert refresh_age(hazard(Lives(ends[:91], np.ones(91, dtype=bool)))).why == "rises"


@repeated("number", 100, 500)
def test_constant_hazard_rarely_gets_advice(number):
    rng = np.random.default_rng(4)
    fleets = [fleet(rng, 1.0, *((20, 5.0) if i % 2 else (200, 0.3))) for i in range(number)]
    advised = sum(refresh_age(hazard(f)).age_ns is not None for f in fleets)
    assert advised <= oracle.binom.ppf(0.9998, number, 0.01)


def test_few_deaths_rarely_get_advice():
    # About fifteen deaths: by chance alone the fitted hazard rises in half of such fleets, and steeply enough
    # for an age in one of five. Nominal 1 %: above so many has a chance of 0.02 %.
    rng = np.random.default_rng(8)
    fits = [hazard(fleet(rng, 1.0, 10, 1.5)) for _ in range(300)]
    assert sum(fit is not None and fit.shape > 1 for fit in fits) >= 100
    assert sum(refresh_age(fit).age_ns is not None for fit in fits) <= oracle.binom.ppf(0.9998, 300, 0.01)


def test_rising_hazard_is_found_with_enough_deaths():
    rng = np.random.default_rng(5)
    found = sum(refresh_age(hazard(fleet(rng, 1.5, 20, 5.0))).age_ns is not None for _ in range(60))
    assert found >= 57


def test_an_outage_that_takes_all_is_one_death():
    # Forty connections of one age, taken by one outage, and a dozen that died when they would: an outage is
    # no proof that age kills.
    rng = np.random.default_rng(6)
    ages = np.concatenate([rng.exponential(50, 12), np.full(40, 60.0) + rng.normal(0, 0.01, 40)])
    event = np.concatenate([np.arange(12), np.full(40, 99)])
    died = np.ones(52, dtype=bool)
    assert refresh_age(hazard(Lives(ages, died))).why == "rises"
    assert refresh_age(hazard(Lives(ages, died, event))).why == "constant"


@pytest.mark.parametrize("ages", [[], [0.0], [math.nan] * 20, [0.0] * 20, [5.0] * 20, [1.0, 2.0]])
def test_odd_ages_are_borne(ages):
    lives = Lives(np.array(ages, dtype=float), np.ones(len(ages), dtype=bool))
    assert hazard(lives) is None
