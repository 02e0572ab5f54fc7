"""One report of three recordings with known samples and a story; many tests read it."""

from types import SimpleNamespace

import numpy as np
import pytest

from fathometer.dataset import open_recordings
from fathometer.findings.analyse import analyse
from fathometer.report import drawing
from support.pages import write_drawn
from support.postgres import postgres
from support.recordings import START, UNANSWERED, lognormal_ns, write

SECOND = 1_000_000_000
COUNT = 6_000
RISES = 4_000
"""Not half-way: a median between two levels has no interval."""


def story(seed, median_us):
    """A level that rises by a fifth after two thirds, rare spikes, six unanswered samples."""
    rtt = lognormal_ns(seed, COUNT, median_us, sigma=0.03)
    rtt[RISES:] = (rtt[RISES:] * 1.2).astype(np.int64)
    rtt[::997] *= 4
    rtt[1000:1006] = UNANSWERED
    return rtt


def events():
    stalled, died = START + 1000 * SECOND, START + (COUNT - 1) * SECOND
    ended = {"duration_ns": 4 * SECOND, "samples": 4, "recovered": True, "retransmits": 3}
    evidence = {"sent": COUNT, "answered": COUNT - 6, "outstanding": 0}
    return [
        {"at_ns": stalled, "connection": 0, "kind": "stall.began", "seq": 1000, "outstanding": 3}
        | {"threshold_ns": 300_000_000},
        {"at_ns": stalled + 4 * SECOND, "connection": 0, "kind": "stall.ended", **ended},
        {"at_ns": died, "connection": 0, "kind": "connection.closed", "cause": "reset", "errno": 104}
        | {"age_ns": died - START, "evidence": evidence},
    ]


@pytest.fixture(scope="session")
def report(tmp_path_factory):
    root = tmp_path_factory.mktemp("report")
    sent = {
        "same-zone": story(1, 800),
        "cross-zone": story(2, 1400),
        "<b>peered & co</b> | odd": story(3, 1420),
    }
    for number, (label, rtt) in enumerate(sent.items()):
        write(root / "recordings" / str(number), rtt, label=label, events=events(), warm_up=10)
    analysis = analyse(open_recordings([root / "recordings"]))
    files = {"html": root / "r.html", "markdown": root / "r.md", "machine": [root / "r.json"]}
    page = drawing.draw(analysis)
    write_drawn(page, **files)
    paths = files | {"machine": root / "r.json"}
    return SimpleNamespace(root=root, sent=sent, analysis=analysis, page=page, **paths)


@pytest.fixture(scope="session")
def database():
    """The URL of a PostgreSQL for queries."""
    with postgres() as url:
        yield url
