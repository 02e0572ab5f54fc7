"""What is asked of a recording's samples, under one name: histograms (`aggregate`) and series (`series`).

Everything but `samples` streams: its memory grows with the groups, not with the samples. Times are ns since
the Unix epoch. Warm-up is left out unless the `Selection` says otherwise.
"""

from fathometer.dataset.aggregate import (
    ALL,
    HOUR_NS,
    Blocks,
    Hour,
    blocks,
    check_buckets,
    histogram,
    histograms_by,
    hours,
)
from fathometer.dataset.engine import EVERYTHING, METRICS, Selection
from fathometer.dataset.series import (
    MAX_SAMPLES,
    Chunks,
    Envelope,
    Samples,
    around,
    chunks,
    envelope,
    first_samples,
    samples,
    tails,
)

__all__ = [
    "ALL",
    "EVERYTHING",
    "HOUR_NS",
    "MAX_SAMPLES",
    "METRICS",
    "Blocks",
    "Chunks",
    "Envelope",
    "Hour",
    "Samples",
    "Selection",
    "around",
    "blocks",
    "check_buckets",
    "chunks",
    "envelope",
    "first_samples",
    "histogram",
    "histograms_by",
    "hours",
    "samples",
    "tails",
]
