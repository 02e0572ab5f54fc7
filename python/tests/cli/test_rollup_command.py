"""`fathometer rollup`, and reports of what it makes."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from fathometer.dataset import open_recordings
from support.command_line import run
from support.random_recordings import random_recording
from support.recordings import START, lognormal_ns, write

KEYS = ("recording", "label", "mode", "size", "loaded", "silence", "pace", "warm_up")


@pytest.fixture(scope="module")
def rolled(tmp_path_factory):
    """Two recordings, and the directory that the command made of them."""
    root = tmp_path_factory.mktemp("rollup")
    for number, (label, median) in enumerate((("near", 500), ("far", 900))):
        write(
            root / "recordings" / label,
            lognormal_ns(number, 2_000, median),
            label=label,
            start_ns=START + number * 10**13,
        )
    done = run("rollup", root / "recordings", "--output", root / "out", cwd=root)
    assert (done.returncode, done.stdout) == (0, f"{root / 'out'}\n"), done.stderr
    return root


def test_every_row_of_the_table_holds_the_law(tmp_path):
    for seed in (0, 1, 2):
        random_recording(tmp_path / "in" / str(seed), seed)
    done = run("rollup", tmp_path / "in", "-o", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    table = pq.read_table(tmp_path / "out" / "rollup.parquet")
    columns = {n: table.column(n).to_numpy(zero_copy_only=False) for n in ("count", "sent", "lost", "sum")}
    assert (columns["sent"] == columns["count"] + columns["lost"]).all()
    assert ((columns["count"] > 0) == table.column("bucket").is_valid().to_numpy()).all()
    recordings = open_recordings([tmp_path / "in"], counted=True)
    assert columns["sent"].sum() == sum(r.totals.samples for r in recordings)
    assert columns["count"].sum() == sum(r.totals.answered for r in recordings)
    rows = table.select([*KEYS, "start_ns", "bucket"]).to_pylist()
    # What is equal in every key is one row.
    assert len({tuple(row.values()) for row in rows}) == len(rows)


def test_rollup_reads_back_unchanged(tmp_path):
    for seed in (0, 3, 4):
        random_recording(tmp_path / "in" / str(seed), seed)
    assert run("rollup", tmp_path / "in", "-o", "out", cwd=tmp_path).returncode == 0
    there = {r.manifest.id: r for r in open_recordings([tmp_path / "out"])}
    for one in open_recordings([tmp_path / "in"]):
        other = there[one.manifest.id]
        assert other.source is None
        assert (other.manifest, other.events, other.totals) == (one.manifest, one.events, one.totals)
        assert other.rollup.step_ns == one.rollup.step_ns
        for x, y in zip(one.rollup.cells, other.rollup.cells, strict=True):
            assert all(np.array_equal(a, b) for a, b in zip(x, y, strict=True))


def test_rollup_report_states_its_limits(rolled):
    def kinds(source):
        told = json.loads(run("report", source, "--json", cwd=rolled).stdout)
        return {f["kind"]: f["statement"] for f in told["findings"]}

    lacking = kinds(rolled / "out")["rolled up"]
    assert "2 recordings read as a rollup" in lacking
    assert "before a connection ended" in lacking
    assert "rolled up" not in kinds(rolled / "recordings")


def test_duckdb_makes_the_same_rollup(tmp_path):
    """Of closed segments of format version 1 and 2, and of silences."""
    for seed in (0, 1, 7):
        random_recording(tmp_path / "in" / f"label=a[{seed}]", seed)
    random_recording(tmp_path / "in" / "derived", 13, lambda _: True)
    tables = []
    for engine in ("local", "duckdb"):
        done = run("rollup", tmp_path / "in", "--engine", engine, "-o", engine, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        tables.append(pq.read_table(tmp_path / engine / "rollup.parquet"))
    assert tables[0].num_rows > 0
    assert tables[1].equals(tables[0])


def test_a_directory_that_holds_something_is_not_touched(rolled):
    done = run("rollup", rolled / "recordings", "-o", rolled / "out", cwd=rolled)
    assert done.returncode == 1
    assert "exists" in done.stderr


def test_a_rollup_that_was_damaged_is_one_line(tmp_path):
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "rollup.json").write_text('{"format": 1, "recordings": [{}]}')
    done = run("report", tmp_path / "bad", cwd=tmp_path)
    assert done.returncode == 1
    assert "make it again" in done.stderr
    assert "Traceback" not in done.stderr
