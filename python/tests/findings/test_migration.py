"""A live migration is told as one story, from simulated runs whose truth is known, and nothing else is."""

import json
import subprocess

import pytest

from fathometer.dataset import open_recordings
from fathometer.findings.analyse import analyse
from support.programs import ROOT, fathom

PRESET = ROOT / "scenarios" / "azure-live-migration.toml"


def simulated(directory, text):
    """The migrations found on each path of a scenario, and the truth's lines."""
    scenario = directory / "scenario.toml"
    scenario.write_text(text)
    run = [fathom(), "fabric", "simulate", scenario, "--record", directory / "run"]
    subprocess.run(run, check=True, capture_output=True)
    found = analyse(tuple(open_recordings([directory / "run"]))).findings
    truth = [json.loads(line) for line in (directory / "run" / "truth.jsonl").read_text().splitlines()]
    return [f for f in found if f.kind == "migration"], truth


def moment(truth, kind, event):
    (line,) = (t for t in truth if (t["kind"], t.get("event")) == (kind, f"live-migration {event}"))
    return line["mono_ns"]


def test_every_path_to_a_host_that_moved_tells_it_once_and_when(tmp_path):
    # Five samples a second instead of one: enough to see the brownout on the two shorter paths.
    found, truth = simulated(tmp_path, PRESET.read_text().replace('every = "1s"', 'every = "200ms"'))
    assert sorted(f.scenario for f in found) == ["cross-region", "cross-zone", "same-zone"]
    started = next(t for t in truth if t["kind"] == "truth.started")["mono_ns"]
    froze, thawed = moment(truth, "event.began", "freeze"), moment(truth, "event.ended", "freeze")
    assert thawed - froze == 3_000_000_000
    for finding in found:
        recording = next(r for r in open_recordings([tmp_path / "run"]) if r.label == finding.scenario)
        # The simulation's clock begins with the recording.
        began = recording.manifest.started_ns + froze - started
        assert abs(finding.at_ns - began) < 2_000_000_000, finding
        assert finding.statement.startswith(f"{finding.scenario}: this has the shape of a live migration of")
        assert "the reflector's host" in finding.statement
        assert "a connection from before it lived through that and was forgotten" in finding.statement
    for name in ("same-zone", "cross-zone"):
        (finding,) = (f for f in found if f.scenario == name)
        assert finding.confidence == "high"
        (told,) = (e for e in finding.evidence if e.startswith("round trips were longer for"))
        assert told.split()[5:8] in (["1", "min", "0"], ["59.6", "s", "before"], ["59.8", "s", "before"]), (
            told
        )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('kind = "live-migration"', 'kind = "host-pause"\nduration = "3s"'),
        ('freeze = "3s"', 'freeze = "1ms"'),
    ],
    ids=["a pause alone", "no standstill"],
)
def test_what_is_no_migration_is_not_told_as_one(tmp_path, old, new):
    text = PRESET.read_text().replace(old, new)
    if "host-pause" in new:
        dropped = ("brownout", "freeze", "redirect", "then")
        text = "".join(line for line in text.splitlines(keepends=True) if not line.startswith(dropped))
    found, _ = simulated(tmp_path, text)
    assert found == []
