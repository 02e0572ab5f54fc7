"""A cycle that a series of block means holds a whole number of times, as a week holds seven days.

What such a cycle does to a block's mean is no chance: another stretch of as many cycles has it too. Left in,
it was taken for the spread of independent blocks, and intervals of eight cycles held the truth always.

The cycle is a line of the periodogram (Fourier frequencies, so whole numbers of cycles) that stands above
what lies around it. Each ordinate of noise is a multiple of a chi-square of two degrees of freedom, so its
ratio to the mean of m neighbours exceeds R with probability (1 + R / m) ** -m: Brockwell & Davis (1991),
"Time Series: Theory and Methods", section 10.2. Neighbours and not all, because the noise need not be white.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FEWEST_CYCLES = 6
"""With fewer the neighbours of the line are trends of the whole series."""
FEWEST_BLOCKS = 64
"""With fewer there is no room for neighbours."""
LEVEL = 1e-5
"""Chance of a false line at each frequency, of some hundred: one series in 500 showed one without a cycle."""
HARMONICS = 3
"""A cycle is no sine: its second and third harmonics are taken with it."""
_NEAR = np.array([-5, -4, -3, -2, 2, 3, 4, 5])
"""The next ordinates on either side hold some of a line that is a little off a whole number."""


def cycle_of(means: NDArray[np.float64]) -> int | None:
    """How many cycles the series holds, by the line that stands out most; None: none does."""
    if len(means) < FEWEST_BLOCKS:
        return None
    power = np.abs(np.fft.rfft(means - means.mean())) ** 2
    lines = np.arange(FEWEST_CYCLES, len(power) + _NEAR[0])
    around = power[lines[:, np.newaxis] + _NEAR].mean(axis=1)
    if not (around > 0).all():
        return None
    ratio = power[lines] / around
    most = int(np.argmax(ratio))
    chance = (1 + ratio[most] / len(_NEAR)) ** -len(_NEAR)
    return int(lines[most]) if chance < LEVEL else None


def without_cycle(means: NDArray[np.float64], cycle: int) -> NDArray[np.float64]:
    """The same series less that cycle and its harmonics; its mean is kept."""
    spectrum = np.fft.rfft(means)
    spectrum[[k for k in range(cycle, HARMONICS * cycle + 1, cycle) if k < len(spectrum)]] = 0
    return np.asarray(np.fft.irfft(spectrum, len(means)), dtype=np.float64)
