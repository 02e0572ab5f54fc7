from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathometer.errors import FathometerError
from fathometer.findings.consistency import check
from fathometer.findings.consistency.cells import cell, statistic, unit
from fathometer.findings.consistency.laws import LAWS
from fathometer.findings.consistency.model import Ladder, StatisticsRow
from fathometer.findings.consistency.packets import encrypted, fit, packet_model
from fathometer.findings.consistency.relations import packets

PUBLISHED = Path(__file__).with_name("published.toml")
"""The numbers that the five articles published."""


def found(verdict, text=None, name="published.toml"):
    remarks = check(text if text is not None else PUBLISHED.read_text(), name)
    return [(r.row, r.law) for r in remarks if r.verdict == verdict]


def test_every_impossibility_of_the_articles_is_found():
    impossible = found("impossible")
    region = "article.azure_latency_1.cross-region"
    assert (region, "order of quantiles") in impossible  # min 4,587 above p95 3,800
    assert (region, "mean between min and max") in impossible  # mean 2,250 below min
    for scenario in ("same-zone", "cross-zone", "cross-region"):
        assert (f"article.azure_latency_1.segments.{scenario}", "segments against tail") in impossible
    assert ("article.accelerated_networking.ppg_and_an_ms_as_printed.without_ppg", "unit") in impossible
    assert len(impossible) == 6


def test_what_the_articles_left_open_is_called_implausible():
    implausible = found("implausible")
    for scenario in ("same-zone", "cross-zone", "cross-region"):
        assert (f"article.azure_latency_1.{scenario}", "standard deviation against maximum") in implausible
    assert ("article.hub_and_spoke hub-firewall", "rank inversion without dispersion") in implausible
    assert ("article.sql_server.async_network_io_s", "zero at the end") in implausible
    assert ("article.sql_server.async_network_io_s", "waits by packet size") in implausible
    assert ("article.azure_latency_1.terminations", "rival explanation") in implausible
    assert ("article.azure_latency_1.terminations", "resolution") in implausible
    assert {law for _, law in implausible} == {
        "standard deviation against maximum",
        "rank inversion without dispersion",
        "zero at the end",
        "waits by packet size",
        "a time for each packet",
        "packets under encryption",
        "rival explanation",
        "resolution",
    }


def test_nothing_is_raised_on_the_right_ones():
    ok = found("ok")
    for scenario in ("same-zone", "cross-zone", "cross-region"):
        assert (f"article.azure_latency_1.segments.{scenario}", "percent recomputed") in ok
    wrong = {row for row, _ in found("impossible") + found("implausible")}
    assert not [
        row for row in wrong if "azure_latency_2" in row or "latency_us" in row or "throughput" in row
    ]


def test_the_forced_deviation_is_the_known_one():
    # known-mistakes.md: a maximum of 404,402 forces at least about 2,008 us.
    text = next(
        r.explanation for r in check(PUBLISHED.read_text(), "x.toml") if r.row.endswith("1.same-zone")
    )
    assert "2,008" in text


MARKDOWN = """
## Load balancer
| Scenario | Direct Connection | With Load Balancer | Difference |
|---|---|---|---|
| Same AZ | ~900μs | ~1100μs | +200μs |
| Cross-AZ | ~1550μs | ~1850μs | +400μs |

## Accelerated networking
| Setting | Mean (us) |
|---|---|
| off | 156.5 |
| on | 72.9 |

## Summary
| **Metric** | **Same AZ (Baseline)** | **Cross AZ** |
|---|---|---|
| RTT (Mean) | 315 μs | 675 μs |
| P95 Latency | 375 μs | 0.9 ms |
| Samples | 40,500 | 50 |

| Comparison | Ratio |
|---|---|
| Cross-AZ vs Baseline | ~2.1x |
| Baseline vs Cross-AZ | 0.9x |

## Segments
| Records | Baseline Test (μs) | % Change |
|---|---|---|
| Records 300-201 | 813.14 | — |
| Records 200-101 | 888.09 | +9.2% |
| Last 100 records | 925.49 | +5.2% |
| Overall | rising | |
"""


def test_markdown_tables_either_way_round():
    impossible, implausible, ok = (
        found(v, MARKDOWN, "article.md") for v in ("impossible", "implausible", "ok")
    )
    assert ("Load balancer: Same AZ", "difference recomputed") in ok
    assert ("Load balancer: Cross-AZ", "difference recomputed") in impossible
    assert ("Summary: Cross-AZ vs Baseline", "ratio recomputed") in ok
    assert ("Summary: Baseline vs Cross-AZ", "ratio recomputed") in impossible
    assert ("Segments: Baseline Test", "percent recomputed") in impossible
    assert ("Summary: Cross AZ", "count against tail") in implausible  # 50 samples, 59 are needed
    assert len(impossible) == 3


def test_csv_with_units_in_its_heading():
    text = "scenario;count;min_us;mean_us;p95_us;max_us\na;1000;10;20;30;40\nb;1000;10;50;30;40\n"
    assert [row for row, _ in found("impossible", text, "t.csv")] == ["t: b", "t: b"]
    assert [row for row, _ in found("ok", text, "t.csv")] == ["t: a"]


