"""Placement: what a measured path is good for, in the articles' classes, by its p99 and not by its mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fathometer.findings.model import Advice, Confidence, Key, Scenario, Versus, is_making
from fathometer.findings.words import duration
from fathometer.stats.results import Estimate

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
    """One line a scenario whose p99 is supported."""
    made = []
    for s in scenarios:
        estimate = s.figure("p99")
        # What the tables do not show, advice does not rest on; and a loaded path says nothing of its length.
        # Nor do the moments around silences, and the making of connections is more than the path.
        if estimate.interval is None or s.key.under_load or s.key.silence or is_making(s.key.mode):
            continue
        name, use = _class(estimate.value)
        confidence: Confidence = "high"
        what = "runs" if s.of_runs.get("p99") else "samples"
        evidence = [f"p99 {duration(estimate.value)}{_interval(estimate)} from {estimate.count:,} {what}"]
        if _class(estimate.interval.low)[0] != _class(estimate.interval.high)[0]:
            confidence = "medium"
            evidence.append("its interval reaches into another class")
        made.append(Advice("placement", f"{s.name}: p99 {name}: {use}", tuple(evidence), confidence))
    return made


def _class(value: float) -> tuple[str, str]:
    return next((name, use) for bound, name, use in CLASSES if value < bound)


def _interval(estimate: Estimate) -> str:
    if estimate.interval is None:
        return ""
    return f" ({duration(estimate.interval.low)} to {duration(estimate.interval.high)})"


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
        ratio = shown.ratio if shown.ratio > 1 else 1 / shown.ratio
        said = (
            f"prefer {fast} to {slow}: its p99 is {ratio:.2f} times lower ({duration(abs(shown.difference))})"
        )
        low, high = shown.ratio_interval.low, shown.ratio_interval.high
        evidence = (f"ratio of p99 {shown.ratio:.2f} ({low:.2f} to {high:.2f}), {v.pairing}",)
        made.append(Advice("choice", said, evidence, "high" if not shown.doubt else "medium"))
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
