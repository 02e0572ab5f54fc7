"""Connections that differ all run long, in words."""

from __future__ import annotations

from fathometer.findings.finding import Finding
from fathometer.findings.render.table import advised, facts, finding
from fathometer.findings.words import count, duration

facts({"level of connections": "{connections:count connection} at {median:duration}: {names}"})
advised(
    {
        "ways": (
            "{path}: judge this path by many connections, and where latency counts open more than you need "
            "and keep the fast ones: a connection keeps its way for life, and some ways are "
            "{gap:duration} longer. Routers choose among ways of equal cost (ECMP), and balancers among "
            "servers, by addresses and ports"
        )
    }
)


@finding("connections differ", 72)
def _connections_differ(f: Finding) -> str:
    slower, of, levels, recordings, every = (
        int(f.quantities[name].value)
        for name in ("slower", "of", "levels", "recordings", "recordings of all")
    )
    low, high, gap = (duration(f.quantities[name].value) for name in ("low", "high", "gap"))
    verb = "is" if slower == 1 else "are"
    by = f"{gap} slower than the others" if levels == 2 else f"up to {gap} slower than the fastest"
    where = "" if every == 1 else f" (and so in {recordings:,} of {count(every, 'recording')})"
    return (
        f"{slower:,} of {count(of, 'connection')} {verb} {by} all run long ({high}, not {low}): "
        f"{f.terms['connections']}{where}"
    )
