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


def two_paths(rng, one, factor, count, runs=1, apart_ns=0):
    """Both, a query a second over each; `apart_ns`: over the second path so much later, while the drift is
    another.
    """
    a, b = [], []
    for run in range(runs):
        began = run * 10 * count * SECOND + np.arange(count) * SECOND
        shared = shared_drift(rng, count)
        others = shared if apart_ns == 0 else shared_drift(rng, count)
        a.append((began, 10 * MS * np.exp(shared + OWN * rng.standard_normal(count))))
        later = began + apart_ns + rng.integers(0, SECOND // 2, count)
        b.append((later, factor * 10 * MS * np.exp(others + OWN * rng.standard_normal(count))))
    return of_times(one, "a", a), of_times(one, "b", b)


def told(a, b):
    """(the difference, judged alone where any difference matters, whether it was of pairs)."""
    unjudged, pairing = difference(a, b)
    (one,) = judged([unjudged], 0.0)
    return one, pairing == "paired in time"
