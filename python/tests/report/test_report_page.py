"""The page and the Markdown as text; what a browser makes of them is in test_report_in_chromium."""

import html
import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser

import numpy as np
import pytest

from fathometer.dataset import open_recordings
from fathometer.findings.analyse import analyse
from fathometer.findings.doubts import in_words
from fathometer.findings.finding import Finding, Incident, Place, Toll, ns
from fathometer.findings.render import cost, statement
from fathometer.findings.words import duration
from fathometer.report import drawing, envelopes, overview, render, templates
from fathometer.report.envelopes import MOST_CHARTS
from fathometer.report.interest import as_shown
from fathometer.report.overview import ROWS
from fathometer.report.page import Page, coarser
from fathometer.report.tables import NAMES
from fathometer.report.vega import BLUE, base
from support.pages import write_drawn
from support.recordings import START, lognormal_ns, write

VOID = {"meta", "link", "br", "img", "input"}


class Reader(HTMLParser):
    """Checks that tags close as they open, and collects tables and the visible text."""

    def __init__(self):
        super().__init__()
        self.open, self.cells, self.tables, self.text, self.wrong = [], [], [], [], []

    def handle_starttag(self, tag, attrs):  # noqa: ARG002 - the parser calls it so
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in {"td", "th"}:
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append((tag, self.getpos()))

    def handle_data(self, data):
        if {"script", "style"} & set(self.open):
            return
        self.text.append(data)
        if {"td", "th"} & set(self.open):
            self.tables[-1][-1][-1] += data


def read(text):
    reader = Reader()
    reader.feed(text)
    return reader


@pytest.fixture(scope="module")
def page(report):
    return read(report.html.read_text())


def test_page_is_well_formed_with_rectangular_tables(page):
    assert page.wrong == []
    assert page.open == []
    assert len(page.tables) >= 4
    for rows in page.tables:
        assert len({len(row) for row in rows}) == 1, rows[0]


def test_markup_in_a_label_is_text(report):
    text = report.html.read_text()
    assert "<b>peered" not in text
    assert html.escape("<b>peered & co</b> | odd") in text


def test_page_table_matches_numpy(report, page):
    (summary,) = [t for t in page.tables if t[0][:2] == ["scenario", "samples"]]
    head, rows = summary[0], summary[1:]
    for label, rtt in report.sent.items():
        (row,) = [r for r in rows if r[0].startswith(label)]
        known = rtt[10:]
        known = known[known >= 0]
        assert row[1].startswith(f"{len(known):,}")
        assert row[head.index("min")] == duration(known.min())
        assert row[head.index("max")] == duration(known.max())
        shown = float(re.match(r"[\d.]+", row[head.index("p50")])[0])
        scale = 1e6 if " ms" in row[head.index("p50")] else 1e3
        assert shown == pytest.approx(np.median(known) / scale, rel=0.01)


def test_page_needs_nothing_from_outside(report):
    text = report.html.read_text()
    assert not re.search(r"""(?:src|href)=["'](?!#|data:)""", text.split("<script>")[0])
    assert "default-src 'none'" in text


def test_pictures_in_one_page_do_not_share_names(report):
    names = re.findall(r'\bid="([^"]+)"', report.html.read_text())
    assert len(names) == len(set(names))


def test_page_begins_with_what_matters(report, page):
    """The verdict, what happened, when, and only then figures: in the reader's order."""
    text = report.html.read_text()
    rooms = ("verdict", "incidents", "time", "timeline", "summary", "comparison", "paths", "measured")
    places = [text.index(f'id="{room}"') for room in rooms]
    assert places == sorted(places)
    strip = " ".join(" ".join(page.text).split()).split("What To whom")[0].split("To whom")[0]
    # Of each of the three, ten samples are its warm-up, and in no count.
    for words in ("Answered", "99.90 %", "18 of 17,970 samples lost", "Incidents"):
        assert words in strip


def test_each_incident_is_one_entry_with_parts(report):
    assert report.analysis.incidents
    text = report.html.read_text()
    assert text.count('<article class="incident') == len(report.analysis.incidents)
    for number, incident in enumerate(as_shown(report.analysis.incidents), 1):
        entry = text.split(f'id="incident-{number}"')[1].split("</article>")[0]
        open_part, folded = entry.split("<details>")
        words = cost(incident)
        assert html.escape(words[:1].upper() + words[1:]).replace("&#x27;", "&#39;") in open_part
        assert folded.count("<li class=") == len(incident.parts)


def test_doubts_are_read_without_hovering(report, page):
    text = "".join(page.text)
    doubts = {
        words for s in report.analysis.scenarios for n in NAMES if (words := in_words(s.figure(n).doubt))
    }
    assert doubts, "the story has doubts, or nothing is tried"
    for doubt in doubts:
        assert doubt[:1].upper() + doubt[1:] in text
    assert "title=" not in report.html.read_text().split("<script")[0]


