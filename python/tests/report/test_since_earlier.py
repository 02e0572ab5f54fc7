"""A report against an earlier one: no path passes because nothing is known of it any more."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from fathometer.dataset import open_recordings
from fathometer.errors import FathometerError
from fathometer.findings.scenarios import scenarios
from fathometer.report import baseline
from fathometer.report.as_json import scenario_as_json
from fathometer.report.judgement import Judgement, told
from fathometer.report.strip import verdicts
from support.recordings import UNANSWERED, lognormal_ns, write


def paths(directory, **series):
    for label, rtt in series.items():
        write(directory / label, rtt, label=label)
    return scenarios(open_recordings([directory]))


def drift(then, now):
    told = {s.name: scenario_as_json(s) for s in then}
    figures = {name: dict(baseline._figures(s["rtt_ns"])) for name, s in told.items()}
    lost = {name: (s["unanswered"] + s["unsent"], s["samples"] + s["unsent"]) for name, s in told.items()}
    return baseline.drift(baseline.Baseline("then.json", figures, lost), now)


def read_back(directory, then):
    """The baseline that a report of these paths makes."""
    report = {"format": 1, "scenarios": [scenario_as_json(s) for s in then]}
    (directory / "then.json").write_text(json.dumps(report))
    return baseline.read(directory / "then.json")


def first_of_strip(since):
    analysis = SimpleNamespace(scenarios=(), applications=(), sampled=(), summaries=(), incidents=())
    return verdicts(analysis, Judgement((), since))[0]


def lossy(seed, share, n=2_000):
    rtt = lognormal_ns(seed, n)
    rtt[np.random.default_rng(seed).random(n) < share] = UNANSWERED
    return rtt


def test_a_path_that_died_is_worse(tmp_path):
    """It answered seven in ten, and now none; "nothing that matters changed", and CI was green."""
    then = paths(tmp_path / "then", a=lossy(1, 0.3))
    since = drift(then, paths(tmp_path / "now", a=np.full(2_000, UNANSWERED)))
    assert Judgement((), since).status == "not met"
    assert (first_of_strip(since).tone, first_of_strip(since).answer) == ("bad", "1 path worse")


def test_a_path_that_is_gone_does_not_pass(tmp_path):
    then = paths(tmp_path / "then", a=lognormal_ns(1, 2_000), b=lognormal_ns(2, 2_000))
    since = drift(then, paths(tmp_path / "now", a=lognormal_ns(3, 2_000)))
    assert since.only_then == ("b",)
    assert Judgement((), since).status == "not met"
    assert first_of_strip(since).answer == "1 path no longer measured"


def test_path_with_few_samples_is_undecided(tmp_path):
    then = paths(tmp_path / "then", a=lognormal_ns(1, 2_000))
    since = drift(then, paths(tmp_path / "now", a=lognormal_ns(2, 1)))
    assert Judgement((), since).status == "cannot be decided"
    assert first_of_strip(since).answer == "cannot be decided"


@pytest.mark.parametrize(("now", "answers"), [(0.03, "fewer"), (0.01, "no difference shown"), (0.0, "more")])
def test_what_is_answered_is_judged_too(tmp_path, now, answers):
    then = paths(tmp_path / "then", a=lossy(1, 0.01, 6_000))
    since = drift(then, paths(tmp_path / "now", a=lossy(2, now, 6_000)))
    assert since.paths[0].answers == answers
    assert Judgement((), since).status == ("not met" if answers == "fewer" else "met")


def test_one_burst_of_losses_is_one_loss(tmp_path):
    """Thirty lost at once, where none was: were each by chance, that were sure."""
    rtt = lognormal_ns(2, 6_000)
    rtt[3_000:3_030] = UNANSWERED
    since = drift(paths(tmp_path / "then", a=lognormal_ns(1, 6_000)), paths(tmp_path / "now", a=rtt))
    assert since.paths[0].answers == "no difference shown"


WAYS = {
    "pace": {"interval_ns": 100_000_000},
    "size": {"size": 1_024},
    "mode": {"mode": "tcp-ping-pong"},
}


@pytest.mark.parametrize("aspect", WAYS)
def test_paths_measured_otherwise_are_not_compared(tmp_path, aspect):
    """A baseline at one sample a second was compared with a run at ten: "nothing that matters changed"."""
    then = paths(tmp_path / "then", a=lognormal_ns(1, 2_000))
    write(tmp_path / "now" / "a", lognormal_ns(2, 2_000, median_us=5_000), label="a", **WAYS[aspect])
    now = scenarios(open_recordings([tmp_path / "now"]))
    since = baseline.drift(read_back(tmp_path, then), now)
    (path,) = since.paths
    assert path.differs.aspects == (aspect,)
    assert path.differences == ()
    judgement = Judgement((), since)
    assert judgement.status == "cannot be decided"
    (line,) = told(judgement)
    assert line.startswith(f"a: not compared, as its {aspect} differs: tcp, 64 bytes, one every 1 s; now ")
    assert first_of_strip(since).answer == "not compared"
    assert aspect in first_of_strip(since).details[0]


def test_paths_measured_alike_are_compared(tmp_path):
    then = paths(tmp_path / "then", a=lognormal_ns(1, 2_000))
    since = baseline.drift(read_back(tmp_path, then), paths(tmp_path / "now", a=lognormal_ns(2, 2_000)))
    assert since.paths[0].differs is None
    assert since.paths[0].differences


def test_baseline_with_mode_of_wrong_type_is_foreign(tmp_path):
    told_then = scenario_as_json(paths(tmp_path / "then", a=lognormal_ns(1, 200))[0])
    report = {"format": 1, "scenarios": [told_then | {"mode": ["tcp"]}]}
    (tmp_path / "b.json").write_text(json.dumps(report))
    with pytest.raises(FathometerError, match="is no report of format 1"):
        baseline.read(tmp_path / "b.json")
