"""`fathom demo`: its files, and the whole of it with the real binary."""

import io
import json
import os
import signal
import subprocess
import sys
import tomllib
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from rich.console import Console

from fathometer.dataset import open_recordings
from fathometer.demo import command
from fathometer.demo.files import LENGTH_NS, LOOPBACK, REGION, STUDY, paced, write_loopback, write_region
from fathometer.demo.staged import staged
from fathometer.demo.table import _between, show
from fathometer.findings import render
from fathometer.findings.analyse import analyse
from fathometer.stats.results import Interval
from fathometer.study.journal import first, read_journal
from fathometer.study.lock import is_held
from fathometer.study.processes import marked
from fathometer.study.read import read_study
from support.command_line import run as command_line
from support.programs import ROOT, need_fabrics
from support.programs import fathom as built
from support.recordings import START, iso, lognormal_ns, write
from support.terminal import Terminal

QUICK_NS = 24_000_000_000
SECOND = 1_000_000_000


@pytest.fixture(scope="module")
def fathom():
    return Path(built())


@pytest.fixture(scope="module")
def _root():
    need_fabrics()


def demo(fathom, *words):
    """The command in a process of its own, on no desktop."""
    argv = [sys.executable, "-c", "from fathometer.cli import main; main()", "demo"]
    environment = {**os.environ, "FATHOM_CLOUD": "off", "DISPLAY": "", "WAYLAND_DISPLAY": ""}
    return subprocess.Popen(
        [*argv, "--fathom", fathom, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def test_the_story_at_another_pace(tmp_path):
    study = read_study(write_region(tmp_path, LENGTH_NS))
    (probe,) = study.probe
    assert probe.for_ns == LENGTH_NS
    (event,) = tomllib.loads((tmp_path / REGION).read_text())["event"]
    # It is over, and the lost connection noticed, before the measuring ends; the kernel outwaits the freeze.
    seconds = {
        k: int(v.removesuffix("s")) for k, v in event.items() if k in ("at", "brownout", "freeze", "redirect")
    }
    wait = probe.user_timeout_ns / 1e9
    assert sum(seconds.values()) + wait + 5 < LENGTH_NS / 1e9
    assert seconds["freeze"] < wait
    half = tomllib.loads(paced((tmp_path / REGION).read_text(), LENGTH_NS // 2))["event"][0]
    assert (half["at"], half["freeze"], half["brownout-added"]) == (
        "18s",
        "1s 500ms",
        event["brownout-added"],
    )
    for text in ((tmp_path / REGION).read_text(), (tmp_path / STUDY).read_text()):
        assert tomllib.loads(paced(text, LENGTH_NS)) == tomllib.loads(text)
    # How far apart hosts are is no part of the story.
    assert (
        tomllib.loads(paced((tmp_path / REGION).read_text(), QUICK_NS))["path"]
        == tomllib.loads((tmp_path / REGION).read_text())["path"]
    )


def test_the_network_is_the_regions(tmp_path):
    """Figures are those of scenarios/azure-region.toml, which a test holds against what was published."""
    write_region(tmp_path, LENGTH_NS)
    ours = tomllib.loads((tmp_path / REGION).read_text())["path"]
    theirs = tomllib.loads((ROOT / "scenarios" / "azure-region.toml").read_text())["path"]
    assert len(ours) == 12
    for path in ours:
        source = path["source"].removeprefix("as same-zone: ")
        same = {"source": source, "rtt": path["rtt"], "via": path.get("via")}
        assert [p["label"] for p in theirs if {k: p.get(k) for k in same} == same], path["label"]


def test_loopback_takes_a_port_that_is_free(tmp_path):
    study = read_study(write_loopback(tmp_path, LENGTH_NS))
    assert study.host[0].local
    assert "port = 7007" not in (tmp_path / LOOPBACK).read_text()


@pytest.mark.parametrize(
    ("environment", "there"),
    [
        ({"DISPLAY": ":0"}, True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, True),
        ({"DISPLAY": ":0", "SSH_CONNECTION": "10.0.0.1 1 10.0.0.2 22"}, False),
        ({"DISPLAY": "localhost:10.0", "SSH_TTY": "/dev/pts/0"}, False),
        ({}, False),
    ],
)
def test_desktop_is_a_local_screen(monkeypatch, environment, there):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(command.sys, "platform", "linux")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert command.desktop() is there


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--quick", "--for", "1m"], "leave one of them out"),
        (["--for", "5s"], "give it 20s or more"),
        (["--for", "soon"], "is no duration"),
        (["--output", "."], "is not empty"),
    ],
)
def test_wrong_usage(fathom, words, said):
    done = command_line("demo", "--fathom", fathom, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


APART = (
    ("cross-zone", "cross-region"),
    ("spoke-peered", "spoke-vpn"),
    ("spoke-peered", "spoke-firewall"),
    ("transatlantic-lb", "transatlantic-peering"),
    ("transatlantic-endpoint", "transatlantic-peering"),
)
"""Faster and slower: what the map has to tell apart, on a busy machine, too."""
NEAR = (("same-zone", "cross-zone"), ("same-zone", "same-zone-lb"), ("cross-zone", "cross-zone-lb"))
"""Less than half a millisecond apart. On a machine with little else to do they are told apart as well; beside
other tests (six processes for a processor) it must be enough that nothing speaks against it.
"""


@pytest.mark.acceptance
@pytest.mark.usefixtures("_root")
def test_demo_explains_the_migration(tmp_path, fathom):
    # Once, and all that is to be seen in it: beside others of its kind it would measure those.
    directory = tmp_path / "out"
    process = demo(fathom, "--for", "40s", "--output", directory)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    report = json.loads((directory / "report.json").read_text())
    assert [found for pair in APART if not (found := ratio(report, *pair))["low"] > 1] == []
    assert [found for pair in NEAR if not (found := ratio(report, *pair))["high"] > 1] == []
    assert [name for pair in (*APART, *NEAR) for name in pair if f"\n{name} " not in out] == []
    is_told_as_it_was(directory, out, report)
    assert out.splitlines()[-1] == f"Report: {directory / 'report.html'}"
    assert (directory / "report.html").read_text().startswith("<!doctype html>")
    assert report["advice"]
    assert "Advice:" in out
    assert "12 reflectors listen" in err
    assert "it stands still" in err
    # It leaves what can be run again, and nothing that runs.
    assert read_study(directory / STUDY).probe[0].for_ns == 40_000_000_000
    assert marked(first(read_journal(directory / "recordings"))["id"]) == []


def ratio(report, faster, slower):
    """The slower one's median to the other's, with its interval."""
    names = {faster, slower}
    (found,) = [c for c in report["comparisons"] if {c["a"], c["b"]} == names and c["metric"] == "p50"]
    low, high = found["low"], found["high"]
    if found["b"] == faster:
        low, high = 1 / high, 1 / low
    return {"pair": (faster, slower), "low": low, "high": high}


def is_told_as_it_was(directory, out, report):
    """The migration, against the network's own log."""
    # All of it is one entry, whatever else the machine was busy with.
    (found,) = [i for i in report["incidents"] if i["toll"]["connections"]]
    parts = [f for f in report["findings"] if f["id"] in found["findings"]]
    if "flow_forgotten" not in {f["cause"] for f in parts if f["kind"] == "death"}:
        # A machine too busy for a fresh connection in time leaves open what ended the old one, and the story.
        assert found["kind"] == "end"
        return
    assert found["kind"] in {"migration", "pause then loss"}
    # A busy machine may move other paths' levels at that moment: only this one stood still and was cut.
    held = [f for f in parts if f["kind"] in {"pause", "stall", "death"}]
    assert {place["scenario"] for f in held for place in f["where"]} == {"database"}
    assert found["statement"] in out
    assert "Played here: a live migration of the database's host" in out
    assert "a live migration of the database&#39;s host" in (directory / "report.html").read_text()
    (truth,) = directory.glob("recordings/truth/*/truth.jsonl")
    lines = [json.loads(line) for line in truth.read_text().splitlines()]
    began, ended = (
        datetime.fromisoformat(t["at"])
        for t in lines
        if t["kind"] in {"event.began", "event.ended"} and t["event"] == "live-migration freeze"
    )
    # The reflector's pause clock ticks every 12 ms, and its processes are found within some more.
    slack = timedelta(milliseconds=500)
    pauses = [f for f in report["findings"] if f["kind"] == "pause" and f["id"] in found["findings"]]
    assert any(began - slack <= datetime.fromisoformat(p["at"]) <= ended for p in pauses), pauses
    stalls = [f for f in report["findings"] if f["kind"] == "stall" and f["id"] in found["findings"]]
    if not stalls:
        # Where round trips take a second anyway, four times that is longer than the machine stood still.
        return
    (stall,) = stalls
    assert "the reflector did not run" in stall["statement"]
    (death,) = [f for f in report["findings"] if f["kind"] == "death" and f["id"] in found["findings"]]
    assert "something on the way forgot the flow" in death["statement"]


@pytest.mark.usefixtures("_root")
def test_ctrl_c_ends_demo_cleanly(tmp_path, fathom):
    process = demo(fathom, "--output", tmp_path / "out")
    for line in process.stderr:
        if "reflectors listen" in line:
            break
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 1, err
    assert "interrupted; nothing was left running" in err
    nothing_is_left(tmp_path / "out", fathom)


@pytest.mark.acceptance
@pytest.mark.usefixtures("_root")
@pytest.mark.parametrize("moment", ["to go, about", "measuring"])
def test_lost_terminal_ends_demo_cleanly(tmp_path, fathom, moment):
    """SSH was cut: nothing may be left running."""
    program = [sys.executable, "-c", "from fathometer.cli import main; main()", "demo", "--no-open"]
    terminal = Terminal([*program, "--fathom", str(fathom), "--output", str(tmp_path / "out")], 100, 30)
    terminal.read_until_written(moment)
    terminal.go_away()
    assert terminal.ended() in {1, -signal.SIGHUP}
    nothing_is_left(tmp_path / "out", fathom)


def nothing_is_left(directory, fathom):
    """Neither a process, nor a fabric, nor a study that seems to run."""
    entries = read_journal(directory / "recordings")
    assert marked(first(entries)["id"]) == []
    assert "study.interrupted" in [e["kind"] for e in entries]
    assert not is_held(directory / "recordings")
    for name in [e["name"] for e in entries if e["kind"] == "fabric.making"]:
        down = subprocess.run([fathom, "fabric", "down", name], capture_output=True, text=True, check=False)
        assert "no fabric" in down.stderr
        networks = Path("/run/netns")
        assert [n.name for n in networks.glob("*") if name in n.name] == []


@pytest.mark.usefixtures("_root")
def test_demo_without_network_emulation_uses_loopback(tmp_path, fathom, monkeypatch):
    monkeypatch.setattr("fathometer.demo.files.SHORTEST_NS", 0)
    monkeypatch.setenv("FATHOM_CLOUD", "off")
    binary, output = tmp_path / "fathom", tmp_path / "out"
    hidden = f'mount -t tmpfs none /dev/net && exec {fathom} "$@"'
    binary.write_text(f"#!/bin/sh\nexec unshare --mount sh -c '{hidden}' sh \"$@\"\n")
    binary.chmod(0o755)
    done = command_line("demo", "--no-open", "--for", "5s", "--fathom", binary, "--output", output)
    assert done.returncode == 0, done.stderr
    assert "No network can be emulated here" in done.stderr
    assert "no distances, no load balancer or firewall, and no migration" in done.stderr
    assert "64 bytes" in done.stdout
    assert "65,536 bytes" in done.stdout
    assert done.stdout.splitlines()[-1] == f"Report: {output / 'report.html'}"
    assert (output / "report.html").read_text().startswith("<!doctype html>")


def line(at, kind, **fields):
    return json.dumps({"at": iso(at), "mono_ns": 0, "place": "database", "kind": kind, **fields}) + "\n"


def shown(directory):
    """What the demo prints of recordings, and their incidents in words."""
    analysis = analyse(open_recordings([directory]))
    out = io.StringIO()
    show(analysis, Console(file=out, width=200), staged(directory))
    return out.getvalue(), [render.incident(i) for i in analysis.incidents]


def test_demo_tells_the_migration_it_staged(tmp_path):
    """Half a minute does not show that it is a migration, and the demo said nothing about it."""
    froze = START + 100 * SECOND
    stall = {"connection": 0, "threshold_ns": SECOND // 5}
    events = [
        {"at_ns": froze + SECOND // 5, "kind": "stall.began", "seq": 100, "outstanding": 1, **stall},
        {"at_ns": froze + SECOND, "kind": "stall.ended", "connection": 0, "duration_ns": SECOND}
        | {"samples": 1, "recovered": True},
    ]
    write(tmp_path / "label=database", lognormal_ns(1, 400), label="database", events=events)
    before, _ = shown(tmp_path)
    assert "Played here" not in before
    freeze = {"event": "live-migration freeze", "parameters": {"duration_ns": 800_000_000}}
    log = tmp_path / "truth" / "study-1" / "truth.jsonl"
    log.parent.mkdir(parents=True)
    log.write_text(
        line(START, "truth.started", scenario="region")
        + line(froze - 4 * SECOND, "event.began", event="live-migration", parameters={})
        + line(froze, "event.began", **freeze)
    )
    played = (
        "a live migration of the database's host from 2025-03-20 00:01:36 UTC on: it stood still at 00:01:40"
    )
    after, (stall,) = shown(tmp_path)
    assert f"Played here: {played} for 800 ms." in after
    assert f"  {stall}." in after
    assert "none of these is called a migration" in after


def test_no_zero_is_negative():
    # `-0.000 ms` stood in the demo's table.
    assert _between(Interval(-400.0, 1_400.0, 0.95)) == "0.000 … 0.001"
