"""Recordings: open, validate, import from other tools, roll up. No statistics.

from fathometer.dataset import open_recordings
for recording in open_recordings(["recordings/"]):
    print(recording.label, recording.rollup.histogram().quantile(0.99))
"""

from fathometer.dataset.format import Flags, format_utc, parse_utc
from fathometer.dataset.histogram import Histogram, Quantile, bucket_low, bucket_of, supports
from fathometer.dataset.model import (
    ClockAnchor,
    Connection,
    Damage,
    Event,
    Explanation,
    Maintenance,
    Manifest,
    Path,
    Pause,
    Stall,
)
from fathometer.dataset.recording import Recording, open_recording, open_recordings
from fathometer.dataset.selection import Selection, Silence
from fathometer.dataset.summaries import OpenedSummary, open_summaries
from fathometer.dataset.totals import Totals

__all__ = [
    "ClockAnchor",
    "Connection",
    "Damage",
    "Event",
    "Explanation",
    "Flags",
    "Histogram",
    "Maintenance",
    "Manifest",
    "OpenedSummary",
    "Path",
    "Pause",
    "Quantile",
    "Recording",
    "Selection",
    "Silence",
    "Stall",
    "Totals",
    "bucket_low",
    "bucket_of",
    "format_utc",
    "open_recording",
    "open_recordings",
    "open_summaries",
    "parse_utc",
    "supports",
]
