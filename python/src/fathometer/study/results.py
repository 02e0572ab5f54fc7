"""What a run came to, in the words of a line of progress."""

from __future__ import annotations

from fathometer.study.hosts import ProbeSummary
from fathometer.study.limit import Limit
from fathometer.study.live.happenings import ceiling_found, limit_found
from fathometer.study.plan import PlannedRun
from fathometer.study.probe import Probe
from fathometer.study.query import Query


def result(run: PlannedRun, summary: ProbeSummary | None) -> str:
    """Of a run that counts."""
    if isinstance(run.probe, Limit):
        return _limit(summary)
    if isinstance(run.probe, Probe) and run.probe.fills:
        return _carried(summary)
    if isinstance(run.probe, Query):
        return "has ended"
    samples, answered = (summary.of, summary.answered) if summary else (None, None)
    return f"{answered} of {samples} answered{_mean(summary)}"


def _limit(summary: ProbeSummary | None) -> str:
    if summary is None or summary.limit is None:
        return "has ended"
    if summary.limit == "rate":
        low, high = (None if end is None else end.rate_per_s for end in (summary.good, summary.bad))
        return ceiling_found(low, high)
    return limit_found(summary.limit, *summary.limit_ns)


def _carried(summary: ProbeSummary | None) -> str:
    ways = [(way.way, way.carried) for way in (summary.ways or () if summary else ())]
    told = [f"{bits / 1e6:,.1f} Mbit/s {way}" for way, bits in ways if bits is not None]
    return ", ".join(told) or "nothing was counted"


def _mean(summary: ProbeSummary | None) -> str:
    rtt = summary.rtt_ns if summary else None
    if summary is None or rtt is None or not rtt.mean:
        return ""
    of = "" if rtt.count == summary.answered else f" of the {rtt.count} after the warm-up"
    return f", mean {rtt.mean / 1000:,.1f} µs{of}"
