"""A host's size where systemd runs: a slice for each host (systemd.slice(5), systemd.resource-control(5)), in
it a scope for each of its processes (systemd-run(1)). For another user than root by that user's manager.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

from fathometer.study.model import HostLimits

_SHORT: Final = 8
"""Letters of a study's id in the names of its groups, as in those of its fabrics."""
_CALL_S: Final = 20.0
BOOTED: Final = Path("/run/systemd/system")
"""It is there where systemd runs the machine (sd_booted(3))."""


def systemd_runs() -> bool:
    """Whether systemd runs this machine, or this container."""
    return BOOTED.is_dir()


def prefix(study_id: str) -> str:
    """How names of a study's groups begin. A dash in a slice's name would be a level of the tree."""
    return f"fathom_{study_id[:_SHORT]}_"


def make(study_id: str, host: str, limits: HostLimits) -> Callable[[list[str]], list[str]]:
    """Makes a host's slice. A unit's name may not have all the signs that a host's may: it has a hash."""
    name = f"{prefix(study_id)}{hashlib.sha256(host.encode()).hexdigest()[:_SHORT]}.slice"
    _systemctl("set-property", "--runtime", name, *properties(limits))
    return lambda argv: [
        "systemd-run",
        *_whose(),
        "--scope",
        "--quiet",
        "--collect",
        f"--slice={name}",
        "--",
        *argv,
    ]


def properties(limits: HostLimits) -> list[str]:
    """What is set of a slice."""
    words = [] if limits.cpu is None else [f"CPUQuota={limits.cpu * 100:.2f}%"]
    return words + ([] if limits.memory is None else [f"MemoryMax={limits.memory}", "MemorySwapMax=0"])


def remove_left(study_id: str) -> None:
    """Takes away a study's slices."""
    for directory in _control().glob(f"{prefix(study_id)}*.slice.d"):
        name = directory.name.removesuffix(".d")
        # What systemd does not let go of holds nobody back, and is gone when the machine starts anew.
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            _call("stop", name)
            _call("revert", name)


def _whose() -> list[str]:
    return [] if os.geteuid() == 0 else ["--user"]


def _control() -> Path:
    """Where systemd keeps properties that were set until the machine is started anew."""
    if os.geteuid() == 0:
        return Path("/run/systemd/system.control")
    return Path(os.environ.get("XDG_RUNTIME_DIR", f"/run/user/{os.geteuid()}")) / "systemd/user.control"


def _systemctl(*words: str) -> None:
    done = _call(*words)
    if done.returncode != 0:
        raise OSError(f"systemd: {done.stderr.strip() or f'exit code {done.returncode}'}")


def _call(*words: str) -> subprocess.CompletedProcess[str]:
    argv = ["systemctl", *_whose(), *words]
    return subprocess.run(  # noqa: S603
        argv, capture_output=True, encoding="utf-8", errors="replace", check=False, timeout=_CALL_S
    )
