"""What a study over SSH is made of, without SSH: binaries by their headers, errors by ssh's words."""

import json
import os
import struct
import subprocess
from pathlib import Path

import pytest

from fathometer.errors import FathometerError
from fathometer.study.deadlines import MARGIN_NS, deadline_ns, most_bytes, round_deadline_ns
from fathometer.study.model import SshHost
from fathometer.study.plan import plan
from fathometer.study.read import notes, parse
from fathometer.study.ssh import shell
from fathometer.study.ssh.answers import (
    BadAnswer,
    State,
    read_greeting,
    shell_answer,
)
from fathometer.study.ssh.binary import binaries, binary_for, read_binary
from fathometer.study.ssh.connection import options, socket_name
from fathometer.study.ssh.holders import Holder, read_holders, remedy
from fathometer.study.ssh.trouble import Lost, explain


def elf(path, machine, *, wide=True, order="<", headers=(1, 2)):
    """A file with an ELF header and program headers of these types (System V ABI)."""
    ident = b"\x7fELF" + bytes([2 if wide else 1, 1 if order == "<" else 2, 1]) + bytes(9)
    size = 64 if wide else 52
    words = "QQQ" if wide else "III"
    head = struct.pack(
        f"{order}HHI{words}IHHHHHH", 2, machine, 1, 0, size, 0, 0, size, 56, len(headers), 0, 0, 0
    )
    raw = ident + head + b"".join(struct.pack(f"{order}I52x", kind) for kind in headers)
    path.write_bytes(raw.ljust(128, b"\0"))
    return path


def test_a_binary_is_known_by_its_header(tmp_path):
    for machine, name in ((62, "x86_64"), (183, "aarch64"), (243, "riscv64")):
        assert read_binary(elf(tmp_path / "f", machine)).machine == name
    assert read_binary(elf(tmp_path / "f", 40, wide=False)).machine == "armv7l"
    assert read_binary(elf(tmp_path / "f", 22, order=">")).machine == "s390x"
    assert read_binary(elf(tmp_path / "f", 9999)).machine == "machine 9999"
    assert read_binary(elf(tmp_path / "f", 62)).static
    assert not read_binary(elf(tmp_path / "f", 62, headers=(6, 3, 1))).static
    # One that every machine has, and that needs its loader.
    assert read_binary(Path("/bin/sh").resolve()).machine == os.uname().machine
    assert not read_binary(Path("/bin/sh").resolve()).static


def test_which_binary_a_host_gets(tmp_path):
    x86, arm = elf(tmp_path / "x86", 62), elf(tmp_path / "arm", 183)
    dynamic = elf(tmp_path / "dynamic", 62, headers=(3,))
    both = binaries([x86, arm], dynamic)
    assert binary_for("a", "x86_64", both).path == x86
    assert binary_for("a", "aarch64", both).path == arm
    assert binary_for("a", "x86_64", binaries([], x86)).path == x86
    assert binary_for("a", "x86_64", binaries([dynamic], x86)).path == dynamic
    with pytest.raises(FathometerError, match=r"is not static.*--remote-binary.*make dist"):
        binaries([], dynamic)
    with pytest.raises(
        FathometerError, match=r'"a" is a machine of riscv64, and \S+x86 is for x86_64, \S+arm is'
    ):
        binary_for("a", "riscv64", both)
    with pytest.raises(FathometerError, match="are both for x86_64"):
        binaries([x86, dynamic], arm)
    text = tmp_path / "text"
    text.write_text("#!/bin/sh\n" * 20)
    for path, what in ((text, "is no Linux program"), (tmp_path / "none", "No such file")):
        with pytest.raises(FathometerError, match=what):
            binaries([path], x86)
    text.write_bytes(x86.read_bytes()[:70])
    with pytest.raises(FathometerError, match="is cut short"):
        read_binary(text)


