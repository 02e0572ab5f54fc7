"""What the emulated network did, where its ``truth.jsonl`` is found beside recordings: when nobody could have
been served. As `crates/fathom-fabric/src/simulate/bound.rs` has it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any, Final

from fathometer.dataset.format import parse_utc, parsed
from fathometer.dataset.model import Manifest
from fathometer.dataset.places import Place, RemotePath

FILE: Final = "truth.jsonl"
PLACES: Final = "fabric-places"
"""The tag by which a study says where on its fabric a path lies: names that stand in the truth, by commas."""
MOST_BYTES: Final = 256 << 20
"""A longer one is not looked through: it would be read for minutes."""
_ABOVE: Final = 5
"""How far up from a recording a truth may lie: `label=…/probe=…/policy=…/run=…` of a study."""
_STOPS: Final = frozenset(("link-cut", "host-pause", "live-migration freeze", "reflector-restart"))
"""Nothing gets through at their place while they go on."""
_UNITS: Final = {"ns": 1, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9, "m": 6e10, "h": 3.6e12, "d": 8.64e13}
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Happened:
    """An event at one place: it began or ended."""

    at_ns: int
    place: str
    began: bool
    event: str
    outage_ns: int
    """Of a gateway that changes over: how long it takes."""


@dataclass(frozen=True, slots=True)
class Truth:
    """What stands in one file."""

    began_ns: int
    ended_ns: int | None
    """None: whoever wrote it did not come to its end."""
    happened: tuple[Happened, ...]
    translating: frozenset[str]
    """Places that sent flows elsewhere: behind them another host may serve."""

    def spans(self, places: frozenset[str], end_ns: int) -> list[Span]:
        """From when to when nothing could be served at these places, in order and without overlaps."""
        open_: dict[tuple[str, str], tuple[int, int]] = {}
        every: list[Span] = []
        for h in self.happened:
            if h.place not in places:
                continue
            key = (h.place, h.event)
            if h.event == "switchover" and h.began:
                every.append((h.at_ns, h.at_ns + h.outage_ns))
            elif h.event in _STOPS and h.began:
                number, since = open_.get(key, (0, h.at_ns))
                open_[key] = number + 1, since
            elif h.event in _STOPS and key in open_:
                number, since = open_.pop(key)
                if number > 1:
                    open_[key] = number - 1, since
                else:
                    every.append((since, h.at_ns))
        every += [(since, end_ns) for _, since in open_.values()]
        joined: list[Span] = []
        for begin, end in sorted((a, min(b, end_ns)) for a, b in every):
            if joined and begin <= joined[-1][1]:
                joined[-1] = joined[-1][0], max(joined[-1][1], end)
            else:
                joined.append((begin, end))
        return joined


def unservable(spans: list[Span], first_ns: int, interval_ns: int, deadline_ns: int, due: int) -> int:
    """How many of `due` requests nobody could have served: they were due within a span, and their callers had
    given up before it was over.
    """
    end_ns = first_ns + due * interval_ns
    total = 0
    for begin, end in spans:
        last = end - deadline_ns if end < end_ns else end_ns - 1
        before = (max(-(-(at - first_ns) // interval_ns), 0) for at in (last + 1, begin))
        up_to, since = before
        total += max(min(up_to, due) - since, 0)
    return total


def places_of(manifest: Manifest) -> frozenset[str] | None:
    """The places of a fabric that a recording's path goes through; None: it does not say."""
    tags = manifest.path.tags
    if PLACES in tags:
        return frozenset(tags[PLACES].split(","))
    if "simulated" not in manifest.extra:
        return None
    path = manifest.label.removesuffix(f"-{tags.get('policy', '')}")
    via = (manifest.path.via or "").split(", ")
    return frozenset(name for name in (path, manifest.path.start, manifest.path.to, *via) if name)


def truth_over(directory: Place, start_ns: int, end_ns: int) -> Truth | None:
    """The truth that covers this time and lies nearest above a recording; None: there is none."""
    if isinstance(directory, RemotePath):
        return None
    above = list(directory.absolute().parents)[:_ABOVE]
    for parent in above:
        for file in [parent / FILE, *sorted((parent / "truth").glob(f"*/{FILE}"))]:
            truth = read(file)
            covers = truth is not None and truth.began_ns <= start_ns
            if truth is not None and covers and (truth.ended_ns is None or truth.ended_ns >= end_ns):
                return truth
    return None


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
    try:
        for line in _lines(file):
            kind = line.get("kind")
            at_ns, place = parse_utc(str(line.get("at"))), str(line.get("place"))
            if kind == "truth.started":
                began = at_ns if began is None else began
            elif kind == "truth.ended":
                ended = at_ns
            elif kind == "flow.opened" and line.get("to") is not None:
                translating.add(place)
            elif kind in {"event.began", "event.ended"}:
                outage = _outage(line.get("parameters"))
                happened.append(Happened(at_ns, place, kind == "event.began", str(line.get("event")), outage))
    except (OSError, ValueError, OverflowError):
        return None
    return None if began is None else Truth(began, ended, tuple(happened), frozenset(translating))


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


def _outage(parameters: object) -> int:
    given = parameters if isinstance(parameters, dict) else {}
    outage = given.get("outage_ns", given.get("outage", 0))
    if isinstance(outage, str):
        parts = re.findall(r"([0-9.]+)(ns|us|µs|ms|s|m|h|d)", outage)
        return round(sum(float(number) * _UNITS[unit] for number, unit in parts))
    return outage if isinstance(outage, int) else 0
