"""How findings write durations, moments and counts."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, tzinfo

_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))


def duration(ns: float) -> str:
    """Three significant digits below a minute, `2 min 5 s`, `11 h 15 min` and `3 d 4 h` above."""
    if math.isnan(ns):
        return "not known"
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    if ns >= 86_400e9:
        return f"{sign}{int(ns // 86_400e9)} d {int(ns % 86_400e9 // 3600e9)} h"
    if ns >= 3600e9:
        return f"{sign}{int(ns // 3600e9)} h {int(ns % 3600e9 // 60e9)} min"
    if ns >= 60e9:
        return f"{sign}{int(ns // 60e9)} min {int(ns % 60e9 // 1e9)} s"
    for scale, unit in _UNITS:
        if ns >= scale or unit == "ns":
            value = ns / scale
            digits = max(0, 2 - math.floor(math.log10(value))) if value >= 1 else 0
            return f"{sign}{value:.{digits}f} {unit}"
    raise AssertionError(ns)


def moment(at_ns: int, zone: tzinfo = UTC) -> str:
    """`2025-03-20 10:04:12.345 UTC`: to the millisecond."""
    whole, rest = divmod(at_ns, 1_000_000_000)
    at = datetime.fromtimestamp(0, UTC) + timedelta(seconds=whole)
    local = at.astimezone(zone)
    return f"{local:%Y-%m-%d %H:%M:%S}.{rest // 1_000_000:03d} {local.tzname() or ''}".rstrip()


def zone_name(zone: tzinfo) -> str:
    """`Europe/London`, or `UTC`."""
    return str(getattr(zone, "key", zone))


def offset_ns(zone: tzinfo, at_ns: int) -> int:
    """How far a zone's clocks are ahead of UTC at a moment, ns."""
    offset = datetime.fromtimestamp(at_ns / 1e9, zone).utcoffset()
    return 0 if offset is None else int(offset.total_seconds()) * 1_000_000_000


def rate(bits_per_second: float) -> str:
    """`93.4 Mbit/s`: three significant digits, decimal units, of payload."""
    return f"{_scaled(bits_per_second)}bit/s"


def data(count_of_bytes: float) -> str:
    """`1.25 GB`: three significant digits, decimal units."""
    return f"{_scaled(count_of_bytes)}B"


def _scaled(value: float) -> str:
    for scale, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= scale:
            scaled = value / scale
            return f"{scaled:.{max(0, 2 - math.floor(math.log10(scaled)))}f} {unit}"
    return f"{value:.0f} "


def change(before: float, after: float) -> str:
    """`9.2 %`, or `24-fold` for what has more than tripled; without a sign, which the verb tells."""
    if not before or not after:
        return "all of it"
    ratio = after / before
    return f"{abs(100 * (ratio - 1)):.1f} %" if 1 / 3 < ratio <= 3 else f"{max(ratio, 1 / ratio):,.3g}-fold"


def count(number: int, one: str, many: str | None = None) -> str:
    """`1 stall`, `3 stalls`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def listed(items: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}" if items else ""
