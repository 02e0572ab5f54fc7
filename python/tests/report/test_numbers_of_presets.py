"""The report on every scenario of the fabric, simulated: its numbers are those of numpy on Parquet files."""

import json
import math
import subprocess

import numpy as np
import pytest

from fathometer.dataset import open_recordings
from fathometer.findings.analyse import analyse
from fathometer.report.write import as_text
from support.independent import (
    BUCKET,
    LATE,
    QUANTILES,
    UNDER_LOAD,
    WARM_UP,
    Raw,
    nearest_rank,
    same_figures,
)
from support.programs import ROOT, fathom
from support.tiers import rows

PRESETS = sorted((ROOT / "scenarios").glob("*.toml"))
QUICK = [
    ROOT / "scenarios" / f"{name}.toml"
    for name in ("psping-sizes", "azure-lb-cross-zone", "azure-live-migration")
]
VIRTUAL = ("--for", "5m", "--every", "100ms")
"""Of simulated time: 3,000 samples a path, enough for a p99.9."""


def test_there_are_presets():
    assert len(PRESETS) >= 21


@pytest.fixture(scope="module", params=rows(PRESETS, QUICK), ids=lambda p: p.stem)
def told(request, tmp_path_factory):
    """The samples of each recording by its id, and the report's JSON on them all."""
    directory = tmp_path_factory.mktemp(request.param.stem)
    command = [
        fathom(),
        "fabric",
        "simulate",
        str(request.param),
        *VIRTUAL,
        "--record",
        str(directory / "run"),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    report = json.loads(as_text(analyse(open_recordings([directory])), "json"))
    every = [Raw(manifest.parent) for manifest in directory.rglob("recording.json")]
    return {raw.manifest["id"]: raw for raw in every}, report


def samples_of(scenario, recordings):
    """The samples that belong to a scenario: of its recordings those of its size, idle or loaded."""
    found = []
    for identity in scenario["recordings"]:
        raw = recordings[identity]
        mask = (raw.flags & UNDER_LOAD != 0) == scenario["under_load"]
        if raw.manifest["probe"]["size"] is None:
            mask &= raw.size == scenario["size"]
        found.append(raw.pick(mask))
    return found


def test_every_scenario_has_the_figures_of_its_samples(told):
    recordings, report = told
    after_warm_up = [int((r.flags & WARM_UP == 0).sum()) for r in recordings.values()]
    assert sum(s["samples"] for s in report["scenarios"]) == sum(after_warm_up)
    for scenario in report["scenarios"]:
        mine = samples_of(scenario, recordings)
        flags, lost = np.concatenate([r.flags for r in mine]), np.concatenate([r.rtt < 0 for r in mine])
        counts = flags & WARM_UP == 0
        assert scenario["samples"] == counts.sum()
        assert scenario["unanswered"] == (counts & lost).sum()
        assert scenario["late"] == (counts & (flags & LATE != 0)).sum()
        same_figures(scenario, np.concatenate([r.rtt[r.counted] for r in mine]))


def test_every_recording_is_counted_as_it_is(told):
    recordings, report = told
    assert {r["id"] for r in report["recordings"]} == set(recordings)
    for told_of in report["recordings"]:
        raw = recordings[told_of["id"]]
        assert (told_of["samples"], told_of["answered"]) == (len(raw.sent), (raw.rtt >= 0).sum())


def test_ratios_are_those_of_the_figures(told):
    """Of the whole where tables show both figures or the comparison is unpaired; else of the stretches of
    time that both have.
    """
    recordings, report = told
    by_name = {s["name"]: s for s in report["scenarios"]}
    assert len(by_name) == len(report["scenarios"]), "names are unique"
    for c in report["comparisons"]:
        sides = [samples_of(by_name[c[side]], recordings) for side in ("a", "b")]
        shown = all(by_name[c[side]]["rtt_ns"][c["metric"]]["value"] is not None for side in ("a", "b"))
        a, b = [joined(s) for s in sides] if shown or c["pairing"] == "unpaired" else common(*sides)
        if c["metric"] == "mean":
            assert c["ratio"] == pytest.approx(b.mean() / a.mean(), rel=1e-5)
        else:
            q = QUANTILES[c["metric"]]
            exact = nearest_rank(b, q) / nearest_rank(a, q)
            # Both are off by half a block's bucket at most.
            assert c["ratio"] == pytest.approx(exact, rel=2.1 * BUCKET)


def joined(side):
    """The round trips of several recordings."""
    return np.concatenate([r.rtt[r.counted] for r in side])


def common(a, b):
    """The round trips of both in those of at most 256 equal stretches of time in which both have some.

    Stretches are whole steps of the rollup, counted from the Unix epoch (docs/decisions/0002-rollup.md).
    """
    step = max(r.step for r in (*a, *b))
    first, last = (f(f(r.sent) for r in (*a, *b)) for f in (min, max))
    width = max(math.ceil((last - first) / 256 / step), 1) * step
    cells = [
        np.concatenate([(r.sent[r.counted] - first // step * step) // width for r in side]) for side in (a, b)
    ]
    both = np.intersect1d(*cells)
    return [joined(side)[np.isin(cell, both)] for side, cell in zip((a, b), cells, strict=True)]
