"""The study file's shape, and what its parts mean. Names that must exist are checked in `read`."""

from __future__ import annotations

from ipaddress import ip_address
from itertools import pairwise
from typing import Annotated, Final, Literal, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, Field, model_validator

from fathometer.counts import count
from fathometer.study.limit import Limit
from fathometer.study.policy import Policy
from fathometer.study.shape import Duration, Memory, Name, Port, Rate, Size, StudyTable, Text

POLITE_PER_CONNECTION: Final = 5_000
"""Samples a second on a connection above which `fathom probe` wants to be asked."""
POLITE_IN_ALL: Final = 50_000
"""And from all connections together."""
COMPARISON_REPETITIONS: Final = 20
"""Repetitions of a study that compares, unless it says otherwise."""
STAMPED_SIZE: Final = 64
"""Bytes from which a sample carries the header that a reflector stamps (fathom-wire)."""
DEFAULT_PORT: Final = 7007
"""`fathom echo`'s."""

LOAD_PHASE_NS: Final = 10_000_000_000
"""`fathom probe --load-phase`, unless it is given."""
POLITE_CONNECTS: Final = 100
"""Connections a second above which `fathom probe` wants to be asked: each leaves a port to rest a minute."""
PACKET: Final = 1_448
"""Payload bytes of a packet of a load, by which `fathom probe` reckons whether it is polite."""
STAMP_SIZE: Final = 44
"""Bytes of a STAMP packet (RFC 8762), without padding."""
BURST: Final = 4
"""Samples after a silence: the first, and three warm ones (fathom_core::gaps)."""
APART: Final = 1.25
"""A silence is at least so many times the next shorter one (fathom_core::gaps)."""
_PROTOCOLS: Final[tuple[Literal["tcp", "udp", "stamp"], ...]] = ("tcp", "udp", "stamp")


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f'no zone is called "{name}"; name one as in Europe/London, or UTC') from None
    return name


_HOURS: Final = r"^([01]\d|2[0-3]):[0-5]\d-(([01]\d|2[0-3]):[0-5]\d|24:00)$"


def _window(text: str) -> str:
    begin, end = text.split("-")
    if begin == end:
        raise ValueError(f'"{text}" is no time at all; write two different hours, or 00:00-24:00 for the day')
    return text


def _address(text: str) -> str:
    try:
        ip_address(text)
    except ValueError:
        raise ValueError(f'"{text}" is no address; write it as in 10.0.1.4') from None
    return text


class FabricHost(StudyTable):
    """A host of an emulated network."""

    scenario: Text
    """The fabric's scenario file, from the study file's directory."""
    host: Text
    """Its name there."""


class SshHost(StudyTable):
    """A host that is reached over SSH."""

    address: Text
    user: Text | None = None
    key: Text | None = None
    """The private key's file; absent: what the agent and the configuration say."""
    port: Port = 22
    jump: Text | None = None
    """A host to go by way of, as in ``ssh -J``."""
    known_hosts: Text | None = None
    """A file with the keys of host and jump host, in the place of ``~/.ssh/known_hosts``."""


class HostLimits(StudyTable):
    """A host's size: what its processes may use of this machine."""

    cpu: float | None = Field(default=None, ge=0.01, le=1024, allow_inf_nan=False)
    """Processors, as in 0.5."""
    memory: Memory | None = None

    @model_validator(mode="after")
    def _limits_something(self) -> Self:
        if self.cpu is None and self.memory is None:
            raise ValueError("it limits nothing; say `cpu`, as in 0.5, or `memory`, as in 256MiB")
        return self


class Host(StudyTable):
    """Where a reflector or a probe runs: exactly one of `local`, `fabric` and `ssh`."""

    name: Name
    local: Literal[True] | None = None
    """This machine."""
    fabric: FabricHost | None = None
    ssh: SshHost | None = None
    limits: HostLimits | None = None
    """Its size; passed over for a host over SSH, which has its own."""

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if sum(place is not None for place in (self.local, self.fabric, self.ssh)) != 1:
            raise ValueError(
                f'host "{self.name}" must be in one place; '
                "give it one of `local = true`, `fabric = { ... }` and `ssh = { ... }`"
            )
        return self


class PlannedPath(StudyTable):
    """One labelled path configuration."""

    label: Name
    source: Name = Field(alias="from")
    """The probe's host."""
    to: Name
    """The reflector's host."""
    via: Text | None = None
    """What lies between, in words."""
    address: Text | None = None
    """What the probe connects to; absent: the reflector's host. A balancer's frontend, for one."""
    port: Port = DEFAULT_PORT
    source_address: Annotated[str, AfterValidator(_address)] | None = None
    """Where the probe connects from, where its host has several addresses."""
    tags: dict[Name, Text] = Field(default_factory=dict)


