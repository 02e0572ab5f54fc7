"""Round trips over time in bounded memory: bins of time, each with its extremes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from fathometer.dataset.follow import NewSamples
from fathometer.dataset.histogram import Ints

BINS: Final = 600
"""Of one series at most: a screen shows no more."""
WIDTH_NS: Final = 1_000_000_000
"""Of a bin at first."""


@dataclass(slots=True)
class Bin:
    """A stretch of time. Of answered samples; all None where there is none."""

    low_ns: int | None = None
    high_ns: int | None = None
    sum_ns: int = 0
    answered: int = 0
    unanswered: int = 0

    @property
    def mean_ns(self) -> int | None:
        """Arithmetic mean, rounded down."""
        return self.sum_ns // self.answered if self.answered else None

    def take(self, low_ns: int | None, high_ns: int | None, sum_ns: int, answered: int, lost: int) -> None:
        """Adds what another bin or some samples say."""
        if low_ns is not None and (self.low_ns is None or low_ns < self.low_ns):
            self.low_ns = low_ns
        if high_ns is not None and (self.high_ns is None or high_ns > self.high_ns):
            self.high_ns = high_ns
        self.sum_ns += sum_ns
        self.answered += answered
        self.unanswered += lost


class BinnedSeries:
    """Bins by the moment of sending. When they would be more than `most`, either they become twice as wide
    (`folds`: the whole time stays in sight) or the oldest go (the last while stays in detail).

    What it holds does not depend on the pieces in which samples came.
    """

    def __init__(self, *, folds: bool, width_ns: int = WIDTH_NS, most: int = BINS) -> None:
        self.width_ns = width_ns
        self._folds = folds
        self._most = most
        self._bins: dict[int, Bin] = {}

    def bins(self) -> list[tuple[int, Bin]]:
        """Each bin with its begin (ns since the Unix epoch), by time; empty ones are left out."""
        return [(key * self.width_ns, self._bins[key]) for key in sorted(self._bins)]

    def add(self, samples: NewSamples) -> None:
        """Counts samples."""
        if samples.sent_ns.size == 0:
            return
        key: Ints = samples.sent_ns // self.width_ns
        order = np.argsort(key, kind="stable")
        key, rtt = key[order], samples.rtt_ns[order]
        keys, first = np.unique(key, return_index=True)
        known = rtt >= 0
        low = np.minimum.reduceat(np.where(known, rtt, np.iinfo(np.int64).max), first)
        high = np.maximum.reduceat(np.where(known, rtt, -1), first)
        total = np.add.reduceat(np.where(known, rtt, 0), first)
        answered = np.add.reduceat(known.astype(np.int64), first)
        lost = np.add.reduceat((~known).astype(np.int64), first)
        columns = (keys, low, high, total, answered, lost)
        for k, lo, hi, t, a, n in zip(*(c.tolist() for c in columns), strict=True):
            self._bins.setdefault(k, Bin()).take(lo if a else None, hi if a else None, t, a, n)
        self._bound()

    def _bound(self) -> None:
        if not self._folds:
            oldest = max(self._bins) - self._most + 1
            for key in [k for k in self._bins if k < oldest]:
                del self._bins[key]
            return
        while max(self._bins) - min(self._bins) >= self._most:
            wider: dict[int, Bin] = {}
            for key, b in self._bins.items():
                one = wider.setdefault(key // 2, Bin())
                one.take(b.low_ns, b.high_ns, b.sum_ns, b.answered, b.unanswered)
            self._bins, self.width_ns = wider, self.width_ns * 2