def test_markdown_tables_are_well_formed(report):
    blocks = re.findall(r"(?:^\|.*\n)+", report.markdown.read_text(), flags=re.MULTILINE)
    assert len(blocks) >= 4
    for block in blocks:
        lines = block.strip().split("\n")
        assert re.fullmatch(r"\|(---\|)+", lines[1]), lines[1]
        assert len(lines) >= 3
        # A bar that belongs to a label is escaped.
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1, lines


def first_of_each(page):
    """The page with the first picture of each section: a PNG takes a tenth of a second."""
    return replace(page, figures={name: group[:1] for name, group in page.figures.items()})


def test_every_figure_is_there_for_slides(report, tmp_path):
    every = {f.name for f in report.page.every()}
    assert {"figures", "tail", "ratios", "histograms", "time-1", "time-2", "time-3"} <= every
    page = first_of_each(report.page)
    write_drawn(page, pictures=tmp_path / "figures")
    names = [f.name for f in page.every()]
    assert {p.name for p in (tmp_path / "figures").iterdir()} == {
        f"{n}.{k}" for n in names for k in ("png", "svg")
    }
    for name in names:
        assert (tmp_path / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "currentColor" not in (tmp_path / "figures" / f"{name}.svg").read_text()


def finding(number, kind="change", confidence="low"):
    quantities = {"before": ns(1_000_000 + 1_000 * number), "after": ns(2_000_000)}
    return Finding(
        kind,
        (Place("path", "r", number),),
        START + number,
        confidence=confidence,
        quantities=quantities,
        terms={"of": "level", "how": "reset"},
    )


def test_hundreds_of_incidents_are_folded_in_the_page(report):
    many = tuple(
        Incident(
            f"i{i}", "stall", START + i, START + i, (Place("path"),), None, "low", Toll(lost=i), (finding(i),)
        )
        for i in range(700)
    )
    text = templates.html(Page("many", replace(report.analysis, incidents=many)))
    folded = text.split("<details><summary>694 more incidents")
    assert len(folded) == 2
    assert folded[0].count("<article") == templates.MOST_INCIDENTS + 1
    assert re.findall(r'id="incident-(\d+)"', text) == [str(n) for n in range(1, 207)], "in the order shown"
    costliest = text.split('id="incident-1"')[1].split("</article>")[0]
    assert "699 samples lost" in costliest, "it is in the open, and in full"
    assert "494 more are in the JSON" in folded[1]
    assert statement(finding(3)).removeprefix("p") in text


def test_one_more_is_no_plural(report):
    """It said "1 more rows are in the JSON", and "1 more are"."""
    one = Incident("i", "stall", START, START, (Place("path"),), None, "low", Toll(lost=1), (finding(1),))
    many = replace(report.analysis, incidents=(one,) * (templates.MOST_INCIDENTS + 1 + 2 + 1))
    assert len(many.scenarios) == 3
    text = templates.html(replace(Page("many", many), rows=2, left_out=1))
    assert "1 more is in the JSON" in text
    assert "1 more row is in the JSON" in text
    assert "1 more recording has no chart of its own here" in text
    assert not re.search(r">[^<>]*(?<![\d.,])1 more (?:(?!is\b)\w+s|are)\b", text)


@pytest.mark.parametrize("limit", [2_500_000, 1_600_000, 150_000])
def test_oversized_page_loses_detail_then_zooming(report, monkeypatch, limit):
    monkeypatch.setattr(templates, "LIMIT", limit)
    text = templates.html(report.page)
    if limit >= 1_000_000:
        assert len(text.encode()) <= limit
        assert 'id="time-1"' in text
    assert ("vegaEmbed" in text) == (limit > 2_000_000)
    assert read(text).wrong == []


@pytest.fixture(scope="module")
def dense(tmp_path_factory):
    """The page of four paths with 6,000 samples each."""
    root = tmp_path_factory.mktemp("dense")
    for i in range(4):
        write(root / str(i), lognormal_ns(i, 6_000, 500 + 10 * i), label=f"path {i}", interval_ns=15_000_000)
    return drawing.draw(analyse(open_recordings([root])))


def live_in(text):
    return set(re.findall(r'class="live" data-figure="([a-z0-9-]+)"', text))


def test_recordings_beyond_the_most_have_no_chart(tmp_path, monkeypatch):
    monkeypatch.setattr(envelopes, "MOST_CHARTS", 1)
    monkeypatch.setattr(overview, "ROWS", 2)
    for i in range(4):
        write(tmp_path / str(i), lognormal_ns(i, 200, 500 + 10 * i), label=f"path {i}")
    page = drawing.draw(analyse(open_recordings([tmp_path])))
    text = templates.html(page)
    assert (page.left_out, page.paths_left_out) == (3, 2)
    assert "3 more recordings have no chart of their own here" in text
    assert "2 more paths" in text
    assert text.count("<script>") == 2, "the runtime once, and ours"


@pytest.mark.acceptance
def test_sixty_recordings_make_a_page_below_four_megabytes(tmp_path):
    for i in range(60):
        rtt = lognormal_ns(i, 400, 500 + 10 * i)
        write(
            tmp_path / str(i),
            rtt,
            label=f"a scenario with quite a long name {i:02}",
            start_ns=START + i * 10**12,
        )
    page = drawing.draw(analyse(open_recordings([tmp_path])))
    text = templates.html(page)
    assert len(text.encode()) <= 4_000_000
    assert "window.vegaEmbed" in text, "with the runtime, once"
    assert text.count("<script>") == 2, "the runtime once, and ours"
    assert page.left_out == 60 - MOST_CHARTS
    assert "48 more recordings have no chart of their own here" in text
    assert f"{60 - ROWS} more paths" in text


def test_twelve_dense_paths_fit_by_size(dense):
    """Each dense path takes so little that twelve of them fit."""
    text = templates.html(dense)
    assert {"timeline", "figures", "tail", *(f"time-{n}" for n in range(1, 5))} <= live_in(text)
    without_paths = len(render.script().encode())
    assert (len(text.encode()) - without_paths) * MOST_CHARTS / 4 + without_paths <= templates.LIMIT


@pytest.mark.acceptance
@pytest.mark.parametrize("paths", [12, ROWS])
def test_many_dense_paths_stay_live_within_limit(tmp_path, paths):
    """The demo's twelve paths made 5.4 MB, of which 2.2 MB were words and digits of one picture: its page had
    still pictures only.
    """
    for i in range(paths):
        rtt = lognormal_ns(i, 6_000, 500 + 10 * i)
        write(tmp_path / str(i), rtt, label=f"a path of the region {i:02}", interval_ns=15_000_000)
    text = templates.html(drawing.draw(analyse(open_recordings([tmp_path]))))
    assert len(text.encode()) <= templates.LIMIT
    assert {"timeline", "figures", "tail", *(f"time-{n}" for n in range(1, 13))} <= live_in(text)


def test_charts_beyond_limit_are_static(dense, monkeypatch):
    monkeypatch.setattr(templates, "LIMIT", len(templates.html(coarser(dense)).encode()) - 1)
    text = templates.html(dense)
    assert len(text.encode()) <= templates.LIMIT
    assert {"timeline", "time-1", "time-2", "time-3"} <= live_in(text)
    assert "time-4" not in live_in(text)
    assert all(f'<figure id="time-{n}">' in text for n in range(1, 5))


def test_compact_svg_keeps_every_shape():
    """What makes a picture small takes nothing from it: every bar is there, within a hundredth of a pixel."""
    rng = np.random.default_rng(1)
    rows = [
        {"a": i, "b": i + 1, "c": float(v), "d": float(v + w)}
        for i, (v, w) in enumerate(rng.random((300, 2)))
    ]
    spec = base(500, 100, rows)
    spec |= {
        "mark": {"type": "rect", "color": BLUE, "opacity": 0.3},
        "encoding": {
            "x": {"field": "a", "type": "quantitative"},
            "x2": {"field": "b"},
            "y": {"field": "c", "type": "quantitative"},
            "y2": {"field": "d"},
        },
    }
    bars = r"M([-\d.e]+),([-\d.e]+)h([-\d.e]+)v([-\d.e]+)h"
    drawn, whole = (
        sorted(tuple(map(float, bar)) for bar in re.findall(bars, svg))
        for svg in (render.svg(spec, "x", "title"), render.plain_svg(spec, "title"))
    )
    assert len(drawn) == len(whole) >= 300
    assert np.abs(np.array(drawn) - np.array(whole)).max() < 0.006
    assert len(render.svg(spec, "x", "title")) < len(render.plain_svg(spec, "title")) / 2


@pytest.fixture
def bundle(monkeypatch):
    """A bundle of Vega that takes no time."""
    made = "const vega = '</script>';" + " " * render._LEAST
    monkeypatch.setattr(render.vl_convert, "javascript_bundle", lambda *_, **__: made)


@pytest.mark.parametrize("bundled", ["bundle", pytest.param(None, marks=pytest.mark.acceptance)])
def test_a_spoilt_cache_is_made_again(tmp_path, monkeypatch, request, bundled):
    if bundled:
        request.getfixturevalue(bundled)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    # Another test may have the real one from its own cache.
    monkeypatch.setattr(render, "_script", cache(render._script.__wrapped__))
    good = render.script()
    (kept,) = (tmp_path / "fathometer").iterdir()
    kept.write_text("")
    render._script.cache_clear()
    assert render.script() == good
    assert kept.read_text() == good
    assert "</script" not in good
