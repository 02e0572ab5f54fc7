"""A search for a limit in a study: ``fathom limits`` on each scenario. What a `Probe` says of itself too is
said here of searches.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import Field, model_validator

from fathometer.study.shape import Duration, Name, StudyTable

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
_PERCENT: Final = r"^\s*\d+(\.\d+)?\s*%$"


class Limit(StudyTable):
    """A search for the idle limit or the age limit of each scenario."""

    name: Name = "limit"
    kind: Literal["idle", "age"] = "idle"
    up_to_ns: Duration = Field(default=USUAL_NS, alias="up-to")
    """The longest idleness, or the highest age, that is tried."""
    keepalive_ns: Duration | None = Field(default=None, alias="keepalive")
    """TCP keepalives of the kernel, so often: do they keep connections open?"""
    per_length: int | None = Field(default=None, ge=1, le=100)
    """Connections that are idle for each length."""
    resolution: Annotated[str, Field(pattern=_PERCENT)] | None = None
    """How far apart the ends of the result may be, as in 2%."""
    max_connections: int | None = Field(default=None, ge=16, le=50_000)
    """Open at one time, at most."""
    connections: int | None = Field(default=None, ge=8, le=1_000)
    """Of a search for an age limit: how many are kept in use."""

    protocol: ClassVar[Literal["tcp"]] = "tcp"
    interval_ns: ClassVar[None] = None
    for_ns: ClassVar[None] = None
    count: ClassVar[None] = None
    sizes: ClassVar[None] = None
    all_sizes: ClassVar[tuple[int, ...]] = (0,)
    """Its requests have the size that `fathom limits` gives them."""

    @property
    def mode(self) -> Literal["tcp-idle-limit", "tcp-age-limit"]:
        """As its recordings name it."""
        return "tcp-idle-limit" if self.kind == "idle" else "tcp-age-limit"

    @property
    def of_each(self) -> int:
        """Connections of a length, or those that are kept in use."""
        if self.kind == "age":
            return self.connections or USUAL_CONNECTIONS
        return self.per_length or USUAL_PER_LENGTH

    @property
    def share(self) -> float:
        """`resolution`, of 1."""
        if self.resolution is None:
            return USUAL_RESOLUTION
        return float(self.resolution.strip().rstrip("% ")) / 100

    @property
    def longest_ns(self) -> int:
        """How long it takes where nothing but the limit ends connections."""
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
        others = ("keepalive_ns", "per_length", "resolution", "max_connections")
        given = [
            n for n in (others if self.kind == "age" else ("connections",)) if getattr(self, n) is not None
        ]
        if given:
            key = given[0].removesuffix("_ns").replace("_", "-")
            other = "idle" if self.kind == "age" else "age"
            raise ValueError(
                f'limit "{self.name}": `{key}` is of searches for an {other} limit; leave it out, '
                f'or write `kind = "{other}"`'
            )
        return self
