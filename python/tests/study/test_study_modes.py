"""Studies of modes beside echoes on a schedule: what is refused, what is planned, and runs of them."""

import json
from pathlib import Path

import pytest

from fathometer.dataset import open_recordings
from fathometer.study.agree import disagreement
from fathometer.study.commands import probe_command
from fathometer.study.places import listens
from fathometer.study.plan import plan, quick
from fathometer.study.read import parse, read_study
from fathometer.study.run import run_study
from fathometer.study.words import bits_per_s
from support.programs import fathom, free_port

MS = 1_000_000
TWO_HOSTS = "[[host]]\nname = 'there'\nlocal = true\n"


def study_of(*probes, scenario="", hosts="", to="here", top=""):
    text = "format = 1\nname = 'modes'\nrepetitions = 1\n" + top
    text += f"[[host]]\nname = 'here'\nlocal = true\n{hosts}"
    text += f"[[scenario]]\nlabel = 'a'\nfrom = 'here'\nto = '{to}'\n{scenario}\n"
    return text + "".join(f"[[probe]]\nname = 'p{i}'\n{p}\n" for i, p in enumerate(probes))


def said(text):
    return [f"{p.what}; {p.remedy}" for p in parse(text)[1]]


@pytest.mark.parametrize(
    ("probe", "words"),
    [
        ("mode = 'connect'\nsize = 64\ncount = 9", "makes connections, which have no size"),
        ("mode = 'connect'\nconnections = 2\ncount = 9", "a connection a sample"),
        ("mode = 'stamp'\nsize = 40\ncount = 9", "at least 44 bytes"),
        ("mode = 'stamp'\nuser-timeout = '3s'\ncount = 9", "acknowledges nothing"),
        ("idle-gap = ['1s']\nevery = '1s'\ncount = 9", "has silences, and no schedule"),
        ("idle-gap = ['1s', '1100ms']\ncount = 9", "a quarter"),
        ("mode = 'tcp-ping-pong'\nidle-gap = ['1s']\ncount = 9", "goes with mode tcp or udp"),
        ("load = 'a lot'\ncount = 9", "is no rate"),
        ("mode = 'connect'\nload = 'max'\ncount = 9", "needs an echo server"),
        ("load-phase = '1s'\ncount = 9", "has no `load`"),
        ("load = '1Mbit'\nfor = '15s'", "over before an idle and a loaded phase"),
    ],
)
def test_incompatible_options_are_refused(probe, words):
    (problem,) = said(study_of(probe))
    assert words in problem


@pytest.mark.parametrize(
    ("probe", "words"),
    [
        ("mode = 'connect'\nrate = 101\ncount = 9", "more than 100 connections a second"),
        ("load = 'max'\ncount = 9", "loads another host's path"),
        ("load = '58Mbit'\ncount = 9", "loads another host's path"),
        ("mode = 'stamp-ping-pong'\ncount = 9", "as fast as it answers"),
        ("load = '57Mbit'\ncount = 9", None),
        ("mode = 'connect'\nrate = 100\ncount = 9", None),
        # Four samples after each silence of a second: nobody minds.
        ("idle-gap = ['1s']\ncount = 9", None),
        ("idle-gap = ['1ms']\nconnections = 20\ncount = 9", "80,000/s in all"),
    ],
)
def test_polite_ceiling_matches_the_probe(probe, words):
    problems = said(study_of(probe, hosts=TWO_HOSTS, to="there"))
    assert len(problems) == (words is not None)
    assert all(words in problem for problem in problems)
    # On one host, and where it is meant, all but the study's own limits may be passed.
    if words and "in all" not in words:
        assert not said(study_of(probe))
        meant = study_of(probe, hosts=TWO_HOSTS, to="there") + "[limits]\nallow-high-rate = true\n"
        assert not said(meant)


def test_what_answers_must_be_there():
    both = study_of("mode = 'udp'\ncount = 9", "mode = 'stamp'\ncount = 9")
    assert ["same UDP port" in p for p in said(both)] == [True]
    handshakes = "mode = 'connect-tls'\ncount = 9"
    assert ["names no server" in p for p in said(study_of(handshakes))] == [True]
    assert not said(study_of(handshakes, scenario="address = 'www.example.com'\nport = 443"))


def read(tmp_path, text):
    file = tmp_path / "study.toml"
    file.write_text(text)
    return read_study(file)


