"""What the emulated network did, where its ``truth.jsonl`` is found beside recordings: when nobody could have
been served. As `crates/fathom-fabric/src/simulate/bound.rs` has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path as FilePath
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fathometer import durations
from fathometer.dataset.format import parse_utc
from fathometer.dataset.model import Manifest
from fathometer.dataset.places import Place, RemotePath
from fathometer.reading import parsed

FILE: Final = "truth.jsonl"
PLACES: Final = "fabric-places"
"""The tag by which a study says where on its fabric a path lies: names that stand in the truth, by commas."""
MADE: Final = "fabric-truth"
"""The tag by which it says which fabric that was: the name of its directory in ``truth``."""
MOST_BYTES: Final = 256 << 20
"""A longer one is not looked through: it would be read for minutes."""
_ABOVE: Final = 5
"""How far up from a recording a truth may lie: `label=…/probe=…/policy=…/run=…` of a study."""
_STANDS_STILL: Final = frozenset(("host-pause", "live-migration freeze"))
_FOR_GOOD: Final = 1 << 62
_AT_ONCE: Final = 1 << 20
"""Requests that are looked at at one time."""
Span = tuple[int, int]
Ints = NDArray[np.int64]


class Need(Enum):
    """What a request needs, one after the other; who runs at a host needs the host too."""

    CALLER = 1
    THERE = 2
    SERVER = 3
    SERVERS_HOST = 4
    """Its kernel sends again what was answered, when the process has long been gone."""
    BACK = 5


@dataclass(frozen=True, slots=True)
class Happened:
    """An event that began at a place."""

    at_ns: int
    place: str
    event: str
    lasts_ns: int | None
    """None: for good."""
    direction: str | None

    def stops(self, places: Sequence[str]) -> tuple[Need, ...]:
        """What there was none of meanwhile, for who asks through these places."""
        label, caller, *others = places
        if self.event == "link-cut" and self.place == label:
            one = {"forward": (Need.THERE,), "backward": (Need.BACK,)}
            return one.get(self.direction or "", (Need.THERE, Need.BACK))
        if self.event in _STANDS_STILL and self.place == caller:
            return (Need.CALLER,)
        if self.place not in others:
            return ()
        if self.event in _STANDS_STILL:
            return (Need.SERVERS_HOST,)
        return {"reflector-restart": (Need.SERVER,), "switchover": (Need.THERE, Need.BACK)}.get(
            self.event, ()
        )


@dataclass(frozen=True, slots=True)
class Truth:
    """What stands in one file."""

    began_ns: int
    ended_ns: int | None
    """None: whoever wrote it did not come to its end."""
    happened: tuple[Happened, ...]
    translating: frozenset[str]
    """Places that sent flows elsewhere: behind them another host may serve."""
    scenario: str | None = None
    """What was played."""

    def unservable(
        self, places: Sequence[str], first_ns: int, interval_ns: int, deadline_ns: int, due: int
    ) -> int:
        """How many of `due` requests nobody could have answered before their callers had given up."""
        without: list[tuple[Need, Span]] = []
        for h in self.happened:
            end = _FOR_GOOD if h.lasts_ns is None else min(h.at_ns + h.lasts_ns, _FOR_GOOD)
            without += [(need, (h.at_ns, end)) for need in h.stops(places)]

        def of(*needs: Need) -> _Spans:
            return _Spans([span for need, span in without if need in needs])

        sending = of(Need.CALLER, Need.THERE)
        serving = of(Need.SERVER, Need.SERVERS_HOST)
        answering = of(Need.SERVERS_HOST, Need.BACK)
        seeing = of(Need.CALLER)
        total = 0
        for begin, end in of(*Need).joined:
            numbers = [max(-(-(at - first_ns) // interval_ns), 0) for at in (begin, end)]
            for since in range(numbers[0], min(numbers[1], due), _AT_ONCE):
                some = np.arange(since, min(since + _AT_ONCE, numbers[1], due), dtype=np.int64)
                at = first_ns + some * interval_ns
                answered = answering.next_out(serving.next_out(sending.next_out(at)))
                # A caller that stands still gives up when it runs again, and looks first at what has come.
                total += int(np.count_nonzero(answered >= seeing.next_out(at + deadline_ns)))
        return total


class _Spans:
    """Spans of time: from (which is in it), to (which is not)."""

    def __init__(self, every: Iterable[Span]) -> None:
        self.joined: list[Span] = []
        """In order, and apart from each other."""
        for begin, end in sorted(every):
            if self.joined and begin <= self.joined[-1][1]:
                self.joined[-1] = self.joined[-1][0], max(self.joined[-1][1], end)
            else:
                self.joined.append((begin, end))
        self._ends = np.array([end for _, end in self.joined], dtype=np.int64)
        self._begins = np.array([begin for begin, _ in self.joined], dtype=np.int64)

    def next_out(self, at: Ints) -> Ints:
        """The first moment from each of these on that is in none of them."""
        if not self.joined:
            return at
        number = np.searchsorted(self._ends, at, side="right")
        there = np.minimum(number, len(self.joined) - 1)
        inside = (number < len(self.joined)) & (self._begins[there] <= at)
        return np.where(inside, self._ends[there], at)


def places_of(manifest: Manifest) -> tuple[str, ...] | None:
    """The places of a fabric that a recording's path goes through: its label, the host that asks, and others;
    None: it does not say.
    """
    tags = manifest.path.tags
    if PLACES in tags:
        return tuple(tags[PLACES].split(","))
    if "simulated" not in manifest.extra:
        return None
    path = manifest.label.removesuffix(f"-{tags.get('policy', '')}")
    via = (manifest.path.via or "").split(", ")
    return path, manifest.path.start or "", *(name for name in (manifest.path.to, *via) if name)


def truth_over(directory: Place, start_ns: int, end_ns: int, made: str | None = None) -> Truth | None:
    """The truth that covers this time and lies nearest above a recording; None: there is none, or nobody
    knows which it is.

    Args:
        directory: of the recording.
        start_ns: since the Unix epoch, as `end_ns`.
        end_ns: when the recording ended.
        made: which fabric of a study it was (`MADE`). Older recordings do not say: then, of several in which
            the same scenario was played, the last that was made. One that was killed has no end of its own,
            and would be taken for what came after it.
    """
    if isinstance(directory, RemotePath):
        return None
    above = list(directory.absolute().parents)[:_ABOVE]
    for parent in above:
        files = sorted((parent / "truth").glob(f"*/{FILE}"))
        if made is not None:
            files = [f for f in files if f.parent.name == made]
        found = [t for f in [parent / FILE, *files] if (t := read(f)) and _covers(t, start_ns, end_ns)]
        if found:
            last = max(found, key=lambda t: t.began_ns)
            return last if len({t.scenario for t in found}) == 1 else None
    return None


def _covers(truth: Truth, start_ns: int, end_ns: int) -> bool:
    return truth.began_ns <= start_ns and (truth.ended_ns is None or truth.ended_ns >= end_ns)


_READ: dict[tuple[str, int, int], Truth | None] = {}


def read(file: FilePath) -> Truth | None:
    """A truth; None where there is none, or where it is none. A file is read once however many recordings lie
    beside it.
    """
    try:
        status = file.stat()
    except OSError:
        return None
    key = (str(file), status.st_size, status.st_mtime_ns)
    if key not in _READ:
        _READ.clear()
        _READ[key] = _read(file) if file.is_file() and status.st_size <= MOST_BYTES else None
    return _READ[key]


def _read(file: FilePath) -> Truth | None:
    began: int | None = None
    ended: int | None = None
    happened: list[Happened] = []
    translating: set[str] = set()
    scenario: str | None = None
    try:
        for line in _lines(file):
            kind = line.get("kind")
            at_ns, place = parse_utc(str(line.get("at"))), str(line.get("place"))
            if kind == "truth.started":
                began = at_ns if began is None else began
                scenario = str(line.get("scenario"))
            elif kind == "truth.ended":
                ended = at_ns
            elif kind == "flow.opened" and line.get("to") is not None:
                translating.add(place)
            elif kind == "event.began":
                happened.append(_happened(at_ns, place, line))
    except (OSError, ValueError, OverflowError):
        return None
    return None if began is None else Truth(began, ended, tuple(happened), frozenset(translating), scenario)


def _lines(file: FilePath) -> Iterator[Mapping[str, Any]]:
    """Those that may matter: flows and packets are many, and are not taken apart."""
    with file.open("rb") as lines:
        for line in lines:
            if (
                b'"event.' in line
                or b'"truth.' in line
                or (b'"flow.opened"' in line and b'"to":null' not in line)
            ):
                value = parsed(line)
                if isinstance(value, dict):
                    yield value


def _happened(at_ns: int, place: str, line: Mapping[str, Any]) -> Happened:
    given = line.get("parameters")
    given = given if isinstance(given, dict) else {}
    lasts = next(
        (given[key] for key in ("duration_ns", "down_ns", "outage_ns", "outage") if key in given), None
    )
    if isinstance(lasts, str):
        read = durations.read(lasts)
        if read is None:
            # An event that lasts for nobody knows how long leaves no bound.
            raise ValueError(lasts)
        lasts = round(read)
    direction = given.get("direction")
    return Happened(
        at_ns,
        place,
        str(line.get("event")),
        lasts if isinstance(lasts, int) else None,
        direction if isinstance(direction, str) else None,
    )
