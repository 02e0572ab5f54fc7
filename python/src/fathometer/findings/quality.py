"""What the recordings say about the measurement itself: losses, lateness, clocks, damage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from fathometer.dataset.recording import Recording
from fathometer.dataset.summaries import OpenedSummary
from fathometer.findings.model import Confidence, Finding, Scenario, is_making
from fathometer.findings.scenarios import recordings_of
from fathometer.findings.verdicts import of_first, of_rhythm
from fathometer.findings.words import count, duration, moment

LOSS_WORTH_TELLING = 1e-4
"""Share of unanswered samples from which a scenario is said to lose some; fewer stand in the table only."""


def findings(scenarios: Sequence[Scenario]) -> list[Finding]:
    """Everything that a reader must know before believing a number."""
    made = [f for scenario, recording in recordings_of(scenarios) for f in _recording(scenario, recording)]
    for scenario in scenarios:
        made += _losses(scenario)
        for rhythm in (scenario.calendar.of_day, scenario.calendar.of_week) if scenario.calendar else ():
            if rhythm.shown:
                made.append(
                    Finding(
                        "rhythm", None, f"{scenario.name}: {of_rhythm(rhythm)}", (), "medium", scenario.name
                    )
                )
        if scenario.first and scenario.first.differs:
            made.append(
                Finding(
                    "first sample",
                    None,
                    f"{scenario.name}: {of_first(scenario.first)}",
                    (),
                    "high",
                    scenario.name,
                )
            )
    return made


def of_summaries(summaries: Sequence[OpenedSummary]) -> list[Finding]:
    """What another tool's figures without samples cannot support."""
    made = []
    for one in summaries:
        behind = f"{one.count:,} values" if one.count is not None else "of how many values it does not say"
        said = f"{one.label}: {one.tool} gave figures ({behind}) and no samples"
        made.append(Finding("summary", None, said, (*one.cannot, *one.notes), "high", one.label))
    return made


def _losses(scenario: Scenario) -> list[Finding]:
    if any(run.recording.throughput for run in scenario.runs):
        return []  # It has no samples, and a story of its own (`throughput`).
    if scenario.sent == 0:
        said = f"{scenario.name}: nothing was sent; there is nothing to report"
        return [Finding("no samples", None, said, (), "high", scenario.name)]
    if scenario.unanswered == scenario.sent:
        said = (
            f"{scenario.name}: none of {count(scenario.sent, _of(scenario))} was {_answered(scenario)}; "
            "there is no round trip to report"
        )
        return [Finding("no answers", None, said, (), "high", scenario.name)]
    if scenario.unanswered / scenario.sent < LOSS_WORTH_TELLING:
        return []
    share = scenario.unanswered / scenario.sent
    said = (
        f"{scenario.name}: {scenario.unanswered:,} of {count(scenario.sent, _of(scenario))} ({share:.2%}) "
        f"were never {_answered(scenario)}; {_figures(scenario)} are about the others"
    )
    return [Finding("loss", None, said, (), "high", scenario.name)]


def _of(scenario: Scenario) -> str:
    return "connection" if is_making(scenario.key.mode) else "sample"


def _answered(scenario: Scenario) -> str:
    return "made" if is_making(scenario.key.mode) else "answered"


def _figures(scenario: Scenario) -> str:
    return "times" if is_making(scenario.key.mode) else "round-trip figures"


def _recording(scenario: Scenario, recording: Recording) -> list[Finding]:
    made: list[Finding] = []

    def told(
        kind: str, at: int | None, said: str, evidence: tuple[str, ...] = (), confidence: Confidence = "high"
    ) -> None:
        made.append(
            Finding(
                kind,
                at,
                f"{scenario.name}: {said}",
                evidence,
                confidence,
                scenario.name,
                recording.manifest.id,
            )
        )

    torn = [d for d in recording.damage if d.torn]
    broken = [d for d in recording.damage if not d.torn]
    if broken:
        told(
            "damage",
            None,
            f"{recording.directory.name} is damaged; what can be read is used",
            tuple(str(d) for d in broken),
        )
    if recording.running:
        told(
            "running",
            None,
            f"{recording.directory.name} was still being written: this is what stood in it so far",
        )
    elif recording.interrupted:
        told(
            "interrupted",
            None,
            f"{recording.directory.name} was interrupted: it has no end",
            tuple(str(d) for d in torn),
        )
    totals = recording.totals
    if totals.corrupted:
        told("corrupted", None, f"{count(totals.corrupted, 'echo', 'echoes')} came back changed")
    kinds = Counter(e.kind for e in recording.events)
    for kind, words in (
        ("clock.stepped", "the wall clock was set"),
        ("schedule.overrun", "this host could not keep the schedule"),
        ("recording.overflowed", "samples were lost because the disk was too slow"),
    ):
        first = next((e.at_ns for e in recording.events if e.kind == kind), None)
        if first is not None:
            evidence = tuple(
                f"{k}: {v}"
                for e in recording.events
                if e.kind == kind
                for k, v in e.fields.items()
                if isinstance(v, (int, str))
            )[:5]
            told(kind, first, f"{words}, {count(kinds[kind], 'time')}, first at {moment(first)}", evidence)
    for host, words in (("local", "this host"), ("remote", "the reflector's host")):
        pauses = [p for p in recording.pauses if p.host == host]
        if pauses:
            total = sum(p.duration_ns for p in pauses)
            longest = max(pauses, key=lambda p: p.duration_ns)
            reasons = Counter(p.reason or "reason not known" for p in pauses)
            told(
                "pauses",
                pauses[0].start_ns,
                f"{words} did not run {count(len(pauses), 'time')}, {duration(total)} in all, the "
                f"longest for {duration(longest.duration_ns)} at {moment(longest.start_ns)}",
                tuple(f"{r}: {n:,}" for r, n in reasons.most_common(3)),
            )
    if "simulated" in recording.manifest.extra:
        told("simulated", None, f"{recording.directory.name} was simulated, not measured")
    if recording.manifest.imported:
        notes = tuple(str(n) for n in recording.manifest.imported.get("notes", ()))
        tool = recording.manifest.imported.get("tool", "another tool")
        told("imported", None, f"{recording.directory.name} was imported from {tool}", notes)
    return made
