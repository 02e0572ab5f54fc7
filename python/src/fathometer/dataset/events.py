"""Reading ``events.jsonl``, and what its lines amount to: connections, stalls, pauses, maintenance."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

import fastjsonschema

from fathometer.dataset.format import EVENTS, event_validator, parse_utc
from fathometer.dataset.model import (
    Connection,
    Damage,
    Delay,
    Event,
    Explanation,
    Maintenance,
    Pause,
    Stall,
)
from fathometer.dataset.places import Place, lines_of, size_of
from fathometer.dataset.reasons import RECOVERED_LOSSES
from fathometer.errors import FathometerError
from fathometer.reading import NO_FILE, NotAFileError, parsed

MAX_LINE: Final = 1 << 20
"""No line is longer: who writes one splits what a seam carries, and refuses the rest."""
_PART: Final = "recording.carries"


class PartsMissingError(ValueError):
    """Lines with what an event carries are not there."""


class Parts:
    """Joins what a run carries over a seam: it stands in lines before the event where one line would be too
    long. Given every event in the order of the lines.
    """

    def __init__(self) -> None:
        self._parts: list[Event] = []

    def take(self, event: Event) -> Event | None:
        """The event with what its parts carry; None: it is a part. What a kill left of earlier parts is
        dropped with the next first one. Raises `PartsMissingError`.
        """
        if event.kind == _PART:
            number = event.fields.get("part")
            if number == 1:
                self._parts = []
            if number == len(self._parts) + 1:
                self._parts.append(event)
            return None
        parts = event.fields.get("parts")
        if event.kind not in {"recording.rotated", "recording.continues"} or parts is None:
            return event
        read, self._parts = self._parts, []
        known = event.known and all(part.known for part in read)
        if not known:
            return replace(event, known=False)
        if len(read) != parts:
            raise PartsMissingError
        lists = {
            name: [one for part in (*read, event) for one in part.fields.get(name, ())]
            for name in ("connections", "outages")
        }
        return replace(event, fields={**event.fields, **lists})


def read_events(directory: Place) -> tuple[tuple[Event, ...], tuple[Damage, ...]]:
    """Every event that can be read, in the order of writing, and what cannot; no file is no events."""
    # No event refers to itself: searching a million for cycles takes a fifth of the time.
    collects = gc.isenabled()
    gc.disable()
    try:
        return _read_events(directory)
    finally:
        if collects:
            gc.enable()


def _read_events(directory: Place) -> tuple[tuple[Event, ...], tuple[Damage, ...]]:
    path = directory / EVENTS
    events: list[Event] = []
    damage: list[Damage] = []
    parts = Parts()
    try:
        with lines_of(path) as file:
            # What is there now: a probe may be writing, and its next line may be half there.
            length = size_of(path)
            at = 0
            while at < length:
                line = file.readline(min(MAX_LINE, length - at))
                if not line.endswith(b"\n"):
                    torn = len(line) < MAX_LINE
                    reason = "the last event is cut off" if torn else "a line is longer than any event"
                    damage.append(Damage(EVENTS, at, length - at, torn, reason))
                    break
                event = event_of(line)
                if event is None:
                    damage.append(Damage(EVENTS, at, len(line), False, "a line is no event"))
                else:
                    try:
                        whole = parts.take(event)
                        events.extend(() if whole is None else (whole,))
                    except PartsMissingError:
                        reason = "lines before it with what it carries are missing"
                        damage.append(Damage(EVENTS, at, len(line), False, reason))
                at += len(line)
    except FileNotFoundError:
        pass  # Interrupted before its first event.
    except NotAFileError:
        damage.append(Damage(EVENTS, 0, 0, False, NO_FILE))
    except OSError as error:
        raise FathometerError(
            "read events", f"{path}: {error.strerror or error}", "check the path and its permissions"
        ) from None
    return tuple(events), tuple(damage)


def event_of(line: bytes) -> Event | None:
    """The event that one line tells; None where it is no event."""
    try:
        value: Any = parsed(line)
        at_ns = parse_utc(value["at"])
        if not -(1 << 63) <= at_ns < 1 << 63:
            return None
        kind = value["kind"]
    except (ValueError, KeyError, TypeError, OverflowError):
        return None
    if not isinstance(kind, str):
        return None
    try:
        event_validator(kind)(value)
        known = True
    except fastjsonschema.JsonSchemaValueException:
        # A later version may have added to a kind; it is kept, but nothing relies on its fields.
        known = False
    mono, connection = value.pop("mono_ns", None), value.pop("connection", None)
    del value["at"], value["kind"]
    return Event(
        at_ns,
        mono if isinstance(mono, int) else None,
        kind,
        connection if isinstance(connection, int) else None,
        value,
        known,
    )


def of_the_probe(events: Sequence[Event]) -> Iterable[Event]:
    """Events without those that a recovery may have written. The probe tells of closed segments too; of a
    recording that was recovered it is not known which of these are its own.
    """
    if not any(e.kind == "recording.recovered" for e in events):
        return events
    return (e for e in events if not _may_be_of_a_recovery(e))


def _may_be_of_a_recovery(event: Event) -> bool:
    if event.kind == "recording.overflowed":
        return event.fields.get("reason") in RECOVERED_LOSSES
    return event.kind in {"segment.closed", "queries.closed", "queries.lost", "recording.recovered"}


def pauses(events: Iterable[Event]) -> tuple[Pause, ...]:
    """Every pause, in the order of writing; an event is written when its pause is over."""
    return tuple(
        Pause(
            e.fields["host"],
            e.at_ns - e.fields["duration_ns"],
            e.at_ns,
            e.fields["duration_ns"],
            e.fields.get("reason"),
        )
        for e in events
        if e.kind == "pause" and e.known
    )


PATH_S: Final = frozenset({"blocked", "unconnected"})
"""Reasons of `schedule.overrun` that are the path's or its other end's, and not this host's."""


