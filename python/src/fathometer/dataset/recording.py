"""Opening recordings: finished ones, interrupted ones, and those that are being written."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path as FilePath
from typing import Final

from fathometer.dataset import datagrams
from fathometer.dataset import events as event_log
from fathometer.dataset.by_connection import ByConnection
from fathometer.dataset.client import Client, client
from fathometer.dataset.datagrams import Losses
from fathometer.dataset.format import EVENTS, LOCK, MANIFEST, PROGRESS
from fathometer.dataset.histogram import Histogram
from fathometer.dataset.manifest import OTHER_DIRECTORY, read_manifest
from fathometer.dataset.model import (
    Connection,
    Damage,
    Delay,
    Event,
    Maintenance,
    Manifest,
    Pause,
    Stall,
)
from fathometer.dataset.places import Place, RemotePath, names_in, place_of, size_of, walk
from fathometer.dataset.queries import Queries, read_queries
from fathometer.dataset.rollup import Rollup
from fathometer.dataset.rollup_files import is_rollup, read_rollups
from fathometer.dataset.scan import Openings, Scanned, Wanted, scan
from fathometer.dataset.segments import listed, read_segments
from fathometer.dataset.selection import Selection
from fathometer.dataset.silences import marked
from fathometer.dataset.source import Source
from fathometer.dataset.throughput import Throughput, throughput
from fathometer.dataset.totals import Totals
from fathometer.dataset.wall import WallStretch, elapsed_ns, lasted_ns, stretches
from fathometer.errors import FathometerError
from fathometer.portable import is_locked, processors
from fathometer.reading import parsed, regular

_ATTEMPTS: Final = 3
"""Readings of a running recording whose open segment closes meanwhile; it closes at most once in seconds."""
_MADE: Final = (
    *("connections", "stalls", "delays", "pauses", "maintenance"),
    *("throughput", "losses", "clock_error_ns", "unsent", "lost_here", "client", "queries"),
)
"""What is made of events when it is first asked for."""
_MOST_PROGRESS: Final = 1_000
"""Bytes that are read of what says how many requests were due."""
_BEGUN: Final = frozenset({LOCK, ".reserve", ".seam", PROGRESS, MANIFEST})
"""What a probe leaves that is killed before its recording has a manifest (until then it ends in `.tmp`)."""
MOST_CONNECTIONS: Final = 10_000
"""Connections whose first samples are looked at."""


@dataclass(frozen=True, eq=False)
class Recording:
    """An opened recording: what stood in it when it was opened. `rollup` is what its samples come to, by
    one pass when it is first asked for; excerpts of samples are `raw.samples`.
    """

    directory: Place
    manifest: Manifest
    events: tuple[Event, ...]
    source: Source | None = field(repr=False)
    """None: only its rollup is there, which an engine made."""
    damage: tuple[Damage, ...]
    """What cannot be read. A torn end is normal while it runs, and after a kill."""
    running: bool
    """Whether a probe was writing it when it was opened."""
    precounted: Rollup | None = field(default=None, repr=False)
    """The rollup that was made elsewhere."""

    @property
    def label(self) -> str:
        """The scenario's name."""
        return self.manifest.label

    def named(self, label: str) -> Recording:
        """The same under another label, without being read again."""
        renamed = replace(self, manifest=replace(self.manifest, label=label))
        if "_scanned" in self.__dict__:
            renamed.__dict__["_scanned"] = self._scanned
        return renamed

    @property
    def broken(self) -> tuple[Damage, ...]:
        """What cannot be read and is no mere torn end."""
        of_queries = () if self.queries is None else self.queries.damage
        return tuple(d for d in (*self.damage, *of_queries) if not d.torn)

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
    def last_stalls(self) -> Mapping[int | None, Stall]:
        """By connection: the stall in which it ended."""
        return {s.connection: s for s in reversed(self.stalls) if s.recovered is False}

    @cached_property
    def responders(self) -> frozenset[int]:
        """The identities of the reflectors that answered questions."""
        return event_log.responders(self.events)

    @cached_property
    def delays(self) -> tuple[Delay, ...]:
        """Times in which echoes came late, in the order of beginning."""
        return event_log.delays(self.events)

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
    def client(self) -> Client | None:
        """What an application's requests came to; None: the recording is of another mode, or a rollup."""
        return client(self.manifest, self.events, self.source, self._was_due())

    @cached_property
    def queries(self) -> Queries | None:
        """The queries of a database beside which samples were measured; None: there were none, or only a
        rollup is there.
        """
        return None if self.source is None else read_queries(self.directory, self.manifest, self.events)

    def _was_due(self) -> int | None:
        """How many requests of an application had been due a second before it was killed; None: it was not,
        or this was recovered, and its events say it.
        """
        if not self.interrupted or not isinstance(self.directory, FilePath):
            return None
        try:
            with regular(self.directory / PROGRESS) as file:
                told = parsed(file.read(_MOST_PROGRESS))
        except (OSError, ValueError):
            return None
        due = told.get("due") if isinstance(told, dict) else None
        return due if isinstance(due, int) and 0 <= due < 1 << 63 else None

    @cached_property
    def losses(self) -> Losses | None:
        """Which way datagrams were lost; None: the recording does not tell."""
        return datagrams.losses(self.events)

    @cached_property
    def clock_error_ns(self) -> int | None:
        """How far one-way delays may be from the truth; None: they mean nothing."""
        return datagrams.clock_error_ns(self.events)

    @cached_property
    def unsent(self) -> int:
        """Samples that were due and not sent, because there was no connection or because it took no more.
        Those that this process did not come to send say nothing of the path, and are not among them.
        """
        return event_log.unsent(self.events)

    @cached_property
    def lost_here(self) -> int:
        """Number of samples without an echo that were lost in this host; they say nothing about the
        target.
        """
        return event_log.lost_here(self.events)

    @cached_property
    def over_ns(self) -> int:
        """The last moment that it tells of. What a recovery wrote bears the time of the recovery, which may
        be days after the probe was killed.
        """
        return max(
            self.manifest.ended_ns or 0,
            max((e.at_ns for e in event_log.of_the_probe(self.events)), default=0),
            self.totals.last_sent_ns or 0,
        )

    @cached_property
    def _stretches(self) -> tuple[WallStretch, ...]:
        return stretches(self.events)

    @property
    def clock_was_set(self) -> bool:
        """True if the wall clock was set, so that times of day in it do not give lengths."""
        return len(self._stretches) > 1

    def elapsed_ns(self, from_ns: int, to_ns: int) -> int:
        """The time between two of its times of day, without steps of the wall clock."""
        return elapsed_ns(self._stretches, from_ns, to_ns)

    @cached_property
    def lasted_ns(self) -> int:
        """Time from the first sample to the last recorded moment."""
        if self.clock_was_set:
            return lasted_ns(tuple(event_log.of_the_probe(self.events)))
        return self.over_ns - (self.totals.first_sent_ns or self.over_ns)

    @property
    def rows(self) -> int:
        """Samples that were sent and can be read."""
        return self.source.rows if self.source else self.totals.samples

    @cached_property
    def _scanned(self) -> Scanned:
        if self.precounted is not None:
            return Scanned(self.precounted)
        assert self.source is not None
        known = len(self.connections)
        wanted = Wanted(
            ways=self.clock_error_ns is not None,
            # A connection that is the only one has nothing to show.
            openings=not self.manifest.makes_connections and known != 1 and known <= MOST_CONNECTIONS,
            connections=not known,
        )
        return scan(str(self.directory), self.source, wanted)

    @property
    def rollup(self) -> Rollup:
        """All samples, counted; raises `FathometerError` where they cannot be read."""
        return self._scanned.rollup

    @property
    def openings(self) -> Openings | None:
        """What the first samples of connections took; None: not looked at."""
        return self._scanned.openings

    def by_connection(self, selection: Selection) -> ByConnection | None:
        """The answered samples of each connection; None: not counted."""
        return self._scanned.by_connection(selection)

    @property
    def ways(self) -> tuple[Histogram | None, Histogram | None]:
        """The delays there and back; None: nobody bounds the difference of the clocks."""
        return self._scanned.forward, self._scanned.backward

    @cached_property
    def totals(self) -> Totals:
        """Counts over all samples, warm-up included."""
        return self.rollup.totals()


