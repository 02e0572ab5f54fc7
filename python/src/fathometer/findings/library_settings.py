"""The one table of what is to be set where: names, units, and what holds without being set. Numbers only;
`render.snippets` writes them as a file has them.

What libraries do by default is what `crates/fathom-settings/src/library` knows, from the libraries' own
sources (docs/limits-check.md). A test holds all of it against `fathom limits check`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from fathometer.findings.finding import Recipe, Setting
from fathometer.findings.values import MARGIN, MIN, Patience, S, half, most_of, round_below

KERNELS_PROBES: Final = 9
"""Keepalives without an answer after which Linux gives a connection up (`net.ipv4.tcp_keepalive_probes`)."""
KERNELS_INTERVAL_NS: Final = 75 * S
"""From one of these to the next (`net.ipv4.tcp_keepalive_intvl`)."""
MOST_PROBES: Final = 127
"""What TCP_KEEPCNT takes (`MAX_TCP_KEEPCNT` in `include/net/tcp.h`)."""
_HIKARIS_LEAST_NS: Final = 30 * S
"""HikariCP takes no shorter time for either."""
_PGX_CHECKS_NS: Final = MIN
"""How often pgxpool looks for connections that are over, by default."""
_Settings = tuple[Setting, ...]


@dataclass(frozen=True, slots=True)
class _Known:
    library: str
    of: Callable[[int], _Settings]
    """What to set; empty: it takes no value that is short enough."""
    default_ns: int | None = None
    """Its defaults end it after so long, in every version that is known."""
    default_by: str = ""


def _seconds(name: str, ns: int) -> Setting:
    return Setting(name, ns, "s")


def _millis(name: str, ns: int) -> Setting:
    return Setting(name, ns, "ms")


def _life(name: str, most_ns: int) -> _Settings:
    return (_seconds(name, round_below(most_ns, S)),) if most_ns >= S else ()


def _hikaris_life(most_ns: int) -> _Settings:
    life = round_below(most_ns)
    return (_millis("maxLifetime", life),) if life >= _HIKARIS_LEAST_NS else ()


def _hikaris_keepalive(limit_ns: int) -> _Settings:
    # Between 30 s and a minute there is no room for one that is lost.
    often = max(half(limit_ns), _HIKARIS_LEAST_NS)
    return (_millis("keepaliveTime", often),) if often < limit_ns else ()


def _pgx(name: str, most_ns: int, limit_ns: int) -> _Settings:
    """What is over is noticed when pgxpool looks: both together stay below the limit."""
    left = most_ns - _PGX_CHECKS_NS
    if left >= limit_ns // 4:
        return (Setting(name, round_below(left), "go"),)
    checks = Setting("pool_health_check_period", round_below(limit_ns // 4), "go")
    return Setting(name, round_below(limit_ns // 2), "go"), checks


def _mysql2s(limit_ns: int) -> _Settings:
    if limit_ns < 2 * S:
        return ()
    switch = Setting("enableKeepAlive", 1, "switch")
    return switch, _millis("keepAliveInitialDelay", half(limit_ns, S))


_IDLE: Final = (
    _Known("hikari", _hikaris_keepalive, 30 * MIN, "maxLifetime"),
    _Known(
        "pgx",
        lambda limit: _pgx("pool_max_conn_idle_time", most_of(limit), limit),
        5 * MIN,
        "TCP keepalive",
    ),
    _Known("sqlalchemy", lambda limit: _life("pool_recycle", most_of(limit)), 120 * MIN, "TCP keepalive"),
    _Known(
        "node-postgres",
        lambda limit: (_millis("idleTimeoutMillis", half(limit)),),
        10 * S,
        "idleTimeoutMillis",
    ),
    _Known(
        "npgsql",
        lambda limit: (_seconds("Keepalive", half(limit, S)),) if limit >= 2 * S else (),
        10 * MIN,
        "Connection Idle Lifetime",
    ),
    _Known("mysql2", _mysql2s),
)
_AGE: Final = (
    _Known("hikari", _hikaris_life, 30 * MIN, "maxLifetime"),
    _Known(
        "pgx",
        # Of the limit that it is nine tenths of.
        lambda most: _pgx("pool_max_conn_lifetime", most, most // 9 * 10),
        61 * MIN,
        "pool_max_conn_lifetime",
    ),
    _Known("sqlalchemy", lambda most: _life("pool_recycle", most)),
    _Known("node-postgres", lambda most: _life("maxLifetimeSeconds", most)),
    _Known("npgsql", lambda most: _life("Connection Lifetime", most)),
)


def keepalive(limit_ns: int, stalled_ns: int = 0) -> tuple[Recipe, ...]:
    """Against an idle limit. `stalled_ns`: the longest stall that recovered; keepalives that fail meanwhile
    must not end the connection.
    """
    return (*_kernels(limit_ns, stalled_ns), *_of(_IDLE, limit_ns, limit_ns))


def lifetime(most_ns: int, limit_ns: int) -> tuple[Recipe, ...]:
    """So that connections do not become older than `most_ns`; what holds by itself holds below `limit_ns`."""
    return _of(_AGE, most_ns, limit_ns)


def _of(known: tuple[_Known, ...], ns: int, limit_ns: int) -> tuple[Recipe, ...]:
    recipes = []
    for k in known:
        if k.default_ns is not None and k.default_ns < limit_ns:
            recipes.append(Recipe(k.library, (), k.default_by))
        elif settings := k.of(ns):
            recipes.append(Recipe(k.library, settings))
    return tuple(recipes)


def _kernels(limit_ns: int, stalled_ns: int) -> tuple[Recipe, ...]:
    if limit_ns < 2 * S:
        return ()
    idle = half(limit_ns, S)
    # One that is lost leaves time for the next.
    interval = min(round_below(limit_ns // 4, S), KERNELS_INTERVAL_NS)
    probes = -(-MARGIN * stalled_ns // interval)
    of_all, of_one = "net.ipv4.tcp_keepalive", "TCP_KEEP"
    all_sockets = [_seconds(f"{of_all}_time", idle), _seconds(f"{of_all}_intvl", interval)]
    one = [_seconds(f"{of_one}IDLE", idle), _seconds(f"{of_one}INTVL", interval)]
    if probes > KERNELS_PROBES:
        all_sockets.append(Setting(f"{of_all}_probes", min(probes, MOST_PROBES), "count"))
        one.append(Setting(f"{of_one}CNT", min(probes, MOST_PROBES), "count"))
    ask = Setting("SO_KEEPALIVE", 1, "count")
    return Recipe("sysctl", tuple(all_sockets)), Recipe("socket", (ask, *one))


def user_timeout(ns: int) -> tuple[Recipe, ...]:
    """Of sockets, and of what can hand it to them. There is no sysctl for it."""
    return (
        Recipe("socket", (_millis("TCP_USER_TIMEOUT", ns),)),
        Recipe("libpq", (_millis("tcp_user_timeout", ns),)),
    )


def retries(p: Patience) -> tuple[Recipe, ...]:
    """Retries that outlast an outage."""
    return (
        Recipe(
            "policy",
            (
                Setting("request.deadline", p.deadline_ns, "duration"),
                Setting("retry.at_most", p.retries, "count"),
                Setting("retry.first", p.first_ns, "duration"),
                Setting("retry.cap", p.cap_ns, "duration"),
                Setting("retry.jitter", "equal", "text"),
                Setting("retry.budget", "none", "text"),
            ),
        ),
        Recipe(
            "resilience4j-retry",
            (
                # It counts the first try too.
                Setting("max-attempts", p.retries + 1, "count"),
                Setting("wait-duration", p.first_ns, "duration"),
                Setting("enable-exponential-backoff", 1, "switch"),
                Setting("exponential-backoff-multiplier", 2, "count"),
                Setting("exponential-max-wait-duration", p.cap_ns, "duration"),
                Setting("enable-randomized-wait", 1, "switch"),
                Setting("randomized-wait-factor", "0.5", "text"),
            ),
        ),
    )


def breaker(calls: int) -> tuple[Recipe, ...]:
    """A window of so many calls, and none before it is full."""
    return (
        Recipe(
            "policy", (Setting("breaker.window", calls, "count"), Setting("breaker.least", calls, "count"))
        ),
        Recipe(
            "resilience4j-breaker",
            (
                Setting("sliding-window-size", calls, "count"),
                Setting("minimum-number-of-calls", calls, "count"),
            ),
        ),
    )
