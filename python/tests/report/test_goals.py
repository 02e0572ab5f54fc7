"""Goals of the reader's own: how they are written, and what they come to."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathometer.errors import ExitCode, FathometerError
from fathometer.report.goals import judged, parsed, percent
from fathometer.report.judgement import Judgement, told
from fathometer.stats.quantiles import share_worth
from fathometer.stats.results import Doubt, DoubtCode, Estimate, Interval
from support.verdicts import scenario as made_of


@pytest.mark.parametrize(
    ("text", "path", "metric", "sign", "limit"),
    [
        ("p99<2ms", "*", "p99", "<", 2e6),
        (" p99.9 <= 1.5 s ", "*", "p99.9", "<=", 1.5e9),
        ("p99_99<900us", "*", "p99.99", "<", 9e5),
        ("median<250µs", "*", "median", "<", 2.5e5),
        ("MAX<1min", "*", "max", "<", 60e9),
        ("availability>99.9%", "*", "availability", ">", 0.999),
        ("loss<=0.1 %", "*", "loss", "<=", 0.001),
        ("cross-*: p50<3ms", "cross-*", "p50", "<", 3e6),
        ("10.0.0.1:7: p50<3ms", "10.0.0.1:7", "p50", "<", 3e6),
    ],
)
def test_a_goal_is_read_as_it_is_meant(text, path, metric, sign, limit):
    goal = parsed(text)
    assert (goal.path, goal.metric, goal.sign) == (path, metric, sign)
    assert goal.limit == pytest.approx(limit)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", "write it as"),
        ("p99", "write it as"),
        ("p99=2ms", "write it as"),
        ("p99<", "write it as"),
        ("p99<2", "no unit"),
        ("p99<2%", "duration"),
        ("p99<2 parsecs", "duration"),
        ("p98<2ms", "name one of mean, median"),
        ("p99>2ms", "below"),
        ("availability<99%", "above"),
        ("availability>0.999", "percent"),
        ("availability>101%", "100%"),
        ("p99<-2ms", "write it as"),
        ("p99<1e3ms", "write it as"),
    ],
)
def test_invalid_goal_is_a_helpful_usage_error(text, names):
    with pytest.raises(FathometerError) as caught:
        parsed(text)
    assert names in str(caught.value)
    assert repr(text) in str(caught.value)
    assert caught.value.exit_code == ExitCode.USAGE


@given(st.text(max_size=30))
def test_any_text_is_a_goal_or_fathometer_error(text):
    try:
        goal = parsed(text)
    except FathometerError:
        return
    assert goal.limit >= 0


def scenario(
    name="near", *, low=1e6, value=1.5e6, high=1.9e6, sent=10_000, lost=0, unsent=0, load=False, shown=True
):
    estimate = Estimate(value, Interval(low, high), sent - lost, 50)
    if not shown:
        estimate = Estimate(value, None, 5, 0, Doubt(DoubtCode.UNSUPPORTED, 5))
    made = made_of(name, np.full(max(sent - lost, 1), 9_000_000))
    return replace(
        made,
        key=replace(made.key, under_load=load),
        sent=sent,
        unsent=unsent,
        unanswered=lost,
        estimates=dict.fromkeys(made.estimates, estimate),
    )


def test_loss_goal_certainty_uses_exact_bounds():
    # 2 lost of 3,000 were "sure" to be below 0.1 %: "rule of three", which is for none. By Clopper & Pearson
    # (as in R's binom.test, one-sided) it may as well be 0.2097 %.
    def told(text, **of):
        (one,) = judged([parsed(text)], [scenario(**of)])
        return one

    few = told("availability>99.9%", sent=3_000, lost=2)
    assert (few.status, few.sure) == ("met", False)
    assert "0.21 %" in few.reason or "0.2097 %" in few.reason or "0.210 %" in few.reason
    assert told("availability>99.9%", sent=30_000, lost=2).sure
    # One lost of ten says nothing of a limit of 5 %.
    one_of_ten = told("loss<5%", sent=10, lost=1)
    assert (one_of_ten.status, one_of_ten.sure) == ("not met", False)
    assert told("loss<5%", sent=1_000, lost=100).sure


def test_a_hundred_losses_in_two_bursts_are_two():
    spread, bursts = np.zeros((2, 200), dtype=np.int64)
    spread[::2] = 1
    bursts[[30, 140]] = 50
    sizes = np.full(200, 100)
    assert share_worth(spread, sizes) == 1.0
    assert share_worth(bursts, sizes) < 0.05


def outcome(text, **of):
    (one,) = judged([parsed(text)], [scenario(**of)])
    return one.status, one.sure


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        ("2ms", ("met", True)),
        ("1.8ms", ("met", False)),
        ("1.2ms", ("not met", False)),
        ("0.9ms", ("not met", True)),
    ],
)
def test_goal_is_sure_outside_the_interval(limit, expected):
    assert outcome(f"p99<{limit}") == expected


def test_unsupported_quantile_goal_is_undecided():
    assert outcome("p99<2ms", shown=False) == ("cannot be decided", False)


def test_availability_is_answered_share_of_sent():
    assert outcome("availability>99.9%", lost=9) == ("met", False)
    assert outcome("availability>99.9%", lost=2) == ("met", True)
    # At its limit a share is as likely on the other side.
    assert outcome("availability>99.9%", lost=10) == ("not met", False)
    assert outcome("availability>=99.9%", lost=10) == ("met", False)
    assert outcome("loss<0.1%", lost=10) == ("not met", False)
    assert outcome("loss<0.1%", lost=30) == ("not met", True)
    # 500 samples, one lost in a thousand: none lost says little.
    (few,) = judged([parsed("availability>99.9%")], [scenario(sent=500)])
    assert (few.status, few.sure) == ("met", False)
    assert "3,000 are needed" in few.reason


def test_unsent_samples_lower_availability_not_loss():
    # Ten minutes without a connection, in which nothing could be sent, and availability was 100 %.
    assert outcome("availability>99.9%", sent=9_400, unsent=600) == ("not met", True)
    (one,) = judged([parsed("availability>99.9%")], [scenario(sent=9_400, unsent=600)])
    assert one.value == pytest.approx(0.94)
    assert outcome("loss<0.1%", sent=9_400, unsent=600) == ("met", True)
    # Never connected: a path that the goal is about, and none of whose samples came back.
    assert outcome("availability>99.9%", sent=0, unsent=600) == ("not met", True)
    assert outcome("loss<0.1%", sent=0, unsent=600) == ("cannot be decided", False)


def test_a_path_without_a_sample_meets_no_goal():
    assert outcome("p99<2ms", sent=0) == ("cannot be decided", False)
    assert outcome("availability>1%", sent=0) == ("cannot be decided", False)


def test_the_largest_is_the_largest():
    assert outcome("max<9ms") == ("not met", True)
    assert outcome("max<=9ms") == ("met", True)


def test_goal_covers_all_or_matching_paths():
    paths = [scenario("near"), scenario("far"), scenario("far under load", load=True), scenario("no", sent=0)]
    names = lambda text: [o.path for o in judged([parsed(text)], paths)]  # noqa: E731
    # Of the path without samples nothing is known, which is no reason to leave it out.
    assert names("p99<2ms") == ["near", "far", "no"]
    assert names("far*: p99<2ms") == ["far", "far under load"]
    with pytest.raises(FathometerError, match="concerns no path"):
        names("nowhere: p99<2ms")


def of_paths(text, *paths):
    return judged([parsed(text)], paths)


def test_missed_goal_is_first_and_in_last_line():
    """The missed goal was one line among 22 that could not be decided."""
    undecided = [scenario(f"few {n}", shown=False) for n in range(22)]
    slow = scenario("slow", low=2.5e6, value=3e6, high=3.5e6)
    every = Judgement(of_paths("p99<2ms", *undecided[:11], slow, *undecided[11:]))
    lines = list(told(every))
    assert len(lines) == 24
    assert lines[0] == "slow: p99 < 2.00 ms not met: it is 3.00 ms"
    assert all("cannot be decided" in line for line in lines[1:-1])
    assert lines[-1] == "not met: slow: p99 < 2.00 ms; cannot be decided: 22 goals"


def test_status_is_of_the_worst_goal():
    slow, near = scenario("slow", low=2.5e6, value=3e6, high=3.5e6), scenario("near")
    few = scenario("few", shown=False)
    assert Judgement().status == "met"
    assert Judgement(of_paths("p99<2ms", near)).status == "met"
    assert Judgement(of_paths("p99<2ms", near, few)).status == "cannot be decided"
    assert Judgement(of_paths("p99<2ms", near, few, slow)).status == "not met"
    assert list(told(Judgement(of_paths("p99<2ms", near)))) == []


@given(st.floats(0, 1))
def test_partial_share_never_shows_as_whole(share):
    text = percent(share)
    if 1e-5 < share < 1 - 1e-5:
        assert text not in {"0.0 %", "100.0 %", "0.00 %", "100.00 %"}
