"""What is asked of a recording's samples, under one name: histograms (`aggregate`), series (`series`), ends
of connections (`ends`), and the one pass that answers many of them (`scan.prepare`).

Everything but `samples` streams: its memory grows with the groups, not with the samples. Times are ns since
the Unix epoch. Warm-up is left out unless the `Selection` says otherwise.
"""

from fathometer.dataset.aggregate import (
    HOUR_NS,
    Blocks,
    Histograms,
    Hour,
    blocks,
    check_buckets,
    grid_of,
    histogram,
    histograms_by,
    hours,
    quarters,
)
from fathometer.dataset.ends import Chunks, Stretches, chunks, stretches, tails
from fathometer.dataset.scan import Question, ask, prepare
from fathometer.dataset.selection import ALL, EVERYTHING, METRICS, Selection
from fathometer.dataset.series import (
    MAX_SAMPLES,
    Bins,
    Envelope,
    Samples,
    around,
    bins,
    first_samples,
    firsts,
    samples,
)
from fathometer.dataset.tally import Grid

__all__ = [
    "ALL",
    "EVERYTHING",
    "HOUR_NS",
    "MAX_SAMPLES",
    "METRICS",
    "Bins",
    "Blocks",
    "Chunks",
    "Envelope",
    "Grid",
    "Histograms",
    "Hour",
    "Question",
    "Samples",
    "Selection",
    "Stretches",
    "around",
    "ask",
    "bins",
    "blocks",
    "check_buckets",
    "chunks",
    "first_samples",
    "firsts",
    "grid_of",
    "histogram",
    "histograms_by",
    "hours",
    "prepare",
    "quarters",
    "samples",
    "stretches",
    "tails",
]
