"""Programs that tests run: `fathom`, and other tools where the machine has them."""

import contextlib
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
LIMIT = 60
"""Seconds after which a tool counts as stuck."""


def missing(what):
    """Something that is not there: a visible skip, and a failure in CI."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what} is missing, and CI must have it")
    pytest.skip(f"{what} is missing")


def fathom():
    """The Rust half's binary: what FATHOM names, else the newest that was built, else the one in the PATH."""
    places = [ROOT / "target" / kind / "fathom" for kind in ("release", "debug")]
    built = max((p for p in places if p.exists()), key=lambda p: p.stat().st_mtime, default=None)
    found = os.environ.get("FATHOM") or built or shutil.which("fathom")
    return str(found or missing("fathom (cargo build -p fathom)"))


def make_key(private, *options):
    """A key for SSH, its public half beside it."""
    words = [tool("ssh-keygen"), "-q", "-t", "ed25519", "-f", private, *(options or ("-N", ""))]
    subprocess.run(words, check=True)


def need_fabrics():
    """Whether emulated networks can be made here; else the test that needs one is skipped."""
    if os.geteuid() != 0 or not Path("/dev/net/tun").exists():
        missing("what a fabric needs (root and /dev/net/tun)")


def need_control_groups():
    """Whether version 2 of them can limit something here; else the test that wants that is skipped, in CI
    too: what a machine was booted with cannot be installed.
    """
    tops = [
        line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines() if " cgroup2 " in line
    ]
    files = [Path(top) / "cgroup.controllers" for top in tops]
    there = {name for file in files if file.exists() for name in file.read_text().split()}
    if os.geteuid() != 0 or not {"cpu", "memory"} <= there:
        pytest.skip("control groups of version 2 with cpu and memory need root, and a machine that has them")


def tool(name):
    """A program by name."""
    return shutil.which(name) or missing(name)


def free_port(kind=socket.SOCK_STREAM):
    """A port of this machine that nobody listens on."""
    with socket.socket(socket.AF_INET, kind) as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@contextlib.contextmanager
def serving(*command):
    """A server, for as long as it is needed."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def until_it_answers(command, accept=lambda ended: ended.returncode == 0):
    """A client that is refused while its server starts is asked again, within bounds."""
    deadline = time.monotonic() + LIMIT
    while True:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
        if accept(ended) or time.monotonic() > deadline:
            assert accept(ended), ended.stdout + ended.stderr
            return ended
