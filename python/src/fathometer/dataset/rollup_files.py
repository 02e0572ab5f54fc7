"""Rollups on disk: the table, the paths, and of each recording its manifest and events.

``rollup.json`` says what the directory is and which recordings it holds; ``rollup.parquet`` is the table of
docs/decisions/0002-rollup.md, sorted; ``paths.parquet`` has one row a path; ``recordings/N/`` has the
manifest and the events of the Nth recording as they were.
"""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fathometer import __version__
from fathometer.dataset import events as event_log
from fathometer.dataset.format import EVENTS, MANIFEST
from fathometer.dataset.manifest import read_manifest
from fathometer.dataset.model import Damage, Event, Manifest
from fathometer.dataset.places import Place, footer_of, lines_of, read_at_most
from fathometer.dataset.rollup import LOST, Cells, PathCounts, PathKey, Rollup
from fathometer.errors import FathometerError

if TYPE_CHECKING:
    from fathometer.dataset.recording import Recording

ROLLUP: Final = "rollup.json"
TABLE: Final = "rollup.parquet"
PATHS: Final = "paths.parquet"
FORMAT: Final = 1
_MOST_BYTES: Final = 64 << 20
_COUNTS: Final = (
    *("samples", "answered", "late", "corrupted"),
    *("first_sent_ns", "last_sent_ns", "min_ns", "max_ns"),
)


def write_rollups(
    recordings: Sequence[Recording], rollups: Sequence[Rollup], engine: str, output: Path
) -> None:
    """Writes a directory; raises `FathometerError`, and then leaves nothing behind."""
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise FathometerError("write rollup", f"{output} exists", "name another directory with --output")
    temporary = output.with_name(f".{output.name}.{secrets.token_hex(4)}.tmp")
    try:
        temporary.mkdir(parents=True)
        _fill(recordings, rollups, engine, temporary)
        if output.exists():
            output.rmdir()
        temporary.rename(output)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise FathometerError(
            "write rollup",
            f"{output}: {error.strerror or error}",
            "check the space and the permissions",
        ) from None


def _fill(recordings: Sequence[Recording], rollups: Sequence[Rollup], engine: str, directory: Path) -> None:
    tables, paths, listed = [], [], []
    for ordinal, (recording, rollup) in enumerate(zip(recordings, rollups, strict=True)):
        tables += [
            table_of(recording, p, c, rollup.step_ns) for p, c in zip(rollup.paths, rollup.cells, strict=True)
        ]
        paths += [_path_row(recording, p) for p in rollup.paths]
        own = directory / "recordings" / str(ordinal)
        own.mkdir(parents=True)
        for name in (MANIFEST, EVENTS):
            source = recording.directory / name
            if source.exists():
                with lines_of(source) as file, (own / name).open("wb") as copy:
                    shutil.copyfileobj(file, copy)
        listed.append(
            {
                "id": recording.manifest.id,
                "from": str(recording.directory),
                "step_ns": rollup.step_ns,
                "connections": rollup.connections,
                "running": recording.running,
                "damage": [
                    {"file": d.file, "offset": d.offset, "bytes": d.bytes, "torn": d.torn, "reason": d.reason}
                    for d in recording.damage
                ],
            }
        )
    pq.write_table(
        pa.concat_tables(tables) if tables else _schema().empty_table(), directory / TABLE, compression="zstd"
    )
    pq.write_table(pa.Table.from_pylist(paths, _path_schema()), directory / PATHS, compression="zstd")
    about = {"format": FORMAT, "version": __version__, "engine": engine, "recordings": listed}
    (directory / ROLLUP).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


_KEYS: Final = (
    ("recording", pa.string()),
    ("label", pa.string()),
    ("mode", pa.string()),
    ("size", pa.int64()),
    ("loaded", pa.bool_()),
    ("silence", pa.int64()),
    ("pace", pa.int64()),
    ("warm_up", pa.bool_()),
)


def _schema() -> pa.Schema:
    numbers = [("start_ns", pa.int64()), ("bucket", pa.int32())]
    numbers += [(name, pa.int64()) for name in ("count", "sent", "lost", "sum")]
    return pa.schema([*_KEYS, *numbers])


def _path_schema() -> pa.Schema:
    return pa.schema([*_KEYS, *((name, pa.int64()) for name in _COUNTS)])


def _keys(recording: Recording, path: PathCounts) -> dict[str, Any]:
    m, key = recording.manifest, path.key
    return {
        "recording": m.id,
        "label": _text(m.label),
        "mode": None if m.mode is None else _text(m.mode),
        "size": key.size,
        "loaded": key.loaded,
        "silence": key.silence,
        "pace": m.interval_ns,
        "warm_up": key.warm_up,
    }


def _text(text: str) -> str:
    """As UTF-8 can write it: a manifest may hold halves of characters."""
    return text.encode("utf-8", "replace").decode()


def table_of(recording: Recording, path: PathCounts, cells: Cells, step_ns: int) -> pa.Table:
    """The rows of one path as the table has them."""
    keys, rows = _keys(recording, path), len(cells.step)
    lost = cells.bucket == LOST
    columns = {
        name: pa.array([None if keys[name] is None else keys[name]], kind).take(
            pa.array(np.zeros(rows, np.int32))
        )
        for name, kind in _KEYS
    }
    columns |= {
        "start_ns": pa.array(cells.step * step_ns),
        "bucket": pa.array(np.where(lost, 0, cells.bucket).astype(np.int32), mask=lost),
        "count": pa.array(np.where(lost, 0, cells.number)),
        "sent": pa.array(cells.number),
        "lost": pa.array(np.where(lost, cells.number, 0)),
        "sum": pa.array(cells.total_ns),
    }
    return pa.table(columns, schema=_schema())


def _path_row(recording: Recording, path: PathCounts) -> dict[str, Any]:
    return _keys(recording, path) | {name: getattr(path, name) for name in _COUNTS}


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
        about = json.loads(read_at_most(directory / ROLLUP, _MOST_BYTES))
        if about["format"] != FORMAT:
            raise FathometerError(
                "open rollup",
                f"{directory} is of format {about['format']}, and this program knows {FORMAT}",
                "install a newer fathometer",
            )
        with footer_of(directory / TABLE) as file:
            table = pq.read_table(file, schema=_schema())
        with footer_of(directory / PATHS) as file:
            paths = pq.read_table(file, schema=_path_schema()).to_pylist()
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
    return PathCounts(key, *(row[name] for name in _COUNTS))


def _cells(columns: dict[str, Any], key: PathKey, step_ns: int) -> Cells:
    mine = np.ones(len(columns["size"]), dtype=np.bool_)
    for name, value in zip(("size", "loaded", "silence", "warm_up"), key, strict=True):
        mine &= columns[name] == int(value)
    return Cells(
        columns["start_ns"][mine] // step_ns,
        columns["bucket"][mine],
        columns["sent"][mine],
        columns["sum"][mine],
    )


def is_rollup(place: Place) -> bool:
    """Whether a directory holds rollups."""
    return (place / ROLLUP).exists()
