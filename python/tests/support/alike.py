"""Reports of two paths that are alike, and of one that is slower, as `fathom report` makes them: rollups of
recordings, the scenarios of `findings.scenarios`, the verdicts of `findings.comparisons`; with one to twenty
runs, side by side or one after the other.
"""

from types import SimpleNamespace

import numpy as np

from fathometer.dataset.by_connection import SLICES, ConnectionTally, by_connection
from fathometer.dataset.histogram import bucket_of
from fathometer.dataset.rollup import BUCKET_BITS, SHIFT, Cells, PathCounts, PathKey, Rollup, added
from fathometer.dataset.selection import ALL
from fathometer.dataset.steps import step_of
from fathometer.findings.comparisons import comparisons
from fathometer.findings.scenarios import scenarios
from support.generators import BY_NAME, SECOND
from support.recordings import START

KEY = PathKey(64, False, 0, False)
UNLIKE = 0.1
"""By how much runs of one path differ, where they do: the standard deviation of their logarithms."""


def recording(label, values_ns, start_ns=START, interval_ns=SECOND, connection=None):
    """A recording as an analysis opens it: its rollup, its counts, its manifest. `connection`: of each
    sample; None: a single one.
    """
    values = np.asarray(values_ns, dtype=np.int64)
    n = len(values)
    sent = start_ns + np.arange(n, dtype=np.int64) * interval_ns
    step_ns = step_of(int(sent[0]), int(sent[-1]))
    step = sent // step_ns
    bucket = bucket_of(values) >> SHIFT << SHIFT
    key, number, total = added((step - step[0]) << BUCKET_BITS | bucket, np.ones(n, dtype=np.int64), values)
    cells = Cells((key >> BUCKET_BITS) + step[0], key & ((1 << BUCKET_BITS) - 1), number, total)
    ends = int(sent[0]), int(sent[-1]), int(values.min()), int(values.max())
    rollup = Rollup(
        step_ns,
        (PathCounts(KEY, n, n, 0, 0, *ends),),
        (cells,),
        1 if connection is None else len(np.unique(connection)),
    )
    ends = {
        "path": SimpleNamespace(start=None, to=None, via=None, tags={}),
        "host_id": None,
        "host_name": None,
        "target": None,
    }
    manifest = SimpleNamespace(
        id=f"{label} {start_ns}",
        mode="tcp",
        size=64,
        interval_ns=interval_ns,
        started_ns=start_ns,
        marks=(),
        **ends,
    )
    return SimpleNamespace(
        label=label,
        manifest=manifest,
        rollup=rollup,
        totals=rollup.totals(),
        unsent=0,
        lost_here=0,
        openings=None,
        connections=(),
        by_connection=lambda _: None if connection is None else counted(values, connection),
    )


def counted(values, connection):
    """The samples of each connection, as a scan counts them."""
    slices = np.arange(len(values)) * SLICES // len(values)
    cells = (connection << BUCKET_BITS | bucket_of(values) >> SHIFT << SHIFT) + 1
    order = np.argsort(cells, kind="stable")
    tally = ConnectionTally()
    rows = added(cells[order], np.ones_like(values), values[order])
    tally.count(rows, connection, slices, bucket_of(values))
    return by_connection({KEY: tally}, ALL)


def measured(paths, *, side_by_side):
    """The scenarios of paths, each a list of the series of its runs; `side_by_side`: at the same time, else
    in turn.
    """
    recordings = []
    for ordinal, (label, runs) in enumerate(paths.items()):
        for run, values in enumerate(runs):
            turn = run if side_by_side else run * len(paths) + ordinal
            # A run an hour at least, none beginning before the last one is over.
            slot = max(3_600, 2 * max(len(v) for every in paths.values() for v in every)) * SECOND
            recordings.append(recording(label, values, START + turn * slot + ordinal * 1_000_000))
    return scenarios(recordings)


def runs_of(rng, name, runs, n, unlike=0.0):
    """Series of so many runs of one path that differ by `unlike`, `n` samples in all of them together."""
    series = BY_NAME[name].series(rng, runs, n // runs)
    level = np.exp(unlike * rng.standard_normal((runs, 1)))
    return list(np.rint(series * level).astype(np.int64))


def versus(rng, name, runs, *, side_by_side, n=2_000, unlike=0.0, slower=1.0, matters=0.05):
    """Path B of the same kind as A, `slower` times as long; `runs`: of A and of B."""
    of_a, of_b = runs if isinstance(runs, tuple) else (runs, runs)
    a = runs_of(rng, name, of_a, n, unlike)
    b = [np.rint(slower * x).astype(np.int64) for x in runs_of(rng, name, of_b, n, unlike)]
    (one,) = comparisons(measured({"a": a, "b": b}, side_by_side=side_by_side), matters)
    return one


def false_verdicts(name, runs, trials, *, seed=1, **how):
    """How many of so many reports of two paths that are alike call them different in any figure, and how many
    decide nothing at all.
    """
    rng = np.random.default_rng(seed)
    false = open_ = 0
    for _ in range(trials):
        one = versus(rng, name, runs, **how)
        false += any(d.differs for d in one.differences)
        open_ += not any(d.decided for d in one.differences)
    return false, open_
