"""Means over repetitions, and what is ranked by them; as `crates/fathom-simulate/src/ranking.rs` has it.

A 95 % interval of a mean is Student's, with n - 1 degrees of freedom (NIST/SEMATECH e-Handbook of Statistical
Methods, 7.2.2.1 and 7.3.1): repetitions are independent, and a figure of each is one value. Two things that
met the same repetitions are compared by what they differ by in each. Where they did not, the interval of the
difference is Welch's (Biometrika 34, 1947), with the degrees of freedom of Satterthwaite.

Counts are whole numbers of a step: two repetitions that differ by one request each show no certainty, though
their differences are equal. So what rounding to a step hides, a twelfth of its square (Sheppard) for each of
the two that differ, is added to the variance. Where nothing differs at all, there is nothing to tell.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

WRONG: Final = 0.05
"""An interval lacks its mean by chance in this share of cases."""
Values = Mapping[str, float]
"""By repetition."""


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over repetitions."""

    mean: float
    low: float | None
    """Where its 95 % interval begins; None: there was one repetition."""
    high: float | None
    count: int

    @property
    def is_positive(self) -> bool:
        """Whether it is above 0 for sure: of a single repetition nobody knows what is chance."""
        return self.low is not None and self.low > 0


@dataclass(frozen=True, slots=True)
class Ranked:
    """A place in a ranking."""

    name: str
    rank: int
    """From 1. What cannot be told from the first of a rank shares it; of a single repetition, the order."""
    behind: Mean | None
    """By how much it is more than the best of all, with an interval that is as wide as the ranking's, so that
    both say the same; None: it is the best, or there is nothing to tell."""


def mean(values: Sequence[float], wrong: float = WRONG, step: float = 0.0) -> Mean | None:
    """Of one value a repetition; None of none. `step`: of differences, by how much they can differ at the
    least.
    """
    n = len(values)
    if not n:
        return None
    middle = math.fsum(values) / n
    if n == 1:
        return Mean(middle, None, None, 1)
    if min(values) == max(values):
        # Their sum may be rounded, and they would seem to differ.
        middle = values[0]
    # Each value is the difference of two.
    spread = math.sqrt(_variance(values, step * math.sqrt(2) if any(values) else 0.0) / n)
    return _around(middle, spread, n - 1, n, wrong)


def _variance(values: Sequence[float], step: float) -> float:
    if min(values) == max(values):  # Their mean may be rounded.
        return step**2 / 12
    return float(np.var(np.asarray(values, dtype=float), ddof=1)) + step**2 / 12


def difference(a: Values, b: Values, wrong: float = WRONG, step: float = 0.0) -> Mean | None:
    """By how much `a` is more than `b`: by the repetitions that both have, where those are all of either's;
    else by two means. None: one of them has no value.
    """
    if not a or not b:
        return None
    if a.keys() == b.keys():
        return mean([a[name] - b[name] for name in a], wrong, step)
    middle = math.fsum(a.values()) / len(a) - math.fsum(b.values()) / len(b)
    if min(len(a), len(b)) < 2:
        return Mean(middle, None, None, 1)
    parts = [_variance(list(x.values()), step) / len(x) for x in (a, b)]
    whole = sum(parts)
    squares = sum(part**2 / (len(x) - 1) for part, x in zip(parts, (a, b), strict=True))
    freedom = whole**2 / squares if squares else 1.0
    return _around(middle, math.sqrt(whole), freedom, min(len(a), len(b)), wrong)


def ranked(values: Mapping[str, Values], step: float = 0.0) -> list[Ranked]:
    """The least first. Each is held against the first of the rank before it; what has no value is left
    out. Which two are compared depends on how they came out, so each two could have been: all tests together
    are wrong in 5 % at the most (Dunn, "Multiple comparisons among means", 1961). `step`: by how much values
    can differ at the least.
    """
    means = {name: math.fsum(each.values()) / len(each) for name, each in values.items() if each}
    order = sorted(means, key=lambda name: means[name])
    places: list[Ranked] = []
    first = 0
    wrong = WRONG / max(math.comb(len(order), 2), 1)
    for place, name in enumerate(order):
        if place:
            more = difference(values[name], values[order[first]], wrong, step)
            # Of a single repetition ranks are the order alone, as in the Rust half.
            more_by = None if more is None else more.mean if more.low is None else more.low
            first = place if more_by is not None and more_by > 0 else first
        behind = difference(values[name], values[order[0]], wrong, step) if place else None
        places.append(Ranked(name, first + 1, behind))
    return places


def _around(middle: float, spread: float, freedom: float, count: int, wrong: float) -> Mean:
    if spread <= 0:
        return Mean(middle, middle, middle, count)
    from scipy.special import stdtrit  # Imported late: half a second of a report's start.

    half = float(stdtrit(freedom, 1 - wrong / 2)) * spread
    return Mean(middle, middle - half, middle + half, count)
