"""What a study over SSH is made of, without SSH: binaries by their headers, errors by ssh's words."""

import os
import shlex
import struct
import subprocess
import tempfile
from importlib import resources
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fathometer.dataset import open_recording
from fathometer.errors import FathometerError
from fathometer.study.deadlines import MARGIN_NS, deadline_ns, round_deadline_ns
from fathometer.study.model import SshHost
from fathometer.study.plan import plan
from fathometer.study.read import notes, parse
from fathometer.study.ssh.binary import binaries, binary_for, read_binary
from fathometer.study.ssh.connection import options, socket_name
from fathometer.study.ssh.mirror import Mirror, read_look, read_sums
from fathometer.study.ssh.place import ending
from fathometer.study.ssh.trouble import Lost, explain

SCRIPT = (resources.files("fathometer.study.ssh") / "host.sh").read_text()


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
def test_ssh_s_words_become_one_line_that_says_how_to_mend_it(said, what, remedy, lost):
    error = explain("zone-1", HOST, said)
    line = str(error)
    assert line.startswith('cannot reach a host: host "zone-1" (azure@10.0.0.4 port 2222): ')
    assert what in line
    assert remedy in line
    assert "\n" not in line
    # What may be mended by waiting is tried again; what a person must mend is not.
    assert isinstance(error, Lost) is lost


def test_no_host_is_taken_unseen_and_what_is_not_said_is_left_to_the_configuration():
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


def test_a_shared_connection_is_one_host_s_whatever_its_turn():
    names = ["zone-1", "zone-2", "zone-10"]
    assert len({socket_name(n) for n in names}) == 3
    assert [socket_name(n) for n in reversed(names)] == [socket_name(n) for n in names][::-1]


def test_how_a_job_ended():
    assert ending("137") == "killed by signal 9"
    assert ending("3") == "exit code 3"
    assert ending("124") == "its time limit ran out"
    assert "restarted" in ending("lost")


def study(probe, top="", scenarios=("",)):
    text = f"format = 1\nname = 's'\n{top}\n[[host]]\nname = 'here'\nlocal = true\n"
    text += "[[host]]\nname = 'vm'\nssh = { address = '10.0.0.4' }\n"
    for number, more in enumerate(scenarios):
        text += f"[[scenario]]\nlabel = 's{number}'\nfrom = 'vm'\nto = 'here'\n{more}\n"
    return parse(f"{text}[[probe]]\n{probe}\n")


def test_this_machine_is_reached_from_others_only_under_an_address():
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


