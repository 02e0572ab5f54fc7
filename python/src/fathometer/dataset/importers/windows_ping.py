"""Windows' ping in any language. Lines are recognised by their shape, because only TTL is never
translated.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from fathometer.counts import count
from fathometer.dataset.importers.base import File, Imported, Options, Series, label_of
from fathometer.dataset.importers.runs import begins
from fathometer.dataset.importers.totals import totals

_TOTAL: Final = re.compile(
    r"^[ \t]+[^\n:=]{1,40}: ?[^\n=,]{1,40}= (\d{1,9}), [^\n=,]{1,40}= (\d{1,9}), [^\n=,]{1,40}= (\d{1,9})\b",
    re.MULTILINE,
)
"""``Packets: Sent = 4, Received = 4, Lost = 0``. PsPing's line has no word before a colon."""
_REPLY: Final = re.compile(r"^\S.{0,200}?[=<](\d{1,7}) ?ms(?: TTL=\d{1,3})?[ \t]*$", re.MULTILINE)
_WITH_TTL: Final = re.compile(r"^\S.{0,200}?[=<]\d{1,7} ?ms TTL=\d{1,3}[ \t]*$", re.MULTILINE)
_HEAD: Final = re.compile(r"^.{0,60}\bping.{0,300}?\s(\d{1,5}) .{1,60}:[ \t]*$", re.IGNORECASE | re.MULTILINE)
_TARGET: Final = re.compile(
    r"\[([0-9A-Fa-f.:%]{2,60})\]|\b(\d{1,3}(?:\.\d{1,3}){3})\b|\s([0-9A-Fa-f]*:[0-9A-Fa-f:]+)\s"
)
_FROM: Final = re.compile(r"(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9A-Fa-f]*:[0-9A-Fa-f:]*[0-9A-Fa-f]) ?: ")
"""A line that names a host: this host received an error."""
_SECOND_NS: Final = 1_000_000_000
_MS_NS: Final = 1_000_000


@dataclass(slots=True)
class _Run:
    target: str
    size: int
    rtt_ms: list[int | None] = field(default_factory=list)
    """Round trip of each packet; None: no reply. -1: less than 1."""
    errors: int = 0
    """Packets that a host on the way refused; Windows counts them as received."""
    total: re.Match[str] | None = None


def detect(file: File) -> bool:
    """True for Windows' output, and not for PsPing's with the same heading."""
    return bool(_WITH_TTL.search(file.head) or (_HEAD.search(file.head) and _TOTAL.search(file.head)))


def read(file: File, options: Options) -> Imported:
    """The runs of a file, each as a series."""
    runs = _runs(file)
    if not runs:
        raise file.bad("Windows' ping without its heading")
    notes: list[str] = []
    starts = begins(file, options, [len(r.rtt_ms) * _SECOND_NS for r in runs], notes)
    several = len({r.target for r in runs}) > 1
    series = [
        _series(run, label_of(file, options, run.target if several else ""), began, tuple(notes))
        for run, began in zip(runs, starts, strict=True)
    ]
    return Imported("ping", file.path, tuple(series))


def _runs(file: File) -> list[_Run]:
    """Each line between a heading and the totals is a packet; lines that end in a colon are headings."""
    runs: list[_Run] = []
    for number, line in enumerate(lines := file.text.split("\n"), 1):
        total = _TOTAL.match(line)
        head = None if total else _HEAD.match(line)
        if head:
            target = _TARGET.search(line)
            runs.append(_Run(next((g for g in target.groups() if g), "") if target else "", int(head[1])))
            continue
        reply = _REPLY.match(line)
        if not runs or (runs[-1].total and not total):
            if reply:
                raise file.bad(f"line {number} is a reply outside of a run (from a heading to its totals)")
            continue
        run = runs[-1]
        if total:
            run.total = total
        elif reply:
            run.rtt_ms.append(-1 if "<" in line else int(reply[1]))
        # The last line of a truncated file may be the beginning of a reply.
        elif line.strip() and not line.rstrip().endswith(":") and number < len(lines):
            run.rtt_ms.append(None)
            run.errors += _FROM.search(line) is not None
    return runs


def _series(run: _Run, label: str, began: int, shared: tuple[str, ...]) -> Series:
    answered = np.array([ms is not None for ms in run.rtt_ms], dtype=np.bool_)
    trips = [0 if ms is None else _MS_NS // 2 if ms < 0 else ms * _MS_NS for ms in run.rtt_ms]
    notes = [
        "ICMP is not what TCP sees under accelerated networking",
        "Windows prints whole milliseconds: a resolution of 1 ms",
        *shared,
        "Windows' ping prints no times: one packet a second is assumed, its default",
    ]
    if any(ms is not None and ms < 0 for ms in run.rtt_ms):
        notes.append("'<1ms' is taken as 0.5 ms")
    if run.errors:
        packets = count(run.errors, "packet")
        notes.append(
            f"a host on the way refused {packets}; Windows counts them as received, here they are not"
        )
    if run.total is None:
        notes.append("its last lines are missing: packets after the last line are not known")
    sent, received, lost = (int(n) for n in run.total.groups()) if run.total else (None, None, None)
    replies = int(answered.sum())
    return Series(
        label,
        "icmp",
        run.size,
        np.array([began], dtype=np.int64) + np.arange(answered.size, dtype=np.int64) * _SECOND_NS,
        np.array(trips, dtype=np.int64),
        answered,
        interval_ns=_SECOND_NS,
        reflector=run.target,
        notes=tuple(notes),
        totals=totals(
            ("packets sent", sent, answered.size),
            ("packets received", received, replies + run.errors),
            ("packets lost", lost, answered.size - replies - run.errors),
        ),
    )
