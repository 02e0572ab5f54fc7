"""A path that never had a connection is named beside the share of samples that were answered."""

import re

from fathometer.dataset import open_recordings
from fathometer.findings.analyse import analyse
from fathometer.report.strip import _measured
from support.command_line import run
from support.recordings import START, iso, lognormal_ns, write

SECOND = 1_000_000_000


def test_head_names_unreached_path(tmp_path):
    """ "Answered 100.0 %, all of 120 samples", while one of three targets was down throughout."""
    for n in range(2):
        write(tmp_path / f"up{n}", lognormal_ns(n, 60), label=f"up{n}")
    (answered, *_) = _measured(analyse(open_recordings([tmp_path])))
    assert (answered.tone, answered.details) == ("plain", ("all of 120 samples",))
    refused = [
        {"at_ns": START + n * SECOND, "kind": "connection.refused", "target": "t", "error": "refused"}
        for n in range(6)
    ]
    write(tmp_path / "down", lognormal_ns(1, 1)[:0], label="down", events=refused)
    (answered, *_) = _measured(analyse(open_recordings([tmp_path])))
    assert (answered.tone, answered.details) == ("bad", ("all of 120 samples", "down was never reached"))


def test_head_duration_includes_unsent_time(tmp_path):
    """ "2.50 s" above an outage of 9.55 s, which lasted until the probe ended."""
    lost = {"at_ns": START + 3 * SECOND, "kind": "connection.closed", "connection": 0, "cause": "reset"}
    over = {"at_ns": START + 60 * SECOND, "kind": "recording.ended", "samples": 3}
    when = {"ended_at": iso(START + 60 * SECOND)}
    events = (lost, over)
    write(tmp_path / "r", lognormal_ns(1, 3), label="r", events=events, ended=False, manifest=when)
    done = run("report", "r", "--markdown", "-", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r" UTC, 1 min 0 s, 1 recording, 1 path\n", done.stdout), done.stdout[:500]


def test_recordings_of_warm_up_alone_are_reported(tmp_path):
    for n in range(2):
        write(tmp_path / f"r{n}", lognormal_ns(n, 5), label=f"p{n}", warm_up=5)
    done = run("report", "r0", "r1", "-o", "page.html", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "page.html").exists()
