"""What a study's journal and recordings come to, told piece by piece. No clock, no file: whoever feeds it has
them. What the board says does not depend on the pieces, but on what was told in all.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from fathometer.dataset.follow import NewOnDisk, NewSamples
from fathometer.dataset.histogram import Histogram
from fathometer.dataset.model import Event, Manifest
from fathometer.dataset.rollup import SHIFT
from fathometer.study.live.board import Board, BoardRow, RowState, StudyState
from fathometer.study.live.estimate import Pace, left_ns
from fathometer.study.live.happenings import SHORT_PAUSE_NS, Happening, at_of, of_entry, of_event
from fathometer.study.live.series import BinnedSeries
from fathometer.study.outline import Outline, read_outline

KEPT: Final = 60
"""Happenings on a board."""
_RUN_ENDS: Final = frozenset({"run.finished", "run.failed"})
_STUDY_ENDS: Final = frozenset({"study.ended", "study.interrupted", "study.stopped"})


@dataclass(slots=True)
class _Figures:
    """Of one run, or of several together."""

    # As coarse as a rollup's: the board and a report of the same runs say the same.
    rtt: Histogram = field(default_factory=lambda: Histogram.empty(SHIFT))
    unanswered: int = 0

    def add(self, other: _Figures) -> None:
        self.rtt = Histogram.merge([self.rtt, other.rtt])
        self.unanswered += other.unanswered


@dataclass(slots=True)
class _Run:
    """A run that has begun and not ended."""

    began_ns: int | None
    figures: _Figures = field(default_factory=_Figures)
    samples: int = 0
    """All that were resolved, warm-up included."""
    manifest: Manifest | None = None
    stalled: set[int | None] = field(default_factory=set)
    """Connections with an open stall."""

    def within(self, now_ns: int) -> float | None:
        if self.manifest is None:
            return None
        probe = self.manifest.probe
        count, connections, duration = (probe.get(n) for n in ("count", "connections", "duration_ns"))
        if isinstance(count, int) and count:
            lanes = connections if isinstance(connections, int) and connections else 1
            return min(1.0, self.samples / (count * lanes))
        if not duration and isinstance(up_to := probe.get("up_to_ns"), int):
            # A search that finds a limit ends earlier: how far it is at the least.
            duration = up_to + up_to // 10
        if isinstance(duration, int) and duration:
            return min(1.0, max(0.0, (now_ns - self.manifest.started_ns) / duration))
        return None


@dataclass(slots=True)
class _Path:
    """What a row is made of."""

    directory: str
    of: int | None = None
    planned_ns: int = 0
    done: int = 0
    failed: int = 0
    latest_failed: bool = False
    figures: _Figures = field(default_factory=_Figures)
    """Of finished runs."""
    took_ns: int = 0
    """By the finished runs whose begin is known, together."""
    timed: int = 0
    """How many those are."""
    now: dict[str, _Run] = field(default_factory=dict)
    last_sent_ns: int | None = None
    """When the latest answered sample was sent."""
    last_ns: int | None = None
    happened: Happening | None = None
    short_pauses: int = 0
    longest_short_ns: int = 0
    together: _Figures | None = None
    """Of finished runs and those of now, until something is added."""
    whole: BinnedSeries = field(default_factory=lambda: BinnedSeries(folds=True))
    recent: BinnedSeries = field(default_factory=lambda: BinnedSeries(folds=False))

    def all_figures(self) -> _Figures:
        """Of finished runs and those of now."""
        if self.together is None:
            self.together = _Figures()
            for figures in (self.figures, *(r.figures for r in self.now.values())):
                self.together.add(figures)
        return self.together

    def pace(self, now_ns: int) -> Pace:
        run_ns = self.took_ns // self.timed if self.timed else self.planned_ns
        left = max(0, (self.of or 0) - self.done - self.failed)
        gone = [now_ns - r.began_ns for r in self.now.values() if r.began_ns is not None]
        return Pace(left, run_ns, min(run_ns, max(0, sum(gone))))


class LiveStudy:
    """A study that is watched."""

    def __init__(self) -> None:
        self._study = ""
        self._outline = Outline(False, None, False, ())
        self._runs = 0
        self._paths: dict[str, _Path] = {}
        self._happenings: list[Happening] = []
        self._began_ns: int | None = None
        self._ended_ns: int | None = None
        self._ended: StudyState | None = None

    def journal(self, entry: Mapping[str, Any]) -> Happening | None:
        """Takes an entry; tells what it means in words, if anything. A run's samples and events are told
        before the entry that ends it.
        """
        kind = entry.get("kind")
        if kind == "study.started":
            self._start(entry)
        elif kind == "study.resumed":
            self._ended = self._ended_ns = None
            self._drop_runs()
            for path in self._paths.values():
                path.failed, path.latest_failed = 0, False
        elif kind in _STUDY_ENDS and self._ended != "finished":
            self._ended = "finished" if kind == "study.ended" else "interrupted"
            self._ended_ns = at_of(entry)
        elif kind == "run.started":
            path, run = self._where(entry)
            path.now[run] = _Run(at_of(entry))
        elif kind in _RUN_ENDS:
            self._end_run(entry, failed=kind == "run.failed")
        happening = of_entry(entry)
        if happening:
            self._keep(happening)
        return happening

    def grown(self, run: str, growth: NewOnDisk) -> list[Happening]:
        """Takes what is new in the recording of a run that has begun; tells what its events mean in words."""
        path, name = self._where({"run": run})
        now = path.now.get(name)
        if now is None:
            return []
        now.manifest = growth.manifest or now.manifest
        self._samples(path, now, growth.samples)
        news = []
        for event in growth.events:
            _follow_stall(now, event)
            _count_pause(path, event)
            happening = of_event(path.directory, name, event)
            if happening:
                news.append(happening)
                self._keep(happening)
                if path.happened is None or _order(happening) > _order(path.happened):
                    path.happened = happening
        return news

    def board(self, now_ns: int, *, alive: bool) -> Board:
        """The study at a moment. `alive`: whether its runner lives; asked only where it has not ended."""
        state: StudyState = self._ended or ("running" if alive else "gone")
        rows = tuple(_row(p, now_ns, state) for p in self._paths.values())
        of = max(self._runs, sum(p.of or 0 for p in self._paths.values()))
        done, failed = sum(r.done for r in rows), sum(r.failed for r in rows)
        begun = sum(run.within(now_ns) or 0.0 for p in self._paths.values() for run in p.now.values())
        paces = [p.pace(now_ns) for p in self._paths.values()]
        return Board(
            study=self._study,
            state=state,
            rows=rows,
            happenings=tuple(self._happenings),
            done=done,
            of=of,
            failed=failed,
            share=min(1.0, (done + failed + begun) / of) if of else 0.0,
            began_ns=self._began_ns,
            ended_ns=self._ended_ns,
            left_ns=left_ns(self._outline, paces) if state == "running" else None,
            hours=self._outline.hours,
        )

    def series(self, *, recent: bool) -> dict[str, BinnedSeries]:
        """Round trips over time by row: of the last ten minutes that it was measured, or of all the time.
        Failed runs are in it, too.
        """
        return {p.directory: p.recent if recent else p.whole for p in self._paths.values()}

    def _start(self, entry: Mapping[str, Any]) -> None:
        self._study = str(entry.get("study", ""))
        self._began_ns = at_of(entry)
        runs = entry.get("runs")
        self._runs = runs if isinstance(runs, int) else 0
        self._outline = read_outline(entry.get("plan"))
        for planned in self._outline.planned:
            self._paths[planned.directory] = _Path(planned.directory, planned.runs, planned.run_ns)

    def _where(self, entry: Mapping[str, Any]) -> tuple[_Path, str]:
        directory, _, run = str(entry.get("run")).rpartition("/")
        return self._paths.setdefault(directory, _Path(directory)), run

    def _end_run(self, entry: Mapping[str, Any], *, failed: bool) -> None:
        path, name = self._where(entry)
        run = path.now.pop(name, None)
        path.together = None
        path.latest_failed = failed
        if failed:
            path.failed += 1
            path.happened = of_entry(entry)
            return
        path.done += 1
        if run is None:
            return
        path.figures.add(run.figures)
        ended_ns = at_of(entry)
        if run.began_ns is not None and ended_ns is not None:
            path.took_ns += max(0, ended_ns - run.began_ns)
            path.timed += 1

    def _drop_runs(self) -> None:
        for path in self._paths.values():
            path.now.clear()
            path.together = None

    def _samples(self, path: _Path, run: _Run, samples: NewSamples) -> None:
        if samples.sent_ns.size == 0:
            return
        path.together = None
        run.samples += samples.sent_ns.size
        answered = samples.rtt_ns >= 0
        counted = ~samples.warm_up
        rtt = Histogram.of(samples.rtt_ns[answered & counted], SHIFT)
        run.figures.add(_Figures(rtt, int((~answered & counted).sum())))
        if answered.any():
            latest = int(np.argmax(np.where(answered, samples.sent_ns, np.iinfo(np.int64).min)))
            if path.last_sent_ns is None or samples.sent_ns[latest] >= path.last_sent_ns:
                path.last_sent_ns = int(samples.sent_ns[latest])
                path.last_ns = int(samples.rtt_ns[latest])
        path.whole.add(samples)
        path.recent.add(samples)

    def _keep(self, happening: Happening) -> None:
        bisect.insort(self._happenings, happening, key=_order)
        del self._happenings[:-KEPT]


def _order(h: Happening) -> tuple[int, str, str, str, str]:
    # Hosts have clocks of their own, and files are read in turn: the moment decides, never the reading.
    return h.at_ns, h.kind, h.directory or "", h.run or "", h.text


def _follow_stall(run: _Run, event: Event) -> None:
    if event.kind == "stall.began":
        run.stalled.add(event.connection)
    elif event.kind in {"stall.ended", "connection.closed"}:
        run.stalled.discard(event.connection)


def _count_pause(path: _Path, event: Event) -> None:
    if event.kind == "pause" and event.known and event.fields["duration_ns"] < SHORT_PAUSE_NS:
        path.short_pauses += 1
        path.longest_short_ns = max(path.longest_short_ns, event.fields["duration_ns"])


def _row(path: _Path, now_ns: int, study: StudyState) -> BoardRow:
    figures = path.all_figures()
    rtt = figures.rtt
    p50, p99 = rtt.supported_quantile(0.5), rtt.supported_quantile(0.99)
    within = [w for r in path.now.values() if (w := r.within(now_ns)) is not None]
    return BoardRow(
        directory=path.directory,
        state=_state(path, study),
        done=path.done,
        of=path.of,
        failed=path.failed,
        within=max(within) if within and study == "running" else None,
        count=rtt.count,
        unanswered=figures.unanswered,
        last_ns=path.last_ns,
        p50_ns=p50.value_ns if p50 else None,
        p99_ns=p99.value_ns if p99 else None,
        happened=path.happened,
        short_pauses=path.short_pauses,
        longest_short_ns=path.longest_short_ns,
    )


def _state(path: _Path, study: StudyState) -> RowState:
    if study == "running" and path.now:
        return "stalled" if any(r.stalled for r in path.now.values()) else "running"
    if path.latest_failed:
        return "failed"
    if study == "finished" or (path.of is not None and path.done >= path.of):
        return "finished"
    return "waiting" if study == "running" else "interrupted"
