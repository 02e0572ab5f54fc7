"""Writes rollups as ``rollup_files`` reads them."""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fathometer import __version__
from fathometer.dataset.format import EVENTS, MANIFEST
from fathometer.dataset.places import lines_of
from fathometer.dataset.recording import Recording
from fathometer.dataset.rollup import LOST, Cells, PathCounts, Rollup, wide
from fathometer.dataset.rollup_files import COUNTS, FORMAT, KEYS, PATHS, ROLLUP, TABLE, path_schema, schema
from fathometer.errors import FathometerError
from fathometer.writing import create, make_directories


def write_rollups(
    recordings: Sequence[Recording], rollups: Sequence[Rollup], engine: str, output: Path
) -> None:
    """Writes a directory; raises `FathometerError`, and then leaves nothing behind."""
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise FathometerError("write rollup", f"{output} exists", "name another directory with --output")
    of: dict[str, Recording] = {}
    for recording in recordings:
        # Rows are found by the id: each of the two would be given both's.
        twin = of.setdefault(recording.manifest.id, recording)
        if twin is not recording:
            raise FathometerError(
                "write rollup",
                f"{twin.directory} and {recording.directory} are one recording, by its id",
                "leave the copy out",
            )
    temporary = output.with_name(f".{output.name}.{secrets.token_hex(4)}.tmp")
    try:
        temporary.mkdir(mode=0o700, parents=True)  # It names the hosts that its recordings name.
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
        make_directories(own)
        for name in (MANIFEST, EVENTS):
            source = recording.directory / name
            if source.exists():
                with lines_of(source) as file, create(own / name) as copy:
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
    rows = pa.concat_tables(tables) if tables else schema().empty_table()
    for name, table in ((TABLE, rows), (PATHS, pa.Table.from_pylist(paths, path_schema()))):
        with create(directory / name) as file:
            pq.write_table(table, file, compression="zstd")
    about = {"format": FORMAT, "version": __version__, "engine": engine, "recordings": listed}
    with create(directory / ROLLUP) as file:
        file.write((json.dumps(about, indent=1) + "\n").encode())


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


def table_of(recording: Recording, path: PathCounts, rows: Cells, step_ns: int) -> pa.Table:
    """The rows of one path as the table has them."""
    keys, number = _keys(recording, path), len(rows.step)
    lost = rows.bucket == LOST
    columns = {
        name: pa.array([None if keys[name] is None else keys[name]], kind).take(
            pa.array(np.zeros(number, np.int32))
        )
        for name, kind in KEYS
    }
    columns |= {
        "start_ns": pa.array(wide(rows.step) * step_ns),
        "bucket": pa.array(np.where(lost, 0, rows.bucket).astype(np.int32), mask=lost),
        "count": pa.array(np.where(lost, 0, wide(rows.number))),
        "sent": pa.array(wide(rows.number)),
        "lost": pa.array(np.where(lost, wide(rows.number), 0)),
        "sum": pa.array(rows.total_ns),
    }
    return pa.table(columns, schema=schema())


def _path_row(recording: Recording, path: PathCounts) -> dict[str, Any]:
    return _keys(recording, path) | {name: getattr(path, name) for name in COUNTS}