def unsent(events: Iterable[Event]) -> int:
    """Samples that were due and that nothing could carry."""
    return sum(
        e.fields["skipped"]
        for e in events
        if e.kind == "schedule.overrun" and e.known and e.fields["reason"] in PATH_S
    )


LOCAL: Final = frozenset({"local", "local_paused"})
"""Verdicts whose cause is in this host."""


def lost_here(events: Iterable[Event]) -> int:
    """Number of samples without an echo that were lost in this host. They were out on a connection that ended
    for a cause in this host, or at the end of the run in a silence with such a cause.
    """
    silent: dict[int, bool] = {}
    ends: dict[int, tuple[int, bool, bool]] = {}
    for e in events:
        n, f = e.connection, e.fields
        if n is None or not e.known:
            continue
        match e.kind:
            case "stall.began":
                silent[n] = False
            case "stall.ended":
                silent.pop(n, None)
            case "connection.explained" if f["about"] != "closing":
                if n in silent:
                    silent[n] = f["verdict"] in LOCAL
            case "connection.explained" if n in ends:
                out, here, _ = ends[n]
                ends[n] = (out, here, f["verdict"] in LOCAL)
            case "connection.closed":
                silent_here = silent.pop(n, False) and f["cause"] in {"finished", "refreshed"}
                destroyed = f["cause"] == "local_error" and "errno" in f
                ends[n] = (int(f["evidence"].get("outstanding", 0)), silent_here or destroyed, False)
    return sum(out for out, here, said in ends.values() if here or said)


def maintenance(events: Iterable[Event]) -> tuple[Maintenance, ...]:
    """Every notice in every state, in the order of writing."""
    return tuple(
        Maintenance(
            at_ns=e.at_ns,
            cloud=e.fields["cloud"],
            id=e.fields.get("id"),
            what=e.fields["what"],
            state=e.fields["state"],
            not_before_ns=parse_utc(e.fields["not_before"]) if "not_before" in e.fields else None,
            duration_ns=e.fields.get("duration_ns"),
            notice=e.fields["notice"],
            host=e.fields.get("host", "local"),
        )
        for e in events
        if e.kind == "maintenance" and e.known
    )


def connections(events: Iterable[Event]) -> tuple[Connection, ...]:
    """Every connection that an event names as opened or closed, by number."""
    by_number: dict[int, Connection] = {}
    for e in events:
        # Of a connection that was open before the recording began, this one knows it from there on.
        for one in carried(e):
            number = one["connection"]
            known = by_number.get(number) or _unknown(number)
            by_number[number] = replace(known, remote=one.get("remote"), opened_ns=e.at_ns)
        if e.connection is None or not e.known:
            continue
        known = by_number.get(e.connection) or _unknown(e.connection)
        match e.kind:
            case "connection.opened":
                f = e.fields
                by_number[e.connection] = replace(
                    known,
                    target=f["target"],
                    local=f["local"],
                    remote=f["remote"],
                    opened_ns=e.at_ns,
                    connect_ns=f["connect_ns"],
                    tls_ns=f.get("tls_ns"),
                )
            case "connection.closed":
                f = e.fields
                by_number[e.connection] = replace(
                    known,
                    # The opening may be lost with a damaged line; its time follows from the age.
                    opened_ns=e.at_ns - f["age_ns"] if known.opened_ns is None else known.opened_ns,
                    closed_ns=e.at_ns,
                    age_ns=f["age_ns"],
                    cause=f["cause"],
                    verdict=f.get("verdict"),
                    errno=f.get("errno"),
                    evidence=f["evidence"],
                )
            case "connection.explained" if e.fields["about"] == "closing":
                by_number[e.connection] = replace(known, explanation=_explanation(e))
    return tuple(by_number[i] for i in sorted(by_number))


