"""What a client's time-out would have cut off, against counting."""

import numpy as np
import pytest

from fathometer.dataset import open_recordings
from fathometer.findings import render
from fathometer.findings.analyse import analyse
from fathometer.findings.seen.timeouts import WAITS_NS
from fathometer.report import modes
from fathometer.report.vega import WIDE
from support.recordings import UNANSWERED, lognormal_ns, write

SENT = 20_000


def slow(late):
    """A path of a millisecond, some of whose answers come after 50 ms, 300 ms, 4 s, and never."""
    rtt = lognormal_ns(1, SENT, 1000)
    places = np.random.default_rng(2).permutation(SENT)
    for after in (50_000_000, 300_000_000, 4_000_000_000, UNANSWERED):
        mine, places = places[:late], places[late:]
        rtt[mine] = after
    return rtt


def told(tmp_path, **paths):
    for label, rtt in paths.items():
        write(tmp_path / label, rtt, label=label, interval_ns=10_000_000)
    analysis = analyse(open_recordings([tmp_path]))
    return analysis, {f.scenario: f for f in analysis.findings if f.kind == "time-outs"}


def test_cutoff_counts_late_and_unanswered_samples(tmp_path):
    rtt = slow(7)
    analysis, by_path = told(tmp_path, slow=rtt, quick=lognormal_ns(3, SENT, 1000))
    assert set(by_path) == {"slow"}
    for name, wait in WAITS_NS.items():
        without = int(((rtt > wait) | (rtt == UNANSWERED)).sum())
        assert by_path["slow"].quantities[name].value == without
    assert render.statement(by_path["slow"]) == (
        "slow: a client that waits for 1 s gives up on 14 of 20,000 samples (0.0700 %), "
        "7 of which had no answer at all"
    )
    (table,) = [x.table for x in modes.extras(analysis) if x.name == "time-outs"]
    ((_, *cells),) = table.rows
    assert [c.under for c in cells] == [f"{n} of 20,000" for n in (28, 21, 14, 7)]


def test_the_line_ends_at_what_never_came(tmp_path):
    rtt = slow(7)
    analysis, _ = told(tmp_path, slow=rtt)
    rows = modes.PICTURES["time-outs"].make(analysis, WIDE)["data"]["values"]
    for row in rows:
        waited = row["us"] * 1e3
        # A bucket is a thousandth of it.
        early, late = ((~((rtt >= 0) & (rtt <= waited * edge))).mean() for edge in (0.998, 1.002))
        assert late * 0.999 <= row["share"] <= early * 1.001
    assert rows[-1]["share"] == pytest.approx(7 / SENT)


@pytest.mark.parametrize("late", [0, 1])
def test_single_late_answers_are_no_finding(tmp_path, late):
    """One of 20,000 is told in its table as the largest, and here not."""
    rtt = lognormal_ns(1, SENT, 1000)
    rtt[:late] = 4_000_000_000
    assert told(tmp_path, path=rtt)[1] == {}


def test_timeout_near_the_median_is_not_evaluated(tmp_path):
    """A path of 60 ms: 100 ms is no time-out for it, and what exceeds that is its usual spread."""
    _, by_path = told(tmp_path, far=lognormal_ns(1, SENT, 60_000, 0.3))
    assert by_path == {}
