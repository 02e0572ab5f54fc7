"""How numbers, durations, moments and lists are written, everywhere that people read them.

Three significant digits, SI prefixes, thousands separated, never e-notation; and no negative end of what
cannot be negative.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from fathometer.counts import count as count  # noqa: PLC0414 - handed on

_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def figure(value: float, digits: int = 3) -> str:
    """`1,070`, `2.26`, `0.0123`: so many significant digits, thousands separated."""
    if math.isnan(value):
        return "not known"
    if math.isinf(value):
        return "unbounded" if value > 0 else "-unbounded"
    if value == 0:
        return "0"
    value = _rounded(value, digits)
    places = max(digits - 1 - math.floor(math.log10(abs(value))), 0)
    return f"{value:,.{places}f}"


def _rounded(value: float, digits: int = 3) -> float:
    """Before the unit is chosen: 999.6 µs is 1.00 ms, and not 1000 µs."""
    return float(f"{value:.{digits - 1}e}")


def duration(ns: float) -> str:
    """Three significant digits below a minute, `2 min 5 s`, `11 h 15 min` and `3 d 4 h` above."""
    if math.isnan(ns):
        return "not known"
    if math.isinf(ns):
        return "unbounded"
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    if ns < 1:
        return f"{sign}{ns:.0f} ns"
    short = _rounded(ns)
    if short < 60e9:
        scale, unit = next((s, u) for s, u in _UNITS if short >= s)
        # Below a microsecond there is no more than whole nanoseconds.
        return f"{sign}{short / scale:.0f} ns" if unit == "ns" else f"{sign}{figure(short / scale)} {unit}"
    seconds = round(ns / 1e9)
    for size, unit, part, of in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= size:
            return f"{sign}{seconds // size} {unit} {seconds % size // part} {of}"
    return f"{sign}{seconds} s"


def span(low: float, high: float, *, positive: bool = True, to: str = " to ") -> str:
    """`1.20 ms to 3.40 ms`: both ends of an interval of durations. What cannot be negative ends at 0."""
    return f"{duration(max(low, 0.0) if positive else low)}{to}{duration(high)}"


def within(low: float, high: float, to: str = " to ") -> str:
    """As `span`; one duration where both ends read alike."""
    return duration(low) if duration(low) == duration(high) else span(low, high, to=to)


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


def per_second(packets: float) -> str:
    """`1,250/s`: packets a second, as `fathom limits` writes them."""
    return f"{packets:,.0f}/s"


def data(count_of_bytes: float) -> str:
    """`1.25 GB`: three significant digits, decimal units."""
    return f"{_scaled(count_of_bytes)}B"


def _scaled(value: float) -> str:
    short = _rounded(value)
    for scale, prefix in _PREFIXES:
        if short >= scale:
            return f"{figure(short / scale)} {prefix}"
    return f"{value:.0f} "


def share(value: float) -> str:
    """`12.3 %`, `0.0450 %`: of 1."""
    return f"{figure(100 * value)} %"


def times(ratio: float) -> str:
    """`2.26 times`, `1,070 times`."""
    return f"{figure(ratio)} times"


FAR: Final = 100
"""From how many times as much on two values say more than their ratio."""


def is_far(before: float, after: float) -> bool:
    """Whether one is so many times the other that a reader cannot use the ratio."""
    low, high = sorted((before, after))
    return high > FAR * low


def change(before: float, after: float) -> str:
    """By how much: `9.20 %`, or `24.1 times` for what has more than doubled; without a sign, which the verb
    tells. What falls, falls by a share.
    """
    if not before:
        return "from nothing"
    ratio = after / before
    return times(ratio) if ratio > 2 else share(abs(ratio - 1))


def signed_change(before: float, after: float) -> str:
    """A change for a table column: `+9.20 %`, `-9.20 %`, or the ratio if the value more than doubled. A ratio
    has no sign, which would suggest an addition.
    """
    if before and after <= 2 * before:
        return ("+" if after > before else "-") + change(before, after)
    return f"{figure(after / before)}×" if before else change(before, after)


def rose(before: float, after: float) -> str:
    """`rose 9.20 %`, `rose to 24.1 times as much`, `fell 56.0 %`."""
    if not before:
        return "rose from nothing" if after else "stayed"
    if after == before:
        return "stayed"
    if after > 2 * before:
        return f"rose to {times(after / before)} as much"
    return f"{'rose' if after > before else 'fell'} {share(abs(after / before - 1))}"


def lower(ratio: float) -> str:
    """How much lower 1 is than `ratio`: `56.0 % lower`; of a ratio below 1 how much higher."""
    if ratio <= 0 or math.isnan(ratio):
        return "not comparable"
    if ratio >= 1:
        return f"{share(1 - 1 / ratio)} lower"
    return f"{share(1 / ratio - 1)} higher" if ratio >= 0.5 else f"{times(1 / ratio)} as high"


def often(number: int) -> str:
    """`once`, `twice`, `50 times`."""
    return {1: "once", 2: "twice"}.get(number, f"{number:,} times")


def listed(items: list[str], most: int | None = None) -> str:
    """`a`, `a and b`, `a, b and c`; of more than `most` the first, and how many others there are."""
    if most is not None and len(items) > most:
        left = len(items) - most
        items = [*items[:most], count(left, "other")]
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}" if items else ""


def capital(sentence: str) -> str:
    """With its first letter as a sentence begins; the rest as it is."""
    return sentence[:1].upper() + sentence[1:]
