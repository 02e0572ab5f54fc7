"""What the statistics of one series must obey, whatever the series.

Equality and rounding: printed figures are rounded, so every law is held with a slack of half a unit in the
last of four significant digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import pairwise

from fathometer.counts import count
from fathometer.findings.consistency.model import ORDER, SHARES, Remark, StatisticsRow, number
from fathometer.stats.quantiles import supported

SLACK = 5e-4
"""Relative; half a unit in the fourth digit."""


def _above(a: float, b: float) -> bool:
    return a > b + SLACK * max(abs(a), abs(b))


def order(s: StatisticsRow) -> Iterator[Remark]:
    """Min <= p50 <= p90 <= ... <= max."""
    have = [name for name in ORDER if name in s.figures]
    for low, high in pairwise(have):
        if _above(s.figures[low], s.figures[high]):
            yield Remark(
                s.row,
                "order of quantiles",
                "impossible",
                f"{s.show(low)} lies above {s.show(high)}, but no series has a smaller "
                f"{high.replace('_', '.')} than {low.replace('_', '.')}",
            )
    # Neighbours may be in order two by two only where each is; with one figure out of place the pairs beyond
    # it matter too.
    for i, low in enumerate(have):
        for high in have[i + 2 :]:
            between = [s.figures[n] for n in have[have.index(low) + 1 : have.index(high)]]
            if _above(s.figures[low], s.figures[high]) and all(
                not _above(s.figures[low], x) and not _above(x, s.figures[high]) for x in between
            ):
                yield Remark(
                    s.row, "order of quantiles", "impossible", f"{s.show(low)} lies above {s.show(high)}"
                )


def mean_within(s: StatisticsRow) -> Iterator[Remark]:
    """Min <= mean <= max."""
    mean = s.figures.get("mean")
    if mean is None:
        return
    if "min" in s.figures and _above(s.figures["min"], mean):
        yield Remark(
            s.row,
            "mean between min and max",
            "impossible",
            f"{s.show('mean')} lies below {s.show('min')}: no mean is smaller than the smallest sample",
        )
    if "max" in s.figures and _above(mean, s.figures["max"]):
        yield Remark(
            s.row,
            "mean between min and max",
            "impossible",
            f"{s.show('mean')} lies above {s.show('max')}: no mean is larger than the largest sample",
        )


def mean_from_quantiles(s: StatisticsRow) -> Iterator[Remark]:
    """The least (and greatest) mean that the quantiles allow: each stretch of the distribution at its lower
    (upper) end.
    """
    mean = s.figures.get("mean")
    if mean is None or "min" not in s.figures:
        return
    have = [n for n in ORDER if n in SHARES and n in s.figures]
    values = [s.figures["min"], *(s.figures[n] for n in have)]
    if any(_above(a, b) for a, b in pairwise(values)) or _above(s.figures["min"], mean) or not have:
        return  # Told by the laws above; a bound from impossible quantiles says nothing new.
    shares = [0.0, *(SHARES[n] for n in have), 1.0]
    least = sum((hi - lo) * v for (lo, hi), v in zip(pairwise(shares), values, strict=True))
    if _above(least, mean):
        yield Remark(
            s.row,
            "mean against quantiles",
            "impossible",
            f"{s.show('mean')} is below {number(round(least, 2))} {s.unit}, the least that min and "
            "quantiles allow",
        )
    top = s.figures.get("max")
    if top is not None and not _above(values[-1], top):
        greatest = sum(
            (hi - lo) * v for (lo, hi), v in zip(pairwise(shares), [*values[1:], top], strict=True)
        )
        if _above(mean, greatest):
            yield Remark(
                s.row,
                "mean against quantiles",
                "impossible",
                f"{s.show('mean')} is above {number(round(greatest, 2))} {s.unit}, the most that "
                "quantiles and max allow",
            )


def spread(s: StatisticsRow) -> Iterator[Remark]:
    """sd^2 <= (max - mean)(mean - min) (Bhatia & Davis 2000); abs(mean - median) <= sd (Hotelling & Solomons
    1932).
    """
    sd, mean = s.figures.get("sd"), s.figures.get("mean")
    if sd is None:
        return
    if sd < 0:
        yield Remark(
            s.row, "standard deviation", "impossible", f"a standard deviation of {number(sd)} is negative"
        )
        return
    if mean is None:
        return
    if {"min", "max"} <= s.figures.keys():
        room = (s.figures["max"] - mean) * (mean - s.figures["min"])
        # The sample's own deviation divides by n - 1, which for a few samples exceeds the bound of the
        # population.
        correction = s.count / (s.count - 1) if s.count and s.count > 1 else 1.0
        if room >= 0 and _above(sd * sd, room * correction):
            yield Remark(
                s.row,
                "standard deviation against range",
                "impossible",
                f"{s.show('sd')} is more than {number(round(math.sqrt(room), 2))} {s.unit}, the most "
                "that min, mean and max allow",
            )
    if "p50" in s.figures and _above(abs(mean - s.figures["p50"]), sd):
        yield Remark(
            s.row,
            "mean against median",
            "impossible",
            f"mean and median are {number(round(abs(mean - s.figures['p50']), 2))} {s.unit} apart, more "
            f"than {s.show('sd')}",
        )
    for name, share in SHARES.items():
        # Cantelli (1928): a p-quantile lies at most sd sqrt(p / (1 - p)) above the mean.
        if name in s.figures and _above(s.figures[name], mean + sd * math.sqrt(share / (1 - share))):
            bound = number(round(mean + sd * math.sqrt(share / (1 - share)), 2))
            yield Remark(
                s.row,
                "quantile against standard deviation",
                "impossible",
                f"{s.show(name)} is above {bound} {s.unit}, the most that mean and sd allow",
            )


def one_sample_forces_spread(s: StatisticsRow) -> Iterator[Remark]:
    """A single maximum forces sd >= (max - mean) / sqrt(n - 1): all other samples at one value is the least
    spread.
    """
    mean, top, n = s.figures.get("mean"), s.figures.get("max"), s.count
    if mean is None or top is None or not n or n < 2 or top <= mean:
        return
    least = (top - mean) / math.sqrt(n - 1)
    sd = s.figures.get("sd")
    if sd is not None:
        if _above(least, sd * math.sqrt(n / (n - 1))):
            yield Remark(
                s.row,
                "standard deviation against maximum",
                "impossible",
                f"{s.show('max')} alone forces a standard deviation of at least {number(round(least))} "
                f"{s.unit}, but {s.show('sd')} is printed",
            )
    elif least > mean:
        yield Remark(
            s.row,
            "standard deviation against maximum",
            "implausible",
            f"{s.show('max')} alone forces a standard deviation of at least {number(round(least))} "
            f"{s.unit}, {least / mean:.1f} times the mean: "
            "the series cannot be called consistent, and its mean and deviation say little without the "
            "outliers' story",
        )


def mean_with_maximum(s: StatisticsRow) -> Iterator[Remark]:
    """N samples of which one is the maximum: mean >= min + (max - min) / n."""
    if not s.count or not {"mean", "min", "max"} <= s.figures.keys():
        return
    mean, low, top = (s.figures[n] for n in ("mean", "min", "max"))
    least = low + (top - low) / s.count
    if not _above(low, mean) and _above(least, mean):
        yield Remark(
            s.row,
            "mean against maximum",
            "impossible",
            f"{s.show('max')} among {count(s.count, 'sample')} makes the mean at least "
            f"{number(round(least, 2))} {s.unit}, but {s.show('mean')} is printed",
        )


def count_supports(s: StatisticsRow) -> Iterator[Remark]:
    """A quantile beyond what the count can bound (Wilks 1941)."""
    if s.count is None:
        return
    for name, share in SHARES.items():
        if name in s.figures and s.count * (1 - share) < 1:
            yield Remark(
                s.row,
                "count against tail",
                "implausible",
                f"{count(s.count, 'sample')} cannot show {name.replace('_', '.')}: fewer than one "
                "sample lies beyond it",
            )
        elif name in s.figures and not supported(share, s.count) and share > 0.9:
            yield Remark(
                s.row,
                "count against tail",
                "implausible",
                f"{count(s.count, 'sample')} cannot give {name.replace('_', '.')} an upper bound "
                f"(95 % confidence needs {math.ceil(math.log(0.05) / math.log(share)):,})",
            )


def signs(s: StatisticsRow) -> Iterator[Remark]:
    """Round trips are positive."""
    for name, value in s.figures.items():
        if value < 0:
            yield Remark(
                s.row,
                "sign",
                "impossible",
                f"{s.show(name)}: a round trip is not negative (a marker of a lost sample?)",
            )
        elif value == 0 and name in {"mean", "p50"}:
            yield Remark(
                s.row,
                "zero",
                "implausible",
                f"{s.show(name)}: a round trip of zero smells of a missing value or of rounding",
            )


LAWS: tuple[Callable[[StatisticsRow], Iterator[Remark]], ...] = (
    signs,
    order,
    mean_within,
    mean_from_quantiles,
    mean_with_maximum,
    spread,
    one_sample_forces_spread,
    count_supports,
)
"""Every law of a single row."""
