"""One verdict a comparison: of runs where there are runs, corrected for all that a report asks, only where a
difference matters. benches/verdicts.py counts false and missed ones over hundreds of reports.
"""

from types import SimpleNamespace

import numpy as np
import pytest

from fathometer.findings.comparisons import comparisons
from fathometer.stats.compare import compare
from fathometer.stats.family import Difference, holm, judged
from fathometer.stats.results import Interval
from fathometer.stats.series import from_series
from support.verdicts import false_runs, found_shift, scenario


def difference(ratio, low, high, p_value):
    return Difference(
        "p50", 1.0, ratio, ratio - 1, None, ratio, Interval(low, high), p_value, "no difference shown"
    )


def test_holm_is_the_published_procedure():
    # Holm (1979): the smallest times 4, the next times 3, and never below one before it.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9]) == pytest.approx([0.9])


def test_a_difference_must_be_sure_and_matter():
    cases = {
        "slower": difference(1.2, 1.1, 1.3, 0.001),
        "faster": difference(0.8, 0.7, 0.9, 0.001),
        "no difference that matters": difference(1.01, 0.98, 1.04, 0.4),
        "no difference shown": difference(1.2, 0.9, 1.5, 0.2),
    }
    for verdict, d in cases.items():
        assert judged([d])[0].verdict == verdict
    # Sure, but of 1 %: "prefer A to B: 1.01 times lower" is no advice.
    small = difference(1.01, 1.005, 1.015, 1e-9)
    assert judged([small])[0].verdict == "no difference that matters"
    assert judged([small], matters=0.001)[0].verdict == "slower"


def test_multiple_comparisons_weaken_a_verdict():
    d = difference(1.2, 1.01, 1.4, 0.03)
    assert judged([d])[0].verdict == "slower"
    assert {one.verdict for one in judged([d, *(difference(1.0, 0.9, 1.1, 0.5) for _ in range(9))])} == {
        "no difference shown"
    }


def runs(rng, level):
    """Runs as a scenario has them, with figures and nothing to read."""
    nothing = SimpleNamespace(first_sent_ns=None, last_sent_ns=None)
    totals = SimpleNamespace(part=lambda _: nothing)
    return tuple(
        SimpleNamespace(
            figures_ns=dict.fromkeys(
                ("mean", "p50", "p95", "p99"), level * np.exp(0.1 * rng.standard_normal())
            ),
            recording=SimpleNamespace(
                totals=totals, manifest=SimpleNamespace(started_ns=rng.integers(10**9))
            ),
            selection=None,
        )
        for _ in range(20)
    )


def test_runs_count_where_there_are_runs():
    # By blocks the two differ by a third, by runs they do not. The table had the runs' verdict, the chart
    # and the advice the blocks'.
    rng = np.random.default_rng(1)
    a, b = (np.rint(x * rng.lognormal(0, 0.1, 4_000) * 1e6).astype(int) for x in (1.0, 1.3))
    (by_blocks,) = comparisons([scenario("a", a), scenario("b", b)])
    assert by_blocks.of("p50").verdict == "slower"
    alike = [scenario(name, x, runs(rng, 1e6)) for name, x in (("a", a), ("b", b))]
    (by_runs,) = comparisons(alike)
    assert {d.basis for d in by_runs.differences} == {"runs"}
    assert not any(d.differs for d in by_runs.differences)


@pytest.mark.parametrize("interleaved", [False, True])
def test_alike_runs_rarely_differ(interleaved):
    rng = np.random.default_rng(3)
    false = sum(false_runs(rng, 10, interleaved) for _ in range(200))
    # 5 % of 200 are 10; 20 have a chance of 0.2 %. The bench counts 1,000.
    assert false <= 19


def test_a_shift_of_a_fifth_is_found():
    rng = np.random.default_rng(4)
    assert all(found_shift(rng, name) for name in ("AR 0.8", "two values", "ties: rounded to ms"))


def test_b_that_takes_longer_is_slower():
    x = np.random.default_rng(5).lognormal(0, 0.2, 2_000)
    d = compare(from_series(x), from_series(2 * x)).of("p50")
    assert (d.verdict, d.ratio, d.difference) == ("slower", pytest.approx(2.0), pytest.approx(d.a))
    assert d.ratio_interval.low > 1.5


def test_paired_blocks_take_out_what_both_share():
    # Blocks paired with others than those of their own time would leave the shared noise in.
    from fathometer.stats.series import from_windows

    rng = np.random.default_rng(6)
    shared = np.repeat(np.exp(0.5 * rng.standard_normal(200)), 20)
    at = np.arange(4_000, dtype=np.int64) * 10**9
    a, b = (from_windows(x * shared * rng.lognormal(0, 0.02, 4_000), at, 20 * 10**9) for x in (1.0, 1.1))
    assert compare(a, b, side_by_side=True).of("p50").verdict == "slower"
    late = from_windows(np.roll(shared, 20) * 1.1 * rng.lognormal(0, 0.02, 4_000), at, 20 * 10**9)
    assert compare(a, late, side_by_side=True).of("p50").verdict != "slower"