HOST = SshHost(address="10.0.0.4", user="azure", key="/keys/one", port=2222)
UNKNOWN = "No ED25519 host key is known for [10.0.0.4]:2222 and you have requested strict checking.\r\n"
CHANGED = "Host key for [10.0.0.4]:2222 has changed and you have requested strict checking.\r\n"
FAILED = "Host key verification failed.\r\n"
SAID = [
    (
        UNKNOWN + FAILED,
        "its host key (ED25519, of [10.0.0.4]:2222) is not known",
        "ssh-keyscan -p 2222 10.0.0.4 >> ~/.ssh/known_hosts",
        False,
    ),
    (
        "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\r\n" + CHANGED + FAILED,
        "its host key is not the one that is known",
        "ssh-keygen -R '[10.0.0.4]:2222'",
        False,
    ),
    (
        "azure@10.0.0.4: Permission denied (publickey).",
        "azure@10.0.0.4 refused the key /keys/one (publickey)",
        "`ssh-copy-id -p 2222 -i /keys/one azure@10.0.0.4`",
        False,
    ),
    ("WARNING: UNPROTECTED PRIVATE KEY FILE!", "the key /keys/one can be read", "chmod 600 /keys/one", False),
    (
        "ssh: Could not resolve hostname vm.invalid: Name or service not known",
        "the name vm.invalid is not known",
        "check `address`",
        False,
    ),
    ("ssh: connect to host 10.0.0.4 port 2222: Connection refused", "it refuses", "is sshd running", True),
    ("ssh: connect to host 10.0.0.4 port 2222: No route to host", "no route", "is it up", True),
    ("ssh: connect to host 10.0.0.4 port 2222: Network is unreachable", "network", "routes", True),
    ("ssh: connect to host 10.0.0.4 port 2222: Connection timed out", "does not answer", "is it up", True),
    ("Timeout, server 10.0.0.4 not responding.", "no longer answers", "is it up", True),
    ("client_loop: send disconnect: Broken pipe", "was lost (client_loop", "try `ssh -p 2222", True),
    ("", "the connection was lost", "try", True),
]


@pytest.mark.parametrize(("said", "what", "remedy", "lost"), SAID)
def test_ssh_error_is_one_line_with_remedy(said, what, remedy, lost):
    error = explain("zone-1", HOST, said)
    line = str(error)
    assert line.startswith('cannot reach a host: host "zone-1" (azure@10.0.0.4 port 2222): ')
    assert what in line
    assert remedy in line
    assert "\n" not in line
    # What may be mended by waiting is tried again; what a person must mend is not.
    assert isinstance(error, Lost) is lost


def test_ssh_options_are_strict_and_minimal():
    words = " ".join(options(SshHost(address="vm"), Path("/run/c")))
    assert "StrictHostKeyChecking=yes" in words
    assert "BatchMode=yes" in words
    for left in ("-p", "-l", "-i", "ProxyCommand"):
        assert left not in words.split()
    words = options(SshHost(address="vm", port=22, user="u", key="/k%y", jump="j@gate:2200"), Path("/run/c"))
    assert words[-4:] == ["-p", "22", "-l", "u"]
    (proxy,) = [w for w in words if w.startswith("ProxyCommand=")]
    # The way through the jump host is as strict; `%` is ssh's own there.
    assert "StrictHostKeyChecking=yes" in proxy
    assert "-i /k%%y" in proxy
    assert proxy.endswith("-W '[%h]:%p' -- ssh://j@gate:2200")


def test_socket_name_depends_only_on_host():
    names = ["zone-1", "zone-2", "zone-10"]
    assert len({socket_name(n) for n in names}) == 3
    assert [socket_name(n) for n in reversed(names)] == [socket_name(n) for n in names][::-1]


def test_ssh_remedy_quotes_hostile_names():
    hostile = "No ED25519 host key is known for x;rm${IFS}-rf${IFS}~ and you have requested strict checking."
    changed = "Host key for x`reboot` has changed and you have requested strict checking."
    assert "rm$" not in str(explain("zone-1", HOST, hostile))
    assert "ssh-keygen -R 'x`reboot`'" in str(explain("zone-1", HOST, changed))
    endless = str(explain("zone-1", HOST, "\x1b]0;x\x07" * 100_000))
    assert len(endless) < 1000
    assert "\x1b" not in endless


