"""How long connections live, and whether refreshing them would help.

Connections that we closed ourselves, or that were still alive when the run ended, are censored, not dead.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fathometer.stats.results import LEVEL, Interval

FEWEST_DEATHS = 8
"""Below this no shape of the hazard is claimed: the interval of a Weibull shape from 8 deaths still spans a
factor of about three."""


@dataclass(frozen=True, slots=True)
class Survival:
    """Kaplan and Meier's curve (1958), and Nelson and Aalen's cumulative hazard (1972, 1978)."""

    age_ns: tuple[float, ...]
    """Ages at which a connection died, ascending."""
    alive: tuple[float, ...]
    """Share that lived longer than that."""
    interval: tuple[Interval, ...]
    """Of each share: log-log intervals by Greenwood's variance (Kalbfleisch & Prentice 2002, 1.4), which stay
    between 0 and 1."""
    hazard: tuple[float, ...]
    """Cumulative hazard."""
    at_risk: tuple[int, ...]
    deaths: int
    censored: int


def survival(
    age_ns: NDArray[np.float64],
    died: NDArray[np.bool_],
    entered_ns: NDArray[np.float64] | None = None,
    level: float = LEVEL,
) -> Survival:
    """The survival curve of connections. `died` is False where we closed it or the run ended first.

    `entered_ns`: the age at which a connection came under observation (left truncation), 0 where it was seen
    from its opening.
    """
    from scipy.special import ndtri  # Imported late: half a second of a report's start.

    entered = np.zeros_like(age_ns) if entered_ns is None else entered_ns
    z = -float(ndtri((1 - level) / 2))
    ages, alive, intervals, hazards, risks = [], [], [], [], []
    s, h, greenwood = 1.0, 0.0, 0.0
    for age in np.unique(age_ns[died]):
        risk = int(np.sum((entered < age) & (age_ns >= age)))
        dead = int(np.sum(died & (age_ns == age)))
        s *= 1 - dead / risk
        h += dead / risk
        greenwood += dead / (risk * (risk - dead)) if risk > dead else math.inf
        ages.append(float(age))
        alive.append(s)
        hazards.append(h)
        risks.append(risk)
        intervals.append(_log_log(s, greenwood, z, level))
    deaths = int(died.sum())
    return Survival(
        tuple(ages),
        tuple(alive),
        tuple(intervals),
        tuple(hazards),
        tuple(risks),
        deaths,
        len(age_ns) - deaths,
    )


def _log_log(s: float, greenwood: float, z: float, level: float) -> Interval:
    if not 0 < s < 1 or math.isinf(greenwood):
        return Interval(0.0, 1.0 if s > 0 else s, level)
    spread = z * math.sqrt(greenwood) / abs(math.log(s))
    return Interval(s ** math.exp(spread), s ** math.exp(-spread), level)


@dataclass(frozen=True, slots=True)
class Weibull:
    """A Weibull distribution fitted by maximum likelihood. Shape above 1: old connections die sooner; 1: age
    does not matter.
    """

    shape: float
    shape_interval: Interval
    scale_ns: float
    deaths: int


def weibull(age_ns: NDArray[np.float64], died: NDArray[np.bool_], level: float = LEVEL) -> Weibull | None:
    """Fits the censored ages; None with fewer than `FEWEST_DEATHS` deaths, or all of them at one age.

    Profile likelihood: the scale is known once the shape is, so that one equation in one unknown is left; the
    interval is that of the likelihood ratio (Meeker & Escobar 1998, Statistical Methods for Reliability Data,
    8.3).
    """
    from scipy.optimize import brentq, minimize_scalar  # Imported late: half a second of a report's start.
    from scipy.special import chdtri

    d = int(died.sum())
    if d < FEWEST_DEATHS or np.ptp(age_ns[died]) == 0:
        return None
    x = age_ns / age_ns.max()
    log_dead = float(np.log(x[died]).sum())

    def log_likelihood(log_shape: float) -> float:
        k = math.exp(log_shape)
        return float(d * log_shape + (k - 1) * log_dead - d * math.log(float((x**k).sum()) / d) - d)

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
    scale = float((x**k).sum() / d) ** (1 / k) * float(age_ns.max())
    return Weibull(k, Interval(math.exp(low), math.exp(high) if high < 700 else math.inf, level), scale, d)


@dataclass(frozen=True, slots=True)
class Refresh:
    """Whether to close connections of a certain age before they die."""

    age_ns: float | None
    """Age at which to refresh; None where refreshing is not advised."""
    saved: float
    """Share of the cost that it saves, 0 where not advised."""
    said: str


def refresh_age(fit: Weibull | None, cost_ratio: float = 10.0) -> Refresh:
    """The age of replacement with the least cost per hour, if the hazard rises with age at all.

    Barlow & Proschan (1965), Mathematical Theory of Reliability, 4.2: a death costs `cost_ratio` times a
    planned refresh; cost rate(T) = (1 S(T) + cost_ratio (1 - S(T))) / integral of S up to T. With a constant
    or falling hazard no age is better than waiting.
    """
    if fit is None:
        return Refresh(
            None,
            0.0,
            f"too few deaths (at least {FEWEST_DEATHS}) to say whether age matters, so no refresh age is "
            "advised",
        )
    if fit.shape_interval.low <= 1:
        return Refresh(
            None,
            0.0,
            f"the hazard is not shown to rise with age (Weibull shape {fit.shape:.2f}, "
            f"{fit.shape_interval.low:.2f} to {fit.shape_interval.high:.2f}): "
            "refreshing would not prevent deaths",
        )
    from scipy.special import gamma, gammainc  # Imported late: half a second of a report's start.

    k = fit.shape
    t = np.geomspace(0.01, 5, 4000)
    alive = np.exp(-(t**k))
    # The integral of a Weibull survival function is an incomplete gamma function.
    lived = gamma(1 + 1 / k) * gammainc(1 / k, t**k)
    rate = (alive + cost_ratio * (1 - alive)) / lived
    best = int(np.argmin(rate))
    never = cost_ratio / float(gamma(1 + 1 / k))
    saved = 1 - float(rate[best]) / never
    if saved <= 0.01:
        return Refresh(None, 0.0, "no refresh age would cost less than letting connections die")
    return Refresh(
        float(t[best]) * fit.scale_ns,
        saved,
        f"the hazard rises with age (Weibull shape {k:.1f}, at least {fit.shape_interval.low:.1f})",
    )
