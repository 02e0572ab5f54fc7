"""Whether connections die of their age, held against how they were made to die."""

import numpy as np
import pytest
from scipy.stats import binom

from fathometer.findings.ageing import Life, of_age
from support.deaths import by_chance, by_the_clock, of_a_limit
from support.tiers import repeated


def told(make, seed):
    made, _ = make(np.random.default_rng(seed))
    found = of_age([Life("path", life.ended_ns - life.begun_ns, life.ended_ns, life.died) for life in made])
    return found and found.better


@repeated("studies", 12, 60)
@pytest.mark.parametrize("make", [by_chance, by_the_clock])
def test_maintenance_is_no_age_limit(make, studies):
    """With the spreads of ages and moments compared, 45 of 100 were told as one."""
    wrong = sum(told(make, seed) == "age" for seed in range(studies))
    assert wrong <= binom.ppf(0.9998, studies, 0.02)


@repeated("studies", 12, 60)
@pytest.mark.parametrize("chance", [False, True])
def test_a_limit_is_found_from_thirty_deaths(chance, studies):
    found = sum(told(lambda rng: of_a_limit(rng, chance), seed) == "age" for seed in range(studies))
    assert found >= 0.95 * studies
