"""What a recording says besides its samples: frozen values. Times are ns since the Unix epoch (this host's
wall clock).

None means that the recording does not say; it never means 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from fathometer.counts import count

MAKING: Final = frozenset(("connect", "connect-tls"))
"""Modes whose samples are connections."""
CLIENT_MODE: Final = "tcp-client"
"""An application under a policy: its rows are tries of requests."""
DECIDED: Final = frozenset(("found", "not_found"))
"""Verdicts of searches for limits that came to their end."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Damage:
    """A part of a recording that could not be read: said, not guessed."""

    file: str
    offset: int
    """Where the unreadable part begins, in bytes."""
    bytes: int
    """How many bytes are not read because of it."""
    torn: bool
    """Whether it is merely the unfinished end that an interrupted writer leaves."""
    reason: str

    def __str__(self) -> str:
        return f"{self.file}: {self.reason} ({count(self.bytes, 'byte')} from offset {self.offset} not read)"


@dataclass(frozen=True, slots=True)
class Path:
    """From where to where, in the user's words."""

    start: str | None = None
    """`from` in the manifest."""
    to: str | None = None
    via: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClockAnchor:
    """One simultaneous reading of both clocks."""

    mono_ns: int
    utc_ns: int
    stepped: bool
    """Whether the wall clock was set between the anchor before and this one."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """``recording.json``."""

    id: str
    label: str
    path: Path
    started_ns: int
    ended_ns: int | None
    """None while it runs and after an interruption."""
    tool_version: str
    tool_revision: str | None
    probe: Mapping[str, Any]
    """The effective configuration; empty where none is given."""
    host: Mapping[str, Any]
    cloud: Mapping[str, Any] | None
    reflector: Mapping[str, Any]
    clock_anchors: tuple[ClockAnchor, ...]
    extra: Mapping[str, Any]
    """Fields that this version does not know, `imported` and `simulated`."""
    said_marks: tuple[str, ...] = ()
    """As the field has them; `marks` has those of older recordings too."""
    command: str | None = None
    """The command line that makes another like it, quoted for a shell; None: it does not say."""

    @property
    def marks(self) -> tuple[str, ...]:
        """What its figures may not be taken for: ``emulated``, ``simulated``, ``quick``; empty: they are of a
        real network.
        """
        older = {"simulated": "simulated" in self.extra, "quick": self.path.tags.get("quick") == "true"}
        return tuple(dict.fromkeys((*self.said_marks, *(mark for mark, is_one in older.items() if is_one))))

    @property
    def host_id(self) -> str | None:
        """Which host it was made on: the hash of its machine id, else its name; None: it does not say."""
        return _of(self.host, "machine_id", str) or _of(self.host, "name", str)

    @property
    def host_name(self) -> str | None:
        """What that host calls itself."""
        return _of(self.host, "name", str)

    @property
    def target(self) -> str | None:
        """What was measured, as the user named it."""
        return _of(self.reflector, "address", str) or None

    @property
    def mode(self) -> str | None:
        """``tcp``, ``tcp-ping-pong``, ``udp``, ``udp-ping-pong``; a peer's own word (``icmp``) for an
        import.
        """
        return _of(self.probe, "mode", str)

    @property
    def size(self) -> int | None:
        """Payload bytes each way."""
        return _of(self.probe, "size", int)

    @property
    def interval_ns(self) -> int | None:
        """From one due time to the next on a connection; None: ping-pong, or not known."""
        return _of(self.probe, "interval_ns", int)

    @property
    def makes_connections(self) -> bool:
        """Whether each sample is a connection that was made and closed at once, and no echo."""
        return self.mode in MAKING

    @property
    def is_client(self) -> bool:
        """Whether an application's requests were recorded, and no samples of a path."""
        return self.mode == CLIENT_MODE

    @property
    def mixed(self) -> bool:
        """Whether some samples are never pooled with others: several sizes, silences, a load beside them."""
        return any(self.probe.get(name) for name in ("sizes", "idle_gaps_ns", "load"))

    @property
    def idle_gaps_ns(self) -> tuple[int, ...]:
        """The silences of the plan (`--idle-gap`), ascending; empty: it has none."""
        gaps = self.probe.get("idle_gaps_ns")
        return tuple(g for g in gaps if isinstance(g, int) and g > 0) if isinstance(gaps, list) else ()

    @property
    def imported(self) -> Mapping[str, Any] | None:
        """Of an import: ``tool``, ``file``, ``notes``, ``not_measured`` (columns that hold no
        measurement).
        """
        imported = self.extra.get("imported")
        return imported if isinstance(imported, dict) else None


