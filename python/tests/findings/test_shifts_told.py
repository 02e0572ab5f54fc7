"""How long a level lasted, whose it was, and what copies and lone connections do to a report."""

from types import SimpleNamespace

import numpy as np
import pytest

from fathometer.dataset import open_recording, open_recordings, raw
from fathometer.dataset.engines import roll_up
from fathometer.dataset.rollup_writer import write_rollups
from fathometer.errors import FathometerError
from fathometer.findings import shifts
from fathometer.findings.finding import Finding, Place, ns
from fathometer.findings.incidents import incidents, numbered
from fathometer.findings.model import Moved
from fathometer.report.interest import harm
from fathometer.stats.changes import Change
from support.recordings import START, lognormal_ns, write

SECOND = 1_000_000_000


def shift(at, before, after, path="p", recording="r"):
    quantities = {"before": ns(before * 1e6), "after": ns(after * 1e6)}
    when = START + at * SECOND
    where = (Place(path, recording),)
    return Finding("change", where, when, when, "path changed", "medium", quantities, {"of": "level"})


def recording(seconds):
    totals = SimpleNamespace(last_sent_ns=START + seconds * SECOND)
    nothing = dict.fromkeys(("lasting", "connections", "stalls", "events"), ())
    return SimpleNamespace(manifest=SimpleNamespace(id="r"), totals=totals, **nothing)


def test_reverted_shift_ends_when_level_returns():
    """9 ms more for 20 minutes was told as "longer since then", and as no harm at all."""
    events = numbered([shift(1000, 1, 10), shift(2200, 10, 1)])
    rise, fall = incidents(events, [recording(16_000)])
    assert (rise.toll.added_ns, rise.toll.added_for_ns) == (9e6, 1200 * SECOND)
    assert harm(rise)[3] > 0 == harm(fall)[3]
    (stayed,) = incidents(numbered([shift(1000, 1, 10)]), [recording(16_000)])
    assert stayed.toll.added_for_ns == 15_000 * SECOND


def test_simultaneous_size_steps_are_not_restless(tmp_path):
    """Four sizes of a sweep stepped once each, and the first one's path was told "restless, 4 changes"."""
    one = open_recording(write(tmp_path / "r", lognormal_ns(1, 5_000)))
    at = START + 3_000 * SECOND
    moved = [
        Moved(one, f"{n} bytes", Change(3_000, at, "level", 1e6 * n, 2e6 * n, 0.9)) for n in (1, 2, 3, 4)
    ]
    told = shifts.findings(moved)
    assert [(f.kind, f.scenario) for f in told] == [("change", f"{n} bytes") for n in (1, 2, 3, 4)]


def test_long_connection_end_reads_last_samples(tmp_path, monkeypatch):
    """A connection without a pace, of more samples than are loaded at once: its reset ended the report."""
    rtt = lognormal_ns(2, 120_000)
    parts = [rtt[:50_000], rtt[50_000:100_000], rtt[100_000:]]
    directory = write(
        tmp_path / "r", parts, manifest={"probe": {"mode": "tcp", "size": 64, "interval_ns": None}}
    )
    one = open_recording(directory)
    monkeypatch.setattr(raw, "MAX_SAMPLES", 60_000)
    monkeypatch.setattr(raw.samples, "__kwdefaults__", {"limit": 60_000})
    means = raw.last_means(one, 0, START + 120_000 * SECOND, 1_000)
    assert len(means) >= 50
    expected = rtt[-50_000:].reshape(50, 1_000).mean(axis=1)
    assert means[-50:] == pytest.approx(expected)


def test_duplicate_recording_is_refused(tmp_path):
    """A copied directory: each of the two came back with the samples of both, twice."""
    for name in ("a/r", "b/r"):
        write(tmp_path / name, lognormal_ns(1, 1_000))
    twins = open_recordings([tmp_path])
    with pytest.raises(FathometerError, match="are one recording"):
        write_rollups(twins, [r.rollup for r in twins], "local", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_engine_hands_a_rollup_on(tmp_path):
    """`fathom rollup ROLLUP --engine duckdb` wrote an empty table, and no error."""
    pytest.importorskip("duckdb")
    pytest.importorskip("ibis")
    write(tmp_path / "r", lognormal_ns(1, 1_000))
    sound = open_recordings([tmp_path / "r"])
    write_rollups(sound, [r.rollup for r in sound], "local", tmp_path / "out")
    (again,) = roll_up(open_recordings([tmp_path / "out"]), "duckdb")
    assert again.totals().samples == 1_000
    assert np.array_equal(again.cells[0].number, sound[0].rollup.cells[0].number)
