"""Is it age that connections die of? Or moments, whatever the age; or chance?

Deaths of many moments always agree better in age than in time, since ages are shorter than a study:
compared by their spreads, maintenance at random moments was told as an age limit in 45 of 100 simulated
studies. Two tests say what chance does:

- *Who goes first.* When connections die while others live on, an age limit takes the oldest. Given the
  moment and how many died, any of those alive might have been they, if age does not matter: a permutation
  test, which holds however the moments fall (the score of Cox's partial likelihood with the rank of age as
  covariate: Cox & Oakes 1984, Analysis of Survival Data, 8.4).
- *One age.* Where all that lived died at once, or there was only one, nobody was left to compare with. With
  a constant hazard the total time on test at each death is uniform (Barlow & Proschan 1969, "A note on tests
  for monotone failure rate based on incomplete data", Ann. Math. Stat. 40). Moments that a clock makes pass
  that test too, so that evenly spaced ones are left open.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

EVIDENCE = 0.01
"""One-sided p-value from which age is said to matter; `benches/lifetimes.py` counts how often wrongly."""
TRIALS = 1999
AT_ONCE = 1_000_000
"""Ages that are dealt anew at one time: all trials of 10,000 connections together took 0.3 GiB."""
FEW = 20
"""Strata from which on the permutation test uses the normal distribution instead of trials."""
CLOCK_S = (
    *(60 * m for m in (1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30)),
    *(3_600 * h for h in (1, 2, 3, 4, 6, 8, 12)),
    *(86_400 * d for d in range(1, 15)),
)
"""What clocks make things happen every so often: parts of an hour and of a day, and days."""
CLOCK_SHARE, DAILY_SHARE = 0.01, 0.05
"""How far from its time a clock's work may be, as a share of the period; of days (a window of hours)."""


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """Connections from their beginning to their end, or to when they were last seen; one entry each."""

    begun_ns: NDArray[np.int64]
    ended_ns: NDArray[np.int64]
    died: NDArray[np.bool_]
    """False: we closed it, it was open when last seen, or what ended it is known to be no matter of age."""
    event: NDArray[np.int64]
    """Of those that died: which deaths were one event, by number."""
    path: NDArray[np.int64]
    """Whose connection it is, by number: only connections of one path are compared."""


@dataclass(frozen=True, slots=True)
class Ages:
    """Whether connections die of their age."""

    better: Literal["age", "either", "chance"]
    """An age limit; it or a moment; neither is shown to be: the deaths fall as chance makes them."""
    told_by: Literal["order", "alike"]
    """Who went first, or that the ages are alike."""
    p_value: float
    """Of what was seen or more, if age does not matter; one-sided."""
    events: int
    typical_ns: float
    """Median age at death, each event counted once."""
    every_ns: int | None = None
    """The period of a clock that the events keep to."""


def ages(spans: Spans) -> Ages | None:
    """None without a death."""
    if not spans.died.any():
        return None
    of = {int(e): np.flatnonzero(spans.died & (spans.event == e)) for e in np.unique(spans.event[spans.died])}
    age_ns = (spans.ended_ns - spans.begun_ns).astype(np.float64)
    typical = float(np.median([age_ns[dead].mean() for dead in of.values()]))
    strata = [s for dead in of.values() for s in _strata(spans, dead)]
    # The least that the test could say: that in each stratum the oldest went.
    least = math.exp(-sum(_log_ways(len(s.ages), s.deaths) for s in strata))
    if least < EVIDENCE:
        p_value = _order(strata)
        return Ages("age" if p_value < EVIDENCE else "chance", "order", p_value, len(of), typical)
    p_value = _alike(age_ns, list(of.values()))
    if p_value >= EVIDENCE:
        return Ages("chance", "alike", p_value, len(of), typical)
    every_ns = _clock(np.sort([spans.ended_ns[dead].min() for dead in of.values()]))
    # Connections that began together are of one age at any moment.
    one_generation = np.ptp(spans.begun_ns[spans.died]) < typical / 2
    better: Literal["age", "either"] = "either" if one_generation or every_ns is not None else "age"
    return Ages(better, "alike", p_value, len(of), typical, every_ns)


