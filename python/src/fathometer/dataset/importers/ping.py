"""ping of iputils, the BSDs, macOS and busybox, with or without ``-D``; `windows_ping` reads Windows'."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from fathometer import counts
from fathometer.dataset.importers import windows_ping
from fathometer.dataset.importers.base import (
    NO_SAMPLES,
    File,
    Imported,
    Importer,
    Options,
    Series,
    Summary,
    label_of,
    ns,
)  # fmt: skip
from fathometer.dataset.importers.runs import begins
from fathometer.dataset.importers.totals import totals

# Where words follow that may be many, so many letters: a line must not be looked at again from each of them.
_REPLY: Final = re.compile(
    r"^(?:\[(\d{1,19}\.\d{1,9})\] )?\d+ bytes from .{0,300}?\b(?:icmp_)?seq=(\d{1,10}) "
    r".{0,100}?time=([\d.]{1,20}) ?(ms|us|s)\b(.*)$",
    re.MULTILINE,
)
_ANY_REPLY: Final = re.compile(r"(?:\[[\d.]{1,30}\] )?\d+ bytes from .{0,300}?\b(?:icmp_)?seq=\d")
_TRANSLATED: Final = re.compile(r"seq=\d{1,10} .{0,100}?=[\d.,]{1,20} ?ms\b")
"""A reply in another language than English."""
_SENT: Final = re.compile(r"\b(?:icmp_seq[= ]|seq=)(\d{1,10})")
"""A packet without a reply on a line of its own: a time-out, a missing answer, or an error."""
_RUN: Final = re.compile(r"^PING6?[ (]", re.MULTILINE)
_HEAD: Final = re.compile(r"PING (\S{1,255}).{0,300}?\s(\d{1,9})(\(\d{1,9}\))? (?:data )?bytes")
_TOTAL: Final = re.compile(r"(\d{1,19}) packets transmitted, (\d{1,19}) (packets )?received")
_FIGURES: Final = re.compile(
    r"(?:rtt|round-trip) min/avg/max(?:/(?:mdev|stddev|std-dev))? = "
    r"([\d.]{1,20})/([\d.]{1,20})/([\d.]{1,20})(?:/([\d.]{1,20}))? ms"
)
_SEQS: Final = 1 << 16
_LATE: Final = 1 << 12
"""Packets by which a reply may be overtaken; a number farther back means that the counter wrapped."""
_LOST: Final = 1 << 18
"""Packets without a line that get a row, three days of them at one a second; more, where there are as many
replies."""
_SECOND_NS: Final = 1_000_000_000
"""Interval between packets without stamps: ping's default."""
_NOTE: Final = "ICMP is not what TCP sees under accelerated networking"


@dataclass(slots=True)
class _Run:
    """The printed output of one run of ping."""

    target: str | None = None
    size: int | None = None
    first: int | None = None
    """Number of the first packet; None: the beginning is missing."""
    replies: dict[int, tuple[int | None, int]] = field(default_factory=dict)
    """Time of sending (the reply's stamp less the round trip) and round trip, by packet number."""
    lowest: int = -1
    last: int = -1
    """The lowest and the highest number on a line, with wraps of the counter added; -1 if there is none."""
    duplicates: int = 0
    sent: int | None = None
    received: int | None = None
    figures: re.Match[str] | None = None

    def number(self, printed: int) -> int:
        """The packet's number within the run, from its 16-bit counter."""
        ahead = (printed - self.last) % _SEQS if printed < _SEQS else printed - self.last
        whole = self.last + (ahead if ahead < _SEQS - _LATE or printed >= _SEQS else ahead - _SEQS)
        if whole < 0:  # The first line was overtaken.
            whole = printed
        self.last = max(self.last, whole)
        self.lowest = whole if self.lowest < 0 else min(self.lowest, whole)
        return whole

    @property
    def quiet(self) -> bool:
        """True if it printed only its figures (``-q``)."""
        return not self.replies and bool(self.received) and self.figures is not None


def _detect(file: File) -> bool:
    return bool(_RUN.search(file.head) or _REPLY.search(file.head)) or windows_ping.detect(file)


def _read(file: File, options: Options) -> Imported:
    if windows_ping.detect(file) and not _RUN.search(file.head):
        return windows_ping.read(file, options)
    runs = _runs(file)
    if not runs:
        raise file.bad(
            "ping's output without a reply and without its last lines",
            "check that it is the tool's whole output, in English (LC_ALL=C)",
        )
    targets = {run.target for run in runs}
    notes: list[str] = []
    spans = [0 if run.quiet or _stamped(run) else _count(run, file) * _SECOND_NS for run in runs]
    starts = begins(file, options, spans, notes) if any(spans) else spans
    series, summaries = [], []
    for run, began in zip(runs, starts, strict=True):
        label = label_of(file, options, run.target or "" if len(targets) > 1 else "")
        if run.quiet:
            summaries.append(_summary(run, label, options))
        else:
            series.append(_series(run, label, options, began, notes, file))
    return Imported("ping", file.path, tuple(series), tuple(summaries))


