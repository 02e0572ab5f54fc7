"""A host's size: control groups that hold its processes to so much processor and memory (cgroups(7)).

Of version 2 alone, in one of two ways: where systemd runs, in slices of its tree (`slices`), because the tree
is systemd's; elsewhere in groups of our own (`Tree`). A process enters before it becomes the program, so that
the program never runs outside. Whether the kernel holds a process to what was set is looked up from inside,
before the study begins: systemd takes limits also where no controller is to be had.
"""

from __future__ import annotations

import contextlib
import shlex
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from fathometer.errors import FathometerError
from fathometer.study import slices
from fathometer.study.model import Host, HostLimits, Study

PERIOD_US: Final = 100_000
"""Over which a share of a processor is accounted, the kernel's default: a host of 0.1 runs 10 ms of each."""
_SWAP: Final = "memory.swap.max"
"""A file that a kernel without swap accounting does not have."""
_PAGE: Final = 64 << 10
"""The kernel takes whole pages; none are larger."""
_CALL_S: Final = 20.0
_NO_CONTROLLER: Final = (
    "boot with `systemd.unified_cgroup_hierarchy=1`, or with `cgroup_no_v1=all`, or leave its `limits` out"
)
_AS_ROOT: Final = "run the study as root, or leave its `limits` out"


class _NotLimited(Exception):  # noqa: N818 - that is what it is
    """Why a host's processes cannot be held to its size, and how to mend it."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.remedy = remedy


Enter = Callable[[list[str]], list[str]]
"""From a command line to one that enters a host's group first."""


class _Ways(Protocol):
    """How groups are made on this machine."""

    def make(self, study_id: str, host: str, limits: HostLimits) -> Enter:
        """Makes a host's."""

    def remove_left(self, study_id: str) -> None:
        """Takes away those of a study, also after a crash; their processes must have ended."""


class Groups:
    """The control groups of a study's hosts."""

    def __init__(self, study_id: str) -> None:
        self._id = study_id
        self._enter: dict[str, Enter] = {}

    def make(self, study: Study) -> None:
        """Makes those of each host of this machine that has limits; raises `FathometerError`."""
        used = {name for s in study.scenario for name in (s.source, s.to)}
        for host in study.host:
            if host.limits is None or host.ssh is not None or host.name not in used:
                continue
            try:
                self._enter[host.name] = _way().make(self._id, host.name, host.limits)
                _check_from_inside(self._enter[host.name], host.limits)
            except _NotLimited as error:
                self._refuse(host, f"{error}", error.remedy)
            except (OSError, subprocess.SubprocessError) as error:
                self._refuse(host, f"{error}", _AS_ROOT)

    def _refuse(self, host: Host, reason: str, remedy: str) -> None:
        self.remove()
        what = f'host "{host.name}" cannot be held to its size: {reason}'
        raise FathometerError("limit a host", what, remedy) from None

    def inside(self, host: Host, argv: list[str]) -> list[str]:
        """A command line that enters the host's group, and then runs a command."""
        enter = self._enter.get(host.name)
        return argv if enter is None else enter(argv)

    def remove(self) -> None:
        """Takes them away, when their processes have ended."""
        self._enter.clear()
        remove_left(self._id)


def remove_left(study_id: str) -> None:
    """Takes away what a study made, also after a crash; its processes must have ended."""
    _way().remove_left(study_id)


def _way() -> _Ways:
    return slices if slices.systemd_runs() else Tree(own_membership())


@dataclass(frozen=True)
class Membership:
    """Where this process is in the control groups of version 2."""

    mount: Path
    group: Path
    """Our own."""

    def upwards(self) -> Iterator[Path]:
        """Our own group, and those above it."""
        yield self.group
        yield from (p for p in self.group.parents if p == self.mount or self.mount in p.parents)


def own_membership() -> Membership | None:
    """None: version 2 is not mounted here."""
    try:
        return read_membership(
            Path("/proc/self/mounts").read_text(encoding="utf-8", errors="surrogateescape"),
            Path("/proc/self/cgroup").read_text(encoding="utf-8", errors="surrogateescape"),
        )
    except OSError:
        return None  # Not Linux.


