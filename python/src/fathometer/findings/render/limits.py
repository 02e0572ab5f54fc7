"""What searches for limits found, in words."""

from __future__ import annotations

from typing import Final

from fathometer.findings.render.table import facts, findings

_FOUND: Final = {
    "limit found": (78, "{limit} limit between {low:duration} and {high:duration}"),
    "limit band": (
        78,
        (
            "{limit} limit is a band: safe up to {low:duration}, dead from {high:duration} on, and between "
            "the two some died"
        ),
    ),
    "limit below": (78, "{limit} limit below {high:duration}"),
    "no limit": (40, "no {limit} limit up to {low:duration}"),
    "limit not answered": (
        70,
        "{limit} limit not known: requests were acknowledged and not answered from {from:duration} on",
    ),
    "limit unclear": (
        70,
        "{limit} limit unclear: connections died from {from:duration} on, of neither one limit nor none",
    ),
    "limit not known": (60, "a search for the {limit} limit found nothing"),
}
_CEILING: Final = {
    "ceiling found": (78, "{began:began} between {low:per second} and {high:per second}"),
    "no ceiling": (40, "no rate ceiling up to {low:per second}"),
    "ceiling not known": (60, "a search for the rate ceiling found nothing"),
}
_OVER: Final = {
    "": "",
    " of one": ", over one connection",
    " of several": ", over {connections:count connection}",
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
findings(
    {
        kind + code: (weight, text + over)
        for kind, (weight, text) in _CEILING.items()
        for code, over in _OVER.items()
    }
)
facts(
    {
        "ceiling good": "at {rate:per second} {lost} of {of:count packet} were lost",
        "ceiling bad": "at {rate:per second} {lost} of {of:count packet} were lost, "
        "in a step that was worse than those below it",
        "limit survived": "{hits} of {of:count connection} lived on after {lasted:duration} ({limit} limit)",
        "limit not answered": "{connections:count connection} acknowledged a request after {lasted:duration} "
        "and more and did not answer it ({limit} limit): the application there, or behind a proxy, and no "
        "limit of the path",
        "limit unclear": "{connections:count connection} died, the first within {lasted:duration}, and no "
        "single {limit} limit explains them (`fathom recording explain` tells why)",
        "limit died": "{hits} of {of:count connection} died within {lasted:duration} ({limit} limit)",
    }
)
