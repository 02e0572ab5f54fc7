"""How much TCP carried, and what it cost: segments sent again, round trips under it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from fathometer.dataset.recording import Recording
from fathometer.dataset.throughput import Flow, Name, Readings, Throughput, Way
from fathometer.findings.model import Finding, Scenario
from fathometer.findings.parts import recordings_of
from fathometer.findings.words import count, data, duration, listed, rate

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
    all streams are read at the same moments.
    """
    mine = [s for s in test.stretches if s.way == way and s.interval_ns]
    by_stream = [[s for s in mine if s.connection == n] for n in sorted({s.connection for s in mine})]
    made = []
    for row in zip_longest(*by_stream):
        there = [s for s in row if s is not None]
        total = sum(s.bytes * 8e9 / s.interval_ns for s in there)
        longest = max(s.interval_ns for s in there)
        made.append(Second(max(s.at_ns for s in there), longest, total, there[0].omitted))
    return made


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
    told = [said for way in test.ways if (said := _carried(way))]
    said = f"TCP carried {listed(told)}" if told else "throughput was to be measured, and nothing was counted"
    evidence = [e for way in test.ways for e in _evidence(test, way)]
    if test.bitrate_bits_per_second:
        evidence.append(f"each stream was held to {rate(test.bitrate_bits_per_second)}")
    evidence += [c for c in [_congestion(test)] if c]
    if test.ended_early:
        evidence.append(f"ended early: {test.ended_early}")
    return Finding(
        "throughput",
        None,
        f"{scenario.name}: {said}",
        tuple(evidence),
        "medium" if test.ended_early else "high",
        scenario.name,
        recording.manifest.id,
    )


def _carried(way: Way) -> str:
    counted = way.total.carried
    if counted is None:
        return ""
    again = way.total.retransmits
    resent = "how many segments were sent again is not known"
    if again is not None:
        resent = f"{count(again, 'segment')} sent again" if again else "no segment sent again"
    by = "" if way.total.received else ", by the sender's count"
    of = f"{data(counted.bytes)} in {duration(counted.duration_ns)} on {count(len(way.streams), 'stream')}"
    return f"{rate(counted.bits_per_second)} {DIRECTIONS[way.name]} ({of}{by}; {resent})"


def _evidence(test: Throughput, way: Way) -> Iterator[str]:
    rates = [s.bits_per_second for s in whole_seconds(test, way.name)]
    where = DIRECTIONS[way.name]
    if len(rates) > 1:
        yield f"{where}: {rate(min(rates))} in the slowest second, {rate(max(rates))} in the fastest"
    flow = way.total
    if flow.srtt_us:
        yield f"{where}: {srtt_in_words(flow.srtt_us)}, by the sender's kernel under it"
    lost = _under_way(flow)
    if lost:
        yield f"{where}: {data(lost)} had been sent and were not counted as received"


def srtt_in_words(readings: Readings) -> str:
    """`smoothed round trip 174 µs (36.0 µs to 3.73 ms)`."""
    low, mean, high = (duration(us * 1_000) for us in (readings.min, readings.mean, readings.max))
    return f"smoothed round trip {mean} ({low} to {high})"


def _under_way(flow: Flow) -> int:
    return max(flow.sent.bytes - flow.received.bytes, 0) if flow.sent and flow.received else 0


def _congestion(test: Throughput) -> str:
    here, there = test.congestion
    if here and there and here != there:
        return f"congestion control {here} here, {there} there"
    known = here or there
    return f"congestion control {known}" if known else ""
