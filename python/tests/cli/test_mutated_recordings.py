"""Recordings changed by chance, through every command that reads one: none ends in a traceback, a panic or a
signal, none waits for ever, and a report shows the honest recording beside it.

`make acceptance` compares what each costs with what an honest recording costs: for FATHOM_MUTATIONS_SECONDS,
from the seed FATHOM_MUTATIONS_FIRST on. A failure names its seed.
"""

import json
import os
import random
import shutil
import time
from pathlib import Path

import numpy as np
import pytest

from support import programs
from support.command_line import run as called
from support.growing import Growing
from support.hostile_recordings import dangerous
from support.measured import Ended, fathometer, measured
from support.mutations import events_of_every_kind, mutated
from support.recordings import START, UNANSWERED, lognormal_ns, write

SEEDS = range(1, 6)
SECONDS = float(os.environ.get("FATHOM_MUTATIONS_SECONDS", "120"))
FIRST = int(os.environ.get("FATHOM_MUTATIONS_FIRST", "1"))
MIB = 1 << 10
PYTHON = {
    "report": ["report", "r", "--json"],
    "page": ["report", "r", "-o", "page.html", "--json-file", "page.json", "--markdown", "page.md"],
    "changes": ["changes", "r/m"],
    "compare": ["compare", "r/m", "r/ok", "--json"],
    "rollup": ["rollup", "r", "-o", "rolled"],
}
RARE = {"page": 5}
"""Each so many cases: drawing takes its time."""
RUST = {
    "summary": ["summary", "r/m"],
    "summary for programs": ["summary", "r/m", "--json"],
    "explain": ["explain", "r/m"],
    "verify": ["verify", "r/m"],
    "export": ["export", "r/m"],
    "psping": ["export", "r/m", "--format", "psping"],
    "recover": ["recover", "copy"],
}
TIMES = 30
"""Times an honest report's processor time that a command may take."""


@pytest.fixture(scope="module")
def bases(tmp_path_factory):
    """With something of everything: finished, interrupted, a sweep of sizes, silences, datagrams."""
    root = tmp_path_factory.mktemp("bases")
    rtt = lognormal_ns(3, 700)
    rtt[::50] = UNANSWERED
    write(root / "finished", iter(np.split(rtt, 2)), events=events_of_every_kind(), interval_ns=100_000_000)
    growing = Growing(root / "interrupted")
    growing.samples(lognormal_ns(4, 200).tolist())
    growing.close_segment(START + 10**10)
    growing.samples(lognormal_ns(5, 200).tolist())
    for event in events_of_every_kind()[:12]:
        growing.event(event.pop("at_ns"), event.pop("kind"), **event)
    sizes = np.array((64, 1024))
    probe = {"mode": "tcp", "size": None, "sizes": [64, 1024], "interval_ns": 1_000_000_000}
    write(
        root / "sizes",
        lognormal_ns(6, 300),
        columns={"size": lambda seq: sizes[seq % 2]},
        manifest={"probe": probe},
    )
    gaps = {"mode": "tcp-idle-gap", "size": 64, "interval_ns": None, "idle_gaps_ns": [20_000_000, 90_000_000]}
    write(root / "gaps", lognormal_ns(7, 200), interval_ns=20_000_000, manifest={"probe": gaps})
    udp = {"mode": "udp", "size": 64, "interval_ns": 1_000_000_000}
    way = {name: lambda seq: seq * 1_000 for name in ("forward_ns", "backward_ns", "reflector_ns")}
    write(
        root / "udp",
        lognormal_ns(8, 200),
        columns=way,
        events=events_of_every_kind(),
        manifest={"probe": udp},
    )
    return sorted(root.iterdir())


def by_call(*words, cwd):
    """In this process, of which memory and time say nothing."""
    done = called(*words, cwd=cwd)
    return Ended(done.returncode, done.stdout, done.stderr, 0, 0.0)


