"""Reports of scenarios that are alike, and of one that is not: what their verdicts say."""

import numpy as np

from fathometer.dataset.histogram import Histogram
from fathometer.findings.comparisons import comparisons
from fathometer.findings.model import Key, Scenario
from fathometer.findings.scenarios import SHARE
from fathometer.stats.family import METRICS, judged
from fathometer.stats.rollup import rollup_estimates, rollup_mean
from fathometer.stats.runs import compare_runs
from support.generators import BY_NAME, GENERATORS, shipped


def scenario(name, values_ns, runs=()):
    """A scenario of one recording, as `findings.scenarios` makes it of its blocks."""
    blocks = shipped(values_ns)
    estimates = {"mean": rollup_mean(blocks)}
    estimates |= dict(zip(SHARE, rollup_estimates(blocks, tuple(SHARE.values())), strict=True))
    return Scenario(
        name=name,
        key=Key(name, "tcp", 64, 1_000_000_000),
        runs=runs,
        rtt=Histogram.of(values_ns),
        sent=len(values_ns),
        unsent=0,
        unanswered=0,
        corrupt=0,
        late=0,
        estimates=estimates,
        of_runs={},
        worst=None,
        blocks=blocks,
        calendar=None,
        first=None,
    )


def false_report(rng, scenarios=12, n=2_000):
    """Whether a report of scenarios that are alike calls any two of them different."""
    generator = GENERATORS[rng.integers(len(GENERATORS))]
    series = generator.series(rng, scenarios, n)
    versus = comparisons([scenario(f"s{i}", x) for i, x in enumerate(series)])
    return any(d.differs for v in versus for d in v.differences)


def found_shift(rng, name, shift=1.2, n=10_000):
    """Whether the median or the mean of a scenario that takes so much longer is called slower."""
    a, b = BY_NAME[name].series(rng, 2, n)
    (versus,) = comparisons([scenario("a", a), scenario("b", np.rint(b * shift).astype(np.int64))])
    return "slower" in {versus.of("p50").verdict, versus.of("mean").verdict}


def false_runs(rng, runs, interleaved):
    """Whether two scenarios of runs that are alike are called different in any metric. Runs differ by a
    tenth, and one in ten by three times as much.
    """
    level = 0.1 * rng.standard_normal((2, runs)) * np.where(rng.random((2, runs)) < 0.1, 3.0, 1.0)
    figures = 500 * np.exp(level + 0.05 * rng.standard_normal((len(METRICS), 2, runs)))
    found = [
        compare_runs(metric, a, b, interleaved=interleaved)
        for metric, (a, b) in zip(METRICS, figures, strict=True)
    ]
    return any(d.differs for d in judged(found))
