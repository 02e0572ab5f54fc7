"""Placement: what a measured path is good for, in the articles' classes, by its p99 and not by its mean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from fathometer.findings.finding import Advice, Fact, Quantity, ns, number, times
from fathometer.findings.groups import grouped
from fathometer.findings.growth import Growth
from fathometer.findings.model import Scenario, Versus, is_making
from fathometer.stats.family import Difference, Metric
from fathometer.stats.results import Interval

CLASSES = (
    (
        1_000_000,
        "below 1 ms",
        "fit for synchronous replication and for whatever makes many round trips in a row",
    ),
    (
        3_000_000,
        "1 to 3 ms",
        "fit for most services; chatty transactions multiply it by their number of round trips",
    ),
    (
        float("inf"),
        "above 3 ms",
        "batch round trips or replicate asynchronously; not for synchronous, chatty use",
    ),
)
_SURELY: Final = 1.96
"""Standard errors beyond which a difference of losses is no matter of chance."""
"""Bounds in ns, from the articles' advice for same-zone, cross-zone and cross-region placement."""


def placement(scenarios: Sequence[Scenario]) -> list[Advice]:
    """One a class, with all the paths in it."""
    by_class: dict[tuple[str, str], list[tuple[Scenario, Fact, bool]]] = {}
    for s in scenarios:
        named = class_of(s)
        if named is None:
            continue
        estimate = s.figure("p99")
        unit = "runs" if s.of_runs.get("p99") else "samples"
        value = {"value": ns(estimate.value, estimate.interval), "count": number(estimate.count)}
        terms = {"figure": f"{s.name}: p99", "unit": unit}
        fact = Fact("figure", value, terms, id=f"{s.name}/p99")
        sure = estimate.interval is not None and (
            _class(estimate.interval.low) == _class(estimate.interval.high) == named
        )
        by_class.setdefault(named, []).append((s, fact, sure))
    return [
        Advice(
            "placement",
            tuple(s.name for s, _, _ in members),
            terms={"class": name, "use": use},
            facts=(
                *(fact for _, fact, _ in members),
                *(Fact("another class", terms={"path": s.name}) for s, _, sure in members if not sure),
            ),
            evidence=tuple(fact.id for _, fact, _ in members),
            confidence="high" if all(sure for _, _, sure in members) else "medium",
            actionable=False,
        )
        for (name, use), members in by_class.items()
    ]


def class_of(s: Scenario) -> tuple[str, str] | None:
    """Which class a path is in and what that is good for: a column of the table. None: its p99 cannot say.

    What the tables do not show, advice does not rest on; and a loaded path says nothing of its length. Nor do
    the moments around silences, and the making of connections is more than the path.
    """
    estimate = s.figure("p99")
    if estimate.interval is None or s.key.under_load or s.key.silence or is_making(s.key.mode):
        return None
    return _class(estimate.value)


def _class(value: float) -> tuple[str, str]:
    return next((name, use) for bound, name, use in CLASSES if value < bound)


def choices(
    scenarios: Sequence[Scenario], comparisons: Sequence[Versus], metric: Metric | None = None
) -> list[Advice]:
    """Which of two scenarios to prefer, where the user grouped them (`groups`). By the metric that the user
    named; without one by median and p99, where neither they nor the mean contradict. Never one that surely
    loses more: figures of answered samples say nothing of the others.
    """
    by_name = {s.name: s for s in scenarios}
    advice = []
    for v in comparisons:
        a, b = by_name[v.a], by_name[v.b]
        if not grouped(a, b):
            continue
        differences = [v.of(m) for m in ((metric,) if metric else ("p99", "p50", "mean"))]
        sides = {d.verdict for d in differences if d.differs}
        shown = next((d for d in differences if d.differs and (metric or d.metric != "mean")), None)
        if shown is None or len(sides) > 1:
            continue
        fast, slow = (a, b) if shown.verdict == "slower" else (b, a)
        if not _loses_more(fast, slow):
            advice.append(_choice(v, fast, slow, shown, differences))
    return advice


def _loses_more(fast: Scenario, slow: Scenario) -> bool:
    """Whether the faster one leaves more of what was due without an answer, by more than chance. Losses come
    in rows, and are taken as if they did not: whoever is preferred by mistake costs more than silence.
    """
    lost = [s.lost + s.unsent for s in (fast, slow)]
    # Two of each are added (Agresti and Caffo), so that none of few is no proof of none.
    shares = [(k + 1) / (s.due + 2) for k, s in zip(lost, (fast, slow), strict=True)]
    variances = [p * (1 - p) / (s.due + 2) for p, s in zip(shares, (fast, slow), strict=True)]
    return shares[0] - shares[1] > _SURELY * math.sqrt(sum(variances))


def _losses(s: Scenario) -> Fact:
    amounts = {"lost": number(s.lost + s.unsent), "due": number(s.due, "samples")}
    return Fact("not answered", amounts, {"path": s.name}, id=f"{s.name}/availability")


def _choice(
    v: Versus, faster: Scenario, slower: Scenario, shown: Difference, differences: Sequence[Difference]
) -> Advice:
    """`shown`: the difference that it rests on; what is slower is what is left."""
    fast, slow = faster.name, slower.name
    facts = tuple(
        Fact(
            "growth",
            _told(d, fast == v.b),
            {"figure": d.metric, "verdict": _verdict(d)},
            id=f"{v.a}|{v.b}/{d.metric}",
        )
        for d in differences
    )
    facts += tuple(_losses(s) for s in (faster, slower) if s.lost + s.unsent)
    interval = shown.difference_interval
    if interval is not None and shown.difference < 0:
        interval = Interval(-interval.high, -interval.low, interval.level)
    return Advice(
        "choice",
        (fast, slow),
        {"ratio": _told(shown, fast == v.b)["ratio"]},
        {"figure": shown.metric},
        saves=ns(abs(shown.difference), interval),
        facts=facts,
        evidence=tuple(fact.id for fact in facts),
        confidence="medium" if any(d.doubt for d in differences) else "high",
    )


def _verdict(d: Difference) -> str:
    return "shown" if d.differs else d.verdict


def _told(d: Difference, turned: bool) -> dict[str, Quantity]:
    """From the faster to the slower."""
    growth = Growth(d, turned)
    return {
        "plain": ns(growth.plain),
        "changed": ns(growth.changed),
        "ratio": times(growth.ratio, growth.ratio_interval),
    }
