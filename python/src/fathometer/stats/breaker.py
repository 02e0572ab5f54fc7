"""When a circuit breaker would have opened: recorded tries, gone through with a window of so many calls."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Span = tuple[int, int]
"""From, to: ns."""


def opens_after(
    ended_ns: NDArray[np.int64],
    failed: NDArray[np.bool_],
    spans: Sequence[Span],
    calls: int,
    share: float = 0.5,
) -> list[int | None]:
    """For each span how long after its beginning a closed breaker opens, ns; None: not while it lasts.

    The breaker looks at the last `calls` tries, never before there were so many, and opens when this share
    of them failed (as `fathom-core/policy/breaker.rs` and Resilience4j's count-based window do). What it
    would have kept from being tried is tried here: only its first opening in a span is told.

    Args:
        ended_ns: when each try ended, in order.
        failed: whether it failed.
        spans: of trouble, from and to.
        calls: in the window.
        share: of these, from which it opens.
    """
    opens = ended_ns[calls - 1 :][_would_open(failed, calls, share)]
    first = np.searchsorted(opens, [begin for begin, _ in spans])
    return [
        int(opens[i]) - begin if i < len(opens) and opens[i] <= end else None
        for i, (begin, end) in zip(first.tolist(), spans, strict=True)
    ]


def false_alarms(
    ended_ns: NDArray[np.int64],
    failed: NDArray[np.bool_],
    spans: Sequence[Span],
    calls: int,
    share: float = 0.5,
) -> int:
    """How often it would open because of tries that all ended outside of these spans.

    It counts once for as long as it has reason to be open: what it does between its openings is not known.
    """
    opens = np.concatenate([[False], _would_open(failed, calls, share), [False]])
    # Each stretch of windows that open it: the first, and one behind the last.
    begins, ends = np.flatnonzero(opens[1:] & ~opens[:-1]), np.flatnonzero(opens[:-1] & ~opens[1:])
    stretches = [
        (int(ended_ns[b]), int(ended_ns[e + calls - 2]))
        for b, e in zip(begins.tolist(), ends.tolist(), strict=True)
    ]
    return sum(not any(first <= to and begin <= last for begin, to in spans) for first, last in stretches)


def _would_open(failed: NDArray[np.bool_], calls: int, share: float) -> NDArray[np.bool_]:
    """Of each window of so many tries, from the first, whether it opens a closed breaker."""
    before = np.concatenate([[0], np.cumsum(failed)])
    of_last = before[calls:] - before[:-calls] if len(failed) >= calls else before[:0]
    return np.asarray((of_last > 0) & (of_last >= share * calls), dtype=np.bool_)
