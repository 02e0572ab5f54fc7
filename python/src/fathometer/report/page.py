"""The report as one HTML file that needs no network, and as Markdown."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jinja2
import numpy as np

from fathometer import __version__
from fathometer.dataset import query
from fathometer.dataset.query import Envelope
from fathometer.findings.model import Analysis, Finding
from fathometer.findings.words import count, duration, moment
from fathometer.report import charts, render, tables
from fathometer.report.charts import Spec

BINS = 900
"""Of a still picture: more than its pixels would show nothing."""
ZOOM_BINS = 6_000
"""Of all zooming charts together; each gets its share, at least `BINS`. At some 60 bytes a bin this keeps the
page below 3 MB."""
MOST_CHARTS = 12
"""Recordings that get a chart over time; the longest ones. Beyond that the page would be a scroll of lines.
"""


@dataclass(slots=True)
class Figure:
    """A picture of the report."""

    name: str
    title: str
    note: str
    spec: Spec
    zoom: Spec | None = None
    svg: str = ""


@dataclass(slots=True)
class Page:
    """What the templates are given."""

    title: str
    analysis: Analysis
    figures: dict[str, list[Figure]] = field(default_factory=dict)

    def every(self) -> list[Figure]:
        """All pictures."""
        return [f for group in self.figures.values() for f in group]


def draw(
    analysis: Analysis, title: str | None = None, progress: Callable[[str], None] = lambda _: None
) -> Page:
    """Makes every picture of the report."""
    page = Page(title or _title(analysis), analysis)
    s = analysis.scenarios

    def add(
        group: str, name: str, heading: str, note: str, spec: Spec | None, zoom: Spec | None = None
    ) -> None:
        if spec is not None:
            progress(f"drawing {heading}")
            page.figures.setdefault(group, []).append(
                Figure(name, heading, note, spec, zoom, render.svg(spec))
            )

    add("summary", "figures", "p50, p95 and p99", "Bars are 95 % intervals.", charts.figures(s))
    add(
        "summary",
        "tail",
        "Distribution on a tail scale",
        "Each mark to the right is ten times rarer; a line ends where its count does.",
        charts.tail(s),
    )
    add(
        "comparison",
        "ratios",
        "Ratios of medians",
        "Bars are 95 % intervals; grey: no difference shown.",
        charts.ratios(analysis.comparisons),
    )
    add(
        "distribution",
        "histograms",
        "Histograms",
        "Each by share of its own samples, on one scale.",
        charts.distribution(s),
    )
    add(
        "distribution",
        "sweep",
        "Round trip against payload",
        "Dashed: fixed cost and cost per byte.",
        charts.sweep(analysis),
    )
    shown = sorted(analysis.recordings, key=lambda r: -r.rows)[:MOST_CHARTS]
    shown = [r for r in shown if r.totals.answered]
    share = max(BINS, ZOOM_BINS // max(len(shown), 1))
    for i, recording in enumerate(sorted(shown, key=lambda r: (r.label, r.manifest.started_ns))):
        events = [f for f in analysis.findings if f.recording == recording.manifest.id]
        fine = query.envelope(recording, share)
        heading = f"{recording.label}, {moment(recording.manifest.started_ns)}"
        note = (
            f"Band: smallest to largest; lines: median and p99 of each {duration(_coarse(fine).width_ns)}. "
            f"{count(len(events), 'finding')} on it."
        )
        add(
            "time",
            f"time-{i + 1}",
            heading,
            note,
            charts.over_time(_coarse(fine), events),
            charts.over_time(fine, events, "container", zoom=True),
        )
    for i, scenario in enumerate(s):
        add(
            "calendar",
            f"calendar-{i + 1}",
            scenario.name,
            scenario.calendar.of_day.said if scenario.calendar else "",
            charts.heat(scenario),
        )
    return page


def _title(analysis: Analysis) -> str:
    labels = sorted({r.label for r in analysis.recordings})
    return ", ".join(labels[:4]) + (f" and {len(labels) - 4} others" if len(labels) > 4 else "")


def _coarse(fine: Envelope) -> Envelope:
    """The same series in at most `BINS` bins: extremes stay, medians and p99 are the middle (the largest) of
    what they join.
    """
    factor = -(-len(fine.start_ns) // BINS)
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
        above=fine.above[:, starts],
        error=fine.error,
    )


def _middle(part: Any) -> float:  # noqa: ANN401 - a slice of floats
    known = part[~np.isnan(part)]
    return float(np.median(known)) if len(known) else float("nan")


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("fathometer.report"),
        autoescape=jinja2.select_autoescape(["html.j2"]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"duration": duration, "moment": moment, "mdcell": _markdown_cell}
    return environment


def _markdown_cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _context(page: Page) -> dict[str, Any]:
    a = page.analysis
    shown: list[Finding] = list(a.findings)
    return {
        "page": page,
        "a": a,
        "findings": shown,
        "version": __version__,
        "tables": {
            "summary": tables.summary(a.scenarios),
            "runs": tables.of_runs(a.scenarios),
            "ratios": tables.ratios(a.comparisons),
            "segments": tables.segments(a),
            "recordings": tables.recordings(a),
        },
        "wrong": [r for r in a.consistency if r.verdict != "ok"],
    }


def html(page: Page) -> str:
    """One file: pictures inside, the script of the zooming charts inside, nothing to fetch."""
    zooms = {f.name: f.zoom for f in page.every() if f.zoom}
    data = json.dumps(zooms, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return (
        _environment()
        .get_template("report.html.j2")
        .render(**_context(page), zooms=data if zooms else None, script=render.script() if zooms else "")
    )


def markdown(page: Page, pictures: str | None = None) -> str:
    """For a repository or a ticket. `pictures`: the directory, relative to the file, in which the figures lie
    as SVG.
    """
    return _environment().get_template("report.md.j2").render(**_context(page), pictures=pictures)
