"""What time-outs would cut off, in words."""

from __future__ import annotations

from fathometer.findings.render.table import findings

findings(
    {
        "time-outs": (
            54,
            (
                "a client that waits for {longest} gives up on {later} of {sent:count sample} "
                "({share:share}), {never} of which had no answer at all"
            ),
        )
    }
)
