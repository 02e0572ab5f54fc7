"""A handshake that is much shorter than the shortest round trip."""

import numpy as np
import pytest

from fathometer.dataset import open_recordings
from fathometer.findings import render
from fathometer.findings.analyse import analyse
from fathometer.report import templates
from fathometer.report.page import Page
from support.ends import opened
from support.recordings import START, write

MS = 1_000_000


def told(tmp_path, connect_ns, rtt_ns, *, stamps=None, **options):
    reflector = {"address": "192.0.2.7:7", "resolved": None, "software": None, "stamps": stamps}
    events = [opened(n, START) | {"connect_ns": ns} for n, ns in enumerate(connect_ns)]
    write(tmp_path / "r", rtt_ns, events=events, manifest={"reflector": reflector}, **options)
    analysis = analyse(open_recordings([tmp_path]))
    return [f for f in analysis.findings if f.kind == "third party"], analysis


def around(rtt_ns, count=50):
    return rtt_ns + np.arange(count, dtype=np.int64) * (rtt_ns // 100)


def test_short_handshake_names_proxy_or_server(tmp_path):
    """A connection made in 0.19 ms with a round trip of 20.9 ms got no remark."""
    [finding], analysis = told(tmp_path, [190_000], around(20_900_000))
    text = render.statement(finding)
    assert "190 µs" in text
    assert "20.9 ms" in text
    assert "proxy" in text
    assert "not known" in text
    page = " ".join(templates.html(Page("", analysis)).split())
    assert "Handshakes that are answered nearer by" in page


def test_stamping_reflector_leaves_proxy_alone(tmp_path):
    [finding], _ = told(tmp_path, [190_000], around(20_900_000), stamps=True)
    assert "server" not in render.statement(finding)


@pytest.mark.parametrize(
    ("connect_ns", "rtt_ns", "options"),
    [
        ([20 * MS], around(21 * MS), {}),
        ([1_020 * MS], around(21 * MS), {}),
        ([30_000], around(300_000), {}),
        ([190_000], around(21 * MS, 7), {}),
        ([190_000], np.concatenate([around(700_000, 40), around(50 * MS, 60)]), {}),
        ([0], around(21 * MS), {"mode": "udp"}),
        ([190_000], around(21 * MS), {"size": 60_000}),
    ],
)
def test_what_explains_itself_is_no_third_party(tmp_path, connect_ns, rtt_ns, options):
    found, _ = told(tmp_path, connect_ns, rtt_ns, **options)
    assert found == []


def test_one_lost_first_packet_changes_nothing(tmp_path):
    found, _ = told(tmp_path, [1_000 * MS, 190_000, 200_000], around(21 * MS))
    assert len(found) == 1
