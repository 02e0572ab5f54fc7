"""Synthetic round trips with known quantiles, and correlation like that of the traces in shared/data.

There, ranks of the round trips (level shifts taken out by a running median of 201) correlate 0.13 to 0.36
with their neighbour and 0.03 to 0.2 at 20 samples: a quarter of the variance is slow, with a correlation time
of some 30 samples, and the rest is noise.
"""

import numpy as np
from scipy.signal import lfilter


def gaussian(rng, n, time, share):
    """A stationary normal series: `share` of its variance is slow (an AR(1) with this correlation time), the
    rest is white."""
    rho = np.exp(-1 / time)
    lead = int(10 * time)
    slow = lfilter([1], [1, -rho], rng.standard_normal(n + lead) * np.sqrt(1 - rho * rho))[lead:]
    return np.sqrt(share) * slow + np.sqrt(1 - share) * rng.standard_normal(n)


def lognormal(rng, n, *, time=30, share=0.25, sigma=0.8):
    """exp(sigma z): its p-quantile is exp(sigma z_p), its mean exp(sigma^2 / 2)."""
    return np.exp(sigma * gaussian(rng, n, time, share))
