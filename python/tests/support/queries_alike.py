"""The same query over two paths of which one takes by a known factor longer, asked side by side while both
are slow and fast together.
"""

from dataclasses import replace

import numpy as np

from fathometer.dataset import open_recordings
from fathometer.findings.analyse import analyse
from fathometer.findings.databases import databases, wall_of
from fathometer.findings.databases_compared import difference
from fathometer.stats.family import judged
from fathometer.stats.rollup import rollup_estimates
from fathometer.stats.series import from_series
from support.queries import MS, recording, walls

SECOND = 10**9
YEAR = 31_536_000 * SECOND
DRIFT, DRIFT_S = 0.3, 40.0
"""Of what both share, a logarithm: its standard deviation, and after how long it is another."""
OWN = 0.1
"""Of each query."""


def template(directory):
    """A query over a path as it is read, whose times are to be others."""
    recording(directory, walls(1, 9, 10), label="path", source={"query": "SELECT 1"})
    (one,) = databases(analyse(open_recordings([directory])).scenarios)
    return one


def of_times(one, name, every):
    """The same with these runs: of each when its queries began, and how long they took, ns."""
    (q,) = one.runs
    runs = tuple(
        replace(
            q,
            started_ns=began.astype(np.int64),
            wall_ns=wall.astype(np.int64),
            counted=np.ones(len(wall), dtype=np.bool_),
        )
        for began, wall in every
    )
    (median,) = rollup_estimates(from_series(wall_of(runs)), (0.5,))
    return replace(one, path=name, runs=runs, wall={"p50": median})


def shared_drift(rng, count, step_s=1.0):
    """What slows both down: an autoregression of the first order."""
    kept = np.exp(-step_s / DRIFT_S)
    moved = DRIFT * np.sqrt(1 - kept**2) * rng.standard_normal(count)
    level = [DRIFT * rng.standard_normal()]
    for step in moved[1:]:
        level.append(kept * level[-1] + step)
    return np.array(level)


def two_paths(rng, one, factor, count, runs=1):
    """Both, a query a second over each."""
    a, b = [], []
    for run in range(runs):
        began = run * 10 * count * SECOND + np.arange(count) * SECOND
        shared = shared_drift(rng, count)
        a.append((began, 10 * MS * np.exp(shared + OWN * rng.standard_normal(count))))
        later = began + rng.integers(0, SECOND // 2, count)
        b.append((later, factor * 10 * MS * np.exp(shared + OWN * rng.standard_normal(count))))
    return of_times(one, "a", a), of_times(one, "b", b)


def of_other_hours(one):
    """The same queries, as if they had been asked a year later: nothing is shared with anything."""
    return replace(one, runs=tuple(replace(q, started_ns=q.started_ns + YEAR) for q in one.runs))


def told(a, b):
    """(the difference, judged alone where any difference matters, whether it was of pairs)."""
    unjudged, pairing = difference(a, b)
    (one,) = judged([unjudged], 0.0)
    return one, pairing == "paired in time"


def counted(one, factor, trials, count, runs, *, apart=False, seed=5):
    """How many of the reports tell the two apart, how many intervals hold the factor, how wide they are."""
    rng, differ, held, width = np.random.default_rng(seed), 0, 0, 0.0
    for _ in range(trials):
        a, b = two_paths(rng, one, factor, count, runs)
        d, is_paired = told(a, of_other_hours(b) if apart else b)
        assert is_paired is not apart
        differ += d.differs
        held += d.ratio_interval.low <= factor <= d.ratio_interval.high
        width += (d.ratio_interval.high - d.ratio_interval.low) / trials
    return differ, held, width
