"""Freezes of several paths: one incident where one thing held them up, else one each, at its own time."""

import json
import re
import subprocess
from dataclasses import replace

import pytest

from fathometer.dataset import open_recordings
from fathometer.findings import render
from fathometer.findings.analyse import analyse
from fathometer.findings.finding import Finding, Place, ns, number
from fathometer.findings.incidents import incidents, numbered
from fathometer.report import templates
from fathometer.report.page import Page
from support.programs import fathom

SECOND = 1_000_000_000
T0 = 1_742_428_800 * SECOND


def stall(path, at, length, who="", clock="host:a", cause="peer_paused"):
    return Finding(
        "stall",
        (Place(path, f"r-{path}", 0),),
        T0 + round(at * SECOND),
        T0 + round((at + length) * SECOND),
        cause,
        "medium",
        {"length": ns(round(length * SECOND)), "waited": number(3, "samples")},
        {"end": "recovered", "announced": "", "who": who, "clock": clock},
        uncertain_ns=SECOND,
    )


def together(*findings):
    return len(incidents(numbered(findings))) == 1


def test_separate_freezes_are_separate_incidents():
    """At a sample a second, those of three reflectors within seven seconds were one, of the first's time."""
    folded = incidents(numbered([stall("a", 0, 1.5), stall("b", 3, 1.5), stall("c", 6, 1.5)]))
    assert [i.paths for i in folded] == [("a",), ("b",), ("c",)]
    assert [i.from_ns - T0 for i in folded] == [0, 3 * SECOND, 6 * SECOND]
    assert {i.lasted_ns for i in folded} == {1_500_000_000}


def test_freezes_that_overlap_are_one():
    assert together(stall("a", 0, 2), stall("b", 1.9, 2))


def test_servers_stopping_apart_are_separate_incidents():
    """Three servers that fell silent, each some time after the one before, and stayed so: one standstill, of
    the first's time.
    """
    silent = [stall(path, at, 100 - at) for path, at in (("a", 0), ("b", 20), ("c", 45))]
    open_ = [replace(f, cause="unknown", terms=f.terms | {"end": "open"}) for f in silent]
    for stalls in (silent, open_):
        folded = incidents(numbered(stalls))
        assert [(i.paths, i.from_ns - T0) for i in folded] == [
            (("a",), 0),
            (("b",), 20 * SECOND),
            (("c",), 45 * SECOND),
        ]
    # What one path loses, it loses at different moments; and one host is one.
    assert together(stall("a", 0, 30, cause="path_down"), stall("b", 20, 30, cause="path_down"))
    assert together(stall("a", 0, 30, "reflector:7"), stall("b", 20, 30, "reflector:7"))
    # By two clocks, of which one may be a second off.
    assert together(stall("a", 0, 30), stall("b", 2.9, 30, clock="host:b"))
    assert not together(stall("a", 0, 30), stall("b", 2.9, 30))


def test_nearby_freezes_of_one_host_are_joined():
    assert together(stall("a", 0, 1, "reflector:7 address:x"), stall("b", 1.5, 1, "address:y reflector:7"))
    assert not together(stall("a", 0, 1, "reflector:7"), stall("b", 1.5, 1, "reflector:8"))
    assert not together(stall("a", 0, 1), stall("b", 1.5, 1))


def test_the_clocks_of_two_hosts_may_differ():
    assert together(stall("a", 0, 1), stall("b", 1.5, 1, clock="host:b"))
    assert together(stall("a", 0, 1), stall("b", 1.5, 1, clock=""))
    assert not together(stall("a", 0, 1), stall("b", 2.5, 1, clock="host:b"))


