"""Simulated round trips with known truth: correlated noise, and a tail that comes in bursts or alone."""

from __future__ import annotations

import numpy as np

BASE = 1.2e6


def noise(
    count: int, seed: int, correlation: float = 0.9, tail: float = 0.01, base: float = BASE
) -> np.ndarray:
    """An AR(1) process plus independent one-sided noise, about 3 % of `base` in all; `tail`: share of samples
    that are 30 % to several hundred percent above.
    """
    from scipy.signal import lfilter

    rng = np.random.default_rng(seed)
    innovations = rng.normal(size=count) * np.sqrt(1 - correlation**2)
    wander = lfilter([1.0], [1.0, -correlation], innovations)
    rtt = base * (1 + 0.025 * wander + 0.025 * np.abs(rng.normal(size=count)))
    far = rng.random(count) < tail
    rtt[far] += base * (0.3 + 0.5 * rng.pareto(2.5, far.sum()))
    return rtt