def _of(where: Mapping[str, Any], name: str, kind: type[T]) -> T | None:
    value = where.get(name)
    return value if isinstance(value, kind) and not isinstance(value, bool) else None


@dataclass(frozen=True, slots=True)
class Event:
    """One line of ``events.jsonl``."""

    at_ns: int
    mono_ns: int | None
    """None in a kind of a later version that has none."""
    kind: str
    connection: int | None
    fields: Mapping[str, Any]
    """Everything else in the line."""
    known: bool
    """Whether this version knows the kind and its shape; if not, it is kept but not interpreted."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What the evidence says about a stall or a closing (``connection.explained``)."""

    about: str
    """``stall`` or ``closing``."""
    verdict: str
    direction: str | None
    because: tuple[str, ...]
    fresh: str
    """What a fresh connection met."""
    at_ns: int
    confidence: str | None = None
    """How sure the verdict is (``high``, ``medium``, ``low``, ``none``); None: a recording of before that was
    written."""
    could_be: tuple[str, ...] = ()
    """Where the verdict is ``unknown``: those that the evidence does not tell apart."""


@dataclass(frozen=True, slots=True)
class Connection:
    """One connection, from opened to closed."""

    id: int
    target: str | None
    local: str | None
    remote: str | None
    opened_ns: int | None
    connect_ns: int | None
    """Duration of its set-up, without TLS."""
    tls_ns: int | None
    """From established to the end of the TLS handshake; None: there was none."""
    closed_ns: int | None
    """None: open when the recording was read or interrupted."""
    age_ns: int | None
    cause: str | None
    verdict: str | None
    errno: int | None
    evidence: Mapping[str, Any]
    """The facts at its end; empty while it is open."""
    explanation: Explanation | None


@dataclass(frozen=True, slots=True)
class Stall:
    """Samples were outstanding on a connection and nothing came back."""

    connection: int | None
    began_ns: int
    """When the recorder called it a stall."""
    ended_ns: int | None
    """None: it never ended within the recording."""
    seq: int
    """The oldest sample without its echo."""
    outstanding: int
    threshold_ns: int
    duration_ns: int | None
    samples: int | None
    recovered: bool | None
    """False: the connection ended."""
    retransmits: int | None
    explanation: Explanation | None


@dataclass(frozen=True, slots=True)
class Delay:
    """Echoes came on a connection, and took far longer than usual."""

    connection: int | None
    began_ns: int
    """When its first sample was sent."""
    ended_ns: int | None
    """When the last one that was late came; None: it went on as far as the recording knows."""
    samples: int | None
    """Those that were late."""
    most_ns: int
    """The longest round trip, as far as it is known."""
    forward_ns: int | None
    """How much longer than usual that one took on the way there; None: the reflector's stamps do not tell."""
    back_ns: int | None
    direction: str | None
    """Which way took nearly all of it, where one did."""
    confidence: str | None


@dataclass(frozen=True, slots=True)
class Pause:
    """A host did not run for a while."""

    host: str
    """``local`` (the probe's) or ``remote`` (the reflector's)."""
    start_ns: int
    end_ns: int
    """When it was known to be over: of a remote pause the arrival of the first echo after it."""
    duration_ns: int
    reason: str | None


@dataclass(frozen=True, slots=True)
class Maintenance:
    """One notice of a cloud, in one state."""

    at_ns: int
    cloud: str
    id: str | None
    what: str
    state: str
    """``scheduled``, ``started`` or ``gone``."""
    not_before_ns: int | None
    duration_ns: int | None
    notice: Any
    """As the cloud gave it."""
    host: str = "local"
    """Host of the notice: ``local``, ``remote`` (the reflector's) or ``other``."""
