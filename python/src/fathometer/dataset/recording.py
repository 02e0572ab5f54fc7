"""Opening recordings: finished ones, interrupted ones, and those that are being written."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path as FilePath
from typing import Any, Final

from fathometer.dataset import datagrams
from fathometer.dataset import events as event_log
from fathometer.dataset.datagrams import Losses
from fathometer.dataset.engine import Source, Totals, last_seqs, totals
from fathometer.dataset.format import LOCK, MANIFEST
from fathometer.dataset.manifest import OTHER_DIRECTORY, read_manifest
from fathometer.dataset.model import Connection, Damage, Event, Maintenance, Manifest, Pause, Stall
from fathometer.dataset.segments import listed, read_segments
from fathometer.dataset.silences import marked
from fathometer.dataset.throughput import Throughput, throughput
from fathometer.errors import FathometerError

_ATTEMPTS: Final = 3
"""Readings of a running recording whose open segment closes meanwhile; it closes at most once in seconds."""


@dataclass(frozen=True, eq=False)
class Recording:
    """An opened recording: what stood in it when it was opened. Its samples are asked for by
    `dataset.query`.
    """

    directory: FilePath
    manifest: Manifest
    events: tuple[Event, ...]
    source: Source = field(repr=False)
    rows: int
    """Samples that can be read."""
    damage: tuple[Damage, ...]
    """What cannot be read. A torn end is normal while it runs, and after a kill."""
    running: bool
    """Whether a probe was writing it when it was opened."""
    answers: dict[Any, tuple[Any, int]] = field(default_factory=dict, repr=False)
    """What `scan.prepare` found, by question, and how often it will be asked for yet."""

    @property
    def label(self) -> str:
        """The scenario's name."""
        return self.manifest.label

    @property
    def interrupted(self) -> bool:
        """Whether it neither runs nor ended."""
        return not self.running and self.manifest.ended_ns is None

    @cached_property
    def connections(self) -> tuple[Connection, ...]:
        """Connections that events speak of, by number."""
        return event_log.connections(self.events)

    @property
    def lasting(self) -> tuple[Connection, ...]:
        """Connections that samples go over. None where each sample is a connection of its own: their ends and
        ages are no story.
        """
        return () if self.manifest.makes_connections else self.connections

    @cached_property
    def stalls(self) -> tuple[Stall, ...]:
        """Stalls, in the order of beginning."""
        return event_log.stalls(self.events)

    @cached_property
    def pauses(self) -> tuple[Pause, ...]:
        """Pauses of both hosts."""
        return event_log.pauses(self.events)

    @cached_property
    def maintenance(self) -> tuple[Maintenance, ...]:
        """What the cloud announced."""
        return event_log.maintenance(self.events)

    @cached_property
    def throughput(self) -> Throughput | None:
        """What a throughput test came to; None: the recording is of another mode."""
        return throughput(self.manifest, self.events)

    @cached_property
    def losses(self) -> Losses | None:
        """Which way datagrams were lost; None: the recording does not tell."""
        return datagrams.losses(self.events)

    @cached_property
    def clock_error_ns(self) -> int | None:
        """How far one-way delays may be from the truth; None: they mean nothing."""
        return datagrams.clock_error_ns(self.events)

    @cached_property
    def totals(self) -> Totals:
        """Counts over all samples, warm-up included; one scan, kept."""
        return totals(self.source)

    @cached_property
    def last_seqs(self) -> dict[int, int]:
        """The seq of the last sample of each connection, ascending; one scan, kept."""
        return last_seqs(self.source)

    def measures(self, column: str) -> bool:
        """Whether a column holds measurements; an import has columns that its tool did not measure."""
        imported = self.manifest.imported
        return imported is None or column not in imported.get("not_measured", ())


def open_recordings(
    paths: Iterable[str | os.PathLike[str]], *, on_error: Callable[[FathometerError], None] | None = None
) -> tuple[Recording, ...]:
    """Opens recordings, and every recording in trees of them (``label=.../date=.../``), sorted by path.

    Args:
        paths: recordings or directories that hold some.
        on_error: told of each recording that cannot be opened, which is then left out. Without it the first
            such
            one is raised.

    Raises:
        FathometerError: a path holds no recording at all, or (without `on_error`) one that cannot be opened.
    """
    found: dict[FilePath, Recording] = {}
    for given in paths:
        path = FilePath(given)
        directories = list(_recordings_in(path))
        for directory in directories:
            key = directory.resolve()
            if key in found:
                continue
            try:
                found[key] = open_recording(directory)
            except FathometerError as error:
                if on_error is None:
                    raise
                on_error(error)
    return tuple(found.values())


def _recordings_in(path: FilePath) -> Iterator[FilePath]:
    if path.name == MANIFEST and path.is_file():
        path = path.parent
    if not path.exists():
        raise FathometerError("open recording", f"{path} does not exist", "check the path")
    if not path.is_dir():
        raise FathometerError(
            "open recording",
            f"{path} is a file, and a recording is a directory",
            f"bring another tool's output in with `fathom import {path}`",
        )
    count = 0
    for directory, below, files in os.walk(path):
        below.sort()
        if MANIFEST in files:
            count += 1
            below.clear()  # A recording holds no others.
            yield FilePath(directory)
    if count == 0:
        if any(path.glob("samples-*")):
            what, remedy = f"{path} has samples but no {MANIFEST}", f"restore {MANIFEST} from a copy"
        else:
            what = f"{path} holds no recording (no {MANIFEST} in it or below)"
            remedy = OTHER_DIRECTORY
        raise FathometerError("open recording", what, remedy)


def open_recording(directory: str | os.PathLike[str]) -> Recording:
    """Opens the recording in one directory; raises `FathometerError` if its manifest cannot be used.

    Damaged segments and event lines are no error: they are left out and stand in `Recording.damage`.
    """
    path = FilePath(directory)
    for attempt in range(1, _ATTEMPTS + 1):
        manifest = read_manifest(path)
        running = _is_locked(path / LOCK)
        try:
            # The directory first: a segment that closes in between is then known by either name.
            names = os.listdir(path)  # noqa: PTH208 - names are wanted, not paths
        except OSError as error:
            raise FathometerError(
                "open recording", f"{path}: {error.strerror}", "check its permissions"
            ) from None
        events, damage = event_log.read_events(path)
        segments = read_segments(path, names, listed(events))
        if running and attempt < _ATTEMPTS and any(not d.torn for d in segments.damage):
            continue  # Closed while we looked?
        break
    return Recording(
        directory=path,
        manifest=manifest,
        events=events,
        source=marked(path, Source(segments.parquet, segments.open), segments.rows, manifest.idle_gaps_ns),
        rows=segments.rows,
        damage=damage + segments.damage,
        running=running,
    )


def _is_locked(path: FilePath) -> bool:
    """Whether a probe holds the recording's lock (flock, as Rust's `File::lock`)."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
