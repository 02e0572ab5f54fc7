"""The log-linear histogram: the one mergeable aggregate of the project.

Below 2,048 ns a bucket is the value itself; above, 2,048 buckets an octave, so that a bucket is narrower than
0.05 % of its value. 2^42 ns (73 minutes) fills the last bucket; longer values are counted there. The bucket
numbers are part of the recording format (``schema/recording.md``) and equal those of
``crates/fathom-core/src/histogram.rs``; the idea is HdrHistogram's (Tene).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

SUB_BITS: Final = 11
SUB_BUCKETS: Final = 1 << SUB_BITS
MAX_NS: Final = (1 << 42) - 1
"""The largest value with a bucket of its own, in ns."""
_FIRST: Final = SUB_BUCKETS * (1023 + SUB_BITS - 1)
"""What a float's exponent, with its bias of 1,023, adds to the number of a bucket."""
MAX_SHIFT: Final = SUB_BITS
"""The coarsest histogram has one bucket an octave."""


def bucket_of(values_ns: npt.ArrayLike) -> Ints:
    """The bucket of each value in ns; negative values (which no round trip has) count as 0."""
    values = np.clip(np.asarray(values_ns, dtype=np.int64), 0, MAX_NS)
    # Values below 2^53 have their own float. Its exponent is the position of the highest bit, and the bits
    # after it are those that a bucket goes by.
    large = (values.astype(np.float64).view(np.int64) >> 52 - SUB_BITS) - _FIRST
    return np.where(values < SUB_BUCKETS, values, large)


