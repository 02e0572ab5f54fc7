"""Each peer's output, by hand from the documented shapes, into recordings that the Rust half finds sound."""

import gzip
import json
import subprocess

import numpy as np
import pytest
from typer.testing import CliRunner

from fathometer import cli
from fathometer.dataset import importers, open_recording, parse_utc, raw
from fathometer.dataset.importers import Options
from fathometer.dataset.write import write_imported
from fathometer.errors import ExitCode, FathometerError
from support.outputs import (
    CASES,
    ECHO,
    ECHO_LOG,
    ETHR_RIGHT,
    ETHR_ROTATED,
    FLENT,
    IPERF3,
    IPERF3_LINES,
    IRTT,
    LATTE,
    NEPER,
    NEPER_TABLE,
    NETPERF,
    NETPERF_KEYED,
    PING,
    PSPING,
    PSPING_CONNECT,
    QPERF,
    SOCKPERF,
    SOCKPERF_SUMMARY,
)


@pytest.fixture
def read(tmp_path):
    def do(text, options=None, tool=None, name="run.txt"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return importers.read(path, options, tool=tool)

    return do


def test_every_importer_has_a_case():
    assert set(CASES) | {"csv"} == set(importers.REGISTRY)


@pytest.mark.parametrize("name", CASES)
def test_each_tool_output_matches_one_importer(name, tmp_path):
    path = tmp_path / "x"
    path.write_text(CASES[name])
    file = importers.File(path)
    assert [n for n, importer in importers.REGISTRY.items() if importer.detect(file)] == [name]


@pytest.mark.parametrize("packing", ["gzip", "utf-16", "crlf"])
@pytest.mark.parametrize("name", CASES)
def test_packing_and_windows_change_nothing(name, packing, read):
    plain = read(CASES[name], Options(started_ns=0))
    packed = {
        "gzip": lambda t: gzip.compress(t.encode()),
        "utf-16": lambda t: t.lstrip("\ufeff").encode("utf-16"),
        "crlf": lambda t: t.replace("\n", "\r\n").encode(),
    }[packing](CASES[name])
    again = read(packed, Options(started_ns=0))
    assert again.tool == plain.tool
    assert [s.rtt_ns.tolist() for s in again.series] == [s.rtt_ns.tolist() for s in plain.series]
    assert [s.statistics for s in again.summaries] == [s.statistics for s in plain.summaries]


@pytest.mark.parametrize("name", CASES)
def test_what_is_written_the_rust_half_finds_sound(name, read, fathom, tmp_path):
    imported = read(CASES[name])
    written = write_imported(imported, tmp_path / "out")
    assert len(written) == len(imported.series) + len(imported.summaries) > 0
    for directory, series in zip(written, imported.series, strict=False):
        verified = subprocess.run(
            [fathom, "recording", "verify", directory], capture_output=True, text=True, check=False
        )
        assert verified.returncode == 0, verified.stdout + verified.stderr
        recording = open_recording(directory)
        assert recording.damage == ()
        assert recording.rows == series.sent_ns.size
        assert "lateness_ns" in recording.manifest.imported["not_measured"]
        assert list(series.notes) == recording.manifest.imported["notes"]
        assert recording.rollup.histogram().count == series.answered.sum()
    for directory, summary in zip(written[len(imported.series) :], imported.summaries, strict=True):
        value = json.loads((directory / "summary.json").read_text())
        assert value["format"] == 1
        assert value["cannot"]
        assert value["rtt_ns"]["mean"] == summary.statistics.get("mean")


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("share", [0.15, 0.4, 0.6, 0.8, 0.95])
def test_cut_file_is_read_partly_or_refused(name, share, read):
    text = CASES[name][: int(len(CASES[name]) * share)]
    try:
        imported = read(text, tool=name)
    except FathometerError as error:
        told = str(error)
    else:
        told = "read"
        assert imported.series or imported.summaries
    assert "\n" not in told


def test_echo_client_drops_become_closings_and_connections(tmp_path):
    (tmp_path / "run.csv").write_text(ECHO)
    (tmp_path / "run.log").write_text(ECHO_LOG)
    imported = importers.read(tmp_path / "run.csv")
    (directory,) = write_imported(imported, tmp_path / "out")
    recording = open_recording(directory)
    (connection,) = recording.connections
    # The log's local time is an hour ahead of the stamps' UTC.
    assert connection.closed_ns == parse_utc("2025-03-20T10:04:15.5Z")
    assert (connection.cause, connection.evidence["error"]) == (
        "abandoned",
        "Socket timeout - server not responding",
    )
    assert (connection.evidence["sent"], connection.evidence["answered"]) == (3, 2)
    found = raw.samples(recording)
    assert found.connection.tolist() == [0, 0, 0, 1]
    assert found.value_ns[[0, 1, 3]].tolist() == [315_250, 400_000, 300_000]
    assert np.isnan(found.value_ns[2])
    assert any("own timeout" in n for n in imported.series[0].notes)


@pytest.mark.parametrize(("scale", "told"), [(0.001, "milliseconds"), (1000, "nanoseconds"), (0.5, "half")])
def test_echo_client_wrong_units_are_corrected(read, scale, told):
    lines = ECHO.splitlines()
    for i in (1, 2, 4):
        head, _, value = lines[i].rpartition(",")
        lines[i] = f"{head},{float(value) * scale}"
    (series,) = read("\n".join(lines) + "\n").series
    assert series.rtt_ns[series.answered].tolist() == [315_250, 400_000, 300_000]
    assert any(told in note and "recomputed" in note for note in series.notes)


@pytest.mark.parametrize(("column", "first"), [("rtt", "81.361"), ("latency", "40.680")])
def test_sockperf_is_always_the_whole_round_trip(read, column, first):
    (series,) = read(SOCKPERF.format(column=column, first=first), Options(started_ns=10**18)).series
    # The message without a row is lost, and has one.
    assert series.rtt_ns.tolist() == [81_361, 100_000, 0, 80_000]
    assert series.answered.tolist() == [True, True, False, True]
    assert series.sent_ns.tolist()[0] == 10**18 + 2_441_193_388
    assert series.size == 128
    assert any("RTT/2" in n for n in series.notes) == (column == "latency")
    assert any("lost: 1 message;" in n for n in series.notes)


def test_sockperf_summaries_are_doubled_unless_full_rtt(read):
    (half,) = read(SOCKPERF_SUMMARY).summaries
    assert half.statistics == {"min": 140_000, "max": 200_000, "mean": 162_722, "stddev": 5_000,
                               "p99_9": 198_000, "p50": 161_000}  # fmt: skip
    assert half.count == 110
    (full,) = read(SOCKPERF_SUMMARY.replace("avg-latency", "avg-rtt")).summaries
    assert full.statistics["p50"] == 80_500
    assert full.notes == ()


def test_printed_summaries(read):
    (latte,) = read(LATTE).summaries
    assert (latte.mode, latte.size, latte.count, latte.bin_ns) == ("udp-ping-pong", 4, 10_000_000, 1_000_000)
    assert latte.statistics == {"mean": 67_660}
    assert latte.histogram.count == 10_000_000, "latte leaves none out as warm-up"
    (capped,) = read(LATTE.replace("Iterations    10000000", "Iterations    10000100")).summaries
    assert any("100 of 10000100" in n for n in capped.notes)
    assert not any(" of 10000000" in n for n in latte.notes)
    small, large = read(QPERF).summaries
    assert (small.statistics["mean"], small.size) == (32_600, 64)
    assert (large.statistics["mean"], large.size) == (2_400_000, 1_024)
    (netperf,) = read(NETPERF).summaries
    assert netperf.statistics == {"p99": 44_000, "p50": 19_000, "mean": 21_500}
    (keyed,) = read(NETPERF_KEYED).summaries
    assert keyed.statistics == {"p99": 18_000, "p50": 9_000, "mean": 10_250}
    (neper,) = read(NEPER_TABLE).summaries
    assert (neper.statistics, neper.count) == ({"max": 900_000, "min": 10_000, "mean": 25_000}, 200)


def test_psping_rows_say_where_buckets_begin(read):
    (psping,) = read(PSPING).summaries
    assert psping.statistics == {"min": 41_580_000, "max": 50_880_000, "mean": 42_970_000}
    assert (psping.mode, psping.count, psping.size) == ("tcp-ping-pong", 300, 1_500)
    assert psping.bin_ns == 1_040_000, "the widest: 41.58 to 42.62 ms"
    assert 42_620_000 < psping.histogram.quantile(0.5).value_ns < 43_650_000
    # Had a row its values where it begins, the mean would be lower by half a bucket, 1 %.
    assert psping.histogram.mean_ns == pytest.approx(psping.statistics["mean"], rel=0.003)
    (connects,) = read(PSPING_CONNECT).summaries
    assert (connects.mode, connects.count, connects.size) == ("connect", 10, None)
    assert connects.histogram.mean_ns == pytest.approx(connects.statistics["mean"], rel=0.003)


def test_neper_flows_survive_any_column_order(read):
    (series,) = read(NEPER).series
    assert series.connection.tolist() == [0, 1, 0]
    assert series.rtt_ns.tolist() == [100_000, 50_000, 99_000]
    assert series.sent_ns.tolist()[0] == 1_750_000_000_000_000_000
    turned = "".join(",".join(reversed(line.split(","))) + "\n" for line in NEPER.splitlines())
    assert read(turned).series[0].rtt_ns.tolist() == series.rtt_ns.tolist()


@pytest.mark.parametrize("text", [json.dumps(IPERF3), IPERF3_LINES])
def test_iperf3_rtt_is_summary_not_samples(read, text):
    imported = read(text)
    assert imported.series == ()
    (summary,) = imported.summaries
    assert summary.statistics == {"min": 96_000, "mean": 100_000, "max": 104_000}
    assert summary.series == ((10**9, 104_000), (2 * 10**9, 96_000))
    assert any("smoothed" in c for c in summary.cannot)
    assert any("control message" in n for n in summary.notes) == (text != IPERF3_LINES)


SENT, RECEIVED = {"bits_per_second": 2.82e9, "retransmits": 3}, {"bits_per_second": 2_810_000_000.4}


@pytest.mark.parametrize(
    ("end", "intervals", "expected"),
    [
        (
            {"sum_sent": SENT, "sum_received": RECEIVED},
            IPERF3["intervals"],
            {"sent_bits_per_s": 2_820_000_000, "received_bits_per_s": 2_810_000_000, "retransmits": 3},
        ),
        # On the receiving side, and of UDP, no stream has an rtt.
        ({"sum_received": RECEIVED}, [], {"received_bits_per_s": 2_810_000_000}),
        ({"sum": {"bits_per_second": 1e6}}, [], {"sent_bits_per_s": 1_000_000}),
        # A client that was ended has no totals: its intervals then, without those that were left out.
        (
            {},
            [{"sum": {"bits_per_second": n, "omitted": n == 9}, "streams": []} for n in (9, 100, 200)],
            {"sent_bits_per_s": 150},
        ),
        ({"sum_sent": {"bits_per_second": "much"}, "sum_received": 7}, IPERF3["intervals"], None),
        ({"sum_sent": {"bits_per_second": 1e300}}, IPERF3["intervals"], None),
    ],
)
def test_what_iperf3_carried_is_kept(read, end, intervals, expected):
    text = json.dumps({**IPERF3, "end": end, "intervals": intervals})
    lines = [
        {"event": "start", "data": IPERF3["start"]},
        *({"event": "interval", "data": i} for i in intervals),
    ]
    streamed = "\n".join(json.dumps(e) for e in [*lines, {"event": "end", "data": end}])
    for each in (text, streamed):
        (summary,) = read(each).summaries
        assert summary.throughput == expected
        assert bool(summary.statistics) == bool(intervals and intervals[0]["streams"])


def test_iperf3_without_rtt_and_total_is_refused(read):
    with pytest.raises(FathometerError, match=r"neither an rtt nor what was carried|unable to send"):
        read(json.dumps({**IPERF3, "intervals": []}))


def test_irtt_keeps_whole_rtts_and_losses(read):
    (series,) = read(json.dumps(IRTT)).series
    assert series.answered.tolist() == [True, False, True]
    assert series.rtt_ns.tolist() == [112_277, 0, 100_000]
    assert series.reflector_ns.tolist() == [4_457, -1, 3_000]
    assert any("0 on the way there, 1 on the way back" in n for n in series.notes)


def test_flent_pings_are_samples_and_rates_summaries(read):
    imported = read(json.dumps(FLENT))
    (icmp,), (udp,) = imported.series, imported.summaries
    assert icmp.rtt_ns.tolist() == [1_500_000, 1_250_000]
    assert icmp.sent_ns.tolist() == [1_750_000_000_250_000_000, 1_750_000_000_500_000_000]
    assert udp.statistics == {"min": 500_000, "mean": 750_000, "max": 1_000_000}


def test_ethr_rotated_fields_are_corrected(read):
    expected = {"p50": 15_000, "p90": 20_000, "p95": 30_000, "p99": 40_000, "p99_9": 50_000, "p99_99": 60_000,
                "max": 90_000, "mean": 20_000, "min": 10_000}  # fmt: skip
    (rotated,) = read(json.dumps(ETHR_ROTATED)).summaries
    (right,) = read(json.dumps(ETHR_RIGHT)).summaries
    assert rotated.statistics == right.statistics == expected
    assert [len(s.notes) for s in (rotated, right)] == [1, 0]


def test_ping_losses_have_their_rows_and_duplicates_none(read):
    (series,) = read(PING).series
    assert series.answered.tolist() == [True, False, True, False]
    assert series.rtt_ns.tolist() == [500_000, 0, 250_000, 0]
    assert series.sent_ns[0] == 1_750_000_000_499_500_000
    assert (series.size, series.reflector) == (56, "127.0.0.1")
    without = "\n".join(line.split("] ")[-1] for line in PING.splitlines())
    (unstamped,) = read(without, Options(started_ns=0)).series
    assert unstamped.sent_ns.tolist() == [i * 10**9 for i in range(4)]
    assert any("one packet a second" in n for n in unstamped.notes)


TABLE = "epoch;rtt;cp\n{a};178.924995;0\n{b};-3;0\n{c};49,5;1\n"


@pytest.mark.parametrize(
    ("times", "first"),
    [
        (("1476479820", "1476480060", "1476480300"), "2016-10-14T21:17:00Z"),
        (("1476479820.5", "1476480060", "1476480300"), "2016-10-14T21:17:00.5Z"),
        (("1476479820000", "1476480060000", "1476480300000"), "2016-10-14T21:17:00Z"),
        (
            ("1476479820000000001", "1476480060000000000", "1476480300000000000"),
            "2016-10-14T21:17:00.000000001Z",
        ),
        (("14/10/2016 21:17", "14/10/2016 21:21", "14/10/2016 21:25"), "2016-10-14T21:17:00Z"),
        (("10/14/2016 21:17", "10/14/2016 21:21", "10/14/2016 21:25"), "2016-10-14T21:17:00Z"),
        (("2016-10-14 21:17:00", "2016-10-14 21:21:00", "2016-10-14 21:25:00"), "2016-10-14T21:17:00Z"),
        (
            ("2016-10-14T23:17:00+02:00", "2016-10-14T21:21:00Z", "2016-10-14T21:25:00Z"),
            "2016-10-14T21:17:00Z",
        ),
    ],
)
def test_table_accepts_epochs_dates_and_decimal_commas(read, times, first):
    options = Options(time="epoch", rtt="rtt", unit="ms", delimiter=";", missing=("negative",))
    text = TABLE.format(**dict(zip("abc", times, strict=True)))
    (series,) = read(text, options).series
    assert series.sent_ns[0] == parse_utc(first)
    assert np.diff(series.sent_ns)[-1] == 240_000_000_000
    assert series.rtt_ns.tolist() == [178_924_995, 0, 49_500_000]
    assert series.answered.tolist() == [True, False, True]


DATES = "when;rtt\n\n{};1\n{};2\n"


def dated(order=None):
    return Options(time="when", rtt="rtt", unit="ms", delimiter=";", date_order=order)


@pytest.mark.parametrize(
    ("order", "dates", "first"),
    [
        (None, ("14.10.2016 21:17", "15.10.2016 21:17"), "2016-10-14T21:17:00Z"),
        (None, ("2016/10/14 21:17", "2016/10/15 21:17"), "2016-10-14T21:17:00Z"),
        (None, ("05/05/2016 21:17", "05/05/2016 21:18"), "2016-05-05T21:17:00Z"),
        (None, ("3-4-2016 21:17", "13-4-2016 21:17"), "2016-04-03T21:17:00Z"),
        ("dmy", ("03.04.2016 21:17", "04.04.2016 21:17"), "2016-04-03T21:17:00Z"),
        ("mdy", ("03/04/2016 21:17", "03/05/2016 21:17"), "2016-03-04T21:17:00Z"),
        ("mdy", ("3-4-16 21:17:00.5+02:00", "3-5-16 21:17"), "2016-03-04T19:17:00.5Z"),
        ("ymd", ("16.03.04 21:17", "16.03.05 21:17"), "2016-03-04T21:17:00Z"),
        ("dmy", ("04.03.99", "05.03.99"), "1999-03-04T00:00:00Z"),
        # ISO 8601 is itself, whatever is said of the others.
        ("dmy", ("2016-03-04 21:17", "05.03.2016 21:17"), "2016-03-04T21:17:00Z"),
    ],
)
def test_date_order_comes_from_column_or_option(read, order, dates, first):
    (series,) = read(DATES.format(*dates), dated(order)).series
    assert series.sent_ns[0] == parse_utc(first)
    assert np.diff(series.sent_ns)[0] > 0


@pytest.mark.parametrize(
    ("order", "dates", "says"),
    [
        (
            None,
            ("03/04/2016 21:17", "04/04/2016 21:17"),
            r"line 3: the date '03/04/2016 21:17' .*--date-order dmy",
        ),
        (None, ("05/05/2016 21:17", "06.05.2016 21:17"), r"line 4: the date '06\.05\.2016 21:17'"),
        (None, ("14.10.16 21:17", "15.10.16 21:17"), r"line 3: .*--date-order dmy, mdy or ymd"),
    ],
)
def test_ambiguous_date_is_usage_error(read, order, dates, says):
    # It was taken to have the day first, and every sample of an American's file lay in another month.
    with pytest.raises(FathometerError, match=says) as refused:
        read(DATES.format(*dates), dated(order))
    assert refused.value.exit_code == ExitCode.USAGE


@pytest.mark.parametrize(
    ("order", "dates", "says"),
    [
        (
            "dmy",
            ("03/04/2016 21:17", "03/14/2016 21:17"),
            "line 4 is '03/14/2016 21:17'.*no date in the order dmy",
        ),
        (None, ("13/04/2016 21:17", "03/14/2016 21:17"), "line 4 .*no date in the order dmy"),
        (
            "mdy",
            ("03/04/2016 21:17", "yesterday"),
            "line 4 is 'yesterday', which is neither a date nor an epoch",
        ),
    ],
)
def test_mismatched_date_names_its_line(read, order, dates, says):
    with pytest.raises(FathometerError, match=says):
        read(DATES.format(*dates), dated(order))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (Options(time="epoch", rtt="rtt", unit="ms", delimiter=";"), "negative.*--missing negative"),
        (Options(time="epoch", rtt="RTT", unit="ms", delimiter=";"), "no column 'RTT'.*epoch, rtt, cp"),
        (Options(time="epoch", rtt="rtt", delimiter=";", missing=("negative",)), "unit of rtt is not known"),
        (Options(rtt="rtt", unit="ms", delimiter=";"), "--time"),
    ],
)
def test_missing_table_options_are_usage_errors(read, options, says):
    with pytest.raises(FathometerError, match=says) as refused:
        read(TABLE.format(a=1476479820, b=1476480060, c=1476480300), options)
    assert refused.value.exit_code == ExitCode.USAGE


