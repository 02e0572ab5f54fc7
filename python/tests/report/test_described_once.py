"""A picture has a label, and a caption that repeats no heading: 36 pictures of a page had no label."""

import re

from fathometer.dataset import open_recordings
from fathometer.findings.analyse import analyse
from fathometer.report import drawing, templates
from support.ends import closed, opened
from support.recordings import START, lognormal_ns, write

SECOND = 1_000_000_000
HEADING = re.compile(r"<h[123][^>]*>(.*?)</h[123]>", re.DOTALL)
FIGURE = re.compile(r'<figure id="([^"]+)">(.*?)</figure>', re.DOTALL)


def plain(html):
    return re.sub(r"<[^>]*>", " ", html).strip()


def test_pictures_have_labels_and_captions_repeat_no_heading(tmp_path):
    for number, label in enumerate(("near", "far")):
        events = [
            opened(0, START),
            closed(0, START + 100 * SECOND, 100 * SECOND, outstanding=5, silent_ns=5 * SECOND),
            opened(1, START + 103 * SECOND),
        ]
        write(tmp_path / label, lognormal_ns(number, 400, 500 + 400 * number), label=label, events=events)
    analysis = analyse(open_recordings([tmp_path]))
    html = templates.html(drawing.draw(analysis, None))
    headings = {plain(h) for h in HEADING.findall(html)}
    assert {"Figures", "Time without answers"} <= headings
    figures = dict(FIGURE.findall(html))
    assert {"silent-share", "timeline"} <= set(figures)
    for name, figure in figures.items():
        (title,) = re.findall(r"<figcaption><strong>(.*?)</strong>", figure)
        assert title not in headings, name
        pictures = re.findall(r"<svg [^>]*>", figure)
        pictures += re.findall(r'<div class="canvas"[^>]*>', figure)
        assert len(pictures) > 1, name
        for picture in pictures:
            assert f' role="img" aria-label="Chart: {title}"' in picture, name
    captions = [re.findall(r"<figcaption>(.*?)</figcaption>", f) for f in figures.values()]
    assert all(len(c) == 1 for c in captions)
