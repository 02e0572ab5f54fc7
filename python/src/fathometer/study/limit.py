"""A search for a limit in a study: ``fathom limits`` on each scenario. What a `Probe` says of itself too is
said here of searches.
"""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import Field, model_validator

from fathometer.study.shape import Duration, Name, StudyTable
from fathometer.study.words import duration_text

SECOND: Final = 1_000_000_000
SHORTEST_NS: Final = SECOND
LONGEST_NS: Final = 7 * 86_400 * SECOND
"""What `fathom limits --up-to` takes."""
USUAL_NS: Final = 600 * SECOND
"""`--up-to`, unless it is given."""
USUAL_PER_LENGTH: Final = 3
USUAL_RESOLUTION: Final = 0.02
USUAL_MOST: Final = 1_000
USUAL_CONNECTIONS: Final = 24
"""What `fathom limits` takes where it is told nothing."""
_ROUNDS_NS: Final = 60 * SECOND
"""What a search for an idle limit takes at most beyond 1.1 times the limit (docs/limits.md)."""
_BEGINNINGS: Final = 120
"""Connections of an age limit begin about this part of `up-to` apart, and 2 s at least (docs/limits.md)."""
_LOWEST: Final = 50
"""Packets a second of the first step of a search for the rate ceiling; each next has a quarter more."""
_RISES: Final = 1.25
_STEP_NS: Final = 3_500_000_000
"""What a step takes at most where its echoes come within a second."""
_SEGMENTS: Final = 128
_TENTH: Final = 100_000_000
"""A reflector sends at most so many segments on a connection, so far apart in whole tenths of a second."""
_FEWEST: Final = 8
"""Connections that tell an age from chance (docs/limits.md)."""
_OF: Final = {
    "keepalive_ns": ("an idle limit", "idle"),
    "per_length": ("an idle limit", "idle"),
    "resolution": ("an idle limit", "idle"),
    "max_connections": ("an idle limit", "idle"),
    "one_way_ns": ("an idle limit", "idle"),
    "one_way_from": ("an idle limit", "idle"),
    "up_to_ns": ("a limit of time", "idle"),
    "connections": ("an age limit", "age"),
    "rate_ceiling": ("the rate ceiling", "rate"),
}
"""What a key is of that not every kind of search has, and the kind to write for it."""
_OTHERS: Final = {
    "idle": ("connections", "rate_ceiling"),
    "age": ("rate_ceiling", *(n for n, (_, kind) in _OF.items() if kind == "idle" and n != "up_to_ns")),
    "rate": tuple(name for name, (_, kind) in _OF.items() if kind == "idle"),
}
"""By kind, what `fathom limits` would refuse beside it."""
_PERCENT: Final = r"^\s*\d+(\.\d+)?\s*%$"


