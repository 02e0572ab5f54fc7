"""Why runs are interleaved: two scenarios that are alike, and a delay that drifts while they are measured."""

import json
import shutil
from itertools import count
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fathometer.cli import app
from fathometer.dataset import open_recordings
from fathometer.study.plan import plan
from fathometer.study.read import read_study
from fathometer.study.run import run_study
from support.programs import fathom, need_fabrics
from support.rate import assert_rate
from support.recordings import START, lognormal_ns
from support.recordings import write as write_recording

ROUNDS = 20
STEP_MS = 500
STEPS = 360
"""For three minutes; the study takes half of one."""
SEED = 81
"""Whose order is as balanced as twenty rounds can be: each goes first ten times, early as often as late. What
is left is chance alone; other seeds leave some of the drift, and show a difference one time in twenty, as
intervals of 95 % must.
"""


def write(directory):
    """Two paths of 50 ms that are alike, and drift alike: 2 ms more a second. That is some milliseconds from
    one run to the next, more than a busy machine adds, so that it is the drift that decides."""
    network = "format = 1\nname = 'drift'\ndescription = 'drift'\nseed = 7\n"
    study = f"format = 1\nname = 'drift'\nseed = {SEED}\nrepetitions = {ROUNDS}\n"
    for number, label in enumerate("ab"):
        for host in ("client", "server"):
            address = f"10.90.{number}.{4 if host == 'client' else 5}"
            network += f"[[host]]\nname = '{label}-{host}'\naddress = '{address}'\n"
            place = f"{{ scenario = 'network.toml', host = '{label}-{host}' }}"
            study += f"[[host]]\nname = '{label}-{host}'\nfabric = {place}\n"
        ends = f"label = '{label}'\nfrom = '{label}-client'\nto = '{label}-server'\n"
        network += f"[[path]]\n{ends}both = {{ delay = '25ms' }}\nsource = 'a test'\n"
        study += f"[[scenario]]\n{ends}"
        for step in range(1, STEPS + 1):
            network += f"[[event]]\nat = '{step * STEP_MS}ms'\nkind = 'path-change'\n"
            network += f"path = '{label}'\nadded = '500us'\n"
    study += "[[probe]]\nevery = '10ms'\ncount = 40\nwarm-up = 5\n"
    (directory / "network.toml").write_text(network)
    (directory / "study.toml").write_text(study)
    return directory / "study.toml"


def median_compared(recordings):
    """What `fathom compare` says of the medians of the two scenarios in a directory."""
    done = CliRunner().invoke(app, ["compare", str(recordings), "--json"])
    assert done.exit_code == 0, done.output
    (told,) = [c for c in json.loads(done.stdout)["comparisons"] if c["metric"] == "p50"]
    assert (told["a"], told["b"]) in {("a", "b"), ("b", "a")}
    return told


def relabelled(measured, directory):
    """The same runs as a study would have left them that had made all of A and then all of B."""
    found = sorted(open_recordings([measured]), key=lambda r: r.manifest.started_ns)
    assert len(found) == 2 * ROUNDS
    for number, recording in enumerate(found):
        label, round_ = "ab"[number // ROUNDS], number % ROUNDS + 1
        copy = directory / f"label={label}" / f"run={round_:02d}"
        shutil.copytree(recording.directory, copy)
        manifest = json.loads((copy / "recording.json").read_text())
        manifest["label"] = label
        # Recordings of two targets, or between other ends, are never pooled.
        manifest["path"] |= {"from": f"{label}-client", "to": f"{label}-server"}
        manifest["reflector"]["address"] = f"{label}-server:7007"
        manifest["path"]["tags"]["round"] = str(round_)
        (copy / "recording.json").write_text(json.dumps(manifest))
    return directory


def interleaving_cancels_the_drift(output):
    interleaved = median_compared(output)
    # Noise of a busy machine widens the interval beyond what matters; neither verdict is a difference.
    assert interleaved["verdict"] in {"no difference shown", "no difference that matters"}, interleaved
    assert (interleaved["basis"], interleaved["method"]) == ("runs", "Wilcoxon on paired log-ratios")
    # The proof that this could have failed: the very same runs, told apart by when they were made.
    apart = median_compared(relabelled(output, output.with_name("apart")))
    assert (apart["a"], apart["verdict"]) == ("a", "slower"), apart
    assert apart["ratio"] > 1.1, apart


def test_planned_order_cancels_drift_of_recordings(tmp_path):
    """The runs of the plan, one a second, of which each takes 2 ms more than that before."""
    for number, run in enumerate(plan(read_study(write(tmp_path)))):
        label = run.scenario.label
        write_recording(
            tmp_path / "made" / run.directory,
            lognormal_ns(number, 40, median_us=50_000 + 2_000 * number, sigma=0.01),
            label=label,
            interval_ns=10_000_000,
            start_ns=START + number * 1_000_000_000,
            manifest={
                "path": {"from": f"{label}-client", "to": f"{label}-server", "via": None,
                         "tags": {"round": str(run.round)}},
                "reflector": {"address": f"{label}-server:7007", "resolved": None, "stamps": True},
            },
        )  # fmt: skip
    interleaving_cancels_the_drift(tmp_path / "made")


@pytest.mark.acceptance
def test_interleaving_cancels_drift_of_equal_paths(tmp_path, monkeypatch):
    monkeypatch.setenv("FATHOM_CLOUD", "off")
    need_fabrics()
    numbers = count()

    def drifted():
        directory = tmp_path / str(next(numbers))
        directory.mkdir()
        output = directory / "measured"
        assert run_study(write(directory), output, Path(fathom()), False, print) == 2 * ROUNDS
        (truth,) = output.glob("truth/*/truth.jsonl")
        steps = truth.read_text().count('"event.began"')
        assert 2 * ROUNDS < steps < 2 * STEPS, "the delay drifted from the first run to the last"
        interleaving_cancels_the_drift(output)

    # Intervals of 95 % show a difference one time in twenty.
    assert_rate(1, 2, drifted)
