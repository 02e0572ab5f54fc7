"""A host's size: control groups, made, entered and taken away."""

import os
import re
import subprocess
import sys

import pytest

from fathometer.errors import FathometerError
from fathometer.study import cgroups, slices
from fathometer.study.cgroups import Groups, Membership, Tree, files, read_membership
from fathometer.study.model import HostLimits
from fathometer.study.read import notes, parse
from fathometer.study.slices import properties
from support.programs import need_control_groups

MIB = 1 << 20


def study(limits, place="local = true", other="local = true"):
    text = f"format = 1\nname = 's'\n[[host]]\nname = 'small'\n{place}\nlimits = {limits}\n"
    text += f"[[host]]\nname = 'large'\n{other}\n"
    text += "[[scenario]]\nlabel = 'a'\nfrom = 'small'\nto = 'large'\n[[probe]]\ncount = 1\n"
    return parse(text)


def test_limits_are_read_as_people_write_them():
    made, problems = study("{ cpu = 0.5, memory = '256MiB' }")
    assert problems == []
    assert made.host_named("small").limits == HostLimits(cpu=0.5, memory=256 * MIB)
    assert made.host_named("large").limits is None
    assert files(made.host_named("small").limits) == {
        "cpu.max": "50000 100000",
        "memory.max": str(256 * MIB),
        "memory.swap.max": "0",
    }
    assert files(HostLimits(cpu=2.0)) == {"cpu.max": "200000 100000"}
    assert properties(HostLimits(cpu=0.125, memory=MIB * 16)) == [
        "CPUQuota=12.50%",
        "MemoryMax=16777216",
        "MemorySwapMax=0",
    ]


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ("{ cpu = 0 }", "0.01"),
        ("{ cpu = '1' }", "number"),
        ("{ memory = '1MiB' }", "16777216"),
        ("{ memory = 'much' }", "is no size"),
        ("{}", "limits nothing"),
        ("{ disk = 1 }", "known are cpu, memory"),
    ],
)
def test_what_is_no_limit(limits, said):
    _, (problem, *more) = study(limits)
    assert problem.line == 6
    assert said in f"{problem.what}; {problem.remedy}"
    assert more == []


def test_ssh_host_size_is_ignored_with_note():
    ssh = "ssh = { address = '10.0.0.4' }"
    made, problems = study("{ cpu = 1 }", place=ssh, other=ssh.replace("4", "5"))
    assert problems == []
    assert [n for n in notes(made) if "small" in n and "passed over" in n]
    Groups("0" * 32).make(made)  # And makes nothing.
    made, _ = study("{ cpu = 1 }")
    assert not [n for n in notes(made) if "passed over" in n]


V1 = """\
tmpfs /sys/fs/cgroup tmpfs rw 0 0
cgroup2 {0}/unified cgroup2 rw 0 0
cgroup {0}/cpu,cpuacct cgroup rw,nosuid,cpu,cpuacct 0 0
cgroup {0}/memory cgroup rw,memory 0 0
"""


def test_where_we_are_in_the_control_groups(tmp_path):
    own = "5:freezer:/x\n4:memory:/outside/of/this/container\n3:cpu,cpuacct:/user\n0::/y\n"
    unified = tmp_path / "unified"
    assert read_membership(V1.format(tmp_path), own) == Membership(unified, unified)
    (unified / "y").mkdir(parents=True)
    assert read_membership(V1.format(tmp_path), own) == Membership(unified, unified / "y")
    assert list(Membership(unified, unified / "y").upwards()) == [unified / "y", unified]
    assert read_membership(V1.format(tmp_path), "0::/../outside\n") == Membership(unified, unified)
    # Version 1 alone.
    assert read_membership("cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n", own) is None
    assert read_membership(V1.format(tmp_path), "3:cpu:/\n") is None


