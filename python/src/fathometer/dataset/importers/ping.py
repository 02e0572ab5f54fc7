"""ping of iputils, with or without ``-D``."""

from __future__ import annotations

import itertools
import re

import numpy as np

from fathometer.dataset.importers.base import File, Imported, Importer, Options, Series, label_of, ns

_REPLY = re.compile(
    r"^(?:\[(\d+\.\d+)\] )?(\d+) bytes from .*?icmp_seq=(\d+) .*?time=([\d.]+) (ms|us|s)(.*)$", re.MULTILINE
)
_HEAD = re.compile(r"^PING (\S+).*?\s(\d+)(?:\(\d+\))? (?:data )?bytes", re.MULTILINE)
_TOTAL = re.compile(r"^(\d+) packets transmitted, (\d+) received", re.MULTILINE)
_SEQS = 1 << 16


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
    sent_count = int(total[1]) if total else (max(rows) if rows else 0)
    first = min(1, *rows) if rows else 1
    every = range(first, max(sent_count + first - 1, max(rows, default=0)) + 1)
    notes = ["ICMP is not what TCP sees under accelerated networking"]
    if duplicates:
        notes.append(f"{duplicates} duplicate replies were left out")
    stamped = [(s, r[0]) for s, r in rows.items() if r[0] is not None]
    if stamped:
        interval = _interval(stamped)
        began = stamped[0][1] - stamped[0][0] * interval
    else:
        interval = 1_000_000_000
        notes.append("no stamps (ping -D gives them): one packet a second is assumed, its default")
        began = file.started_ns(options, interval * len(every), notes)
    lost = [s for s in every if s not in rows]
    if lost and stamped:
        notes.append(f"{len(lost)} packets came not back; when they were sent follows from their numbers")
    sent = [rows[s][0] if s in rows and rows[s][0] is not None else began + s * interval for s in every]
    head = _HEAD.search(file.text)
    series = Series(
        label_of(file, options), "icmp", int(head[2]) if head else options.size,
        np.array(sent, dtype=np.int64), np.array([rows[s][1] if s in rows else 0 for s in every],
        dtype=np.int64), np.array([s in rows for s in every], dtype=np.bool_), interval_ns=interval,
        reflector=head[1] if head else "", notes=tuple(notes),
    )  # fmt: skip
    return Imported("ping", file.path, (series,))


def _interval(stamped: list[tuple[int, int]]) -> int:
    pairs = itertools.pairwise(stamped)
    steps = [(t2 - t1) // (s2 - s1) for (s1, t1), (s2, t2) in pairs if s2 > s1]
    return int(np.median(steps)) if steps else 1_000_000_000


IMPORTER = Importer("ping", "the printed replies of ping, best with -D", _detect, _read)
