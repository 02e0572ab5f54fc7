"""Issue 16, rows 5 and 13: a label is anybody's text. One with control characters ended the whole report
(SIGABRT in the renderer of pictures), U+2028 ended a line of the page's script, half a character could not be
written at all, and terminal escapes and HTML went raw into Markdown.
"""

import json
import unicodedata
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from fathometer.clean import all_cleaned, cleaned
from fathometer.dataset import open_recordings
from fathometer.findings.analyse import analyse
from fathometer.report import drawing, render
from fathometer.report.vega import NARROW, base, named_rows
from support.pages import write_drawn
from support.recordings import START, lognormal_ns, write

HOSTILE = (
    "esc \x1b]0;owned\x07\x1b[31m nul \x00 bell \x07 del \x7f c1 \x9b",
    "lines \n\r\t \x85 \u2028 \u2029 ends",
    "half \ud800 and \udfff",
    "turned \u202e and \u2066",
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)> & \"quoted\" 'too'",
    "| bar | *stars* _lines_ `code` [link](javascript:alert(1)) ![pic](http://example.net/x) # ~~no~~",
    "plain, ünïcode, 日本語, مرحبا, 👩‍👩‍👧",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_cleaned_text_has_no_control_characters(text):
    for c in cleaned(text):
        assert c.isprintable() or unicodedata.category(c) == "Cf", ascii(c)
    cleaned(text).encode()


@given(st.text(alphabet=st.characters(codec=None, exclude_categories=())))
def test_cleaning_is_idempotent_and_single_line(text):
    once = cleaned(text)
    assert cleaned(once) == once
    assert len(once.splitlines()) <= 1
    once.encode()
    assert "\x1b" not in once


def test_ordinary_text_is_kept():
    assert cleaned(HOSTILE[-1]) == HOSTILE[-1]
    assert all_cleaned({"a\x1b": ["b\n", {"c": 1, "d": None, "e": True}]}) == {
        "a\ufffd": ["b ", {"c": 1, "d": None, "e": True}]
    }


@pytest.mark.parametrize("letter", ["🚀", "👩‍👩‍👧", "e\u0301\u0323", "\U00100000", "\ue000🚀"])
def test_long_label_is_drawn_wherever_cut(letter):
    """A label of two-unit characters ended the report if the picture cut one of them."""
    for before in range(50, 57):
        label = "x" * before + letter * 40
        spec = base(NARROW, 100, [{"path": label, "v": 3}, {"path": "🚀", "v": 2}], [label])
        spec |= {
            "mark": "bar",
            "encoding": {
                "y": named_rows([label, "🚀"], "path"),
                "x": {"field": "v", "type": "quantitative"},
                "color": {"field": "path", "type": "nominal"},
            },
        }
        drawn = render.svg(spec, "a", "Round trips")
        assert "x" * 40 in drawn
        assert ">🚀<" in drawn
    assert render.png(spec).startswith(b"\x89PNG")


JOINED = (" ".join((HOSTILE[7], *HOSTILE[:3])), " ".join(HOSTILE[3:7]))


@pytest.fixture(scope="module", params=[JOINED, pytest.param(HOSTILE, marks=pytest.mark.acceptance)])
def labels(request):
    return request.param


@pytest.fixture(scope="module")
def hostile(labels, tmp_path_factory):
    """A report of recordings whose labels, paths and events are hostile."""
    root = tmp_path_factory.mktemp("hostile")
    for number, label in enumerate(labels):
        stopped = {"at_ns": START + 100_000_000_000, "kind": "pause", "host": "local", "reason": label}
        write(
            root / "recordings" / str(number),
            lognormal_ns(number, 200, 700 + 50 * number),
            label=str(number),
            events=[stopped | {"duration_ns": 900_000_000, "start": "2025-03-20T00:01:40.000000000Z"}],
            manifest={"label": label, "path": {"from": label, "to": label, "via": label, "tags": {}}},
        )
    files = {"html": root / "r.html", "markdown": root / "r.md", "machine": [root / "r.json"]}
    page = drawing.draw(analyse(open_recordings([root / "recordings"])), HOSTILE[0])
    write_drawn(page, **files)
    # Both have every label.
    slides = {"overview": page.figures["overview"], "summary": page.figures["summary"]}
    write_drawn(replace(page, figures=slides), pictures=root / "figures")
    return root


def texts(hostile):
    return {p.name: p.read_bytes().decode() for p in hostile.rglob("r.*")} | {
        p.name: p.read_text() for p in (hostile / "figures").glob("*.svg")
    }


def test_output_files_contain_no_control_characters(hostile):
    files = texts(hostile)
    assert {"r.html", "r.md", "r.json", "tail.svg"} <= set(files)
    for name, text in files.items():
        # The runtime of the charts is no text from outside.
        own = text.split("<script", maxsplit=1)[0]
        assert not [c for c in own if unicodedata.category(c) in {"Cc", "Zl", "Zp", "Cs"} and c != "\n"], name
        assert "\u202e" not in text.split("<script")[0]


def test_no_label_becomes_markup(hostile):
    page = (hostile / "r.html").read_text()
    before, *scripts = page.split("<script")
    assert "<img" not in before
    assert len(scripts) == 3, "data, runtime, and ours"
    assert "alert(1)</script" not in page
    rendered = MarkdownIt("commonmark").enable("table").render((hostile / "r.md").read_text())
    for tag in ("<img src=x", 'example.net/x"', "<script", "<a ", "<del", "<em>"):
        assert tag not in rendered, tag
    heads = [line for line in (hostile / "r.md").read_text().splitlines() if line.startswith("# ")]
    assert len(heads) == 1


def test_json_has_the_cleaned_labels(hostile, labels):
    report = json.loads((hostile / "r.json").read_text())
    assert {r["label"] for r in report["recordings"]} == {cleaned(label) for label in labels}
