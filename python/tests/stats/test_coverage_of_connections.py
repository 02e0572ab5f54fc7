"""Do 95 % intervals hold what is true of all connections that might have been opened, where a run has a few
of them on ways of unequal length; and are two runs of such a path called alike.

Of a run whose connections all took one way by chance nothing can be told, and such runs are left out.
"""

import numpy as np
import pytest
from scipy.stats import binom

from fathometer.findings.connections import levels
from fathometer.findings.scenarios import scenarios
from support.alike import recording
from support.flows import FLOWS, coverage, false_verdicts, scenario
from support.generators import BY_NAME

ROWS = [
    *(pytest.param(name, 8, id=name) for name in ("8 on two ways", "8 on four ways")),
    *(pytest.param(name, 60, id=f"{name} often", marks=pytest.mark.acceptance) for name in FLOWS),
]


@pytest.mark.parametrize(("name", "runs"), ROWS)
def test_intervals_hold_what_is_true_of_connections(name, runs):
    differ, held = coverage(FLOWS[name], runs)
    assert differ > 0.7 * runs
    for figure, n in held.items():
        # Quantiles that lie between two ways are held less often; a thousandth of such tables fails.
        assert n >= binom.ppf(0.001, differ, 0.90 if figure == "mean" else 0.85), (figure, n, differ)


def test_intervals_of_blocks_alone_hold_nothing():
    """Intervals over blocks alone: 10 to 20 µs around a mean that depends on the ways of eight
    connections.
    """
    rng, flows, held = np.random.default_rng(1), FLOWS["8 on two ways"], 0
    for _ in range(8):
        one = scenario(flows, rng)
        interval = one.estimates["mean"].interval
        assert interval.high - interval.low > 500_000
        values, connection = flows.draw(rng)
        (pooled,) = scenarios([recording("pooled", values)])
        narrow = pooled.estimates["mean"].interval
        held += narrow.low <= flows.truth()["mean"] <= narrow.high
        assert len(connection) == len(values)
    assert held < 6


@pytest.mark.parametrize(
    ("name", "trials"),
    [
        ("8 on two ways", 6),
        *(pytest.param(name, 40, id=f"{name} often", marks=pytest.mark.acceptance) for name in FLOWS),
    ],
)
def test_two_runs_of_one_path_do_not_differ(name, trials):
    # At most one in twenty, and of so few trials no more than chance adds.
    assert false_verdicts(FLOWS[name], trials) <= binom.ppf(0.999, trials, 0.05)


ALIKE = (
    "independent lognormal",
    "AR 0.8",
    "ties: rounded to ms",
    "two values",
    "Pareto 1.5",
    "bursts",
    "GARCH",
)


def told(name, connections, runs, n=400):
    """Number of runs of equal connections in which some are called slower, and in which they seem to
    differ.
    """
    rng, slower, differ = np.random.default_rng(11), 0, 0
    for _ in range(runs):
        series = BY_NAME[name].series(rng, connections, n)
        connection = np.tile(np.arange(connections), n)
        one = recording("alike", series.T.ravel(), interval_ns=10_000_000, connection=connection)
        (alike,) = scenarios([one])
        differ += alike.units is not None
        slower += bool(levels(alike.runs[0]))
    return slower, differ


@pytest.mark.parametrize(
    ("name", "runs"),
    [
        ("independent lognormal", 5),
        ("two values", 5),
        *(
            pytest.param(name, 60, id=f"{name} often", marks=pytest.mark.acceptance)
            for name in (*ALIKE, "AR 0.95", "regimes")
        ),
    ],
)
@pytest.mark.parametrize("connections", [2, 8])
def test_alike_connections_are_not_told_apart(name, runs, connections):
    slower, differ = told(name, connections, runs)
    bound = binom.ppf(0.999, runs, 0.05)
    assert slower <= bound
    # A regime of one connection that lasts a quarter of the run is a difference while it lasts.
    if name in ALIKE:
        assert differ <= bound


def test_single_connection_changes_no_figure():
    values = BY_NAME["AR 0.8"].series(np.random.default_rng(12), 1, 2_000)[0]
    one, none = (
        scenarios([recording("path", values, connection=connection)])[0]
        for connection in (np.zeros(len(values), dtype=np.int64), None)
    )
    assert one.units is None
    assert one.estimates == none.estimates