@dataclass(frozen=True, slots=True, eq=False)
class _Stratum:
    """Connections of one path that lived when some of them died."""

    ages: NDArray[np.float64]
    """Ranks of their ages, ties at their mean; those that died first."""
    deaths: int


def _strata(spans: Spans, dead: NDArray[np.intp]) -> list[_Stratum]:
    """One for each path that an event touched; those where all died, or all were of one age, tell nothing."""
    from scipy.stats import rankdata  # Imported late: a second, which a report without deaths is spared.

    made = []
    for path in np.unique(spans.path[dead]):
        mine = dead[spans.path[dead] == path]
        at = int(spans.ended_ns[mine].min())
        alive = (spans.path == path) & (spans.begun_ns < at) & (spans.ended_ns >= at)
        # Who began again within the event was not there when it began.
        mine = mine[alive[mine]]
        alive[mine] = False
        order = np.concatenate([mine, np.flatnonzero(alive)])
        if len(mine) < len(order) and np.ptp(spans.begun_ns[order]) > 0:
            made.append(_Stratum(rankdata(at - spans.begun_ns[order]), len(mine)))
    return made


def _log_ways(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _order(strata: list[_Stratum]) -> float:
    """p-value of the victims' ranks, each stratum's in units of its standard deviation."""
    z = 0.0
    units = []
    for s in strata:
        n, k = len(s.ages), s.deaths
        # The variance of a mean of k drawn out of n without putting back.
        sd = math.sqrt(float(s.ages.var()) / k * (n - k) / (n - 1))
        z += (float(s.ages[:k].mean()) - float(s.ages.mean())) / sd
        units.append((s, sd))
    if len(strata) >= FEW:
        return math.erfc(z / math.sqrt(len(strata)) / math.sqrt(2)) / 2
    rng = np.random.default_rng(1)
    by_chance = np.zeros(TRIALS)
    for s, sd in units:
        rows = max(1, AT_ONCE // len(s.ages))
        for first in range(0, TRIALS, rows):
            part = by_chance[first : first + rows]
            draws = rng.permuted(np.tile(s.ages, (len(part), 1)), axis=1)[:, : s.deaths].mean(axis=1)
            part += (draws - s.ages.mean()) / sd
    # A hair's breadth: sums of equal draws differ in their last digits.
    return float((1 + np.sum(by_chance >= z - 1e-9)) / (1 + TRIALS))


def _alike(age_ns: NDArray[np.float64], events: list[NDArray[np.intp]]) -> float:
    """p-value of the total times on test at the events, each the mean of its deaths."""
    ordered = np.sort(age_ns)
    upto = np.concatenate([[0.0], np.cumsum(ordered)])

    def on_test(age: NDArray[np.float64]) -> NDArray[np.float64]:
        younger = np.searchsorted(ordered, age)
        total: NDArray[np.float64] = upto[younger] + age * (len(ordered) - younger)
        return total

    share = np.sort([float(on_test(age_ns[dead]).mean()) for dead in events]) / upto[-1]
    # The last is where the test ended, and no draw (with nobody left alive its share is 1 for certain).
    share = share[:-1]
    n = len(share)
    if n == 0:
        return 1.0
    rest = n - float(share.sum())
    if n >= FEW:
        return math.erfc((n / 2 - rest) / math.sqrt(n / 12) / math.sqrt(2)) / 2
    # The sum of n uniform numbers (Irwin 1927; Hall 1927), from its upper end.
    terms = ((-1) ** k * math.comb(n, k) * (rest - k) ** n for k in range(math.floor(rest) + 1))
    return min(max(float(sum(terms)) / math.factorial(n), 0.0), 1.0)


def _clock(at_ns: NDArray[np.int64]) -> int | None:
    """The period of a clock that the gaps between events keep to; some may be several periods long."""
    gaps = np.diff(at_ns).astype(np.float64)
    if len(gaps) == 0:
        return None
    for seconds in reversed(CLOCK_S):
        period = seconds * 1e9
        times = np.round(gaps / period)
        most = period * (DAILY_SHARE if seconds >= 86_400 else CLOCK_SHARE)
        # What comes at each eleventh hour and at no other is no clock's.
        if times.min() == 1 and np.all(np.abs(gaps - times * period) <= most):
            return seconds * 1_000_000_000
    return None
