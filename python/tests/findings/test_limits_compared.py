"""Limits of several paths side by side: which differ, and how a report of searches alone begins."""

import numpy as np

from fathometer.dataset import open_recordings
from fathometer.findings.analyse import analyse
from fathometer.findings.limits_compared import alike, searched
from fathometer.report.write import as_text
from support.recordings import write
from support.searches import SECOND, runs


def grouped(directory):
    every = searched(analyse(open_recordings([directory])).scenarios)
    return [[x.name for x in group] for group in alike(every)]


def test_paths_differ_where_their_brackets_do_not_overlap(tmp_path):
    """Two ends may be one length: what survived it and what died of it are of two paths then."""
    runs(tmp_path / "short", (1, 2), (1.5, 2.5))
    runs(tmp_path / "next", (2.5, 3))
    runs(tmp_path / "overlaps", (2.9, 4))
    runs(tmp_path / "none", (9, None))
    assert grouped(tmp_path) == [["short"], ["next", "overlaps"], ["none"]]


def test_a_path_without_a_limit_is_told_apart_only_beyond_what_was_tried(tmp_path):
    runs(tmp_path / "tried-less", (3, None))
    runs(tmp_path / "found", (4, 5))
    assert grouped(tmp_path) == [["tried-less", "found"]]


def test_runs_of_one_path_are_one_bracket_and_a_contradiction_is_told(tmp_path):
    runs(tmp_path / "agree", (1, 2), (1.5, 2.5))
    runs(tmp_path / "contradict", (11, 12), (13, 14))
    runs(tmp_path / "once", (21, 22), (25, None))
    found = {x.name: x for x in searched(analyse(open_recordings([tmp_path])).scenarios)}
    assert {name: x.sure for name, x in found.items()} == {
        "agree": True,
        "contradict": False,
        "once": False,
    }
    one = found["agree"]
    assert (one.low.ns, one.high.ns, one.low.of, one.runs) == (SECOND, 2.5 * SECOND, 6, 2)


def test_a_report_of_searches_alone_begins_with_what_they_found(tmp_path):
    runs(tmp_path / "short", (1, 2))
    runs(tmp_path / "long", (5, 6))
    text = as_text(analyse(open_recordings([tmp_path])), "markdown")
    (tile,) = [line for line in text.splitlines() if line.startswith("- Idle limit")]
    assert "**1.00 s to 2.00 s at the shortest** (paths differ;" in tile
    rows = [line for line in text.splitlines() if line.startswith(("| short", "| long"))]
    assert len([row for row in rows if "without a word" in row]) == 2
    assert "nothing was sent" not in text
    assert "## Figures" not in text
    write(tmp_path / "probed", np.full(200, 1_000_000), label="probed")
    text = as_text(analyse(open_recordings([tmp_path])), "markdown")
    figures = text.split("## Figures")[1].split("## ")[0]
    assert "| probed" in figures
    assert "| short" not in figures
