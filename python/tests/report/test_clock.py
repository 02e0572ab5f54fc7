"""Axes in a zone: ticks on its hours, its name beside them, and right also after the clocks changed."""

import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from fathometer.dataset import open_recordings
from fathometer.dataset.regroup import Envelope
from fathometer.dataset.regroup import envelope as envelope_of
from fathometer.findings.analyse import analyse
from fathometer.report import clock as clocks
from fathometer.report import render, templates, timeline
from fathometer.report.drawing import draw
from support.recordings import lognormal_ns, write

HOUR = 3_600_000_000_000


def at(text):
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1_000_000_000


def recorded(directory, start_ns, hours):
    n = hours * 60
    write(directory, lognormal_ns(1, n), interval_ns=60_000_000_000, start_ns=start_ns)
    return open_recordings([directory])


def labels(recording, zone):
    """The labels under a picture of a recording, and the title of its axis of time."""
    (r,) = recording
    envelope = envelope_of(r.rollup, 100)
    drawn = render.svg(timeline.over_time(envelope, [], clocks.Clock.of(zone, envelope)), "x", "title")
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", drawn)
    return [t for t in texts if re.fullmatch(r"\d\d:\d\d|\w{3} \d\d \w{3}", t)], texts


@pytest.mark.parametrize(("zone", "first"), [(UTC, "13:00"), (ZoneInfo("Asia/Kolkata"), "19:00")])
def test_ticks_fall_on_the_hours_of_the_zone(tmp_path, zone, first):
    # From 12:50 UTC: 18:20 in Kolkata, which is half an hour off.
    times, texts = labels(recorded(tmp_path / "r", at("2025-06-10T12:50"), 5), zone)
    assert first in times
    assert all(t.endswith((":00", ":30")) for t in times)
    assert str(getattr(zone, "key", "UTC")) in texts


def test_labels_are_correct_across_clock_change(tmp_path):
    """London, 26 October 2025: at 01:00 UTC it is 01:00 for the second time."""
    london = ZoneInfo("Europe/London")
    opened = recorded(tmp_path / "r", at("2025-10-25T20:00"), 12)
    envelope = envelope_of(opened[0].rollup, 100)
    clock = clocks.Clock.of(london, envelope)
    assert clock.offset_ns == HOUR
    assert clock.changes == ((at("2025-10-26T01:00"), -HOUR),)
    # Moved by the offset at its beginning throughout, so that nothing is drawn twice.
    steps = np.diff([clock.ms(int(t)) for t in envelope.start_ns])
    assert (steps > 0).all()
    times, _ = labels(opened, london)
    before, after = times.index("22:00"), times.index("06:00")
    assert before < after
    # Eight hours by the clock, and nine in truth.
    spec = timeline.over_time(envelope, [], clock)
    assert "labelExpr" in spec["layer"][0]["encoding"]["x"]["axis"]


def test_a_year_of_changes_is_found():
    year = Envelope(
        **{
            n: np.zeros(2) for n in ("sent", "unanswered", "answered", "min_ns", "max_ns", "p50_ns", "p99_ns")
        },
        start_ns=np.array([at("2025-01-01T00:00"), at("2025-12-31T00:00")]),
        width_ns=HOUR,
        error=0.0,
    )
    clock = clocks.Clock.of(ZoneInfo("Europe/London"), year)
    assert clock.changes == ((at("2025-03-30T01:00"), HOUR), (at("2025-10-26T01:00"), 0))
    assert clocks.Clock.of(UTC, year) == clocks.Clock("UTC")


def test_page_names_the_time_zone(tmp_path):
    opened = recorded(tmp_path / "r", at("2025-06-10T12:00"), 60)
    analysis = analyse(opened, zone=ZoneInfo("Europe/London"))
    made = templates.html(draw(analysis))
    assert "Times on the axes are of Europe/London; elsewhere in this report they are UTC." in made
    assert "hour of the day, Europe/London" in made
    assert ">Europe/London<" in made
    utc = templates.html(draw(analyse(recorded(tmp_path / "u", at("2025-06-10T12:00"), 60))))
    assert "Times on the axes are of UTC." in utc
    assert "hour of the day, UTC" in utc
