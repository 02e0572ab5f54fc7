"""What was lost: counted once, in every place, and told wherever a report says that nothing happened."""

import re

import numpy as np
import pytest

from fathometer.dataset import open_recordings
from fathometer.dataset.format import Flags
from fathometer.findings.analyse import analyse
from fathometer.findings.render import statement
from fathometer.report import templates
from fathometer.report.as_json import as_json
from fathometer.report.goals import judged, parsed
from fathometer.report.page import Page
from fathometer.report.write import as_text
from support.programs import ROOT
from support.random_recordings import random_recording
from support.recordings import START, UNANSWERED, lognormal_ns, write

SECOND = 1_000_000_000


def test_a_corrupted_echo_is_no_answer(tmp_path):
    """Half of a path's echoes came back changed; its report said availability 100 %, and the goal met."""
    rtt = lognormal_ns(1, 1_000)
    rtt[::2] = UNANSWERED
    corrupted = {"flags": lambda seq: np.where(seq % 2 == 0, int(Flags.CORRUPTED), 0)}
    write(tmp_path / "r", rtt, columns=corrupted)
    analysis = analyse(open_recordings([tmp_path]))
    (scenario,) = analysis.scenarios
    assert scenario.availability == pytest.approx(0.5)
    (told,) = as_json(analysis)["scenarios"]
    assert [told[name] for name in ("samples", "answered", "unanswered", "corrupt")] == [1_000, 500, 0, 500]
    (recording,) = as_json(analysis)["recordings"]
    assert [recording[name] for name in ("answered", "unanswered", "corrupt")] == [500, 0, 500]
    (outcome,) = judged([parsed("availability>99%")], analysis.scenarios)
    assert (outcome.status, outcome.sure) == ("not met", True)
    # Nor is it a loss: the page spoke of samples lost, and of samples never answered.
    page = page_of(analysis)
    assert "500 of 1,000 samples came back changed" in page
    assert "Of 1,000 samples 500 corrupt." in page
    assert "500 corrupt" in page
    for wrong in ("samples lost", "never answered", "unanswered."):
        assert wrong not in page, wrong


def page_of(analysis):
    return " ".join(re.sub(r"<[^>]+>", " ", templates.html(Page("", analysis))).split())


def test_corrupted_echoes_are_not_unanswered(tmp_path):
    corrupted = {"flags": lambda seq: np.full(len(seq), int(Flags.CORRUPTED))}
    write(tmp_path / "r", np.full(40, UNANSWERED), columns=corrupted)
    analysis = analyse(open_recordings([tmp_path]))
    (finding,) = (f for f in analysis.findings if f.kind == "no answers")
    assert statement(finding) == (
        "path: none of 40 samples was answered with what it had sent (40 echoes came back changed); there is "
        "no round trip to report"
    )


@pytest.mark.parametrize("seed", range(6))
def test_due_samples_are_all_accounted_for(tmp_path, seed):
    """The law, with warm-up, corrupted and late echoes, sizes and load, as `random_recording` has them."""
    random_recording(tmp_path / "r", seed)
    for s in analyse(open_recordings([tmp_path])).scenarios:
        assert s.due == s.rtt.count + s.unanswered + s.corrupt + s.unsent


def test_lossy_report_never_says_no_loss(tmp_path):
    """Three in ten lost, one here and one there: no incident, and the page said "no loss" beside 70.5 %."""
    rtt = lognormal_ns(3, 2_000)
    rtt[np.random.default_rng(3).random(len(rtt)) < 0.3] = UNANSWERED
    write(tmp_path / "lossy" / "r", rtt)
    write(tmp_path / "sound" / "r", lognormal_ns(3, 2_000))
    for name, lost in (("lossy", int((rtt < 0).sum())), ("sound", 0)):
        analysis = analyse(open_recordings([tmp_path / name]))
        assert not analysis.incidents
        for text in (page_of(analysis), as_text(analysis, "markdown")):
            assert "Nothing happened that stands out:" in text
            assert ("no loss" in text) == (lost == 0)
            assert (f"Of 2,000 samples {lost:,} unanswered." in text) == (lost > 0)


def overflowed(at_ns, lost, reason=None):
    event = {"at_ns": at_ns, "kind": "recording.overflowed", "connection": 0, "lost": lost}
    return event if reason is None else event | {"reason": reason}


def test_recorder_loss_names_its_reason(tmp_path):
    """A full disk, a failed one, a killed probe: each was told as a disk that was too slow."""
    (row,) = [
        x
        for x in (ROOT / "schema/recording.md").read_text().splitlines()
        if x.startswith("| `recording.overflowed`")
    ]
    reasons = re.findall(r"`(\w+)`: ", row)
    assert len(reasons) == 6
    words = {}
    for reason in [*reasons, None]:
        write(
            tmp_path / str(reason), lognormal_ns(1, 100), events=[overflowed(START + 50 * SECOND, 7, reason)]
        )
        (told,) = [
            f
            for f in analyse(open_recordings([tmp_path / str(reason)])).findings
            if f.kind == "recording.overflowed"
        ]
        words[reason] = statement(told)
        assert "7 samples are missing" in words[reason]
    assert len(set(words.values())) == len(words)
    assert "slow" not in " ".join(words.values())
    assert "full" in words["no_space"]
    assert "killed" in words["crash"]


def test_recorder_losses_are_split_by_reason(tmp_path):
    """The disk fell behind, and then it was full: one of the two reasons was told for both."""
    events = [
        overflowed(START + 50 * SECOND, 7, "behind"),
        overflowed(START + 51 * SECOND, 30, "no_space"),
        overflowed(START + 52 * SECOND, 5, "behind"),
    ]
    write(tmp_path / "r", lognormal_ns(1, 100), events=events)
    findings = analyse(open_recordings([tmp_path])).findings
    told = [f for f in findings if f.kind == "recording.overflowed"]
    assert {f.terms["reason"]: f.quantities["samples"].value for f in told} == {"behind": 12, "no_space": 30}
