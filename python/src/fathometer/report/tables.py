"""The report's tables as text, for HTML and Markdown alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fathometer.dataset.summaries import OpenedSummary
from fathometer.findings.doubts import in_words
from fathometer.findings.model import Analysis, Scenario, Versus, is_search
from fathometer.findings.verdicts import of_ending
from fathometer.findings.words import count, duration, moment, rate, span
from fathometer.findings.words import figure as number
from fathometer.stats.family import Difference
from fathometer.stats.results import Estimate

NAMES = {"mean": "mean", "p50": "p50", "p95": "p95", "p99": "p99", "p99_9": "p99.9", "p99_99": "p99.99"}


@dataclass(frozen=True, slots=True)
class Cell:
    """A figure, what it is worth, and why it is missing."""

    text: str
    under: str = ""
    """Smaller, beneath: its interval."""
    note: str = ""
    """A doubt, or what stands out, told beneath the table."""


@dataclass(frozen=True, slots=True)
class Table:
    """Heads and rows; the first cell of a row names it."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    minor: tuple[str, ...] = ()
    """Columns that a phone has no room for."""

    @property
    def notes(self) -> list[str]:
        """Those of its cells, each once, in order."""
        return list(dict.fromkeys(cell.note for row in self.rows for cell in row if cell.note))

    def letter(self, note: str) -> str:
        """What stands for a doubt in the cells that it is about: a, b, …, z, aa."""
        number, letters = self.notes.index(note) + 1, ""
        while number:
            number, digit = divmod(number - 1, 26)
            letters = chr(ord("a") + digit) + letters
        return letters


def figure(e: Estimate) -> Cell:
    """An estimate as a cell; a quantile that its count cannot support is not shown."""
    if not e.shown:
        return Cell("–", note=in_words(e.doubt) or "no samples")
    under = span(e.interval.low, e.interval.high, to=" … ") if e.interval else ""
    return Cell(duration(e.value), under, in_words(e.doubt) or "")


def summary(scenarios: Sequence[Scenario]) -> Table:
    """One row a scenario that was to have round trips."""
    rows = []
    for s in scenarios:
        if is_throughput(s) or is_search(s.key.mode):
            continue
        low = duration(s.rtt.min_ns) if s.rtt.min_ns is not None else "–"
        high = duration(s.rtt.max_ns) if s.rtt.max_ns is not None else "–"
        lost = ", ".join(
            f"{number:,} {what}"
            for number, what in (
                (s.unanswered, "unanswered"),
                (s.corrupt, "corrupt"),
                (s.unsent, "not sent"),
            )
            if number
        )
        rows.append(
            (
                Cell(s.name, s.key.pacing),
                Cell(f"{s.rtt.count:,}", lost),
                Cell(low),
                *(figure(s.figure(n)) for n in NAMES),
                Cell(high),
            )
        )
    minor = ("min", "mean", "p95", "p99.9", "p99.99", "max")
    return Table("Round trips", ("scenario", "samples", "min", *NAMES.values(), "max"), tuple(rows), minor)


def is_throughput(scenario: Scenario) -> bool:
    """Whether it has no round trips because it measured throughput."""
    return any(run.recording.throughput for run in scenario.runs)


def of_tools(summaries: Sequence[OpenedSummary]) -> Table | None:
    """Other tools' figures, as they gave them."""
    if not summaries:
        return None
    names = ("min", "mean", "p50", "p95", "p99", "max")
    carried = any(s.throughput for s in summaries)
    rows = [
        (
            Cell(s.label, f"{s.tool}, {s.mode}" + (f", {count(s.size, 'byte')}" if s.size else "")),
            Cell(f"{s.count:,}" if s.count is not None else "not told"),
            *(Cell(duration(s.figures_ns[n])) if n in s.figures_ns else Cell("–") for n in names),
            *([_carried(s)] if carried else []),
            Cell("; ".join(s.cannot)),
        )
        for s in summaries
    ]
    head = ("run", "values", *names, *(["throughput"] if carried else []), "what it cannot support")
    return Table("Other tools' figures, without samples", head, tuple(rows))


def _carried(s: OpenedSummary) -> Cell:
    """What a tool carried: as received where it says so, else as sent."""
    received, sent = s.throughput.get("received_bits_per_s"), s.throughput.get("sent_bits_per_s")
    if received is None and sent is None:
        return Cell("–")
    shown = sent if received is None else received
    again = s.throughput.get("retransmits")
    under = "as sent" if received is None else "as received"
    if again is not None:
        under += f", {count(again, 'segment')} sent again"
    return Cell(rate(float(shown or 0)), under)


