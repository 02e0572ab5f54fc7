"""The rollup's one expression on an engine: DuckDB, ClickHouse's (chDB) or Spark. Each is an optional extra,
and is imported only when it is asked for.

What the expression needs besides samples (which recording a file is of, the length of its steps) goes with
each recording's files; what comes back is as small as a rollup.
"""

from __future__ import annotations

import importlib
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fathometer.counts import count
from fathometer.dataset import expression
from fathometer.dataset.histogram import Ints
from fathometer.dataset.layout import DUE
from fathometer.dataset.rollup import LOST, Cells, PathCounts, PathKey, Rollup, packed
from fathometer.dataset.scan import span
from fathometer.dataset.steps import step_of
from fathometer.errors import ExitCode, FathometerError
from fathometer.portable import memory, processors

if TYPE_CHECKING:
    import ibis

    from fathometer.dataset.recording import Recording

COLUMNS: Final = ("connection", "seq", "size", "sent_ns", DUE, "rtt_ns", "flags")
"""What the query reads; `_selected` makes them of a file."""
_STORED: Final = tuple("lateness_ns" if c == DUE else c for c in COLUMNS)
_NEEDS: Final = {"duckdb": "duckdb", "clickhouse": "chdb", "spark": "pyspark"}
ENGINES: Final = tuple(_NEEDS)


class ScannedFile(NamedTuple):
    """A file of samples."""

    name: str
    recording: int
    """The recording's ordinal."""
    step_ns: int
    derived: bool
    """Which of two layouts it has: see `layout`."""


@dataclass(frozen=True, slots=True)
class FilesOfOneQuery:
    """Recordings whose samples one query counts: all have the same silences."""

    gaps_ns: tuple[int, ...]
    files: tuple[ScannedFile, ...]


def roll_up(
    recordings: Sequence[Recording], engine: str, progress: Callable[[str], None] = lambda _: None
) -> tuple[Rollup, ...]:
    """The rollup of each recording, made by an engine; raises `FathometerError`."""
    run = _engine(engine)
    with tempfile.TemporaryDirectory(prefix="fathometer-") as scratch:
        batches = _batches(recordings, Path(scratch))
        tables: list[tuple[pa.Table, pa.Table]] = []
        for number, batch in enumerate(batches, 1):
            progress(f"{engine}: query {number} of {len(batches)} over {count(len(batch.files), 'file')}")
            tables.append(run(batch))
    cells = [c for c, _ in tables]
    paths = [p for _, p in tables]
    return _rollups(recordings, cells, paths)


def _engine(name: str) -> Callable[[FilesOfOneQuery], tuple[pa.Table, pa.Table]]:
    if name not in _NEEDS:
        raise FathometerError(
            "roll up",
            f"--engine {name!r} is none of {', '.join(ENGINES)}",
            "name one of them",
            exit_code=ExitCode.USAGE,
        )
    try:
        for module in ("ibis", _NEEDS[name]):
            importlib.import_module(module)
    except ImportError:
        raise FathometerError(
            "roll up",
            f"the engine {name} is not installed",
            f"pip install 'fathometer[{name}]'",
        ) from None
    return {"duckdb": _duckdb, "clickhouse": _clickhouse, "spark": _spark}[name]


def _batches(recordings: Sequence[Recording], scratch: Path) -> list[FilesOfOneQuery]:
    """The files of all recordings. What is in an open segment becomes a file of its own."""
    by_gaps: dict[tuple[int, ...], list[ScannedFile]] = {}
    for ordinal, recording in enumerate(recordings):
        source = recording.source
        if source is None or not source.rows:
            continue
        step = step_of(*span(source))
        mine = by_gaps.setdefault(recording.manifest.idle_gaps_ns, [])
        for closed in source.closed:
            path = closed.path
            name = str(path.absolute()) if isinstance(path, Path) else str(path)
            mine.append(ScannedFile(name, ordinal, step, closed.derived))
        if source.open is not None and source.open.num_rows:
            file = scratch / f"open-{ordinal}.parquet"
            pq.write_table(source.open.select(_STORED), file)
            mine.append(ScannedFile(str(file), ordinal, step, derived=False))
    return [FilesOfOneQuery(gaps, tuple(files)) for gaps, files in by_gaps.items()]


