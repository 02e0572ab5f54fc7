"""Somebody who calls `fathom cloud` on a machine of their own, where `tofu` and `az` are stand-ins: a lab's
hosts are namespaces within that machine, and gone with it.
"""

import errno
import hashlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from fathometer.cloud.journal import LabDirectory
from fathometer.study.journal import read_journal
from fathometer.study.ssh.shell import binary_path
from support.lab import Inside
from support.machines import Machine, until

STAND_IN = Path(__file__).with_name("standin_tofu.py")
MAIN = "from fathometer.cli import main; main()"
SECRET = "correct-horse-battery"
GIVEN = ("azure-zones", "--from", "203.0.113.1/32", "--public-jump", "--var", "user=root", "--yes")
SERVER = 'module.server["server-zone-1"].azurerm_linux_virtual_machine.this'
KILLED = f"""
import os, signal, sys
from fathometer.study.journal import Journal
noted = Journal.note
when, wanted = sys.argv.pop(1), sys.argv.pop(1)
def note(self, kind, **fields):
    if (when, kind) == ("before", wanted): os.kill(os.getpid(), signal.SIGKILL)
    noted(self, kind, **fields)
    if (when, kind) == ("after", wanted): os.kill(os.getpid(), signal.SIGKILL)
Journal.note = note
{MAIN}
"""
"""Killed before or after it writes an entry of that kind."""
LIKE = """
format = 1
name = "like"
[[host]]
name = "here"
local = true
[[scenario]]
label = "here"
from = "here"
to = "here"
[[probe]]
every = "5ms"
count = 40
"""


class Person:
    """At their machine."""

    def __init__(self, directory, binary):
        self.binary = binary
        self.machine = Machine(directory / "client", "client")
        self.home = self.machine.home
        self.cloud = directory / "cloud"
        (self.cloud / "things").mkdir(parents=True)
        programs = directory / "bin"
        programs.mkdir()
        for name in ("tofu", "az"):
            put_stand_in(programs / name)
        # Hosts have the binary already, and it is copied where a test takes that away.
        self.image = self.cloud / "image"
        (self.image / ".fathom/bin").mkdir(parents=True)
        with binary.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        _put(binary, self.image / binary_path(digest))
        self.machine.run(f"ssh-keygen -q -t ed25519 -N '' -f {self.home}/.ssh/id_ed25519")
        self.like = directory / "like.toml"
        self.like.write_text(LIKE)
        kept = {k: v for k, v in self.machine.environment.items() if not k.startswith(("TF_", "XDG_"))}
        (directory / "t").mkdir()
        own = {
            "TMPDIR": str(directory / "t"),
            "PATH": f"{programs}:{os.environ['PATH']}",
            "FATHOM_TEST_CLOUD": str(self.cloud),
            "ARM_SUBSCRIPTION_ID": "0",
        }
        self.env = {**kept, **own}
        self.started = []
        self.before = self.traces()

    def without_hosts(self):
        """From here on the lab's hosts are entries of the cloud's alone, which answer with a key."""
        (self.cloud / "bare").touch()
        stand_in_for_ssh(self.cloud.parent / "bin")

    def popen(self, *words, program=(MAIN,), stdin=subprocess.DEVNULL):
        # In the background of a script, or below `nohup`, signals are ignored: by what is started there, too.
        heard = ["env", "--default-signal=INT,HUP,TERM", f"--chdir={self.home}"]
        command = self.machine.enter(*heard, sys.executable, "-c", *program, "cloud", *words)
        pipe = subprocess.PIPE
        process = Inside(command, env=self.env, stdin=stdin, stdout=pipe, stderr=pipe, text=True)
        self.started.append(process)
        return process

    def __call__(self, *words, code=0, answer=None):
        process = self.popen(*words, stdin=subprocess.DEVNULL if answer is None else subprocess.PIPE)
        if answer is not None:
            process.stdin.write(answer)
        said = ended(process, code)
        # Everything that costs money is known, and everything called gone is gone.
        things = list((self.cloud / "things").iterdir())
        record = LabDirectory(self.place).read()
        assert not things or (record is not None and record.state != "planned"), things
        return said

    def killed(self, when, kind, *words):
        """Calls it, and it is killed at that entry."""
        process = self.popen(*words, program=(KILLED, when, kind))
        out, err = process.communicate(timeout=120)
        assert process.returncode == -signal.SIGKILL, out + err

    def up(self, **more):
        return self("up", *GIVEN, **more)

    def run_words(self):
        words = ("run", "azure-zones", "--like", self.like)
        return (*words, "--fathom", self.binary, "--remote-binary", self.binary)

    @property
    def place(self):
        return self.home / ".local/state/fathom/cloud/azure-zones"

    def study_kinds(self):
        """What the study's own journal has."""
        return [entry["kind"] for entry in read_journal(self.recordings)] if self.recordings.exists() else []

    def holding(self):
        """Waits until the stand-in waits before a thing."""
        until((self.cloud / "holding").exists, "the stand-in")

    def kill(self, process, sign=signal.SIGKILL):
        """Signals the program that was started in the machine."""
        process.send_signal(sign)

    def traces(self):
        """What could be left: processes, interfaces, things of the cloud's, files."""
        names = "for p in /proc/[0-9]*; do read -r n <$p/comm && echo $n; done 2>/dev/null; :"
        files = [str(p) for p in self.home.rglob("*") if self.recordings not in (p, *p.parents)]
        return {
            "processes": sorted(self.machine.run(names).split()),
            "interfaces": self.machine.run("ip -br link | cut -d' ' -f1").split(),
            "things": sorted(p.name for p in (self.cloud / "things").iterdir()),
            "hosts": sorted(p.name for p in (self.cloud / "hosts").glob("*")),
            "files": sorted(f for f in files if "/.local" not in f or Path(f).is_file()),
            "temporary": sorted(p.name for p in Path(self.env["TMPDIR"]).iterdir()),
        }

    @property
    def recordings(self):
        return self.home / "azure-zones"

    def nothing_is_left(self):
        after = self.traces()
        for kind, there in after.items():
            assert there == self.before[kind], f"{kind}: {there}, before {self.before[kind]}"

    def end(self):
        for process in self.started:
            if process.poll() is None:
                self.kill(process)
            if not process.stderr.closed:
                process.communicate()
        self.machine.end()


def put_stand_in(program):
    """Makes a program of it. Without site, whose start would take longer than all it does."""
    begins = f"import sys\nsys.path.append({str(STAND_IN.parent)!r})\n"
    program.write_text(f"#!{sys.executable} -IS\n{begins}from standin_tofu import main\nmain()\n")
    program.chmod(0o755)


def stand_in_for_ssh(programs):
    """Programs by which every host answers at once, with a key, also by way of a jump host."""
    texts = {
        "ssh-keyscan": 'for a; do case $a in -*|5) ;; *) echo "$a ssh-ed25519 AAAA";; esac; done',
        "ssh": 'while [ "$1" != ssh-keyscan ]; do shift; done; exec "$@"',
    }
    for name, text in texts.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)


def _put(binary, place):
    """As another name of the file, which costs nothing; on another file system as a copy."""
    try:
        os.link(binary, place)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        shutil.copy2(binary, place)


def ended(process, code=0):
    out, err = process.communicate(timeout=120)
    assert process.returncode == code, out + err
    return out + err
