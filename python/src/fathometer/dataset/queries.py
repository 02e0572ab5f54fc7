"""What `queries-*.parquet` of a recording of `fathom sql` says (``schema/queries.json``, docs/databases.md).

Times are ns. Each query has bounds of the server's, the path's and the client's part; estimates, where it has
them, sum to its wall time.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fathometer.counts import count
from fathometer.dataset.model import Damage, Event, Manifest
from fathometer.dataset.places import Place
from fathometer.dataset.query_files import PARTIES, Ints, column, last_name, read_files

NOT_WAITED_FOR: Final = "its answer was not waited for"
"""The error of a query that the user did not want to wait for."""
CANCELLED: Final = "cancelled by the user: "
"""So begins the error of a query that the user ended, where something else came of it."""
LATE: Final = "no whole answer within "
"""So begins the error of a query that took longer than it might."""
_CODE: Final = re.compile(
    r"\((?:(?P<state>[0-9A-Z]{5})|(?P<number>error [0-9-]*|no error number)|attention)\)\Z"
)
"""How the error of a query ends: SQLSTATE (PostgreSQL, MySQL), SQL Server's number, or that it was ended."""
_FIRST: Final = 1
"""Bit of the column `flags`: the first query of its connection, which finds nothing warm."""
_URL: Final = re.compile(r"(?:postgres|postgresql|mysql|mssql)://")
_SSL_MODE: Final = re.compile(r"[?&]ssl-?mode=([A-Za-z_-]+)")
"""Of a URL (`fathom-sql/target.rs`)."""
_ENCRYPTS: Final = dict.fromkeys(("disable", "disabled", "login"), False) | dict.fromkeys(
    ("require", "required", "verify-ca", "verify-full", "verify-identity"), True
)
"""Whether queries are encrypted, by `sslmode`: each of these allows one of both alone. `prefer` does not."""
MOST_CONNECTIONS: Final = 64
"""That ask side by side (`fathom-core/query/connections.rs`)."""
NEVER: Final = 2**62
"""ns: nothing was sent before."""
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class CountedWaits:
    """Waits for path or client that the server counted during all queries: it does not tell which."""

    wait: str
    """As the server calls them: `ASYNC_NETWORK_IO`."""
    waits: int
    ns: int
    lost_sessions: int = 0
    """With which what was counted of them went: it was so much at the least."""


@dataclass(frozen=True, slots=True, eq=False)
class Queries:
    """The queries of a recording, in the order in which they ended."""

    asked: Mapping[str, Any]
    """What was asked, as the manifest has it (`probe.sql`; in recordings of earlier versions `connections` is
    1), and whether `encrypted`, as its end, its beginning or its URL has it (None: nobody knows)."""
    started_ns: Ints
    """Since the Unix epoch."""
    wall_ns: Ints
    low_ns: Mapping[str, Ints]
    high_ns: Mapping[str, Ints]
    """Bounds of the parts, by `PARTIES`."""
    part_ns: Mapping[str, Ints]
    """The parts: as they were estimated, else as far between the bounds as makes the three sum to the wall
    time (`fathom-core/query/split.rs`)."""
    first: Bools
    """The first of a connection."""
    counted: Bools
    """Those that are in figures: answered, and not the first of a connection where there are others."""
    split: Bools
    """Those that have estimates."""
    errors: tuple[str | None, ...]
    no_split: tuple[str | None, ...]
    """Why there are bounds alone."""
    retransmits: tuple[int | None, ...]
    ordinals: Ints
    """From 0, in the run."""
    settings: Ints
    """Which of the run's settings each was asked with (`asked["settings"]`); -1: the run has no sweep."""
    logins: Ints
    """How often its setting, or its connection, had logged in anew before; 0 where nothing does."""
    connections: Ints
    """Which of the connections that asked side by side each was of, from 0."""
    turns: Ints
    """Round trips of each."""
    rtt_ns: Ints
    """The path's round trip beside each; 0: none is known."""
    first_row_ns: Ints
    """To the first row; 0: none came."""
    bytes_received: Ints
    """Of payload; 0: the system did not tell, so the next one."""
    segments: Ints
    """That came, with payload."""
    idle_ns: Ints
    """Since the query before it on the same connection had its answer; the first of a connection: `NEVER`."""
    counted_by_server: CountedWaits | None = None
    """None: it counts nothing, nobody could read it, the recording breaks off or is of an earlier version."""
    each_counted: tuple[CountedWaits | None, ...] = ()
    """The same of each setting of a sweep that had sessions of its own."""
    damage: tuple[Damage, ...] = ()

    @property
    def number(self) -> int:
        """How many there are."""
        return len(self.wall_ns)

    def by_setting(self) -> tuple[Queries, ...]:
        """Of each setting of a sweep its own, as if it had been asked alone; without a sweep all of them."""
        settings = self.asked.get("settings")
        if not isinstance(settings, list) or not all(isinstance(s, dict) for s in settings):
            return (self,)
        return tuple(self._only(n, settings[n]) for n in range(len(settings)))

    def _only(self, number: int, setting: Mapping[str, Any]) -> Queries:
        these = self.settings == number
        asked = {**self.asked, "settings": None, **{n: setting.get(n) for n in ("fetch_size", "packet_size")}}
        kept = np.flatnonzero(these)
        first, errors = self.first[these], tuple(self.errors[i] for i in kept)
        return replace(
            self,
            asked=asked,
            started_ns=self.started_ns[these],
            wall_ns=self.wall_ns[these],
            low_ns={p: of[these] for p, of in self.low_ns.items()},
            high_ns={p: of[these] for p, of in self.high_ns.items()},
            part_ns={p: of[these] for p, of in self.part_ns.items()},
            first=first,
            counted=_counted(errors, first),
            split=self.split[these],
            errors=errors,
            no_split=tuple(self.no_split[i] for i in kept),
            retransmits=tuple(self.retransmits[i] for i in kept),
            ordinals=self.ordinals[these],
            settings=self.settings[these],
            logins=self.logins[these],
            connections=self.connections[these],
            turns=self.turns[these],
            rtt_ns=self.rtt_ns[these],
            first_row_ns=self.first_row_ns[these],
            bytes_received=self.bytes_received[these],
            segments=self.segments[these],
            idle_ns=self.idle_ns[these],
            counted_by_server=self.each_counted[number] if number < len(self.each_counted) else None,
            each_counted=(),
        )

    @property
    def side_by_side(self) -> int:
        """How many connections asked."""
        number: int = self.asked["connections"]
        return number

    @property
    def failures(self) -> Mapping[str, int]:
        """Those that failed, by kind."""
        kinds = (failure(error) for error in self.errors if error is not None)
        return dict(sorted(Counter(kind for kind in kinds if kind is not None).items()))

    @property
    def cancelled(self) -> int:
        """Those that the user ended."""
        return sum(error is not None and failure(error) is None for error in self.errors)

    def has_failed(self, at: int) -> bool:
        """Whether that one has no whole answer, and nobody ended it."""
        error = self.errors[at]
        return error is not None and failure(error) is not None


