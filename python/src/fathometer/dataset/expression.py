"""The one heavy aggregate as an Ibis expression, for an engine that is not on this machine.

`fathometer` itself runs the same aggregate through DuckDB (`rollup`); a cluster runs `histogram_expression`
on Spark, ClickHouse or a warehouse over Parquet laid out as ``label=.../date=.../``. Both count integers, so
their results are bit-identical, and both are merged by adding counts. Needs the extra
``fathometer[cluster]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from fathometer.dataset import engine
from fathometer.dataset.format import Flags
from fathometer.dataset.recording import Recording

if TYPE_CHECKING:
    import ibis

MINUTE_NS = 60_000_000_000


def histogram_expression(
    samples: ibis.Table, width_ns: int = MINUTE_NS, *, keys: tuple[str, ...] = ("label",), shift: int = 0
) -> ibis.Table:
    """Counts by key, stretch of time and bucket, warm-up left out.

    Args:
        samples: a table with the format's columns and the keys (`label` comes from the directory's name).
        width_ns: length of a stretch.
        keys: more columns to count by: ``label``, ``connection``, ``size``.
        shift: coarseness of the buckets: ``2**shift`` of them stand together under the number of the first.

    Returns:
        Columns: the keys, ``start_ns`` (ns since the Unix epoch), ``bucket``, ``count``; no order.
    """
    import ibis  # an extra

    answered = samples.filter(
        samples.rtt_bucket.notnull(),
        # A bit by arithmetic: not every engine has operators on bits.
        samples.flags.cast("int64") % int(Flags.WARM_UP * 2) < int(Flags.WARM_UP),
    )
    sent, bucket = answered.sent_ns, answered.rtt_bucket.cast("int64")
    # Never `//`, which Ibis turns into a division of floats. Twice `%`, because engines disagree below zero.
    start = sent - ((sent % width_ns) + width_ns) % width_ns
    return (
        answered.select(*keys, start_ns=start, bucket=bucket - bucket % (1 << shift))
        .group_by(*keys, "start_ns", "bucket")
        .aggregate(count=ibis._.count())
    )


def rollup(
    recording: Recording, width_ns: int = MINUTE_NS, *, keys: tuple[str, ...] = (), shift: int = 0
) -> pa.Table:
    """The same counts by DuckDB, for one recording: columns `keys`, ``start_ns``, ``bucket``, ``count``,
    int64.
    """
    unknown = set(keys) - {"connection", "size"}
    if unknown:
        raise ValueError(
            f"a recording is rolled up by connection and size, not by {', '.join(sorted(unknown))}"
        )
    chosen = "".join(f"{key}::BIGINT AS {key}, " for key in keys)
    by = ", ".join((*keys, "start_ns", "bucket"))
    return engine.arrow(
        recording.source,
        f"""SELECT {chosen}sent_ns - ((sent_ns % {width_ns}) + {width_ns}) % {width_ns} AS start_ns,
              (((rtt_bucket::BIGINT) >> {shift}) << {shift}) AS bucket, count(*) AS count
            FROM samples WHERE rtt_bucket IS NOT NULL AND flags & {int(Flags.WARM_UP)} = 0 GROUP BY {by}""",
        ["sent_ns", "rtt_bucket", "flags", *keys],
    )
