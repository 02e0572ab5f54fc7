"""When a round may begin. The time is an argument: no clock is read here."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from fathometer.study.model import Schedule

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def next_begin(schedule: Schedule, now: datetime) -> datetime:
    """The first moment from `now` on at which a round may begin, in UTC."""
    zone = ZoneInfo(schedule.zone)
    local = now.astimezone(zone)
    best: datetime | None = None
    # Yesterday's window may go past midnight; a week from today each weekday has come.
    for ahead in range(-1, 8):
        day = (local + timedelta(days=ahead)).date()
        if schedule.weekdays is not None and _DAYS[day.weekday()] not in schedule.weekdays:
            continue
        for window in schedule.hours or ("00:00-24:00",):
            begin, end = (_minutes(word) for word in window.split("-"))
            midnight = datetime(day.year, day.month, day.day, tzinfo=zone)
            # Wall-clock arithmetic within the zone, then UTC: 09:00 is 09:00 when clocks change, too.
            opens = (midnight + timedelta(minutes=begin)).astimezone(UTC)
            length = end if end > begin else end + 24 * 60
            closes = (midnight + timedelta(minutes=length)).astimezone(UTC)
            at = max(opens, now.astimezone(UTC))
            if at < closes and (best is None or at < best):
                best = at
    # Every weekday lies in the days looked at, so there is one; an hour that clocks skip is as long as none.
    return best if best is not None else now.astimezone(UTC)


def _minutes(word: str) -> int:
    hours, minutes = word.split(":")
    return int(hours) * 60 + int(minutes)
