"""The report on real recordings of modes beside echoes on a schedule: its numbers are those of the probe's
own summary, and of a computation that uses neither.
"""

import json
import socket
import ssl
import subprocess
import threading
from dataclasses import dataclass

import numpy as np
import pyarrow.parquet as pq
import pytest

from support.command_line import run
from support.echo import echo, probe
from support.independent import nearest_rank, same_figures
from support.programs import free_port, serving, tool, until_it_answers
from support.report_schema import keeps_to_schema

MS = 1_000_000
REFUSED = 40
"""Datagrams a second that the reflector answers; the others count as lost on the way there."""


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    gaps_ms: tuple[int, int]
    silent: int
    lossy: int
    made: int
    bulk: tuple[str, ...]

    @property
    def gaps_ns(self):
        return [ms * MS for ms in self.gaps_ms]


SHORT = Plan((10, 40), 120, 80, 100, ("--for", "1s"))
LONG = Plan((20, 80), 320, 300, 400, ("--omit", "1s", "--for", "2s"))


@pytest.fixture(scope="module", params=[SHORT, pytest.param(LONG, marks=pytest.mark.acceptance)])
def plan(request):
    return request.param


@pytest.fixture(scope="module")
def summaries(plan, tmp_path_factory):
    """A recording of each mode, by label: its directory and the probe's summary."""
    root = tmp_path_factory.mktemp("modes")
    gaps = ",".join(f"{ms}ms" for ms in plan.gaps_ms)
    made = {}

    def measure(label, address, *options):
        made[label] = root / label, probe(root / label, address, *options)

    with echo("--udp-max-rate", str(REFUSED)) as at:
        measure("lossy", at["udp"], "--udp", "--every", "5ms", "--count", plan.lossy, "--timeout", "200ms")
    with echo("--throughput", "0", "--stamp", "127.0.0.1:0") as at:
        measure("silent", at["tcp"], "--idle-gap", gaps, "--count", plan.silent, "--connections", "3")
        measure("bulk", at["iperf3"], "--throughput", "--bidirectional", "--connections", "2",
                "--bitrate", "50Mbit", *plan.bulk)  # fmt: skip
        measure("twamp", at["stamp"], "--stamp", "--every", "5ms", "--count", "20")
        measure("back-to-back", at["stamp"], "--stamp", "--ping-pong", "--count", "20")
        measure("made", at["tcp"], "--connect", "--every", "2ms", "--count", plan.made)
    with tls_server(tmp_path_factory.mktemp("tls")) as port:
        measure("secret", f"127.0.0.1:{port}", "--connect", "--tls", "--tls-insecure", "--every", "5ms",
                "--count", "60")  # fmt: skip
    return made


