"""Reports, comparisons, changes, imports and checks on a system without Linux's own calls."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from support.recordings import lognormal_ns, write

# The libraries come first: their wheels for Windows and macOS make these calls no more than ours may.
SYSTEM_WITHOUT_LINUX = """
import asyncio, multiprocessing, os, pathlib, shutil, signal, subprocess, sys, tempfile
import fastjsonschema, jinja2, numpy, pyarrow.compute, pyarrow.dataset, pyarrow.parquet
import pydantic, rich.console, typer, vl_convert, scipy.signal, scipy.special, scipy.stats

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

for name in MODULES:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Missing())
for owner, names in ((os, CALLS), (signal, SIGNALS)):
    for name in names:
        delattr(owner, name)
sys.platform = PLATFORM
from fathometer.cli import main
for arguments in COMMANDS:
    sys.argv = ["fathometer", *arguments]
    try:
        main()
    except SystemExit as end:
        assert not end.code, (arguments, end.code)
"""

COMMANDS = [
    ["report", "a", "-o", "page.html"],
    ["compare", "a", "b"],
    ["changes", "a"],
    ["import", "ping.txt", "--record", "imported"],
    ["check", "table.csv"],
]

LINUX_ALONE = {"MODULES": [], "CALLS": ["posix_fadvise", "sched_getaffinity"], "SIGNALS": ["sigwaitinfo"]}
NO_UNIX = {
    "MODULES": ["fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"],
    "CALLS": [
        *(
            "O_CLOEXEC",
            "O_DIRECTORY",
            "O_NOFOLLOW",
            "O_NONBLOCK",
            "chown",
            "fchmod",
            "fork",
            "geteuid",
            "getuid",
            "killpg",
        ),
        *("mkfifo", "posix_fadvise", "pread", "sched_getaffinity", "setsid", "statvfs", "sysconf", "uname"),
    ],
    "SIGNALS": ["SIGHUP", "SIGKILL", "SIGPIPE", "SIGUSR1", "pthread_sigmask", "setitimer", "sigwaitinfo"],
}
MISSING = {"darwin": LINUX_ALONE, "win32": NO_UNIX}

PING = """PING 192.0.2.1 (192.0.2.1) 56(84) bytes of data.
[1596530210.505053] 64 bytes from 192.0.2.1: icmp_seq=1 ttl=64 time=1.05 ms
[1596530211.505153] 64 bytes from 192.0.2.1: icmp_seq=2 ttl=64 time=1.15 ms

--- 192.0.2.1 ping statistics ---
2 packets transmitted, 2 received, 0% packet loss, time 1001ms
rtt min/avg/max/mdev = 1.050/1.100/1.150/0.050 ms
"""


@pytest.mark.parametrize("platform", MISSING)
def test_readers_need_no_linux(tmp_path, platform):
    for seed, name in enumerate(("a", "b")):
        write(tmp_path / name, lognormal_ns(seed, 200), label=name)
    (tmp_path / "ping.txt").write_text(PING)
    (tmp_path / "table.csv").write_text("name,mean,p50,max\na,1.25,1.2,1.3\n")
    missing = "".join(f"{name} = {values!r}\n" for name, values in MISSING[platform].items())
    program = f"PLATFORM = {platform!r}\nCOMMANDS = {COMMANDS!r}\n{missing}{SYSTEM_WITHOUT_LINUX}"
    done = subprocess.run(
        [sys.executable, "-c", program],
        check=False,
        cwd=tmp_path,
        env=dict(os.environ),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
