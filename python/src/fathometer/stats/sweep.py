"""Round-trip time against payload size: a fixed cost and a cost per byte.

Hockney (1994), "The communication challenge for MPP", Parallel Computing 20: time = latency + bytes /
bandwidth; per-size medians, weighted by their relative error. One break is allowed where it pays (a message
that needs more packets or more than the first congestion window), chosen by the Bayesian information
criterion (Schwarz 1978).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FEWEST_SIZES = 3


@dataclass(frozen=True, slots=True)
class Line:
    """One straight piece."""

    from_bytes: float
    to_bytes: float
    fixed: float
    """Unit of the round trips."""
    per_byte: float
    """Unit of the round trips per payload byte (each way)."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """How the round trip grows with the payload."""

    lines: tuple[Line, ...]
    """One, or two where a break is better supported than a single line."""
    break_at: float | None
    """The size at which the second begins."""
    worst_residual: float
    """The largest relative distance of a median from its line."""

    def at(self, size: float) -> float:
        """The fitted round trip."""
        line = next((one for one in self.lines if size <= one.to_bytes), self.lines[-1])
        return line.fixed + line.per_byte * size


def sweep(size: NDArray[np.float64], median: NDArray[np.float64]) -> Sweep:
    """Fits the medians of at least three sizes (bytes of payload, ascending)."""
    if len(size) < FEWEST_SIZES:
        raise ValueError(f"a fit needs at least {FEWEST_SIZES} sizes; there are {len(size)}")
    whole = _line(size, median)
    best: tuple[float, tuple[Line, ...]] = (
        _criterion(_error(size, median, (whole,)), len(size), 2),
        (whole,),
    )
    # A break leaves at least two sizes on either side, and at least one more than its five parameters in all.
    if len(size) >= 6:
        for k in range(2, len(size) - 1):
            pair = (_line(size[:k], median[:k]), _line(size[k:], median[k:]))
            score = _criterion(_error(size, median, pair), len(size), 5)
            # Only a difference of the criterion above 10 is very strong evidence (Kass & Raftery 1995).
            if score < best[0] - 10:
                best = (score, pair)
    lines = best[1]
    residual = float(np.max(np.abs(_fitted(size, lines) - median) / _scale(median)))
    return Sweep(lines, lines[1].from_bytes if len(lines) == 2 else None, residual)


def _line(size: NDArray[np.float64], median: NDArray[np.float64]) -> Line:
    # Weights 1 / median: relative errors are alike for small and large messages.
    scale = _scale(median)
    design = np.column_stack([np.ones_like(size), size]) / scale[:, np.newaxis]
    fixed, per_byte = np.linalg.lstsq(design, median / scale, rcond=None)[0]
    return Line(float(size[0]), float(size[-1]), float(fixed), float(per_byte))


def _fitted(size: NDArray[np.float64], lines: tuple[Line, ...]) -> NDArray[np.float64]:
    fitted = np.empty_like(size)
    for line in lines:
        here = (size >= line.from_bytes) & (size <= line.to_bytes)
        fitted[here] = line.fixed + line.per_byte * size[here]
    return fitted


def _error(size: NDArray[np.float64], median: NDArray[np.float64], lines: tuple[Line, ...]) -> float:
    return float(np.mean(((_fitted(size, lines) - median) / _scale(median)) ** 2))


def _scale(median: NDArray[np.float64]) -> NDArray[np.float64]:
    # What a coarse clock calls zero is weighed like the shortest that it can tell from zero.
    some = median[median > 0]
    return np.maximum(median, float(some.min()) if len(some) else 1.0)


def _criterion(error: float, count: int, parameters: int) -> float:
    # The variance is that of an unbiased estimate: with eight sizes and five parameters the plain criterion
    # sees a break in one noisy sweep of six. A floor of 0.1 % keeps a fit through exact numbers from being
    # infinitely good.
    return count * math.log(max(error * count / (count - parameters), 1e-6)) + parameters * math.log(count)