class Limit(StudyTable):
    """A search for the idle limit, the age limit or the rate ceiling of each scenario."""

    name: Name = "limit"
    kind: Literal["idle", "age", "rate"] = "idle"
    up_to_ns: Duration = Field(default=USUAL_NS, alias="up-to")
    """The longest idleness, or the highest age, that is tried."""
    keepalive_ns: Duration | None = Field(default=None, alias="keepalive")
    """TCP keepalives of the kernel, so often: do they keep connections open?"""
    one_way_ns: Duration | None = Field(default=None, alias="one-way")
    """Traffic in one direction on idle connections, so often: does it keep them open?"""
    one_way_from: Literal["here", "there"] | None = None
    """Who sends it: the host that searches, or the reflector."""
    rate_ceiling: int | None = Field(default=None, ge=100, le=1_000_000)
    """Of a search for the rate ceiling: the most packets a second that are tried."""
    per_length: int | None = Field(default=None, ge=1, le=100)
    """Connections that are idle for each length."""
    resolution: Annotated[str, Field(pattern=_PERCENT)] | None = None
    """How far apart the ends of the result may be, as in 2%."""
    max_connections: int | None = Field(default=None, ge=16, le=50_000)
    """Open at one time, at most."""
    connections: int | None = Field(default=None, ge=1, le=1_000)
    """Of a search for an age limit: how many are kept in use; for the rate ceiling: over which packets go."""

    protocol: ClassVar[Literal["tcp"]] = "tcp"
    interval_ns: ClassVar[None] = None
    for_ns: ClassVar[None] = None
    count: ClassVar[None] = None
    sizes: ClassVar[None] = None
    all_sizes: ClassVar[tuple[int, ...]] = (0,)
    """Its requests have the size that `fathom limits` gives them."""

    @property
    def mode(self) -> Literal["tcp-idle-limit", "tcp-age-limit", "tcp-rate-ceiling"]:
        """As its recordings name it."""
        if self.kind == "rate":
            return "tcp-rate-ceiling"
        return "tcp-idle-limit" if self.kind == "idle" else "tcp-age-limit"

    @property
    def of_each(self) -> int:
        """Connections of a length, or those that are kept in use, or over which packets go."""
        if self.kind == "idle":
            return self.per_length or USUAL_PER_LENGTH
        return self.connections or (USUAL_CONNECTIONS if self.kind == "age" else 1)

    @property
    def one_way(self) -> dict[str, object] | None:
        """As the manifest has it."""
        if self.one_way_ns is None:
            return None
        return {"every_ns": self.one_way_ns, "from": self.one_way_from or "here"}

    @property
    def share(self) -> float:
        """`resolution`, of 1."""
        if self.resolution is None:
            return USUAL_RESOLUTION
        return float(self.resolution.strip().rstrip("% ")) / 100

    @property
    def longest_ns(self) -> int:
        """How long it takes where nothing but the limit ends connections."""
        if self.kind == "rate":
            steps = int(math.log((self.rate_ceiling or _LOWEST) / _LOWEST) / math.log(_RISES)) + 1
            # The last is tried again, and the one below it.
            return (steps + 2) * _STEP_NS
        if self.kind == "idle":
            # Where up-to is short, so is what comes after it.
            return self.up_to_ns + self.up_to_ns // 10 + min(_ROUNDS_NS, self.up_to_ns)
        return self.up_to_ns + self.of_each * max(self.up_to_ns // _BEGINNINGS, 2 * SECOND)

    @model_validator(mode="after")
    def _takes(self) -> Self:
        """What `fathom limits` would refuse."""
        if not SHORTEST_NS <= self.up_to_ns <= LONGEST_NS:
            raise ValueError(f'limit "{self.name}": `up-to` is from 1s to 7d; write it as in "1h"')
        if self.keepalive_ns is not None and self.keepalive_ns % SECOND:
            raise ValueError(
                f'limit "{self.name}": the kernel\'s keepalive has whole seconds; round `keepalive`'
            )
        if not 0.005 <= self.share <= 0.5:
            raise ValueError(f'limit "{self.name}": `resolution` is from 0.5% to 50%; write it as in "2%"')
        if given := [name for name in _OTHERS[self.kind] if name in self.model_fields_set]:
            key = given[0].removesuffix("_ns").replace("_", "-")
            of, kind = _OF[given[0]]
            raise ValueError(
                f'limit "{self.name}": `{key}` is of searches for {of}; leave it out, '
                f'or write `kind = "{kind}"`'
            )
        if self.kind == "age" and self.of_each < _FEWEST:
            raise ValueError(
                f'limit "{self.name}": {self.of_each} `connections` do not tell an age from chance; '
                f"give {_FEWEST} or more"
            )
        if self.kind == "rate" and self.rate_ceiling is None:
            raise ValueError(
                f'limit "{self.name}": up to which rate is not said; write it as in `rate-ceiling = 5000`'
            )
        return self._has_its_traffic()

    def _has_its_traffic(self) -> Self:
        if self.one_way_ns is None:
            if self.one_way_from:
                raise ValueError(
                    f'limit "{self.name}": `one-way-from` says who sends; '
                    'say how often with `one-way = "30s"`'
                )
            return self
        if self.keepalive_ns is not None:
            raise ValueError(
                f'limit "{self.name}": `one-way` and `keepalive` are two questions; '
                "write a [[limit]] for each of them"
            )
        there = self.one_way_from == "there"
        tenths = (self.up_to_ns + self.up_to_ns // 8) // _SEGMENTS // _TENTH + 1
        least_ns = max(SECOND, tenths * _TENTH) if there else SECOND
        if self.one_way_ns < least_ns or self.one_way_ns % 1_000_000:
            raise ValueError(
                f'limit "{self.name}": `one-way` is {duration_text(least_ns)} or more, in whole milliseconds'
            )
        return self