def open_recordings(
    paths: Iterable[str | os.PathLike[str] | RemotePath],
    *,
    on_error: Callable[[FathometerError], None] | None = None,
    counted: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> tuple[Recording, ...]:
    """Opens recordings, and every recording in trees of them (``label=.../date=.../``), sorted by path.

    Args:
        paths: recordings or directories that hold some, here or in an object store.
        on_error: told of each recording that cannot be read, which is then left out. Without it the first
            such one is raised.
        counted: whether their samples are counted at once, several recordings at a time, so that those whose
            samples cannot be read are refused here.
        progress: is told each recording that is begun.

    Raises:
        FathometerError: a path holds no recording at all, or (without `on_error`) one that cannot be opened.
    """
    directories: dict[Place, Place] = {}
    rolled: list[Recording] = []
    for given in paths:
        place = place_of(given)
        if is_rollup(place):
            rolled += [
                Recording(r.directory, r.manifest, r.events, None, r.damage, r.running, r.rollup)
                for r in read_rollups(place)
            ]
            continue
        for directory in recordings_in(place):
            directories.setdefault(directory.resolve(), directory)

    def one(numbered: tuple[int, Place]) -> Recording | FathometerError:
        number, directory = numbered
        if len(directories) > 1:
            progress(f"reading recording {number:,} of {len(directories):,}: {directory.name}")
        try:
            recording = open_recording(directory)
            if counted:
                _counted(recording)
        except FathometerError as error:
            return error
        return recording

    recordings = rolled
    with ThreadPoolExecutor(processors()) as workers:
        for each in workers.map(one, enumerate(directories.values(), 1)):
            if isinstance(each, Recording):
                recordings.append(each)
            elif on_error is None:
                raise each
            else:
                on_error(each)
    return tuple(recordings)


def _counted(recording: Recording) -> None:
    """Has all made that is made when it is first asked for; raises `FathometerError`.

    One recording with values that nobody foresaw must not end the reading of all others, so whatever goes
    wrong here is said of this one.
    """
    try:
        for name in ("rollup", *_MADE):
            getattr(recording, name)
    except (ArithmeticError, LookupError, TypeError, ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise FathometerError(
            "read recording",
            f"{recording.directory}: its events or samples hold what no recorder writes ({reason})",
            "check it with `fathom recording verify`",
        ) from None


def recordings_in(path: Place) -> Iterator[Place]:
    """The directories of recordings in a tree, sorted; raises `FathometerError` where there is none."""
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
    for directory, below, files in walk(path):
        if MANIFEST in files:
            count += 1
            below.clear()  # A recording holds no others.
            yield directory
    if count == 0:
        if isinstance(path, FilePath) and _is_only_begun(names_in(path)) and not _is_locked(path / LOCK):
            raise NothingRecordedError(
                "open recording",
                f"{path}: nothing was recorded: its probe ended as soon as it had begun",
                "the directory holds nothing, and may be removed",
            )
        if any(name.startswith("samples-") for name in names_in(path)):
            what, remedy = f"{path} has samples but no {MANIFEST}", f"restore {MANIFEST} from a copy"
        else:
            what = f"{path} holds no recording (no {MANIFEST} in it or below)"
            remedy = OTHER_DIRECTORY
        raise FathometerError("open recording", what, remedy)


class NothingRecordedError(FathometerError):
    """A directory that a probe had only begun when it was killed: nothing is missing without it."""


def _is_only_begun(names: Collection[str]) -> bool:
    """Whether there is a probe's lock and nothing else; as `Begun::Empty` of the binary."""
    return LOCK in names and all(name.removesuffix(".tmp") in _BEGUN for name in names)


def open_recording(directory: str | os.PathLike[str] | RemotePath) -> Recording:
    """Opens the recording in one directory; raises `FathometerError` if its manifest cannot be used.

    Damaged segments and event lines are no error: they are left out and stand in `Recording.damage`.
    """
    path = place_of(directory)
    for attempt in range(1, _ATTEMPTS + 1):
        manifest = read_manifest(path)
        running = isinstance(path, FilePath) and _is_locked(path / LOCK)
        try:
            # The directory first: a segment that closes in between is then known by either name.
            names = names_in(path)
        except OSError as error:
            raise FathometerError(
                "open recording", f"{path}: {error.strerror or error}", "check its permissions"
            ) from None
        events, damage = event_log.read_events(path)
        segments = read_segments(path, names, listed(events))
        if running and attempt < _ATTEMPTS and any(not d.torn for d in segments.damage):
            continue  # Closed while we looked?
        break
    damage += segments.damage
    if not damage and manifest.ended_ns is not None and EVENTS not in names:
        # Whoever ended it wrote that it ended; one that was interrupted may not have come to its first.
        damage = (Damage(EVENTS, 0, 0, False, "it is missing"),)
    elif manifest.ended_ns is not None:
        damage += _taken_away(path, manifest)
    return Recording(
        directory=path,
        manifest=manifest,
        events=events,
        source=marked(path, Source(segments.closed, segments.open), manifest.idle_gaps_ns),
        damage=damage,
        running=running,
    )


def _taken_away(path: Place, manifest: Manifest) -> tuple[Damage, ...]:
    """What the event log has lost at its end since the recording ended, as after a copy that was cut off."""
    told = manifest.extra.get("events")
    length = told.get("bytes") if isinstance(told, dict) else None
    try:
        there = size_of(path / EVENTS)
    except OSError:
        return ()
    if not isinstance(length, int) or there >= length:
        return ()
    return (Damage(EVENTS, there, length - there, False, "its end is missing"),)


def _is_locked(path: FilePath) -> bool:
    """True if a probe holds the recording's lock."""
    try:
        with regular(path) as file:
            return is_locked(file)
    except OSError:
        return False
