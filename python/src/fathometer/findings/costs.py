"""What a path's round trips cost an application that makes many: batching, reuse of connections, caching."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from fathometer.findings.finding import Advice, Confidence, Fact, Quantity, ns, number, times
from fathometer.findings.model import Scenario, is_making
from fathometer.stats.results import Estimate
from fathometer.stats.runs import median_of_runs

ROUND_TRIPS: Final = 10
"""Of one transaction whose cost is reckoned: a handful of statements, one after another."""
WORTH_BATCHING_NS: Final = 1_000_000
"""Median from which ten round trips in a row are a matter of tens of milliseconds: the articles' bound of
what is fit for chatty use."""
ALLOWED_NS: Final = {"same-zone": 1_000_000, "cross-zone": 3_000_000}
"""What a path of a class (its tag `class`) may cost in the median; one without the tag may cost as much as
the widest of them, for beyond that nothing chatty is fit."""
WIDE: Final = 3
"""How many times its lower end the upper end of the interval of a mean to rely on may be."""
FEWEST_CONNECTIONS: Final = 6
"""From which a median of their set-up has an interval."""
MOST: Final = 3
"""Paths that are named one by one: the costliest."""


def advice(scenarios: Sequence[Scenario]) -> list[Advice]:
    """What to change where round trips are dear, the dearest paths first; silent where they are cheap."""
    paths = [s for s in scenarios if _is_a_path(s)]
    dear = sorted(paths, key=lambda s: -s.figure("p50").value)
    return [*_reuse(paths), *_batches(dear), *_distant(dear)]


def _is_a_path(s: Scenario) -> bool:
    """Whether its figures are of the path itself: not under load, not around silences, with an interval."""
    return not (s.key.under_load or s.key.silence) and s.figure("p50").interval is not None


def _batches(dear: Sequence[Scenario]) -> Iterator[Advice]:
    worth = [s for s in dear if not is_making(s.key.mode) and s.figure("p50").value >= WORTH_BATCHING_NS]
    for s in worth[:MOST]:
        yield Advice(
            "batch",
            (s.name,),
            {"round trips": number(ROUND_TRIPS, "round trips"), "cost": _in_a_row(s, ROUND_TRIPS)},
            saves=_in_a_row(s, ROUND_TRIPS - 1),
            facts=(_figure(s, "mean"),),
            evidence=(f"{s.name}/mean",),
            confidence=_sure(s.figure("mean")),
        )


def _sure(mean: Estimate) -> Confidence:
    """Of what is a multiple of a mean: one that a few samples make may be half or twice of it next time."""
    if mean.interval is None or mean.interval.high > WIDE * mean.interval.low:
        return "low"
    return "medium" if mean.doubt else "high"


def _in_a_row(s: Scenario, number_of: int) -> Quantity:
    """What so many round trips take, one after another: so many means. Ten medians are less, for the slow
    ones add up, too.
    """
    mean = s.figure("mean")
    low, high = (mean.interval.low, mean.interval.high) if mean.interval else (None, None)
    return Quantity(
        number_of * mean.value,
        "ns",
        None if low is None else number_of * low,
        None if high is None else number_of * high,
    )


def _figure(s: Scenario, figure: str) -> Fact:
    e = s.figure(figure)
    figures = {"value": ns(e.value, e.interval), "count": number(e.count)}
    terms = {
        "figure": {"p50": "median"}.get(figure, figure),
        "unit": "runs" if figure in s.of_runs else "samples",
    }
    return Fact("figure", figures, terms, id=f"{s.name}/{figure}")


def _reuse(paths: Sequence[Scenario]) -> Iterator[Advice]:
    """What a connection costs before its first answer, where enough were opened; of the dearest path."""
    measured = [one for s in paths if (one := _setup(s)) is not None]
    for s, saved, connections in sorted(measured, key=lambda one: -one[1].value)[:1]:
        facts = [Fact("connected", {"value": saved, "connections": connections}, id=f"{s.name}/connect")]
        if s.first and s.first.differs:
            facts.append(Fact("first", {"ratio": times(s.first.ratio, s.first.interval)}))
        yield Advice(
            "reuse",
            (s.name,),
            {"connections": connections},
            saves=saved,
            facts=tuple(facts),
            evidence=(f"{s.name}/connect",),
        )


def _setup(s: Scenario) -> tuple[Scenario, Quantity, Quantity] | None:
    # Beside queries fathom makes connections to know the path's round trip: no application's are among them.
    runs = [run for run in s.runs if run.recording.queries is None]
    if not runs:
        return None
    if is_making(s.key.mode):
        p50 = s.figure("p50")
        return s, ns(p50.value, p50.interval), number(p50.count, "connections")
    every = [
        float(c.connect_ns + (c.tls_ns or 0))
        for run in runs
        for c in run.recording.lasting
        if c.connect_ns  # 0: of datagrams, there is nothing to set up.
    ]
    if len(every) < FEWEST_CONNECTIONS:
        return None
    # A first sample that is slower than the others is a part of what a new connection costs.
    p50 = s.figure("p50")
    more = (s.first.ratio - 1) * p50.value if s.first and s.first.differs else 0.0
    median = median_of_runs(np.array(every) + max(more, 0.0))
    return s, ns(median.value, median.interval), number(len(every), "connections")


def _distant(dear: Sequence[Scenario]) -> Iterator[Advice]:
    beyond = []
    for s in dear:
        kind = _class(s)
        allowed = ALLOWED_NS.get(kind, max(ALLOWED_NS.values()))
        p50 = s.figure("p50")
        # Sure to be beyond it, and not by a matter of chance.
        if not is_making(s.key.mode) and p50.interval and p50.interval.low > allowed:
            beyond.append((s, kind, allowed))
    for s, kind, allowed in beyond[:MOST]:
        p50 = s.figure("p50")
        confidence: Confidence = "high" if kind in ALLOWED_NS and not p50.doubt else "medium"
        yield Advice(
            "cache",
            (s.name,),
            {"allowed": ns(allowed)},
            {"class": kind if kind in ALLOWED_NS else ""},
            saves=ns(p50.value, p50.interval),
            facts=(_figure(s, "p50"),),
            evidence=(f"{s.name}/p50",),
            confidence=confidence,
        )


def _class(s: Scenario) -> str:
    kinds = {run.recording.manifest.path.tags.get("class", "") for run in s.runs}
    return kinds.pop() if len(kinds) == 1 else ""
