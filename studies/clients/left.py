"""What a run has made, written down before it is made: one that was killed is cleared by the next.

A process is what was written down only where its id, when it began and the boot of this machine are the same:
ids are given again.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

PATIENCE = 10
"""Seconds that programs have to end by themselves."""


def boot():
    """Of this machine: ids of processes mean nothing beyond it."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def began(pid):
    """When a process began, in ticks since the boot; None: there is none, or only its entry is left."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # Its name may hold anything, and ends with the last bracket.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in {"Z", "X"} else int(fields[19])


class Left:
    """The file of one run, in a directory that is of such files alone."""

    def __init__(self, directory):
        directory.mkdir(parents=True, exist_ok=True)
        me = os.getpid()
        self._file = directory / f"{me}-{began(me)}.jsonl"
        self.note("run", pid=me, began=began(me), boot=boot())

    def note(self, kind, **fields):
        """Before a thing is made, or as soon as a process has an id."""
        with self._file.open("a") as out:
            out.write(json.dumps({"kind": kind} | fields) + "\n")

    def process(self, pid):
        """One that leads a group."""
        self.note("process", pid=pid, began=began(pid))

    def done(self):
        """Nothing is left."""
        self._file.unlink()


def clear(directory, fathom):
    """Takes away what runs have left that were killed, and no other. What it was, in words."""
    told = []
    for file in sorted(directory.glob("*.jsonl")):
        lines = list(_lines(file))
        run = next((x for x in lines if x["kind"] == "run"), None)
        if run is None:
            file.unlink()  # It was killed before it had made anything.
            continue
        this_boot = run["boot"] == boot()
        if this_boot and began(run["pid"]) == run["began"]:
            continue  # It is at work.
        processes = [x for x in lines if x["kind"] == "process"] if this_boot else []
        ended = _end([(x["pid"], x["began"]) for x in processes])
        fabrics = [x["name"] for x in lines if x["kind"] == "fabric"] if this_boot else []
        gone = [name for name in fabrics if _down(fathom, name)]
        for x in lines:
            if x["kind"] == "directory":
                shutil.rmtree(x["path"], ignore_errors=True)
        file.unlink()
        told.append(f"a run was killed: {ended} of its programs and {len(gone)} of its networks were left")
    return told


def _lines(file):
    """Those that are whole: the last may not be."""
    for line in file.read_text().splitlines():
        with contextlib.suppress(ValueError):
            yield json.loads(line)


def _end(known):
    """How many of these groups there were to end."""
    left = [(pid, at) for pid, at in known if at is not None and began(pid) == at]
    for kind in (signal.SIGTERM, signal.SIGKILL):
        limit = time.monotonic() + PATIENCE
        for pid, at in left:
            if began(pid) == at:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, kind)
        while any(began(pid) == at for pid, at in left) and time.monotonic() < limit:
            time.sleep(0.02)
    return len(left)


def _down(fathom, name):
    command = [fathom, "fabric", "down", "--name", name]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
