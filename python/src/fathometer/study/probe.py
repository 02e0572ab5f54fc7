"""How a path is measured: a study's ``[[probe]]``."""

from __future__ import annotations

from itertools import pairwise
from typing import Final, Literal, Self

from pydantic import Field, model_validator

from fathometer.counts import count
from fathometer.study.shape import Duration, Name, Rate, Size, StudyTable

Protocol = Literal["tcp", "udp", "stamp", "throughput"]
"""What a reflector answers."""
STAMPED_SIZE: Final = 64
"""Bytes from which a sample carries the header that a reflector stamps (fathom-wire)."""
LOAD_PHASE_NS: Final = 10_000_000_000
"""`fathom probe --load-phase`, unless it is given."""
STAMP_SIZE: Final = 44
"""Bytes of a STAMP packet (RFC 8762), without padding."""
BURST: Final = 4
"""Samples after a silence: the first, and three warm ones (fathom_core::gaps)."""
APART: Final = 1.25
"""A silence is at least so many times the next shorter one (fathom_core::gaps)."""
_PROTOCOLS: Final[tuple[Protocol, ...]] = ("tcp", "udp", "stamp", "throughput")
THROUGHPUT_BLOCK: Final = 128 << 10
"""Bytes that a stream of a throughput test writes at once, unless it is given."""
_LARGEST_BLOCK: Final = 1 << 20
_MOST_STREAMS: Final = 128
_LONGEST_TEST_NS: Final = 60_000_000_000
"""What `fathom echo --throughput` serves."""
_SECOND: Final = 1_000_000_000
_OF_ECHOES: Final = ("every_ns", "rate", "count", "warm_up", "load", "load_phase_ns", "idle_gap_ns")
_OF_THROUGHPUT: Final = ("direction", "bitrate", "omit_ns")
"""Keys that one kind of probe has, and the other has not."""


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
        "throughput",
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

    direction: Literal["forward", "reverse", "bidirectional"] = "forward"
    """Of a throughput test: who sends, the probe, its reflector, or both."""
    bitrate: Rate | None = None
    """Of a throughput test: what each stream sends at most, as in 100Mbit."""
    omit_ns: Duration | None = Field(default=None, alias="omit")
    """Of a throughput test: whole seconds at its start that count in no total."""

    @property
    def fills(self) -> bool:
        """It measures how much TCP carries, and no round trips."""
        return self.mode == "throughput"

    @property
    def connects(self) -> bool:
        """Each sample is a connection that is made."""
        return self.mode.startswith("connect")

    @property
    def protocol(self) -> Protocol | None:
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
        if self.fills:
            return "tcp-throughput"
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
        """From one due time to the next on a connection; None: ping-pong, silences, or a throughput test."""
        if self.ping_pong or self.idle_gap_ns or self.fills:
            return None
        if self.rate is not None:
            return max(1, round(1_000_000_000 / self.rate))
        return self.every_ns or 1_000_000_000

    @property
    def all_sizes(self) -> tuple[int, ...]:
        """The sizes of its runs; of a throughput test its blocks'."""
        if self.fills:
            return self.sizes or (self.size or THROUGHPUT_BLOCK,)
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
        self._check_throughput()
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

    def _check_throughput(self) -> None:
        """What goes with a throughput test alone, or not with one; and what its server would refuse."""
        theirs = _OF_ECHOES if self.fills else _OF_THROUGHPUT
        if given := [name for name in theirs if name in self.model_fields_set]:
            key = given[0].removesuffix("_ns").replace("_", "-")
            what = "a throughput test, which has no samples" if self.fills else "no throughput test"
            raise ValueError(f'probe "{self.name}" is {what}; leave `{key}` out')
        if not self.fills:
            return
        if self.for_ns is None or (self.for_ns + (self.omit_ns or 0)) > _LONGEST_TEST_NS:
            raise ValueError(f'probe "{self.name}": a reflector serves throughput for a minute; lower `for`')
        if self.for_ns % _SECOND or (self.omit_ns or 0) % _SECOND:
            raise ValueError(
                f'probe "{self.name}": throughput is measured for whole seconds; round `for`, `omit`'
            )
        if max(self.all_sizes) > _LARGEST_BLOCK:
            raise ValueError(
                f'probe "{self.name}": a block of a throughput test has 1MiB at most; lower `size`'
            )
        if self.connections > _MOST_STREAMS:
            raise ValueError(
                f'probe "{self.name}": throughput has at most {_MOST_STREAMS} streams; lower `connections`'
            )
        if self.bitrate == "max":
            raise ValueError(f'probe "{self.name}": without `bitrate` it is as fast as it goes; leave it out')

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
