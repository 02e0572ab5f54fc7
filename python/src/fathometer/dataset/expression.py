"""The rollup as one Ibis expression, for engines made for many machines.

It counts in integers only, and does with them only what DuckDB, ClickHouse and Spark do alike, so that its
rows are bit-equal to those of `scan`. The recording's ordinal, the length of its steps and the lengths of its
silences come with the samples as columns, so that one expression does for all recordings together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fathometer.dataset.format import Flags
from fathometer.dataset.histogram import MAX_NS, SUB_BITS, SUB_BUCKETS
from fathometer.dataset.rollup import SHIFT
from fathometer.dataset.silences import TOLERANCE_PART

if TYPE_CHECKING:
    import ibis

KEYS: Final = ("recording", "size", "loaded", "silence", "warm_up")
CELLS: Final = (*KEYS, "start_ns", "bucket", "count", "sent", "lost", "sum")
PATHS: Final = (
    *KEYS,
    "samples",
    "answered",
    "late",
    "corrupted",
    "first_sent_ns",
    "last_sent_ns",
    "min_ns",
    "max_ns",
)
_OCTAVES: Final = MAX_NS.bit_length() - SUB_BITS
NO_BUCKET: Final = -1
"""Stands for the bucket of lost samples while engines count: not all of them group by an absent value."""


def _below(value: ibis.Value, unit: ibis.Value | int) -> ibis.Value:
    """The largest multiple that is not above. Never `//`, which Ibis turns into a division of floats."""
    return value - value % unit


def _bit(flags: ibis.Value, flag: Flags) -> ibis.Value:
    """A bit by arithmetic: not every engine has operators on bits."""
    return (flags % (2 * int(flag)) >= int(flag)).cast("int64")


def _bucket(value: ibis.Value, low: int = 0, high: int = _OCTAVES - 1) -> ibis.Value:
    """`histogram.bucket_of` a value up to `MAX_NS`, whose octave is one of these: a tree of comparisons, as
    not every engine has a logarithm that is exact at powers of two.
    """
    import ibis

    if low < high:
        middle = (low + high) // 2
        below, above = _bucket(value, low, middle), _bucket(value, middle + 1, high)
        return ibis.ifelse(value < 2 * SUB_BUCKETS << middle, below, above)
    # A division of floats, and exact: what is divided is a multiple, and below 2^53.
    return SUB_BUCKETS * low + (_below(value, 1 << low) / (1 << low)).cast("int64")


def keyed(samples: ibis.Table, gaps_ns: tuple[int, ...] = ()) -> ibis.Table:
    """The samples with their keys, and one column for each thing that is counted.

    Args:
        samples: the columns that `engines` makes of either layout, ``recording`` (ordinal) and ``step_ns``.
        gaps_ns: the silences of the plan of these recordings; empty: they have none.
    """
    import ibis

    marked = _silences(samples, gaps_ns) if gaps_ns else samples.mutate(silence=ibis.literal(0, "int64"))
    marked = marked.mutate(in_range=ibis.least(marked.rtt_ns.cast("int64"), MAX_NS))
    flags, sent = marked.flags.cast("int64"), marked.sent_ns.cast("int64")
    answered = marked.rtt_ns.notnull()
    bucket = _bucket(marked.in_range)
    return marked.select(
        recording=marked.recording.cast("int64"),
        size=marked.size.cast("int64"),
        loaded=_bit(flags, Flags.UNDER_LOAD),
        silence=marked.silence.cast("int64"),
        warm_up=_bit(flags, Flags.WARM_UP),
        start_ns=_below(sent, marked.step_ns),
        bucket=ibis.ifelse(answered, _below(bucket, 1 << SHIFT), NO_BUCKET),
        sent_ns=sent,
        one=ibis.ifelse(answered, 1, 0).cast("int64"),
        rtt_ns=marked.rtt_ns.cast("int64"),
        late=_bit(flags, Flags.ANSWERED_LATE),
        corrupted=_bit(flags, Flags.CORRUPTED),
    )


def cells(rows: ibis.Table) -> ibis.Table:
    """The rollup's rows, of what `keyed` made; no order."""
    import ibis

    counted = rows.group_by(*KEYS, "start_ns", "bucket").aggregate(
        count=rows.one.sum().cast("int64"),
        sent=rows.count().cast("int64"),
        sum=ibis.coalesce(rows.rtt_ns.sum(), 0).cast("int64"),
    )
    return counted.mutate(lost=counted.sent - counted["count"]).select(*CELLS)


def paths(rows: ibis.Table) -> ibis.Table:
    """One row a path, of what `keyed` made; no order."""
    import ibis

    return (
        rows.group_by(*KEYS)
        .aggregate(
            samples=rows.count().cast("int64"),
            answered=rows.one.sum().cast("int64"),
            late=rows.late.sum().cast("int64"),
            corrupted=rows.corrupted.sum().cast("int64"),
            first_sent_ns=rows.sent_ns.min(),
            last_sent_ns=rows.sent_ns.max(),
            min_ns=ibis.coalesce(rows.rtt_ns.min(), 0).cast("int64"),
            max_ns=ibis.coalesce(rows.rtt_ns.max(), 0).cast("int64"),
        )
        .select(*PATHS)
    )


def _silences(samples: ibis.Table, gaps_ns: tuple[int, ...]) -> ibis.Table:
    """With the column ``silence``: `silences.silences`, in the words of an engine."""
    import ibis

    seq = samples.seq.cast("int64")
    along = ibis.window(group_by=[samples.recording, samples.connection], order_by=seq)
    before_sent, before_rtt = (
        samples[name].cast("int64").lag(1).over(along) for name in ("sent_ns", "rtt_ns")
    )
    # Absent where there is no sample before, and where that one was not answered.
    timed = samples.mutate(ordinal=seq, silent=samples.due_ns.cast("int64") - (before_sent + before_rtt))
    first = ibis.literal(0, "int64")
    for gap in gaps_ns:
        near = timed.silent.notnull() & ((timed.silent - gap).abs() <= gap // TOLERANCE_PART)
        first = ibis.ifelse(near, gap, first)
    begun = timed.mutate(first=first.cast("int64"))
    warm = (begun["first"] == 0) & begun.silent.notnull() & (begun.silent.abs() <= min(gaps_ns) // 2)
    classed = begun.mutate(warm=ibis.ifelse(warm, 1, 0).cast("int64"))
    so_far = ibis.window(
        group_by=[classed.recording, classed.connection],
        order_by=classed.ordinal,
        preceding=None,
        following=0,
    )
    bursts = classed.mutate(burst=(1 - classed.warm).sum().over(so_far))
    # Of a burst only the one that began it can have followed a silence.
    one = ibis.window(group_by=[bursts.recording, bursts.connection, bursts.burst])
    opened = bursts.mutate(began=bursts["first"].max().over(one))
    code = ibis.ifelse(opened.warm == 1, -opened.began, opened["first"])
    return opened.mutate(silence=code.cast("int64"))