class Probe(StudyTable):
    """How a path is measured."""

    name: Name = "probe"
    mode: Literal[
        "tcp",
        "tcp-ping-pong",
        "udp",
        "udp-ping-pong",
        "connect",
        "connect-tls",
        "stamp",
        "stamp-ping-pong",
    ] = "tcp"
    every_ns: Duration | None = Field(default=None, alias="every")
    """From one due time to the next on a connection; with neither `every` nor `rate`: 1s."""
    rate: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Samples a second on a connection, instead of `every`."""
    size: Size | None = None
    sizes: tuple[Size, ...] | None = Field(default=None, min_length=1)
    """A sweep: a run for each."""
    for_ns: Duration | None = Field(default=None, alias="for")
    count: int | None = Field(default=None, ge=1, le=1_000_000_000)
    """Samples on each connection, instead of `for`."""
    warm_up: int = Field(default=0, ge=0, le=1_000_000)
    """Samples at the start of each run that are recorded and flagged, but left out of figures."""
    connections: int = Field(default=1, ge=1, le=10_000)
    user_timeout_ns: Duration | None = Field(default=None, alias="user-timeout")
    """After so long without an acknowledgement the kernel ends a connection (TCP_USER_TIMEOUT); absent: its
    own limit, about 15 minutes. Azure recommends 30 s."""

    load: Rate | None = None
    """A load beside the samples in every second phase, as in 200Mbit, or max."""
    load_phase_ns: Duration | None = Field(default=None, alias="load-phase")
    """How long each phase lasts; with neither, 10s."""
    idle_gap_ns: tuple[Duration, ...] | None = Field(
        default=None, alias="idle-gap", min_length=1, max_length=32
    )
    """Silences, each before a sample and three more back to back, instead of `every`."""

    @property
    def connects(self) -> bool:
        """Each sample is a connection that is made."""
        return self.mode.startswith("connect")

    @property
    def protocol(self) -> Literal["tcp", "udp", "stamp"] | None:
        """What its reflector answers; None: TLS handshakes, which a server of the user's own answers."""
        if self.mode == "connect-tls":
            return None
        for protocol in _PROTOCOLS:
            if self.mode.startswith(protocol):
                return protocol
        return "tcp"

    @property
    def recorded_mode(self) -> str:
        """As its recordings name it."""
        return f"{self.mode}-idle-gap" if self.idle_gap_ns else self.mode

    @property
    def gaps_ns(self) -> tuple[int, ...]:
        """Its silences, ascending."""
        return tuple(sorted(self.idle_gap_ns or ()))

    @property
    def phase_ns(self) -> int:
        """How long each phase of its load lasts."""
        return self.load_phase_ns or LOAD_PHASE_NS

    @property
    def per_second(self) -> float | None:
        """Samples a second on a connection, at most; None: as fast as the path answers."""
        if self.idle_gap_ns:
            return len(self.idle_gap_ns) * BURST * 1e9 / sum(self.idle_gap_ns)
        return None if self.interval_ns is None else 1e9 / self.interval_ns

    @property
    def ping_pong(self) -> bool:
        """The next sample goes out as soon as the last came back."""
        return self.mode.endswith("ping-pong")

    @property
    def interval_ns(self) -> int | None:
        """From one due time to the next on a connection; None: ping-pong, or silences."""
        if self.ping_pong or self.idle_gap_ns:
            return None
        if self.rate is not None:
            return max(1, round(1_000_000_000 / self.rate))
        return self.every_ns or 1_000_000_000

    @property
    def all_sizes(self) -> tuple[int, ...]:
        """The sizes of its runs."""
        usual = 0 if self.connects else STAMP_SIZE if self.protocol == "stamp" else STAMPED_SIZE
        return self.sizes or (self.size or usual,)

    @model_validator(mode="after")
    def _one_of(self) -> Self:
        for one, other, given in (
            ("every", "rate", (self.every_ns, self.rate)),
            ("size", "sizes", (self.size, self.sizes)),
            ("for", "count", (self.for_ns, self.count)),
        ):
            if None not in given:
                raise ValueError(f'probe "{self.name}" has both `{one}` and `{other}`; leave one of them out')
        if self.for_ns is None and self.count is None:
            raise ValueError(
                f'probe "{self.name}" never ends; say `for`, as in "30s", or `count`, as in 1000'
            )
        if self.ping_pong and (self.every_ns is not None or self.rate is not None):
            raise ValueError(
                f'probe "{self.name}" is ping-pong, which has no schedule; leave `every` and `rate` out'
            )
        if self.user_timeout_ns is not None and self.mode.startswith(("udp", "stamp")):
            raise ValueError(
                f'probe "{self.name}" is UDP, which acknowledges nothing; leave `user-timeout` out'
            )
        self._check_mode()
        if self.sizes is not None and len(set(self.sizes)) != len(self.sizes):
            raise ValueError(f'probe "{self.name}" has a size twice in `sizes`; name each once')
        if self.count is not None and self.count <= self.warm_up:
            raise ValueError(
                f'probe "{self.name}" sends {count(self.count, "sample")}, all warm-up; raise `count`'
            )
        return self

    def _check_mode(self) -> None:
        """What does not go with a mode, with silences or with a load."""
        if self.connects and (self.size is not None or self.sizes is not None):
            raise ValueError(f'probe "{self.name}" makes connections, which have no size; leave it out')
        if self.connects and self.connections != 1:
            raise ValueError(
                f'probe "{self.name}" makes a connection a sample; leave `connections` out, and raise `rate`'
            )
        if self.protocol == "stamp" and min(self.all_sizes) < STAMP_SIZE:
            raise ValueError(
                f'probe "{self.name}": a STAMP packet is at least {STAMP_SIZE} bytes; raise `size`'
            )
        if self.idle_gap_ns is not None:
            if self.mode not in {"tcp", "udp"} or self.load is not None:
                raise ValueError(
                    f'probe "{self.name}": `idle-gap` goes with mode tcp or udp, without `load`; leave it out'
                )
            if self.every_ns is not None or self.rate is not None:
                raise ValueError(
                    f'probe "{self.name}" has silences, and no schedule; leave `every` and `rate` out'
                )
            if any(b < APART * a for a, b in pairwise(self.gaps_ns)) or self.gaps_ns[0] < 1_000_000:
                raise ValueError(
                    f'probe "{self.name}": silences of 1ms and more can be told apart if each is a quarter '
                    "longer than the next shorter one; choose others"
                )
        if self.load is not None and (self.connects or self.protocol == "stamp"):
            raise ValueError(
                f'probe "{self.name}": a load needs an echo server beside it; use mode tcp or udp, or leave '
                "`load` out"
            )
        if self.load is not None and self.phase_ns < 100_000_000:
            raise ValueError(f'probe "{self.name}": the shortest `load-phase` is 100ms; give a longer one')
        if self.load is not None and self.for_ns is not None and self.for_ns < 2.1 * self.phase_ns:
            raise ValueError(
                f'probe "{self.name}" is over before an idle and a loaded phase; raise `for`, or lower '
                "`load-phase`"
            )
        if self.load_phase_ns is not None and self.load is None:
            raise ValueError(f'probe "{self.name}" has no `load`; leave `load-phase` out')