class tls_server:  # noqa: N801 - a context manager, used as a word
    """Shakes hands, and says nothing else."""

    def __init__(self, directory):
        cert, key = directory / "cert.pem", directory / "key.pem"
        command = [tool("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
        command += ["-nodes", "-subj", "/CN=localhost", "-days", "2", "-keyout", key, "-out", cert]
        subprocess.run(command, check=True, capture_output=True)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(cert, key)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self):
        self._thread.start()
        return self._socket.getsockname()[1]

    def __exit__(self, *_):
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()

    def _serve(self):
        while True:
            try:
                accepted, _ = self._socket.accept()
            except OSError:
                return  # Closed: the test is over.
            try:
                with self._context.wrap_socket(accepted, server_side=True) as shaken:
                    shaken.recv(1)
            except OSError:
                pass  # The probe closes as soon as it has its time.


@pytest.fixture(scope="module")
def told(summaries, tmp_path_factory):
    """The report's JSON and Markdown on all of them; its page on three, as pictures take time."""
    out = tmp_path_factory.mktemp("report")
    machine, page = out / "report.json", out / "report.html"
    every = {name: directory for name, (directory, _) in summaries.items()}
    ran = run("report", *every.values(), "--json-file", machine, "--markdown", "-")
    assert ran.returncode == 0, ran.stderr
    drawn = run("report", *(every[name] for name in ("silent", "bulk", "made")), "-o", page)
    assert drawn.returncode == 0, drawn.stderr
    return json.loads(machine.read_text()), page.read_text(), ran.stdout


def scenario(told, name):
    return next(s for s in told[0]["scenarios"] if s["name"] == name)


def findings(told, kind, name=None):
    return [f for f in told[0]["findings"] if f["kind"] == kind and name in {None, f["scenario"]}]


def rows(directory):
    every = [r for f in sorted(directory.glob("samples-*.parquet")) for r in pq.read_table(f).to_pylist()]
    return sorted(every, key=lambda r: (r["connection"], r["seq"]))


def test_json_with_all_modes_matches_schema(told):
    keeps_to_schema(told[0])
    for part in ("throughput", "silences", "losses", "setups"):
        assert told[0][part], f"there is {part}, or the schema is not tried"


def by_silence(directory, plan):
    """(gap, first or not) -> round trips; by a walk along each connection, as schema/recording.md says it."""
    found, before, gap = {}, None, None
    for row in rows(directory):
        if before is None or before["connection"] != row["connection"]:
            gap = None
        else:
            silent = row["due_ns"] - before["sent_ns"] - before["rtt_ns"]
            near = [g for g in plan.gaps_ns if abs(silent - g) <= g / 20]
            assert near or abs(silent) < MS, "a silence of the plan, or none"
            gap = near[0] if near else gap
            if gap is not None:
                found.setdefault((gap, bool(near)), []).append(row["rtt_ns"])
        before = row
    return found


def test_samples_around_silences_are_never_pooled(told, summaries, plan):
    directory, own = summaries["silent"]
    expected = by_silence(directory, plan)
    assert set(expected) == {(gap, first) for gap in plan.gaps_ns for first in (True, False)}
    of_plan = {(line["gap_ns"], first): line["first" if first else "warm"] for line in own["idle_gaps"]
               for first in (True, False)}  # fmt: skip
    for ms, gap in zip(plan.gaps_ms, plan.gaps_ns, strict=True):
        for first in (True, False):
            name = f"silent, {'first' if first else 'warm'} after {ms} ms"
            made = scenario(told, name)
            assert made["silence"] == {"gap_ns": gap, "first": first}
            same_figures(made, np.array(expected[gap, first]))
            probes = of_plan[gap, first]["rtt_ns"]
            assert (made["answered"], made["rtt_ns"]["min"], made["rtt_ns"]["max"]) == (
                probes["count"],
                probes["min"],
                probes["max"],
            )
            assert made["rtt_ns"]["p50"]["value"] == pytest.approx(probes["p50"], rel=1e-3)
    # What followed the handshakes is in none of them.
    assert sum(len(v) for v in expected.values()) == own["samples"] - own["warm_up"]
    assert not [s for s in told[0]["scenarios"] if s["name"] == "silent"]


def test_silence_cost_matches_summary_with_interval(told, summaries, plan):
    directory, own = summaries["silent"]
    expected = by_silence(directory, plan)
    costs = {c["gap_ns"]: c for c in told[0]["silences"]}
    assert sorted(costs) == plan.gaps_ns
    for line in own["idle_gaps"]:
        cost = costs[line["gap_ns"]]
        medians = [nearest_rank(expected[line["gap_ns"], first], 0.5) for first in (True, False)]
        if plan is SHORT:
            # So few may have no interval.
            assert cost["low_ns"] is None or cost["low_ns"] <= cost["cost_ns"] <= cost["high_ns"]
        else:
            assert cost["low_ns"] <= cost["cost_ns"] <= cost["high_ns"]
            # The report may leave out a few blocks at the start, which a busy machine makes slower.
            assert cost["cost_ns"] == pytest.approx(medians[0] - medians[1], rel=0.1, abs=5_000)
            assert cost["cost_ns"] == pytest.approx(line["cost_ns"]["p50"], rel=0.1, abs=5_000)
        (finding,) = findings(told, "silence", cost["first"])
        assert ("longer" in finding["statement"]) == (cost["shown"] and cost["cost_ns"] > 0)
    _, page, text = told
    for where in (page, text):
        assert "After a silence" in where
    # What a path is fit for is not said of moments after a silence.
    assert not [a for a in told[0]["advice"] if a["topic"] == "placement" and "silent" in a["statement"]]


def test_throughput_is_what_the_receiver_counted(told, summaries, plan):
    directory, own = summaries["bulk"]
    (test,) = told[0]["throughput"]
    assert test["ended_early"] is None
    for way, line in zip(test["ways"], own["ways"], strict=True):
        assert way["way"] == line["way"]
        for name in ("sent", "received", "retransmits", "cwnd_bytes", "srtt_us"):
            assert way[name] == line[name]
            assert [s[name] for s in way["streams"]] == [s[name] for s in line["streams"]]
        assert len(way["streams"]) == 2
        mbit = way["received"]["bytes"] * 8e3 / way["received"]["duration_ns"]
        assert way["received"]["bits_per_second"] == pytest.approx(mbit * 1e6, rel=1e-6)
        # Two streams, each held to 50 Mbit/s.
        assert plan is SHORT or mbit < 110
        assert f"{mbit:.3g}" in told[2].split("## Throughput")[1]
    # The seconds again, by the events.
    events = [json.loads(line) for line in (directory / "events.jsonl").read_text().splitlines()]
    counted = [e for e in events if e["kind"] == "throughput.interval" and not e.get("omitted")]
    for way, kind in zip(test["ways"], ("sent", "received"), strict=True):
        total = sum(s["interval_ns"] * s["bits_per_second"] / 8e9 for s in way["seconds"])
        assert total == pytest.approx(sum(e["bytes"] for e in counted if e["way"] == kind), rel=1e-6)
    (finding,) = findings(told, "throughput")
    assert "sent again" in finding["statement"]
    assert finding["statement"].startswith("bulk: TCP carried ")
    # No row of round trips for what has none, and no talk of nothing sent.
    assert "| bulk" not in told[2].split("## Throughput")[0]
    assert not findings(told, "no samples")
    assert 'id="rates"' in told[1]


@pytest.mark.acceptance
def test_throughput_against_iperf3_has_its_figures(tmp_path):
    program, port = tool("iperf3"), str(free_port())
    with serving(program, "-s", "-B", "127.0.0.1", "-p", port):
        until_it_answers([program, "-c", "127.0.0.1", "-p", port, "-n", "1K"])
        own = probe(tmp_path / "theirs", f"127.0.0.1:{port}", "--throughput", "--reverse", "--for", "1s",
                    "--bitrate", "20Mbit")  # fmt: skip
    ran = run("report", tmp_path / "theirs", "--json")
    (test,) = json.loads(ran.stdout)["throughput"]
    (way,) = test["ways"]
    assert way["way"] == "reverse"
    assert way["received"] == own["ways"][0]["received"]
    # iperf3's end tells its retransmits and no more.
    assert (way["cwnd_bytes"], way["srtt_us"]) == (None, None)
    assert way["retransmits"] == own["ways"][0]["retransmits"]


def test_losses_are_counted_by_direction(told, summaries):
    for label in ("lossy", "back-to-back", "twamp"):
        _, own = summaries[label]
        there = [line for line in told[0]["losses"] if line["scenario"] == label]
        if not any(own["loss"].values()):
            assert not there
            continue
        (line,) = there
        assert {k: line[k] for k in own["loss"]} == own["loss"]
        assert line["forward"] + line["backward"] + line["unknown"] == line["unanswered"] == own["unanswered"]
    lost = summaries["lossy"][1]["loss"]
    assert lost["forward"] >= 10, "the reflector refuses most of them"
    (finding,) = findings(told, "loss direction", "lossy")
    assert f"on the way there: {lost['forward']:,} of {lost['forward']:,}" in finding["statement"]
    assert "Which way datagrams were lost" in told[2]


def test_one_way_needs_bounded_clocks(told, summaries):
    bounded = [label for label, (_, own) in summaries.items() if own.get("clock_error_ns") is not None]
    assert [w["scenario"] for w in told[0]["one_ways"]] == bounded


def test_connections_that_are_samples_are_no_story(told, summaries):
    directory, own = summaries["made"]
    made = scenario(told, "made")
    same_figures(made, np.array([r["rtt_ns"] for r in rows(directory) if r["rtt_ns"] is not None]))
    assert (made["samples"], made["mode"]) == (own["samples"], "connect")
    assert made["first_sample"] is None
    kinds = {f["kind"] for f in told[0]["findings"] if f["scenario"] == "made"}
    assert not kinds & {"death", "coincidence", "ages", "first sample"}
    assert not [a for a in told[0]["advice"] if a["topic"] in {"refresh age", "placement"} and "made" in
                a["statement"]]  # fmt: skip
    for word in ("TCP connections made, one every 2 ms", "TCP connections made, with TLS", "STAMP, 44 bytes"):
        assert word in told[2]
    assert "before connect() to established" in told[1]


def test_handshake_report_has_its_parts(told, summaries):
    directory, own = summaries["secret"]
    events = [json.loads(line) for line in (directory / "events.jsonl").read_text().splitlines()]
    opened = [e for e in events if e["kind"] == "connection.opened"]
    assert len(opened) == own["answered"] == 60
    (setup,) = told[0]["setups"]
    assert setup["scenario"] == "secret"
    for name in ("connect_ns", "tls_ns"):
        for figure, share in (("p50", 0.5), ("p95", 0.95)):
            exact = nearest_rank([e[name] for e in opened], share)
            assert setup[name][figure] == exact
        assert setup[name]["p99"] is None, "60 connections support none"
        assert setup[name]["p50"] == pytest.approx(own[name]["p50"], rel=1e-3)
    (finding,) = findings(told, "tls")
    assert "TLS handshake's" in finding["statement"]
