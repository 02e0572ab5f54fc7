"""A report on large recordings reads their samples a fixed number of times; more would be minutes."""

import numpy as np
import pytest

from fathometer.dataset import engine, open_recordings, scan
from fathometer.findings import shifts
from fathometer.findings.analyse import analyse
from fathometer.report import page
from support.recordings import START, lognormal_ns, write

SECOND = 1_000_000_000
N = 5_000


@pytest.fixture
def passes(monkeypatch):
    """How often the samples of each recording are read, by whom."""
    told = []
    by_arrays, by_sql = scan._pass, engine.rows

    def counted(recording, questions):
        told.append((recording.source.parquet[0].parent.name, f"{len(questions)} questions"))
        return by_arrays(recording, questions)

    def asked(source, sql, columns):
        told.append((source.parquet[0].parent.name, sql))
        return by_sql(source, sql, columns)

    monkeypatch.setattr(scan, "_pass", counted)
    monkeypatch.setattr(engine, "rows", asked)
    monkeypatch.setattr(engine, "arrow", lambda *_: pytest.fail("raw samples of a large recording"))
    return told


def test_a_large_recording_is_read_once_for_the_report(tmp_path, monkeypatch, passes):
    # As if each were larger than what is looked at sample by sample.
    monkeypatch.setattr(shifts, "RAW", 100)
    closed = {"at_ns": START + N * SECOND, "connection": 0, "kind": "connection.closed", "cause": "reset"}
    closed |= {"age_ns": N * SECOND, "evidence": {"sent": N, "answered": N, "outstanding": 0}}
    for number, name in enumerate(("a", "b", "c")):
        write(tmp_path / name, lognormal_ns(number, N), label=name, events=[closed])
    opened = open_recordings([tmp_path])
    analysis = analyse(opened, also=page.questions(opened))
    page.draw(analysis)
    assert len(analysis.ends) == 3
    assert analysis.comparisons[0].pairing == "paired in time"
    for name in ("a", "b", "c"):
        mine = [what for where, what in passes if where == name]
        assert sum("questions" in what for what in mine) == 1
        # Counts by flags and size, connections, their last samples: a few columns each.
        assert len(mine) == 4


def test_without_a_plan_the_figures_are_the_same(tmp_path, monkeypatch):
    rtt = lognormal_ns(3, N)
    write(tmp_path / "a", rtt, label="a")
    write(tmp_path / "b", np.roll(rtt * 2, 7), label="b")
    planned = analyse(open_recordings([tmp_path]))
    monkeypatch.setattr("fathometer.findings.analyse.prepare", lambda *_: None)
    alone = analyse(open_recordings([tmp_path]))
    for x, y in zip(planned.scenarios, alone.scenarios, strict=True):
        assert x.estimates == y.estimates
        assert x.rtt == y.rtt
    assert planned.comparisons == alone.comparisons
