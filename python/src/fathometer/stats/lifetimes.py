"""How long connections live, and whether refreshing them would help.

Connections that we closed ourselves, or that were still open when the recording ended or was read, are
censored: they lived at least so long. Leaving them out makes every hazard look as if it rose with age.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fathometer.stats.results import LEVEL, Interval

FEWEST_DEATHS = 8
"""Below this no shape of the hazard is claimed: the interval of a Weibull shape from 8 deaths still spans a
factor of about three."""
EVIDENCE = 0.01
"""One-sided p-value against a constant hazard from which refreshing is advised. Of simulated fleets of
constant hazard 1 % get the advice; from a hundred deaths a shape of 1.5 is found always and one of 1.3 in
85 %, from twenty deaths a shape of 2 in 60 % (tests/stats/test_lifetimes.py)."""
WORTH = 0.05
"""Share of the cost that a refresh age must save to be advised."""


@dataclass(frozen=True, slots=True, eq=False)
class Lives:
    """Connections with their ages, one entry each."""

    age_ns: NDArray[np.float64]
    """At the end, or when last seen. Those of zero are left out by `hazard`."""
    died: NDArray[np.bool_]
    """False: we closed it, or it was open when last seen (censored)."""
    event: NDArray[np.int64] | None = None
    """Which deaths were one event, by number (an outage that takes a hundred connections at once is one
    death's worth of evidence); None: each was its own."""

    @property
    def deaths(self) -> int:
        """Connections that died."""
        return int(self.died.sum())

    @property
    def events(self) -> int:
        """What they died of: no more than deaths."""
        return self.deaths if self.event is None else len(np.unique(self.event[self.died]))


@dataclass(frozen=True, slots=True)
class Hazard:
    """A Weibull distribution fitted by maximum likelihood. Shape above 1: old connections die sooner; 1: age
    does not matter.
    """

    shape: float
    shape_interval: Interval
    scale_ns: float
    deaths: int
    p_value: float
    """Of a hazard that does not rise with age (likelihood ratio against shape 1, one-sided)."""
    oldest_ns: float
    """The oldest connection seen."""


def hazard(lives: Lives, level: float = LEVEL) -> Hazard | None:
    """Fits the censored ages; None with fewer than `FEWEST_DEATHS` events, or all of them at one age.

    Profile likelihood: the scale is known once the shape is, so that one equation in one unknown is left; the
    interval is that of the likelihood ratio (Meeker & Escobar 1998, Statistical Methods for Reliability Data,
    8.3). Deaths that were one event weigh as much as one connection together.
    """
    known = np.isfinite(lives.age_ns) & (lives.age_ns > 0)
    age, died = lives.age_ns[known], lives.died[known]
    event = None if lives.event is None else lives.event[known]
    of = Lives(age, died, event)
    if of.events < FEWEST_DEATHS or np.ptp(age[died]) == 0:
        return None
    # Imported late: a second, which a report without deaths is spared.
    from scipy.optimize import brentq, minimize_scalar
    from scipy.special import chdtrc, chdtri

    weight = np.ones(len(age))
    if event is not None:
        _, which, size = np.unique(event[died], return_inverse=True, return_counts=True)
        weight[died] = 1 / size[which]
    d = of.events
    x = age / age.max()
    log_dead = float((weight[died] * np.log(x[died])).sum())

    def lived(k: float) -> float:
        return float((weight * x**k).sum()) / d

    def log_likelihood(log_shape: float) -> float:
        k = math.exp(log_shape)
        return float(d * log_shape + (k - 1) * log_dead - d * math.log(lived(k)) - d)

    best = minimize_scalar(
        lambda u: -log_likelihood(u), bounds=(-4, 6), method="bounded", options={"xatol": 1e-9}
    )
    at = float(best.x)
    drop = float(chdtri(1, 1 - level)) / 2

    def below(u: float) -> float:
        return log_likelihood(at) - log_likelihood(u) - drop

    low = float(brentq(below, -12, at)) if below(-12) > 0 else -math.inf
    high = float(brentq(below, at, 9)) if below(9) > 0 else math.inf
    k = math.exp(at)
    scale = lived(k) ** (1 / k) * float(age.max())
    beyond = float(chdtrc(1, max(2 * (log_likelihood(at) - log_likelihood(0.0)), 0.0))) / 2
    p_value = beyond if k > 1 else 1 - beyond
    shape = Interval(math.exp(low), math.exp(high) if high < 700 else math.inf, level)
    return Hazard(k, shape, scale, of.deaths, p_value, float(age.max()))


@dataclass(frozen=True, slots=True)
class Refresh:
    """Whether to close connections of a certain age before they die."""

    why: Literal["rises", "few deaths", "constant", "saves little", "beyond what was seen"]
    """Only "rises" is advice."""
    age_ns: float | None = None
    """Age at which to refresh; None where refreshing is not advised."""
    saved: float = 0.0
    """Share of the cost that it saves, 0 where not advised."""
    hazard: Hazard | None = None


def refresh_age(fit: Hazard | None, cost_ratio: float = 10.0) -> Refresh:
    """The age of replacement with the least cost per hour, if the hazard surely rises with age.

    Barlow & Proschan (1965), Mathematical Theory of Reliability, 4.2: a death costs `cost_ratio` times a
    planned refresh; cost rate(T) = (1 S(T) + cost_ratio (1 - S(T))) / integral of S up to T. With a constant
    or falling hazard no age is better than waiting.
    """
    if fit is None:
        return Refresh("few deaths")
    if fit.p_value >= EVIDENCE or fit.shape <= 1:
        return Refresh("constant", hazard=fit)
    from scipy.special import gamma, gammainc  # Imported late: half a second of a report's start.

    k = fit.shape
    t = np.geomspace(0.01, 5, 4000)
    alive = np.exp(-(t**k))
    # The integral of a Weibull survival function is an incomplete gamma function.
    lived = gamma(1 + 1 / k) * gammainc(1 / k, t**k)
    # Of a steep shape it is too small for a number where all are alive: there it is the time itself.
    lived = np.where(lived > 0, lived, t)
    rate = (alive + cost_ratio * (1 - alive)) / lived
    best = int(np.argmin(rate))
    never = cost_ratio / float(gamma(1 + 1 / k))
    saved = 1 - float(rate[best]) / never
    age = float(t[best]) * fit.scale_ns
    if saved < WORTH:
        return Refresh("saves little", hazard=fit)
    if age > fit.oldest_ns:
        return Refresh("beyond what was seen", hazard=fit)
    return Refresh("rises", age, saved, fit)
