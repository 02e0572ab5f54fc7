"""What recordings say about the measurement itself, in words."""

from __future__ import annotations

from fathometer.dataset.reasons import LOSSES
from fathometer.findings.finding import Finding
from fathometer.findings.render.phrase import HOSTS
from fathometer.findings.render.table import finding, findings
from fathometer.findings.verdicts import of_first, of_rhythm
from fathometer.findings.words import count, duration, moment, often, share
from fathometer.stats.calendar import Rhythm
from fathometer.stats.first import First

findings(
    {
        "no samples": (100, "nothing was sent; there is nothing to report"),
        "damage": (90, "{name} is damaged; what can be read is used"),
        "running": (15, "{name} was still being written: this is what stood in it so far"),
        "interrupted": (25, "{name} was interrupted: it has no end"),
        "corrupted": (75, "{echoes:count echo|echoes} came back changed"),
        "pauses": (
            20,
            (
                "{host:host} stood still {times:often}: {total:duration} in all, {longest:duration} at the "
                "longest"
            ),
        ),
        "rolled up": (
            40,
            (
                "{recordings:count recording} read as a rollup, without samples: the last samples before a "
                "connection ended, the first samples of connections, differences between connections and the "
                "delays of each way are not looked at, and changes are placed to within {step:duration}; a "
                "report of the recordings themselves has them"
            ),
        ),
        "simulated": (40, "{name} was simulated, not measured"),
        "imported": (5, "{name} was imported from {tool}"),
    }
)


@finding("no answers", 100)
def _no_answers(f: Finding) -> str:
    corrupt = int(f.quantities["corrupt"].value)
    changed = f" ({count(corrupt, 'echo', 'echoes')} came back changed)" if corrupt else ""
    done = "made" if _makes(f) else "answered with what it had sent" if corrupt else "answered"
    return f"none of {_sent(f)} was {done}{changed}; there is no round trip to report"


@finding("loss", 70)
def _loss(f: Finding) -> str:
    lost, sent = (int(f.quantities[n].value) for n in ("unanswered", "sent"))
    verb = "was" if lost == 1 else "were"
    how, figures = ("made", "times") if _makes(f) else ("answered", "round-trip figures")
    return f"{lost:,} of {_sent(f)} ({share(lost / sent)}) {verb} never {how}; {figures} are about the others"


def _makes(f: Finding) -> bool:
    return f.quantities["sent"].unit == "connections"


def _sent(f: Finding) -> str:
    return count(int(f.quantities["sent"].value), "connection" if _makes(f) else "sample")


@finding("rhythm", 35)
def _rhythm(f: Finding) -> str:
    return of_rhythm(f.result) if isinstance(f.result, Rhythm) else ""


@finding("first sample", 30)
def _first(f: Finding) -> str:
    return of_first(f.result) if isinstance(f.result, First) else ""


@finding("summary", 5)
def _summary(f: Finding) -> str:
    values = f.quantities.get("values")
    behind = count(int(values.value), "value") if values else "of how many values it does not say"
    return f"{f.terms['tool']} gave figures ({behind}) and no samples"


@finding("clock.stepped", 40)
def _stepped(f: Finding) -> str:
    step = f.quantities.get("step")
    way = " forward" if step and step.value > 0 else " back"
    by = f"{way} by {duration(abs(step.value))}" if step else ""
    return f"the wall clock was set{by}{_at(f)}; round trips and durations do not rest on it"


REASONS = {
    "late": "this process did not run in time",
    "blocked": "the connection took no more data",
    "unconnected": "there was no connection",
    "local": "this host could not connect",
}


@finding("schedule.overrun", 45)
def _overrun(f: Finding) -> str:
    reason = f.terms.get("reason", "")
    samples = f.quantities.get("samples")
    why = REASONS.get(reason, reason) or "why is not recorded"
    if samples is None:
        return f"this host could not keep the schedule{_at(f)}: {why}"
    verb = "was" if samples.value == 1 else "were"
    return f"{count(int(samples.value), 'sample')} due {verb} not sent{_at(f)}: {why}"


@finding("recording.overflowed", 75)
def _overflowed(f: Finding) -> str:
    reason = f.terms.get("reason", "")
    samples = f.quantities.get("samples")
    what = count(int(samples.value), "sample") if samples else "samples"
    verb = "is" if samples and samples.value == 1 else "are"
    # Older recordings say no reason.
    why = LOSSES.get(reason, reason) or "why is not recorded"
    return f"{what} {verb} missing from the recording{_at(f)}: {why}"


def _at(f: Finding) -> str:
    n, began, ended = int(f.quantities["times"].value), f.from_ns or 0, f.to_ns or 0
    if n > 1:
        return f", {often(n)} from {moment(began)}"
    return f" at {moment(began)}" if ended <= began else f" in {duration(ended - began)} from {moment(began)}"


@finding("pause", 30)
def _pause(f: Finding) -> str:
    reason = f" ({f.terms['reason']})" if f.terms["reason"] else ""
    stood = duration(f.quantities["length"].value)
    return f"{HOSTS[f.terms['host']]} did not run for {stood} at {moment(f.from_ns or 0)}{reason}"