def failure(error: str) -> str | None:
    """The kind of a failure: `SQLSTATE 57014` where the server said why, else whose end it was; None: the
    user ended the query.

    As `Query::end` has it (`fathom-core/query/row.rs`).
    """
    if error == NOT_WAITED_FOR or error.startswith(CANCELLED):
        return None
    if error.startswith(LATE):
        return "timed out"
    code = _CODE.search(error)
    if code is None:
        return "connection lost"
    if code["state"]:
        return f"SQLSTATE {code['state']}"
    # What is left are batches of SQL Server that the user ended, as earlier versions wrote them.
    number: str | None = code["number"]
    return number


def read_queries(directory: Place, manifest: Manifest, events: Sequence[Event]) -> Queries | None:
    """The queries of a recording; None: it is of something else. What cannot be read, or is missing,
    stands in `damage`; the others are read.
    """
    asked = manifest.probe.get("sql")
    if not isinstance(asked, dict):
        return None
    rows, damage = read_files(directory, events)
    result = _result(events)
    number = asked.get("connections")
    number = number if isinstance(number, int) and 1 <= number <= MOST_CONNECTIONS else 1
    reason = _amiss(result, rows, number) or _gap(result, rows, events)
    if reason and not damage:
        damage = (Damage(last_name(directory, events), 0, 0, False, reason),)
    settings = result.get("settings")
    asked = {**asked, "encrypted": _is_encrypted(result, asked, manifest.command), "connections": number}
    each = settings if isinstance(settings, list) else []
    return replace(
        _queries(rows, asked),
        counted_by_server=_counted_by_server(result),
        each_counted=tuple(_counted_by_server(one) for one in each),
        damage=damage,
    )


def _result(events: Sequence[Event]) -> Mapping[str, Any]:
    """What the run came to by its own account; empty: the recording breaks off before its end."""
    for event in events:
        if event.kind == "sql.ended" and event.known:
            result: Mapping[str, Any] = event.fields["result"]
            return result
    return {}


def _is_encrypted(result: Mapping[str, Any], asked: Mapping[str, Any], command: str | None) -> bool | None:
    """As its end has it; of a run that was killed as its beginning has it, or its URL, where that left no
    choice; None: nobody knows.
    """
    for told in (result.get("encrypted"), asked.get("encrypted")):
        if isinstance(told, bool):
            return told
    url = next((word for word in _words(command) if _URL.match(word)), "")
    modes = _SSL_MODE.findall(url)
    if not modes and url.startswith("mssql"):
        return True
    return _ENCRYPTS.get(modes[-1].lower().replace("_", "-")) if modes else None


def _words(command: str | None) -> list[str]:
    try:
        return shlex.split(command or "")
    except ValueError:
        return []


