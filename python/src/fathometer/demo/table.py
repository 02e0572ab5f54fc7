"""What the demo prints: round trips, what lies between, the migration, advice."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import Console
from rich.table import Table

from fathometer.demo.staged import Staged
from fathometer.findings import render
from fathometer.findings.finding import Advice, Incident
from fathometer.findings.model import Analysis, Scenario, Versus
from fathometer.report.interest import harm
from fathometer.stats.results import Interval

BASE: Final = "same-zone"
PAIRS: Final = (
    ("another zone", BASE, "cross-zone"),
    ("another region", "cross-zone", "cross-region"),
    ("load balancer in the zone", BASE, "same-zone-lb"),
    ("load balancer across zones", "cross-zone", "cross-zone-lb"),
    ("VPN gateway in the hub", "spoke-peered", "spoke-vpn"),
    ("firewall in the hub", "spoke-peered", "spoke-firewall"),
    ("Atlantic: balancer, not peering", "transatlantic-peering", "transatlantic-lb"),
    ("Atlantic: endpoint, not peering", "transatlantic-peering", "transatlantic-endpoint"),
    ("Atlantic: balancer, not endpoint", "transatlantic-endpoint", "transatlantic-lb"),
)
"""What is asked of the map: a question in words, and the two scenarios whose medians answer it."""
MOST_ADVICE: Final = 6
MOST_INCIDENTS: Final = 4
NONE_SHOWN: Final = "no difference shown"
TOPICS: Final = ("choice", "time-out", "refresh age", "keepalive")
"""Advice that follows from comparing and from the migration comes before what each path is good for."""


def show(analysis: Analysis, out: Console, staged: Staged | None = None) -> None:
    """Prints the analysis, and the report's findings about a migration that was played."""
    out.print(_medians(analysis))
    if answers := list(_answers(analysis)):
        out.print()
        out.print(
            _table(
                ("what it makes of the median", "difference", "95 % interval", "ratio", "95 %", ""), answers
            )
        )
        if any(row[-1] == NONE_SHOWN for row in answers):
            out.print(f"({NONE_SHOWN}: with so many questions at once, chance alone could do as much.)")
    if staged:
        out.print()
        out.print(f"Played here: {staged}.", soft_wrap=True)
        out.print("From then on the report tells, without being told of it:")
        for line in _seen(analysis.incidents, staged):
            out.print(f"  {line}.", soft_wrap=True)
    if analysis.advice:
        out.print()
        out.print("Advice:")
        for advice in sorted(analysis.advice, key=_rank)[:MOST_ADVICE]:
            out.print(f"  {render.advice(advice)}", soft_wrap=True)
        out.print("  The rest, and what each line rests on, is in the report.")


def _seen(incidents: Sequence[Incident], staged: Staged) -> Iterator[str]:
    """The incidents that may belong to the migration, the costliest ones."""
    since = [i for i in incidents if i.to_ns >= staged.began_ns]
    worst = sorted(since, key=harm, reverse=True)[:MOST_INCIDENTS]
    yield from (render.incident(i) for i in since if i in worst)
    if not since:
        yield "nothing that stands out"
    elif not any(i.kind == "migration" for i in since):
        yield "none of these is called a migration: what tells it from a pause of the host was not seen"


def _rank(advice: Advice) -> int:
    return TOPICS.index(advice.topic) if advice.topic in TOPICS else len(TOPICS)


def _medians(analysis: Analysis) -> Table:
    rows: list[tuple[str, ...]] = []
    for scenario in analysis.scenarios:
        estimate = scenario.figure("p50")
        base = next((v for v in analysis.comparisons if {v.a, v.b} == {BASE, scenario.name}), None)
        ratio, interval = _ratio(base, BASE) if base else (None, None)
        rows.append(
            (
                scenario.name,
                _via(scenario),
                f"{scenario.rtt.count:,}",
                _ms(estimate.value),
                _between(estimate.interval),
                "" if ratio is None else f"{ratio:.3g}×",
                "" if interval is None else f"{interval.low:.3g} … {interval.high:.3g}",
            )
        )
    return _table(("path", "by way of", "samples", "median", "95 % interval", f"to {BASE}", "95 %"), rows)


def _answers(analysis: Analysis) -> Iterator[tuple[str, ...]]:
    by_pair = {frozenset((v.a, v.b)): v for v in analysis.comparisons}
    for question, a, b in PAIRS:
        versus = by_pair.get(frozenset((a, b)))
        if versus is None:
            continue
        median = versus.of("p50")
        # B is the slower one of the pair, whichever the question calls so.
        sign = 1 if versus.a == a else -1
        ratio, interval = _ratio(versus, a)
        low_high = median.difference_interval
        if low_high is not None and sign < 0:
            low_high = Interval(-low_high.high, -low_high.low, low_high.level)
        yield (
            question,
            f"{sign * median.difference / 1e6:+z,.3f} ms",
            _between(low_high),
            f"{ratio:.3g}×",
            "" if interval is None else f"{interval.low:.3g} … {interval.high:.3g}",
            "" if median.differs else median.verdict,
        )


def _ratio(versus: Versus, base: str) -> tuple[float, Interval | None]:
    """The other one's median to that of `base`."""
    median = versus.of("p50")
    if versus.a == base:
        return median.ratio, median.ratio_interval
    interval = median.ratio_interval
    return 1 / median.ratio, interval and Interval(1 / interval.high, 1 / interval.low, interval.level)


def _between(interval: Interval | None) -> str:
    return "" if interval is None else f"{interval.low / 1e6:z,.3f} … {interval.high / 1e6:z,.3f}"


def _ms(ns: float) -> str:
    """All in one unit, so that a column can be read down."""
    return "–" if math.isnan(ns) else f"{ns / 1e6:,.3f} ms"


def _via(scenario: Scenario) -> str:
    via = scenario.runs[0].recording.manifest.path.via
    return via or ""


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> Table:
    table = Table(*head, box=None, pad_edge=False)
    for column in table.columns[2 if head[1] == "by way of" else 1 :]:
        column.justify = "right"
    for row in rows:
        table.add_row(*row)
    return table
