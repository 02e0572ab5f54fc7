"""The study file's shape, and what its parts mean. Names that must exist are checked in `read`."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Annotated, Final, Literal, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, Field, model_validator

from fathometer.study.limit import Limit
from fathometer.study.policy import Policy
from fathometer.study.probe import Probe
from fathometer.study.query import Query
from fathometer.study.shape import Duration, FilledName, Format, Memory, Name, Port, StudyTable, Text
from fathometer.study.vary import Vary

POLITE_PER_CONNECTION: Final = 5_000
"""Samples a second on a connection above which `fathom probe` wants to be asked."""
POLITE_IN_ALL: Final = 50_000
"""And from all connections together."""
COMPARISON_REPETITIONS: Final = 20
"""Repetitions of a study that compares, unless it says otherwise."""
DEFAULT_PORT: Final = 7007
"""`fathom echo`'s."""

POLITE_CONNECTS: Final = 100
"""Connections a second above which `fathom probe` wants to be asked: each leaves a port to rest a minute."""
PACKET: Final = 1_448
"""Payload bytes of a packet of a load, by which `fathom probe` reckons whether it is polite."""


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

    name: FilledName
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

    label: FilledName
    source: FilledName = Field(alias="from")
    """The probe's host."""
    to: FilledName
    """The reflector's host."""
    via: Text | None = None
    """What lies between, in words."""
    address: Text | None = None
    """What the probe connects to; absent: the reflector's host. A balancer's frontend, for one."""
    port: Port = DEFAULT_PORT
    source_address: Annotated[str, AfterValidator(_address)] | None = None
    """Where the probe connects from, where its host has several addresses."""
    tags: dict[Name, Text] = Field(default_factory=dict)


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

    format: Format
    name: Name
    description: Text | None = None
    seed: int = Field(default=1, ge=0, lt=1 << 63)
    repetitions: int | None = Field(default=None, ge=1, le=100_000)
    """Rounds; absent: 20 where scenarios or probes are compared, else 1."""
    order: Literal["one-by-one", "side-by-side"] = "one-by-one"
    """Whether the runs of a round follow one another, or are made at the same moments."""
    host: tuple[Host, ...] = Field(min_length=1)
    scenario: tuple[PlannedPath, ...] = Field(min_length=1)
    vary: tuple[Vary, ...] = ()
    """Factors; hosts and scenarios are there once for each combination of those that they name in braces."""
    probe: tuple[Probe, ...] = ()
    policy: tuple[Policy, ...] = ()
    """Applications, each on every scenario."""
    limit: tuple[Limit, ...] = ()
    """Searches for limits, each on every scenario. The file has one of the four at least."""
    query: tuple[Query, ...] = ()
    """Queries of a database, each on every scenario."""
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
    def measured(self) -> tuple[Probe | Policy | Limit | Query, ...]:
        """What is run on each scenario."""
        return (*self.probe, *self.policy, *self.limit, *self.query)

    @model_validator(mode="after")
    def _measures(self) -> Self:
        if not self.measured:
            raise ValueError(
                "it measures nothing; add a [[probe]], a [[policy]], a [[limit]], or a [[query]]"
            )
        return self

    @property
    def rounds(self) -> int:
        """How often each scenario is measured."""
        return self.repetitions or (COMPARISON_REPETITIONS if self.compares else 1)

    def host_named(self, name: str) -> Host:
        """The host of a scenario's `from` or `to`, which `read` has found to be there."""
        return next(h for h in self.host if h.name == name)
