"""Where the time of a database's queries went, by path.

The shares are those of `fathom sql` and `fathom recording summary` (docs/databases.md); wall times have the
intervals of round trips (docs/statistics.md).
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from fathometer.counts import count
from fathometer.dataset.queries import Queries
from fathometer.dataset.query_files import PARTIES
from fathometer.findings.finding import Confidence
from fathometer.findings.model import Scenario
from fathometer.findings.parts import recordings_of
from fathometer.stats.results import Estimate
from fathometer.stats.rollup import rollup_estimates
from fathometer.stats.series import from_series

SHARES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
Party = Literal["server", "path", "client"]
_NAMED: Final[tuple[Party, ...]] = ("server", "path", "client")
_ROWS: Final = ("fetch_size", "simple", "packet_size", "encrypted")
_SHAPE: Final = ("protocol", "database", "source", "think_ns", *_ROWS, "connections")
"""What of a run's settings makes its query another one (another database has other rows; where others ask at
the same time the server has more to do). How often it was asked does not."""


@dataclass(frozen=True, slots=True)
class PartyTime:
    """A party's part of a query in the mean, ns."""

    low_ns: float
    ns: float
    high_ns: float


@dataclass(frozen=True, slots=True)
class ServerCount:
    """What the server counted as waits for path or client, and beside it what the split gives the two: of all
    queries, because the server counts those that are in no figure as well.
    """

    wait: str
    waits: int
    ns: int
    queries: int
    wall_ns: int
    """Of all of them together; so the next."""
    low_ns: Mapping[str, int]
    high_ns: Mapping[str, int]
    """Bounds of the parts of path and client."""
    lost_sessions: int
    """With which their count went: it was so much at the least."""


@dataclass(frozen=True, slots=True)
class OfConnection:
    """What one of several connections side by side came to, all runs together."""

    connection: int
    """From 0."""
    queries: int
    failed: int
    counted: int
    """Queries that the next are of."""
    median_ns: float
    """Of the wall times; NaN: no query counts."""
    parts: Mapping[str, PartyTime]
    """By party, in the mean; empty: no query counts."""


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """One query over one path, all runs together."""

    path: str
    """The scenario's name."""
    asked: str
    """The query, or the rows that were asked for; empty: the recording does not say."""
    shape: str | None
    """The same for the same query; None: nobody knows what was asked."""
    runs: tuple[Queries, ...]
    """In order of time."""
    ids: tuple[str, ...]
    """Of their recordings."""
    wall: Mapping[str, Estimate]
    """By the names of `SHARES`, ns."""
    mean_ns: float
    """Of the wall times; NaN: no query counts."""
    parts: Mapping[str, PartyTime]
    """By party; empty: no query counts."""
    party: Party | None
    """Whose time most of it is; None: nobody's for sure."""
    sure: Confidence | None
    """How sure that is; None: not at all."""
    greatest: Party | None
    """Who surely has more than either of the others can have, be it most of the time or not."""
    counted: int
    """Queries that the figures are of."""
    each: tuple[OfConnection, ...] = ()
    """Of several connections side by side; empty: there was one."""

    @property
    def apart(self) -> tuple[OfConnection, OfConnection] | None:
        """The connection with the least median, and the one with the greatest; None: no two have any."""
        known = [one for one in self.each if one.counted]
        if len(known) < _TWO:
            return None
        return min(known, key=lambda one: one.median_ns), max(known, key=lambda one: one.median_ns)

    def shape_without(self, name: Literal["connections", "encrypted"]) -> str | None:
        """The same for the same query whatever that is; None: nobody knows what was asked."""
        return None if self.shape is None else _shape({**self.runs[0].asked, name: None})

    @property
    def encrypted(self) -> bool | None:
        """Whether it was; None: nobody knows."""
        encrypted: bool | None = self.runs[0].asked["encrypted"]
        return encrypted

    @property
    def queries(self) -> int:
        """How many were asked."""
        return sum(q.number for q in self.runs)

    @property
    def failures(self) -> Mapping[str, int]:
        """By kind."""
        return _summed([q.failures for q in self.runs])

    @property
    def cancelled(self) -> int:
        """That the user ended."""
        return sum(q.cancelled for q in self.runs)

    @property
    def no_split(self) -> Mapping[str, int]:
        """Queries with bounds alone, by why."""
        known = [Counter(w for w in np.array(q.no_split, object)[q.counted] if w) for q in self.runs]
        return _summed(known)

    @property
    def retransmits(self) -> int | None:
        """Segments that were sent again from here; None: no run tells."""
        known = [n for q in self.runs for n in q.retransmits if n is not None]
        return sum(known) if known else None

    @property
    def sent_again(self) -> int:
        """Queries in which there were any."""
        return sum(bool(n) for q in self.runs for n in q.retransmits)

    @property
    def by_server(self) -> ServerCount | None:
        """Over the runs that have it; None: no run has."""
        known = [(q, c) for q in self.runs if (c := q.counted_by_server) is not None]
        if not known:
            return None
        low, high = (
            {p: sum(int(getattr(q, end)[p].sum()) for q, _ in known) for p in ("path", "client")}
            for end in ("low_ns", "high_ns")
        )
        return ServerCount(
            wait=known[0][1].wait,
            waits=sum(c.waits for _, c in known),
            ns=sum(c.ns for _, c in known),
            queries=sum(q.number for q, _ in known),
            wall_ns=sum(int(q.wall_ns.sum()) for q, _ in known),
            low_ns=low,
            high_ns=high,
            lost_sessions=sum(c.lost_sessions for _, c in known),
        )

    @property
    def open_ns(self) -> float:
        """Of the mean, what may be one party's or another's."""
        return max(self.mean_ns - sum(p.low_ns for p in self.parts.values()), 0.0)

    @property
    def broken(self) -> bool:
        """Whether a part of it cannot be read."""
        return any(q.damage for q in self.runs)


