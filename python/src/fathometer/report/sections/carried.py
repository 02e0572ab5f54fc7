"""How much TCP carried on each path, over its runs."""

from __future__ import annotations

from fathometer.findings.carried import Carried, carried
from fathometer.findings.model import Analysis
from fathometer.findings.throughput import DIRECTIONS
from fathometer.findings.words import count, rate, share
from fathometer.report.sections import Section, table_of
from fathometer.report.tables import Cell, Table
from fathometer.stats.repeated import Mean


def _table(analysis: Analysis) -> Table | None:
    every = carried(analysis)
    rows = [_row(x) for x in every]
    return table_of(
        "Throughput by path", ("path", "way", "rank", "mean of the runs", "less than the first"), rows
    )


def _row(x: Carried) -> tuple[Cell, ...]:
    less = Cell("–")
    if x.less is not None:
        part = f" ({share(x.less.mean / x.first)})" if x.first else ""
        less = Cell(f"{rate(x.less.mean)}{part}", _around(x.less))
    return (
        Cell(x.name, count(x.runs, "run")),
        Cell(DIRECTIONS[x.way]),
        Cell(f"{x.rank}"),
        Cell(rate(x.bits_per_s.mean), _around(x.bits_per_s)),
        less,
    )


def _around(of: Mean) -> str:
    if of.low is None or of.high is None:
        return ""
    low = f"-{rate(-of.low)}" if of.low < 0 else rate(of.low)
    return f"{low} … {rate(of.high)}"


SECTION = Section(
    "carried",
    "Payload that was received, one figure a run. Means over the runs, with 95 % intervals (Student's t). "
    "Paths of one rank are not told apart: the interval of their difference, by round, contains 0; those "
    "intervals are so wide that all of them hold together with 95 %. Only tests with the same streams, "
    "direction, block and limit are ranked together.",
    _table,
)
