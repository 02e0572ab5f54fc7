"""`fathom check` on the five articles as they print their figures: tables of Markdown with their own
headings, numbers and units. The sentences are ours; what must be found is the list of the articles' mistakes.
"""

import pytest

from fathometer.findings.consistency import check

LATENCY = """
## Results
| **Latency Metric** | **Same AZ (Baseline)** | **Cross AZ** | **Cross Region** |
|---|---|---|---|
| RTT (Mean) | 315 μs | 675 μs | 2,250 μs |
| RTT (P95) | 375 μs | 950 μs | 3,800 μs |
| RTT (P99) | 450 μs | 1,250 μs | 5,100 μs |
| Min Latency | 226 μs | 554 μs | 4,587 μs |
| Max Latency | 404,402 μs | 1,099,789 μs | 743,394 μs |

## Ends
| Test Scenario | Connection Termination Time | Notes |
|---|---|---|
| Baseline Test | 2025-03-20 10:04:12 | first |
| Cross Region Test | 2025-03-20 13:23:55 | with the next |
| Cross AZ Test | 2025-03-20 13:23:58 | last |

## Segments
| Segment | Baseline Test (μs) | % Change | Cross AZ Test (μs) | % Change | Cross Region Test (μs)| % Change |
|---|---|---|---|---|---|---|
| Records 500-401 | 813.14 | — | 1421.41 | — | 5320.39 | — |
| Records 400-301 | 888.09 | +9.2% | 1388.25 | -2.3% | 5242.55 | -1.5% |
| Records 300-201 | 925.49 | +4.2% | 1433.61 | +3.3% | 5384.39 | +2.7% |
| Records 200-101 | 955.87 | +3.3% | 1403.46 | -2.1% | 5388.18 | +0.1% |
| Last 100 records | 789.58 | -17.4% | 1473.22 | +5.0% | 5262.40 | -2.3% |

## Appendix
| Test Parameter | Value |
|---|---|
| Frequency | 1 packet per second |
| Baseline Test Packets | 40,500 |
| Cross AZ Test Packets | 41,556 |
| Cross Region Test Packets | 41,583 |
"""

HUB = """
## One network
Command | Availability Zone | Latency (usec) |
---|---|---|
latte -c -a 10.13.1.6:80 -i 60000 |
1 | 65.15 |
latte -c -a 10.13.1.7:80 -i 60000 |
2 | 119.87 |
latte -c -a 10.13.1.8:80 -i 60000 |
3 | 1199.54 |

## Gateway
Command | Availability Zone | Latency (usec) |
---|---|---|
| latte -c -a 10.13.2.5:80 -i 60000 | 1 | 887.56 |
| latte -c -a 10.13.2.6:80 -i 60000 | 2 | 957.46 |
| latte -c -a 10.13.2.7:80 -i 60000 | 3 | 2124.09 |

## Firewall
Command | Availability Zone | Latency (usec) |
---|---|---|
| latte -c -a 10.13.2.5:80 -i 60000 | 1 | 2418.44 |
| latte -c -a 10.13.2.6:80 -i 60000 | 2 | 2605.39 |
| latte -c -a 10.13.2.7:80 -i 60000 | 3 | 1575.93 |
"""

LOAD_BALANCER = """
| Scenario | Direct Connection | With Load Balancer | Difference |
|---|---|---|---|
| Same AZ | ~900μs | ~1100μs | +200μs |
| Cross-AZ | ~1550μs | ~1850μs | +300μs |

| Connection Method | Avg RTT | Compared to Direct Peering |
|---|---|---|
| Direct Peering | ~145ms | Baseline |
| Load Balancer | ~140ms | 5ms faster! |
"""

SQL = """
## Waits
| network packet size | ASYNC_NETWORK_IO (s) |
|---|---|
| 4KB | 13.81 |
| 8KB | 9.74 |
| 16KB | 6.47 |
| 32KB | 0.00 |
"""

ACCELERATED = """
## Accelerated networking
| | off | on |
|---|---|---|
| VM network latency | 156.5 us | 72.9 us |
| Egress throughput | 2.01 Gbps | 2.82 Gbps |

## Proximity placement
| Setting | Latency (ms) |
|---|---|
| without a group | 72.9 |
| with a group | 68.8 |
"""


def found(text, verdict, name="article.md"):
    return [(r.row, r.law) for r in check(text, name) if r.verdict == verdict]


