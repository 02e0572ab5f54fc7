"""The report as one HTML file that needs no network, and as Markdown."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from urllib.parse import quote

import jinja2
import numpy as np
from markupsafe import Markup

from fathometer import __version__
from fathometer.clean import cleaned
from fathometer.dataset.recording import Recording
from fathometer.dataset.regroup import Envelope, envelope
from fathometer.findings import render as findings
from fathometer.findings.model import Analysis, Versus, is_making
from fathometer.findings.parts import Part, parts, totals_of
from fathometer.findings.verdicts import of_rhythm
from fathometer.findings.words import duration, moment, zone_name
from fathometer.report import charts, modes, render, tables, timeline
from fathometer.report.charts import Spec
from fathometer.report.short import heaviest, in_short, shown_and_folded, told_first

BINS = 600
"""Of a still picture: more than its pixels would show nothing."""
ZOOM_BINS = 30_000
"""Of all zooming charts together; each gets its share, at least `BINS`. At some 22 bytes a bin they are
0.7 MB."""
FINEST = 14_000
"""Bins of one zooming chart at most: a browser redraws them fast enough to drag."""
MOST_CHARTS = 12
"""Recordings that get a chart over time; the longest ones. Beyond that the page would be a scroll of lines.
"""
LIMIT = 3_000_000
"""Bytes of a page. Mail, tickets and phones take that."""
ROWS = 200
"""Rows of a table; the JSON has all."""


@dataclass(slots=True)
class Zoom:
    """A chart that zooms: a Vega specification and its data as columns."""

    spec: Spec
    columns: dict[str, Any]


@dataclass(slots=True)
class Figure:
    """A picture of the report."""

    name: str
    title: str
    note: str
    spec: Spec
    svg: str
    narrow: str = ""
    """The same for a phone; empty: the wide one does."""
    zoom: Zoom | None = None
    envelope: Envelope | None = None
    """What the zooming chart was made of."""


@dataclass(slots=True)
class Page:
    """What the templates are given."""

    title: str
    analysis: Analysis
    figures: dict[str, list[Figure]] = field(default_factory=dict)
    left_out: int = 0
    """Recordings without a chart over time."""
    rows: int = ROWS

    def every(self) -> list[Figure]:
        """All pictures."""
        return [f for group in self.figures.values() for f in group]


Progress = Callable[[str], None]


def draw(analysis: Analysis, title: str | None = None, progress: Progress = lambda _: None) -> Page:
    """Makes every picture of the report."""
    page = Page(title or title_of(analysis), analysis)
    s = analysis.scenarios

    def add(group: str, name: str, heading: str, note: str, make: Callable[[int], Spec | None]) -> None:
        spec = make(charts.WIDE)
        if spec is not None:
            progress(f"drawing {heading}")
            wide, narrow = render.svg(spec, name), make(charts.NARROW) or spec
            small = render.svg(narrow, f"{name}-narrow")
            page.figures.setdefault(group, []).append(Figure(name, heading, note, spec, wide, small))

    add(
        "summary",
        "figures",
        "p50, p95 and p99",
        "Bars are 95 % intervals; a figure that its count cannot support is left out.",
        lambda width: charts.figures(s, width),
    )
    add(
        "summary",
        "tail",
        "Distribution on a tail scale",
        "Each mark to the right is ten times rarer; a line ends where its count does.",
        lambda width: charts.tail(s, width),
    )
    for group, picture in modes.PICTURES.items():
        add(group, picture.name, picture.title, picture.note, partial(picture.make, analysis))
    pairs = foremost(analysis)
    add(
        "comparison",
        "ratios",
        "Ratios of medians",
        "Bars are 95 % intervals; grey: no difference shown.",
        lambda width: charts.ratios(pairs, width=width),
    )
    add(
        "distribution",
        "histograms",
        "Histograms",
        "Each by share of its own samples, on one scale.",
        lambda width: charts.distribution(s, width),
    )
    add(
        "distribution",
        "sweep",
        "Round trip against payload",
        "Dashed: fixed cost and cost per byte.",
        lambda width: charts.sweep(analysis, width),
    )
    _over_time(page, progress)
    for i, scenario in enumerate(s[:MOST_CHARTS]):
        said = of_rhythm(scenario.calendar.of_day) if scenario.calendar else ""
        add(
            "calendar",
            f"calendar-{i + 1}",
            scenario.name,
            said,
            partial(timeline.heat, scenario, zone_name(analysis.zone)),
        )
    return page


def foremost(analysis: Analysis) -> list[Versus]:
    """Every pair where they are few; else those with the fastest scenario."""
    if len(analysis.comparisons) <= 15:
        return list(analysis.comparisons)
    fastest = analysis.comparisons[0].a
    return [v for v in analysis.comparisons if fastest in {v.a, v.b}]


def charted(recordings: Sequence[Recording]) -> tuple[list[Part], int]:
    """Which parts of recordings get a chart over time; and how many get none."""
    every = [part for recording in recordings for part in parts(recording)]
    worth = [part for part in every if totals_of(part).answered > 1]
    shown = sorted(worth, key=lambda p: -totals_of(p).samples)[:MOST_CHARTS]
    return sorted(shown, key=_place), len(worth) - len(shown)


def _place(part: Part) -> tuple[str, int, int]:
    return part.key.name, part.recording.manifest.started_ns, part.selection.size or 0


def _over_time(page: Page, progress: Progress) -> None:
    analysis = page.analysis
    shown, page.left_out = charted(analysis.recordings)
    share = min(max(BINS, ZOOM_BINS // max(len(shown), 1)), FINEST)
    for i, part in enumerate(shown):
        recording = part.recording
        events = heaviest([f for f in analysis.findings if f.recording == recording.manifest.id])
        heading = f"{_named(part)}, {moment(recording.manifest.started_ns, analysis.zone)[:19]}"
        progress(f"drawing {heading}")
        fine = envelope(recording.rollup, share, part.selection)
        coarse = _coarse(fine)
        clock = timeline.Clock.of(analysis.zone, fine)
        still = timeline.over_time(coarse, events, clock)
        live = timeline.over_time(fine, events, clock, zoom=True)
        if still is None or live is None:
            continue
        name = f"time-{i + 1}"
        data = timeline.columns(fine, coarse, clock)
        lines = "median and p99" if "p99" in data["lines"] else "median"
        note = f"Band: smallest to largest; {lines} of each {duration(coarse.width_ns)}."
        zoom = Zoom(render.compiled(live), data)
        page.figures.setdefault("time", []).append(
            Figure(name, heading, note, still, render.svg(still, name), "", zoom, fine)
        )


def _named(part: Part) -> str:
    swept = part.selection.size is not None
    return f"{part.key.name}, {part.selection.size:,} bytes" if swept else part.key.name


def title_of(analysis: Analysis) -> str:
    """The labels, where no title is given."""
    labels = sorted({r.label for r in analysis.recordings} | {s.label for s in analysis.summaries})
    return ", ".join(labels[:4]) + (f" and {len(labels) - 4} others" if len(labels) > 4 else "")


def _coarse(fine: Envelope, most: int = BINS) -> Envelope:
    """The same series in at most `most` bins: extremes stay, medians and p99 are the middle (the largest) of
    what they join.
    """
    span = int((fine.start_ns[-1] - fine.start_ns[0]) // fine.width_ns) + 1 if len(fine.start_ns) else 0
    factor = -(-span // most)
    if factor <= 1:
        return fine
    key = (fine.start_ns - fine.start_ns[0]) // (fine.width_ns * factor)
    starts = np.flatnonzero(np.diff(key, prepend=-1))
    with np.errstate(all="ignore"):
        p50 = np.array([_middle(part) for part in np.split(fine.p50_ns, starts[1:])])
        p99 = np.fmax.reduceat(fine.p99_ns, starts)
        low, high = np.fmin.reduceat(fine.min_ns, starts), np.fmax.reduceat(fine.max_ns, starts)
    return Envelope(
        start_ns=fine.start_ns[0] + key[starts] * fine.width_ns * factor,
        width_ns=fine.width_ns * factor,
        sent=np.add.reduceat(fine.sent, starts),
        unanswered=np.add.reduceat(fine.unanswered, starts),
        answered=np.add.reduceat(fine.answered, starts),
        min_ns=low,
        max_ns=high,
        p50_ns=p50,
        p99_ns=p99,
        error=fine.error,
    )


def _middle(part: Any) -> float:  # noqa: ANN401 - a slice of floats
    known = part[~np.isnan(part)]
    return float(np.median(known)) if len(known) else float("nan")


def _environment(shown: Callable[[Any], Any]) -> jinja2.Environment:
    """`shown`: what becomes of every value that a template shows."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("fathometer.report"),
        autoescape=True,
        finalize=shown,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"duration": duration, "moment": moment}
    environment.filters |= {
        "statement": findings.statement,
        "evidence": findings.evidence,
        "advice": findings.advice,
        "advice_evidence": findings.advice_evidence,
    }
    return environment