@pytest.mark.parametrize(
    ("probe", "words", "size"),
    [
        ("mode = 'connect'\nevery = '20ms'", "--connect --every 20ms", 0),
        ("mode = 'connect-tls'", "--connect --tls --every 1s", 0),
        ("mode = 'stamp'", "--stamp --every 1s", 44),
        ("mode = 'stamp-ping-pong'\nsize = 128", "--stamp --ping-pong", 128),
        ("idle-gap = ['10s', '1s']", "--idle-gap 1s,10s", 64),
        ("mode = 'udp'\nidle-gap = ['1s']", "--udp --idle-gap 1s", 64),
        ("load = 'max'", "--every 1s --load max --load-phase 10s", 64),
    ],
)
def test_the_command_line_says_the_mode(tmp_path, probe, words, size):
    study = read(tmp_path, study_of(f"{probe}\ncount = 40", scenario="address = '127.0.0.1'"))
    (run,) = plan(study)
    command = " ".join(probe_command(study, run, "127.0.0.1", short=False)("fathom", "r"))
    assert f" {words} " in command
    assert run.size == size
    assert (f"--size {size}" in command) == (size > 0)
    assert ("--ping-pong" in command) == ("ping-pong" in probe)


def test_a_count_of_silences_takes_their_time(tmp_path):
    study = read(tmp_path, study_of("idle-gap = ['1s', '3s']\ncount = 80"))
    (run,) = plan(study)
    # Ten rounds of both.
    assert run.estimate_ns == pytest.approx(40e9, rel=0.05)


@pytest.mark.parametrize(("text", "bits"), [("200Mbit", 2 * 10**8), ("1.5Gbit", 15 * 10**8), ("max", None)])
def test_rates_are_read(text, bits):
    assert bits_per_s(text) == bits


@pytest.mark.parametrize("text", ["", "0Mbit", "-1Mbit", "10", 10, "5MB"])
def test_what_is_no_rate_is_refused(text):
    with pytest.raises(ValueError, match="no rate"):
        bits_per_s(text)


def test_reflector_may_announce_other_listeners_first():
    lines = [
        json.dumps({"event": "listening", "protocol": p, "port": n}) for p, n in (("udp", 9), ("stamp", 8))
    ]
    assert listens("\n".join(lines), "stamp", 8)
    assert not listens("\n".join(lines), "udp", 8)
    assert not listens("no JSON", "udp", 8)


PROBES = {
    "tcp-idle-gap": "idle-gap = ['20ms', '10ms']\ncount = 24",
    "connect": "mode = 'connect'\nevery = '5ms'\ncount = 20",
    "stamp": "mode = 'stamp'\nevery = '5ms'\ncount = 20",
    "stamp-ping-pong": "mode = 'stamp-ping-pong'\nsize = 100\ncount = 20",
    "tcp": "every = '5ms'\nload = '2Mbit'\nload-phase = '200ms'\nfor = '1s'",
}


def test_every_mode_runs_and_its_recording_agrees(tmp_path, monkeypatch):
    monkeypatch.setenv("FATHOM_CLOUD", "off")
    port = free_port()
    text = study_of(*PROBES.values(), scenario=f"port = {port}")
    file = tmp_path / "study.toml"
    file.write_text(text)
    output = tmp_path / "out"
    assert run_study(file, output, Path(fathom()), False, lambda _: None) == len(PROBES)
    study = read_study(file)
    for run in plan(study):
        assert disagreement(output / run.directory, run, port) is None
    made = {r.directory.parent.name: r for r in open_recordings([output])}
    for number, mode in enumerate(PROBES):
        assert made[f"probe=p{number}"].manifest.mode == mode
    # A plan that asked for something else is told of.
    changed = read(tmp_path, text.replace("'20ms', '10ms'", "'30ms', '10ms'").replace("2Mbit", "3Mbit"))
    for run in plan(changed):
        why = disagreement(output / run.directory, run, port)
        differs = {"p0": "idle_gaps_ns", "p4": "load"}.get(run.probe.name)
        assert (why is None) == (differs is None)
        assert differs is None or differs in why


def test_quick_study_shortens_idle_gaps_and_load(tmp_path, monkeypatch):
    monkeypatch.setenv("FATHOM_CLOUD", "off")
    slow = ("idle-gap = ['1s', '10s', '60s']\nfor = '1h'", "load = '1Mbit'\nfor = '1h'")
    file = tmp_path / "study.toml"
    file.write_text(study_of(*slow, scenario=f"port = {free_port()}"))
    assert run_study(file, tmp_path / "out", Path(fathom()), True, lambda _: None) == 2
    shortened = quick(read_study(file))
    assert all(run.estimate_ns < 2_000 * MS for run in plan(shortened))
    silent, _ = sorted(open_recordings([tmp_path / "out"]), key=lambda r: str(r.directory))
    assert len({s.gap_ns for s in silent.totals.silences}) == 3