def carried(event: Event) -> list[dict[str, Any]]:
    """The connections that were open when the recording began in the middle of a run (`--rotate`)."""
    if event.kind != "recording.continues" or not event.known:
        return []
    return list(event.fields.get("connections", ()))


def _unknown(connection: int) -> Connection:
    return Connection(connection, None, None, None, None, None, None, None, None, None, None, None, {}, None)


def _explanation(event: Event) -> Explanation:
    f = event.fields
    return Explanation(
        f["about"],
        f["verdict"],
        f.get("direction"),
        tuple(f["because"]),
        f["fresh"],
        event.at_ns,
        f.get("confidence"),
        tuple(f.get("could_be", ())),
    )


def responders(events: Iterable[Event]) -> frozenset[int]:
    """The identities of the reflectors that answered questions about connections."""
    return frozenset(
        e.fields["reflector"]["responder"]["identity"]
        for e in events
        if e.kind == "connection.explained" and e.known and "responder" in e.fields.get("reflector", {})
    )


def delays(events: Iterable[Event]) -> tuple[Delay, ...]:
    """Every delay by its beginning, but for what waited for a host to run: the pauses tell of that."""
    every: list[Delay] = []
    waited: set[int] = set()
    open_: dict[int | None, int] = {}
    for e in events:
        if not e.known:
            continue
        f = e.fields
        if e.kind == "delay.began":
            open_[e.connection] = len(every)
            began_ns = e.at_ns - f["rtt_ns"]
            every.append(Delay(e.connection, began_ns, None, None, f["rtt_ns"], None, None, None, "medium"))
        elif e.kind == "delay.ended" and (i := open_.pop(e.connection, None)) is not None:
            every[i] = replace(
                every[i],
                ended_ns=every[i].began_ns + f["duration_ns"],
                samples=f["samples"],
                most_ns=f["most_ns"],
                forward_ns=f.get("forward_ns"),
                back_ns=f.get("back_ns"),
                direction=f.get("direction"),
                confidence=f["confidence"],
            )
            if f["verdict"] in {"local_paused", "peer_paused"}:
                waited.add(i)
    return tuple(d for i, d in enumerate(every) if i not in waited)


def stalls(events: Iterable[Event]) -> tuple[Stall, ...]:
    """Every stall, in the order of beginning."""
    every: list[Stall] = []
    # By connection: those that have not ended and the latest one, by their places in `every`. To look for
    # them there took minutes where tens of thousands never ended.
    unended: dict[int | None, list[int]] = {}
    latest: dict[int | None, int] = {}
    for e in events:
        if not e.known:
            continue
        f = e.fields
        began = [(e.connection, e.at_ns, f)] if e.kind == "stall.began" else []
        for one in carried(e):
            if stall := one.get("stall"):
                silent_ns = (e.mono_ns or 0) - stall["since_ns"]
                began.append((one["connection"], e.at_ns - silent_ns + stall["threshold_ns"], stall))
        for connection, at_ns, told in began:
            latest[connection] = len(every)
            unended.setdefault(connection, []).append(len(every))
            silence = told["seq"], told["outstanding"], told["threshold_ns"]
            every.append(Stall(connection, at_ns, None, *silence, None, None, None, None, None))
        if began:
            continue
        if e.kind == "stall.ended" and unended.get(e.connection):
            i = unended[e.connection].pop()
            every[i] = replace(
                every[i],
                ended_ns=e.at_ns,
                duration_ns=f["duration_ns"],
                samples=f["samples"],
                recovered=f["recovered"],
                retransmits=f.get("retransmits"),
            )
        elif e.kind == "connection.explained" and f["about"] == "stall" and e.connection in latest:
            i = latest[e.connection]
            every[i] = replace(every[i], explanation=_explanation(e))
    return tuple(every)