def of_runs(scenarios: Sequence[Scenario]) -> Table | None:
    """Medians of runs, where there were enough; and what the 95th-percentile rule is worth."""
    rows = []
    for s in scenarios:
        if not s.of_runs:
            continue
        worst = Cell("")
        if s.worst:
            worst = Cell(
                duration(s.worst.worst),
                f"{s.worst.confidence_worst:.0%} sure above the p95 of runs",
                f"for 95 % needed: {count(s.worst.runs_needed, 'run')}",
            )
        rows.append(
            (
                Cell(s.name),
                Cell(f"{len(s.runs)}"),
                *(figure(s.of_runs[n]) if n in s.of_runs else Cell("–") for n in ("p50", "p95", "p99")),
                worst,
            )
        )
    if not rows:
        return None
    return Table(
        "Repeated runs: the median of the runs' figures",
        ("scenario", "runs", "p50", "p95", "p99", "worst p95 of a run"),
        tuple(rows),
    )


def ratios(comparisons: Sequence[Versus]) -> Table | None:
    """One row a pair."""
    if not comparisons:
        return None
    rows = []
    for v in comparisons:
        cells = [_ratio(d) for d in v.differences]
        rows.append((Cell(f"{v.b} / {v.a}", _basis(v)), *cells, Cell(_sentence(v))))
    asked = comparisons[0].headline
    head = (
        "pair",
        *(d.metric for d in comparisons[0].differences),
        f"verdict ({'median' if asked.metric == 'p50' else asked.metric})",
    )
    return Table("Ratios", head, tuple(rows))


def _ratio(d: Difference) -> Cell:
    note = in_words(d.doubt) or ("" if d.decided else d.verdict)
    if not d.decided or d.ratio_interval is None:
        return Cell("–", "", note)
    under = f"{number(d.ratio_interval.low)} … {number(d.ratio_interval.high)}"
    return Cell(f"{number(d.ratio)}×" + ("" if d.differs else " ≈"), under, note)


def _basis(v: Versus) -> str:
    d = v.headline
    return v.pairing if d.basis == "blocks" else f"by {d.units[0]} and {d.units[1]} {d.basis}"


def _sentence(v: Versus) -> str:
    d = v.headline
    return f"{v.b} is {d.verdict} by {duration(abs(d.difference))}" if d.differs else d.verdict


def segments(analysis: Analysis) -> Table | None:
    """The last segments of every connection that died: the article's table."""
    if not analysis.ends:
        return None
    rows = []
    for e in analysis.ends[:40]:
        cells = [
            Cell(duration(s.mean), "" if s.change is None else f"{s.change:+.1%}") for s in e.ending.segments
        ]
        cells = [Cell("")] * (5 - len(cells)) + cells
        rows.append(
            (
                Cell(f"{e.scenario}, connection {e.connection}", moment(e.at_ns)),
                *cells,
                Cell(of_ending(e.ending)),
            )
        )
    return Table(
        "The last samples before a connection ended",
        ("connection", "500–401", "400–301", "300–201", "200–101", "100–1", "unusual?"),
        tuple(rows),
    )


def recordings(analysis: Analysis) -> Table:
    """What was measured, from where to where, with what."""
    rows = []
    for r in analysis.recordings:
        m = r.manifest
        host = m.host
        machine = ", ".join(str(host[k]) for k in ("os", "kernel", "cpu") if host.get(k))
        cloud = ", ".join(
            str(v) for k in ("provider", "region", "zone", "vm_size") if m.cloud and (v := m.cloud.get(k))
        )
        path = " → ".join(x for x in (m.path.start, m.path.via, m.path.to) if x) or "not named"
        ended = moment(m.ended_ns) if m.ended_ns else ("still running" if r.running else "interrupted")
        totals = r.totals
        rows.append(
            (
                Cell(m.label, path),
                Cell(moment(m.started_ns), ended),
                Cell(f"{totals.samples:,}", count(len(r.connections) or totals.connections, "connection")),
                Cell(
                    str(m.reflector.get("address") or "not recorded"), str(m.reflector.get("software") or "")
                ),
                Cell(machine or "not recorded", cloud),
                Cell(command(r), f"fathom {m.tool_version}"),
            )
        )
    return Table("Recordings", ("label", "from … to", "samples", "reflector", "host", "command"), tuple(rows))


def command(recording: object) -> str:
    """The command line that measured, if the recording tells it; else the options that it ran with."""
    manifest = recording.manifest  # type: ignore[attr-defined]
    if manifest.is_client and manifest.command:
        return str(manifest.command)  # Its options are those of a policy, and many.
    probe = manifest.probe
    if isinstance(probe.get("command"), (list, tuple)):
        return " ".join(str(x) for x in probe["command"])
    if isinstance(probe.get("command"), str):
        return str(probe["command"])
    options = [f"{k}={v}" for k, v in probe.items() if isinstance(v, (str, int)) and not isinstance(v, bool)]
    return "fathom probe: " + ", ".join(options[:12]) if options else "not recorded"
