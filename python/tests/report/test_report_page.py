"""The page and the Markdown as text; what a browser makes of them is in test_report_in_chromium."""

import html
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from fathometer.dataset import open_recordings
from fathometer.findings.analyse import analyse
from fathometer.findings.finding import Finding, Place, ns
from fathometer.findings.render import statement
from fathometer.findings.words import duration
from fathometer.report import page as pages
from fathometer.report import render, short
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


def test_it_is_well_formed_and_its_tables_are_rectangles(page):
    assert page.wrong == []
    assert page.open == []
    assert len(page.tables) >= 4
    for rows in page.tables:
        assert len({len(row) for row in rows}) == 1, rows[0]


def test_a_label_is_text_whatever_stands_in_it(report):
    text = report.html.read_text()
    assert "<b>peered" not in text
    assert html.escape("<b>peered & co</b> | odd") in text


def test_its_table_says_what_numpy_says(report, page):
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


def test_it_needs_nothing_from_outside(report):
    text = report.html.read_text()
    assert not re.search(r"""(?:src|href)=["'](?!#|data:)""", text.split("<script>")[0])
    assert "default-src 'none'" in text


def test_pictures_in_one_page_do_not_share_names(report):
    names = re.findall(r'\bid="([^"]+)"', report.html.read_text())
    assert len(names) == len(set(names))


def test_it_begins_with_what_matters(report):
    said = short.in_short(report.analysis)
    assert said[0].startswith("18,000 samples in 3 recordings of 3 scenarios")
    assert "18 (" in said[0]
    assert said[1].startswith("Fastest: same-zone: median")
    assert "Of 3 pairs" in said[3]
    first, _ = short.told_first(report.analysis)
    assert {"coincidence", "death"} & {f.kind for f in first}


def test_markdown_tables_are_well_formed(report):
    blocks = re.findall(r"(?:^\|.*\n)+", report.markdown.read_text(), flags=re.MULTILINE)
    assert len(blocks) >= 4
    for block in blocks:
        lines = block.strip().split("\n")
        assert re.fullmatch(r"\|(---\|)+", lines[1]), lines[1]
        assert len(lines) >= 3
        # A bar that belongs to a label is escaped.
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1, lines


def test_every_figure_is_there_for_slides(report):
    figures = report.root / "figures"
    names = {p.stem for p in figures.iterdir()}
    assert {"figures", "tail", "ratios", "histograms", "time-1", "time-2", "time-3"} <= names
    for name in names:
        assert (figures / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "currentColor" not in (figures / f"{name}.svg").read_text()


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


def test_of_many_findings_the_weightiest_are_shown_and_none_is_lost():
    many = [finding(i) for i in range(200)] + [finding(200, "death", "high")]
    shown, folded = short.shown_and_folded(many)
    assert len(shown) == short.MOST_SHOWN
    assert many[-1] in shown
    assert len(shown) + len(folded) == len(many)
    assert shown == sorted(shown, key=lambda f: f.from_ns)


def test_hundreds_of_findings_are_folded_in_the_page(report):
    many = replace(report.analysis, findings=tuple(finding(i) for i in range(700)))
    text = pages.html(pages.Page("many", many))
    opened = text.split("<details>")[0]
    assert opened.count("the level rose") <= short.MOST_SHOWN + 5
    assert "670 more findings" in text
    assert statement(finding(300)) in text
    assert "270 more are in the JSON" in text


@pytest.mark.parametrize("limit", [1_400_000, 900_000, 150_000])
def test_a_page_that_would_be_too_large_loses_detail_then_zooming_then_charts(report, monkeypatch, limit):
    whole = pages.draw(report.analysis)
    monkeypatch.setattr(pages, "LIMIT", limit)
    text = pages.html(whole)
    if limit >= 900_000:
        assert len(text.encode()) <= limit
        assert 'id="time-1"' in text
    assert ("vegaEmbed" in text) == (limit > 1_000_000)
    assert read(text).wrong == []


def test_sixty_recordings_make_a_page_below_three_megabytes(tmp_path):
    for i in range(60):
        rtt = lognormal_ns(i, 400, 500 + 10 * i)
        write(
            tmp_path / str(i),
            rtt,
            label=f"a scenario with quite a long name {i:02}",
            start_ns=START + i * 10**12,
        )
    page = pages.draw(analyse(open_recordings([tmp_path])))
    text = pages.html(page)
    assert len(text.encode()) < 3_000_000
    assert page.left_out == 60 - pages.MOST_CHARTS
    assert "48 more have no chart here" in text


def test_a_spoilt_cache_is_made_again(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    render._script.cache_clear()
    good = render.script()
    (kept,) = (tmp_path / "fathometer").iterdir()
    kept.write_text("")
    render._script.cache_clear()
    assert render.script() == good
    assert kept.read_text() == good
    assert "</script" not in good