def read_membership(mounts: str, own: str) -> Membership | None:
    """From ``/proc/self/mounts`` (fstab(5)) and a process's ``/proc/PID/cgroup`` (cgroups(7))."""
    group = next((line.removeprefix("0::") for line in own.splitlines() if line.startswith("0::")), None)
    for line in mounts.splitlines():
        _, where, kind, *_ = line.split()
        if kind == "cgroup2" and group is not None:
            mount = Path(where)
            inside = mount / group.lstrip("/")
            # In a container the path may be that outside of it.
            return Membership(mount, inside if ".." not in group and inside.is_dir() else mount)
    return None


def files(limits: HostLimits) -> dict[str, str]:
    """What a group's files say then (Documentation/admin-guide/cgroup-v2.rst, "CPU", "Memory")."""
    wanted: dict[str, str] = {}
    if limits.cpu is not None:
        wanted["cpu.max"] = f"{round(round(limits.cpu, 4) * PERIOD_US)} {PERIOD_US}"
    if limits.memory is not None:
        wanted |= {"memory.max": str(limits.memory), _SWAP: "0"}
    return wanted


def _controllers(limits: HostLimits) -> set[str]:
    return {name.partition(".")[0] for name in files(limits)}


class Tree:
    """Groups that we make ourselves."""

    def __init__(self, membership: Membership | None) -> None:
        self._membership = membership

    def make(self, study_id: str, host: str, limits: HostLimits) -> Enter:
        """Makes a host's group, below the nearest one whose children can have the controllers."""
        group = self._parent(_controllers(limits)) / f"{slices.prefix(study_id)}{host}"
        group.mkdir(exist_ok=True)
        for name, value in files(limits).items():
            if name != _SWAP or (group / name).exists():
                (group / name).write_text(value)
        enter = f'echo $$ > {shlex.quote(str(group / "cgroup.procs"))} && exec "$@"'
        return lambda argv: ["/bin/sh", "-c", enter, "sh", *argv]

    def _parent(self, controllers: set[str]) -> Path:
        if self._membership is None:
            raise _NotLimited("this machine has no control groups of version 2", _NO_CONTROLLER)
        refused: OSError | None = None
        for group in self._membership.upwards():
            try:
                if not controllers <= set((group / "cgroup.controllers").read_text().split()):
                    continue
                control = group / "cgroup.subtree_control"
                if not controllers <= set(control.read_text().split()):
                    # Refused where processes are in the group itself, unless it is the root.
                    control.write_text(" ".join(f"+{c}" for c in sorted(controllers)))
            except OSError as error:
                refused = error
            else:
                return group
        if refused is not None:
            raise _NotLimited(f"{refused.filename}: {refused.strerror}", _AS_ROOT)
        raise _no_controller(controllers)

    def remove_left(self, study_id: str) -> None:
        """Takes away a study's groups."""
        for place in self._membership.upwards() if self._membership else ():
            for group in place.glob(f"{slices.prefix(study_id)}*"):
                # One that a process is still in stays, and holds nobody else back.
                with contextlib.suppress(OSError):
                    group.rmdir()


def _no_controller(controllers: set[str]) -> _NotLimited:
    names = " and ".join(sorted(controllers))
    what = f"control groups of version 2 cannot limit {names} here (version 1 may have taken them)"
    return _NotLimited(what, _NO_CONTROLLER)


def _check_from_inside(enter: Enter, limits: HostLimits) -> None:
    """Whether a process that entered is held to the limits, by its group or by one above it."""
    argv = enter(["cat", "/proc/self/cgroup"])
    done = subprocess.run(  # noqa: S603
        argv, capture_output=True, encoding="utf-8", errors="replace", check=False, timeout=_CALL_S
    )
    if done.returncode != 0:
        raise _NotLimited(done.stderr.strip() or "no process may enter its control group", _AS_ROOT)
    membership = read_membership(
        Path("/proc/self/mounts").read_text(encoding="utf-8", errors="surrogateescape"), done.stdout
    )
    if membership is None:
        raise _NotLimited("this machine has no control groups of version 2", _NO_CONTROLLER)
    for name, wanted in files(limits).items():
        if name != _SWAP and not any(_says(group / name, wanted) for group in membership.upwards()):
            raise _no_controller({name.partition(".")[0]})


def _says(file: Path, wanted: str) -> bool:
    try:
        words = file.read_text().split()
    except OSError:
        return False  # The root has none, nor has a group without the controller.
    if file.name == "memory.max":
        return words[0].isdigit() and abs(int(words[0]) - int(wanted)) < _PAGE
    return words == wanted.split()
