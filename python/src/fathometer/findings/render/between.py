"""A proxy or balancer between a probe and its server, in words."""

from __future__ import annotations

from fathometer.findings.finding import Finding
from fathometer.findings.render.table import finding
from fathometer.findings.words import duration


@finding("third party", 65)
def _third_party(f: Finding) -> str:
    connect, shortest, behind = (duration(f.quantities[n].value) for n in ("connect", "shortest", "behind"))
    seen = f"connections are made in {connect}, and no round trip takes less than {shortest}"
    if f.terms["server"]:
        return (
            f"{seen}: a proxy or load balancer between answers the handshake, or the server takes that long "
            f"for each answer; whose the {behind} behind the handshake are is not known"
        )
    return (
        f"{seen}: a proxy or load balancer between answers the handshake, and {behind} of each round trip "
        "lie behind it"
    )
