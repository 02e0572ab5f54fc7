"""Samples that were due and not sent are told with whose doing that was."""

import pytest

from fathometer.dataset import open_recordings
from fathometer.findings import render
from fathometer.findings.analyse import analyse
from support.recordings import START, lognormal_ns, write

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("reason", "told"),
    [("unconnected", "there was no connection"), ("late", "this process did not run in time")],
)
def test_unsent_samples_name_their_reason(tmp_path, reason, told):
    """Of samples that had no connection it was said, surely, that this host could not keep the schedule."""
    at = START + 30 * SECOND
    skipped = {"kind": "schedule.overrun", "skipped": 20, "behind_ns": 20 * SECOND, "reason": reason}
    write(tmp_path / "r", lognormal_ns(1, 60), events=[{"at_ns": at, **skipped}])
    findings = analyse(open_recordings([tmp_path])).findings
    (said,) = [render.statement(f) for f in findings if f.kind == "schedule.overrun"]
    assert told in said
    assert "could not keep the schedule" not in said
