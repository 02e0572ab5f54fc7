"""Which way datagrams were lost, and what each way took where both clocks are good enough to tell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fathometer.dataset.datagrams import Losses
from fathometer.dataset.recording import Recording
from fathometer.findings.finding import Fact, Finding, Place, ns, number
from fathometer.findings.model import OneWay, Scenario
from fathometer.findings.parts import is_whole, recordings_of

MOSTLY = 0.9
"""Share of the losses whose way is known from which they are said to be on one side."""
CHANCE = 0.05
"""They must not be so by chance either: a coin's (binomial test, two-sided)."""


def lossy(scenarios: Sequence[Scenario]) -> Iterator[tuple[Scenario, Recording, Losses]]:
    """Every recording that tells of the losses, repetitions or disorder of its datagrams."""
    for scenario, recording in recordings_of(scenarios):
        if recording.losses:
            yield scenario, recording, recording.losses


def one_ways(scenarios: Sequence[Scenario]) -> tuple[OneWay, ...]:
    """Medians of both ways, of whole recordings whose clocks' difference is bounded."""
    ways = []
    for scenario, recording in recordings_of(scenarios):
        error = recording.clock_error_ns
        whole = all(is_whole(run) for run in scenario.runs if run.recording is recording)
        if error is None or not whole:
            continue
        forward, backward = (w.supported_quantile(0.5) if w else None for w in recording.ways)
        if forward and backward:
            ways.append(OneWay(recording, scenario.name, forward.value_ns, backward.value_ns, error))
    return tuple(ways)


def findings(scenarios: Sequence[Scenario], ways: Sequence[OneWay]) -> list[Finding]:
    """Losses that are on one side, and ways that differ by more than the clocks may."""
    findings_ = [*(_losses(*one) for one in lossy(scenarios)), *(_ways(one) for one in ways)]
    return [finding for finding in findings_ if finding]


def _losses(scenario: Scenario, recording: Recording, losses: Losses) -> Finding | None:
    known = losses.forward + losses.backward
    most = max(losses.forward, losses.backward)
    if not known or most < MOSTLY * known or _by_chance(most, known) >= CHANCE:
        return None
    way = {"way": "forward" if most == losses.forward else "backward"}
    counts = {
        "most": number(most, "samples"),
        "known": number(known, "samples"),
        "unknown": number(losses.unknown, "samples"),
    }
    return Finding(
        "loss direction",
        (Place(scenario.name, recording.manifest.id),),
        confidence="high" if losses.unknown <= known / 10 else "medium",
        quantities=counts,
        terms=way,
        facts=(Fact("ways of losses", counts, way),),
        doubts=("refused by the reflector",) if way["way"] == "forward" else (),
    )


def _by_chance(most: int, known: int) -> float:
    from scipy.stats import binomtest  # Imported late: half a second of a report's start.

    return float(binomtest(most, known).pvalue)


def _ways(ways: OneWay) -> Finding | None:
    gap = ways.forward_ns - ways.backward_ns
    if abs(gap) <= 2 * ways.error_ns:
        return None
    return Finding(
        "asymmetry",
        (Place(ways.scenario, ways.recording.manifest.id),),
        quantities={"forward": ns(ways.forward_ns), "backward": ns(ways.backward_ns)},
        facts=(Fact("clocks", {"error": ns(ways.error_ns)}),),
    )
