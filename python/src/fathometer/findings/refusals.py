"""Attempts to connect that failed, a row of them as one, and until when there was no connection."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from fathometer.dataset.model import Event, Manifest
from fathometer.dataset.recording import Recording
from fathometer.findings.finding import Fact, Finding, Place, number

AGAIN_NS: Final = 60_000_000_000
"""Attempts to connect that follow each other this closely are one row of attempts, as are those between which
there was no connection."""


def refusals(where: Place, recording: Recording) -> list[Finding]:
    """One a row of attempts."""
    openings = [(n, e.at_ns) for n, e in enumerate(recording.events) if e.kind == "connection.opening"]
    numbers, latest = [n for n, _ in openings], list(accumulate((at for _, at in openings), max))

    def began(before: int) -> int | None:
        place = bisect_left(numbers, before)
        return latest[place - 1] if place else None

    # Once: there may be as many rows as events.
    over_ns = _over_ns(recording)
    opened = sorted(e.at_ns for e in recording.events if e.kind == "connection.opened")

    def ended(last_ns: int) -> int:
        place = bisect_left(opened, last_ns)
        opened_ns = opened[place] if place < len(opened) else None
        return _lasted_to(recording.manifest, last_ns, max(last_ns, over_ns), opened_ns)

    rows: list[list[tuple[int, Event]]] = []
    for n, e in enumerate(recording.events):
        if e.kind != "connection.refused":
            continue
        # Without a connection between them, attempts far apart are one row too: each would last to its end.
        if rows and e.at_ns <= max((before := rows[-1][-1][1].at_ns) + AGAIN_NS, ended(before)):
            rows[-1].append((n, e))
        else:
            rows.append([(n, e)])
    return [_refusal(where, row, began(row[0][0]), ended(row[-1][1].at_ns)) for row in rows]


OF_FILES: Final = frozenset(
    {"recording.started", "recording.ended", "recording.recovered", "segment.closed", "queries.closed"}
)
"""Events that tell nothing of the path: a recording ends when the last of its run's targets does."""


def _over_ns(recording: Recording) -> int:
    """When its schedule ended; where none began, the last that is told of the path."""
    ended = [e.at_ns for e in recording.events if e.kind == "schedule.ended"]
    told = [e.at_ns for e in recording.events if e.kind not in OF_FILES]
    return max(ended or told, default=recording.manifest.ended_ns or 0)


def _lasted_to(manifest: Manifest, last_ns: int, over_ns: int, opened_ns: int | None) -> int:
    """Until when there was no connection, after an attempt that was the last of its row: until the next
    sample where each is a connection, until one was opened, and to the end where none was any more.
    """
    if manifest.makes_connections:
        return min(last_ns + (manifest.interval_ns or 0), over_ns)
    return over_ns if opened_ns is None else opened_ns


def _refusal(where: Place, row: Sequence[tuple[int, Event]], began_ns: int | None, last: int) -> Finding:
    """`began_ns`: of the latest attempt that was made before the first of them failed."""
    errors = Counter(str(e.fields.get("error", e.fields.get("errno", "error not recorded"))) for _, e in row)
    first = row[0][1].at_ns
    # The first attempt began when it was made, and not when it was known to have failed.
    if began_ns is not None and first - began_ns <= AGAIN_NS:
        first = began_ns
    facts = tuple(
        Fact("errors", {"times": number(n)}, {"error": error}, id=f"{where.recording}/events/{row[0][0]}")
        for error, n in errors.most_common(5)
    )
    return Finding("refused", (where,), first, last, quantities={"attempts": number(len(row))}, facts=facts)
