"""Attempts to connect that failed or hang, grouped in rows, and the end of each time without a connection.
Attempts that failed in this host, before anything was sent, are kept apart from those that failed in the
network or at the target.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
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

    def ended(e: Event) -> int:
        """End of the time without a connection, as far as this attempt shows it."""
        begun = bisect_right(opened, _begun_ns(e))
        if begun < len(opened) and opened[begun] < e.at_ns:
            # This attempt failed although a later one had made a connection.
            return opened[begun]
        place = bisect_left(opened, e.at_ns)
        opened_ns = opened[place] if place < len(opened) else None
        # Attempts hang until a connection is made.
        each = recording.manifest.makes_connections and e.kind == "connection.refused"
        return _lasted_to(recording.manifest, e.at_ns, max(e.at_ns, over_ns), opened_ns, each=each)

    rows: list[list[tuple[int, Event]]] = []
    ends: list[int] = []
    for n, e in enumerate(recording.events):
        if e.kind not in TRIED:
            continue
        # Without a connection between them, attempts far apart are one row too: each would last to its end.
        if (
            rows
            and is_local(rows[-1][-1][1]) == is_local(e)
            and _begun_ns(e) <= max(rows[-1][-1][1].at_ns + AGAIN_NS, ends[-1])
        ):
            rows[-1].append((n, e))
            ends[-1] = max(ends[-1], ended(e))
        else:
            rows.append([(n, e)])
            ends.append(ended(e))
    return [_refusal(where, row, began(row[0][0]), end) for row, end in zip(rows, ends, strict=True)]


TRIED: Final = frozenset({"connection.refused", "connection.unanswered"})
"""Attempts that failed, and attempts that hang."""


def is_local(event: Event) -> bool:
    """True if an attempt failed in this host: it had no port, no descriptor, no address or no route."""
    return event.fields.get("local") is True


def _begun_ns(event: Event) -> int:
    """Start of the attempt if its event gives it, or else the time of its failure."""
    waited_ns = event.fields.get("waited_ns", 0)
    return event.at_ns - (waited_ns if isinstance(waited_ns, int) else 0)


OF_FILES: Final = frozenset(
    {"recording.started", "recording.ended", "recording.recovered", "segment.closed", "queries.closed"}
)
"""Events that tell nothing of the path: a recording ends when the last of its run's targets does."""


def _over_ns(recording: Recording) -> int:
    """When its schedule ended; where none began, the last that is told of the path."""
    ended = [e.at_ns for e in recording.events if e.kind == "schedule.ended"]
    told = [e.at_ns for e in recording.events if e.kind not in OF_FILES]
    return max(ended or told, default=recording.manifest.ended_ns or 0)


def _lasted_to(manifest: Manifest, last_ns: int, over_ns: int, opened_ns: int | None, *, each: bool) -> int:
    """Until when there was no connection, after an attempt that was the last of its row: until the next
    sample where `each` is an attempt that failed by itself, until one was opened, and to the end where none
    was any more.
    """
    if each:
        return min(last_ns + (manifest.interval_ns or 0), over_ns)
    return over_ns if opened_ns is None else opened_ns


def _refusal(where: Place, row: Sequence[tuple[int, Event]], began_ns: int | None, last: int) -> Finding:
    """`began_ns`: of the latest attempt that was made before the first of them failed."""
    failed = [e for _, e in row if e.kind == "connection.refused"]
    hanging = [e.fields["attempts"] for _, e in row if e.kind == "connection.unanswered"]
    errors = Counter(str(e.fields.get("error", e.fields.get("errno", "error not recorded"))) for e in failed)
    first = min(_begun_ns(e) for _, e in row)
    # The first attempt began when it was made, and not when it was known to have failed.
    if began_ns is not None and "waited_ns" not in row[0][1].fields and first - began_ns <= AGAIN_NS:
        first = began_ns
    facts = tuple(
        Fact("errors", {"times": number(n)}, {"error": error}, id=f"{where.recording}/events/{row[0][0]}")
        for error, n in errors.most_common(5)
    )
    quantities = {"attempts": number(len(failed))}
    if hanging:
        quantities["hanging"] = number(max(hanging))
    local = is_local(row[0][1])
    return Finding(
        "refused",
        (where,),
        first,
        last,
        "local" if local else None,
        "high",
        quantities=quantities,
        facts=facts,
    )
