"""Change points: where a series of round trips moved to another level, or got another tail.

`find_changes` decides by length. Up to `Settings.precise_longest` samples every sample is a possible
change (`states`, then `consolidate`); longer series are cut into windows, and the samples around each hit
are read again for the exact place (`windows`). `OnlineDetector` watches a running probe. How each was
measured, and how far the labels of the test data allow, is in docs/change-points.md.
"""

from fathometer.stats.changes.detect import examine, find_changes
from fathometer.stats.changes.model import Change, Examined, Settings, Undecided
from fathometer.stats.changes.online import OnlineDetector

__all__ = ["Change", "Examined", "OnlineDetector", "Settings", "Undecided", "examine", "find_changes"]
