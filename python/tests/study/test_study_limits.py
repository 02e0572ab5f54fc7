"""A host's size: control groups, made, entered and taken away."""

import os
import subprocess
import sys

import pytest

from fathometer.errors import FathometerError
from fathometer.study import cgroups
from fathometer.study.cgroups import Groups, Mounts, files, read_mounts
from fathometer.study.model import HostLimits
from fathometer.study.read import notes, parse

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
    second, first = files(made.host_named("small").limits)
    assert second == {"cpu.max": "50000 100000", "memory.max": str(256 * MIB), "memory.swap.max": "0"}
    assert first["cpu"] == {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "50000"}
    assert first["memory"]["memory.limit_in_bytes"] == str(256 * MIB)
    assert first["memory"]["memory.memsw.limit_in_bytes"] == str(256 * MIB)
    assert files(HostLimits(cpu=2.0)) == (
        {"cpu.max": "200000 100000"},
        {"cpu": {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "200000"}},
    )


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


def test_a_host_over_ssh_has_its_own_size_and_that_is_said():
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
cgroup {0}/freezer cgroup rw,freezer 0 0
"""


def test_where_we_are_in_the_control_groups(tmp_path):
    (tmp_path / "cpu,cpuacct" / "user").mkdir(parents=True)
    own = "5:freezer:/x\n4:memory:/outside/of/this/container\n3:cpu,cpuacct:/user\n1:name=systemd:/\n0::/y\n"
    found = read_mounts(V1.format(tmp_path), own)
    assert found.first == {"cpu": tmp_path / "cpu,cpuacct" / "user", "memory": tmp_path / "memory"}
    assert found.second == (tmp_path / "unified", tmp_path / "unified")
    assert read_mounts("proc /proc proc rw 0 0\n", "0::/\n") == Mounts(None, {})
    (tmp_path / "user.slice" / "mine").mkdir(parents=True)
    found = read_mounts(f"cgroup2 {tmp_path} cgroup2 rw 0 0\n", "0::/user.slice/mine\n")
    assert found == Mounts((tmp_path, tmp_path / "user.slice" / "mine"), {})


def test_a_machine_without_control_groups_says_so(monkeypatch):
    monkeypatch.setattr(cgroups, "_mounts", lambda: Mounts(None, {}))
    made, _ = study("{ cpu = 0.5 }")
    with pytest.raises(FathometerError, match=r"limit a host.*small.*cpu.*leave its `limits` out"):
        Groups("0" * 32).make(made)


@pytest.fixture
def groups():
    if os.geteuid() != 0:
        why = "control groups need root"
        assert os.environ.get("CI") != "true", f"CI must run this test: {why}"
        pytest.skip(why)
    made = Groups(f"{os.getpid():08x}")
    yield made
    made.remove()


def left(groups):
    mounts = cgroups._mounts()
    places = [*mounts.first.values(), *cgroups._ancestors(mounts)]
    return [g for p in places for g in p.glob(f"fathom-{groups._id}-*")]


BUSY = """\
import time
began, used = time.monotonic(), time.process_time()
while time.monotonic() - began < 1.5:
    pass
print((time.process_time() - used) / (time.monotonic() - began))
"""


def test_a_limited_process_gets_its_share_and_no_more(groups):
    made, _ = study("{ cpu = 0.1, memory = '64MiB' }")
    groups.make(made)
    assert left(groups)
    small, large = made.host
    assert groups.inside(large, ["true"]) == ["true"]
    busy = groups.inside(small, [sys.executable, "-c", BUSY])
    share = float(subprocess.run(busy, check=True, capture_output=True, text=True).stdout)
    assert share < 0.3, share
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
