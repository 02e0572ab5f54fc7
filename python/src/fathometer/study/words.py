"""Durations and sizes as people write them: ``500ms``, ``1m30s``, ``11h``; ``64``, ``1KiB``, ``1MB``."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

from fathometer.durations import DURATION_PATTERN as DURATION_PATTERN  # noqa: PLC0414 - handed on
from fathometer.durations import MOST_NS, UNITS, read

_BYTES: Final = {
    "": 1,
    "B": 1,
    "kB": 1000,
    "KB": 1000,
    "MB": 1000**2,
    "GB": 1000**3,
    "KiB": 1024,
    "MiB": 1024**2,
    "GiB": 1024**3,
}
_SIZE: Final = re.compile(r"\s*(\d+)\s*(B|kB|KB|MB|GB|KiB|MiB|GiB)?\s*")
SIZE_PATTERN: Final = r"^\s*\d+\s*(B|kB|KB|MB|GB|KiB|MiB|GiB)?\s*$"
"""What `size_bytes` reads of a string, for the JSON Schema."""


_BITS: Final = {"kbit": 10**3, "Mbit": 10**6, "Gbit": 10**9}
_RATE: Final = re.compile(r"(\d+(?:\.\d+)?)(kbit|Mbit|Gbit)")
RATE_PATTERN: Final = r"^(max|\d+(\.\d+)?(kbit|Mbit|Gbit))$"
"""What `bits_per_s` reads, for the JSON Schema."""


def bits_per_s(text: object) -> int | None:
    """Bits a second of a rate; None: `max`, as much as goes. Raises ValueError with the remedy."""
    if text == "max":
        return None
    match = _RATE.fullmatch(text) if isinstance(text, str) else None
    if match is None or not (bits := int(Decimal(match[1]) * _BITS[match[2]])):
        raise ValueError(f'{text} is no rate; write it as in "200Mbit", "1Gbit", or "max"')
    if bits > MOST_NS:
        raise ValueError(f'"{text}" is more than can be counted; write it as in "1Gbit", or "max"')
    return bits


def duration_ns(text: object) -> int:
    """Nanoseconds of a duration longer than zero; raises ValueError with the remedy."""
    if not isinstance(text, str):
        # pydantic tells a ValueError as a mistake in the file, and lets a TypeError through.
        raise ValueError(  # noqa: TRY004
            f'{text} is no duration; write it as in "500ms", "1s", "1m30s", "11h"'
        )
    total = read(text)
    if total is None:
        raise ValueError(f'"{text}" is no duration; write it as in "500ms", "1s", "1m30s", "11h"')
    if int(total) < 1:
        raise ValueError(f'"{text}" is no time at all; write a duration longer than zero')
    if total > MOST_NS:
        raise ValueError(f'"{text}" is longer than can be counted; write less than 292 years')
    return int(total)


def size_bytes(value: object) -> int:
    """Bytes of a size; raises ValueError with the remedy."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f'{value!r} is no size; write it as in 64, "1KiB", "1MB"')
    return int(match[1]) * _BYTES[match[2] or ""]


def duration_text(ns: int) -> str:
    """The same duration, for people and for ``fathom``: whole units, largest first, nothing lost."""
    parts = []
    for unit in ("d", "h", "m", "s", "ms", "us", "ns"):
        count, ns = divmod(ns, UNITS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts) or "0s"
