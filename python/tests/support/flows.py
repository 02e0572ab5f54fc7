"""Runs of several connections, each of which keeps one of a few ways for life: the report's figures, and the
truth about all possible connections.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from fathometer.findings.comparisons import comparisons
from fathometer.findings.scenarios import scenarios
from support.alike import recording
from support.generators import BASE_NS, ar
from support.recordings import START

EVERY_NS = 10_000_000
FIGURES = ("mean", "p50", "p95")


def lognormal(rng, runs, n):
    return np.exp(0.3 * ar(rng, runs, n, 0.0))


def correlated(rng, runs, n):
    return np.exp(0.3 * ar(rng, runs, n, 0.8))


def drifting(rng, runs, n):
    """All connections share a part of what moves them."""
    return np.exp(0.2 * ar(rng, 1, n, 0.95) + 0.2 * ar(rng, runs, n, 0.3))


@dataclass(frozen=True)
class Flows:
    """Connections over ways with these extra delays, all equally likely."""

    connections: int
    longer_ns: tuple[int, ...]
    noise: object = lognormal
    samples: int = 500
    """Of each connection."""

    def draw(self, rng):
        """The samples of a run, in order of time, and the connection of each."""
        ways = np.array(self.longer_ns)[rng.integers(len(self.longer_ns), size=self.connections)]
        rtt = BASE_NS * self.noise(rng, self.connections, self.samples) + ways[:, np.newaxis]
        values = np.rint(rtt).astype(np.int64).T.ravel()
        return values, np.tile(np.arange(self.connections), self.samples)

    def truth(self):
        """The true figures of all possible connections."""
        noise = self.noise(np.random.default_rng(99), 2_000, 200).ravel() * BASE_NS
        every = np.concatenate([noise + longer for longer in self.longer_ns])
        quantiles = {f: float(np.quantile(every, int(f[1:]) / 100)) for f in FIGURES if f != "mean"}
        return {"mean": float(every.mean()), **quantiles}


SHORT = (0, 300_000, 600_000, 900_000)
FLOWS = {
    "8 on two ways": Flows(8, (0, 2_600_000)),
    "8 on three ways": Flows(8, (0, 400_000, 900_000), correlated),
    "8 on four ways": Flows(8, SHORT, drifting),
    "4 on four ways": Flows(4, SHORT),
    "8, one in four longer": Flows(8, (0, 0, 0, 1_000_000)),
    "16 on five ways": Flows(16, (0, 200_000, 300_000, 500_000, 900_000), correlated),
}


def scenario(flows, rng, label="path", start_ns=START):
    """A run of them as a report has it."""
    values, connection = flows.draw(rng)
    every = EVERY_NS // flows.connections
    (one,) = scenarios([recording(label, values, start_ns, every, connection)])
    return one


def coverage(flows, runs, seed=1):
    """Number of runs in which connections seemed to differ, and, by figure, how many of these held the
    truth.
    """
    rng, truth, held, differ = np.random.default_rng(seed), flows.truth(), Counter(), 0
    for _ in range(runs):
        one = scenario(flows, rng)
        if one.units is None:
            continue
        differ += 1
        for figure in FIGURES:
            interval = one.estimates[figure].interval
            held[figure] += interval is not None and interval.low <= truth[figure] <= interval.high
    return differ, held


def false_verdicts(flows, trials, seed=1):
    """Number of comparisons of two runs of the same path that found a difference in any figure."""
    rng, false = np.random.default_rng(seed), 0
    hour = 3_600_000_000_000
    for _ in range(trials):
        pair = [scenario(flows, rng, label, START + n * hour) for n, label in enumerate("ab")]
        (versus,) = comparisons(pair)
        false += any(d.differs for d in versus.differences)
    return false
