"""Studies of throughput and of factors, and what the report makes of them."""

import json
import subprocess
from itertools import count, product
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from fathometer.cli import app
from fathometer.dataset import open_recordings
from fathometer.study.agree import disagreement
from fathometer.study.commands import probe_command
from fathometer.study.plan import plan, quick
from fathometer.study.read import parse, read_study
from fathometer.study.run import run_study
from support.programs import fathom, free_port, need_fabrics
from support.rate import assert_rate
from support.recordings import START, lognormal_ns, write

SECOND = 1_000_000_000
HERE = "[[host]]\nname = 'here'\nlocal = true\n"
THERE = "[[host]]\nname = 'there'\nlocal = true\n"
ALLOWED = "[limits]\nallow-high-rate = true\n"
# What a key of a study is to `fathom probe`.
OPTIONS = {
    "for": lambda value: ["--for", value.strip("'")],
    "bitrate": lambda value: ["--bitrate", value.strip("'")],
    "connections": lambda value: ["--connections", value],
    "direction": lambda value: [f"--{value.strip(chr(39))}"],
}


def study_of(probe="for = '1s'", to="here", top="", more=""):
    return (
        f"format = 1\nname = 't'\n{top}{HERE}{THERE}"
        f"[[scenario]]\nlabel = 'a'\nfrom = 'here'\nto = '{to}'\nport = {free_port()}\n"
        f"[[probe]]\nmode = 'throughput'\n{probe}\n{more}"
    )


def said(text):
    return [f"{p.what}; {p.remedy}" for p in parse(text)[1]]


@pytest.mark.parametrize(
    ("probe", "words"),
    [
        ("for = '1s'\nevery = '1s'", "has no samples; leave `every` out"),
        ("for = '1s'\nwarm-up = 3", "leave `warm-up` out"),
        ("for = '1s'\nload = 'max'", "leave `load` out"),
        ("for = '1500ms'", "whole seconds"),
        ("for = '1s'\nomit = '1500ms'", "whole seconds"),
        ("for = '58s'\nomit = '3s'", "for a minute"),
        ("for = '1s'\nsize = '2MiB'", "1MiB at most"),
        ("for = '1s'\nconnections = 129", "128 streams"),
        ("for = '1s'\nbitrate = 'max'", "as fast as it goes"),
        ("for = '1s'\nmode = 'tcp'\nbitrate = '1Mbit'", "no throughput test; leave `bitrate` out"),
    ],
)
def test_incompatible_options_are_refused(probe, words):
    text = study_of(probe)
    text = text.replace("mode = 'throughput'\n", "", 1) if "mode" in probe else text
    (problem,) = said(text)
    assert words in problem


