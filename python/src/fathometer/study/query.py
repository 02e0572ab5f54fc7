"""Queries of a database in a study: ``fathom sql`` on each scenario, of our own server for clients of SQL
Server (``fathom echo --tds``) or a PostgreSQL, which the study starts, or of a database that is there.
"""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import Field, model_validator

from fathometer.study.postgres import DATABASE, USER
from fathometer.study.shape import Duration, Name, Size, StudyTable, Text

_USUAL_COUNT: Final = 21
"""Of `fathom sql`."""
_USUAL_LOGINS: Final = 10
_ROUNDS: Final = 3
"""Of a login. Sizes of packets log in anew now and then, each time with a query that finds nothing warm."""
_GUESS_NS: Final = 100_000_000
"""What a query takes, for the estimate alone."""
_SLOWEST_NS: Final = 5_000_000_000
"""And at most."""
_Packet = Annotated[int, Field(ge=512, le=32_767)]
_Fetch = Annotated[int, Field(ge=0, le=1_000_000_000)]


class Query(StudyTable):
    """A query, asked again and again."""

    name: Name = "query"
    database: Literal["tds", "postgres", "mssql"] = "tds"
    """`tds`: our own server, on the scenario's port; else what listens there."""
    start: bool = False
    """Of `postgres`: nothing listens there, and the study starts one."""
    user: Name = USER
    """Whose password the environment says (docs/databases.md)."""
    schema_: Name = Field(default=DATABASE, alias="name-of-database")
    query: Text | None = None
    rows: int | None = Field(default=None, ge=1)
    row_bytes: Size | None = None
    think_ns: Duration | None = Field(default=None, alias="think")
    packet_sizes: tuple[_Packet, ...] | None = Field(default=None, min_length=1)
    """Asked in turn."""
    fetch_sizes: tuple[_Fetch, ...] | None = Field(default=None, min_length=1)
    encrypt: bool = False
    connections: int = Field(default=1, ge=1, le=64)
    """Side by side, each of which asks."""
    count: int | None = Field(default=None, ge=1, le=1_000_000_000)
    """Of each setting, on each connection."""
    for_ns: Duration | None = Field(default=None, alias="for")
    every_ns: Duration | None = Field(default=None, alias="every")

    mode: ClassVar[Literal["connect"]] = "connect"
    """Of the round trips beside its queries."""
    interval_ns: ClassVar[None] = None
    sizes: ClassVar[None] = None
    all_sizes: ClassVar[tuple[int, ...]] = (0,)

    @property
    def protocol(self) -> Literal["tds", "postgres"] | None:
        """What the server that the study starts answers; None: it is one of the user's own."""
        if self.database == "postgres" and self.start:
            return "postgres"
        return "tds" if self.database == "tds" else None

    @property
    def settings(self) -> int:
        """How many are asked in turn."""
        return len(self.packet_sizes or ()) or len(self.fetch_sizes or ()) or 1

    @property
    def each(self) -> int:
        """How often each setting is asked: as `fathom sql` does where nobody says it."""
        if self.count is not None or len(self.packet_sizes or ()) < 2:
            return self.count or _USUAL_COUNT
        # An interval needs 1 - 2 / 2^n >= 1 - 0.05 / (settings - 1).
        needed = 1 + math.ceil(math.log2(20 * (self.settings - 1)))
        return _ROUNDS * max(needed, _USUAL_LOGINS)

    @property
    def in_all(self) -> int:
        """Queries, where they are counted."""
        return self.of_connection * self.connections

    @property
    def of_connection(self) -> int:
        """Queries on each connection, where they are counted."""
        return self.each * self.settings

    @property
    def longest_ns(self) -> int:
        """How long it is taken to last."""
        return self.for_ns if self.for_ns is not None else self.of_connection * (self.every_ns or _GUESS_NS)

    @property
    def slowest_ns(self) -> int:
        """How long it may last; a server may answer all connections one after the other."""
        if self.for_ns is not None:
            return self.for_ns
        return self.of_connection * self.every_ns if self.every_ns else self.in_all * _SLOWEST_NS

    @property
    def scheme(self) -> str:
        """Of its URL."""
        return "postgres" if self.database == "postgres" else "mssql"

    @property
    def parameters(self) -> str:
        """Of its URL: without them a client of SQL Server insists on encryption."""
        return f"?sslmode={'require' if self.encrypt else 'disable'}"

    @model_validator(mode="after")
    def _takes(self) -> Self:
        """What `fathom sql` would refuse."""
        if self.start and self.database != "postgres":
            raise ValueError(f'query "{self.name}": `start` is for `database = "postgres"`; leave it out')
        if self.start and (self.user, self.schema_, self.encrypt) != (USER, DATABASE, False):
            what = "`user`, `name-of-database` and `encrypt`"
            raise ValueError(f'query "{self.name}": a server that is started has its own; leave {what} out')
        if self.packet_sizes is not None and self.database == "postgres":
            raise ValueError(f'query "{self.name}": PostgreSQL has no packets; leave `packet-sizes` out')
        if self.fetch_sizes is not None and self.database != "postgres":
            raise ValueError(f'query "{self.name}": `fetch-sizes` are PostgreSQL\'s; leave them out')
        if self.query is not None and (self.rows is not None or self.row_bytes is not None):
            raise ValueError(f'query "{self.name}" has both `query` and `rows`; leave one of them out')
        if self.connections > 1 and self.settings > 1:
            what = "packet-sizes" if self.packet_sizes else "fetch-sizes"
            raise ValueError(
                f'query "{self.name}": several connections ask with one setting; leave one of `{what}` and'
                " `connections` out"
            )
        if self.for_ns is not None and self.count is not None:
            raise ValueError(f'query "{self.name}" has both `for` and `count`; leave one of them out')
        return self

    def words(self) -> list[str]:
        """Of `fathom sql`, after its URL."""
        told = {
            "--query": self.query,
            "--rows": self.rows,
            "--row-bytes": self.row_bytes,
            "--connections": self.connections if self.connections > 1 else None,
            "--count": self.count,
            "--packet-size": _listed(self.packet_sizes),
            "--fetch-size": _listed(self.fetch_sizes),
        }
        words = [word for name, value in told.items() if value is not None for word in (name, str(value))]
        spans = {"--think": self.think_ns, "--for": self.for_ns, "--every": self.every_ns}
        return words + [w for name, ns in spans.items() if ns is not None for w in (name, f"{ns}ns")]


def _listed(sizes: tuple[int, ...] | None) -> str | None:
    return None if sizes is None else ",".join(map(str, sizes))
