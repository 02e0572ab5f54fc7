"""Limits of several paths side by side: which differ, and how a report of searches alone begins."""

import json

import numpy as np

from fathometer.dataset import open_recordings
from fathometer.findings.analyse import analyse
from fathometer.findings.limits_compared import alike, beside, searched
from fathometer.findings.seen.limits import Traffic
from fathometer.report.write import as_text
from support.recordings import write
from support.searches import SECOND, rates, runs, unclear


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


def test_searches_with_different_traffic_are_not_compared(tmp_path):
    """A search with keepalives finds none where the plain one finds a limit: on one path "paths differ" was
    told, and recordings of one label were pooled into a bracket that nothing was sure of.
    """
    there = {"one_way": {"every_ns": 30 * SECOND, "from": "there"}}
    runs(tmp_path / "plain", (1, 2), label="p")
    runs(tmp_path / "kept", (9, None), label="p", keepalive_ns=SECOND)
    runs(tmp_path / "spoken", (4, 5), label="p", **there)
    runs(tmp_path / "other", (9, None), keepalive_ns=SECOND)
    analysis = analyse(open_recordings([tmp_path]))
    every = {(b.searched.name, b.searched.traffic): b for b in beside(searched(analysis.scenarios))}
    plain, kept, spoken = None, Traffic("keepalive", SECOND), Traffic("there", 30 * SECOND)
    assert set(every) == {("p", plain), ("p", kept), ("p", spoken), ("other", kept)}
    assert all(b.searched.sure and not b.others for b in every.values())
    assert {key for key, b in every.items() if b.several} == {("p", kept), ("other", kept)}
    text = as_text(analysis, "markdown")
    assert "paths differ" not in text.split("## Limits")[0]
    assert "idle, traffic from there alone each 30.0 s; 1 run" in text


def test_unclear_search_is_never_no_limit(tmp_path):
    """A report began with "none up to 7.86 s" of a path whose search was unclear, and of another's limit."""
    unclear(tmp_path / "unclear", 7.86, 8.24)
    runs(tmp_path / "found", (55.5, 56.9))
    text = as_text(analyse(open_recordings([tmp_path])), "markdown")
    assert "none up to" not in text
    head = text.split("## Limits")[0]
    assert "unclear: some died from 8.24 s on" in head
    assert "55.5 s to 56.9 s" in head


def test_missing_limit_differs_only_beyond_tried_range(tmp_path):
    runs(tmp_path / "tried-less", (3, None))
    runs(tmp_path / "found", (4, 5))
    assert grouped(tmp_path) == [["tried-less", "found"]]


def test_runs_of_one_path_share_a_bracket(tmp_path):
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
    assert (one.low.at, one.high.at, one.low.of, one.runs) == (SECOND, 2.5 * SECOND, 6, 2)


def test_search_only_report_starts_with_limits(tmp_path):
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


def test_rate_ceilings_are_compared_per_connection_count(tmp_path):
    runs(tmp_path / "idle", (1, 2))
    rates(tmp_path / "slow", (400, 500), (320, 400))
    rates(tmp_path / "fast", (1250, None))
    rates(tmp_path / "wide", (2500, None), connections=3)
    every = searched(analyse(open_recordings([tmp_path])).scenarios)
    found = [(x.name, x.limit) for x in every]
    assert found == [("idle", "idle"), ("slow", "rate"), ("fast", "rate"), ("wide", "rate")]
    # Over more connections there may be another ceiling: that is another question.
    assert [b.others for b in beside(every)] == [(), ("fast",), ("slow",), ()]
    slow = every[1]
    # Between the lowest and the highest end; 14 of 1,800 packets were lost above, in both runs together.
    assert (slow.low.at, slow.high.at, slow.high.hits, slow.high.of) == (320, 500, 14, 1_800)
    assert (dict(slow.how), every[3].connections, slow.sure) == ({"delay": 2}, 3, True)
    text = as_text(analyse(open_recordings([tmp_path])), "markdown")
    lines = [line for line in text.splitlines() if " (rate, over " in line]
    rows = {
        name: line for line in lines for name in ("slow", "fast", "wide") if line.startswith(f"| {name} ")
    }
    for told in (
        "rate, over 1 connection; 2 runs",
        "320/s to 500/s",
        "0 of 1,440 lost",
        "delay begins",
        "fast",
    ):
        assert told in rows["slow"], rows
    assert "none up to 1,250/s" in rows["fast"]
    assert "rate, over 3 connections; 1 run" in rows["wide"]
    by_path = {
        x["path"]: x for x in json.loads(as_text(analyse(open_recordings([tmp_path])), "json"))["limits"]
    }
    assert by_path["slow"]["carried"] == {"rate_per_s": 320, "lost": 0, "of": 1_440}
    assert by_path["slow"]["too_much"] == {"rate_per_s": 500, "lost": 14, "of": 1_800}
    assert (by_path["wide"]["too_much"], by_path["wide"]["connections"]) == (None, 3)
    tile, wide = [line for line in text.splitlines() if line.startswith("- Rate ceiling, over ")]
    assert "**none up to 2,500/s**" in wide
    assert "**320/s to 500/s at the lowest** (paths differ;" in tile
    assert "nothing was sent" not in text


def test_runs_that_contradict_each_other_are_not_sure(tmp_path):
    rates(tmp_path / "contradict", (100, 125), (200, 250))
    (one,) = searched(analyse(open_recordings([tmp_path])).scenarios)
    assert not one.sure
