"""Where the time of a database's queries went, and what became of those that failed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fathometer.findings.databases import Asked, PartyTime, databases, shortened
from fathometer.findings.finding import Fact, Finding, Place, Quantity, ns, number
from fathometer.findings.model import Scenario


def findings(scenarios: Sequence[Scenario]) -> list[Finding]:
    """Of each path and query."""
    return [f for one in databases(tuple(scenarios)) for f in _of(one)]


def _of(one: Asked) -> Iterator[Finding]:
    where = (Place(one.path, one.ids[0] if len(one.ids) == 1 else ""),)
    failures = one.failures
    if failures:
        facts = tuple(
            Fact("query failure", {"times": number(n)}, {"why": why}) for why, n in failures.items()
        )
        quantities = {"failed": number(sum(failures.values())), "of": number(one.queries)}
        yield Finding("queries failed", where, quantities=quantities, facts=facts)
    if not one.parts:
        return
    facts = tuple(
        Fact("query part", {"part": _bounded(p)}, {"party": party}) for party, p in one.parts.items()
    )
    if one.asked:
        facts = (Fact("query asked", terms={"asked": shortened(one.asked, _LETTERS)}), *facts)
    if one.retransmits:
        again = {"queries": number(one.sent_again), "segments": number(one.retransmits)}
        facts += (Fact("query sent again", again),)
    if one.apart is not None:
        least, most = one.apart
        ends = {"least": ns(least.median_ns), "most": ns(most.median_ns)}
        which = {"first": number(least.connection), "last": number(most.connection)}
        facts += (Fact("query connections", {"connections": number(len(one.each)), **ends, **which}),)
    facts += tuple(Fact("query not split", {"times": number(n)}, {"why": w}) for w, n in one.no_split.items())
    wall, counted = ns(one.mean_ns), number(one.counted)
    if one.party is None or one.sure is None:
        quantities = {"wall": wall, "open": ns(one.open_ns), "queries": counted}
        yield Finding("query time open", where, confidence="low", quantities=quantities, facts=facts)
        return
    quantities = {"wall": wall, "part": _bounded(one.parts[one.party]), "queries": counted}
    kind = "query time" if one.sure == "high" else "query time likely"
    yield Finding(
        kind, where, confidence=one.sure, quantities=quantities, terms={"party": one.party}, facts=facts
    )


def _bounded(part: PartyTime) -> Quantity:
    return Quantity(part.ns, "ns", part.low_ns, part.high_ns)


_LETTERS = 80
"""Of a query in a sentence."""
