"""The law of all importers: a tool's own totals equal the rows, or the file is refused. Several runs are
several recordings. Missing output is unknown, and never lost. The outputs are generated from known truth.
"""

import json
import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fathometer.dataset import importers
from fathometer.dataset.importers import Options
from fathometer.errors import ExitCode, FathometerError
from support import printed
from support.outputs import CASES, IPERF3, LATTE, QPERF

TRIP = st.one_of(st.none(), st.integers(20, 90_000))
TRIPS = st.lists(TRIP, min_size=3, max_size=20).filter(any)
QUICK = settings(max_examples=15, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
SERIES = (*printed.PINGS, printed.fping, printed.sockperf_log, printed.irtt)
OPTIONS = Options(started_ns=10**18)
REPLY = re.compile(r"bytes from|\], \d+ bytes|^Reply from|^Antwort von|^\d+, \d+\.")
WHOLE_MS = (printed.windows, printed.windows_german)


def read(path, text, tool=None):
    path.write_text(text)
    return importers.read(path, OPTIONS, tool=tool)


def counts(series):
    return series.sent_ns.size, int(series.answered.sum())


def truth(trips):
    return len(trips), len(trips) - trips.count(None)


@pytest.mark.parametrize("form", SERIES, ids=lambda form: form.__name__)
def test_rows_are_what_was_sent_and_answered(form, tmp_path):
    @QUICK
    @given(st.lists(TRIPS, min_size=1, max_size=3))
    def each(runs):
        imported = read(tmp_path / "out.txt", "".join(form(trips) for trips in runs))
        assert [counts(series) for series in imported.series] == [truth(trips) for trips in runs]
        for series, trips in zip(imported.series, runs, strict=True):
            back = np.array([us * 1_000 for us in trips if us is not None])
            if form in WHOLE_MS:
                back = np.where(back < 10**6, 500_000, back // 10**6 * 10**6)
            assert series.rtt_ns[series.answered].tolist() == back.tolist()
            if form is not printed.sockperf_log:  # Its rows have no numbers, and its lost ones no place.
                assert series.answered.tolist() == [us is not None for us in trips]
        # Runs follow one another.
        begins = [int(series.sent_ns[0]) for series in imported.series]
        assert form in {printed.irtt, printed.iputils_stamped, printed.fping} or begins == sorted(set(begins))

    each()


@pytest.mark.parametrize("form", SERIES, ids=lambda form: form.__name__)
def test_missing_reply_line_is_refused(form, tmp_path):
    @QUICK
    @given(TRIPS, st.integers(0, 10**6))
    def each(trips, which):
        if form is printed.irtt:
            value = json.loads(form(trips))
            del value["round_trips"][which % len(trips)]
            text = json.dumps(value)
        else:
            lines = form(trips).splitlines(keepends=True)
            replies = [n for n, line in enumerate(lines) if REPLY.search(line)]
            del lines[replies[which % len(replies)]]
            text = "".join(lines)
        with pytest.raises(FathometerError, match=r"the tool counts .* and its lines give|without a r"):
            read(tmp_path / "out.txt", text)

    each()


@pytest.mark.parametrize("form", SERIES, ids=lambda form: form.__name__)
def test_cut_output_invents_no_loss(form, tmp_path):
    @QUICK
    @given(TRIPS, st.floats(0, 1), st.booleans())
    def each(trips, share, head):
        text = form(trips)
        at = int(share * len(text))
        text = text[at:] if head else text[:at]
        try:
            imported = read(tmp_path / "out.txt", text)
        except FathometerError:
            return
        # The figures of a log precede its rows: without rows it is a summary.
        sent = sum(series.sent_ns.size for series in imported.series)
        answered = sum(int(series.answered.sum()) for series in imported.series)
        assert answered <= truth(trips)[1]
        assert sent - answered <= trips.count(None)

    each()


@pytest.mark.parametrize("name", CASES)
def test_several_runs_are_several_results(name, tmp_path):
    def results(text):
        imported = read(tmp_path / "out.txt", text, name)
        return [s.rtt_ns.tolist() for s in imported.series] + [dict(s.statistics) for s in imported.summaries]

    once = results(CASES[name])
    again = results((CASES[name].rstrip("\n") + "\n") * 3)
    assert sorted(map(str, again)) == sorted(map(str, once * 3))


@given(TRIPS)
@QUICK
def test_psping_histogram_holds_what_was_received(tmp_path_factory, trips):
    path = tmp_path_factory.mktemp("p") / "p.txt"
    (summary,) = read(path, printed.psping(trips)).summaries
    assert summary.count == truth(trips)[1]
    assert any("not answered" in note for note in summary.notes) == (None in trips)
    with pytest.raises(FathometerError, match="the tool counts"):
        read(path, printed.psping(trips) + "99.99\t3\n", "psping")


def test_iperf3_interval_that_is_missing_is_refused(tmp_path):
    each = [{"sum": {"bytes": 1000 + n, "sender": True}, "streams": []} for n in range(20)]
    sent = {"bytes": sum(i["sum"]["bytes"] for i in each), "bits_per_second": 8e3}
    value = {**IPERF3, "intervals": each, "end": {"sum_sent": sent}}
    assert read(tmp_path / "i.json", json.dumps(value)).summaries
    value["intervals"] = each[:7] + each[8:]
    with pytest.raises(FathometerError, match="the tool counts 20,190 bytes"):
        read(tmp_path / "i.json", json.dumps(value))


def test_latte_histogram_above_iterations_is_refused(tmp_path):
    with pytest.raises(
        FathometerError, match="the tool counts 9,999,999 iterations, and its lines give 10,000,000"
    ):
        read(tmp_path / "l.txt", LATTE.replace("Iterations    10000000", "Iterations    9999999"))


def test_quiet_ping_is_a_summary(tmp_path):
    text = (
        "PING 10.0.0.9 (10.0.0.9) 56(84) bytes of data.\n\n--- 10.0.0.9 ping statistics ---\n"
        "1000000 packets transmitted, 999998 received, 0.0002% packet loss, time 999999ms\n"
        "rtt min/avg/max/mdev = 0.027/0.045/0.063/0.018 ms\n"
    )
    imported = read(tmp_path / "q.txt", text * 2)
    assert imported.series == ()
    assert [(s.count, s.statistics["mean"]) for s in imported.summaries] == [(999_998, 45_000)] * 2


def test_ping_without_any_answer_is_all_lost(tmp_path):
    (series,) = read(tmp_path / "p.txt", printed.bsd([None] * 7)).series
    assert counts(series) == (7, 0)


def test_ping_numbers_go_around(tmp_path):
    numbers = [65_534, 65_535, 1, 0, 2]
    lines = "".join(f"64 bytes from 10.0.0.9: icmp_seq={n} ttl=64 time=1.00 ms\n" for n in numbers)
    (series,) = read(tmp_path / "p.txt", lines).series
    assert counts(series) == (5, 5)


def test_windows_unreachable_is_not_answered(tmp_path):
    lines = printed.windows([1000, None, None]).replace("Received = 1, Lost = 2", "Received = 2, Lost = 1")
    lines = lines.replace("Request timed out.", "Reply from 192.168.1.1: Destination host unreachable.", 1)
    (series,) = read(tmp_path / "w.txt", lines).series
    assert series.answered.tolist() == [True, False, False]
    assert any("counts them as received" in note for note in series.notes)


def test_protocol_that_is_not_printed_is_unknown(tmp_path):
    log = printed.sockperf_log([100, None, 100, 100])
    assert read(tmp_path / "s.csv", log).series[0].mode == "unknown"
    told = log.replace("sockperf: [Total", "[ 0] IP = 10.0.0.9  PORT = 5996 # UDP\nsockperf: [Total")
    assert read(tmp_path / "s.csv", told).series[0].mode == "udp"


def test_dropped_message_goes_into_the_gap(tmp_path):
    (series,) = read(tmp_path / "s.csv", printed.sockperf_log([100] * 4 + [None] + [100] * 4)).series
    assert np.flatnonzero(~series.answered).tolist() == [4]
    assert np.diff(series.sent_ns).tolist() == pytest.approx([10**7] * 8, abs=2)


def test_neper_intervals_are_no_result(tmp_path):
    rows = "tid,flow_id,time,latency_min,latency_mean\n0,0,1,0.1,0.2\n0,1,1,0.1,0.3\n"
    with pytest.raises(FathometerError, match="several rows"):
        read(tmp_path / "n.csv", rows)


def test_qperf_test_without_latency_is_told(tmp_path):
    summaries = read(tmp_path / "q.txt", QPERF + "tcp_lat:\n    failed\n").summaries
    assert any("left out: 1 test" in note for note in summaries[0].notes)


def test_output_of_two_tools_asks_for_its_name(tmp_path):
    with pytest.raises(
        FathometerError, match=r"could be the output of psping or ping.*fathom import psping"
    ) as e:
        read(tmp_path / "x.txt", CASES["psping"] + CASES["ping"])
    assert e.value.exit_code == ExitCode.USAGE


@pytest.mark.parametrize("form", [printed.windows, printed.windows_german])
def test_windows_ping_is_not_psping(form, tmp_path):
    assert read(tmp_path / "x.txt", form([1000, None])).tool == "ping"
    # PsPing's own heading is the same.
    psping = CASES["psping"].replace(
        "TCP latency test connecting to", "Pinging 10.0.0.9 with 32 bytes of data:\n"
    )
    assert read(tmp_path / "x.txt", psping).tool == "psping"


@QUICK
@given(TRIPS, TRIPS)
def test_fping_keeps_hosts_apart(tmp_path_factory, near, far):
    """Hosts take turns; a duplicate reply is no packet."""
    hosts = {"10.0.0.9": near, "db1": far}
    lines = [line for name, trips in hosts.items() for line in printed.fping(trips, host=name).splitlines()]
    lines.insert(2, "db1 : duplicate for [0], 64 bytes, 0.83 ms")
    imported = read(tmp_path_factory.mktemp("fping") / "out.txt", "\n".join(lines) + "\n")
    assert [(s.reflector, *counts(s)) for s in imported.series] == [(n, *truth(t)) for n, t in hosts.items()]


def test_lists_of_fping_are_rows(tmp_path):
    text = "10.0.0.9 : duplicate for [0], 84 bytes, 0.83 ms\n10.0.0.9 : 0.82 - 0.88\n"
    (series,) = read(tmp_path / "out.txt", text).series
    assert series.rtt_ns[series.answered].tolist() == [820_000, 880_000]
    assert series.answered.tolist() == [True, False, True]
    assert any("1 duplicate reply" in note for note in series.notes)


def test_translated_replies_are_no_loss(tmp_path):
    """As iputils prints them with a German locale."""
    text = "PING db1 (10.0.0.9) 56(84) Bytes Daten.\n64 Bytes von 10.0.0.9: icmp_seq=1 ttl=252 Zeit=6.34 ms\n"
    with pytest.raises(FathometerError, match="line 2 is a reply in another language"):
        read(tmp_path / "out.txt", text)
