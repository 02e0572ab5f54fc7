"""A host's size: control groups that hold its processes to so much processor and memory (cgroups(7)).

Version 2 where its controllers are to be had (Documentation/admin-guide/cgroup-v2.rst), else version 1
(admin-guide/cgroup-v1/memory.rst, scheduler/sched-bwc.rst), which some machines still mount. A process enters
its groups before it becomes the program, so that the program never runs outside of them.
"""

from __future__ import annotations

import contextlib
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fathometer.errors import FathometerError
from fathometer.study.model import Host, HostLimits, Study

PERIOD_US: Final = 100_000
"""Over which a share of a processor is accounted, the kernel's default: a host of 0.1 runs 10 ms of each."""
_OF_SWAP: Final = ("memory.swap.max", "memory.memsw.limit_in_bytes")
"""Files that a kernel without swap accounting does not have."""
_SHORT: Final = 8
"""Letters of a study's id in the names of its groups, as in those of its fabrics."""


@dataclass(frozen=True)
class Mounts:
    """Where this process is in the control groups."""

    second: tuple[Path, Path] | None
    """The hierarchy's mount, and our own group in it; None: it is not mounted."""
    first: dict[str, Path]
    """By controller: our own group."""


class Groups:
    """The control groups of a study's hosts."""

    def __init__(self, study_id: str) -> None:
        self._id = study_id
        self._of: dict[str, list[Path]] = {}

    def make(self, study: Study) -> None:
        """Makes those of each host of this machine that has limits; raises `FathometerError`."""
        used = {name for s in study.scenario for name in (s.source, s.to)}
        for host in study.host:
            if host.limits is None or host.ssh is not None or host.name not in used:
                continue
            try:
                self._of[host.name] = list(_made(host.limits, f"{_prefix(self._id)}{host.name}"))
                _try(self.inside(host, ["true"]))
            except (OSError, LookupError) as error:
                raise FathometerError(
                    "limit a host",
                    f'host "{host.name}": {error}',
                    "run the study as root, or leave its `limits` out",
                ) from None

    def inside(self, host: Host, argv: list[str]) -> list[str]:
        """A command line that enters the host's groups, and then runs a command."""
        groups = self._of.get(host.name)
        if not groups:
            return argv
        enter = [f"echo $$ > {shlex.quote(str(group / 'cgroup.procs'))}" for group in groups]
        return ["/bin/sh", "-c", " && ".join([*enter, 'exec "$@"']), "sh", *argv]

    def remove(self) -> None:
        """Takes them away, when their processes have ended."""
        self._of.clear()
        remove_left(self._id)


def remove_left(study_id: str) -> None:
    """Takes away what a study made, also after a crash; its processes must have ended."""
    mounts = _mounts()
    places = set(mounts.first.values()) | set(_ancestors(mounts))
    for place in places:
        for group in place.glob(f"{_prefix(study_id)}*"):
            # One that a process is still in stays, and holds nobody else back.
            with contextlib.suppress(OSError):
                group.rmdir()


def _prefix(study_id: str) -> str:
    return f"fathom-{study_id[:_SHORT]}-"


def _mounts() -> Mounts:
    try:
        return read_mounts(Path("/proc/self/mounts").read_text(), Path("/proc/self/cgroup").read_text())
    except OSError:
        return Mounts(None, {})  # Not Linux.


def read_mounts(mounts: str, own: str) -> Mounts:
    """From ``/proc/self/mounts`` (fstab(5)) and ``/proc/self/cgroup`` (cgroups(7))."""
    groups = dict(line.split(":", 2)[1:] for line in own.splitlines())
    second: tuple[Path, Path] | None = None
    first: dict[str, Path] = {}
    for line in mounts.splitlines():
        _, where, kind, options, *_ = line.split()
        if kind == "cgroup2" and second is None and "" in groups:
            second = Path(where), _below(Path(where), groups[""])
        elif kind == "cgroup":
            for names, group in groups.items():
                for name in set(names.split(",")) & set(options.split(",")) & {"cpu", "memory"}:
                    first[name] = _below(Path(where), group)
    return Mounts(second, first)


def _below(mount: Path, group: str) -> Path:
    inside = mount / group.lstrip("/")
    # In a container the path may be that outside of it.
    return inside if ".." not in group and inside.is_dir() else mount


def _ancestors(mounts: Mounts) -> Iterator[Path]:
    """Our own group of version 2, and those above it."""
    if mounts.second:
        top, own = mounts.second
        yield own
        yield from (p for p in own.parents if p == top or top in p.parents)


def _made(limits: HostLimits, name: str) -> Iterator[Path]:
    mounts = _mounts()
    second, first = files(limits)
    parent = _parent(mounts, {file.partition(".")[0] for file in second})
    if parent is not None:
        yield _group(parent / name, second)
        return
    for controller, wanted in first.items():
        if controller not in mounts.first:
            raise LookupError(f"no control group of this machine can limit its {controller}")
        yield _group(mounts.first[controller] / name, wanted)


def files(limits: HostLimits) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """What is written: file to value in version 2; controller to file to value in version 1."""
    second: dict[str, str] = {}
    first: dict[str, dict[str, str]] = {}
    if limits.cpu is not None:
        quota = round(limits.cpu * PERIOD_US)
        second["cpu.max"] = f"{quota} {PERIOD_US}"
        first["cpu"] = {"cpu.cfs_period_us": str(PERIOD_US), "cpu.cfs_quota_us": str(quota)}
    if limits.memory is not None:
        size = str(limits.memory)
        second |= {"memory.max": size, "memory.swap.max": "0"}
        first["memory"] = {"memory.limit_in_bytes": size, "memory.memsw.limit_in_bytes": size}
    return second, first


def _parent(mounts: Mounts, controllers: set[str]) -> Path | None:
    """The nearest group of version 2 whose children can have the controllers; None: there is none."""
    for group in _ancestors(mounts):
        with contextlib.suppress(OSError):
            if not controllers <= set((group / "cgroup.controllers").read_text().split()):
                continue
            control = group / "cgroup.subtree_control"
            if not controllers <= set(control.read_text().split()):
                # Refused where processes are in the group itself, unless it is the root.
                control.write_text(" ".join(f"+{c}" for c in sorted(controllers)))
            return group
    return None


def _group(path: Path, wanted: dict[str, str]) -> Path:
    path.mkdir(exist_ok=True)
    for name, value in wanted.items():
        if name not in _OF_SWAP or (path / name).exists():
            (path / name).write_text(value)
    return path


def _try(argv: list[str]) -> None:
    """Whether a process may enter, said before the study begins."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=20)  # noqa: S603
    if done.returncode != 0:
        raise PermissionError(done.stderr.strip() or "no process may enter its control group")
