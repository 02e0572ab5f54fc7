"""How much TCP carried, and what it cost: segments sent again, round trips under it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from fathometer.dataset.recording import Recording
from fathometer.dataset.throughput import Flow, Name, Throughput, Way
from fathometer.findings.finding import Fact, Finding, Place, Quantity, ns, number
from fathometer.findings.model import Scenario
from fathometer.findings.parts import recordings_of

DIRECTIONS: dict[Name, str] = {"forward": "from the probe", "reverse": "to the probe"}


@dataclass(frozen=True, slots=True)
class Second:
    """About a second of all streams of one way."""

    at_ns: int
    """When it ended."""
    interval_ns: int
    bits_per_second: float
    omitted: bool


def seconds(test: Throughput, way: Name) -> list[Second]:
    """The rate of a way over time: the first stretches of all its streams together, then the second ones, as
    all streams are read at the same moments. Where one is read a little sooner, what it carried counts over
    the longest of their stretches: bytes are conserved, a sum of rates over unequal stretches is no rate.
    """
    mine = [s for s in test.stretches if s.way == way and s.interval_ns]
    by_stream = [[s for s in mine if s.connection == n] for n in sorted({s.connection for s in mine})]
    every = []
    for row in zip_longest(*by_stream):
        there = [s for s in row if s is not None]
        longest = max(s.interval_ns for s in there)
        rate = sum(s.bytes for s in there) * 8e9 / longest
        every.append(Second(max(s.at_ns for s in there), longest, rate, there[0].omitted))
    return every


def whole_seconds(test: Throughput, way: Name) -> list[Second]:
    """Those that count and may be held against each other: what is left at the end of a test is a moment, and
    no second.
    """
    counting = [s for s in seconds(test, way) if not s.omitted]
    least = max((s.interval_ns for s in counting), default=0) // 2
    return [s for s in counting if s.interval_ns >= least]


def tests(scenarios: Sequence[Scenario]) -> Iterator[tuple[Scenario, Recording, Throughput]]:
    """Every throughput test."""
    for scenario, recording in recordings_of(scenarios):
        if recording.throughput:
            yield scenario, recording, recording.throughput


def findings(scenarios: Sequence[Scenario]) -> list[Finding]:
    """One a test: what it carried each way."""
    return [_finding(*one) for one in tests(scenarios)]


def _finding(scenario: Scenario, recording: Recording, test: Throughput) -> Finding:
    facts = [fact for way in test.ways for fact in _facts(test, way)]
    if test.bitrate_bits_per_second:
        facts.append(Fact("held to", {"rate": number(test.bitrate_bits_per_second, "bit/s")}))
    here, there = test.congestion
    if here or there:
        facts.append(Fact("congestion", terms={"here": here or "", "there": there or ""}))
    if test.ended_early:
        facts.append(Fact("ended early", terms={"why": test.ended_early}))
    carried = {n: q for way in test.ways for n, q in _carried(way).items()}
    return Finding(
        "throughput",
        (Place(scenario.name, recording.manifest.id),),
        confidence="medium" if test.ended_early else "high",
        quantities=carried,
        terms={
            way.name: "receiver" if way.total.received else "sender" for way in test.ways if way.total.carried
        },
        facts=tuple(facts),
    )


def _carried(way: Way) -> dict[str, Quantity]:
    counted, name = way.total.carried, way.name
    if counted is None:
        return {}
    carried = {
        f"{name} rate": number(counted.bits_per_second, "bit/s"),
        f"{name} bytes": number(counted.bytes, "bytes"),
        f"{name} for": ns(counted.duration_ns),
        f"{name} streams": number(len(way.streams)),
    }
    if way.total.retransmits is not None:
        carried[f"{name} sent again"] = number(way.total.retransmits)
    return carried


def _facts(test: Throughput, way: Way) -> Iterator[Fact]:
    rates = [s.bits_per_second for s in whole_seconds(test, way.name)]
    name = {"way": way.name}
    if len(rates) > 1:
        ends = {"slowest": number(min(rates), "bit/s"), "fastest": number(max(rates), "bit/s")}
        yield Fact("seconds", ends, name)
    flow = way.total
    if flow.srtt_us:
        low, mean, high = (ns(us * 1_000) for us in (flow.srtt_us.min, flow.srtt_us.mean, flow.srtt_us.max))
        yield Fact("smoothed", {"mean": mean, "min": low, "max": high}, name)
    missing = _under_way(flow)
    if missing:
        yield Fact("under way", {"bytes": number(missing, "bytes")}, name)


def _under_way(flow: Flow) -> int:
    return max(flow.sent.bytes - flow.received.bytes, 0) if flow.sent and flow.received else 0
