"""Studies over real sshd in trouble, between four machines in namespaces.

`test_study_over_ssh` has one without trouble.
"""

import os
import re
import shutil
import signal

import pytest

from fathometer.dataset import open_recording, open_recordings
from fathometer.study.journal import finished
from support.lab import LONG, crash, ended
from support.machines import until

pytestmark = pytest.mark.acceptance


def test_finished_study_reaches_no_host(lab):
    lab.write([("a", "b"), ("b", "c"), ("here", "a")], repetitions=2)
    lab.run()
    for host in lab.hosts.values():
        (host.home / ".ssh" / "authorized_keys").write_text("")
    before = lab.kinds().count("run.started")
    lab.run()
    assert lab.kinds().count("run.started") == before == 6


def test_jump_host_and_config_alias_work(lab):
    """The client has no route to `b`'s address; `a` has one."""
    machines = lab.machines
    config = machines.client.home / ".ssh" / "config"
    config.write_text(f"Host third\n  HostName {machines.address['c']}\n  User root\n")
    key = machines.client.home / ".ssh" / "id_ed25519"
    jump = f"key = '{key}', jump = 'root@{machines.address['a']}'"
    ssh = {
        "b": f"address = '{machines.beyond['b']}', user = 'root', {jump}",
        "c": "address = 'third'",
    }
    try:
        lab.write([("b", "c"), ("c", "b")], ssh=ssh, top="order = 'side-by-side'")
        lab.run()
        assert lab.recording("b-c").manifest.reflector["resolved"] == f"{machines.address['c']}:7007"
        assert lab.recording("c-b").manifest.reflector["resolved"] == f"{machines.beyond['b']}:7007"
        lab.assert_nothing_left()
    finally:
        config.unlink()


def _forget(lab):
    known = lab.machines.client.home / ".ssh" / "known_hosts"
    known.write_text("".join(row for row in known.read_text().splitlines(True) if ".12 " not in row))


def _change(lab):
    known = lab.machines.client.home / ".ssh" / "known_hosts"
    rows = [row.split(" ", 1) for row in known.read_text().splitlines(True)]
    of_a = next(rest for where, rest in rows if where == lab.machines.address["a"])
    known.write_text("".join(f"{where} {of_a if '.12' in where else rest}" for where, rest in rows))


def _lock_out(lab):
    (lab.hosts["b"].home / ".ssh" / "authorized_keys").write_text("")


def _fill(lab):
    where = lab.hosts["b"].home / ".fathom"
    lab.hosts["b"].run(f"mkdir -p {where}; mount -t tmpfs -o size=300k tmpfs {where}")


TROUBLES = {
    "host key unknown": (_forget, 'host "b" (root@10.77.0.12): its host key', "`ssh-keyscan 10.77.0.12 >>"),
    "host key changed": (_change, "its host key is not the one that is known", "`ssh-keygen -R 10.77.0.12`"),
    "wrong key": (_lock_out, "root@10.77.0.12 refused every key", "`ssh-copy-id root@10.77.0.12`"),
    "disk full": (_fill, 'host "b": no room in', "make room there"),
    "refused": (lambda lab: lab.hosts["b"].cut(), "it refuses the connection", "is sshd running there"),
}


@pytest.mark.parametrize("trouble", TROUBLES.values(), ids=TROUBLES)
def test_a_host_that_cannot_be_used(lab, trouble):
    spoil, what, remedy = trouble
    known = lab.machines.client.home / ".ssh" / "known_hosts"
    shutil.rmtree(lab.hosts["b"].home / ".fathom", ignore_errors=True)
    lab.write([("a", "b")])
    spoil(lab)
    before = known.read_text()
    try:
        said = lab.run(1).strip().splitlines()[-1]
    finally:
        if lab.hosts["b"].sshd.poll() is not None:
            lab.hosts["b"].serve()
    assert what in said
    assert remedy in said
    assert known.read_text() == before
    assert "run.started" not in lab.kinds()
    assert lab.hosts["a"].jobs(lab.study_id) == []
    if spoil is _forget:
        lab.machines.client.run("ssh-keyscan 10.77.0.12 >> ~/.ssh/known_hosts")
        lab.run()
        assert lab.recording("a-b").totals.samples == 40


def test_a_binary_for_another_machine(lab, tmp_path):
    raw = bytearray(lab.binary.read_bytes())
    ours, other = os.uname().machine, {62: (183, "aarch64"), 183: (62, "x86_64")}
    number, name = other[int.from_bytes(raw[18:20], "little")]
    raw[18:20] = number.to_bytes(2, "little")
    foreign = tmp_path / "foreign"
    foreign.write_bytes(raw)
    foreign.chmod(0o755)
    lab.write([("a", "b")])
    said = lab.run(1, binary=foreign)
    assert f"is a machine of {ours}, and {foreign} is for {name}" in said
    # It says that it is for this machine, and is not: a host finds out by trying.
    broken = tmp_path / "broken"
    broken.write_bytes(lab.binary.read_bytes()[:4096])
    said = lab.run(1, binary=broken)
    assert "does not run there" in said
    assert "make dist" in said
    lab.assert_nothing_left()


def test_a_host_that_runs_another_system(lab, tmp_path):
    fake = tmp_path / "uname"
    fake.write_text("#!/bin/sh\necho OpenBSD\n")
    fake.chmod(0o755)
    lab.hosts["b"].run(f"mount --bind {fake} $(command -v uname)")
    try:
        lab.write([("a", "b")])
        assert 'host "b" runs OpenBSD; hosts of a study run Linux' in lab.run(1)
    finally:
        lab.hosts["b"].run("umount $(command -v uname)")