def test_how_a_job_ended():
    assert str(State("killed", 9)) == "killed by signal 9"
    assert str(State("exited", 3)) == "exit code 3"
    assert str(State("expired")) == "its time limit ran out"
    assert "restarted" in str(State("lost"))


def study(probe, top="", scenarios=("",)):
    text = f"format = 1\nname = 's'\n{top}\n[[host]]\nname = 'here'\nlocal = true\n"
    text += "[[host]]\nname = 'vm'\nssh = { address = '10.0.0.4' }\n"
    for number, more in enumerate(scenarios):
        text += f"[[scenario]]\nlabel = 's{number}'\nfrom = 'vm'\nto = 'here'\n{more}\n"
    return parse(f"{text}[[probe]]\n{probe}\n")


def test_local_machine_needs_address_for_ssh_hosts():
    _, problems = study("count = 3")
    assert [p.what for p in problems] == ['"vm" cannot reach "here", which listens on loopback alone']
    found, problems = study("count = 3", scenarios=["address = '10.0.0.9'"])
    assert problems == []
    assert notes(found) == []


def test_how_long_something_may_linger():
    address = "address = '10.0.0.9'"
    found, _ = study("count = 30", "repetitions = 3", [address] * 2)
    runs = plan(found)
    assert deadline_ns(runs[0]) == runs[0].estimate_ns + MARGIN_NS
    assert round_deadline_ns(found, runs) == 2 * deadline_ns(runs[0])
    found, _ = study("count = 30", "repetitions = 3\norder = 'side-by-side'", [address] * 2)
    assert round_deadline_ns(found, plan(found)) == deadline_ns(runs[0])
    # Nobody knows a path's pace before: a second a sample.
    ping_pong = "mode = 'tcp-ping-pong'\ncount = 60000\n[limits]\nallow-high-rate = true"
    found, problems = study(ping_pong, "repetitions = 1", [address])
    assert problems == []
    assert deadline_ns(plan(found)[0]) == 60_000 * 10**9 + MARGIN_NS


def test_a_recording_has_so_much_at_most():
    address = "address = '10.0.0.9'"
    counted, _ = study("count = 30\nconnections = 2", scenarios=[address])
    assert most_bytes(plan(counted)[0]) == (64 << 20) + 60 * 512
    timed, _ = study("every = '10ms'\nfor = '1m'", scenarios=[address])
    assert most_bytes(plan(timed)[0]) == (64 << 20) + 6000 * 512


def run_shell(lines, home):
    done = subprocess.run(
        ["sh"], input=lines.encode(), env={**os.environ, "HOME": str(home)}, capture_output=True, check=False
    )
    return done, shell_answer(b"Welcome!\n" + done.stdout)


