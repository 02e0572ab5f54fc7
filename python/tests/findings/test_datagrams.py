"""Losses by direction, and one-way delays only where the clocks are bounded."""

import json

import numpy as np
import pytest

from fathometer.dataset import open_recordings
from fathometer.findings import render
from fathometer.findings.analyse import analyse
from fathometer.report.write import as_text
from support.recordings import START, UNANSWERED, lognormal_ns, write

SECOND = 1_000_000_000
N = 1_000


def attributed(at, forward, backward, unknown, **more):
    counts = {"forward": forward, "backward": backward, "unknown": unknown, "duplicates": 0, "reordered": 0}
    return {"at_ns": START + at, "kind": "loss.attributed", "connection": 0, **counts, **more}


def analysed(directory, lost, events=(), mode="udp", **more):
    rtt = lognormal_ns(5, N)
    rtt[np.linspace(1, N - 1, lost).astype(int)] = UNANSWERED
    write(directory, rtt, label="path", mode=mode, events=events, **more)
    return analyse(open_recordings([directory]))


def of_kind(analysis, kind):
    return [f for f in analysis.findings if f.kind == kind]


@pytest.mark.parametrize(("forward", "backward", "where"), [(1, 40, "back"), (38, 2, "there")])
def test_losses_on_one_side_are_said_to_be(tmp_path, forward, backward, where):
    # Told in pieces, as a long run does.
    events = [attributed(60, forward, backward - 1, 0, reordered=3), attributed(120, 0, 1, 2, duplicates=4)]
    analysis = analysed(tmp_path / "r", 44, events)
    (finding,) = of_kind(analysis, "loss direction")
    most = max(forward, backward)
    assert f"on the way {where}: {most} of {forward + backward} losses" in render.statement(finding)
    assert "2 nobody can say where" in render.evidence(finding)[0]
    assert finding.confidence == "high"
    (line,) = json.loads(as_text(analysis, "json"))["losses"]
    assert (line["forward"], line["backward"], line["unknown"]) == (forward, backward, 2)
    assert (line["unanswered"], line["duplicates"], line["reordered"]) == (44, 4, 3)
    # One of them had not been told of: 44 - 43, or 44 - 42.
    told = as_text(analysis, "markdown").split("## Which way datagrams were lost")[1].split("\n\n")[1]
    assert f"| 44 | {forward} | {backward} | 2 | {44 - forward - backward - 2} | 4 | 3 |" in told


@pytest.mark.parametrize(("forward", "backward"), [(22, 20), (30, 10), (4, 0), (0, 0)])
def test_unclear_loss_direction_is_only_in_table(tmp_path, forward, backward):
    analysis = analysed(tmp_path / "r", 42, [attributed(60, forward, backward, 0)])
    assert not of_kind(analysis, "loss direction")
    assert "Which way datagrams were lost" in as_text(analysis, "markdown")


def test_mostly_unknown_ways_lower_the_confidence(tmp_path):
    analysis = analysed(tmp_path / "r", 60, [attributed(60, 0, 20, 40)])
    (finding,) = of_kind(analysis, "loss direction")
    assert finding.confidence == "medium"


def test_missing_loss_direction_omits_the_table(tmp_path):
    analysis = analysed(tmp_path / "r", 42)
    assert json.loads(as_text(analysis, "json"))["losses"] == []
    assert "Which way" not in as_text(analysis, "markdown")


def one_way(directory, errors, forward=900_000, backward=100_000):
    bounded = {"kind": "clock.bounded", "connection": 0, "local_ns": 1, "remote_ns": 1}
    events = [{"at_ns": START + i, **bounded, "error_ns": e} for i, e in enumerate(errors)]
    columns = {
        "forward_ns": lambda seq: np.full(len(seq), forward),
        "backward_ns": lambda seq: np.full(len(seq), backward),
    }
    return analysed(directory, 3, events, mode="stamp", columns=columns)


def test_each_direction_has_the_largest_bound(tmp_path):
    analysis = one_way(tmp_path / "r", (1 << 16, 1 << 17))
    (told,) = json.loads(as_text(analysis, "json"))["one_ways"]
    assert (told["forward_ns"], told["backward_ns"]) == (
        pytest.approx(900_000, rel=1e-3),
        pytest.approx(100_000, rel=1e-3),
    )
    assert told["error_ns"] == 1 << 17
    (finding,) = of_kind(analysis, "asymmetry")
    assert "the way there takes longer: 900 µs there and 100 µs back" in render.statement(finding)
    assert "131 µs from the truth" in render.evidence(finding)[0]


def test_asymmetry_within_clock_error_is_not_reported(tmp_path):
    analysis = one_way(tmp_path / "r", (1 << 19,))
    assert len(analysis.one_ways) == 1
    assert not of_kind(analysis, "asymmetry")


def test_one_way_delays_without_bound_are_hidden(tmp_path):
    analysis = one_way(tmp_path / "r", ())
    assert analysis.one_ways == ()
    assert "Each way" not in as_text(analysis, "markdown")