def test_lost_ssh_does_not_interrupt_run(lab):
    lab.write([("a", "b")], LONG)
    process = lab.begin()
    recording_id = lab.growing("a-b")
    lab.hosts["a"].cut()
    assert lab.noted("ssh.lost")["host"] == "a"
    lab.hosts["a"].serve()
    ended(process, 0)
    assert lab.kinds().count("run.started") == 1
    assert lab.kinds().index("ssh.lost") < lab.kinds().index("ssh.back") < lab.kinds().index("run.finished")
    recording = lab.recording("a-b")
    assert recording.manifest.id == recording_id
    assert recording.totals.samples == 500
    assert len(recording.connections) == 1
    lab.assert_nothing_left()


def test_a_disk_that_fills_during_a_run(lab):
    studies = lab.hosts["a"].home / ".fathom" / "studies"
    lab.hosts["a"].run(f"mkdir -p {studies}; mount -t tmpfs -o size=160k tmpfs {studies}")
    lab.write([("a", "b"), ("b", "a")], "every = '1ms'\ncount = 2500")
    said = lab.run(1)
    (reason,) = lab.reasons()
    assert 'host "a"' in reason
    assert "No space left on device" in reason
    assert "1 of 2 runs failed" in said
    assert lab.recording("b-a").totals.samples == 2500


def test_killed_remote_probe_is_retried(lab):
    lab.write([("a", "b")], LONG)
    process = lab.begin()
    recording_id = lab.growing("a-b")
    (probe,) = lab.hosts["a"].jobs(lab.study_id, "probe")
    os.kill(probe, signal.SIGKILL)
    said = ended(process, 1)
    assert lab.reasons() == ['the probe on host "a" did not end by itself: killed by signal 9']
    assert "the same command tries them again" in said
    lab.assert_nothing_left()
    lab.run()
    assert lab.recording("a-b").manifest.id != recording_id
    assert lab.recording("a-b").totals.samples == 500


def test_killed_remote_reflector_fails_its_run(lab):
    """The next round has another reflector."""
    lab.write([("a", "b"), ("c", "a")], "every = '10ms'\ncount = 100", repetitions=2)
    process = lab.begin()
    lab.noted("run.started")
    (reflector,) = lab.hosts["b"].jobs(lab.study_id, "echo")
    os.kill(reflector, signal.SIGKILL)
    ended(process, 1)
    assert lab.reasons() == ['the reflector on "b" has ended (killed by signal 9)']
    assert lab.recording("a-b", "02").totals.samples == 100
    lab.assert_nothing_left()


def test_ctrl_c_interrupts_and_study_resumes(lab):
    lab.write([("a", "b"), ("b", "c")], "every = '10ms'\ncount = 100", repetitions=2)
    process = lab.begin()
    lab.noted("run.finished")
    process.send_signal(signal.SIGINT)
    assert "the same command goes on" in ended(process, 1)
    lab.assert_nothing_left()
    done = finished(lab.entries)
    assert 1 <= len(done) < 4
    ids = {d: open_recording(lab.output / d).manifest.id for d in done}
    lab.run()
    assert {d: open_recording(lab.output / d).manifest.id for d in done} == ids
    finishes = [e["run"] for e in lab.entries if e["kind"] == "run.finished"]
    assert len(finishes) == len(set(finishes)) == 4


def test_stop_after_kill_9_of_the_runner(lab):
    lab.write([("a", "b")], "every = '10ms'\nfor = '10m'")
    process = lab.begin()
    lab.growing("a-b")
    crash(process)
    assert lab.hosts["a"].jobs(lab.study_id, "probe")
    assert lab.hosts["b"].jobs(lab.study_id, "echo")
    said = lab.stop()
    assert "what was left on host a" in said
    lab.assert_nothing_left()
    assert "nothing was left" in lab.stop()


def test_reflector_of_killed_study_is_identified(lab):
    lab.write([("a", "b")], "every = '10ms'\nfor = '10m'")
    process = lab.begin()
    lab.growing("a-b")
    crash(process)
    left, first_id = lab.output, lab.study_id
    lab.output = left.with_name("another")
    lab.write([("a", "b")])
    said = lab.run(1)
    assert f"it is the reflector of another study of ours, {first_id}" in said
    # What it says to type.
    lab.machines.client.run(re.search(r"or `(ssh [^`]* kill \d+)`", said)[1])
    until(lambda: not lab.hosts["b"].jobs(first_id, "echo"), "its end")
    lab.run()
    assert lab.recording("a-b").totals.samples == 40
    lab.output = left
    lab.stop()
    lab.assert_nothing_left()


def test_stop_names_unreachable_host(lab):
    lab.write([("a", "b")], "every = '10ms'\nfor = '10m'")
    process = lab.begin()
    lab.growing("a-b")
    crash(process)
    lab.hosts["a"].cut()
    said = ended(lab.popen("stop", lab.output), 1)
    assert 'host "a" (root@10.77.0.11): it refuses the connection' in said
    assert lab.hosts["b"].jobs(lab.study_id) == []
    lab.hosts["a"].serve()
    lab.stop()
    lab.assert_nothing_left()


def test_run_without_runner_is_picked_up(lab):
    lab.write([("a", "b"), ("b", "a")], LONG)
    process = lab.begin()
    label = until(lambda: [e["run"] for e in lab.entries if e["kind"] == "run.started"], "a run")[0]
    label = label.split("/")[0].removeprefix("label=")
    recording_id = lab.growing(label)
    crash(process)
    lab.run()
    assert lab.recording(label).manifest.id == recording_id
    assert lab.recording(label).totals.samples == 500
    assert len(list(open_recordings([lab.output]))) == 2
    lab.assert_nothing_left()
