"""Placement: what a measured path is good for, in the articles' classes, by its p99 and not by its mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fathometer.findings.finding import Advice, Confidence, Fact, ns, number, times
from fathometer.findings.model import Key, Scenario, Versus, is_making

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
"""Bounds in ns, from the articles' advice for same-zone, cross-zone and cross-region placement."""


def placement(scenarios: Sequence[Scenario]) -> list[Advice]:
    """One a scenario whose p99 is supported."""
    made = []
    for s in scenarios:
        estimate = s.figure("p99")
        # What the tables do not show, advice does not rest on; and a loaded path says nothing of its length.
        # Nor do the moments around silences, and the making of connections is more than the path.
        if estimate.interval is None or s.key.under_load or s.key.silence or is_making(s.key.mode):
            continue
        confidence: Confidence = "high"
        unit = "runs" if s.of_runs.get("p99") else "samples"
        value = ns(estimate.value, estimate.interval)
        figure = {"value": value, "count": number(estimate.count)}
        facts = [Fact("figure", figure, {"figure": "p99", "unit": unit}, id=f"{s.name}/p99")]
        if _class(estimate.interval.low)[0] != _class(estimate.interval.high)[0]:
            confidence = "medium"
            facts.append(Fact("another class"))
        name, use = _class(estimate.value)
        made.append(
            Advice(
                "placement",
                (s.name,),
                {"p99": value},
                {"class": name, "use": use},
                facts=tuple(facts),
                evidence=(f"{s.name}/p99",),
                confidence=confidence,
                actionable=False,
            )
        )
    return made


def _class(value: float) -> tuple[str, str]:
    return next((name, use) for bound, name, use in CLASSES if value < bound)


def choices(scenarios: Sequence[Scenario], comparisons: Sequence[Versus]) -> list[Advice]:
    """Where two scenarios go by the same names but for one word, which of them to prefer; told only where a
    difference is shown.
    """
    made = []
    keys = {s.name: s.key for s in scenarios}
    for v in comparisons:
        shown = v.of("p99")
        if shown.ratio_interval is None or not shown.differs:
            continue
        if not _siblings(v.a, v.b) or not _alike(keys[v.a], keys[v.b]):
            continue
        fast, slow = (v.a, v.b) if shown.ratio > 1 else (v.b, v.a)
        turned = shown.ratio < 1
        interval = shown.ratio_interval
        if turned:
            interval = replace(interval, low=1 / interval.high, high=1 / interval.low)
        ratio = times(1 / shown.ratio if turned else shown.ratio, interval)
        fact = Fact(
            "ratio",
            {"ratio": ratio},
            {"figure": "p99", "pairing": v.pairing},
            id=f"{v.a}|{v.b}/p99",
        )
        made.append(
            Advice(
                "choice",
                (fast, slow),
                {"ratio": ratio},
                saves=ns(abs(shown.difference)),
                facts=(fact,),
                evidence=(fact.id,),
                confidence="high" if not shown.doubt else "medium",
            )
        )
    return made


def _alike(a: Key, b: Key) -> bool:
    """Measured alike: a difference of size, pacing or load is not a choice of path."""
    return replace(a, label=b.label) == b


def _siblings(a: str, b: str) -> bool:
    """Names that share their first word and differ in little: `same-zone` and `same-zone-lb`, `an-off` and
    `an-on`.
    """
    x, y = (set(name.lower().replace("_", "-").split("-")) for name in (a, b))
    return len(x & y) >= 1 and len(x ^ y) <= 2