def all_of(number, directory, python):
    """Runs every command on what is in ``r``."""
    shutil.rmtree(directory / "rolled", ignore_errors=True)
    for name, args in PYTHON.items():
        if number % RARE.get(name, 1) == 0:
            yield name, python(*args, cwd=directory)
    for name, args in RUST.items():
        if name == "recover":
            shutil.rmtree(directory / "copy", ignore_errors=True)
            shutil.copytree(directory / "r" / "m", directory / "copy", symlinks=True, copy_function=_copied)
        yield name, measured(programs.fathom(), "recording", *args, cwd=directory)


def _copied(source, target):
    if Path(source).is_file() or Path(source).is_symlink():
        return shutil.copy2(source, target, follow_symlinks=False)
    return os.mkfifo(target)


def wrong(name, done):
    """What is wrong with how a command ended; None: nothing."""
    if done.code not in {0, 1, 2}:
        return f"ended with {done.code}"
    if "Traceback" in done.stderr or "panicked" in done.stderr or "Exception ignored" in done.stderr:
        return "told of a fault of its own"
    if dangerous(done.stdout.replace("\r\n", "\n") + done.stderr.replace("\r", "")):
        return "printed what a terminal obeys"
    if done.code and not (done.stderr or done.stdout):
        return "said nothing"
    if any(len(line) > 5_000 for line in done.stderr.splitlines()) or len(done.stderr) > 200_000:
        return "said too much"
    # Exit code 1 says that a recording is damaged; the report is there all the same.
    if name == "report" and (done.code == 2 or "an honest one" not in str(_labels(done.stdout))):
        return "did not report the honest one"
    return None


def _labels(text):
    return [r["label"] for r in json.loads(text)["recordings"]]


def faults_of(number, bases, directory, python, judge):
    """Changes one of the recordings, and says what went wrong with a command."""
    chance = random.Random(number)
    base = chance.choice(bases)
    shutil.copytree(base, directory / "r" / "m")
    what = mutated(chance, directory / "r" / "m")
    found, codes = [], {}
    for name, done in all_of(number, directory, python):
        codes[name] = done.code
        fault = judge(name, done)
        if name == "verify" and done.code == 0 and codes["report"] != 0:
            fault = "calls sound what the report does not read whole"
        if fault is not None:
            found.append(f"seed {number} ({base.name}: {what}): {name} {fault}\n{done.stderr[-3000:]}")
            print(found[-1], flush=True)  # A long run need not come to its end.
    shutil.rmtree(directory / "r" / "m")
    return found


@pytest.fixture
def honest(tmp_path):
    return write(tmp_path / "r" / "ok", lognormal_ns(1, 300), label="an honest one")


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.usefixtures("honest")
def test_mutated_recording_is_read_or_refused(bases, tmp_path, seed):
    assert faults_of(seed, bases, tmp_path, by_call, wrong) == []


@pytest.mark.acceptance
@pytest.mark.usefixtures("honest")
def test_mutated_recordings_cost_like_honest_ones(bases, tmp_path):
    most = {}
    for base in bases:
        shutil.copytree(base, tmp_path / "r" / "m")
        for name, done in all_of(0, tmp_path, fathometer):
            assert "Traceback" not in done.stderr + done.stdout
            assert "panicked" not in done.stderr
            if name not in most or done.peak_kib > most[name].peak_kib:
                most[name] = done
        shutil.rmtree(tmp_path / "r" / "m")
    limit_s = TIMES * max(done.cpu_s for done in most.values())

    def judge(name, done):
        if done.peak_kib > most[name].peak_kib + 64 * MIB:
            return f"took {done.peak_kib >> 10} MiB, and {most[name].peak_kib >> 10} of an honest one"
        if done.cpu_s > limit_s:
            return f"took {done.cpu_s:.1f} s, and {most[name].cpu_s:.1f} of an honest one"
        return wrong(name, done)

    number, end, faults = FIRST, time.monotonic() + SECONDS, []
    while time.monotonic() < end:
        faults += faults_of(number, bases, tmp_path, fathometer, judge)
        number += 1
    print(f"{number - FIRST} mutated recordings")
    assert not faults, "\n\n".join(faults)
