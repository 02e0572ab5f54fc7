"""Durations as people and `fathom` write them: `500ms`, `1m30s`, `1h 30m`, `11h`."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

UNITS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
}
"""Each in ns."""
_PIECE: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s|m|h|d)")
DURATION_PATTERN: Final = r"^(\s*\d+(\.\d+)?\s*(ns|us|µs|ms|s|m|h|d))+\s*$"
"""What is read, for JSON Schema."""
MOST_NS: Final = 2**63 - 1
"""What a recording's integers hold: 292 years."""


def read(text: str) -> Decimal | None:
    """Nanoseconds, which need not be whole; None: it is no duration."""
    at, total = 0, Decimal(0)
    end = len(text.rstrip())
    while at < end:
        piece = _PIECE.match(text, at)
        if piece is None:
            return None
        total += Decimal(piece[1]) * UNITS[piece[2]]
        at = piece.end()
    return total if end else None
