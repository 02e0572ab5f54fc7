"""What is worth a line while a study runs: entries of its journal and events of its recordings, in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from fathometer.clean import cleaned
from fathometer.counts import count
from fathometer.dataset.format import parse_utc
from fathometer.dataset.model import DECIDED, Event
from fathometer.dataset.reasons import LOSSES
from fathometer.study.outline import title_of

Weight = Literal["plain", "good", "warn", "bad"]
SHORT_PAUSE_NS: Final = 200_000_000
"""A pause below this is counted and not told: a busy machine has many a minute. It is the least that TCP
waits before it sends again (TCP_RTO_MIN, include/net/tcp.h of Linux); a shorter one makes it send nothing.
"""
_UNITS: Final = ((1, "ns"), (1_000, "µs"), (1_000_000, "ms"))
_MOST: Final = 400
"""Letters of a text: a reason may be a whole program's last words."""


@dataclass(frozen=True, slots=True)
class Happening:
    """One line."""

    at_ns: int
    """Ns since the Unix epoch, by the clock of the host that wrote it."""
    kind: str
    """The journal's or the event's."""
    directory: str | None
    """What is measured there (`Planned.directory`); None: the study itself."""
    run: str | None
    """The run's name, as in ``run=07``."""
    text: str
    weight: Weight

    @property
    def title(self) -> str:
        """Which scenario it is about, in words; empty: the study."""
        return title_of(self.directory) if self.directory else ""