def _selected(*, derived: bool) -> list[str]:
    """`COLUMNS` in SQL, of files of one layout."""
    return [c if derived or c != DUE else f"sent_ns - lateness_ns AS {DUE}" for c in COLUMNS]


def _queries(samples: ibis.Table, batch: FilesOfOneQuery) -> tuple[ibis.Table, ibis.Table]:
    rows = expression.keyed(samples, batch.gaps_ns)
    return expression.cells(rows), expression.paths(rows)


def _half_of_memory() -> str:
    """Half of this machine's memory, 1 GiB at least, as Spark writes it."""
    return f"{max(1 << 10, memory() >> 21)}m"


@contextmanager
def _told(engine: str) -> Iterator[None]:
    """An engine's own error as one line."""
    try:
        yield
    except FathometerError:
        raise
    except Exception as error:  # noqa: BLE001 - each engine has classes of its own
        lines = str(error).strip().splitlines()
        reason = lines[0][:300] if lines else type(error).__name__
        raise FathometerError(
            "roll up", f"{engine}: {reason}", "check the recordings with `fathom recording verify`"
        ) from None


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _duckdb(batch: FilesOfOneQuery) -> tuple[pa.Table, pa.Table]:
    import ibis

    duckdb: Any = importlib.import_module("duckdb")
    options = {"threads": processors(), "preserve_insertion_order": False}
    with _told("duckdb"), duckdb.connect(":memory:", config=options) as connection:
        parts = []
        for derived in {file.derived for file in batch.files}:
            mine = [file for file in batch.files if file.derived == derived]
            quoted = ["'" + file.name.replace("'", "''") + "'" for file in mine]
            # What a label may hold and a pattern means otherwise is put into brackets.
            plain = ", ".join("".join(f"[{c}]" if c in "*?[" else c for c in name) for name in quoted)
            each = zip(quoted, mine, strict=True)
            files = ", ".join(f"({q}, {file.recording}, {file.step_ns})" for q, file in each)
            parts.append(
                f"""SELECT {", ".join(_selected(derived=derived))}, f.recording, f.step_ns
                    FROM read_parquet([{plain}], hive_partitioning = false, filename = true) AS s
                    JOIN (VALUES {files}) AS f (file, recording, step_ns) ON s.filename = f.file"""
            )
        connection.execute(f"CREATE TEMP VIEW samples AS {' UNION ALL '.join(parts)}")
        return _both(
            _table(), batch, lambda q: connection.sql(str(ibis.to_sql(q, dialect="duckdb"))).to_arrow_table()
        )


def _table() -> ibis.Table:
    """The samples, as every engine is told to call them."""
    import ibis

    return ibis.table(dict.fromkeys((*COLUMNS, "recording", "step_ns"), "int64"), name="samples")


def _both(
    samples: ibis.Table, batch: FilesOfOneQuery, run: Callable[[ibis.Table], pa.Table]
) -> tuple[pa.Table, pa.Table]:
    cells, paths = _queries(samples, batch)
    return run(cells), run(paths)


def _clickhouse(batch: FilesOfOneQuery) -> tuple[pa.Table, pa.Table]:
    import ibis

    sessions: Any = importlib.import_module("chdb.session")
    with _told("clickhouse"), sessions.Session() as session:
        # As the query says of each file which recording it is of, it needs no table of files.
        plain = {"connection": "UInt32", "seq": "UInt64", "size": "UInt32", "flags": "UInt16"}
        types = {"rtt_ns": "Nullable(Int64)", **plain}
        parts = []
        for file in batch.files:
            shape = ", ".join(f"{c} {types.get(c, 'Int64')}" for c in (COLUMNS if file.derived else _STORED))
            parts.append(
                f"SELECT {', '.join(_selected(derived=file.derived))}, "
                f"{file.recording}::Int64 AS recording, {file.step_ns}::Int64 AS step_ns "
                f"FROM file({_literal(file.name)}, 'Parquet', {_literal(shape)})"
            )
        session.query(f"CREATE VIEW samples AS {' UNION ALL '.join(parts)}")

        def run(query: ibis.Table) -> pa.Table:
            data = session.query(str(ibis.to_sql(query, dialect="clickhouse")), "Arrow").bytes()
            return pa.ipc.open_file(pa.BufferReader(data)).read_all()

        return _both(_table(), batch, run)