@pytest.fixture
def tree(tmp_path):
    """A tree as the kernel shows it: our own group, and the root above it."""
    own = tmp_path / "own"
    own.mkdir()
    for group, controllers in ((own, "memory pids"), (tmp_path, "cpu memory pids")):
        (group / "cgroup.controllers").write_text(f"{controllers}\n")
        (group / "cgroup.subtree_control").write_text("memory\n")
    return Membership(tmp_path, own)


def test_the_nearest_group_that_can_is_the_parent(tree):
    memory, both = HostLimits(memory=64 * MIB), HostLimits(cpu=0.5, memory=64 * MIB)
    enter = Tree(tree).make("0123456789", "small", memory)
    made = tree.group / "fathom_01234567_small"
    assert (made / "memory.max").read_text() == str(64 * MIB)
    assert enter(["a  b"])[-2:] == ["sh", "a  b"]
    assert f"{made}/cgroup.procs" in enter([])[2]
    Tree(tree).make("0123456789", "small", both)
    assert (tree.mount / "fathom_01234567_small" / "cpu.max").read_text() == "50000 100000"
    # Its children could have none; now they can.
    assert (tree.mount / "cgroup.subtree_control").read_text() == "+cpu +memory"
    # What this kernel does not have is not written.
    assert not (made / "memory.swap.max").exists()


def refused(place, monkeypatch, limits="{ cpu = 0.5, memory = '64MiB' }"):
    monkeypatch.setattr(cgroups, "own_membership", lambda: place)
    monkeypatch.setattr(slices, "systemd_runs", lambda: False)
    made, _ = study(limits)
    with pytest.raises(FathometerError) as error:
        Groups("0" * 32).make(made)
    said = str(error.value)
    assert said.startswith('cannot limit a host: host "small" cannot be held to its size: ')
    assert "leave its `limits` out" in said
    return said


def test_unsupported_limit_has_a_remedy(tree, monkeypatch):
    said = refused(None, monkeypatch)
    assert "has no control groups of version 2; boot with" in said
    for group in tree.upwards():
        (group / "cgroup.controllers").write_text("hugetlb\n")
    said = refused(tree, monkeypatch)
    assert "version 2 cannot limit cpu and memory here (version 1 may have taken them)" in said
    assert "systemd.unified_cgroup_hierarchy=1" in said
    (tree.mount / "cgroup.controllers").write_text("cpu memory\n")
    # As the kernel answers for a group that may not be written to; root's writes are refused by nobody.
    control = tree.mount / "cgroup.subtree_control"
    control.unlink()
    control.mkdir()
    said = refused(tree, monkeypatch)
    assert "cgroup.subtree_control: Is a directory; run the study as root" in said


def test_group_without_effect_is_found_out(tree, monkeypatch):
    """The files can be written, and no process is held: this tree is none of the kernel's."""
    said = refused(tree, monkeypatch, "{ memory = '64MiB' }")
    assert "cannot limit memory here" in said or "no control groups of version 2" in said


@pytest.fixture
def groups():
    need_control_groups()
    made = Groups(f"{os.getpid():08x}")
    yield made
    made.remove()


def left(groups):
    place = cgroups.own_membership()
    return [g for p in place.upwards() for g in p.rglob(f"{slices.prefix(groups._id)}*")]


def test_limited_process_is_throttled_and_bounded(groups):
    made, _ = study("{ cpu = 0.1, memory = '64MiB' }")
    groups.make(made)
    group = left(groups)[0]
    small, large = made.host
    assert groups.inside(large, ["true"]) == ["true"]
    busy = "import time\nwhile time.process_time() < 0.1: pass"
    subprocess.run(groups.inside(small, [sys.executable, "-c", busy]), check=True)
    # By the kernel's count of periods in which the group had used up its share.
    counted = dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())
    assert int(counted["nr_throttled"]) >= 1
    greedy = [sys.executable, "-c", "print(len(bytearray(b'x' * (256 << 20))))"]
    assert subprocess.run(greedy, check=False, capture_output=True).returncode == 0
    # The kernel ends what needs more memory than its group has, or its malloc fails.
    assert subprocess.run(groups.inside(small, greedy), check=False, capture_output=True).returncode != 0
    # Words stay words.
    said = subprocess.run(
        groups.inside(small, ["echo", "a  b", "$HOME"]), capture_output=True, text=True, check=True
    )
    assert said.stdout == "a  b $HOME\n"
    groups.remove()
    assert left(groups) == []