def _runs(file: File) -> list[_Run]:
    """The runs of a file. Each begins with its heading; the first may lack it."""
    runs: list[_Run] = []
    lines = file.text.split("\n")
    for number, line in enumerate(lines, 1):
        if _RUN.match(line):
            runs.append(_Run())
            head = _HEAD.match(line)
            # iputils, which also prints the size with headers, counts from 1; all others count from 0.
            runs[-1].first = 1 if head is None or head[3] else 0
            if head:
                runs[-1].target, runs[-1].size = head[1].rstrip(":"), int(head[2])
            continue
        reply, total, figures = _REPLY.match(line), _TOTAL.match(line), _FIGURES.match(line)
        # The last line of a truncated file may be the beginning of a reply.
        unanswered = _SENT.search(line) if not reply and number < len(lines) else None
        if not (reply or total or figures or unanswered):
            continue
        if not runs:
            runs.append(_Run())
        run = runs[-1]
        if reply:
            _reply(run, reply)
        elif total:
            run.sent, run.received = int(total[1]), int(total[2])
            if run.first is None:
                run.first = 0 if total[3] else 1
        elif figures:
            run.figures = figures
        elif unanswered:
            if _TRANSLATED.search(line):
                raise file.bad(f"line {number} is a reply in another language", "call ping with LC_ALL=C")
            if _ANY_REPLY.match(line):
                raise file.bad(f"line {number} is a reply without a time", "ping with 16 bytes or more")
            run.number(int(unanswered[1]))
    return [r for r in runs if r.last >= 0 or r.sent is not None]


def _reply(run: _Run, reply: re.Match[str]) -> None:
    stamp, number, value, unit, more = reply.groups()
    if "DUP!" in more:
        run.duplicates += 1
        return
    rtt = ns(value, unit)
    # The stamp is the time of the answer.
    run.replies.setdefault(run.number(int(number)), (ns(stamp, "s") - rtt if stamp else None, rtt))


def _stamped(run: _Run) -> bool:
    return any(at is not None for at, _ in run.replies.values())


def _first(run: _Run) -> int:
    if run.first is None:
        return run.lowest
    return run.first if run.lowest < 0 else min(run.first, run.lowest)


def _count(run: _Run, file: File) -> int:
    """Minimum number of packets sent."""
    count = max(run.last + 1 - _first(run), run.sent or 0)
    # Their numbers are the file's: memory must not go by them.
    if count > len(run.replies) + max(_LOST, len(run.replies)):
        raise file.bad(
            f"its numbers tell of {counts.count(count, 'packet')}, and it holds the replies to "
            f"{len(run.replies):,}",
            "check that its lines are of one run of ping",
        )
    return count


def _summary(run: _Run, label: str, options: Options) -> Summary:
    """What `ping -q` prints."""
    assert run.figures is not None
    names = ("min", "mean", "max", "stddev")
    figures = {n: ns(v, "ms") for n, v in zip(names, run.figures.groups(), strict=True) if v is not None}
    return Summary(
        label, "icmp", run.size or options.size, run.received, figures,
        cannot=NO_SAMPLES,
        notes=(_NOTE, f"{run.received} of {counts.count(run.sent or 0, 'packet')} were answered"),
    )  # fmt: skip


def _series(run: _Run, label: str, options: Options, began: int, shared: list[str], file: File) -> Series:
    first, count = _first(run), _count(run, file)
    notes = [_NOTE]
    if run.duplicates:
        notes.append(f"left out: {counts.count(run.duplicates, 'duplicate reply', 'duplicate replies')}")
    stamped = [(s, r[0]) for s, r in run.replies.items() if r[0] is not None]
    lost = count - len(run.replies)
    if stamped:
        interval = _interval(stamped)
        began = stamped[0][1] - (stamped[0][0] - first) * interval
        if lost:
            notes.append(
                f"no reply to {counts.count(lost, 'packet')}; when they were sent follows from their numbers"
            )
    else:
        interval = _SECOND_NS
        notes.append("no stamps (ping -D gives them): one packet a second is assumed, its default")
        notes += shared
    if run.sent is None:
        notes.append("its last lines are missing: packets after the last one that it names are not known")
    sent = np.array([began], dtype=np.int64) + np.arange(count, dtype=np.int64) * interval
    trips = np.zeros(count, dtype=np.int64)
    answered = np.zeros(count, dtype=np.bool_)
    for number, (at_ns, rtt_ns) in run.replies.items():
        place = number - first
        trips[place], answered[place] = rtt_ns, True
        if at_ns is not None:
            sent[place] = at_ns
    return Series(
        label,
        "icmp",
        run.size or options.size,
        sent,
        trips,
        answered,
        interval_ns=interval if interval > 0 else None,
        reflector=run.target or "",
        notes=tuple(notes),
        totals=totals(
            ("packets sent", run.sent, count), ("packets answered", run.received, len(run.replies))
        ),
    )


def _interval(stamped: list[tuple[int, int]]) -> int:
    pairs = itertools.pairwise(stamped)
    steps = [(t2 - t1) // (s2 - s1) for (s1, t1), (s2, t2) in pairs if s2 > s1]
    return int(np.median(steps)) if steps else _SECOND_NS


IMPORTER = Importer("ping", "the printed replies of ping, best with -D; also of Windows", _detect, _read)