def test_unit_option_overrides_unit_in_column_name(read):
    text = "t,rtt_us\n1476479820,250\n1476479821,260\n"
    (series,) = read(text, Options(time="t", rtt="rtt_us")).series
    assert series.rtt_ns.tolist() == [250_000, 260_000]
    (other,) = read(text, Options(time="t", rtt="rtt_us", unit="ms")).series
    assert other.rtt_ns.tolist() == [250_000_000, 260_000_000]
    assert any("names us, --unit says ms" in n for n in other.notes)


def test_unknown_file_error_suggests_csv_import(read):
    with pytest.raises(FathometerError, match=r"not recognised.*fathom import csv"):
        read("hello\n")


def test_empty_log_is_reported_as_empty(read):
    with pytest.raises(FathometerError, match="it is empty"):
        read("\n", tool="sockperf")


def test_the_command_writes_tells_and_never_overwrites(tmp_path):
    (tmp_path / "p.txt").write_text(PING)
    out = tmp_path / "out"
    runner = CliRunner()
    said = runner.invoke(cli.app, ["import", str(tmp_path / "p.txt"), "--record", str(out), "--label", "x"])
    assert said.exit_code == 0
    assert said.stdout == f"{out}\n"
    assert "ping: x: 4 samples, 2 unanswered" in said.stderr
    assert open_recording(out).label == "x"
    again = runner.invoke(cli.app, ["import", "ping", str(tmp_path / "p.txt"), "--record", str(out)])
    assert "exists; name another directory" in str(again.exception)
    wrong = runner.invoke(cli.app, ["import", str(tmp_path / "p.txt"), "--timezone", "Mars/Base"])
    assert wrong.exception.exit_code == ExitCode.USAGE
