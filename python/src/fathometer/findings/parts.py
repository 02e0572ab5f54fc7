"""Recordings cut into what may be pooled, and each part's blocks of time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from fathometer.dataset import query
from fathometer.dataset.engine import Totals
from fathometer.dataset.histogram import Histogram
from fathometer.dataset.recording import Recording
from fathometer.dataset.selection import Selection
from fathometer.findings.model import Key, Scenario
from fathometer.stats.blocks import MOST, SHORTEST
from fathometer.stats.series import BlockCounts

_SHIFT = 1
"""Halves the buckets' resolution for block histograms: 0.1 %, and half the memory."""


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
    whole = Key(recording.label, manifest.mode, manifest.size, manifest.interval_ns)
    made = [Part(whole, recording, query.ALL)]
    sizes = recording.totals.sizes
    if manifest.size is None and len(sizes) > 1:
        made = [Part(replace(whole, size=size), recording, Selection(size=size)) for size in sizes]
    silences = recording.totals.silences
    if silences:
        # What follows none of them (the burst after a handshake, what follows a loss) is in no part.
        made = [
            Part(replace(p.key, silence=silence), recording, replace(p.selection, silence=silence))
            for p in made
            for silence in silences
        ]
    return [half for part in made for half in _by_load(part)]


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
    return piece.selection == query.ALL


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


def block_question(piece: Piece, width_ns: int | None = None, start_ns: int = 0) -> query.Histograms | None:
    """The histograms of a part's blocks; None where nothing was answered.

    Blocks are of equal time, so that they hold about equally many samples where the pacing is steady. With
    `width_ns` they lie on a common grid (whole multiples of it since `start_ns`), for pairing.
    """
    totals = totals_of(piece)
    if totals.first_sent_ns is None or totals.last_sent_ns is None or not totals.answered:
        return None
    if width_ns is None:
        number = max(min(MOST, totals.answered // SHORTEST), 1)
        grid = query.grid_of(piece.recording, number)
    else:
        whole = piece.recording.totals
        first, last = whole.first_sent_ns or 0, whole.last_sent_ns or 0
        first = start_ns + (first - start_ns) // width_ns * width_ns
        grid = query.grid_of(piece.recording, (last - first) // width_ns + 1, first, width_ns)
    return query.Histograms("rtt", piece.selection, grid, _SHIFT)


def joined_blocks(group: Sequence[Piece], width_ns: int | None = None, start_ns: int = 0) -> BlockCounts:
    """The blocks of several parts one after another; see `block_question`."""
    histograms: list[Histogram] = []
    began: list[int] = []
    for piece in group:
        asked = block_question(piece, width_ns, start_ns)
        if asked is not None and isinstance(asked.by, query.Grid):
            for number, one in query.ask(piece.recording, asked).items():
                histograms.append(one)
                began.append(asked.by.start_ns + number * asked.by.width_ns)
    return to_blocks(histograms, began)


def to_blocks(histograms: Sequence[Histogram], began_ns: Sequence[int]) -> BlockCounts:
    """Histograms, none of them empty, as the statistics take them."""
    if not histograms:
        nothing = np.zeros(0)
        return BlockCounts(nothing, np.zeros((0, 0), dtype=np.int64), nothing, np.zeros(0, dtype=np.int64))
    numbers = np.unique(np.concatenate([h.buckets for h in histograms]))
    counts = np.zeros((len(histograms), len(numbers)), dtype=np.int64)
    for row, one in enumerate(histograms):
        counts[row, np.searchsorted(numbers, one.buckets)] = one.counts
    # A bucket stands for its middle.
    every = Histogram(numbers, np.ones_like(numbers), None, None, 0, None, histograms[0].shift)
    middles = (every.lows_ns + every.highs_ns) / 2
    sums = np.array([float(h.sum_ns) for h in histograms])
    return BlockCounts(middles, counts, sums, np.array(began_ns, dtype=np.int64))
