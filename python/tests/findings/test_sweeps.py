"""Settings of a query that were asked in turn: each against the first."""

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.stats import binom

from fathometer.dataset import open_recordings
from fathometer.findings import render
from fathometer.findings.analyse import analyse
from fathometer.findings.databases import databases
from fathometer.findings.sweeps import of_units, ratio_of_units, sweeps, verdict_of
from fathometer.report.sections.databases_sweeps import SECTION
from fathometer.stats.runs import median_of_runs
from support.queries import recording, sure, swept
from support.tiers import repeated

PACKETS = [
    {"fetch_size": None, "packet_size": {"asked": n, "granted": min(n, 16_383)}} for n in (4_096, 32_767)
]
ROWS = [{"fetch_size": n, "packet_size": None} for n in (None, 100, 1_000)]


def known(root):
    return analyse(open_recordings([root]))


def test_what_drifts_is_taken_out(tmp_path):
    # Thirty times as slow in the end; a tenth less by the setting.
    recording(tmp_path / "r", swept(1, 60, ROWS, (1, 1, 0.9), drift=0.5), settings=ROWS)
    (sweep,) = sweeps(known(tmp_path).scenarios)
    first, same, faster = sweep.each
    assert (first.ratio, first.words) == (None, "all rows at once")
    assert (same.verdict, same.words) == ("no difference shown", "100 rows a round trip")
    assert faster.verdict == "faster"
    assert faster.ratio.interval.low <= 0.9 <= faster.ratio.interval.high
    assert (faster.ratio.count, faster.basis) == (59, "rounds")
    # Bonferroni: two settings are held against the first.
    assert faster.ratio.interval.level >= 0.975


def test_each_setting_has_a_row_of_its_own(tmp_path):
    recording(tmp_path / "r", swept(2, 21, PACKETS, (1, 0.5), each_login=3), settings=PACKETS)
    analysis = known(tmp_path)
    names = {one.asked for one in databases(analysis.scenarios)}
    assert names == {
        "1,000 × 100 bytes, packets of 4,096 bytes",
        "1,000 × 100 bytes, packets of 16,383 bytes, 32,767 bytes asked for",
    }
    (said,) = [f for f in analysis.findings if f.kind == "query setting"]
    assert render.statement(said).startswith(
        "db:5432/shop: the same query (1,000 × 100 bytes) with packets of 16,383 bytes, "
        "32,767 bytes asked for takes 0."
    )


def test_few_rounds_decide_nothing(tmp_path):
    recording(tmp_path / "r", swept(3, 5, ROWS[:2], (1, 0.5)), settings=ROWS[:2])
    (sweep,) = sweeps(known(tmp_path).scenarios)
    assert (sweep.each[1].verdict, sweep.each[1].ratio.count) == ("cannot be decided", 4)


def test_reconnecting_sweep_uses_logins_as_units(tmp_path):
    rows = swept(4, 21, PACKETS, (1, 0.5), each_login=3)
    recording(tmp_path / "r", rows, settings=PACKETS)
    (sweep,) = sweeps(known(tmp_path).scenarios)
    one = sweep.each[1]
    assert (one.verdict, one.basis, one.ratio.count) == ("faster", "logins", 7)
    # By hand: of each login the two rounds after its first, on the scale of logarithms, are one ratio.
    walls = np.array([[r["wall_ns"] for r in rows if r["setting"] == at] for at in (0, 1)], dtype=float)
    of_rounds = (walls[1] / walls[0]).reshape(7, 3)[:, 1:]
    units = np.sqrt(of_rounds[:, 0] * of_rounds[:, 1])
    assert one.ratio.value == pytest.approx(np.median(units))
    assert (one.ratio.interval.low, one.ratio.interval.high) == pytest.approx((units.min(), units.max()))


def test_one_connection_each_decides_nothing(tmp_path):
    """As earlier versions recorded it: without the column, all queries of a size on one connection."""
    recording(tmp_path / "r", swept(5, 60, PACKETS, (1, 0.5)), settings=PACKETS)
    (sweep,) = sweeps(known(tmp_path).scenarios)
    assert (sweep.each[1].verdict, sweep.each[1].ratio.count) == ("cannot be decided", 1)


@repeated("number", 25, 200)
def test_connections_that_differ_by_chance_are_no_difference(tmp_path, number):
    """Of sweeps of four equal sizes over unequal connections, at most 5 % show a difference. The bound is
    exceeded twice in a thousand times.
    """
    settings, shown = [PACKETS[0]] * 4, 0
    level = 1 - 0.05 / 3
    for seed in range(number):
        rows = swept(seed, 21, settings, (1, 1, 1, 1), each_login=3, connection=0.2)
        recording(tmp_path / str(seed), rows, settings=settings)
        (one,) = open_recordings([tmp_path / str(seed)])
        each = one.queries.by_setting()
        ratios = [ratio_of_units([of_units(each[0], each[at], 4)], level, "logins")[0] for at in (1, 2, 3)]
        assert all(ratio.interval is not None for ratio in ratios)
        shown += any(verdict_of(ratio) in {"slower", "faster"} for ratio in ratios)
    assert shown <= binom.ppf(0.998, number, 0.05)