class Schedule(StudyTable):
    """When rounds may begin; a study without one begins now, and goes on."""

    weekdays: tuple[Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"], ...] | None = Field(
        default=None, min_length=1
    )
    hours: tuple[Annotated[str, Field(pattern=_HOURS), AfterValidator(_window)], ...] | None = Field(
        default=None, min_length=1
    )
    """Windows as in ``09:00-17:00``; one whose end is before its begin goes past midnight, and belongs to the
    day of its begin."""
    zone: Annotated[str, AfterValidator(_zone)] = "UTC"
    every_ns: Duration | None = Field(default=None, alias="every")
    """From one round's begin to the next one's, at least."""


class Limits(StudyTable):
    """Samples a second that the study may send."""

    per_connection: int = Field(default=POLITE_PER_CONNECTION, ge=1)
    in_all: int = Field(default=POLITE_IN_ALL, ge=1)
    allow_high_rate: bool = False
    """Limits above the polite ceiling are meant."""


class Study(StudyTable):
    """A study file."""

    format: Literal[1]
    name: Name
    description: Text | None = None
    seed: int = Field(default=1, ge=0, lt=1 << 63)
    repetitions: int | None = Field(default=None, ge=1, le=100_000)
    """Rounds; absent: 20 where scenarios or probes are compared, else 1."""
    order: Literal["one-by-one", "side-by-side"] = "one-by-one"
    """Whether the runs of a round follow one another, or are made at the same moments."""
    host: tuple[Host, ...] = Field(min_length=1)
    scenario: tuple[PlannedPath, ...] = Field(min_length=1)
    probe: tuple[Probe, ...] = ()
    policy: tuple[Policy, ...] = ()
    """Applications, each on every scenario."""
    limit: tuple[Limit, ...] = ()
    """Searches for limits, each on every scenario. The file has one of the three at least."""
    schedule: Schedule = Schedule()
    limits: Limits = Limits()

    @property
    def compares(self) -> bool:
        """It has more than one thing to measure whose figures vary; a search has its own repetitions."""
        return len(self.scenario) * sum(len(p.all_sizes) for p in self._varying) > 1

    @property
    def _varying(self) -> tuple[Probe | Policy, ...]:
        return (*self.probe, *self.policy)

    @property
    def measured(self) -> tuple[Probe | Policy | Limit, ...]:
        """What is run on each scenario."""
        return (*self.probe, *self.policy, *self.limit)

    @model_validator(mode="after")
    def _measures(self) -> Self:
        if not self.measured:
            raise ValueError("it measures nothing; add a [[probe]], a [[policy]], or a [[limit]]")
        return self

    @property
    def rounds(self) -> int:
        """How often each scenario is measured."""
        return self.repetitions or (COMPARISON_REPETITIONS if self.compares else 1)

    def host_named(self, name: str) -> Host:
        """The host of a scenario's `from` or `to`, which `read` has found to be there."""
        return next(h for h in self.host if h.name == name)