def bucket_low(buckets: npt.ArrayLike) -> Ints:
    """The smallest value of each bucket, in ns; of bucket 65,536, which does not exist, the end of the last
    one.
    """
    bucket = np.asarray(buckets, dtype=np.int64)
    octave = np.maximum(bucket // SUB_BUCKETS - 1, 0)
    low: Ints = (bucket - SUB_BUCKETS * octave) << octave
    return low


def supports(count: int, q: float) -> bool:
    """Whether so many values support a percentile.

    That is, whether with 95 % confidence at least one of them lies beyond it, ``1 - q^n >= 0.95`` (Wilks,
    "Determination of sample sizes for setting tolerance limits", 1941). Five values support a median, 59
    the 95th percentile, 299 the 99th, 2,995 p99.9 and 29,956 p99.99.
    """
    return q <= 0.0 or count * math.log(q) <= math.log(0.05)


@dataclass(frozen=True, slots=True)
class Quantile:
    """A quantile from a histogram: a value, and the bounds between which the exact one lies. All in ns."""

    value_ns: int
    low_ns: int
    high_ns: int


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """Counts by bucket, with exact count, extremes and moments. Integers throughout, so merging is exact.

    Attributes:
        buckets: numbers of the buckets that count something, ascending; where ``shift`` > 0 the number of the
            first of
            the ``2**shift`` fine buckets that stand together.
        counts: values in each.
        min_ns: smallest value, exact; None in an empty histogram.
        max_ns: largest value, exact; None in an empty histogram.
        sum_ns: sum of all values.
        sum_of_squares: sum of their squares, in ns²; None where a source (a peer's histogram) does not have
            it.
        shift: 0 is the format's own resolution; each step halves it.
        totals_ns: exact sum of the values of each bucket; None where a source does not have it, or where
            the sum of all does not fit into 64 bits.
    """

    buckets: Ints
    counts: Ints
    min_ns: int | None
    max_ns: int | None
    sum_ns: int
    sum_of_squares: int | None
    shift: int = 0
    totals_ns: Ints | None = None

    @classmethod
    def empty(cls, shift: int = 0) -> Self:
        """No values."""
        none = np.zeros(0, dtype=np.int64)
        return cls(none, none, None, None, 0, 0, shift)

    @classmethod
    def of(cls, values_ns: npt.ArrayLike, shift: int = 0) -> Self:
        """Of values in ns; negative ones count as 0."""
        values = np.maximum(np.asarray(values_ns, dtype=np.int64), 0)
        if values.size == 0:
            return cls.empty(shift)
        buckets, place, counts = np.unique(
            bucket_of(values) >> shift << shift, return_inverse=True, return_counts=True
        )
        low, high = int(values.min()), int(values.max())
        away = values - low
        # Exact in int64 while 2^53 or so is not passed; else in Python's integers.
        if int(away.max()) ** 2 * values.size < 1 << 62:
            first, second = int(away.sum()), int((away * away).sum())
        else:
            first, second = sum(away.tolist()), sum(v * v for v in away.tolist())
        n = values.size
        total = first + n * low
        totals: Ints | None = None
        if total < 1 << 63:
            totals = np.zeros(buckets.size, dtype=np.int64)
            np.add.at(totals, place, values)
        return cls(
            buckets,
            counts.astype(np.int64),
            low,
            high,
            total,
            second + 2 * low * first + n * low * low,
            shift,
            totals,
        )

    @classmethod
    def merge(cls, parts: Iterable[Self]) -> Self:
        """All the parts together, as coarse as the coarsest of them."""
        every = list(parts)
        shift = max((h.shift for h in every), default=0)
        full = [h for h in every if h.count]
        if not full:
            return cls.empty(shift)
        buckets, place = np.unique(
            np.concatenate([h.buckets >> shift << shift for h in full]), return_inverse=True
        )
        counts = np.zeros(buckets.size, dtype=np.int64)
        np.add.at(counts, place, np.concatenate([h.counts for h in full]))
        squares = [h.sum_of_squares for h in full]
        totals: Ints | None = None
        known = [h.totals_ns for h in full if h.totals_ns is not None]
        if len(known) == len(full) and sum(h.sum_ns for h in full) < 1 << 63:
            totals = np.zeros(buckets.size, dtype=np.int64)
            np.add.at(totals, place, np.concatenate(known))
        return cls(
            buckets,
            counts,
            min(h.min_ns for h in full if h.min_ns is not None),
            max(h.max_ns for h in full if h.max_ns is not None),
            sum(h.sum_ns for h in full),
            sum(s for s in squares if s is not None) if None not in squares else None,
            shift,
            totals,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Histogram):
            return NotImplemented
        mine = (self.shift, self.min_ns, self.max_ns, self.sum_ns, self.sum_of_squares)
        theirs = (other.shift, other.min_ns, other.max_ns, other.sum_ns, other.sum_of_squares)
        same = np.array_equal(self.buckets, other.buckets) and np.array_equal(self.counts, other.counts)
        return mine == theirs and same

    __hash__ = None  # type: ignore[assignment] # arrays inside

    @property
    def count(self) -> int:
        """Number of values."""
        return int(self.counts.sum())

    @property
    def lows_ns(self) -> Ints:
        """Smallest value of each bucket."""
        return bucket_low(self.buckets)

    @property
    def highs_ns(self) -> Ints:
        """Largest value of each bucket; of the very last one, which is open above, the exact maximum."""
        highs: Ints = bucket_low(self.buckets + (1 << self.shift)) - 1
        if self.max_ns is not None and self.max_ns > MAX_NS:
            highs[-1] = self.max_ns
        return highs

    @property
    def mean_ns(self) -> float | None:
        """Arithmetic mean, exact to rounding."""
        return self.sum_ns / self.count if self.count else None

    @property
    def stddev_ns(self) -> float | None:
        """Sample standard deviation (n - 1); needs two values."""
        n = self.count
        if n < 2 or self.sum_of_squares is None:
            return None
        # n·Σx² - (Σx)² in integers: no cancellation, however small the spread beside the mean.
        return math.sqrt((n * self.sum_of_squares - self.sum_ns**2) / (n * (n - 1)))

    def quantile(self, q: float) -> Quantile | None:
        """The value below or at which a share ``q`` lies (nearest rank); None of an empty histogram.

        The value is the mean of its bucket where that is known (exact where a bucket holds one value), else
        its middle; neither it nor its bounds lie outside the exact extremes.
        """
        quantiles = self.quantiles([q])
        return quantiles[0] if quantiles else None

    def quantiles(self, qs: Sequence[float]) -> tuple[Quantile, ...]:
        """As `quantile`, several at once; an empty tuple of an empty histogram."""
        n = self.count
        if n == 0 or self.min_ns is None or self.max_ns is None:
            return ()
        ranks = [min(max(math.ceil(q * n), 1), n) for q in qs]
        at = np.searchsorted(np.cumsum(self.counts), ranks)
        lows, highs = self.lows_ns, self.highs_ns
        quantiles = []
        for i in at.tolist():
            low, high = max(int(lows[i]), self.min_ns), min(int(highs[i]), self.max_ns)
            if self.totals_ns is not None:
                middle = round(int(self.totals_ns[i]) / int(self.counts[i]))
            else:
                # The middle is the bucket's, as the Rust half has it, not that of the clipped bounds.
                middle = int(lows[i]) + (min(int(highs[i]), MAX_NS) - int(lows[i])) // 2
            quantiles.append(Quantile(min(max(middle, self.min_ns), self.max_ns), low, high))
        return tuple(quantiles)

    def supported_quantile(self, q: float) -> Quantile | None:
        """As `quantile`, where the count supports it (`supports`)."""
        return self.quantile(q) if supports(self.count, q) else None

    def count_above(self, threshold_ns: int) -> tuple[int, int]:
        """How many values are greater than a threshold: at least, and at most (its own bucket is
        undecided).
        """
        surely = int(self.counts[self.lows_ns > threshold_ns].sum())
        perhaps = int(self.counts[self.highs_ns > threshold_ns].sum())
        return surely, perhaps

    def coarser(self, shift: int) -> Histogram:
        """The same values at a lower resolution; `shift` is absolute, not a step."""
        if shift < self.shift:
            raise ValueError(f"a histogram of shift {self.shift} cannot be refined to {shift}")
        if shift > MAX_SHIFT:
            raise ValueError(f"shift {shift} is above {MAX_SHIFT}, where an octave is one bucket")
        return Histogram.merge([self, Histogram.empty(shift)])


def grouped_quantile(group: Ints, bucket: Ints, count: Ints, q: float, shift: int = 0) -> tuple[Ints, Floats]:
    """The middle of the bucket of one quantile for each group of a long table of counts, in ns.

    Args:
        group: key of each row, any order.
        bucket: its bucket.
        count: its count, above 0.
        q: share, nearest rank.
        shift: the buckets' coarseness.

    Returns:
        The keys, ascending, and a value for each.
    """
    order = np.lexsort((bucket, group))
    group, bucket, count = group[order], bucket[order], count[order]
    keys, first = np.unique(group, return_index=True)
    if keys.size == 0:
        return keys, np.zeros(0)
    running = np.cumsum(count)
    before = running[first] - count[first]
    total = np.add.reduceat(count, first)
    rank = np.clip(np.ceil(q * total).astype(np.int64), 1, total)
    at = np.searchsorted(running, before + rank)
    low = bucket_low(bucket[at])
    high = np.minimum(bucket_low(bucket[at] + (1 << shift)) - 1, MAX_NS)
    return keys, (low + (high - low) // 2).astype(np.float64)