@lru_cache(maxsize=1)
def databases(scenarios: tuple[Scenario, ...]) -> tuple[Asked, ...]:
    """What recordings of `fathom sql` come to: each query over each path, by path."""
    groups: dict[tuple[str, str], list[tuple[str, Queries]]] = {}
    for scenario, recording in recordings_of(scenarios):
        for queries in recording.queries.by_setting() if recording.queries is not None else ():
            group = scenario.name, _shape(queries.asked)
            groups.setdefault(group, []).append((recording.manifest.id, queries))
    in_order = sorted(groups.items(), key=lambda group: (group[0][0], _in_order(group[0][1])))
    return tuple(_asked(path, shape, runs) for (path, shape), runs in in_order)


def _in_order(shape: str) -> str:
    """By which packets of 2,048 bytes come before those of 16,384."""
    return re.sub(r"\d+", lambda number: number[0].zfill(_DIGITS), shape)


def _shape(asked: Mapping[str, object]) -> str:
    return json.dumps({n: asked.get(n) for n in _SHAPE}, sort_keys=True)


def words_of(asked: Mapping[str, object]) -> str:
    """What was asked: the query, else the rows that the server made up; empty: it was kept to itself."""
    source = asked.get("source")
    if not isinstance(source, dict):
        return ""
    encrypted = "encrypted" if asked.get("encrypted") is True else ""
    told = (_packets(asked), _fetched(asked), encrypted, _side_by_side(asked))
    setting = "".join(f", {words}" for words in told if words)
    if isinstance(query := source.get("query"), str):
        return " ".join(query.split()) + setting
    rows, size = source.get("rows"), source.get("row_bytes")
    if isinstance(rows, int) and isinstance(size, int):
        return f"{rows:,} × {count(size, 'byte')}{setting}"
    return ""


def setting_words(asked: Mapping[str, object]) -> str:
    """What a setting of a sweep is."""
    size = asked.get("packet_size")
    if not isinstance(size, dict):
        return _fetched(asked) or "all rows at once"
    return _packets(asked)


def _fetched(asked: Mapping[str, object]) -> str:
    """How many rows came in a round trip; empty: all."""
    rows = asked.get("fetch_size")
    return f"{count(rows, 'row')} a round trip" if isinstance(rows, int) else ""


def _side_by_side(asked: Mapping[str, object]) -> str:
    """Empty: one connection asked."""
    number = asked.get("connections")
    return f"{count(number, 'connection')} side by side" if isinstance(number, int) and number > 1 else ""


def shortened(query: str, letters: int) -> str:
    """So many letters of it at the most."""
    return query if len(query) <= letters else f"{query[: letters - 1]}…"