def test_incident_spans_and_lists_all_paths():
    (incident,) = incidents(numbered([stall("a", 0, 2), stall("b", 1, 2), stall("c", 2.5, 2)]))
    assert incident.lasted_ns == 4_500_000_000
    assert incident.to_ns - incident.from_ns == incident.lasted_ns
    # The longest that one of them waited is its cost.
    assert incident.toll.silent_ns == 2 * SECOND
    assert render.when_each(incident) == [
        "a: 2025-03-20 00:00:00.000 UTC, for 2.00 s",
        "b: 2025-03-20 00:00:01.000 UTC, for 2.00 s",
        "c: 2025-03-20 00:00:02.500 UTC, for 2.00 s",
    ]
    (alone,) = incidents(numbered([stall("a", 0, 2)]))
    assert render.when_each(alone) == []


def test_coincidence_alone_does_not_merge_stalls():
    stalls = [stall("a", 0, 1), stall("b", 3, 1)]
    where = tuple(p for f in stalls for p in f.where)
    common = Finding("coincidence", where, T0, T0 + 3 * SECOND, "common cause", "high", {"events": number(2)})
    folded = incidents(numbered([*stalls, common]))
    assert sorted((i.kind, i.paths) for i in folded) == [
        ("coincidence", ("a", "b")),
        ("standstill", ("a",)),
        ("standstill", ("b",)),
    ]
    (apart,) = (i for i in folded if i.kind == "coincidence")
    assert render.what(apart).startswith("a's connection 0 and b's connection 0 were hit within 3.00 s")
    # Of one incident it is a part: that is told once.
    stalls = [stall("a", 0, 2), stall("b", 1, 2)]
    (incident,) = incidents(numbered([*stalls, common]))
    assert [f.kind for f in incident.parts] == ["stall", "coincidence", "stall"]


SCENARIO = """
format = 1
name = "three"
seed = 1
{hosts}
[simulate]
for = "2m"
every = "500ms"
"""
HOST = """
[[host]]
name = "server-{n}"
address = "10.1.{n}.5"

[[host]]
name = "client-{n}"
address = "10.2.{n}.5"

[[path]]
label = "path-{n}"
from = "client-{n}"
to = "server-{n}"
rtt = {{ min = "500us", mean = "900us", p95 = "1100us", p99 = "1300us" }}

[[event]]
at = "{at}"
kind = "host-pause"
host = "server-{n}"
duration = "{length}"
"""


@pytest.mark.parametrize(
    ("starts", "length", "expected"),
    [((60, 62.5, 65), "1s", 3), ((60, 61, 62), "3s", 1)],
    ids=["one after another", "overlapping"],
)
def test_servers_that_were_stopped_within_seconds(tmp_path, starts, length, expected):
    hosts = "".join(HOST.format(n=n, at=f"{at}s", length=length) for n, at in enumerate(starts, 1))
    (tmp_path / "scenario.toml").write_text(SCENARIO.format(hosts=hosts))
    run = [fathom(), "fabric", "simulate", tmp_path / "scenario.toml", "--record", tmp_path / "run"]
    subprocess.run(run, check=True, capture_output=True)
    recordings = open_recordings([tmp_path / "run"])
    analysis = analyse(recordings)
    started = recordings[0].manifest.started_ns
    truth = [json.loads(line) for line in (tmp_path / "run" / "truth.jsonl").read_text().splitlines()]
    zero = next(t["mono_ns"] for t in truth if t["kind"] == "truth.started")
    froze = [t["mono_ns"] - zero for t in truth if t["kind"] == "event.began"]
    assert len(froze) == 3
    silences = [i for i in analysis.incidents if i.toll.silent_ns]
    assert len(silences) == expected
    every = "\n".join(line for i in silences for line in (render.when_each(i) or [render.incident(i)]))
    for n, at in enumerate(froze, 1):
        (mine,) = (i for i in silences if f"path-{n}" in i.paths)
        assert abs(mine.of_path(f"path-{n}")[0] - started - at) <= SECOND, every
        assert mine.from_ns <= started + at + SECOND
        assert mine.to_ns >= started + at + int(length[0]) * SECOND - SECOND // 2
    page = templates.html(Page("", analysis))
    assert len(re.findall(r"<dt>When</dt>", page)) == (expected == 1)
