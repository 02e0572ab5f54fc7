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
    before = np.concatenate([[0], np.cumsum(failed)])
    of_last = before[calls:] - before[:-calls] if len(ended_ns) >= calls else before[:0]
    opens = ended_ns[calls - 1 :][(of_last > 0) & (of_last >= share * calls)]
    first = np.searchsorted(opens, [begin for begin, _ in spans])
    return [
        int(opens[i]) - begin if i < len(opens) and opens[i] <= end else None
        for i, (begin, end) in zip(first.tolist(), spans, strict=True)
    ]