class There:
    """A host's home in a directory, on which ``host.sh`` is run by this machine's `sh`."""

    def __init__(self, home):
        self.home = home
        self.job = home / ".fathom/studies/0123/vm/run"
        (self.job / "rec").mkdir(parents=True)
        (self.job / "pid").write_text("1\n")
        self.rec = self.job / "rec"
        self.segment = 0
        self.open = self.rec / "samples-00000.arrows"
        self.open.touch()
        (self.rec / "recording.json").write_text("{}")
        (self.rec / ".lock").touch()

    def call(self, *words, study="0123"):
        script = f"{SCRIPT}\n{shlex.join(['main', study, 'vm', *words])} </dev/null\n"
        done = subprocess.run(
            ["sh"],
            input=script.encode(),
            env={**os.environ, "HOME": str(self.home)},
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        noise, _, answer = done.stdout.partition(b"\nfathom-host 1\n")
        assert noise == b""
        return answer

    def append(self, data):
        with self.open.open("ab") as file:
            file.write(data)
        with (self.rec / "events.jsonl").open("ab") as file:
            file.write(data[:7])

    def close(self, data):
        """As the recorder does: the closed segment at once, then the open one goes, and another begins."""
        part = self.rec / f"samples-{self.segment:05d}.parquet.tmp"
        part.write_bytes(data * 3)
        part.rename(part.with_suffix(""))
        self.open.unlink()
        self.segment += 1
        self.open = self.rec / f"samples-{self.segment:05d}.arrows"
        self.open.write_bytes(b"")

    def describe(self, data):
        part = self.rec / "recording.json.tmp"
        part.write_bytes(data)
        part.rename(self.rec / "recording.json")


STEP = st.tuples(
    st.sampled_from(["append", "close", "describe", "look"]),
    st.binary(min_size=0, max_size=40),
    st.integers(1, 90),
)


@settings(max_examples=12)
@given(steps=st.lists(STEP, max_size=10))
def test_a_mirror_has_what_there_is_whatever_happened_between_the_looks(steps):
    with tempfile.TemporaryDirectory() as directory:
        there, mirror = There(Path(directory) / "there"), Mirror(Path(directory) / "here")
        for what, data, budget in steps:
            if what == "look":
                look = read_look(there.call("look", "run", str(budget), *mirror.wants()))
                assert sum(len(p.data) for p in look.pieces) <= budget
                mirror.take(look)
            else:
                getattr(there, what)(data)
            # What is here of a file that grows is what its begin is there.
            for path in mirror.directory.glob("*.arrows"):
                if (there.rec / path.name).exists():
                    assert (there.rec / path.name).read_bytes().startswith(path.read_bytes())
        (there.job / "code").write_text("0\n")
        for _ in range(40):
            look = read_look(there.call("look", "run", "100", *mirror.wants()))
            assert look.state == "0"
            if not mirror.take(look):
                break
        here = {p.name: p.read_bytes() for p in mirror.directory.iterdir() if p.suffix != ".part"}
        assert here == {p.name: p.read_bytes() for p in there.rec.iterdir() if p.name != ".lock"}
        sums = read_sums(there.call("sums", "run"))
        assert mirror.differences(sums) is None
        (mirror.directory / "recording.json").write_bytes(b"another")
        assert mirror.differences(sums) == "recording.json is not here as it is there"
        (mirror.directory / "recording.json").unlink()
        assert mirror.differences(sums) == "recording.json did not arrive"


def test_a_cut_answer_is_not_taken_for_a_whole_one(tmp_path):
    there, mirror = There(tmp_path / "there"), Mirror(tmp_path / "here")
    there.append(b"0123456789")
    mirror.take(read_look(there.call("look", "run", "1000")))
    answer = there.call("look", "run", "1000", *mirror.wants())
    assert any(p.data == b"0123456789" for p in read_look(answer).pieces)
    for cut in (answer[:-1], answer[: answer.index(b"piece") + 7]):
        with pytest.raises((ValueError, IndexError)):
            read_look(cut)


def test_a_mirror_that_is_written_is_a_recording_that_runs(tmp_path):
    mirror = Mirror(tmp_path / "here")
    with mirror.being_written():
        assert (tmp_path / "here" / ".lock").exists()
        with pytest.raises(FathometerError, match=r"has no recording\.json"):
            open_recording(tmp_path / "here")
    assert list((tmp_path / "here").iterdir()) == []


def test_a_host_s_words(tmp_path):
    """The script by itself: jobs begin once, end, are told of and are taken away."""
    home = tmp_path / "home"
    there = There(home)
    lines = there.call("hello").decode().splitlines()
    assert lines[:2] == [os.uname().sysname, os.uname().machine]
    assert lines[2] == str(home)
    assert lines[4:] == ["lost run"]  # Process 1 is not of this study.
    marker = tmp_path / "began"
    program = f"echo x >>{shlex.quote(str(marker))}; echo out; echo 'it''s' >&2; exit 3"
    for _ in range(2):
        there.call("start", "job", "60", "sh", "-c", program)
    while read_look(there.call("look", "job", "0")).state == "running":
        pass
    assert read_look(there.call("look", "job", "0")).state == "3"
    assert marker.read_text() == "x\n"
    said = read_look(b"-\n" + there.call("said", "job"))
    assert {p.file.name: p.data for p in said.pieces} == {"out": b"out\n", "err": b"its\n"}
    there.call("start", "long", "60", "sleep", "1000")
    assert there.call("look", "long", "0") == b"running\n"
    # Another study's job is another's, though it has the same name.
    there.call("hello", study="4567")
    there.call("start", "long", "60", "sleep", "1000", study="4567")
    there.call("drop", "long", study="4567")
    there.call("clear", study="4567")
    assert there.call("look", "long", "0") == b"running\n"
    assert int(there.call("clear")) >= 2  # The supervisor, and what it supervises.
    assert not (home / ".fathom" / "studies").exists()


def test_the_script_is_posix_sh_that_dash_and_bash_read(tmp_path):
    path = tmp_path / "host.sh"
    path.write_text(SCRIPT)
    for shell in ("dash", "bash"):
        subprocess.run([shell, "-n", str(path)], check=True)
