"""Simulated round trips with known truth: noise of every kind without a change, and noise with spikes."""

from __future__ import annotations

import numpy as np

BASE = 1.2e6
SPREAD = 0.03
"""Of the noise, as a share of `BASE`, where a kind has no other."""
CORRELATIONS = (0.8, 0.9, 0.95, 0.99)
WHITE = (0.0, 0.1, 0.25, 0.5)
"""Shares of the variance that are independent from sample to sample."""


def wander(rng: np.random.Generator, count: int, correlation: float) -> np.ndarray:
    """An AR(1) process of deviation one that has run for ever."""
    from scipy.signal import lfilter

    innovations = rng.normal(size=count) * np.sqrt(1 - correlation**2)
    innovations[0] = rng.normal()
    return lfilter([1.0], [1.0, -correlation], innovations)


def noise(
    count: int, seed: int, correlation: float = 0.9, tail: float = 0.01, base: float = BASE
) -> np.ndarray:
    """An AR(1) process plus independent one-sided noise, about 3 % of `base` in all; `tail`: share of samples
    that are 30 % to several hundred percent above.
    """
    from scipy.signal import lfilter

    rng = np.random.default_rng(seed)
    innovations = rng.normal(size=count) * np.sqrt(1 - correlation**2)
    wandering = lfilter([1.0], [1.0, -correlation], innovations)
    rtt = base * (1 + 0.025 * wandering + 0.025 * np.abs(rng.normal(size=count)))
    far = rng.random(count) < tail
    rtt[far] += base * (0.3 + 0.5 * rng.pareto(2.5, far.sum()))
    return rtt


def correlated(count: int, seed: int, correlation: float, white: float) -> np.ndarray:
    """AR(1) of which a share `white` of the variance is independent noise; 3 % of the level in all."""
    rng = np.random.default_rng([seed, count])
    wandering = np.sqrt(1 - white) * wander(rng, count, correlation)
    return BASE * (1 + SPREAD * (wandering + np.sqrt(white) * rng.normal(size=count)))


def garch(rng: np.random.Generator, count: int, reaction: float, memory: float) -> np.ndarray:
    """GARCH(1,1) of variance one: its loudness comes and goes, its level never does."""
    out = rng.normal(size=count)
    variance, last = 1.0, 0.0
    for at in range(count):
        variance = (1 - reaction - memory) + reaction * last * last + memory * variance
        last = out[at] = np.sqrt(variance) * out[at]
    return out


def unchanged(kind: str, count: int, seed: int) -> np.ndarray:
    """A series of one of `KINDS`, in which nothing changes."""
    rng = np.random.default_rng([seed, count, *kind.encode()])
    turns = np.arange(count) / count + rng.random()
    if kind == "one day":
        return BASE * (1 + 0.1 * np.sin(2 * np.pi * turns) + 0.02 * rng.normal(size=count))
    if kind == "five days":
        return BASE * (1 + 0.1 * np.sin(10 * np.pi * turns) + 0.02 * rng.normal(size=count))
    if kind == "busy days, calm nights":
        day = np.maximum(0, np.sin(6 * np.pi * turns))
        return BASE * (1 + 0.2 * day + 0.005 * rng.normal(size=count))
    if kind == "days, correlated":
        return BASE * (1 + 0.1 * np.sin(4 * np.pi * turns) + SPREAD * wander(rng, count, 0.9))
    if kind == "rounded, mostly one value":
        return np.round(5 + 0.2 * rng.normal(size=count)) * 1e6
    if kind == "rounded, correlated":
        return np.round(BASE * (1 + SPREAD * wander(rng, count, 0.9)) / 2e4) * 2e4
    if kind == "rounded, few values":
        return np.round(np.exp(0.3 * rng.normal(size=count)) * 3) * 1e6
    if kind == "GARCH":
        return BASE * (1 + SPREAD * garch(rng, count, 0.1, 0.85))
    if kind == "GARCH, long memory":
        return BASE * (1 + 0.02 * garch(rng, count, 0.15, 0.84))
    if kind == "Pareto 1.5":
        return BASE * (1 + 0.05 * rng.pareto(1.5, size=count))
    if kind == "Pareto 3":
        return BASE * (1 + 0.05 * rng.pareto(3, size=count))
    if kind == "log-normal, 30 %":
        return BASE * np.exp(0.3 * rng.normal(size=count))
    if kind == "constant but for 2 %":
        return np.where(rng.random(count) < 0.02, 1.1e6, 1e6)
    if kind == "constant but for 30 %":
        return 1e6 + 1e3 * np.where(rng.random(count) < 0.3, rng.integers(1, 4, size=count), 0)
    if kind == "two values":
        return np.where(rng.random(count) < 0.5, 1e6, 2e6)
    if kind == "two values, one in five":
        return np.where(rng.random(count) < 0.2, 2e6, 1e6)
    raise KeyError(kind)


KINDS = (
    "one day",
    "five days",
    "busy days, calm nights",
    "days, correlated",
    "rounded, mostly one value",
    "rounded, correlated",
    "rounded, few values",
    "GARCH",
    "GARCH, long memory",
    "Pareto 1.5",
    "Pareto 3",
    "log-normal, 30 %",
    "constant but for 2 %",
    "constant but for 30 %",
    "two values",
    "two values, one in five",
)


def generators():
    """Every kind of series without a change: name, and what makes one of a length and a seed."""
    for correlation in CORRELATIONS:
        for white in WHITE:
            name = f"AR(1) {correlation:g}, {white:.0%} white"
            yield name, lambda count, seed, c=correlation, w=white: correlated(count, seed, c, w)
    for kind in KINDS:
        yield kind, lambda count, seed, kind=kind: unchanged(kind, count, seed)
