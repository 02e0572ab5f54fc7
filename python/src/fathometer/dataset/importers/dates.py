"""Dates of a table: ISO 8601, or day, month and year in an order that the column or the user gives."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np

from fathometer.dataset.histogram import Ints
from fathometer.dataset.importers.base import File, Options
from fathometer.errors import ExitCode, FathometerError

ORDERS: Final = ("dmy", "mdy", "ymd")
"""What ``--date-order`` takes."""
_NUMBERS: Final = re.compile(r"(\d{1,4})[./-](\d{1,2})[./-](\d{1,4})(?:[ T]+(.*))?$")
"""Three numbers, and what comes after the date."""
_ISO: Final = re.compile(r"\d{4}-\d\d-\d\d(?!\d)")
_BACK: Final = timedelta(minutes=20)
"""Shortest step back that counts as the end of daylight saving; rows out of order step back by less."""
_YEAR: Final = 4
"""Digits of a year that can be nothing else."""


def read_dates(texts: Sequence[str | None], file: File, options: Options, notes: list[str]) -> Ints:
    """Moments in ns since the Unix epoch; 0 where a cell is empty."""
    order = options.date_order or _order(texts, file)
    naive = 0
    twice: dict[int, datetime] = {}
    moments = np.zeros(len(texts), dtype=np.int64)
    for row, text in enumerate(texts):
        if not text:
            continue
        try:
            when = _moment(text, order)
        except ValueError:
            known = (
                f"no date in the order {order}" if order and _ordered(text) else "neither a date nor an epoch"
            )
            raise file.bad(
                f"column {options.time} in line {_line(file, text, row)} is {text!r}, which is {known}",
                "name the column that holds the time with --time, and the order of dates with --date-order",
            ) from None
        try:
            if when.tzinfo is None:
                naive += 1
                when = when.replace(tzinfo=options.zone)
                if (
                    options.zone is not UTC
                    and (later := when.replace(fold=1).utcoffset()) != when.utcoffset()
                ):
                    _exists(when, later, file, text, row, options)
                    twice[row] = when
            moments[row] = _ns(when)
        except OverflowError:
            raise file.bad(
                f"column {options.time} in line {_line(file, text, row)} is {text!r}, and a recording holds "
                "the years 1677 to 2262",
                "name the column that holds the time with --time",
            ) from None
    for row, when in _chosen(twice, texts, file, options, notes).items():
        moments[row] = _ns(when)
    if naive:
        notes.append(f"its dates name no zone; they are read as {options.zone} (--timezone)")
    return moments


def _ns(when: datetime) -> int:
    since = when - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000_000 + since.microseconds * 1_000


def _exists(
    when: datetime, later: timedelta | None, file: File, text: str, row: int, options: Options
) -> None:
    """Raises `FathometerError` for a local time that a zone skips in spring."""
    first = when.utcoffset()
    if first is not None and later is not None and first < later:
        raise file.bad(
            f"column {options.time} in line {_line(file, text, row)} is {text!r}, which does not exist in "
            f"{options.zone} (daylight saving begins)",
            "name the zone of its dates with --timezone, or their distance from UTC with --utc-offset",
        )


def _chosen(
    twice: dict[int, datetime], texts: Sequence[str | None], file: File, options: Options, notes: list[str]
) -> dict[int, datetime]:
    """UTC times of local times that exist twice, by the user's offset, or by the single step back among
    them.
    """
    if options.offset is not None:
        chosen = {row: when.replace(fold=fold) for row, when in twice.items() for fold in (1, 0)
                  if when.replace(fold=fold).utcoffset() == options.offset}  # fmt: skip
        open_ = [row for row in twice if row not in chosen]
    else:
        chosen, open_ = {}, []
        for _, rows in itertools.groupby(twice, lambda row: twice[row].date()):
            hour = list(rows)
            # Wall time without the zone, because the wall time goes back.
            walls = [twice[row].replace(tzinfo=None) for row in hour]
            back = [n for n in range(1, len(walls)) if walls[n] < walls[n - 1]]
            if len(back) == 1 and walls[back[0] - 1] - walls[back[0]] >= _BACK:
                chosen |= {row: twice[row].replace(fold=int(n >= back[0])) for n, row in enumerate(hour)}
                before, after = texts[hour[back[0] - 1]], texts[hour[back[0]]]
                notes.append(
                    f"daylight saving ends between {before!r} and {after!r}, where the time goes back"
                )
            else:
                open_ += hour
    if open_:
        when = twice[open_[0]]
        offsets = [f"{when.replace(fold=fold):%z}" for fold in (0, 1)]
        offsets = [f"{offset[:3]}:{offset[3:5]}" for offset in offsets]
        raise FathometerError(
            "import",
            f"{file.path}: column {options.time} in line {_line(file, texts[open_[0]] or '', open_[0])} is "
            f"{texts[open_[0]]!r}, which exists twice in {options.zone} (daylight saving ends)",
            f"say which is meant: --utc-offset {offsets[0]} or {offsets[1]}",
            exit_code=ExitCode.USAGE,
        )
    return chosen


def _ordered(text: str) -> re.Match[str] | None:
    """A date whose order must be known; None: ISO 8601, or no date."""
    return None if _ISO.match(text) else _NUMBERS.match(text)


def _order(texts: Sequence[str | None], file: File) -> str | None:
    """The order that the whole column allows; None where no date needs one."""
    seen: dict[str, tuple[int, re.Match[str]]] = {}
    for row, text in enumerate(texts):
        if text and (match := _ordered(text)):
            seen.setdefault(match[0].split()[0], (row, match))
    dates = [match for _, match in seen.values()]
    if not dates:
        return None
    if all(len(m[1]) == _YEAR for m in dates):
        return "ymd"
    if all(len(m[3]) == _YEAR for m in dates):
        day_first = any(int(m[1]) > 12 for m in dates)
        month_first = any(int(m[2]) > 12 for m in dates)
        if month_first and not day_first:
            return "mdy"
        # Where day and month are the same in each date, the order makes no difference.
        if day_first or all(int(m[1]) == int(m[2]) for m in dates):
            return "dmy"
    row, match = next((row, m) for row, m in seen.values() if len(m[3]) != _YEAR or int(m[1]) != int(m[2]))
    raise FathometerError(
        "import",
        f"{file.path}: line {_line(file, match[0], row)}: the date {match[0]!r} can be read in several ways",
        "say which number is the day: --date-order dmy, mdy or ymd",
        exit_code=ExitCode.USAGE,
    )


def _line(file: File, text: str, row: int) -> int:
    """The line of the file that a cell stands in; rows that were left out do not put it wrong."""
    return next((n for n, line in enumerate(file.text.splitlines(), 1) if text in line), row + 2)


def _moment(text: str, order: str | None) -> datetime:
    match = _ordered(text)
    if order is None or match is None:
        return datetime.fromisoformat(text)
    numbers = dict(zip(order, (match[1], match[2], match[3]), strict=True))
    year = numbers["y"]
    if len(year) not in {2, _YEAR} or max(len(numbers["d"]), len(numbers["m"])) > 2:
        raise ValueError(text)
    # As strptime has it: 69 to 99 are of the last century.
    whole = int(year) + (0 if len(year) == _YEAR else 1900 if int(year) >= 69 else 2000)
    day = datetime(whole, int(numbers["m"]), int(numbers["d"]))  # noqa: DTZ001 - the zone is the caller's
    return datetime.fromisoformat(f"{day:%Y-%m-%d}T{match[4] or '00:00'}")
