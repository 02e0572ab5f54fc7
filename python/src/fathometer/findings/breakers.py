"""How large the window of a circuit breaker may be, by the rate of the requests that were recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from fathometer.dataset.client import Tries
from fathometer.findings import library_settings
from fathometer.findings.finding import Advice, Fact, ns, number
from fathometer.findings.policies import Application, by_policy
from fathometer.stats.breaker import Span, false_alarms, opens_after

DEFAULT_CALLS: Final = 100
"""Resilience4j's window, and calls before which it decides nothing (`DEFAULT_SLIDING_WINDOW_SIZE` and
`DEFAULT_MINIMUM_NUMBER_OF_CALLS` in its CircuitBreakerConfig.java); those of our policies too."""
WINDOWS: Final = (50, 20, 10)
"""Of what may be advised, the largest first. Fewer calls than ten say little."""
FEWEST_FAILED: Final = 10
"""Tries that fail in a trouble, below which a breaker is no remedy for it."""
FEWEST_TROUBLES: Final = 3
"""From which on the advice is more than a guess."""


def advice(applications: Sequence[Application]) -> list[Advice]:
    """One for each path, policy and rate at which the defaults would not have opened in some trouble: by its
    retries and its time-outs a policy makes other tries of the same trouble than another.
    """
    # A breaker of its own kept tries from being made.
    tried = [a for a in applications if a.client.tries is not None and not a.client.policy.get("breaker")]
    every = []
    for named in by_policy(tried).values():
        for policy, group in named.items():
            path = group[0].path
            every += list(_advice(path if path == policy else f"{path}, {policy}", group))
    return every


def _advice(name: str, group: Sequence[Application]) -> Iterator[Advice]:
    seen = [
        (a, tries, troubles) for a in group if (tries := a.client.tries) and (troubles := _troubles(a, tries))
    ]
    spans = [span for _, _, troubles in seen for span in troubles]
    interval = group[0].client.interval_ns
    if not spans or not interval:
        return

    def after(calls: int) -> list[int | None]:
        return [t for _, tries, each in seen for t in opens_after(tries.ended_ns, tries.failed, each, calls)]

    def in_time(opened: Sequence[int | None]) -> int:
        halves = [(end - begin) / 2 for begin, end in spans]
        return sum(t is not None and t <= half for t, half in zip(opened, halves, strict=True))

    default = after(DEFAULT_CALLS)
    if None not in default:
        return

    def alarms(calls: int) -> int:
        return sum(
            false_alarms(tries.ended_ns, tries.failed, [*each, *_open(a)], calls) for a, tries, each in seen
        )

    # Of those that open in time the one that opens least without an outage, and of these the largest.
    timely = [n for n in WINDOWS if in_time(after(n)) == len(spans)]
    calls = min(timely, key=alarms, default=None)
    if calls is None or alarms(calls) > len(spans):
        return
    quantities = {
        "calls": number(calls),
        "window": ns(calls * interval),
        "default calls": number(DEFAULT_CALLS),
        "default window": ns(DEFAULT_CALLS * interval),
        "opened": number(sum(t is not None for t in default)),
        "troubles": number(len(spans)),
        "after": ns(max(t for t in after(calls) if t is not None)),
        "alarms": number(alarms(calls)),
    }
    lengths = [end - begin for begin, end in spans]
    yield Advice(
        "breaker",
        (name,),
        quantities,
        facts=(
            Fact(
                "troubles",
                {"times": number(len(spans)), "shortest": ns(min(lengths)), "longest": ns(max(lengths))},
            ),
            Fact(
                "false alarms" if alarms(calls) else "no false alarm",
                {"alarms": number(alarms(calls), "times")},
            ),
        ),
        evidence=tuple(a.recording.manifest.id for a, _, _ in seen),
        confidence="medium" if len(spans) >= FEWEST_TROUBLES and not alarms(calls) else "low",
        recipes=library_settings.breaker(calls),
    )


def _open(a: Application) -> list[Span]:
    """A trouble that is not known to be over: what would open in it is no false alarm."""
    origin = a.client.origin_ns or 0
    began = [origin + t.began_ns for t in a.client.troubles or () if t.lasted_ns is None]
    return [(at, np.iinfo(np.int64).max) for at in began]


def _troubles(a: Application, tries: Tries) -> list[Span]:
    """Those that were over, and in which so many tries failed that a breaker could know."""
    origin = a.client.origin_ns
    if origin is None:
        return []
    ended = [(origin + t.began_ns, t.lasted_ns) for t in a.client.troubles or ()]
    spans = [(began, began + lasted) for began, lasted in ended if lasted is not None]
    failed_ns = tries.ended_ns[tries.failed]
    edges = np.searchsorted(failed_ns, np.array(spans, dtype=np.int64).reshape(-1, 2))
    return [
        span
        for span, (first, last) in zip(spans, edges.tolist(), strict=True)
        if last - first >= FEWEST_FAILED
    ]
