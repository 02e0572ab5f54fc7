import numpy as np
import pytest
from scipy.stats import binom

from fathometer.stats.segments import ending, means_of, table
from support import round_trips as made
from support.tiers import repeated

ARTICLE = [813.14, 888.09, 925.49, 955.87, 789.58]
CHANGES = [9.2, 4.2, 3.3, -17.4]


def test_the_articles_table_is_rebuilt():
    rtt = np.concatenate([np.full(1000, 300.0), *(np.full(100, mean) for mean in ARTICLE)])
    rows = table(means_of(rtt))
    assert [r.mean for r in rows] == pytest.approx(ARTICLE)
    assert [(r.first, r.last) for r in rows] == [(500, 401), (400, 301), (300, 201), (200, 101), (100, 1)]
    assert rows[0].change is None
    # As printed, in percent with one decimal.
    assert [round(100 * r.change, 1) for r in rows[1:]] == CHANGES


def test_short_connections_have_short_tables():
    assert len(table(means_of(np.ones(250)))) == 2
    assert ending(means_of(np.ones(150))) is None
    assert ending(means_of(np.ones(600))).p_value is None


@repeated("ends", 60, 400)
def test_ordinary_end_is_rarely_unusual(ends):
    rng = np.random.default_rng(3)
    low = [ending(means_of(made.lognormal(rng, 8000))).p_value < 0.05 for _ in range(ends)]
    # Placebo p-values are discrete.
    assert sum(low) <= binom.ppf(0.999, ends, 0.05)


def test_the_articles_drop_is_seen():
    rng = np.random.default_rng(4)
    seen = 0
    for _ in range(50):
        rtt = made.lognormal(rng, 20_000, sigma=0.1)
        rtt[-100:] *= 1 - 0.174
        seen += ending(means_of(rtt)).p_value < 0.05
    assert seen >= 45
