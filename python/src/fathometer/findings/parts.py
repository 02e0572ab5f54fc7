"""Recordings cut into what may be pooled, and each part's blocks of time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fathometer.dataset.histogram import SUB_BUCKETS, bucket_low
from fathometer.dataset.model import Manifest
from fathometer.dataset.recording import Recording
from fathometer.dataset.regroup import grid
from fathometer.dataset.rollup import SHIFT, Counted, added
from fathometer.dataset.selection import ALL, Selection
from fathometer.dataset.totals import Totals
from fathometer.findings.model import Between, Key, Scenario
from fathometer.stats.blocks import MOST, SHORTEST
from fathometer.stats.series import BlockCounts, Buckets

OF_STUDIES = frozenset(("study", "round", "quick"))
"""Tags that a study adds: they tell runs of one path from each other."""
_MOST_OF_ALL = 2 * MOST
"""Blocks of a scenario at most, where it has fewer recordings: more are only joined again."""


class Piece(Protocol):
    """What of a recording belongs together: a `Part`, or the `Run` that was made of it."""

    @property
    def recording(self) -> Recording:
        """Whose samples."""

    @property
    def selection(self) -> Selection:
        """Which of them."""


@dataclass(frozen=True, slots=True)
class Part:
    """A recording, or its samples of one size, around one silence, under load, or without load."""

    key: Key
    recording: Recording
    selection: Selection


def totals_of(piece: Piece) -> Totals:
    """Counts over a part of a recording."""
    return piece.recording.totals.part(piece.selection)


def parts(recording: Recording) -> list[Part]:
    """A recording as it may be pooled: whole; or one part a size where it swept several; two a silence where
    it had some (the first samples after it, and the warm ones); each in two where the path was loaded for a
    part of the time.
    """
    manifest = recording.manifest
    whole = Key(recording.label, manifest.mode, manifest.size, manifest.interval_ns, ends=_ends(manifest))
    every = [Part(whole, recording, ALL)]
    sizes = recording.totals.sizes
    if manifest.size is None and len(sizes) > 1:
        every = [Part(replace(whole, size=size), recording, Selection(size=size)) for size in sizes]
    silences = recording.totals.silences
    if silences:
        # What follows none of them (the burst after a handshake, what follows a loss) is in no part.
        every = [
            Part(replace(p.key, silence=silence), recording, replace(p.selection, silence=silence))
            for p in every
            for silence in silences
        ]
    return [half for part in every for half in _by_load(part)]


def _ends(manifest: Manifest) -> Between:
    path = manifest.path
    return Between(
        start=path.start,
        # Who says from where it was measured decides what counts as one place: a machine may be made anew.
        host=None if path.start else manifest.host_id,
        to=path.to,
        via=path.via,
        target=manifest.target,
        tags=tuple(sorted((k, v) for k, v in path.tags.items() if k not in OF_STUDIES)),
        marks=tuple(sorted(manifest.marks)),
    )


def _by_load(part: Part) -> list[Part]:
    totals = totals_of(part)
    if totals.under_load in {0, totals.samples}:
        return [replace(part, key=replace(part.key, under_load=totals.under_load > 0))]
    return [
        replace(
            part,
            key=replace(part.key, under_load=loaded),
            selection=replace(part.selection, under_load=loaded),
        )
        for loaded in (False, True)
    ]


def is_whole(piece: Piece) -> bool:
    """Whether it is all of its recording."""
    return piece.selection == ALL


def recordings_of(scenarios: Sequence[Scenario]) -> Iterator[tuple[Scenario, Recording]]:
    """Every recording once, with its first scenario, idle before loaded, warm before what follows a silence:
    connections and events are not of one size.
    """
    seen: set[str] = set()
    for scenario in sorted(scenarios, key=lambda s: (s.key.under_load, _after_silence(s.key))):
        for run in scenario.runs:
            if run.recording.manifest.id not in seen:
                seen.add(run.recording.manifest.id)
                yield scenario, run.recording


def _after_silence(key: Key) -> bool:
    return key.silence is not None and key.silence.first


def joined_blocks(group: Sequence[Piece], width_ns: int | None = None, start_ns: int = 0) -> BlockCounts:
    """The blocks of several parts one after another.

    Blocks are of equal time, so that they hold about equally many samples where the pacing is steady. With
    `width_ns` they lie on a common grid (whole multiples of it since `start_ns`), for pairing. Blocks in
    which nothing was answered are left out.
    """
    every: list[Counted] = []
    began: list[np.ndarray[tuple[int], np.dtype[np.int64]]] = []
    for piece in group:
        answered = totals_of(piece).answered
        if not answered:
            continue
        rollup = piece.recording.rollup
        if width_ns is None:
            most = min(MOST, -(-_MOST_OF_ALL // len(group)))
            start, width = grid(rollup, max(min(most, answered // SHORTEST), 1), piece.selection)
        else:
            start, width = start_ns, width_ns
        counted = rollup.counted(start, width, piece.selection)
        stretches, number = np.unique(counted.stretch, return_inverse=True)
        every.append(counted._replace(stretch=number.astype(np.int64) + sum(map(len, began))))
        began.append(start + stretches * width)
    return to_blocks(every, began)


def to_blocks(
    counted: Sequence[Counted], began_ns: Sequence[np.ndarray[tuple[int], np.dtype[np.int64]]]
) -> BlockCounts:
    """Counts by block, numbered from 0, as the statistics take them.

    A bucket stands for the mean of what is in it, over all blocks: where round trips are rounded, that is
    their value itself.
    """
    if not counted:
        nothing = np.zeros(0)
        return BlockCounts(nothing, np.zeros((0, 0), dtype=np.int64), nothing, np.zeros(0, dtype=np.int64))
    stretch, bucket, number, total = _by_value(*(np.concatenate(c) for c in zip(*counted, strict=True)))
    buckets, column = np.unique(bucket, return_inverse=True)
    blocks = sum(map(len, began_ns))
    counts = np.zeros((blocks, len(buckets)), dtype=np.int64)
    counts[stretch, column] = number
    _, of_bucket, sums = added(bucket, number, total)
    values = np.asarray(sums.astype(np.float64) / of_bucket, dtype=np.float64)
    return BlockCounts(
        values,
        counts,
        np.asarray(np.bincount(stretch, weights=total, minlength=blocks), dtype=np.float64),
        np.concatenate(began_ns),
        buckets=_buckets(buckets, values, number, total / number, column),
    )


def _by_value(
    stretch: NDArray[np.int64], bucket: NDArray[np.int64], number: NDArray[np.int64], total: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """With each value of its own where a bucket holds two, one next to the other: how many there are of the
    larger follows from the sum. A bucket of 2 and 3 ns would make a median of 2.5 of three such values.
    """
    upper = total - number * bucket
    both = (bucket < SUB_BUCKETS) & (upper >= 0) & (upper <= number)
    if not both.any():
        return stretch, bucket, number, total
    upper = np.where(both, upper, 0)
    some, lower = upper > 0, number - upper
    kept = lower > 0
    large = bucket + 1
    return (
        np.concatenate([stretch[kept], stretch[some]]),
        np.concatenate([bucket[kept], large[some]]),
        np.concatenate([lower[kept], upper[some]]),
        np.concatenate([(total - upper * large)[kept], (upper * large)[some]]),
    )


def _buckets(
    numbers: NDArray[np.int64],
    values: NDArray[np.float64],
    number: NDArray[np.int64],
    means: NDArray[np.float64],
    column: NDArray[np.intp],
) -> Buckets:
    """What is in each bucket, by its rows: one value where several have the same mean, in whole ns, where
    there is a single sample, and where `_by_value` made it so.
    """
    one_value = (np.bincount(column) > 1) | (np.bincount(column, weights=number) == 1)
    one_value &= np.abs(values - np.rint(values)) < _WHOLE
    one_value |= numbers < SUB_BUCKETS
    one_value &= np.bincount(column, weights=np.abs(means - values[column]) >= _WHOLE) == 0
    lows = bucket_low(numbers).astype(np.float64)
    highs = bucket_low(numbers + (1 << SHIFT)).astype(np.float64) - 1
    # The last bucket is open above.
    return Buckets(
        numbers,
        np.where(one_value, values, np.minimum(lows, values)),
        np.where(one_value, values, np.maximum(highs, values)),
    )


_WHOLE = 1e-3
"""Round trips are whole ns; what is closer than this is the same."""
