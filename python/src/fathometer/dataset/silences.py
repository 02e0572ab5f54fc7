"""Which silence came before which sample of a run with silences (`fathom probe --idle-gap`).

The recording has no column for it: it follows from the samples before (``schema/recording.md``, "Silences").
As it takes those of a connection one after another, such a recording is read as a whole when it is opened,
and gets the column that a `Selection` can ask for; between silences there are few samples.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fathometer.counts import count
from fathometer.dataset.batches import Bools, numbers
from fathometer.dataset.histogram import Ints
from fathometer.dataset.layout import whole_table
from fathometer.dataset.places import Place
from fathometer.dataset.selection import SILENCE
from fathometer.dataset.source import Source, opened
from fathometer.errors import FathometerError

TOLERANCE_PART: Final = 20
"""A silence within this part of a length of the plan is that one (fathom_core::gaps)."""
MOST: Final = 10_000_000
"""Samples of such a recording at most: a gigabyte of columns. Ten connections with silences of a second, four
samples after each, send as many in 70 hours."""


def marked(directory: Place, source: Source, gaps_ns: tuple[int, ...]) -> Source:
    """The samples with the column `SILENCE`, where the plan has silences; raises `FathometerError` where they
    are too many.
    """
    rows = source.rows
    if not gaps_ns or not rows:
        return source
    if rows > MOST:
        raise FathometerError(
            "open recording",
            f"{directory}: {count(rows, 'sample')} around silences, more than {MOST:,}",
            "measure with fewer connections or longer silences",
        )
    try:
        closed = []
        for segment in source.closed:
            with opened(segment) as file:
                closed.append(whole_table(pq.ParquetFile(file)))
    except (OSError, pa.ArrowException) as error:
        raise FathometerError(
            "read samples", f"{directory}: {error}", "check it with `fathom recording verify`"
        ) from None
    still_open = [] if source.open is None else [source.open]
    table = pa.concat_tables([*closed, *still_open]).combine_chunks()
    columns = [table.column(n).chunk(0) for n in ("connection", "seq", "sent_ns", "lateness_ns", "rtt_ns")]
    connection, seq, sent, lateness, rtt = (numbers(column).astype(np.int64) for column in columns)
    answered = np.asarray(columns[-1].is_valid())
    order = np.lexsort((seq, connection))
    codes = np.empty(len(order), dtype=np.int64)
    codes[order] = silences(
        connection[order], (sent - lateness)[order], (sent + rtt)[order], answered[order], gaps_ns
    )
    return Source((), table.append_column(SILENCE, pa.array(codes)))


def silences(
    connection: Ints, due_ns: Ints, received_ns: Ints, answered: Bools, gaps_ns: tuple[int, ...]
) -> Ints:
    """The `Silence.code` of each sample; samples stand by connection and seq.

    A first one was due a length of the plan after the answer before it. Those due at once after an answer are
    of the same burst. All others follow a handshake, a lost sample or a clock that was set: they are of none,
    and so are those that follow them back to back.

    Args:
        connection: whose sample it is.
        due_ns: when it was due.
        received_ns: when its answer came; anything where none did.
        answered: whether one came.
        gaps_ns: the lengths of the plan, each a quarter more than the one before, at least.
    """
    n = len(connection)
    if not n:
        return np.zeros(0, dtype=np.int64)
    follows = np.zeros(n, dtype=np.bool_)
    follows[1:] = (connection[1:] == connection[:-1]) & answered[:-1]
    silent = np.zeros(n, dtype=np.int64)
    silent[1:] = np.where(follows[1:], due_ns[1:] - received_ns[:-1], 0)
    first = np.zeros(n, dtype=np.int64)
    for gap in gaps_ns:
        first[follows & (np.abs(silent - gap) <= gap // TOLERANCE_PART)] = gap
    warm = follows & (first == 0) & (np.abs(silent) <= min(gaps_ns) // 2)
    # A warm one is of the burst of the latest sample that is none.
    began = np.maximum.accumulate(np.where(warm, 0, np.arange(n)))
    return np.where(warm, -first[began], first)