def _counted_by_server(result: object) -> CountedWaits | None:
    counted = result.get("server_counted") if isinstance(result, dict) else None
    if not isinstance(counted, dict):
        return None
    wait, waits, ns = (counted.get(name) for name in ("wait", "waits", "ns"))
    if isinstance(wait, str) and isinstance(waits, int) and isinstance(ns, int):
        # Of an earlier version: nothing was counted where a session was lost.
        return CountedWaits(wait, waits, ns, counted.get("lost_sessions", 0))
    return None


def _told(result: Mapping[str, Any]) -> int:
    # Those that a full disk had no room for are counted, and in no file.
    said = [result.get(name) for name in ("queries", "unrecorded")]
    number, lost = (n if isinstance(n, int) else 0 for n in said)
    return number - lost


def _amiss(result: Mapping[str, Any], rows: pa.Table, number: int) -> str | None:
    """Rows of none of so many connections, and what the run counted, in all and on each of several, that
    no file has; None: nothing.
    """
    missing = _told(result) - rows.num_rows
    if missing > 0:
        return f"{count(missing, 'row')} that sql.ended counts cannot be found"
    each = result.get("connections")
    connection = column(rows, "connection")
    if bool(np.any((connection < 0) | (connection >= number))):
        return f"there are rows of connection {int(connection.max())}, and {number} asked"
    for at, one in enumerate(each if isinstance(each, list) else []):
        told, read = _told(one) if isinstance(one, dict) else 0, int((connection == at).sum())
        if told != read:
            return f"of connection {at} sql.ended counts {count(told, 'row')}, and {read:,} can be found"
    return None


def _queries(table: pa.Table, asked: Mapping[str, Any]) -> Queries:
    wall = column(table, "wall_ns")
    low = {party: column(table, f"{party}_low_ns") for party in PARTIES}
    high = {party: column(table, f"{party}_high_ns") for party in PARTIES}
    no_split = tuple(table["no_split"].to_pylist())
    known = np.array([why is None for why in no_split], dtype=np.bool_)
    errors = tuple(table["error"].to_pylist())
    first = (column(table, "flags") & _FIRST).astype(np.bool_)
    # Beyond 2^53 ns, a hundred days, a float has no longer every ns.
    open_ns = np.maximum(sum(high[p] - low[p] for p in PARTIES), 1).astype(np.float64)
    left = np.maximum(wall - sum(low.values()), 0) / open_ns
    part = {
        p: np.where(
            known,
            column(table, f"{p}_ns"),
            low[p] + ((high[p] - low[p]) * left).astype(np.int64),
        )
        for p in PARTIES
    }
    return Queries(
        asked=asked,
        started_ns=column(table, "started_ns"),
        wall_ns=wall,
        low_ns=low,
        high_ns=high,
        part_ns=part,
        first=first,
        counted=_counted(errors, first),
        split=known,
        errors=errors,
        no_split=no_split,
        retransmits=tuple(table["retransmits"].to_pylist()),
        ordinals=column(table, "query"),
        settings=table["setting"].fill_null(-1).to_numpy(),
        logins=column(table, "login"),
        connections=column(table, "connection"),
        turns=column(table, "turns"),
        rtt_ns=column(table, "rtt_ns"),
        first_row_ns=column(table, "first_row_ns"),
        bytes_received=column(table, "bytes_received"),
        segments=column(table, "segments_received"),
        idle_ns=_idle(table, wall),
    )


def _idle(table: pa.Table, wall: Ints) -> Ints:
    """Sizes of packets have a connection each; sizes of fetches share one."""
    started = column(table, "started_ns")
    packets = column(table, "packet_size")
    # A size that is asked for twice has two connections; the setting tells them apart. There are several
    # settings, or several connections side by side, and not both.
    connection = column(table, "connection") + np.where(packets > 0, column(table, "setting"), 0)
    idle = np.full(len(wall), NEVER, dtype=np.int64)
    for one in np.unique(connection):
        (at,) = np.nonzero(connection == one)
        # The wall clock may have been set meanwhile.
        idle[at[1:]] = np.maximum(np.diff(started[at]) - wall[at[:-1]], 0)
    return idle


def _gap(result: Mapping[str, Any], rows: pa.Table, events: Sequence[Event]) -> str | None:
    """Ordinals between others that have no row, of a run that did not come to its end: None: each is told."""
    if result:
        return None
    ordinals = column(rows, "query")
    last = int(ordinals.max()) + 1 if len(ordinals) else 0
    told = sum(e.fields["queries"] for e in events if e.kind == "queries.lost" and e.known)
    missing = last - rows.num_rows - told
    if missing > 0:
        return f"{count(missing, 'row')} between others cannot be found, and no event tells why"
    return None


def _counted(errors: Sequence[str | None], first: Bools) -> Bools:
    answered = np.array([error is None for error in errors], dtype=np.bool_)
    warm = answered & ~first
    return warm if warm.any() else answered
