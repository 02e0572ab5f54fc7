"""The figure on labelled traces."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stats.changes.score import match, score, unpack

indices = st.lists(st.integers(0, 30), unique=True, max_size=5)


def largest_matching(found, labels, window):
    """All subsets, all orders: slow and certain."""
    best = 0
    for size in range(1, min(len(found), len(labels)) + 1):
        for a in combinations(sorted(found), size):
            for b in combinations(sorted(labels), size):
                # On a line an uncrossed matching is as good as any.
                if all(abs(x - y) <= window for x, y in zip(a, b, strict=True)):
                    best = size
    return best


@given(indices, indices)
def test_the_scorer_pairs_as_many_as_can_be(found, labels):
    assert match(found, labels, 2) == largest_matching(found, labels, 2)


@pytest.mark.parametrize(
    ("every", "real", "synthetic"),
    # Measured: 0.749 and 0.841 of every fifth trace, 0.746 and 0.885 of all; docs/change-points.md says why.
    [(5, 0.73, 0.82), pytest.param(1, 0.73, 0.87, marks=pytest.mark.acceptance)],
)
def test_f1_on_the_labelled_traces(tmp_path, every, real, synthetic):
    pooled = score(unpack(tmp_path), every=every)
    assert pooled["real"].f1 >= real
    assert pooled["synthetic"].f1 >= synthetic
