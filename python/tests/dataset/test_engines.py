"""The rollup by one Ibis expression: bit-equal to the local scan on every engine.

4 random recordings by `make acceptance`, 50 by `make engines`; cli/test_rollup_command.py has DuckDB alone.
"""

import gc
import os

import numpy as np
import pytest

from fathometer.dataset import open_recordings
from fathometer.dataset.engines import ENGINES, roll_up
from fathometer.errors import FathometerError
from support.programs import tool
from support.random_recordings import random_recording
from support.recordings import write

SETS = int(os.environ.get("FATHOM_ENGINE_SETS", "4"))
"""Random recordings; every seventh, the first included, has silences."""
LAYOUTS = {"whole": lambda _: False, "derived": lambda _: True, "mixed": lambda ordinal: ordinal == 0}
"""The same samples in closed segments of format version 1, of 2, and of both."""


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    root = tmp_path_factory.mktemp("engines")
    for seed in range(SETS):
        # A label may hold what a pattern means otherwise.
        random_recording(root / f"label=a[{seed}]", seed)
    for name, derived in LAYOUTS.items():
        random_recording(root / name, 13, derived)
    # Where octaves of buckets begin, and beyond the last one.
    edges = np.array([(1 << k) + d for k in range(1, 51) for d in (-1, 0, 1)])
    write(root / "edges", edges, derived=LAYOUTS["derived"])
    return open_recordings([root], counted=True)


SHORT_LIVED = "spark.driver.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC\n"


def same(one, other):
    pairs = [pair for x, y in zip(one.cells, other.cells, strict=True) for pair in zip(x, y, strict=True)]
    return one.paths == other.paths and all(np.array_equal(x, y) for x, y in pairs)


# PySpark drops the sockets of its answers without closing them, which pytest makes a failure.
DROPS = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


@pytest.mark.acceptance
@pytest.mark.parametrize("engine", [pytest.param(e, marks=DROPS if e == "spark" else ()) for e in ENGINES])
def test_engine_rollup_equals_local_scan(recordings, engine, tmp_path, monkeypatch):
    if engine == "spark":
        tool("java")
        # A short life: what it compiles well, and collects at once, never pays.
        (tmp_path / "spark-defaults.conf").write_text(SHORT_LIVED)
        monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert sum(r.totals.samples for r in recordings) > 0
    rollups = roll_up(recordings, engine)
    # Now, while the filter holds: a collection later would blame another test.
    gc.collect()
    for recording, theirs in zip(recordings, rollups, strict=True):
        ours = recording.rollup
        assert theirs.step_ns == ours.step_ns
        assert theirs.paths == ours.paths
        for path, x, y in zip(ours.paths, ours.cells, theirs.cells, strict=True):
            for name in x._fields:
                assert np.array_equal(getattr(x, name), getattr(y, name)), (recording.directory, path, name)
    named = {r.directory.name: rollup for r, rollup in zip(recordings, rollups, strict=True)}
    assert len({closed.derived for r in recordings for closed in r.source.closed}) == 2
    for name in LAYOUTS:
        assert same(named[name], named["whole"]), name


def test_an_unknown_engine_is_wrong_usage(recordings):
    with pytest.raises(FathometerError, match="none of duckdb, clickhouse, spark") as refused:
        roll_up(recordings, "oracle")
    assert refused.value.exit_code == 2


@pytest.mark.parametrize(
    ("engine", "module"), [("duckdb", "ibis"), ("clickhouse", "chdb"), ("spark", "pyspark")]
)
def test_missing_engine_error_gives_install_command(recordings, monkeypatch, engine, module):
    # Python's own way to say that a module cannot be imported.
    monkeypatch.setitem(__import__("sys").modules, module, None)
    with pytest.raises(FathometerError) as refused:
        roll_up(recordings, engine)
    assert f"pip install 'fathometer[{engine}]'" in str(refused.value)
    assert "\n" not in str(refused.value)
