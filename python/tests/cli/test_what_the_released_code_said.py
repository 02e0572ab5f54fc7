"""What the released code said of plain recordings, as a user sees it: from the command line to the JSON.

Each of these was false (issue 13); the statistics behind them have tests of their own.
"""

import json

import numpy as np
import pytest

from support.command_line import run
from support.ends import closed, opened
from support.recordings import START, lognormal_ns, write

SECOND = 1_000_000_000
MINUTE = 60 * SECOND


def reported(directory):
    done = run("report", directory, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def p50(document):
    (scenario,) = document["scenarios"]
    return scenario["rtt_ns"]["p50"]


def test_median_interval_of_rounded_rtts_is_one_value(tmp_path):
    """80 % of 20,000 are 1 ms, 20 % are 2 ms: the interval of the median was 1 to 2 ms."""
    rtt = np.where(np.random.default_rng(1).random(20_000) < 0.8, 1_000_000, 2_000_000)
    write(tmp_path / "r", rtt, interval_ns=SECOND // 10)
    figure = p50(reported(tmp_path))
    assert (figure["value"], figure["low"], figure["high"]) == (1_000_000, 1_000_000, 1_000_000)


def test_outlier_stays_outside_median_interval(tmp_path):
    rtt = np.full(5_000, 1_000_000)
    rtt[2_500] = 900_000_000
    write(tmp_path / "r", rtt, interval_ns=SECOND // 10)
    assert p50(reported(tmp_path))["high"] < 1_001_000


def test_constant_hazard_gives_no_refresh_advice(tmp_path):
    """Of a thousand of constant hazard 91 died: "refresh connections before they are 11 min old"."""
    rng = np.random.default_rng(7)
    length = 20 * MINUTE
    begins = np.sort(rng.integers(0, 2 * MINUTE, 1000))
    ages = rng.exponential(10.5 * length, 1000)
    events = []
    for i, (begin, age) in enumerate(zip(begins.tolist(), ages.tolist(), strict=True)):
        events.append(opened(i, START + begin))
        if begin + age < length:
            events.append(closed(i, START + begin + int(age), int(age), sent=1, answered=1))
    write(tmp_path / "r", lognormal_ns(1, 1200), events=events, ended=False)
    assert [a for a in reported(tmp_path)["advice"] if "before they are" in a["statement"]] == []


@pytest.mark.parametrize("count", [19_000, 20_001])
def test_correlated_round_trips_have_no_changes(tmp_path, count):
    """AR(1) of 0.95, 3 % of the level: 88 changes at 20,000 samples, none at 20,001."""
    rng = np.random.default_rng(5)
    noise = rng.standard_normal(count)
    at = np.empty(count)
    at[0] = noise[0]
    for i in range(1, count):
        at[i] = 0.95 * at[i - 1] + np.sqrt(1 - 0.95**2) * noise[i]
    write(tmp_path / "r", np.round(1e6 * (1 + 0.03 * at)).astype(np.int64))
    kinds = [f["kind"] for f in reported(tmp_path)["findings"]]
    assert not {"change", "burst", "restless", "shift"} & set(kinds), kinds


def test_lower_p99_with_higher_median_is_not_preferred(tmp_path):
    """It said to prefer the one whose p99 is 1.22 times lower, although its median is 21 % higher."""
    rng = np.random.default_rng(2)
    for name, median, tail in (("cross-zone", 1000, 2200), ("cross-zone-lb", 1210, 1800)):
        rtt = lognormal_ns(len(name), 20_000, median, 0.05)
        slow = rng.random(20_000) < 0.03
        rtt[slow] = lognormal_ns(9, int(slow.sum()), tail, 0.02)
        write(tmp_path / name, rtt, label=name, interval_ns=SECOND // 10)
    advice = [a["statement"] for a in reported(tmp_path)["advice"]]
    assert [a for a in advice if "prefer" in a] == []