@pytest.mark.parametrize(
    ("probe", "words"),
    [
        ("for = '1s'", "fills another host's path"),
        ("for = '1s'\nbitrate = '58Mbit'", "5,007 packets/s on a stream, above 5,000; lower `bitrate`"),
        (
            "for = '1s'\nbitrate = '57Mbit'\nconnections = 11",
            "54,126 packets/s on all of its 11 streams, above 50,000",
        ),
        # Both ways at once: the probe refused at its run what the check had let pass.
        (
            "for = '1s'\nbitrate = '57Mbit'\nconnections = 6\ndirection = 'bidirectional'",
            "59,047 packets/s on all of its 12 streams, above 50,000",
        ),
        ("for = '1s'\nbitrate = '57Mbit'\nconnections = 5\ndirection = 'bidirectional'", None),
        ("for = '1s'\nbitrate = '57Mbit'\nconnections = 6\ndirection = 'reverse'", None),
        ("for = '1s'\nbitrate = '57Mbit'", None),
    ],
)
def test_polite_ceiling_matches_the_probe(probe, words):
    problems = said(study_of(probe, to="there"))
    assert [words in p for p in problems] == [True] * (words is not None)
    assert not said(study_of(probe, to="there", more=ALLOWED))
    assert not said(study_of(probe))
    # The probe itself takes what the check takes, and no more.
    options = [w for line in probe.splitlines() for w in OPTIONS[line.split(" = ")[0]](line.split(" = ")[1])]
    shown = subprocess.run(
        [fathom(), "probe", "192.0.2.1", "--throughput", *options, "--show-config"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ("--allow-high-rate" in shown.stdout + shown.stderr) == (words is not None), shown.stderr


def test_a_files_own_limits_hold_for_throughput_too():
    probe = "for = '1s'\nbitrate = '10Mbit'\nconnections = 4"
    for limit, words in (
        ("per-connection = 500", "863 packets/s on a stream, above 500; lower `bitrate`, use fewer"),
        ("in-all = 3_000", "3,453 packets/s on all of its 4 streams, above 3,000"),
        ("per-connection = 500\nallow-high-rate = true", "or raise `limits.per-connection`"),
    ):
        for to in ("here", "there"):
            (problem,) = said(study_of(probe, to=to, more=f"[limits]\n{limit}\n"))
            assert words in problem
    assert not said(study_of(probe, to="there", more="[limits]\nper-connection = 1_000\n"))


@pytest.mark.parametrize("key", ["per-connection", "in-all"])
def test_file_limits_require_a_bitrate(key):
    """Without `bitrate` nothing was held against them."""
    limits = f"[limits]\n{key} = 3_000\n"
    problem = f"fills its path, and `limits.{key}` is 3,000 packets/s; write a `bitrate` within that"
    # 34.7 Mbit/s are 3,000 packets of 1,448 bytes a second.
    for to, more in (
        ("here", ""),
        ("here", "allow-high-rate = true\n"),
        ("there", "allow-high-rate = true\n"),
    ):
        (words,) = said(study_of(to=to, more=limits + more))
        assert problem in words
        assert not said(study_of("for = '1s'\nbitrate = '34Mbit'", to=to, more=limits + more))
    (words,) = said(study_of(to="there", more=limits))
    assert "fills another host's path" in words


def test_it_shares_neither_its_time_nor_its_port():
    other = "[[scenario]]\nlabel = 'b'\nfrom = 'here'\nto = 'here'\n"
    (problem,) = said(study_of(top="order = 'side-by-side'\n", more=other))
    assert "share its links" in problem
    for also in (
        "[[probe]]\nname = 'p'\ncount = 1\n",
        "[[probe]]\nname = 'p'\nmode = 'connect'\ncount = 1\n",
    ):
        (problem,) = said(study_of(more=also))
        assert "the same TCP port" in problem
    assert not said(study_of(more="[[probe]]\nname = 'p'\nmode = 'udp'\ncount = 1\n"))


def test_the_command_line_says_it_all(tmp_path):
    probe = (
        "for = '9s'\nomit = '2s'\ndirection = 'reverse'\nbitrate = '10Mbit'\nconnections = 4\nsize = '64KiB'"
    )
    file = tmp_path / "study.toml"
    file.write_text(study_of(probe))
    study = read_study(file)
    (run,) = plan(study)
    command = " ".join(probe_command(study, run, "127.0.0.1", short=False)("fathom", "r"))
    assert (
        " --size 65536 --throughput --reverse --bitrate 10Mbit --omit 2s --for 9s --connections 4" in command
    )
    assert "--every" not in command
    assert "--warm-up" not in command
    assert run.estimate_ns == pytest.approx(11e9, rel=0.1)
    (short,) = plan(quick(study))
    assert short.estimate_ns < 2e9


def test_local_recording_agrees_with_the_plan(tmp_path, monkeypatch):
    monkeypatch.setenv("FATHOM_CLOUD", "off")
    probe = "for = '1s'\ndirection = 'bidirectional'\nbitrate = '20Mbit'\nconnections = 2"
    file = tmp_path / "study.toml"
    text = study_of(probe, top="repetitions = 1\n")
    file.write_text(text)
    told = []
    assert run_study(file, tmp_path / "out", Path(fathom()), False, told.append) == 1
    (line,) = [t for t in told if t.startswith("[1/1]")]
    assert "Mbit/s forward, " in line
    assert line.endswith("Mbit/s reverse")

    def difference(text):
        file.write_text(text)
        (run,) = plan(read_study(file))
        return disagreement(tmp_path / "out" / run.directory, run, run.scenario.port)

    assert difference(text) is None
    # A plan that asked for something else is told of.
    why = difference(text.replace("20Mbit", "30Mbit"))
    assert why == "the probe's bitrate_bits_per_second was 20000000, and the plan's is 30000000"
    why = difference(text.replace("for = '1s'", "for = '1s'\nomit = '1s'"))
    assert why == "the probe's omit_ns was 0, and the plan's is 1000000000"


FABRIC = """\
format = 1
name = "rates"
""" + "".join(
    f"""
[[host]]
name = "{name}-client"
address = "10.0.{n}.4"

[[host]]
name = "{name}-server"
address = "10.0.{n}.5"

[[path]]
label = "{name}"
from = "{name}-client"
to = "{name}-server"
rtt = {{ mean = "{mean}" }}
rate = "{rate}"
queue = "64KiB"
"""
    for n, (name, rate, mean) in enumerate(
        [("off-near", "4Mbit/s", "1ms"), ("on-near", "8Mbit/s", "1ms"),
         ("off-far", "4Mbit/s", "9ms"), ("on-far", "8Mbit/s", "9ms")]
    )
)  # fmt: skip

STUDY = """\
format = 1
name = "rates"
repetitions = {repetitions}

[[vary]]
factor = "an"
levels = ["on", "off"]

[[vary]]
factor = "where"
levels = ["near", "far"]

[[host]]
name = "{{an}}-{{where}}-client"
fabric = {{ scenario = "fabric.toml", host = "{{an}}-{{where}}-client" }}

[[host]]
name = "{{an}}-{{where}}-server"
fabric = {{ scenario = "fabric.toml", host = "{{an}}-{{where}}-server" }}

[[scenario]]
label = "path-{{an}}-{{where}}"
from = "{{an}}-{{where}}-client"
to = "{{an}}-{{where}}-server"

[[probe]]
{probe}

[limits]
allow-high-rate = true
"""


def measured(directory, probe, repetitions):
    """Runs the study of four paths; its output."""
    (directory / "fabric.toml").write_text(FABRIC)
    file = directory / "study.toml"
    file.write_text(STUDY.format(probe=probe, repetitions=repetitions))
    out = directory / "out"
    assert run_study(file, out, Path(fathom()), False, lambda _: None) == 4 * repetitions
    return out


def made(out, repetitions, of_path):
    """Writes the recordings of such a study; `of_path` gives a run's round trips, and what else differs."""
    for number in range(repetitions):
        for place, (an, where) in enumerate(product(("on", "off"), ("near", "far"))):
            name, tags = f"path-{an}-{where}", {"an": an, "where": where, "round": str(number + 1)}
            hosts = {"from": f"{an}-{where}-client", "to": f"{an}-{where}-server"}
            rtt_ns, more = of_path(number, an, where)
            manifest = {
                "path": {**hosts, "via": None, "tags": tags},
                "reflector": {"address": f"{hosts['to']}:7007", "resolved": None, "stamps": True},
                **more.pop("manifest", {}),
            }
            write(
                out / f"label={name}" / f"run={number + 1:02}",
                rtt_ns,
                label=name,
                start_ns=START + (4 * number + place) * 60 * SECOND,
                manifest=manifest,
                **more,
            )
    return out


def report_of(out):
    """The report's JSON and Markdown."""
    html, machine, text = (out.with_name(f"report.{kind}") for kind in ("html", "json", "md"))
    words = ["report", str(out), "--output", str(html), "--json-file", str(machine), "--markdown", str(text)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    return json.loads(machine.read_text()), text.read_text()


def throughput_is_ranked(out):
    value, page = report_of(out)
    assert {r.manifest.path.tags["an"] for r in open_recordings([out])} == {"on", "off"}
    every = {x["path"]: x for x in value["carried"]}
    assert len(every) == 4
    # Nothing is faster than its link; how much slower one run is, the machine that emulates both decides too.
    for path, x in every.items():
        link = 8e6 if "-on-" in path else 4e6
        assert link / 2 < x["bits_per_s"]["mean"] < link, path
        assert x["runs"] == 2
        assert x["bits_per_s"]["low"] <= x["bits_per_s"]["mean"] <= x["bits_per_s"]["high"]
        # By the receivers' own counts, which the tests bear.
        mine = [w["received"]["bits_per_second"] for t in value["throughput"] if t["scenario"] == path
                for w in t["ways"]]  # fmt: skip
        assert x["bits_per_s"]["mean"] == pytest.approx(sum(mine) / 2)
        # Payload of packets of 1,500 bytes: 1,448 of 1,500.
        assert max(mine) > 0.8 * link, path
    ranks = {path: x["rank"] for path, x in every.items()}
    assert max(ranks[p] for p in ranks if "-on-" in p) < min(ranks[p] for p in ranks if "-off-" in p)
    assert "Throughput by path" in page
    assert "Mbit/s" in page


def test_throughput_of_recordings_is_ranked(tmp_path):
    def of_path(number, an, where):
        link = 8_000_000 if an == "on" else 4_000_000
        # Half a percent less on the far path, and in the second round.
        carried = {
            "bytes": link * (960 - 5 * number - 5 * (where == "far")) // 4000,
            "duration_ns": 2 * SECOND,
        }
        ended = {"ways": [{"way": "forward", "sent": carried, "received": carried}]}
        events = [{"at_ns": START, "kind": "throughput.ended", "summary": ended}]
        probe = {"mode": "tcp-throughput", "size": None, "interval_ns": None, "block_bytes": 131_072}
        return np.zeros(0, dtype=np.int64), {"events": events, "manifest": {"probe": probe}}

    throughput_is_ranked(made(tmp_path / "out", 2, of_path))


@pytest.mark.acceptance
def test_throughput_ranks_paths_over_fabric(tmp_path, monkeypatch):
    need_fabrics()
    monkeypatch.setenv("FATHOM_CLOUD", "off")
    numbers = count()

    def ranked():
        directory = tmp_path / str(next(numbers))
        directory.mkdir()
        throughput_is_ranked(measured(directory, "mode = 'throughput'\nfor = '2s'\nomit = '1s'", 2))

    # A busy machine may not fill a link.
    assert_rate(1, 2, ranked)


def factors_are_told(out):
    value, page = report_of(out)
    rows = {(e["factor"], e["path"], e["to_path"]): e for e in value["factors"]}
    # Each factor at each level of the other one, and no pair that differs in both.
    assert set(rows) == {
        ("an", "path-off-near", "path-on-near"),
        ("an", "path-off-far", "path-on-far"),
        ("where", "path-on-far", "path-on-near"),
        ("where", "path-off-far", "path-off-near"),
    }
    for (factor, *_), row in rows.items():
        median = row["changes"]["p50"]
        if factor == "where":
            assert (row["from"], row["to"], median["verdict"]) == ("far", "near", "faster")
            assert median["low"] <= median["ratio"] <= median["high"] < 1
    # As the table of ratios has it, the other way round where that is.
    pairs = {(c["a"], c["b"]): c for c in value["comparisons"] if c["metric"] == "p50"}
    c = pairs["path-on-near", "path-on-far"]
    assert rows["where", "path-on-far", "path-on-near"]["changes"]["p50"]["ratio"] == pytest.approx(
        1 / c["ratio"]
    )
    assert "By factor" in page


def test_factors_of_recordings_are_reported(tmp_path):
    def of_path(number, an, where):
        seed = number + 100 * (an == "on") + 200 * (where == "far")
        return lognormal_ns(seed, 30, median_us=9_000 if where == "far" else 1_000), {}

    factors_are_told(made(tmp_path / "out", 6, of_path))


@pytest.mark.acceptance
def test_factors_over_fabric_are_reported(tmp_path, monkeypatch):
    need_fabrics()
    monkeypatch.setenv("FATHOM_CLOUD", "off")
    # More than the fewest that are compared (6): the machine may disturb one.
    factors_are_told(measured(tmp_path, "every = '20ms'\ncount = 30\nwarm-up = 5", 9))


@pytest.mark.acceptance
def test_throughput_is_measured_between_hosts_over_ssh(lab):
    lab.write(
        [("a", "b")], probe="mode = 'throughput'\nfor = '1s'\nbitrate = '20Mbit'\ndirection = 'reverse'"
    )
    lab.run()
    recording = lab.recording("a-b")
    (way,) = recording.throughput.ways
    assert (way.name, recording.throughput.ended_early) == ("reverse", None)
    assert way.total.received.bytes > 0
    assert recording.manifest.reflector["resolved"] == f"{lab.machines.address['b']}:7007"
    lab.assert_nothing_left()