def test_the_first_article_as_it_is_printed():
    impossible = found(LATENCY, "impossible")
    assert ("Results: Cross Region", "order of quantiles") in impossible
    assert ("Results: Cross Region", "mean between min and max") in impossible
    for name in ("Baseline Test", "Cross AZ Test", "Cross Region Test"):
        # Its count stands in the appendix, under another table's heading.
        assert (f"Segments: {name}", "segments against tail") in impossible
    assert len(impossible) == 5
    implausible = found(LATENCY, "implausible")
    assert ("Ends: Connection Termination Time", "rival explanation") in implausible
    assert ("Ends: Connection Termination Time", "resolution") in implausible
    assert [law for _, law in implausible].count("standard deviation against maximum") == 3
    assert len(implausible) == 5
    (forced,) = (r for r in check(LATENCY, "a.md") if r.row.endswith("(Baseline)"))
    assert "2,008 us" in forced.explanation
    (rival,) = (r for r in check(LATENCY, "a.md") if r.law == "rival explanation")
    assert "11.25 to 11.55 h" in rival.explanation


def test_without_a_pace_nothing_is_said_of_ages():
    told = found(LATENCY.replace("1 packet per second", "often"), "implausible")
    assert not [row for row, _ in told if row.startswith("Ends")]


def test_the_second_article_holds_together():
    assert not found(LOAD_BALANCER, "impossible") + found(LOAD_BALANCER, "implausible")
    assert ("Same AZ", "difference recomputed") in found(LOAD_BALANCER, "ok")
    assert ("Direct Peering", "statistics of one series") in found(LOAD_BALANCER, "ok")


def test_latte_s_latency_by_zone_is_ranked():
    rows = [row for row, _ in found(HUB, "ok")]
    assert len(rows) == 9
    assert rows[0] == "One network: latte -c -a 10.13.1.6:80 -i 60000, Availability Zone 1"
    assert not found(HUB, "impossible")
    # Zone 3 before zone 1 and before zone 2, by the firewall alone.
    assert found(HUB, "implausible") == [("Latency (usec) Firewall", "rank inversion without dispersion")] * 2
    (first, _) = (r.explanation for r in check(HUB, "a.md") if r.verdict == "implausible")
    assert "2,418.44" in first
    assert "1,575.93 us" in first


def test_ranking_with_spread_is_not_implausible():
    spread = HUB.replace("Latency (usec) |", "Latency (usec) | sd (usec) |").replace(
        "---|---|---|", "---|---|---|---|"
    )
    spread = "\n".join(f"{line} 20 |" if line[-3:-2].isdigit() else line for line in spread.splitlines())
    assert not found(spread, "implausible")


def test_zero_wait_by_packet_size_is_implausible():
    row = "Waits: ASYNC_NETWORK_IO (s)"
    laws = ("zero at the end", "waits by packet size", "a time for each packet", "packets under encryption")
    assert found(SQL, "implausible") == [(row, law) for law in laws]
    zero, packets, model, encrypted = (r for r in check(SQL, "a.md") if r.verdict == "implausible")
    assert "13.81, 9.74, 6.47 and then 32KB" in zero.explanation
    # Half of 6.47, by hand; 9.74 and 6.47 lie above half of 13.81 and of 9.74.
    assert "from 6.47 to 0.00 at 32KB" in packets.explanation
    assert "would leave 3.23 or more" in packets.explanation
    # By hand, least squares over 1, 1/2, 1/4, 1/8: 1.008 + 13.859 x, and without the last 4.436 + 9.551 x.
    for words in (
        "13.86 for the packets of 4KB, half of it at twice the size, and 1.01 besides",
        "14.87, 7.94, 4.47, 2.74",
        "9.55 for the packets of 4KB",
        "would leave 5.63 at 32KB and not 0.00",
        "9,551 packets, 37.3 MiB",
    ):
        assert words in model.explanation
    assert "6.47 at 16KB and 0.00 at 32KB" in encrypted.explanation
    assert "16,383 bytes at most" in encrypted.explanation


def test_units_a_thousandfold_apart():
    assert [law for _, law in found(ACCELERATED, "impossible")] == ["unit"]
    rows = [row for row, _ in found(ACCELERATED, "ok")]
    assert "Accelerated networking: VM network latency, off" in rows
    assert "Accelerated networking: Egress throughput, on" in rows


@pytest.mark.parametrize(
    "text",
    [
        "scenario,min_us,p50_us,p99_us\na,10,130,110\n",
        "scenario\tmin_us\tp50_us\tp99_us\na\t10\t130\t110\n",
        "\nscenario;min_us;p50_us;p99_us\na;10;130;110\n",
        "| scenario | min (us) | p50 (us) | p99 (us) |\n|---|---|---|---|\n| a | 10 | 130 | 110 |\n",
        '[[rows]]\nscenario = "a"\nmin = 10\np50 = 130\np99 = 110\n',
    ],
    ids=["commas", "tabs", "semicolons", "markdown", "toml"],
)
def test_piped_input_format_is_detected(text):
    (remark,) = check(text, "-")
    assert (remark.row, remark.law, remark.verdict) == ("a", "order of quantiles", "impossible")


def test_a_count_that_names_no_row_changes_nothing():
    other = LATENCY.replace("Baseline Test Packets", "Third Test Packets")
    assert len(found(other, "impossible")) == 4
