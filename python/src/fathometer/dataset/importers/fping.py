"""fping 4 and 5: the lines of ``-c`` and ``-l``, best with ``-D``, and the lists of ``-C``."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from fathometer.counts import count
from fathometer.dataset.importers.base import File, Imported, Importer, Options, Series, label_of, ns
from fathometer.dataset.importers.runs import begins
from fathometer.dataset.importers.totals import totals

_STAMP: Final = r"^(?:\[(\d{1,19}\.\d{1,9})\] )?(\S{1,255})\s+: "
_REPLY: Final = re.compile(
    _STAMP + r"\[(\d{1,9})\], (?:(\d{1,9}) bytes, ([\d.]{1,20}) ms|timed out)\b", re.MULTILINE
)
_DUPLICATE: Final = re.compile(_STAMP + r"duplicate for \[\d{1,9}\]", re.MULTILINE)
_LIST: Final = re.compile(_STAMP + r"((?:[\d.]{1,20}|-)(?: (?:[\d.]{1,20}|-))*)$", re.MULTILINE)
_TOTAL: Final = re.compile(_STAMP + r"xmt/rcv/%loss = (\d{1,9})/(\d{1,9})/", re.MULTILINE)
_ICMP_HEADER: Final = 8
"""Bytes of a reply that are no payload."""
_INTERVAL_NS: Final = 1_000_000_000
"""fping's default between two packets to one host."""
_MOST: Final = 10_000_000
"""Packets to one host: 115 days of one a second."""
_NOTE: Final = "ICMP is not what TCP sees under accelerated networking"


@dataclass(slots=True)
class _Host:
    """The lines about one host."""

    replies: dict[int, int] = field(default_factory=dict)
    """Round trips by packet number, in ns."""
    sent_ns: dict[int, int] = field(default_factory=dict)
    """The stamp of each reply, less its round trip."""
    first: int = _MOST
    last: int = -1
    """The lowest and the highest packet number that a line names."""
    named: set[int] = field(default_factory=set)
    """The numbers of the packets that have a line."""
    is_list: bool = False
    size: int | None = None
    duplicates: int = 0
    sent: int | None = None
    received: int | None = None


def _detect(file: File) -> bool:
    return any(line.search(file.head) for line in (_REPLY, _DUPLICATE, _TOTAL))


def _read(file: File, options: Options) -> Imported:
    runs = _runs(file)
    if not runs:
        raise file.bad("fping's output without the line of a packet")
    several = len({name for run in runs for name in run}) > 1
    notes: list[str] = []
    spans = [
        0 if _is_stamped(run) else max(host.last + 1 for host in run.values()) * _INTERVAL_NS for run in runs
    ]
    starts = begins(file, options, spans, notes) if any(spans) else spans
    series = [
        _series(host, label_of(file, options, name if several else ""), name, options, began, notes)
        for run, began in zip(runs, starts, strict=True)
        for name, host in run.items()
    ]
    return Imported("fping", file.path, tuple(series))


def _is_stamped(run: dict[str, _Host]) -> bool:
    return any(host.sent_ns for host in run.values())


def _runs(file: File) -> list[dict[str, _Host]]:
    """The hosts of each run. A packet that has a line already belongs to the next run."""
    runs: list[dict[str, _Host]] = []
    for line in file.text.split("\n"):
        if reply := _REPLY.match(line):
            name, number = reply[2], int(reply[3])
            if number >= _MOST:
                raise file.bad(f"packet {number:,} of {name} is beyond the {_MOST:,} that are read")
            if not runs or (name in runs[-1] and number in runs[-1][name].named):
                runs.append({})
            _reply(runs[-1].setdefault(name, _Host()), number, reply)
        elif total := _TOTAL.match(line):
            if not runs or total[2] not in runs[-1]:
                what = f"it has totals of {total[2]} and no packets"
                raise file.bad(what, "call fping with -c or -C, without -q")
            host = runs[-1][total[2]]
            host.sent, host.received = int(total[3]), int(total[4])
        elif duplicate := _DUPLICATE.match(line):
            runs = runs or [{}]
            runs[-1].setdefault(duplicate[2], _Host()).duplicates += 1
        elif trips := _LIST.match(line):
            if not runs or (trips[2] in runs[-1] and runs[-1][trips[2]].is_list):
                runs.append({})
            _list(runs[-1].setdefault(trips[2], _Host()), trips[3].split())
    return [hosts for run in runs if (hosts := {name: host for name, host in run.items() if host.last >= 0})]


def _reply(host: _Host, number: int, reply: re.Match[str]) -> None:
    stamp, size, rtt = reply[1], reply[4], reply[5]
    host.named.add(number)
    host.first, host.last = min(host.first, number), max(host.last, number)
    if rtt:
        host.replies[number] = ns(rtt, "ms")
        host.size = max(int(size) - _ICMP_HEADER, 0)
        if stamp:
            host.sent_ns[number] = ns(stamp, "s") - host.replies[number]


def _list(host: _Host, trips: list[str]) -> None:
    """The round trips that `-C` prints at its end. After lines they are the same ones again."""
    host.is_list = True
    if host.last < 0:
        host.replies = {n: ns(value, "ms") for n, value in enumerate(trips) if value != "-"}
        host.first, host.last = 0, len(trips) - 1


def _series(host: _Host, label: str, name: str, options: Options, began: int, shared: list[str]) -> Series:
    # Before version 5 fping prints no line for a packet without a reply; its totals count it. Without totals
    # the beginning may be cut off.
    first = host.first if host.sent is None else 0
    number = min(max(host.last + 1, host.sent or 0), _MOST) - first
    notes = [_NOTE, *shared]
    if host.duplicates:
        notes.append(f"left out: {count(host.duplicates, 'duplicate reply', 'duplicate replies')}")
    interval = _interval(host)
    if host.sent_ns:
        place, stamp = next(iter(host.sent_ns.items()))
        began = stamp - (place - first) * interval
    else:
        notes.append("no stamps (fping -D gives them): one packet a second is assumed, its default")
    sent = np.array([began], dtype=np.int64) + np.arange(number, dtype=np.int64) * interval
    trips = np.zeros(number, dtype=np.int64)
    answered = np.zeros(number, dtype=np.bool_)
    for place, rtt in host.replies.items():
        row = place - first
        trips[row], answered[row] = rtt, True
        sent[row] = host.sent_ns.get(place, sent[row])
    return Series(
        label,
        "icmp",
        host.size if host.size is not None else options.size,
        sent,
        trips,
        answered,
        interval_ns=interval,
        reflector=name,
        notes=tuple(notes),
        totals=totals(("packets sent", host.sent, number), ("replies", host.received, len(host.replies))),
    )


def _interval(host: _Host) -> int:
    pairs = itertools.pairwise(sorted(host.sent_ns.items()))
    steps = [(later - sooner) // (b - a) for (a, sooner), (b, later) in pairs]
    return max(int(np.median(steps)), 1) if steps else _INTERVAL_NS


IMPORTER = Importer("fping", "the lines of fping -c or -l, best with -D, and the lists of -C", _detect, _read)