def span(ns: float) -> str:
    """A duration or a round trip, three significant digits: ``1.23 ms``; ``2 min 5 s`` from a minute on."""
    s = int(ns // 1_000_000_000)
    if s >= 86_400:
        return f"{s // 86_400} d {s % 86_400 // 3600} h"
    if s >= 3600:
        return f"{s // 3600} h {s % 3600 // 60} min"
    if s >= 60:
        return f"{s // 60} min {s % 60} s"
    # The unit is chosen after rounding: 999,999 ns are 1.00 ms.
    value, unit = next(
        ((ns / scale, unit) for scale, unit in _UNITS if ns / scale < 999.5), (ns / 1_000_000_000, "s")
    )
    digits = 0 if value >= 99.95 or unit == "ns" else 1 if value >= 9.995 else 2
    return f"{value:.{digits}f} {unit}"


def of_event(directory: str, run: str, event: Event) -> Happening | None:
    """What an event of a recording says; None: nothing that a watcher wants to be told."""
    words = _EVENTS.get(event.kind)
    if words is None or not event.known:
        return None
    happening = words(event.fields)
    if happening is None:
        return None
    text, weight = happening
    return Happening(event.at_ns, event.kind, directory, run, _plain(text), weight)


def of_entry(entry: Mapping[str, Any]) -> Happening | None:
    """What an entry of the journal says."""
    words = _ENTRIES.get(str(entry.get("kind")))
    at_ns = at_of(entry)
    if words is None or at_ns is None:
        return None
    text, weight = words(entry)
    directory, _, run = str(entry["run"]).rpartition("/") if "run" in entry else (None, "", None)
    return Happening(at_ns, str(entry["kind"]), directory or None, run, _plain(text), weight)


def at_of(entry: Mapping[str, Any]) -> int | None:
    """When an entry was written, ns since the Unix epoch; None: it does not say."""
    try:
        return parse_utc(str(entry["at"]))
    except (KeyError, ValueError):
        return None


def _plain(text: str) -> str:
    """Without what moves a terminal's cursor, and of a line's length."""
    text = cleaned(text)
    return text if len(text) <= _MOST else text[: _MOST - 1] + "…"


_Told = tuple[str, Weight]
_Fields = Mapping[str, Any]


def _stalled(f: _Fields) -> _Told:
    return f"stall: {count(f['outstanding'], 'sample')} out, nothing comes back", "bad"


def _stall_ended(f: _Fields) -> _Told:
    if f["recovered"]:
        return f"stall over after {span(f['duration_ns'])}: it goes on", "good"
    return f"stall over after {span(f['duration_ns'])}: the connection ended", "bad"


def _closed(f: _Fields) -> _Told | None:
    if f["cause"] in {"finished", "refreshed"}:
        return None
    verdict = f", {f['verdict']}" if f.get("verdict") else ""
    return f"connection closed: {f['cause']}{verdict}, after {span(f['age_ns'])}", "bad"


def _explained(f: _Fields) -> _Told:
    return f"{f['about']} explained: {f['verdict']}", "plain"


def _pause(f: _Fields) -> _Told | None:
    if f["duration_ns"] < SHORT_PAUSE_NS:
        return None
    whose = "this host" if f["host"] == "local" else "the reflector's host"
    return f"pause: {whose} did not run for {span(f['duration_ns'])}", "warn"


def _maintenance(f: _Fields) -> _Told:
    whose = {"local": "", "remote": " of the reflector's host"}.get(
        f.get("host", "local"), " of other machines"
    )
    return f"maintenance{whose} {f['state']}: {f['what']}", "warn"


def _changed(f: _Fields) -> _Told:
    return f"{f.get('what', 'remote')} changed: {f['from']} to {f['to']}", "warn"


def _recording_ended(f: _Fields) -> _Told | None:
    return (f"the recording ended: {f['error']}", "bad") if "error" in f else None


def limit_found(limit: str, low_ns: int | None, high_ns: int | None) -> str:
    """What a search found: the ends of its bracket, as far as there are any."""
    if high_ns is None:
        return f"no {limit} limit up to {span(low_ns)}" if low_ns else f"no {limit} limit found"
    return f"{limit} limit " + (
        f"between {span(low_ns)} and {span(high_ns)}" if low_ns else f"below {span(high_ns)}"
    )


def ceiling_found(low: int | None, high: int | None) -> str:
    """What a search for the rate ceiling found, in packets a second."""
    if low is None:
        return "nothing is known of a rate ceiling"
    if high is None:
        return f"no rate ceiling up to {low:,}/s"
    return f"rate ceiling between {low:,}/s and {high:,}/s"


def _limit_ended(f: _Fields) -> _Told:
    result = f["result"]
    if result.get("limit") == "rate":
        rates = (result.get(name) for name in ("good", "bad"))
        low, high = (end.get("rate_per_s") if isinstance(end, dict) else None for end in rates)
        if not all(end is None or isinstance(end, int) for end in (low, high)):
            return "the search has ended", "plain"
        return _search_ended(ceiling_found(low, high), result)
    ends = (result.get("survived"), result.get("died"))
    low, high = (end.get("idle_ns", end.get("age_ns")) if isinstance(end, dict) else None for end in ends)
    if not all(end is None or isinstance(end, int) for end in (low, high)):
        return "the search has ended", "plain"
    found = limit_found(str(result.get("limit")), low, high)
    return _search_ended(found, result)


def _search_ended(found: str, result: _Fields) -> _Told:
    if result.get("verdict") in DECIDED:
        return found, "good"
    return f"{found}, and that is not sure ({result.get('verdict')})", "warn"


_MEANWHILE: Final = {
    "all_died": "connections in use died too: it begins anew",
    "outage": "nothing was answered for a while",
    "host_paused": "this host did not run for a while",
    "not_repeated": "too few connections were in reserve to try the longer end again",
    "died_together": "connections of all ages died together: no limit, others begin",
}
"""What is no limit (docs/limits.md, `meanwhile`)."""


def _limit_happened(f: _Fields) -> _Told | None:
    # An object with one name.
    words = [_MEANWHILE[name] for name in f["what"] if name in _MEANWHILE]
    return (f"search: {words[0]}", "warn") if words else None


_EVENTS: Final[Mapping[str, Callable[[_Fields], _Told | None]]] = {
    "recording.ended": _recording_ended,
    "connection.refused": lambda f: (f"connection refused: {f['error']}", "bad"),
    "connection.closed": _closed,
    "stall.began": _stalled,
    "stall.ended": _stall_ended,
    "connection.explained": _explained,
    "pause": _pause,
    "clock.stepped": lambda f: (f"the wall clock was set by {span(abs(f['step_ns']))}", "warn"),
    "maintenance": _maintenance,
    "address.changed": _changed,
    "schedule.overrun": lambda f: (f"{count(f['skipped'], 'sample')} skipped: {f['reason']}", "warn"),
    "echo.corrupted": lambda f: (f"{count(f['count'], 'echo')} corrupted", "bad"),
    "recording.overflowed": lambda f: (f"{count(f['lost'], 'sample')} lost by the recorder{_lost(f)}", "bad"),
    "limits.happened": _limit_happened,
    "limits.ended": _limit_ended,
    "note": lambda f: (str(f["text"]), "plain"),
}


def _lost(f: _Fields) -> str:
    """Why; older recordings do not say."""
    reason = f.get("reason", "")
    return f": {LOSSES.get(reason, reason)}" if reason else ""


def _finished(f: _Fields) -> _Told:
    if f.get("samples") is None:
        return "finished", "good"
    words = f"finished: {f.get('answered')} of {f['samples']} answered"
    return words, "good" if f.get("answered") == f["samples"] else "warn"


def _runs(f: _Fields) -> str:
    runs = f.get("runs")
    return count(runs, "run") if isinstance(runs, int) else "its runs"


_ENTRIES: Final[Mapping[str, Callable[[_Fields], _Told]]] = {
    "study.started": lambda f: (f"study {f.get('study')} begins: {_runs(f)}", "plain"),
    "study.resumed": lambda _: ("study goes on", "plain"),
    "run.started": lambda _: ("begins", "plain"),
    "run.finished": _finished,
    "run.failed": lambda f: (f"failed: {f.get('reason')}", "bad"),
    "ssh.lost": lambda f: (f"host {f.get('host')} is not reached; what runs there goes on", "warn"),
    "ssh.back": lambda f: (f"host {f.get('host')} is reached again", "good"),
    "study.interrupted": lambda f: (str(f.get("reason")), "bad"),
    "study.ended": lambda f: (f"finished: {_runs(f)}", "good"),
    "study.stopped": lambda _: ("study stopped", "bad"),
}
