"""What a report shows of a path is one figure, wherever it stands: table, JSON, and an earlier report's."""

import json

import numpy as np
import pytest
from scipy.stats import norm

from fathometer.dataset import open_recordings
from fathometer.findings.analyse import analyse
from fathometer.findings.words import duration, span
from fathometer.report import baseline, charts, tables
from fathometer.report.write import as_text
from support.recordings import START, lognormal_ns, write

RUNS = 8


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Eight runs that differ by a tenth, and one that is thrice as long as the others."""
    root = tmp_path_factory.mktemp("runs")
    levels = 1_000 * np.exp(0.1 * np.random.default_rng(3).standard_normal(RUNS))
    for n, level in enumerate(levels):
        samples = lognormal_ns(n, 6_000 if n == 0 else 2_000, level)
        write(root / f"run-{n}", samples, label="near", start_ns=START + n * 10**13)
    return analyse(open_recordings([root]))


def test_the_json_has_the_figures_of_the_table(report):
    # The table had the median of runs, the JSON what all samples together make: a baseline compared the two.
    (told,) = json.loads(as_text(report, "json"))["scenarios"]
    (shown,) = report.scenarios
    assert told["basis"] == {name: "runs" if name in shown.of_runs else "samples" for name in told["basis"]}
    assert told["basis"]["p99"] == "runs"
    for name in ("p50", "p95", "p99"):
        estimate = shown.figure(name)
        assert told["rtt_ns"][name]["value"] == round(estimate.value)
        assert told["rtt_ns"][name]["low"] == round(estimate.interval.low)
        assert told["rtt_ns"][name]["count"] == RUNS
    row = dict(
        zip(tables.summary(report.scenarios).head, tables.summary(report.scenarios).rows[0], strict=True)
    )
    assert row["p50"] == tables.figure(shown.of_runs["p50"])


def test_chart_and_table_figures_match(report):
    # The table said p99 1.72 ms (1.52 to 17.2), the chart above it 1.54 (1.47 to 1.65): runs in one, blocks
    # of all runs in the other.
    rows = {r["figure"]: r for r in charts.figures(report.scenarios)["data"]["values"]}
    (shown,) = report.scenarios
    assert set(rows) == {"p50", "p95", "p99"} <= set(shown.of_runs)
    cells = dict(
        zip(tables.summary(report.scenarios).head, tables.summary(report.scenarios).rows[0], strict=True)
    )
    for name, row in rows.items():
        assert cells[name].text == duration(row["us"] * 1e3)
        assert cells[name].under == span(row["low"] * 1e3, row["high"] * 1e3, to=" … ")
        # Where these differ, it matters which of them is drawn.
        assert shown.of_runs[name].interval != shown.estimates[name].interval


def test_a_report_against_itself_shows_nothing(report, tmp_path):
    (tmp_path / "then.json").write_text(as_text(report, "json"))
    drift = baseline.drift(baseline.read(tmp_path / "then.json"), report.scenarios)
    (path,) = drift.paths
    assert {d.metric: d.ratio for d in path.differences} == pytest.approx(
        dict.fromkeys(("mean", "p50", "p95", "p99"), 1.0), rel=1e-5
    )
    assert not path.slower
    assert not path.faster


def test_unsent_samples_lower_availability(tmp_path):
    overruns = [
        {"at_ns": START + 10**12, "kind": "schedule.overrun", "skipped": n, "behind_ns": 0, "reason": reason}
        for n, reason in ((300, "unconnected"), (20, "blocked"), (7, "late"))
    ]
    write(tmp_path / "r", lognormal_ns(1, 2_000, 500), label="near", events=overruns)
    analysis = analyse(open_recordings([tmp_path]))
    (shown,) = analysis.scenarios
    # What this host did not come to send says nothing of the path.
    assert shown.unsent == 320
    assert shown.availability == pytest.approx(2_000 / 2_320)
    text = as_text(analysis, "json")
    assert json.loads(text)["scenarios"][0]["unsent"] == 320
    (tmp_path / "then.json").write_text(text)
    (path,) = baseline.drift(baseline.read(tmp_path / "then.json"), analysis.scenarios).paths
    assert path.availability == (shown.availability, shown.availability)
    assert "86.2 %" in as_text(analysis, "markdown")


def test_p_value_uses_earlier_interval_and_doubt(report):
    # 97 % intervals of six runs were read as 95 % ones of a normal distribution, those known to be too narrow
    # like the others, and a mean whose interval reaches to zero was left out without a word.
    def p_value(**of):
        then = baseline.EarlierFigure(**{"value": 4e5, "low": 3e5, "high": 5e5, **of})
        name = report.scenarios[0].name
        earlier = baseline.Baseline("then", {name: {"mean": then}}, {name: (0, 1_000)})
        (path,) = baseline.drift(earlier, report.scenarios).paths
        return path.differences[0].p_value

    plain = p_value()
    now = report.scenarios[0].figure("mean")
    spreads = [np.log(5 / 3) / 3.92, np.log(now.interval.high / now.interval.low) / 3.92]
    assert plain > 2 * norm.cdf(-np.log(now.value / 4e5) / np.hypot(*spreads))
    assert p_value(level=0.97) < plain
    assert p_value(shaky=True) > plain
    assert p_value(low=-1e5, high=9e5) > plain