def _spark(batch: FilesOfOneQuery) -> tuple[pa.Table, pa.Table]:
    import ibis
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f

    with _told("spark"):
        builder = SparkSession.builder.appName("fathometer rollup")
        if not os.environ.get("SPARK_REMOTE") and not os.environ.get("MASTER"):
            # All of Spark is one process here, of 1 GiB of memory unless told otherwise.
            builder = builder.master(f"local[{processors()}]").config(
                "spark.driver.memory", _half_of_memory()
            )
        quiet = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.ansi.enabled": "false",
            "spark.sql.execution.arrow.pyspark.enabled": "true",
            "spark.sql.shuffle.partitions": str(4 * processors()),
        }
        for name, value in quiet.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        samples = None
        alike: dict[tuple[int, int, bool], list[str]] = {}
        for name, *key in batch.files:
            alike.setdefault((key[0], key[1], bool(key[2])), []).append(name)
        for (ordinal, step, derived), files in alike.items():
            part = session.read.option("recursiveFileLookup", "false").parquet(*map(_escaped, files))
            part = part.selectExpr(*_selected(derived=derived), f"cast({ordinal} AS long) AS recording")
            part = part.withColumn("step_ns", f.lit(step).cast("long"))
            samples = part if samples is None else samples.unionAll(part)
        assert samples is not None
        samples.createOrReplaceTempView("samples")
        try:
            return _both(
                _table(), batch, lambda q: session.sql(str(ibis.to_sql(q, dialect="pyspark"))).toArrow()
            )
        finally:
            session.stop()


def _escaped(path: str) -> str:
    """A path as Hadoop's pattern that matches just it."""
    return "".join(f"\\{c}" if c in "*?[]{}\\" else c for c in path)


def _rollups(
    recordings: Sequence[Recording], cells: Sequence[pa.Table], paths: Sequence[pa.Table]
) -> tuple[Rollup, ...]:
    """Tables of many recordings taken apart, in the order of the scan."""
    of_cells, of_paths = _columns(cells, expression.CELLS), _columns(paths, expression.PATHS)
    order = np.lexsort([of_cells[n] for n in reversed((*expression.KEYS, "start_ns", "bucket"))])
    of_cells = {name: column[order] for name, column in of_cells.items()}
    rollups = []
    for ordinal, recording in enumerate(recordings):
        if recording.source is None:
            rollups.append(recording.rollup)  # A rollup already, which has nothing for an engine to read.
            continue
        low, high = (np.searchsorted(of_cells["recording"], ordinal, side=s) for s in ("left", "right"))
        mine = {name: column[low:high] for name, column in of_cells.items()}
        rows = np.flatnonzero(of_paths["recording"] == ordinal)
        step = step_of(*span(recording.source))
        every = sorted(
            (
                PathCounts(
                    PathKey(
                        int(of_paths["size"][r]),
                        bool(of_paths["loaded"][r]),
                        int(of_paths["silence"][r]),
                        bool(of_paths["warm_up"][r]),
                    ),
                    *(int(of_paths[name][r]) for name in expression.PATHS[5:]),
                )
                for r in rows
            ),
            key=lambda p: p.key,
        )
        rollups.append(Rollup(step, tuple(every), tuple(_cells(mine, p.key, step) for p in every), None))
    return tuple(rollups)


def _cells(columns: dict[str, Ints], key: PathKey, step_ns: int) -> Cells:
    mine = np.ones(len(columns["size"]), dtype=np.bool_)
    for name, value in zip(expression.KEYS[1:], key, strict=True):
        mine &= columns[name] == int(value)
    of = {name: column[mine] for name, column in columns.items()}
    bucket = np.where(of["bucket"] == expression.NO_BUCKET, LOST, of["bucket"])
    return packed(of["start_ns"] // step_ns, bucket, of["sent"], of["sum"])


def _columns(tables: Sequence[pa.Table], names: Sequence[str]) -> dict[str, Ints]:
    if not tables:
        return {name: np.zeros(0, dtype=np.int64) for name in names}
    return {
        name: np.concatenate([t.column(name).cast(pa.int64()).to_numpy() for t in tables]) for name in names
    }
