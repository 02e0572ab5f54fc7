"""What a report consists of before it is HTML or Markdown: an analysis, its verdicts, its pictures."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from fathometer.dataset.regroup import Envelope
from fathometer.findings.model import Analysis
from fathometer.report import timeline
from fathometer.report.clock import Clock
from fathometer.report.envelopes import coarse
from fathometer.report.judgement import Judgement
from fathometer.report.vega import Spec

ROWS = 200
"""Rows of a table; the JSON has all."""
_KEPT = 3
"""Charts over time that stay, or zoom, where a page would be too large with all."""


@dataclass(slots=True)
class LiveChart:
    """A chart that can be hovered over, zoomed or brushed: a Vega specification and its data as columns."""

    spec: Spec
    columns: dict[str, Any] = field(default_factory=dict)
    """By the names of the specification's data; empty: the specification has its data."""


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
    live: LiveChart | None = None
    envelope: Envelope | None = None
    """What a zooming chart was made of."""
    path: str | None = None
    """Whose it is; None: of several paths."""


@dataclass(slots=True)
class Page:
    """What the templates are given."""

    title: str
    analysis: Analysis
    judgement: Judgement = field(default_factory=Judgement)
    figures: dict[str, list[Figure]] = field(default_factory=dict)
    left_out: int = 0
    """Recordings without a chart of their own."""
    paths_left_out: int = 0
    """Paths that are not in the timeline."""
    rows: int = ROWS
    clock: Clock = field(default_factory=lambda: Clock("UTC"))
    """Of all charts, so that a time picked in one can be shown in another."""

    def every(self) -> list[Figure]:
        """All pictures."""
        return [f for group in self.figures.values() for f in group]

    def of_path(self, group: str, path: str) -> list[Figure]:
        """The pictures of one path."""
        return [f for f in self.figures.get(group, []) if f.path == path]


def title_of(analysis: Analysis) -> str:
    """The labels, where no title is given."""
    labels = sorted({r.label for r in analysis.recordings} | {s.label for s in analysis.summaries})
    return ", ".join(labels[:4]) + (f" and {len(labels) - 4} others" if len(labels) > 4 else "")


def coarser(page: Page) -> Page:
    """Zooming charts with a quarter of their bins."""
    return _with_time(page, [_with_fewer_bins(page, f) for f in page.figures.get("time", [])])


def _with_fewer_bins(page: Page, figure: Figure) -> Figure:
    if figure.live is None or figure.envelope is None:
        return figure
    fewer = coarse(figure.envelope, max(len(figure.envelope.start_ns) // 4, 1))
    columns = timeline.columns(fewer, coarse(figure.envelope), page.clock)
    return replace(figure, live=LiveChart(figure.live.spec, columns))


def mostly_still(page: Page) -> Page:
    """Of the charts over time, only the first ones zoom; the timeline and what else is small stay live."""
    charts = page.figures.get("time", [])
    return _with_time(page, [*charts[:_KEPT], *(replace(f, live=None) for f in charts[_KEPT:])])


def still(page: Page) -> Page:
    """No chart that asks for a script."""
    figures = {name: [replace(f, live=None) for f in group] for name, group in page.figures.items()}
    return replace(page, figures=figures)


def fewer(page: Page) -> Page:
    """The first charts over time only, and half the rows."""
    charts = page.figures.get("time", [])
    left = page.left_out + max(len(charts) - _KEPT, 0)
    return replace(_with_time(page, charts[:_KEPT]), left_out=left, rows=ROWS // 2)


def without_time(page: Page) -> Page:
    """No chart of a recording, and a quarter of the rows."""
    left = page.left_out + len(page.figures.get("time", []))
    return replace(_with_time(page, []), left_out=left, rows=ROWS // 4)


def _with_time(page: Page, charts: list[Figure]) -> Page:
    others = {name: group for name, group in page.figures.items() if name != "time"}
    return replace(page, figures=others | ({"time": charts} if charts else {}))