def _in_html(value: Any) -> Any:  # noqa: ANN401 - whatever a template shows
    """Cleaned; what is markup by our own making stays, the rest is escaped by the environment."""
    return cleaned(value) if isinstance(value, str) and not isinstance(value, Markup) else value


_MEANT = re.compile(r"[\\`*_\[\]<>&|#~]")
"""What Markdown, or the HTML within it, takes for its own."""


def _in_markdown(value: Any) -> Any:  # noqa: ANN401 - whatever a template shows
    """Cleaned, and with a backslash before what has a meaning; our own markup stays."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return Markup(_MEANT.sub(r"\\\g<0>", cleaned(value)))  # noqa: S704 - nothing is left that has a meaning


def _context(page: Page) -> dict[str, Any]:
    a = page.analysis
    shown, folded = shown_and_folded(a.findings)
    first, advised = told_first(a)
    main = foremost(a)
    others = [v for v in a.comparisons if all(v is not m for m in main)]
    return {
        "page": page,
        "a": a,
        "short": in_short(a),
        "first": first,
        "advised": advised,
        "findings": shown,
        "folded": folded[: 2 * page.rows],
        "folded_more": max(len(folded) - 2 * page.rows, 0),
        "version": __version__,
        "rows": page.rows,
        "zone": zone_name(a.zone),
        "makes": any(is_making(s.key.mode) for s in a.scenarios),
        "extras": modes.extras(a),
        "tables": {
            "summary": tables.summary(a.scenarios),
            "summaries": tables.of_tools(a.summaries),
            "runs": tables.of_runs(a.scenarios),
            "ratios": tables.ratios(main),
            "more_ratios": tables.ratios(others),
            "segments": tables.segments(a),
            "recordings": tables.recordings(a),
        },
        "wrong": [r for r in a.consistency if r.verdict != "ok"][: page.rows],
    }


def html(page: Page) -> str:
    """One file: pictures inside, the script of the zooming charts inside, nothing to fetch. Where it would be
    larger than `LIMIT`, detail goes first, then zooming, then charts over time.
    """
    made = _html(page)
    for thinner in (_coarser, _still, _fewer, _without_time):
        if len(made.encode()) <= LIMIT:
            break
        page = thinner(page)
        made = _html(page)
    return made


def _html(page: Page) -> str:
    zooms = {f.name: {"spec": f.zoom.spec, "data": f.zoom.columns} for f in page.every() if f.zoom}
    data = json.dumps(zooms, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return (
        _environment(_in_html)
        .get_template("report.html.j2")
        .render(**_context(page), zooms=data if zooms else None, script=render.script() if zooms else "")
    )


def _with_time(page: Page, figures: list[Figure]) -> dict[str, list[Figure]]:
    return {k: v for k, v in page.figures.items() if k != "time"} | ({"time": figures} if figures else {})


def _coarser(page: Page) -> Page:
    made = []
    for f in page.figures.get("time", []):
        zoom = f.zoom
        if zoom and f.envelope:
            fewer = _coarse(f.envelope, max(len(f.envelope.start_ns) // 4, 1))
            clock = timeline.Clock.of(page.analysis.zone, f.envelope)
            zoom = Zoom(zoom.spec, timeline.columns(fewer, _coarse(f.envelope), clock))
        made.append(replace(f, zoom=zoom))
    return replace(page, figures=_with_time(page, made))


def _still(page: Page) -> Page:
    return replace(
        page, figures=_with_time(page, [replace(f, zoom=None) for f in page.figures.get("time", [])])
    )


def _fewer(page: Page) -> Page:
    had = page.figures.get("time", [])
    left = page.left_out + max(len(had) - 3, 0)
    return replace(page, figures=_with_time(page, had[:3]), left_out=left, rows=ROWS // 2)


def _without_time(page: Page) -> Page:
    left = page.left_out + len(page.figures.get("time", []))
    return replace(page, figures=_with_time(page, []), left_out=left, rows=ROWS // 4)


def markdown(page: Page, pictures: str | None = None) -> str:
    """For a repository or a ticket. `pictures`: the directory, relative to the file, in which the figures lie
    as SVG.
    """
    where = Markup(quote(pictures)) if pictures else None  # noqa: S704 - a path of the caller's, in a link
    return _environment(_in_markdown).get_template("report.md.j2").render(**_context(page), where=where)
