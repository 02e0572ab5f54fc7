"""ping of iputils, with or without ``-D``."""

from __future__ import annotations

import itertools
import re

import numpy as np

from fathometer import counts
from fathometer.dataset.importers.base import File, Imported, Importer, Options, Series, label_of, ns

# Where words follow that may be many, so many letters: a line must not be looked at again from each of them.
_REPLY = re.compile(
    r"^(?:\[(\d+\.\d+)\] )?(\d+) bytes from .{0,300}?icmp_seq=(\d{1,10}) "
    r".{0,100}?time=([\d.]{1,20}) (ms|us|s)\b(.*)$",
    re.MULTILINE,
)
_HEAD = re.compile(r"^PING (\S{1,255}).{0,300}?\s(\d{1,9})(?:\(\d{1,9}\))? (?:data )?bytes", re.MULTILINE)
_TOTAL = re.compile(r"^(\d+) packets transmitted, (\d+) received", re.MULTILINE)
_SEQS = 1 << 16
_LOST = 1 << 18
"""Packets without a line that get a row, three days of them at one a second; more, where there are as many
replies."""


def _detect(file: File) -> bool:
    return bool(re.search(r"^PING \S+", file.head, re.MULTILINE) or _REPLY.search(file.head))


def _read(file: File, options: Options) -> Imported:
    rows: dict[int, tuple[int | None, int]] = {}
    duplicates, last, turns = 0, 0, 0
    for stamp, _, seq_text, value, unit, more in _REPLY.findall(file.text):
        if "DUP!" in more:
            duplicates += 1
            continue
        seq = int(seq_text)
        if seq < last - _SEQS // 2:  # The counter has 16 bits.
            turns += 1
        last = seq
        rtt = ns(value, unit)
        # The stamp is that of the answer.
        rows.setdefault(seq + turns * _SEQS, (ns(stamp, "s") - rtt if stamp else None, rtt))
    total = _TOTAL.search(file.text)
    if not rows and total is None:
        raise file.bad("ping's output without a reply and without its last lines")
    first = min(1, *rows) if rows else 1
    count = max(max(rows, default=0) + 1 - first, int(total[1]) if total else 0)
    # Their numbers are the file's: memory must not go by them.
    if count > len(rows) + max(_LOST, len(rows)):
        raise file.bad(
            f"its numbers tell of {counts.count(count, 'packet')}, and it holds the replies to {len(rows):,}",
            "check that its lines are of one run of ping",
        )
    notes = ["ICMP is not what TCP sees under accelerated networking"]
    if duplicates:
        notes.append(f"left out: {counts.count(duplicates, 'duplicate reply', 'duplicate replies')}")
    stamped = [(s, r[0]) for s, r in rows.items() if r[0] is not None]
    if stamped:
        interval = _interval(stamped)
        began = stamped[0][1] - stamped[0][0] * interval
    else:
        interval = 1_000_000_000
        notes.append("no stamps (ping -D gives them): one packet a second is assumed, its default")
        began = file.started_ns(options, interval * count, notes)
    lost = count - len(rows)
    if lost and stamped:
        notes.append(
            f"no reply to {counts.count(lost, 'packet')}; when they were sent follows from their numbers"
        )
    sent = np.array([began], dtype=np.int64) + (first + np.arange(count, dtype=np.int64)) * interval
    trips = np.zeros(count, dtype=np.int64)
    answered = np.zeros(count, dtype=np.bool_)
    for seq, (at_ns, rtt_ns) in rows.items():
        place = seq - first
        trips[place], answered[place] = rtt_ns, True
        if at_ns is not None:
            sent[place] = at_ns
    head = _HEAD.search(file.text)
    series = Series(
        label_of(file, options),
        "icmp",
        int(head[2]) if head else options.size,
        sent,
        trips,
        answered,
        interval_ns=interval if interval > 0 else None,
        reflector=head[1] if head else "",
        notes=tuple(notes),
    )
    return Imported("ping", file.path, (series,))


def _interval(stamped: list[tuple[int, int]]) -> int:
    pairs = itertools.pairwise(stamped)
    steps = [(t2 - t1) // (s2 - s1) for (s1, t1), (s2, t2) in pairs if s2 > s1]
    return int(np.median(steps)) if steps else 1_000_000_000


IMPORTER = Importer("ping", "the printed replies of ping, best with -D", _detect, _read)
