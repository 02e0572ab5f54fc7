"""Machines for tests of SSH: each with its own network, processes, accounts and home, and a real sshd.

One is the client's; the others hang on its bridge. All of it is namespaces of this machine, and gone with the
process that made it. Needs root.
"""

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path

NET = "10.77.0"
BEYOND = "10.78.0"
"""A network in which the hosts are and the client is not."""
MARK = "FATHOMETER_STUDY="
PATIENCE_S = 30.0


def lacking():
    """What machines want and is not here; None: they can be made."""
    if os.geteuid() != 0:
        return "root, for namespaces,"
    paths = os.pathsep.join((os.environ["PATH"], "/usr/sbin", "/sbin"))
    for name in ("sshd", "ssh", "ssh-keygen", "ip", "nsenter", "unshare", "setpriv"):
        if shutil.which(name, path=paths) is None:
            return f"{name} (apt-get install openssh-server openssh-client iproute2 util-linux)"
    return None


def until(condition, what):
    """Waits for something that comes, and not for a time."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited {PATIENCE_S:.0f} s for {what}"
        time.sleep(0.01)
    return found


def shell(line, before=(), **more):
    """Runs a line of shell, and returns what it said; it must end well."""
    done = subprocess.run([*before, "sh", "-ec", line], capture_output=True, text=True, check=False, **more)
    assert done.returncode == 0, f"{line}: {done.stderr}"
    return done.stdout


def child_of(pid):
    """The one child of a process."""
    return until(lambda: Path(f"/proc/{pid}/task/{pid}/children").read_text().split(), f"a child of {pid}")[0]


class Machine:
    """Namespaces with an account `root` whose home is a directory of its own."""

    def __init__(self, directory, name):
        self.name = name
        self.directory = directory
        self.home = directory / "home"
        (self.home / ".ssh").mkdir(parents=True, mode=0o700)
        self.home.chmod(0o700)
        for file, field, value in (("passwd", 5, str(self.home)), ("shadow", 1, "*")):
            (directory / file).write_text(_with(Path("/etc") / file, field, value))
        prepare = f"echo {name} >/proc/sys/kernel/hostname; ip link set lo up; "
        prepare += "mount -t tmpfs tmpfs /run; mkdir /run/sshd; "
        for file in ("passwd", "shadow"):
            prepare += f"mount --bind {shlex.quote(str(directory / file))} /etc/{file}; "
        # What the first process waits for runs when the machine is ready: a list of processes has it.
        waits = "until read -r n </proc/$!/comm && [ $n = sleep ]; do :; done; echo ready; wait"
        rest = f"{prepare} sleep infinity & {waits}"
        # The first process of its namespace, whose end is everything's there.
        argv = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--mount", "--pid", "--uts", "--fork"]
        argv += ["--kill-child", "--mount-proc", "sh", "-ec", rest]
        self._made = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        assert self._made.stdout.readline() == "ready\n"
        self.pid = child_of(self._made.pid)
        self.sshd = None

    def enter(self, *argv):
        """A command line in this machine."""
        return ["nsenter", "--target", self.pid, "--net", "--mount", "--pid", "--uts", "--", *map(str, argv)]

    @property
    def environment(self):
        """Of a person who works there."""
        kept = {k: v for k, v in os.environ.items() if k != "SSH_AUTH_SOCK"}
        return {**kept, "HOME": str(self.home), "FATHOM_CLOUD": "off"}

    def popen(self, *argv, **more):
        """Starts a command there."""
        return subprocess.Popen(self.enter(*argv), env=self.environment, text=True, **more)

    def run(self, line):
        """Runs a line of shell there, and returns what it said."""
        return shell(line, self.enter(), env=self.environment)

    def serve(self):
        """Starts its sshd, and returns when that listens."""
        key, config = self.directory / "host_key", self.directory / "sshd_config"
        if not key.exists():
            shell(f"ssh-keygen -q -t ed25519 -N '' -f {shlex.quote(str(key))}")
            config.write_text(
                f"HostKey {key}\nPermitRootLogin prohibit-password\nPasswordAuthentication no\n"
                "KbdInteractiveAuthentication no\nUsePAM no\nPidFile none\nSetEnv FATHOM_CLOUD=off\n"
            )
        self.sshd = subprocess.Popen(
            self.enter("/usr/sbin/sshd", "-D", "-e", "-f", config), stderr=subprocess.PIPE, text=True
        )
        for line in self.sshd.stderr:
            if "Server listening on 0.0.0.0" in line:
                return
        raise AssertionError("sshd did not start")

    def cut(self):
        """Ends sshd and every session of it, as if the network were gone; what they started stays."""
        each = "for p in /proc/[0-9]*"
        self.run(f"{each}; do read -r name <$p/comm && [ $name = sshd ] && kill -9 ${{p#/proc/}}; done; :")
        self.sshd.wait()
        self.sshd.stderr.close()

    @property
    def public_key(self):
        return " ".join((self.directory / "host_key.pub").read_text().split()[:2])

    def marked(self, study_id=None):
        """Its processes that bear a study's mark (None: any study's), as a runner's own do, by our ids."""
        wanted = MARK if study_id is None else f"{MARK}{study_id}\0"
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            # Gone meanwhile.
            with contextlib.suppress(OSError):
                if (entry / "ns/pid").readlink() == Path(f"/proc/{self.pid}/ns/pid").readlink():
                    marks = f"\0{(entry / 'environ').read_text()}"
                    found += [int(entry.name)] if f"\0{wanted}" in marks else []
        return found

    def jobs(self, study_id=None, command=None):
        """The processes that run here for a study (None: any study), by our ids; with a command, the probes
        (``probe``) or the reflectors (``echo``) alone. They bear no mark: they are those of its binary.
        """
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (entry / "ns/pid").readlink() == Path(f"/proc/{self.pid}/ns/pid").readlink():
                    words = (entry / "cmdline").read_text().split("\0")
                    where = f"{(entry / 'cwd').readlink()} {words}"
                    ours = "/.fathom/bin/fathom-" in words[0] and (not study_id or study_id in where)
                    found += [int(entry.name)] if ours and command in (None, words[1]) else []
        return found

    def unmount(self):
        """Takes away what was mounted in its home."""
        self.run(f"while read -r _ m _; do case $m in {self.home}/*) umount $m;; esac; done </proc/mounts")

    def leave(self):
        """Ends what still runs here of any study."""
        for pid in (*self.marked(), *self.jobs()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.unmount()

    def end(self):
        self._made.send_signal(signal.SIGKILL)
        self._made.wait()
        self._made.stdout.close()
        if self.sshd is not None and not self.sshd.stderr.closed:
            self.sshd.wait()
            self.sshd.stderr.close()


def _with(path, field, value):
    rows = [line.split(":") for line in path.read_text().splitlines()]
    for row in rows:
        if row[0] == "root":
            row[field] = value
    return "".join(":".join(row) + "\n" for row in rows)


class Machines:
    """A client, and hosts with sshd that let its key in."""

    def __init__(self, directory, names=("a", "b", "c")):
        self.client = Machine(directory / "client", "client")
        self.hosts = {name: Machine(directory / name, name) for name in names}
        self.address = {name: f"{NET}.{11 + number}" for number, name in enumerate(names)}
        self.beyond = {name: f"{BEYOND}.{11 + number}" for number, name in enumerate(names)}
        shell(f"ssh-keygen -q -t ed25519 -N '' -f {shlex.quote(str(self.key))}")
        self.client.run(
            f"ip link add br0 type bridge && ip link set br0 up && ip addr add {NET}.1/24 dev br0"
        )
        for name, host in self.hosts.items():
            link = f"ip link add to-{name} type veth peer name eth0 netns {host.pid}"
            shell(f"nsenter --target {self.client.pid} --net {link}")
            self.client.run(f"ip link set to-{name} master br0 up")
            both = (
                f"ip addr add {self.address[name]}/24 dev eth0; ip addr add {self.beyond[name]}/24 dev eth0"
            )
            host.run(f"{both}; ip link set eth0 up")
            host.serve()
        self.reset()

    @property
    def key(self):
        return self.client.home / ".ssh" / "id_ed25519"

    def reset(self):
        """Keys as they were made, and homes but for the binaries in them."""
        for name, host in self.hosts.items():
            shell(f"rm -rf {shlex.quote(str(host.home / '.fathom' / 'studies'))}")
            (host.home / ".ssh" / "authorized_keys").write_text(self.key.with_suffix(".pub").read_text())
            assert host.sshd.poll() is None, f"sshd of {name} has ended"
        known = [
            f"{a[n]} {h.public_key}\n" for n, h in self.hosts.items() for a in (self.address, self.beyond)
        ]
        (self.client.home / ".ssh" / "known_hosts").write_text("".join(known))

    def end(self):
        for machine in (*self.hosts.values(), self.client):
            machine.end()