def _packets(asked: Mapping[str, object]) -> str:
    """The size of packets that SQL Server granted, which makes a query another; of others nothing."""
    size = asked.get("packet_size")
    granted = size.get("granted") if isinstance(size, dict) else None
    wanted = size.get("asked") if isinstance(size, dict) else None
    of = f", {count(wanted, 'byte')} asked for" if isinstance(wanted, int) and wanted != granted else ""
    return f"packets of {count(granted, 'byte')}{of}" if isinstance(granted, int) else ""


def _asked(path: str, shape: str, runs: Sequence[tuple[str, Queries]]) -> Asked:
    runs = sorted(runs, key=lambda run: int(run[1].started_ns[0]) if run[1].number else 0)
    queries = tuple(q for _, q in runs)
    asked = words_of(queries[0].asked)
    wall = wall_of(queries)
    parts, known = _parts(queries, [q.counted for q in queries]), {}
    for party in parts:
        # As `fathom-core/query/verdict.rs`: of a query without an estimate what surely is the party's.
        of = [np.where(q.split, q.part_ns[party], q.low_ns[party])[q.counted] for q in queries]
        known[party] = float(np.concatenate(of).mean())
    mean = float(wall.mean()) if len(wall) else math.nan
    whose, sure = _most(parts, known, mean)
    return Asked(
        path=path,
        asked=asked,
        shape=shape if asked else None,
        runs=queries,
        ids=tuple(i for i, _ in runs),
        wall=dict(zip(SHARES, rollup_estimates(from_series(wall), tuple(SHARES.values())), strict=True)),
        mean_ns=mean,
        parts=parts,
        party=whose,
        sure=sure,
        greatest=_greatest(parts),
        counted=len(wall),
        each=_each(queries),
    )


def _parts(runs: Sequence[Queries], which: Sequence[NDArray[np.bool_]]) -> Mapping[str, PartyTime]:
    """In the mean of these queries of each run; empty: there are none."""
    if not any(these.any() for these in which):
        return {}
    parts = {}
    for party in PARTIES:
        low, at, high = (
            float(np.concatenate([of[party][these] for of, these in zip(ends, which, strict=True)]).mean())
            for ends in ([getattr(q, name) for q in runs] for name in ("low_ns", "part_ns", "high_ns"))
        )
        # To the nanosecond, as it is written for machines, so that words for both read alike.
        parts[party] = PartyTime(*(float(round(end)) for end in (low, at, high)))
    return parts


def _each(runs: Sequence[Queries]) -> tuple[OfConnection, ...]:
    number = runs[0].side_by_side
    return tuple(_of_connection(runs, at) for at in range(number)) if number > 1 else ()


def _of_connection(runs: Sequence[Queries], at: int) -> OfConnection:
    own = [q.connections == at for q in runs]
    which = [q.counted & these for q, these in zip(runs, own, strict=True)]
    wall = np.concatenate([q.wall_ns[these] for q, these in zip(runs, which, strict=True)])
    failed = [sum(q.has_failed(int(i)) for i in np.flatnonzero(t)) for q, t in zip(runs, own, strict=True)]
    return OfConnection(
        connection=at,
        queries=sum(int(these.sum()) for these in own),
        failed=sum(failed),
        counted=len(wall),
        median_ns=float(np.median(wall)) if len(wall) else math.nan,
        parts=_parts(runs, which),
    )


_TWO: Final = 2
_DIGITS: Final = 20
"""No number of a shape has more."""
_MOST: Final = 0.5
"""Of the time: more is most of it."""


def _most(
    parts: Mapping[str, PartyTime], known: Mapping[str, float], mean: float
) -> tuple[Party | None, Confidence | None]:
    for party in _NAMED:
        if parts and parts[party].low_ns > _MOST * mean:
            return party, "high"
    for party in _NAMED:
        if parts and known[party] > _MOST * mean:
            return party, "medium"
    return None, None


def _greatest(parts: Mapping[str, PartyTime]) -> Party | None:
    for party in _NAMED if parts else ():
        if parts[party].low_ns > max(parts[other].high_ns for other in _NAMED if other != party):
            return party
    return None


def _summed(counts: Sequence[Mapping[str, int]]) -> Mapping[str, int]:
    every: Counter[str] = Counter()
    for one in counts:
        every.update(one)
    return dict(sorted(every.items()))


def wall_of(runs: Sequence[Queries]) -> NDArray[np.float64]:
    """The wall times that figures are of, ns."""
    return np.concatenate([q.wall_ns[q.counted] for q in runs]).astype(np.float64)
