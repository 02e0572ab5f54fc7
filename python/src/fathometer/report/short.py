"""What a reader wants to know in a minute: the report in a few sentences, its findings by their weight."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fathometer.findings.finding import Advice, Finding
from fathometer.findings.model import Analysis, Scenario
from fathometer.findings.render import weight
from fathometer.findings.words import count, duration, listed, moment
from fathometer.report.supported import is_shown
from fathometer.report.tables import is_throughput

MOST_SHOWN = 30
"""Findings that stand in the open; the others are a click away."""
MOST_IN_SHORT = 3
WORTH_TELLING = 50
"""Weight from which a finding stands at the top."""
_SURE = {"high": 9, "medium": 4, "low": 0}


def heaviest(findings: Sequence[Finding]) -> list[Finding]:
    """By weight; equals stay in their order."""
    return sorted(findings, key=weight, reverse=True)


def shown_and_folded(
    findings: Sequence[Finding], most: int = MOST_SHOWN
) -> tuple[list[Finding], list[Finding]]:
    """The most important ones and the rest, each in its old order."""
    if len(findings) <= most:
        return list(findings), []
    shown = {id(f) for f in heaviest(findings)[:most]}
    return [f for f in findings if id(f) in shown], [f for f in findings if id(f) not in shown]


def in_short(analysis: Analysis) -> list[str]:
    """The report in sentences, most important first."""
    said = [_measured(analysis)]
    if any(not is_throughput(s) for s in analysis.scenarios):
        said += _fastest([s for s in analysis.scenarios if s.rtt.count])
    said += _differences(analysis)
    return said


def told_first(analysis: Analysis) -> tuple[list[Finding], list[Advice]]:
    """The findings and the advice that stand beneath those sentences."""
    worth = [f for f in heaviest(analysis.findings) if weight(f) >= WORTH_TELLING]
    chosen: list[Finding] = []
    for finding in worth:
        # Five deaths of one scenario are one thing to say at the top; the list below tells each.
        if all((f.kind, f.scenario) != (finding.kind, finding.scenario) for f in chosen):
            chosen.append(finding)
    by_weight = sorted(analysis.advice, key=lambda a: (not a.actionable, -_SURE[a.confidence]))
    return chosen[:MOST_IN_SHORT], by_weight[:MOST_IN_SHORT]


def _measured(analysis: Analysis) -> str:
    if not analysis.recordings:
        tools = listed(sorted({s.tool for s in analysis.summaries}))
        return f"{count(len(analysis.summaries), 'summary', 'summaries')} of {tools}, without samples."
    tests = [s for s in analysis.scenarios if is_throughput(s)]
    runs = sum(len(s.runs) for s in tests)
    sent, lost = sum(s.sent for s in analysis.scenarios), sum(s.unanswered for s in analysis.scenarios)
    first = [t for r in analysis.recordings if (t := r.totals.first_sent_ns) is not None]
    last = [t for r in analysis.recordings if (t := r.totals.last_sent_ns) is not None]
    said = (
        f"{count(sent, 'sample')} in {count(len(analysis.recordings) - runs, 'recording')} of "
        f"{count(len(analysis.scenarios) - len(tests), 'scenario')}"
    )
    if runs:
        throughput = count(runs, "throughput test")
        if len(tests) == len(analysis.scenarios):
            return f"{throughput} of {count(len(tests), 'path')}, without round trips."
        said = f"{throughput}, and {said}"
    if first and last and max(last) > min(first):
        said += f", from {moment(min(first))[:16]} to {moment(max(last))[:16]} UTC"
    if not sent:
        return said + ": nothing was sent."
    if lost == sent:
        return said + "; none was answered."
    return said + (f"; {lost:,} ({_share(lost / sent)}) were never answered." if lost else "; all answered.")


def _share(share: float) -> str:
    return f"{100 * share:.1f} %" if share >= 0.001 else "less than 0.1 %"


def _fastest(have: Sequence[Scenario]) -> list[str]:
    if not have:
        return ["There is no round trip to report."]
    fast, slow = have[0], have[-1]
    said = f"{fast.name}: {_figures(fast)}."
    if len(have) == 1:
        return [said]
    ratio = slow.estimates["p50"].value / fast.estimates["p50"].value
    times = f", {ratio:.3g} times the fastest's median" if math.isfinite(ratio) and ratio >= 1.01 else ""
    return [f"Fastest: {said}", f"Slowest: {slow.name}: {_figures(slow)}{times}."]


def _figures(s: Scenario) -> str:
    if s.rtt.count < 2:
        return f"a single round trip of {duration(s.rtt.min_ns or 0)}, from which no spread can be told"
    p50 = s.estimates["p50"]
    if not is_shown(p50):
        return (
            f"{count(s.rtt.count, 'round trip')} between {duration(s.rtt.min_ns or 0)} and "
            f"{duration(s.rtt.max_ns or 0)}, too few for a median"
        )
    said = [f"median {duration(p50.value)}"]
    for name in ("p99", "p99_9"):
        e = s.estimates[name]
        if is_shown(e):
            said.append(f"{name.replace('_', '.')} {duration(e.value)}")
    return listed(said)


def _differences(analysis: Analysis) -> list[str]:
    if not analysis.comparisons:
        return []
    medians = [v.of("p50") for v in analysis.comparisons]
    differ = sum(d.differs for d in medians)
    alike = [v for v, d in zip(analysis.comparisons, medians, strict=True) if d.decided and not d.differs]
    open_ = sum(not d.decided for d in medians)
    if len(medians) == 1:
        if differ:
            gap = duration(abs(medians[0].difference))
            return [f"The difference of the medians, {gap}, is shown by the data."]
        if medians[0].verdict == "no difference that matters":
            return ["The medians differ by nothing that matters."]
        return [
            "A difference of the medians is not shown." if alike else "Whether they differ cannot be decided."
        ]
    said = f"Of {count(len(medians), 'pair')} of scenarios, the medians of {differ:,} differ"
    if alike:
        names = [f"{v.a} and {v.b}" for v in alike[:3]]
        more = f" (and {len(alike) - 3:,} more pairs)" if len(alike) > 3 else ""
        said += f"; no difference that matters is shown between {'; between '.join(names)}{more}"
    if open_:
        said += f"; {count(open_, 'pair')} cannot be decided"
    return [said + "."]