def test_what_a_crash_left_is_taken_away(groups):
    made, _ = study("{ cpu = 1 }")
    groups.make(made)
    assert left(groups)
    cgroups.remove_left(groups._id)
    assert left(groups) == []


SYSTEMD = """\
#!/bin/sh
echo "${0##*/} $*" >>"$LOG"
[ "${0##*/} $1" != "systemctl $REFUSES" ] || { echo "Failed to connect to bus" >&2; exit 1; }
case $1 in
--*) while [ "$1" != -- ]; do shift; done; shift; exec "$@" ;;
set-property) mkdir -p "$CONTROL/$3.d" ;;
revert) rmdir "$CONTROL/$2.d" ;;
esac
"""


@pytest.fixture
def systemd(tmp_path, monkeypatch):
    """What stands for systemd's two programs: it takes what it is told, and writes it down. That systemd 252
    takes these very words was tried by hand. No test starts a systemd: it tidies up the machine's files.
    """
    programs, control, log = tmp_path / "bin", tmp_path / "control", tmp_path / "log"
    for directory in (programs, control):
        directory.mkdir()
    for name in ("systemctl", "systemd-run"):
        (programs / name).write_text(SYSTEMD)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    for name, value in (("CONTROL", control), ("LOG", log), ("REFUSES", "nothing")):
        monkeypatch.setenv(name, str(value))
    monkeypatch.setattr(slices, "BOOTED", tmp_path)
    monkeypatch.setattr(slices, "_control", lambda: control)
    monkeypatch.setattr(slices, "_whose", list)
    return log


def test_systemd_hosts_become_slices(systemd):
    assert slices.systemd_runs()
    enter = slices.make("0123456789", "zone.1-client", HostLimits(cpu=0.25, memory=64 * MIB))
    # A unit's name has no dash, which would be a level, and no sign that must be escaped.
    name = enter([])[-2].removeprefix("--slice=")
    assert re.fullmatch(r"fathom_01234567_[0-9a-f]{8}\.slice", name)
    said = subprocess.run(enter(["echo", "a  b", "$HOME"]), capture_output=True, text=True, check=True)
    assert said.stdout == "a  b $HOME\n"
    assert subprocess.run(enter(["sh", "-c", "exit 7"]), check=False).returncode == 7
    slices.remove_left("4567")
    slices.remove_left("0123456789")
    slices.remove_left("0123456789")
    lines = systemd.read_text().splitlines()
    assert lines[0] == (
        f"systemctl set-property --runtime {name} CPUQuota=25.00% MemoryMax={64 * MIB} MemorySwapMax=0"
    )
    assert lines[1] == f"systemd-run --scope --quiet --collect --slice={name} -- echo a  b $HOME"
    assert lines[3:] == [f"systemctl stop {name}", f"systemctl revert {name}"]


def test_unenforced_systemd_limit_is_refused(systemd):
    """Where version 1 has the controllers systemd takes every limit, and holds nobody to it."""
    made, _ = study("{ cpu = 0.5 }")
    with pytest.raises(FathometerError, match=r'host "small" cannot be held to its size: .*version 2'):
        Groups("0123456789").make(made)
    # And nothing of it stays.
    assert systemd.read_text().splitlines()[-1].startswith("systemctl revert fathom_01234567_")


def test_refusal_of_systemd_is_reported(systemd, monkeypatch):
    monkeypatch.setenv("REFUSES", "set-property")
    made, _ = study("{ cpu = 0.5 }")
    with pytest.raises(FathometerError, match="systemd: Failed to connect to bus; run the study as root, or"):
        Groups("0123456789").make(made)
    assert "revert" not in systemd.read_text()
