"""What searches for limits found, in words."""

from __future__ import annotations

from typing import Final

from fathometer.findings.render.table import facts, findings

_FOUND: Final = {
    "limit found": (78, "{limit} limit between {low:duration} and {high:duration}"),
    "limit below": (78, "{limit} limit below {high:duration}"),
    "no limit": (40, "no {limit} limit up to {low:duration}"),
    "limit not known": (60, "a search for the {limit} limit found nothing"),
}
_MEANWHILE: Final = {
    "": "",
    " despite keepalives": ", with a keepalive every {every:duration}",
    " despite traffic from here": ", with traffic from this host alone every {every:duration}",
    " despite traffic from there": ", with traffic from the reflector alone every {every:duration}",
}
"""What moved on connections that were idle otherwise."""
findings(
    {
        kind + code: (weight, text + meanwhile)
        for kind, (weight, text) in _FOUND.items()
        for code, meanwhile in _MEANWHILE.items()
    }
)
facts(
    {
        "limit survived": "{hits} of {of:count connection} lived on after {lasted:duration} ({limit} limit)",
        "limit died": "{hits} of {of:count connection} died within {lasted:duration} ({limit} limit)",
    }
)
