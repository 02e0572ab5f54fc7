"""One of a thing is no plural, in what the commands of this half print."""

import json
import re

import pytest

from fathometer.counts import are, count
from fathometer.dataset.reasons import LOSSES
from fathometer.study.live.happenings import _ENTRIES, _EVENTS
from support.command_line import run
from support.recordings import lognormal_ns, write

STUDY = """\
format = 1
name = "one"
repetitions = 1

[[host]]
name = "here"
local = true

[[scenario]]
label = "a"
from = "here"
to = "here"

[[probe]]
every = "10ms"
count = 100
"""


def assert_singular(text):
    assert not re.search(r"(?<![\d.,])1 [a-z-]+s\b", text), text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (count(0, "run"), "0 runs"),
        (count(1, "run"), "1 run"),
        (count(2_000, "loss"), "2,000 losses"),
        (count(2, "echo"), "2 echoes"),
        (count(2, "reply", "replies"), "2 replies"),
        (are(1) + are(2), "isare"),
    ],
)
def test_counts(text, expected):
    assert text == expected


def test_an_import_of_one_sample(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("when;rtt_ms\n1476479820;1.5\n;2.5\n")
    done = run(
        "import",
        "csv",
        table,
        "--time",
        "when",
        "--rtt",
        "rtt_ms",
        "--delimiter",
        ";",
        "--record",
        tmp_path / "one",
    )
    assert done.returncode == 0, done.stderr
    assert "csv: t: 1 sample\n" in done.stderr
    assert "left out: 1 row without a time" in done.stderr


def test_a_study_of_one_run(tmp_path):
    study = tmp_path / "one.toml"
    study.write_text(STUDY)
    done = run("study", "check", study)
    assert done.stdout.endswith("one.toml: 1 scenario, 1 repetition, 1 run\n"), done.stdout
    assert run("study", "plan", study).stdout.splitlines()[-1].startswith("1 run, about ")


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("stall.began", {"outstanding": 1}),
        ("schedule.overrun", {"skipped": 1, "reason": "late"}),
        ("echo.corrupted", {"count": 1}),
        ("recording.overflowed", {"lost": 1}),
    ],
)
def test_events_of_one_sample(kind, fields):
    text, _ = _EVENTS[kind](fields)
    assert re.search(r"\b1 (?:sample|echo)\b", text), text
    assert_singular(text)


@pytest.mark.parametrize("reason", [*LOSSES, "of a later version", None])
def test_loss_message_states_its_reason(reason):
    """Every loss was "lost by the recorder", whether the disk was full or the probe was killed."""
    text, _ = _EVENTS["recording.overflowed"]({"lost": 7} | ({"reason": reason} if reason else {}))
    assert text == "7 samples lost by the recorder" + (f": {LOSSES.get(reason, reason)}" if reason else "")


@pytest.mark.parametrize("kind", ["study.started", "study.ended"])
def test_a_journal_of_one_run(kind):
    text, _ = _ENTRIES[kind]({"study": "a", "runs": 1})
    assert text.endswith("1 run"), text


def test_a_report_of_one_sample(tmp_path):
    path = write(tmp_path / "r", lognormal_ns(1, 1, 700))
    done = run(
        "report", path, "--markdown", "-", "--json-file", tmp_path / "r.json", "--output", tmp_path / "r.html"
    )
    assert done.returncode == 0, done.stderr
    assert_singular(done.stdout + done.stderr)
    page = (tmp_path / "r.html").read_text()
    doubts = json.dumps(json.loads((tmp_path / "r.json").read_text()))
    assert not re.search(r">[^<>]*(?<![\d.,])1 (?:samples|runs|connections|rows|blocks)\b", page)
    assert not re.search(r"(?<![\d.,])1 (?:samples|runs|connections|rows|blocks)\b", doubts), doubts
