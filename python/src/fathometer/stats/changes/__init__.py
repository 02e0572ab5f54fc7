"""Change points: where a series of round trips moved to another level, or got another tail.

One search for every length (`jumps`): differences of neighbouring windows of every width, against what this
series does at that width anyway. `levels` asks it of the round trips and `consolidate` keeps what matters to
people; `tails` asks it how often samples lie far above their level. `OnlineDetector` watches a running probe.
What was measured, and how far the labels of the test data allow, is in docs/change-points.md.
"""

from fathometer.stats.changes.detect import examine, find_changes
from fathometer.stats.changes.model import Change, Examined, Settings, Undecided
from fathometer.stats.changes.online import OnlineDetector
from fathometer.stats.changes.refine import placed

__all__ = [
    "Change",
    "Examined",
    "OnlineDetector",
    "Settings",
    "Undecided",
    "examine",
    "find_changes",
    "placed",
]
