"""What searches for limits found, in words."""

from __future__ import annotations

from fathometer.findings.render.table import facts, findings

findings(
    {
        "limit found": (78, "{limit} limit between {low:duration} and {high:duration}"),
        "limit below": (78, "{limit} limit below {high:duration}"),
        "no limit": (40, "no {limit} limit up to {low:duration}"),
        "limit not known": (60, "a search for the {limit} limit found nothing"),
    }
)
facts(
    {
        "limit survived": "{hits} of {of:count connection} lived on after {lasted:duration} ({limit} limit)",
        "limit died": "{hits} of {of:count connection} died within {lasted:duration} ({limit} limit)",
    }
)