def test_of_many_runs_each_is_one(tmp_path):
    for n in range(7):
        rows = swept(n, 9, PACKETS, (1, 0.9))
        recording(tmp_path / str(n), rows, settings=PACKETS, start_ns=10**18 + n * 10**12)
    (sweep,) = sweeps(known(tmp_path).scenarios)
    assert sweep.each[1].counted == 7 * 8
    assert (sweep.each[1].basis, sweep.each[1].ratio.count, len(sweep.ids)) == ("runs", 7, 7)


@repeated("number", 40, 200)
@pytest.mark.parametrize(("runs", "settings"), [(2, 2), (5, 2), (5, 4), (7, 12), (8, 2)])
def test_interval_of_few_runs_holds_truth(runs, settings, number):
    """The ratio differs from run to run. Units pooled as if of one run missed the truth in half the reports.
    At 95 % the bound fails twice in a thousand times.
    """
    rng, held, level = np.random.default_rng(8), 0, 1 - 0.05 / (settings - 1)
    for _ in range(number):
        of_run = 0.1 * rng.standard_normal((runs, 1))
        units = np.exp(of_run + 0.1 * rng.standard_normal((runs, 10)))
        ratio, basis = ratio_of_units(list(units), level, "logins")
        assert basis == ("runs" if runs == 8 else "logins")
        held += ratio.interval.low <= 1 <= ratio.interval.high
    assert held >= binom.ppf(0.002, number, 0.95)


def test_five_recordings_say_no_more_than_they_agree(tmp_path):
    """A tenth less in two of them, as much in the others: pooled rounds had shown 3 % and more."""
    for n, ratio in enumerate((0.9, 1, 1, 0.9, 1)):
        rows = swept(n, 60, ROWS[:2], (1, ratio))
        recording(tmp_path / str(n), rows, settings=ROWS[:2], start_ns=10**18 + n * 10**12)
    analysis = known(tmp_path)
    (sweep,) = sweeps(analysis.scenarios)
    one = sweep.each[1]
    assert (one.verdict, one.basis, one.ratio.count) == ("no difference shown", "rounds", 5 * 59)
    cell = SECTION.table(analysis).rows[1][-1]
    assert cell.under.endswith(", no surer than 5 recordings can be")


def test_a_round_without_the_first_setting_says_nothing(tmp_path):
    rows = [sure(0, 10, 0, setting=n % 2, flags=int(n < 2)) for n in range(40)]
    for n in range(2, 20, 2):
        rows[n]["error"] = "x (57014)"
    recording(tmp_path / "r", rows, settings=ROWS[:2])
    (sweep,) = sweeps(known(tmp_path).scenarios)
    assert sweep.each[1].ratio.count == 10


@pytest.mark.parametrize(
    ("ratios", "wanted"), [([3], 3), ([1, 4], 2), ([9, 1, 2], 2), ([32, 0.5, 2, 8], 4), ([0.25, 4] * 10, 1)]
)
def test_even_median_matches_live_summary(ratios, wanted):
    # The table of `fathom-core/query/ratio.rs`, by hand; a mean of the middle two is 5 of the fourth.
    ratio, _ = ratio_of_units([np.array(ratios, dtype=float)], 0.95)
    assert ratio.value == pytest.approx(wanted)


@pytest.mark.parametrize("settings", [None, "all", [1, 2]])
def test_what_is_no_sweep_is_read_as_before(tmp_path, settings):
    recording(tmp_path / "r", [sure(1, 2, 3)] * 3, settings=settings)
    assert sweeps(known(tmp_path).scenarios) == ()
    assert len(databases(known(tmp_path).scenarios)) == 1


def test_a_recording_of_an_earlier_version_is_read(tmp_path):
    recording(tmp_path / "r", [sure(1, 2, 3)] * 3)
    file = tmp_path / "r" / "queries-00000.parquet"
    pq.write_table(pq.read_table(file).drop_columns(["setting", "fetch_size", "packet_size", "login"]), file)
    (one,) = open_recordings([tmp_path / "r"])
    assert (one.queries.damage, one.queries.number, one.queries.settings.tolist()) == ((), 3, [-1] * 3)


@repeated("number", 80, 2_000)
@pytest.mark.parametrize("rounds", [20, 60])
def test_without_any_difference_none_is_shown(rounds, number):
    """At most 5 % of sweeps of four equal settings show a difference: 3 to 4 % by the binomial distribution
    and Bonferroni.
    """
    rng, shown = np.random.default_rng(7), 0
    for _ in range(number):
        walls = np.exp(0.3 * rng.standard_normal((4, rounds)))
        verdicts = [verdict_of(ratio_of_units([walls[k] / walls[0]], 1 - 0.05 / 3)[0]) for k in (1, 2, 3)]
        shown += any(v in {"slower", "faster"} for v in verdicts)
    assert shown <= (0.05 * number if number == 2_000 else binom.ppf(0.998, number, 0.05))


# ROUNDS: ranks by the binomial distribution of n and a half, as `sweep.rs` has them.
@pytest.mark.parametrize(
    ("n", "level", "rank"),
    [(5, 0.95, 0), (6, 0.95, 1), (20, 0.95, 6), (20, 1 - 0.05 / 3, 5), (1_000, 0.95, 469)],
)
def test_the_live_summary_has_the_same_ranks(n, level, rank):
    interval = median_of_runs(np.arange(1.0, n + 1), level).interval
    assert (interval.low if interval else 0) == rank
