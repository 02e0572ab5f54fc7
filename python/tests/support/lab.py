"""A study over SSH between machines, run by the client as a person would."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from fathometer.dataset import open_recording
from fathometer.errors import FathometerError
from fathometer.study.journal import first, read_journal
from support.machines import until

LONG = "every = '10ms'\ncount = 500"
"""Five seconds: enough to see it grow, and to act before it ends."""
SHORT = "every = '5ms'\ncount = 40\nwarm-up = 5"


class Inside(subprocess.Popen):
    """A program that `nsenter` runs in a machine; signals are for the program."""

    def send_signal(self, sign):
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children")
        until(lambda: self.poll() is not None or children.read_text(), "the program in the machine")
        if self.returncode is None:
            os.kill(int(children.read_text()), sign)


class Lab:
    """One test's study, run by the client."""

    def __init__(self, directory, machines, binary):
        self.machines = machines
        self.hosts = machines.hosts
        self.binary = binary
        self.file = directory / "study.toml"
        self.output = directory / "out"
        self.started = []

    def write(self, scenarios, probe=SHORT, *, repetitions=1, top="", ssh=None):
        """Scenarios are pairs of hosts, `here` the client; `ssh` replaces what a host's table says."""
        text = f"format = 1\nname = 'over-ssh'\nrepetitions = {repetitions}\n{top}\n"
        for name in dict.fromkeys(n for s in scenarios for n in s):
            table = (ssh or {}).get(name, f"address = '{self.machines.address.get(name)}', user = 'root'")
            place = "local = true" if name == "here" else f"ssh = {{ {table} }}"
            text += f"[[host]]\nname = '{name}'\n{place}\n"
        for source, to in scenarios:
            text += f"[[scenario]]\nlabel = '{source}-{to}'\nfrom = '{source}'\nto = '{to}'\n"
        self.file.write_text(f"{text}[[probe]]\n{probe}\n")

    def popen(self, *words, program="from fathometer.cli import main; main()"):
        client = self.machines.client
        process = Inside(
            client.enter(sys.executable, "-c", program, "study", *words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=client.environment,
            cwd="/",
        )
        self.started.append(process)
        return process

    def end(self):
        """Of what a test that failed left."""
        for process in self.started:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            if not process.stdout.closed:
                process.communicate()

    def begin(self, binary=None):
        words = ["--output", self.output, "--fathom", self.binary, "--remote-binary", binary or self.binary]
        return self.popen("run", self.file, *words)

    def run(self, code=0, binary=None):
        """Runs it to its end, and returns what it said."""
        return ended(self.begin(binary), code)

    def stop(self):
        return ended(self.popen("stop", self.output), 0)

    @property
    def entries(self):
        return read_journal(self.output)

    @property
    def study_id(self):
        return first(self.entries)["id"]

    def kinds(self):
        return [e["kind"] for e in self.entries]

    def noted(self, kind):
        return until(lambda: [e for e in self.entries if e["kind"] == kind], f"{kind} in the journal")[-1]

    def growing(self, scenario):
        """The copy of a run's recording, as soon as samples of it are here; its id."""
        partial = self.output.with_name(f"{self.output.name}.unfinished") / f"label={scenario}" / "run=01"

        def samples():
            try:
                recording = open_recording(partial)
            except FathometerError:
                return None
            return recording if recording.rows > 0 and recording.running else None

        return until(samples, f"samples of {scenario}").manifest.id

    def recording(self, scenario, run="01"):
        return open_recording(self.output / f"label={scenario}" / f"run={run}")

    def reasons(self):
        return [e["reason"] for e in self.entries if e["kind"] == "run.failed"]

    def assert_nothing_left(self):
        for host in self.hosts.values():
            assert host.jobs(self.study_id) == host.marked(self.study_id) == []
            assert not (host.home / ".fathom" / "studies").exists()
            assert not list((host.home / ".fathom" / "bin").glob(".part*"))
        assert self.machines.client.marked(self.study_id) == []
        # The master of a shared connection bears no mark.
        names = "cat /proc/[0-9]*/comm 2>/dev/null || :"
        until(lambda: "ssh" not in self.machines.client.run(names).split(), "the end of connections")
        assert not Path(f"/tmp/fathom-{self.study_id[:16]}").exists()


def ended(process, code):
    out, err = process.communicate(timeout=60)
    assert process.returncode == code, out + err
    return out + err


def crash(process):
    """Kills a runner."""
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