def test_a_file_without_figures_says_what_is_wanted():
    with pytest.raises(FathometerError, match="no table of statistics"):
        check("nothing here", "x.md")
    with pytest.raises(FathometerError, match="mend the TOML"):
        check("a = = 1", "x.toml")


@pytest.mark.parametrize(
    ("text", "value", "its"),
    [
        ("~2,250 μs", 2250, "us"),
        ("+9.2%", 9.2, "%"),
        ("2.1x", 2.1, "x"),
        ("−17.4 %", -17.4, "%"),
        ("0.19ms", 0.19, "ms"),
        ("5", 5, None),
    ],
)
def test_cells_as_people_write_them(text, value, its):
    assert (cell(text).value, cell(text).unit) == (value, its)


def test_words_are_no_numbers():
    assert cell("5ms faster!") is None
    assert cell("—") is None


@pytest.mark.parametrize(
    ("heading", "name"),
    [
        ("RTT (Mean)", "mean"),
        ("P95 Latency", "p95"),
        ("99th Percentile Latency Microseconds", "p99"),
        ("p99_9_us", "p99_9"),
        ("Notes", None),
    ],
)
def test_headings_name_statistics(heading, name):
    assert statistic(heading) == name


def test_headings_name_units():
    assert (unit("p95_us"), unit("RTT (ms)"), unit("Notes")) == ("us", "ms", None)


@given(st.lists(st.integers(1, 10_000), min_size=2, max_size=400), st.booleans())
def test_no_real_series_is_called_impossible(values, population):
    x = np.array(values, dtype=float)
    figures = {"min": x.min(), "mean": x.mean(), "max": x.max(), "sd": x.std(ddof=0 if population else 1)}
    for name, p in {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99_9": 0.999}.items():
        figures[name] = float(np.quantile(x, p, method="inverted_cdf"))
    summary = StatisticsRow("series", figures, "us", len(x))
    assert [r for law in LAWS for r in law(summary) if r.verdict == "impossible"] == []


@given(
    st.lists(st.floats(1, 1e6), min_size=20, max_size=200, unique=True),
    st.sampled_from(["mean", "p95", "sd"]),
    st.booleans(),
)
def test_out_of_bounds_figure_is_impossible(values, name, up):
    x = np.array(values)
    figures = {
        "min": x.min(),
        "mean": x.mean(),
        "p95": float(np.quantile(x, 0.95, method="inverted_cdf")),
        "max": x.max(),
        "sd": x.std(ddof=1),
    }
    figures[name] = (x.max() * 2) if up or name == "sd" else x.min() / 2
    summary = StatisticsRow("series", figures, "us", len(x))
    assert any(r.verdict == "impossible" for law in LAWS for r in law(summary))


@given(
    st.lists(st.integers(512, 32_767), min_size=3, max_size=6, unique=True).map(sorted),
    st.floats(0, 1_000),
    st.floats(0.01, 1e6),
)
def test_waits_fitting_packet_cost_are_accepted(sizes, apart, each):
    ladder = Ladder("wait", tuple(str(s) for s in sizes), tuple(apart + each * 4096 / s for s in sizes))
    assert list(packets(ladder)) == []
    # Nor by the model that they were made by, which finds the two again.
    if len(sizes) >= 3 and apart + each > 0:
        assert [r.verdict for r in packet_model(ladder)] == ["ok"]
        found_again = fit(sizes, ladder.values)
        assert found_again.apart == pytest.approx(apart, abs=1e-6 * (apart + each))
        assert found_again.at(sizes[0]) == pytest.approx(ladder.values[0])


@pytest.mark.parametrize("row", ["wait by packet size", "latency by packet size"])
def test_only_waits_are_checked_for_packet_cost(row):
    ladder = Ladder(row, ("4KB", "8KB", "16KB"), (10.0, 4.0, 3.0))
    assert [r.law for r in packets(ladder)] == (["waits by packet size"] if "wait" in row else [])


def test_rising_wait_has_zero_packet_cost():
    assert fit([1.0, 2.0, 4.0], [1.0, 2.0, 3.0]).each == 0
    # Less than nothing beside the packets: none of it.
    assert fit([1.0, 2.0, 4.0], [8.0, 2.0, 0.0]).apart == 0


@pytest.mark.parametrize(
    ("row", "names", "values", "told"),
    [
        ("ASYNC_NETWORK_IO", ("8KB", "16KB", "32KB"), (9.0, 6.0, 2.0), 1),
        ("ASYNC_NETWORK_IO", ("8KB", "16KB", "32KB"), (9.0, 6.0, 5.9), 0),
        ("ASYNC_NETWORK_IO", ("4KB", "8KB", "16000"), (9.0, 6.0, 2.0), 0),
        # Of another server's waits nobody knows how it encrypts.
        ("wait", ("8KB", "16KB", "32KB"), (9.0, 6.0, 2.0), 0),
    ],
)
def test_sizes_that_encryption_makes_the_same(row, names, values, told):
    assert len(list(encrypted(Ladder(row, names, values)))) == told
