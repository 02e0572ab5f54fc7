"""A path that never had a connection is named beside the share of samples that were answered."""

from fathometer.dataset import open_recordings
from fathometer.findings.analyse import analyse
from fathometer.report.strip import _measured
from support.recordings import START, lognormal_ns, write

SECOND = 1_000_000_000


def test_the_head_says_that_a_path_was_never_reached(tmp_path):
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
