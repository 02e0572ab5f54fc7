"""Where the time of a database's queries went: the split as stacked bars, and wall times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from fathometer.dataset.query_files import PARTIES
from fathometer.findings.databases import Asked, databases, shortened
from fathometer.findings.databases_compared import Pair, compared
from fathometer.findings.model import Analysis
from fathometer.findings.words import count, duration, times, within
from fathometer.findings.words import figure as written
from fathometer.report.sections import Picture, Section, table_of
from fathometer.report.tables import Cell, Table, figure
from fathometer.report.vega import COLOURS, MOST_ROWS, ROW, WIDE, Spec, base, named_rows
from fathometer.stats.family import Difference

_NONE: Final = Cell("–")
_OPEN: Final = "open"
_COLOURS: Final = {"server": COLOURS[0], "path": COLOURS[1], "client": COLOURS[2], _OPEN: "#B8B8B8"}
_SURE: Final = {"high": "", "medium": "seems to be", "low": ""}
_LETTERS: Final = 60


def _table(analysis: Analysis) -> Table | None:
    every = databases(analysis.scenarios)
    pairs = compared(analysis.scenarios, analysis.matters)
    rows = [_row(one, every, pairs) for one in every]
    head = (
        *("path and query", "queries", "wall p50", "wall p95", "wall p99"),
        *(*PARTIES, "most of it", "over other paths"),
    )
    table = table_of("Databases", head, rows)
    return None if table is None else Table(table.caption, table.head, table.rows, ("wall p95", "wall p99"))


def _row(one: Asked, every: Sequence[Asked], pairs: Sequence[Pair]) -> tuple[Cell, ...]:
    failed = sum(one.failures.values())
    kinds = ", ".join(f"{kind}: {n:,}" for kind, n in one.failures.items())
    again = [f"{count(one.retransmits, 'segment')} sent again"] if one.retransmits else []
    ends = [f"{failed:,} failed ({kinds})"] if failed else []
    ends += [f"{one.cancelled:,} cancelled"] if one.cancelled else []
    under = "; ".join([*ends, *again, *_connections(one)])
    parts = [
        Cell(within(part.low_ns, part.high_ns, " … ")) if (part := one.parts.get(party)) else _NONE
        for party in PARTIES
    ]
    return (
        Cell(
            one.path,
            shortened(one.asked, _LETTERS),
            "a part of its recording cannot be read" if one.broken else "",
        ),
        Cell(f"{one.queries:,}", under),
        *(figure(e) for e in one.wall.values()),
        *parts,
        _whose(one),
        _others(one, every, pairs),
    )


def _whose(one: Asked) -> Cell:
    if one.party and one.sure:
        return Cell(one.party, _SURE[one.sure])
    return Cell(one.greatest, "the greatest part") if one.greatest else _NONE


def _connections(one: Asked) -> list[str]:
    """How far connections side by side lie apart; empty: there was one."""
    if one.apart is None:
        return []
    least, most = one.apart
    ends = within(least.median_ns, most.median_ns, " … ")
    return [f"{count(len(one.each), 'connection')}, medians {ends}"]


def _others(one: Asked, every: Sequence[Asked], pairs: Sequence[Pair]) -> Cell:
    """By the verdict, and how many times as long as over the other this one takes."""
    told = [
        _against(pair.difference, pair.b if one.path == pair.a else pair.a, one.path == pair.b)
        for pair in pairs
        if pair.shape == one.shape and one.path in {pair.a, pair.b}
    ]
    others = [there for there in every if there.shape != one.shape and one.shape]
    for there in others:
        if there.path != one.path and there.shape_without("connections") == one.shape_without("connections"):
            number = count(max(len(there.each), 1), "connection")
            told.append(f"not compared with {there.path}, where {number} asked")
        unknown = [name for name, of in (("this", one), ("that", there)) if of.encrypted is None]
        if unknown and there.shape_without("encrypted") == one.shape_without("encrypted"):
            what = "pooled" if there.path == one.path else "compared"
            told.append(f"not {what} with {there.path}: nobody knows whether {unknown[0]} was encrypted")
    return Cell("; ".join(told) or "–")


def _against(d: Difference, other: str, is_b: bool) -> str:
    """The verdict and the ratio are of B, seen from A."""
    if not d.decided or d.ratio_interval is None:
        return f"{other}: {d.verdict}"
    ends = d.ratio_interval.low, d.ratio_interval.high
    ratio, low, high = (d.ratio, *ends) if is_b else (1 / d.ratio, *(1 / end for end in reversed(ends)))
    told = f"{d.verdict} from" if not d.differs else "slower than" if ratio > 1 else "faster than"
    return f"{told} {other} ({times(ratio)}, {written(low)} … {written(high)})"


def _picture(analysis: Analysis, width: int = WIDE) -> Spec | None:
    """A bar a query: what is surely each party's, and what is open."""
    rows: list[dict[str, Any]] = []
    names: list[str] = []
    for one in databases(analysis.scenarios):
        if not one.parts or len(names) == MOST_ROWS:
            continue
        name = _named(one, names)
        names.append(name)
        sure = {party: part.low_ns for party, part in one.parts.items()} | {_OPEN: one.open_ns}
        rows += [
            {"query": name, "part": part, "order": n, "ms": float(f"{ns / 1e6:.5g}"), "time": duration(ns)}
            for n, (part, ns) in enumerate(sure.items())
        ]
    if not rows:
        return None
    spec = base(width, ROW * len(names), rows, tuple(_COLOURS))
    spec |= {
        "mark": {"type": "bar", "height": 12, "yOffset": 6},
        "encoding": {
            "x": {"field": "ms", "type": "quantitative", "title": "ms of a query's wall time, in the mean"},
            "y": named_rows(names, "query"),
            "color": {
                "field": "part",
                "type": "nominal",
                "title": None,
                "sort": list(_COLOURS),
                "scale": {"domain": list(_COLOURS), "range": list(_COLOURS.values())},
            },
            "order": {"field": "order", "type": "quantitative"},
        },
    }
    return spec


def _named(one: Asked, taken: list[str]) -> str:
    """The path; with the query, where the path has several."""
    name = f"{one.path}, {shortened(one.asked, _LETTERS)}" if one.asked else one.path
    number = sum(other == name or other.startswith(f"{name} (") for other in taken)
    return f"{name} ({number + 1})" if number else name


SECTION = Section(
    "databases",
    "Queries of fathom sql. Wall: from before the first request to the whole answer, worked on; "
    "beneath each its 95 % interval. Server, path and client: how much of a query's wall time was "
    "surely theirs, and how much may have been, in the mean; what lies between is open. Most of it: "
    "more than half for sure, or by the estimates (seems to be); or, where nobody has that, who surely has "
    "more than either of the others can have (the greatest part). The first query of a run or login, which "
    "finds nothing warm, and those that failed are in no figure. Where several "
    "connections ask side by side the figures are of the queries of all of them, and the least and the "
    "greatest of their medians stand beneath. Wall times of the same query over several paths are compared "
    "by their medians, those of the same moments together where the paths were asked over side by side; in "
    "brackets how many times as long it takes as over the other, with the 95 % interval. Over another number "
    "of connections it is not the same.",
    _table,
    Picture(
        "database-split",
        "Whose time a query takes",
        "What is surely the server's, the path's and the client's, and what is open between them.",
        _picture,
    ),
)