def test_shell_installs_only_matching_binary(tmp_path):
    sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # Of "abc" (FIPS 180-2, B.1).
    home = tmp_path / "a home"
    home.mkdir()
    greeting = read_greeting(run_shell(shell.greet(sha256), home)[1])
    assert (greeting.system, greeting.machine) == (os.uname().sysname, os.uname().machine)
    assert greeting.sha256 is None
    assert abs(greeting.free_kib - os.statvfs(home).f_bavail * os.statvfs(home).f_frsize // 1024) < 1 << 20
    part = shell.part_path("0123", "77")
    (home / part).write_bytes(b"ab")
    done, _ = run_shell(shell.install(part, sha256), home)
    assert done.returncode == 1
    assert b"what arrived is not what was sent" in done.stderr
    (home / part).write_bytes(b"abc")
    assert run_shell(shell.install(part, sha256), home)[0].returncode == 0
    assert (home / shell.binary_path(sha256)).stat().st_mode & 0o777 == 0o700
    assert read_greeting(run_shell(shell.greet(sha256), home)[1]).sha256 == sha256
    assert run_shell(shell.attempt(sha256), home)[0].returncode != 0
    for study in ("0123", "4567"):
        (home / shell.part_path(study, "1")).write_bytes(b"")
    run_shell(shell.forget("0123"), home)
    assert [p.name for p in (home / ".fathom/bin").glob(".part*")] == [".part-4567-1"]


def test_only_running_reflector_holds_its_port(tmp_path):
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    running = subprocess.Popen(["sleep", "60"])
    start = int(Path(f"/proc/{running.pid}/stat").read_text().rpartition(")")[2].split()[19])
    job = tmp_path / ".fathom/studies/0a1b/b-1/jobs/reflector-tcp-7007"
    job.mkdir(parents=True)

    def holders(port=7007, **other):
        identity = {"pid": running.pid, "start": start, "boot": boot, **other}
        (job / "program").write_text(json.dumps(identity))
        return read_holders(run_shell(shell.reflectors(port), tmp_path)[1])

    assert holders() == [Holder("0a1b", "b-1", "tcp", running.pid)]
    # The number is another process's by now; of an earlier start of the machine; of other ports.
    assert holders(start=start + 1) == holders(boot="b") == holders(port=707) == holders(port=17007) == []
    (job.parent / "reflector-udp-7007").mkdir()
    (holder,) = holders()
    assert [holder.is_in_the_way_of(p) for p in ("tcp", "tds", "throughput")] == [True] * 3
    assert [holder.is_in_the_way_of(p) for p in ("udp", "stamp")] == [False] * 2
    running.kill()
    os.waitid(os.P_PID, running.pid, os.WEXITED | os.WNOWAIT)
    # Not collected yet.
    assert holders() == []
    running.wait()
    assert holders() == []
    (job / "program").unlink()
    assert read_holders(run_shell(shell.reflectors(7007), tmp_path)[1]) == []


def test_port_holder_remedy_depends_on_study():
    ssh = SshHost(address="10.0.0.1", user="me", jump="j")
    other = remedy(Holder("0a1b", "b", "tcp", 7), "1c2d", ssh)
    assert "another study of ours, 0a1b (process 7 there)" in other
    assert other.endswith("or `ssh -J j me@10.0.0.1 kill 7`")
    same = remedy(Holder("1c2d", "b", "tcp", 7), "1c2d", ssh)
    assert 'host "b" of this study, which is the same machine' in same
    assert "kill" not in same


_JOB = ".fathom/studies/0/h/jobs/reflector-tcp-7"
_IDENTITY = '{"pid":1,"start":1,"boot":"boot"}'
_STAT = f"1 (a) S{' 1' * 40}"


@pytest.mark.parametrize(
    ("job", "word", "stat"),
    [
        (_JOB, "", ""),
        (_JOB.replace("/0/", "/../"), _IDENTITY, _STAT),
        (_JOB.replace("tcp", "$(x)"), _IDENTITY, _STAT),
        (_JOB, _IDENTITY, "1 (a) S 1"),
        (_JOB, _IDENTITY, _STAT.replace("1 1", "x 1")),
        (_JOB, "[]", _STAT),
        (_JOB, "{}", _STAT),
        (_JOB, "[" * 50_000, _STAT),
    ],
)
def test_invalid_holder_is_bad_answer(job, word, stat):
    assert [h.pid for h in read_holders(f"boot\n{_JOB}\n{_IDENTITY}\n{_STAT}\n".encode())] == [1]
    with pytest.raises(BadAnswer):
        read_holders(f"boot\n{job}\n{word}\n{stat}\n".encode())


@pytest.mark.parametrize(
    "said",
    [b"", b"Linux", b"Lin\x1b[2J\nx86_64\n", b"Linux\nx86_64\nno room\nnone\n", b"Linux\n" + b"1 " * 100_000],
)
def test_invalid_greeting_is_bad_answer(said):
    with pytest.raises(BadAnswer):
        read_greeting(said)


def test_shell_scripts_parse_in_dash_and_bash():
    for lines in (
        shell.greet("a" * 64),
        shell.install("part", "a" * 64),
        shell.attempt("a" * 64),
        shell.forget("0"),
        shell.reflectors(7007),
    ):
        for name in ("dash", "bash"):
            subprocess.run([name, "-n"], input=lines.encode(), check=True)
