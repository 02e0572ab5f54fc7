"""How much one thing may explain of another: no more than it is itself."""

from __future__ import annotations

from typing import Final

from fathometer.dataset.recording import Recording

RETRANSMISSION_NS: Final = 400_000_000
"""By which a silence may outlast even the shortest pause: twice the kernel's least time before it sends again
(RFC 6298, 5.5: the time doubles)."""


def covers(pause_ns: float, silence_ns: float) -> bool:
    """Whether a host that did not run for so long may be all that a silence was.

    It covers most of it, but for what TCP adds: what got lost meanwhile is sent again after times that
    double, the last of which may begin just before the host runs again.
    """
    return silence_ns <= 2 * pause_ns + RETRANSMISSION_NS


def names(recording: Recording, host: str) -> str:
    """By which one host is known in several recordings, separated by spaces: the reflector's identity in its
    own answers, and its address; empty: by nothing.
    """
    manifest = recording.manifest
    if host == "local":
        return f"host:{manifest.host_id}".replace(" ", "_") if manifest.host_id else ""
    known = {f"reflector:{identity}" for identity in recording.responders}
    address = manifest.reflector.get("resolved")
    if isinstance(address, str) and address:
        known.add(f"address:{address}".replace(" ", "_"))
    return " ".join(sorted(known))
