"""What a recording of mode ``tcp-throughput`` says: how much TCP carried (``schema/throughput.md``).

Durations are ns, rates bits a second of payload. None means that the end that knows did not tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from fathometer.dataset.model import Event, Manifest

MODE: Final = "tcp-throughput"
Name = Literal["forward", "reverse"]
"""`forward`: the probe sends; `reverse`: it receives."""


NAMES: Final[tuple[Name, ...]] = ("forward", "reverse")


@dataclass(frozen=True, slots=True)
class Transfer:
    """What one end counted."""

    bytes: int
    duration_ns: int

    @property
    def bits_per_second(self) -> int:
        """The rate, rounded down as the probe does."""
        return self.bytes * 8_000_000_000 // max(self.duration_ns, 1)


@dataclass(frozen=True, slots=True)
class Readings:
    """What several readings of the sender's kernel came to."""

    count: int
    min: int
    mean: int
    max: int


@dataclass(frozen=True, slots=True)
class Flow:
    """A stream, or all those of one way together."""

    sent: Transfer | None
    """What the sender's kernel took."""
    received: Transfer | None
    """What came, which is the truth."""
    retransmits: int | None
    """Segments sent again."""
    cwnd_bytes: Readings | None
    srtt_us: Readings | None

    @property
    def carried(self) -> Transfer | None:
        """The receiver's count, or the sender's where the receiver did not tell."""
        return self.received or self.sent


@dataclass(frozen=True, slots=True)
class Way:
    """All streams of one way."""

    name: Name
    total: Flow
    streams: tuple[tuple[int, Flow], ...]
    """By the number of their connection."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """About a second of one stream, by the count of the probe's end."""

    connection: int
    way: Name
    at_ns: int
    """When it ended, ns since the Unix epoch."""
    interval_ns: int
    bytes: int
    retransmits: int | None
    cwnd_bytes: int | None
    srtt_us: int | None
    omitted: bool
    """Warm-up: it counts in no total."""


@dataclass(frozen=True, slots=True)
class Throughput:
    """A throughput test."""

    ways: tuple[Way, ...]
    """`forward` before `reverse`; empty where nothing was counted."""
    stretches: tuple[Stretch, ...]
    ended_early: str | None
    """Why, in words; None: it lasted as long as it should."""
    bitrate_bits_per_second: int | None
    """The limit of each stream; None: none."""
    congestion: tuple[str | None, str | None]
    """The congestion control here and there."""


BROKEN_OFF: Final = "the recording breaks off; this is what this end had counted"


def throughput(manifest: Manifest, events: Iterable[Event]) -> Throughput | None:
    """The test of a recording; None where it is of another mode."""
    if manifest.mode != MODE:
        return None
    summary: Mapping[str, Any] = {}
    stretches = []
    for e in events:
        if e.kind == "throughput.ended" and isinstance(e.fields.get("summary"), dict):
            summary = e.fields["summary"]
        elif e.kind == "throughput.interval":
            stretches += _stretch(e)
    ways = _ways(summary)
    early = summary.get("ended_early")
    ended = bool(ways)
    return Throughput(
        ways if ended else _counted_here(stretches),
        tuple(stretches),
        (str(early) if early is not None else None) if ended else BROKEN_OFF,
        _whole(manifest.probe, "bitrate_bits_per_second"),
        (_text(summary, "congestion_here"), _text(summary, "congestion_there")),
    )


def _stretch(e: Event) -> list[Stretch]:
    f = e.fields
    interval, carried, way = _whole(f, "interval_ns"), _whole(f, "bytes"), f.get("way")
    if e.connection is None or interval is None or carried is None or way not in {"sent", "received"}:
        return []
    return [
        Stretch(
            e.connection,
            "forward" if way == "sent" else "reverse",
            e.at_ns,
            interval,
            carried,
            _whole(f, "retransmits"),
            _whole(f, "cwnd_bytes"),
            _whole(f, "srtt_us"),
            f.get("omitted") is True,
        )
    ]


def _ways(summary: Mapping[str, Any]) -> tuple[Way, ...]:
    """As the probe summed it up."""
    every = []
    for way in _dicts(summary.get("ways")):
        name = way.get("way")
        if name in NAMES:
            streams = [(s.get("stream"), _flow(s)) for s in _dicts(way.get("streams"))]
            numbered = tuple((number, flow) for number, flow in streams if isinstance(number, int))
            every.append(Way(name, _flow(way), numbered))
    return tuple(every)


def _flow(value: Mapping[str, Any]) -> Flow:
    return Flow(
        _counted(value.get("sent")),
        _counted(value.get("received")),
        _whole(value, "retransmits"),
        _readings(value.get("cwnd_bytes")),
        _readings(value.get("srtt_us")),
    )


def _counted(value: object) -> Transfer | None:
    if not isinstance(value, dict):
        return None
    carried, duration = _whole(value, "bytes"), _whole(value, "duration_ns")
    return None if carried is None or duration is None else Transfer(carried, duration)


def _readings(value: object) -> Readings | None:
    if not isinstance(value, dict):
        return None
    numbers = [n for name in ("count", "min", "mean", "max") if (n := _whole(value, name)) is not None]
    return Readings(*numbers) if len(numbers) == 4 else None


def _counted_here(stretches: Sequence[Stretch]) -> tuple[Way, ...]:
    """From the seconds that an interrupted test left: one end's count, and no more than that end can know."""
    ways = []
    counting = [s for s in stretches if not s.omitted]
    for name in NAMES:
        mine = [s for s in counting if s.way == name]
        numbers = sorted({s.connection for s in mine})
        flows = tuple((n, _sum(name, [s for s in mine if s.connection == n])) for n in numbers)
        counts = [c for _, flow in flows if (c := flow.carried)]
        if counts:
            all_of_it = Transfer(sum(c.bytes for c in counts), max(c.duration_ns for c in counts))
            ways.append(Way(name, _one_end(name, all_of_it, mine), flows))
    return tuple(ways)


def _sum(name: Name, stretches: Sequence[Stretch]) -> Flow:
    counted = Transfer(sum(s.bytes for s in stretches), sum(s.interval_ns for s in stretches))
    return _one_end(name, counted, stretches)


def _one_end(name: Name, counted: Transfer, stretches: Sequence[Stretch]) -> Flow:
    sent, received = (counted, None) if name == "forward" else (None, counted)
    again = [s.retransmits for s in stretches if s.retransmits is not None]
    return Flow(
        sent,
        received,
        sum(again) if again else None,
        _range([s.cwnd_bytes for s in stretches]),
        _range([s.srtt_us for s in stretches]),
    )


def _range(values: Sequence[int | None]) -> Readings | None:
    known = [v for v in values if v is not None]
    return Readings(len(known), min(known), sum(known) // len(known), max(known)) if known else None


def _dicts(value: object) -> list[dict[str, Any]]:
    return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []


def _whole(value: Mapping[str, Any], name: str) -> int | None:
    number = value.get(name)
    return number if isinstance(number, int) and not isinstance(number, bool) and number >= 0 else None


def _text(value: Mapping[str, Any], name: str) -> str | None:
    text = value.get(name)
    return text if isinstance(text, str) else None
