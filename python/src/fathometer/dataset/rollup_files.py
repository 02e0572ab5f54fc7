"""Rollups on disk, read: the table, the paths, and of each recording its manifest and events.

``rollup.json`` says what the directory is and which recordings it holds; ``rollup.parquet`` is the table of
docs/decisions/0002-rollup.md, sorted; ``paths.parquet`` has one row a path; ``recordings/N/`` has the
manifest and the events of the Nth recording as they were.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fathometer.dataset import events as event_log
from fathometer.dataset.manifest import read_manifest
from fathometer.dataset.model import Damage, Event, Manifest
from fathometer.dataset.places import Place, footer_of, read_at_most
from fathometer.dataset.rollup import LOST, Cells, PathCounts, PathKey, Rollup, packed
from fathometer.errors import FathometerError
from fathometer.reading import parsed

ROLLUP: Final = "rollup.json"
TABLE: Final = "rollup.parquet"
PATHS: Final = "paths.parquet"
FORMAT: Final = 1
_MOST_BYTES: Final = 64 << 20
COUNTS: Final = (
    *("samples", "answered", "late", "corrupted"),
    *("first_sent_ns", "last_sent_ns", "min_ns", "max_ns"),
)


KEYS: Final = (
    ("recording", pa.string()),
    ("label", pa.string()),
    ("mode", pa.string()),
    ("size", pa.int64()),
    ("loaded", pa.bool_()),
    ("silence", pa.int64()),
    ("pace", pa.int64()),
    ("warm_up", pa.bool_()),
)


def schema() -> pa.Schema:
    """Of the table."""
    numbers = [("start_ns", pa.int64()), ("bucket", pa.int32())]
    numbers += [(name, pa.int64()) for name in ("count", "sent", "lost", "sum")]
    return pa.schema([*KEYS, *numbers])


def path_schema() -> pa.Schema:
    """Of the paths."""
    return pa.schema([*KEYS, *((name, pa.int64()) for name in COUNTS)])


@dataclass(frozen=True, slots=True)
class RolledUp:
    """A recording that is known by its rollup."""

    directory: Place
    manifest: Manifest
    events: tuple[Event, ...]
    damage: tuple[Damage, ...]
    running: bool
    rollup: Rollup


def read_rollups(directory: Place) -> Iterator[RolledUp]:
    """The recordings of a rollup's directory; raises `FathometerError`."""
    try:
        about = parsed(read_at_most(directory / ROLLUP, _MOST_BYTES))
        if about["format"] != FORMAT:
            raise FathometerError(
                "open rollup",
                f"{directory} is of format {about['format']}, and this program knows {FORMAT}",
                "install a newer fathometer",
            )
        with footer_of(directory / TABLE) as file:
            table = pq.read_table(file, schema=schema())
        with footer_of(directory / PATHS) as file:
            paths = pq.read_table(file, schema=path_schema()).to_pylist()
        listed = [
            (
                one["step_ns"],
                one["connections"],
                one["running"],
                tuple(Damage(**d) for d in one["damage"]),
                one["id"],
            )
            for one in about["recordings"]
        ]
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise FathometerError(
            "open rollup", f"{directory}: {reason}", "make it again with `fathom rollup`"
        ) from None
    names = table.column("recording").combine_chunks().dictionary_encode()
    codes = dict(zip(names.dictionary.to_pylist(), range(len(names.dictionary)), strict=True))
    of = names.indices.to_numpy()
    columns = {
        name: table.column(name).cast(pa.int64()).fill_null(LOST).to_numpy()
        for name in ("size", "loaded", "silence", "warm_up", "start_ns", "bucket", "sent", "sum")
    }
    for ordinal, (step_ns, connections, running, damage, name) in enumerate(listed):
        own = directory / "recordings" / str(ordinal)
        rows = np.flatnonzero(of == codes.get(name, -1))
        mine = {n: c[rows] for n, c in columns.items()}
        every = [_path(row) for row in paths if row["recording"] == name]
        cells = tuple(_cells(mine, p.key, step_ns) for p in every)
        rollup = Rollup(step_ns, tuple(every), cells, connections)
        events, torn = event_log.read_events(own)
        yield RolledUp(own, read_manifest(own), events, (*damage, *torn), running, rollup)


def _path(row: dict[str, Any]) -> PathCounts:
    key = PathKey(row["size"], row["loaded"], row["silence"], row["warm_up"])
    return PathCounts(key, *(row[name] for name in COUNTS))


def _cells(columns: dict[str, Any], key: PathKey, step_ns: int) -> Cells:
    mine = np.ones(len(columns["size"]), dtype=np.bool_)
    for name, value in zip(("size", "loaded", "silence", "warm_up"), key, strict=True):
        mine &= columns[name] == int(value)
    return packed(
        columns["start_ns"][mine] // step_ns,
        columns["bucket"][mine],
        columns["sent"][mine],
        columns["sum"][mine],
    )


def is_rollup(place: Place) -> bool:
    """Whether a directory holds rollups."""
    return (place / ROLLUP).exists()
