"""A live migration is told as one story, from simulated runs whose truth is known, and nothing else is."""

import json
import subprocess

import pytest

from fathometer.dataset import open_recordings
from fathometer.findings import render
from fathometer.findings.analyse import analyse
from support.ends import opened
from support.programs import ROOT, fathom
from support.recordings import START, lognormal_ns, write

PRESET = ROOT / "scenarios" / "azure-live-migration.toml"


def simulated(directory, text):
    """What happened in a scenario as the analysis folds it, and the truth's lines."""
    scenario = directory / "scenario.toml"
    scenario.write_text(text)
    run = [fathom(), "fabric", "simulate", scenario, "--record", directory / "run"]
    subprocess.run(run, check=True, capture_output=True)
    incidents = analyse(tuple(open_recordings([directory / "run"]))).incidents
    truth = [json.loads(line) for line in (directory / "run" / "truth.jsonl").read_text().splitlines()]
    return incidents, truth


def moment(truth, kind, event):
    (line,) = (t for t in truth if (t["kind"], t.get("event")) == (kind, f"live-migration {event}"))
    return line["mono_ns"]


def test_migration_is_one_incident_for_all_paths(tmp_path):
    # Five samples a second instead of one: enough to see the brownout on the two shorter paths.
    incidents, truth = simulated(tmp_path, PRESET.read_text().replace('every = "1s"', 'every = "200ms"'))
    (incident,) = incidents
    assert incident.kind == "migration"
    assert incident.paths == ("cross-region", "cross-zone", "same-zone")
    assert incident.toll.connections == 3
    started = next(t for t in truth if t["kind"] == "truth.started")["mono_ns"]
    froze, thawed = moment(truth, "event.began", "freeze"), moment(truth, "event.ended", "freeze")
    assert thawed - froze == 3_000_000_000
    pauses = [f for f in incident.parts if f.kind == "pause"]
    assert sorted(f.scenario for f in pauses) == ["cross-region", "cross-zone", "same-zone"]
    for pause in pauses:
        recording = next(r for r in open_recordings([tmp_path / "run"]) if r.label == pause.scenario)
        # The simulation's clock begins with the recording.
        assert abs(pause.from_ns - (recording.manifest.started_ns + froze - started)) < 2_000_000_000, pause
    # What it consisted of is told as its parts: the standstill, its queue, the flows that were lost later.
    assert {f.kind for f in incident.parts} >= {"pause", "stall", "death", "change"}
    assert incident.quantities["brownout"].value == pytest.approx(60e9, rel=0.01)
    assert incident.quantities["lost after"].value == pytest.approx(120e9, rel=0.01)
    assert incident.quantities["hosts"].value == 3
    assert incident.confidence == "high"
    told = render.incident(incident)
    assert told.startswith("The reflector's host was migrated live: it stood still for 3.0")
    assert "flows of different hosts were forgotten together" in told


def test_one_lost_flow_is_not_migration(tmp_path):
    """A process that was stopped, and a firewall that forgot its flow a minute later for reasons of its own,
    look like this from one path: nothing in it shows that a host moved.
    """
    parts = PRESET.read_text().split("[[path]]")
    one_path = [p for p in parts[1:] if "same-zone" in p.splitlines()[1]]
    rest = parts[-1][parts[-1].index("# Azure: the pause") :]
    text = "[[path]]".join([parts[0], one_path[0].split("# Azure")[0] + rest])
    # No longer round trips before it either, as while memory is copied.
    text = text.replace('brownout-added = "150us"', 'brownout-added = "1ns"')
    incidents, _ = simulated(tmp_path, text)
    (incident,) = [i for i in incidents if any(f.kind == "death" for f in i.parts)]
    assert incident.kind == "pause then loss"
    assert (incident.cause, incident.confidence) == ("unknown", "low")
    assert "migrat" not in render.incident(incident)
    assert {"pause", "death"} <= {f.kind for f in incident.parts}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('kind = "live-migration"', 'kind = "host-pause"\nduration = "3s"'),
        ('freeze = "3s"', 'freeze = "1ms"'),
    ],
    ids=["a pause alone", "no standstill"],
)
def test_migration_needs_both_standstill_and_redirect(tmp_path, old, new):
    text = PRESET.read_text().replace(old, new)
    if "host-pause" in new:
        dropped = ("brownout", "freeze", "redirect", "then")
        text = "".join(line for line in text.splitlines(keepends=True) if not line.startswith(dropped))
    incidents, _ = simulated(tmp_path, text)
    assert [i.kind for i in incidents if i.kind in {"migration", "pause then loss"}] == []


SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("host", "is_migration"), [("local", False), ("other", False), ("remote", True), (None, False)]
)
def test_notice_explains_only_its_host(tmp_path, host, is_migration):
    """A notice for the probe's machine and a stopped reflector became "the reflector's host was migrated
    live: the cloud announced it".
    """
    at = START + 60 * SECOND
    named = {} if host is None else {"host": host}
    notice = {
        "kind": "maintenance",
        "cloud": "azure",
        "what": "Freeze",
        "state": "started",
        "not_before": "2025-03-20T00:01:00Z",
        "notice": {},
        **named,
    }
    events = [
        opened(0, START),
        {"at_ns": at - SECOND, **notice},
        {
            "at_ns": at + SECOND // 2,
            "kind": "stall.began",
            "connection": 0,
            "seq": 60,
            "outstanding": 1,
            "threshold_ns": SECOND // 2,
        },
        {
            "at_ns": at + 3 * SECOND,
            "kind": "stall.ended",
            "connection": 0,
            "duration_ns": 3 * SECOND,
            "samples": 3,
            "recovered": True,
        },
        {"at_ns": at + 3 * SECOND, "kind": "pause", "host": "remote", "duration_ns": 3 * SECOND},
        {
            "at_ns": at + 3 * SECOND,
            "kind": "connection.explained",
            "connection": 0,
            "about": "stall",
            "verdict": "peer_paused",
            "because": ["the reflector says so"],
            "fresh": "echoed",
        },
    ]
    write(tmp_path / "run", lognormal_ns(1, 120), label="path", events=events)
    analysis = analyse(open_recordings([tmp_path]))
    told = [render.incident(i) for i in analysis.incidents]
    assert any("was migrated live" in t and "the cloud announced it" in t for t in told) == is_migration, told
    stalls = [render.statement(f) for f in analysis.findings if f.kind == "stall"]
    assert any("announced to the reflector's host" in s for s in stalls) == is_migration, stalls
    assert is_migration or not any("maintenance that was announced" in s for s in stalls), stalls
