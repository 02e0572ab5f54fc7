"""Nested cross-validation on labelled traces: `make change-points` runs it, `make test` does not."""

from __future__ import annotations

from stats.changes.score import GRID, outer, unpack


def test_f1_on_traces_that_nothing_was_chosen_on(tmp_path):
    """Weights chosen on all given traces at once promised 0.75 and reached 0.63 on others."""
    result = outer(unpack(tmp_path), [s for s in GRID if s.least_impact == 250], divisions=3)
    assert result["real"].mean >= 0.70
    assert result["synthetic"].mean >= 0.85
