"""Every picture of a report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from fathometer.counts import count
from fathometer.dataset.regroup import Envelope
from fathometer.findings.finding import Incident
from fathometer.findings.model import Analysis
from fathometer.findings.parts import Part, totals_of
from fathometer.findings.render import incident
from fathometer.findings.verdicts import of_rhythm
from fathometer.findings.words import duration, moment, zone_name
from fathometer.report import charts, distributions, envelopes, modes, overview, render, timeline
from fathometer.report.clock import Clock
from fathometer.report.interest import as_shown, by_interest, foremost_pairs, harm
from fathometer.report.judgement import Judgement
from fathometer.report.page import Figure, LiveChart, Page, title_of
from fathometer.report.vega import FULL, NARROW, WIDE, Spec

Progress = Callable[[str], None]
MOST_MARKS = 60
"""Incidents on the timeline: those that cost most."""
MOST_CALENDARS = 12
NOTHING_ASKED = Judgement()


@dataclass(frozen=True, slots=True)
class Heading:
    """What stands above a picture, and what it is called elsewhere."""

    name: str
    title: str
    note: str
    path: str | None = None


def draw(
    analysis: Analysis,
    title: str | None = None,
    judgement: Judgement = NOTHING_ASKED,
    progress: Progress = lambda _: None,
) -> Page:
    """Makes every picture of the report."""
    page = Page(title or title_of(analysis), analysis, judgement)
    s = analysis.scenarios
    foremost = [x.name for x in by_interest(analysis, judgement.outcomes)]
    chosen = [x for x in s if x.name in set(foremost[: charts.MOST_ROWS])]
    _timelines(page, foremost, progress)

    def add(group: str, heading: Heading, make: Callable[[int], Spec | None], *, live: bool = False) -> None:
        spec = make(WIDE)
        if spec is None:
            return
        progress(f"drawing {heading.title}")
        page.figures.setdefault(group, []).append(_figure(heading, spec, make(NARROW), live=live))

    add(
        "summary",
        Heading(
            "figures",
            "p50, p95 and p99",
            "Bars are 95 % intervals; a figure that its count cannot support is left out.",
        ),
        lambda width: charts.figures(chosen, width),
        live=True,
    )
    add(
        "summary",
        Heading(
            "tail",
            "Distribution on a tail scale",
            "Each mark to the right is ten times rarer; a line ends where its count does.",
        ),
        lambda width: charts.tail(s, foremost, width),
        live=True,
    )
    for group, picture in modes.PICTURES.items():
        add(
            group,
            Heading(picture.name, picture.title, picture.note),
            partial(picture.make, analysis),
        )
    pairs = foremost_pairs(analysis)
    add(
        "comparison",
        Heading(
            "ratios",
            "Ratios of medians",
            "Bars are 95 % intervals; grey: no difference that matters is shown.",
        ),
        lambda width: charts.ratios(pairs, width=width),
        live=True,
    )
    add(
        "distribution",
        Heading("histograms", "Histograms", "Each by share of its own samples, on one scale."),
        lambda width: distributions.distribution(
            [x for x in s if x.name in set(foremost[: distributions.MOST_ROWS])], width
        ),
    )
    add(
        "distribution",
        Heading("sweep", "Round trip against payload", "Dashed: fixed cost and cost per byte."),
        lambda width: distributions.sweep(analysis, width),
    )
    calendars = [x for name in foremost for x in s if x.name == name and x.calendar][:MOST_CALENDARS]
    for i, scenario in enumerate(calendars, 1):
        note = of_rhythm(scenario.calendar.of_day) if scenario.calendar else ""
        add(
            "calendar",
            Heading(f"calendar-{i}", "The week", note, scenario.name),
            partial(timeline.heat, scenario, zone_name(analysis.zone)),
        )
    return page


def _figure(heading: Heading, spec: Spec, narrow: Spec | None, *, live: bool) -> Figure:
    name = heading.name
    return Figure(
        name,
        heading.title,
        heading.note,
        spec,
        render.svg(spec, name, heading.title),
        render.svg(narrow, f"{name}-narrow", heading.title) if narrow else "",
        LiveChart(render.compiled(spec)) if live else None,
        path=heading.path,
    )


def _timelines(page: Page, foremost: Sequence[str], progress: Progress) -> None:
    """The timeline of all paths, and a chart each of the recordings of most interest."""
    analysis = page.analysis
    rank = {name: n for n, name in enumerate(foremost)}
    parts = envelopes.answered(analysis.sampled)
    names = {id(part): _scenario(analysis, part) for part in parts}
    first = sorted(parts, key=lambda p: rank.get(names[id(p)], len(rank)))
    shown = first[: envelopes.MOST_CHARTS]
    page.left_out = len(parts) - len(shown)
    ends = [(t.first_sent_ns, t.last_sent_ns) for t in map(totals_of, parts)]
    known = [(a, b) for a, b in ends if a is not None and b is not None]
    if not known:
        return
    began, ended = min(a for a, _ in known), max(b for _, b in known)
    page.clock = Clock.over(analysis.zone, began, ended + 1)
    series: dict[int, Envelope] = {}
    for part in shown:
        progress(f"drawing {names[id(part)]}")
        series[id(part)] = envelopes.series(part, len(shown))
        figure = _over_time(page, part, names[id(part)], series[id(part)])
        if figure is not None:
            page.figures.setdefault("time", []).append(figure)
    _overview(page, [p for p in first if names[id(p)] in foremost[: overview.ROWS]], names, series)


def _scenario(analysis: Analysis, part: Part) -> str:
    """The name of the scenario that a part of a recording belongs to."""
    for s in analysis.scenarios:
        if s.key == part.key:
            return s.name
    return part.key.name


def _overview(page: Page, parts: Sequence[Part], names: dict[int, str], series: dict[int, Envelope]) -> None:
    analysis = page.analysis
    shown = [s.name for s in analysis.scenarios if any(names[id(p)] == s.name for p in parts)]
    page.paths_left_out = sum(bool(s.rtt.count) for s in analysis.scenarios) - len(shown)
    every = [series.get(id(p)) or envelopes.series(p, len(parts)) for p in parts]
    ends = list(envelopes.spans(every))
    if not ends:
        return  # Every sample is warm-up.
    began, ended = min(a for a, _ in ends), max(b for _, b in ends)
    densest = max(sum(int(e.sent.sum()) for e in every if e is not None), 1) // max(len(shown), 1)
    bins = min(overview.BINS, overview.ALL_BINS // max(len(shown), 1), max(densest // overview.FULL_BIN, 20))
    width = max((ended - began) // bins, 1)
    rows: dict[str, list[Envelope]] = {name: [] for name in shown}
    for part, envelope in zip(parts, every, strict=True):
        for first, last in envelopes.spans([envelope]):
            rows[names[id(part)]].append(envelopes.coarse(envelope, max((last - first) // width, 1)))
    marks = _marks(page)

    def make(wide: int) -> Spec | None:
        of_width = [
            overview.TimelineRow(n, tuple(e if wide > NARROW else envelopes.halved(e) for e in each))
            for n, each in rows.items()
        ]
        return overview.overview(of_width, marks, page.clock, wide)

    spec = make(FULL)
    if spec is not None:
        heading = Heading(
            "timeline",
            "All paths over time",
            "Line: median; band: smallest to largest, cut where a ▲ stands. Red at the foot: samples without "
            "an intact echo. Numbers: incidents.",
        )
        page.figures["overview"] = [_figure(heading, spec, make(NARROW), live=True)]


def _marks(page: Page) -> list[timeline.Mark]:
    """The incidents of most harm, by the numbers that they have in the report."""
    numbers = {i.id: n for n, i in enumerate(as_shown(page.analysis.incidents), 1)}
    worst = sorted(page.analysis.incidents, key=harm, reverse=True)[:MOST_MARKS]
    return [_mark(numbers[i.id], i) for i in worst]


def _mark(number: int, i: Incident) -> timeline.Mark:
    return timeline.Mark(number, i.from_ns, i.to_ns, i.paths, f"{incident(i)}.", waited=i.toll.silent_ns > 0)


def _over_time(page: Page, part: Part, name: str, fine: Envelope) -> Figure | None:
    analysis, recording = page.analysis, part.recording
    numbers = {i.id: n for n, i in enumerate(as_shown(analysis.incidents), 1)}
    marks = [
        _mark(numbers[i.id], i)
        for i in sorted(analysis.incidents, key=harm, reverse=True)
        if any(p.recording == recording.manifest.id for p in i.where)
    ]
    still = envelopes.coarse(fine)
    spec = timeline.over_time(still, marks, page.clock, FULL)
    narrow = timeline.over_time(envelopes.halved(still), marks, page.clock, NARROW)
    live = timeline.over_time(fine, marks, page.clock, FULL, zoom=True)
    if spec is None or live is None:
        return None
    of_figures = len(page.figures.get("time", [])) + 1
    columns = timeline.columns(fine, still, page.clock)
    lines = "median and p99" if "p99" in columns["lines"] else "median"
    swept = f", {count(part.selection.size, 'byte')}" if part.selection.size is not None else ""
    heading = Heading(
        f"time-{of_figures}",
        f"From {moment(recording.manifest.started_ns, analysis.zone)[:19]}{swept}",
        f"Band: smallest to largest; {lines} of each {duration(still.width_ns)}.",
        name,
    )
    figure = _figure(heading, spec, narrow, live=False)
    figure.live, figure.envelope = LiveChart(render.compiled(live), columns), fine
    return figure
