"""Round trips that no author of a statistic would make: ties, two values, strong correlation without white
noise, regimes, heavy tails, zeros. Each with the quantiles and the mean that it has in truth.

A generator makes many series at once: `series(rng, runs, n)[run, sample]`, integer ns. Its truth is from so
many draws of the same distribution that their own error is a twentieth of an interval.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.signal import lfilter

from fathometer.dataset.histogram import bucket_of
from fathometer.dataset.rollup import BUCKET_BITS, SHIFT, Counted, added
from fathometer.findings.parts import to_blocks
from fathometer.stats.blocks import MOST, SHORTEST
from fathometer.stats.rollup import rollup_estimates, rollup_mean

BASE_NS = 500_000
DRAWS = 2_000_000
PS = (0.5, 0.95, 0.99)
SECOND = 1_000_000_000


@dataclass(frozen=True)
class Generator:
    """One process."""

    name: str
    series: Callable
    """series(rng, runs, n)."""


def ar(rng, runs, n, rho):
    """A stationary normal AR(1), without any white noise."""
    lead = int(min(10 / (1 - rho), 2000)) if rho else 0
    x = lfilter([1], [1, -rho], rng.standard_normal((runs, n + lead)) * np.sqrt(1 - rho * rho), axis=1)
    return x[:, lead:]


def switching(rng, runs, n, leave, enter):
    """A stationary two-state Markov chain: True in the state entered with `enter` and left with `leave`."""
    state = rng.random(runs) < enter / (enter + leave)
    draw = rng.random((n, runs))
    made = np.empty((n, runs), dtype=bool)
    for t in range(n):
        state = np.where(state, draw[t] >= leave, draw[t] < enter)
        made[t] = state
    return made.T


def ns(values):
    return np.asarray(np.rint(BASE_NS * values), dtype=np.int64)


def _garch(rng, runs, n):
    lead = 300
    noise = rng.standard_normal((n + lead, runs))
    variance, last = np.full(runs, 1.0), np.zeros(runs)
    made = np.empty((n + lead, runs))
    for t in range(n + lead):
        variance = 0.05 + 0.10 * last**2 + 0.85 * variance
        last = np.sqrt(variance) * noise[t]
        made[t] = last
    return ns(np.maximum(1 + 0.05 * made[lead:].T, 0.1))


def _diurnal(rng, runs, n):
    phase = rng.random((runs, 1))
    day = np.sin(2 * np.pi * (np.arange(n) / (n / 8) + phase))
    return ns(np.exp(0.1 * day + 0.3 * ar(rng, runs, n, 0.5)))


GENERATORS = (
    Generator("independent lognormal", lambda r, k, n: ns(np.exp(0.8 * ar(r, k, n, 0.0)))),
    Generator("AR 0.8", lambda r, k, n: ns(np.exp(0.8 * ar(r, k, n, 0.8)))),
    Generator("AR 0.95", lambda r, k, n: ns(np.exp(0.8 * ar(r, k, n, 0.95)))),
    Generator(
        "ties: rounded to ms",
        lambda r, k, n: np.rint(3 * np.exp(0.4 * ar(r, k, n, 0.5))).astype(int) * 1_000_000,
    ),
    Generator("two values", lambda r, k, n: np.where(ar(r, k, n, 0.5) < 0.05, 1_000_000, 2_000_000)),
    Generator(
        "regimes",
        lambda r, k, n: ns(
            np.where(switching(r, k, n, 0.01, 0.005), 1.6, 1.0) * np.exp(0.1 * ar(r, k, n, 0.3))
        ),
    ),
    Generator("Pareto 2.5", lambda r, k, n: ns(r.random((k, n)) ** (-1 / 2.5))),
    Generator("Pareto 1.5", lambda r, k, n: ns(r.random((k, n)) ** (-1 / 1.5))),
    Generator("diurnal", _diurnal),
    Generator("GARCH", _garch),
    Generator(
        "bursts",
        lambda r, k, n: ns(
            np.where(switching(r, k, n, 0.05, 0.001), 5.0, 1.0) * np.exp(0.2 * ar(r, k, n, 0.0))
        ),
    ),
    Generator(
        "zeros", lambda r, k, n: np.where(r.random((k, n)) < 0.3, 0, ns(np.exp(0.8 * ar(r, k, n, 0.5))))
    ),
    Generator(
        "far and narrow",
        lambda r, k, n: np.rint(70_000_000 + 10_000 * ar(r, k, n, 0.0)).astype(np.int64),
    ),
    Generator("constant", lambda _, k, n: np.full((k, n), BASE_NS, dtype=np.int64)),
)
BY_NAME = {g.name: g for g in GENERATORS}


@cache
def truth(name: str) -> dict[str, float]:
    """The quantiles of `PS` and the mean, from independent draws (short series: the ends of a long one)."""
    rng = np.random.default_rng(99)
    chains = 20_000
    # Chains far apart are independent; of each only as much is taken as keeps this quick.
    x = BY_NAME[name].series(rng, chains, DRAWS // chains).ravel()
    figures = {f"p{100 * p:g}": float(np.quantile(x, p, method="inverted_cdf")) for p in PS}
    if name.startswith("Pareto"):
        tail = float(name.split()[1])
        return figures | {"mean": BASE_NS * tail / (tail - 1)}
    return figures | {"mean": float(x.mean())}


def shipped(values_ns, parts=None):
    """The blocks that a report makes of a series: a rollup's rows by equal stretches."""
    number = parts or max(min(MOST, len(values_ns) // SHORTEST), 1)
    lengths = [len(c) for c in np.array_split(values_ns, number)]
    stretch = np.repeat(np.arange(number), lengths)
    bucket = bucket_of(values_ns) >> SHIFT << SHIFT
    cell, count, total = added(stretch << BUCKET_BITS | bucket, np.ones_like(stretch), values_ns)
    rows = Counted(cell >> BUCKET_BITS, cell & ((1 << BUCKET_BITS) - 1), count, total)
    return to_blocks([rows], [np.cumsum([0, *lengths[:-1]]) * SECOND])


def coverage(generator, runs, n, seed=1):
    """By figure: how many runs gave an interval without a doubt, how many of these held the truth, and what
    doubts the others had. Of the functions that a report calls.
    """
    known = truth(generator.name)
    given = dict.fromkeys(known, 0)
    held = dict.fromkeys(known, 0)
    doubts = {k: Counter() for k in known}
    for x in generator.series(np.random.default_rng(seed), runs, n):
        blocks = shipped(x)
        estimates = dict(zip((f"p{100 * p:g}" for p in PS), rollup_estimates(blocks, PS), strict=True))
        for figure, e in (estimates | {"mean": rollup_mean(blocks)}).items():
            if e.doubt is not None:
                doubts[figure][str(e.doubt.code)] += 1
            elif e.interval is not None:
                given[figure] += 1
                # No more than floating point is forgiven: an interval reaches to the ends of its buckets.
                held[figure] += e.interval.low - 1e-6 <= known[figure] <= e.interval.high + 1e-6
    return given, held, doubts
