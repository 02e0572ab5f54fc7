"""Settings of a database's queries that make a difference."""

from __future__ import annotations

from collections.abc import Sequence

from fathometer.findings.databases import shortened
from fathometer.findings.finding import Finding, Place, Quantity, number
from fathometer.findings.model import Scenario
from fathometer.findings.sweeps import QuerySweep, Swept, sweeps


def findings(scenarios: Sequence[Scenario]) -> list[Finding]:
    """Of each setting that is faster or slower than the first of its sweep."""
    return [f for s in sweeps(tuple(scenarios)) for one in s.each if (f := _of(s, one)) is not None]


def _of(sweep: QuerySweep, one: Swept) -> Finding | None:
    if one.verdict not in {"slower", "faster"} or one.ratio is None or one.ratio.interval is None:
        return None
    ends = one.ratio.interval
    return Finding(
        "query setting",
        (Place(sweep.path, sweep.ids[0] if len(sweep.ids) == 1 else ""),),
        quantities={
            "ratio": Quantity(one.ratio.value, "times", ends.low, ends.high),
            "count": number(one.ratio.count),
        },
        terms={
            "setting": one.words,
            "first": sweep.each[0].words,
            "asked": shortened(sweep.asked, _LETTERS),
        },
    )


_LETTERS = 80
"""Of a query in a sentence."""
