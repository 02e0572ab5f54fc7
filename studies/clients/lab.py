"""What the comparison runs in: an emulated network, and PostgreSQL beside a reflector on one of its hosts."""

import contextlib
import functools
import json
import os
import pwd
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from datetime import datetime
from pathlib import Path

from left import Left, clear

ROOT = Path(__file__).resolve().parents[2]
# Of the package it needs nothing that is to be installed.
sys.path.append(str(ROOT / "python" / "src"))

from fathometer import durations  # noqa: E402

LEFT = ROOT / "target" / "clients" / "left"
"""Where runs write down what they make."""
SCENARIO = ROOT / "scenarios" / "database-clients.toml"
PORT = 5432
PATIENCE = 30
"""Seconds after which a program that should have started or ended counts as stuck."""


class UnusableError(Exception):
    """This machine or the command line cannot be used; the text says what to do."""


@functools.cache
def fathom():
    """The binary: what FATHOM names, else what was built here, else the one in the PATH."""
    built = [ROOT / "target" / kind / "fathom" for kind in ("release", "debug")]
    found = os.environ.get("FATHOM") or next((p for p in built if p.exists()), None) or shutil.which("fathom")
    if not found:
        raise UnusableError("fathom is missing; build it: make build")
    found = os.path.abspath(found)
    try:
        said = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
    except OSError as error:
        raise UnusableError(f"{found} cannot be run ({error.strerror}); name the binary in FATHOM") from None
    if not said.startswith("fathom "):
        raise UnusableError(f"{found} is not fathom; name the binary in FATHOM")
    return found


def postgres_programs():
    """The directory with initdb, postgres and pg_isready."""
    beside = shutil.which("pg_ctl")
    places = [*sorted(Path("/usr/lib/postgresql").glob("*/bin")), *([Path(beside).parent] if beside else [])]
    for place in places:
        if all((place / name).exists() for name in ("initdb", "postgres", "pg_isready")):
            return place
    raise UnusableError("PostgreSQL is missing; install it: sudo apt-get install postgresql-15")


def seconds(text):
    """A duration of a scenario."""
    ns = durations.read(text)
    if ns is None:
        raise UnusableError(f"{SCENARIO}: {text!r} is no duration")
    return float(ns) / 1e9


class Plan:
    """When what happens, in seconds since the fabric began, as the scenario says."""

    def __init__(self, scenario=SCENARIO):
        text = tomllib.loads(scenario.read_text())
        cuts = [event for event in text["event"] if event["kind"] == "link-cut"]
        (restart,) = text["simulate"]["restart"]
        (firewall,) = text["middlebox"]
        (address,) = [host["address"] for host in text["host"] if host["name"] == restart["host"]]
        self.idle_limit = seconds(firewall["idle"])
        self.cut, self.cut_lasts = seconds(cuts[0]["at"]), seconds(cuts[0]["duration"])
        self.restart, self.restart_lasts = seconds(restart["at"]), seconds(restart["for"])
        self.database, self.address = restart["host"], address


class Programs:
    """Processes that were started, and are ended by their id whatever happens."""

    def __init__(self, left):
        self.running = []
        self.left = left

    def start(self, command, **options):
        """A program, in a process group of its own: Ctrl-C is for us alone."""
        process = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.DEVNULL, start_new_session=True, **options
        )
        self.running.append(process)
        self.left.process(process.pid)
        return process

    def end(self):
        """Ends all that still run."""
        for process in self.running:
            if process.poll() is None:
                process.terminate()
        for process in self.running:
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class Lab:
    """A fabric that is up, with a database and a reflector on one of its hosts."""

    def __init__(self, directory, programs, left):
        self.directory, self.programs, self.left = directory, programs, left
        self.plan = Plan()
        # Not of the id alone: that may be another's by the time it is cleared.
        self.name = f"database-clients-{os.getpid()}-{secrets.token_hex(3)}"
        self.began = 0.0
        self.postgres = postgres_programs()
        self.user = next(
            (u for u in ("postgres", "nobody") if u in {p.pw_name for p in pwd.getpwall()}), None
        )
        if self.user is None:
            raise UnusableError("PostgreSQL does not run as root, and there is no user postgres or nobody")

    def up(self):
        """Makes the network. Its clock begins with it."""
        command = [
            fathom(),
            "fabric",
            "up",
            SCENARIO,
            "--name",
            self.name,
            "--truth",
            self.directory / "truth",
        ]
        self.left.note("fabric", name=self.name)
        done = subprocess.run([str(w) for w in command], check=False, capture_output=True, text=True)
        if done.returncode:
            raise UnusableError(f"the network cannot be made: {done.stderr.strip()}")
        with (self.directory / "truth" / "truth.jsonl").open() as truth:
            at = json.loads(truth.readline())["at"]
        # Nine digits of a second are more than it reads.
        self.began = datetime.fromisoformat(re.sub(r"(\.\d{6})\d*Z$", r"\1+00:00", at)).timestamp()

    def down(self):
        """Takes it away, whatever became of it."""
        subprocess.run(
            [fathom(), "fabric", "down", "--name", self.name],
            check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def on(self, host, *command):
        """The command that runs another one on a host."""
        return [fathom(), "fabric", "exec", "--name", self.name, host, "--", *command]

    def unprivileged(self, *command):
        """The command that runs another one as the user of the database."""
        who = pwd.getpwnam(self.user)
        return ["setpriv", f"--reuid={who.pw_uid}", f"--regid={who.pw_gid}", "--clear-groups", "--", *command]

    def set_keepalive(self, host, first, interval):
        """As `sysctl -w` does, for all programs of a host that ask for keepalives and name no interval."""
        where = "/proc/sys/net/ipv4/tcp_keepalive_"
        script = f"echo {first} > {where}time && echo {interval} > {where}intvl"
        subprocess.run([str(w) for w in self.on(host, "sh", "-c", script)], check=True)

    def make_database(self):
        """An empty one, that trusts whoever comes: nobody comes from outside of the fabric."""
        home = self.directory / "database"
        home.mkdir()
        shutil.chown(home, self.user)
        self.directory.chmod(0o755)
        command = [self.postgres / "initdb", "-D", home / "data", "-U", "app", "-A", "trust", "--no-sync"]
        command = [str(word) for word in self.unprivileged(*command)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd="/")
        with (home / "data" / "pg_hba.conf").open("a") as rules:
            rules.write("host all all 10.80.0.0/16 trust\n")

    def start_servers(self):
        """The database, and the reflector once the database takes connections: they are back together."""
        home = self.directory / "database"
        options = ["-D", home / "data", "-k", home, "-p", PORT, "-c", "listen_addresses=*",
                   "-c", "max_connections=400", "-c", "fsync=off"]  # fmt: skip
        with (home / "log").open("a") as log:
            server = self.unprivileged(self.postgres / "postgres", *options)
            self.programs.start(self.on(self.plan.database, *server), stdout=log, stderr=log, cwd="/")
        script = (
            f'until "{self.postgres}/pg_isready" -q -h "{home}" -p {PORT}; do sleep 0.02; done; '
            f'echo $$ > "{self.directory}/echo.pid"; exec "{fathom()}" echo'
        )
        self.programs.start(
            self.on(self.plan.database, "sh", "-c", script),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        return self.wait_for(self.directory / "echo.pid")

    def wait_for(self, file):
        """Until a program has written the file. When that was."""
        limit = time.monotonic() + PATIENCE
        while not (file.exists() and file.read_text().strip()):
            if time.monotonic() > limit:
                raise UnusableError(
                    f"the servers did not start: {(self.directory / 'database' / 'log').read_text()}"
                )
            time.sleep(0.01)
        return time.time()

    def stop_servers(self):
        """As `pg_ctl stop -m fast` and a kill. Returns when both have ended."""
        reflector = self.directory / "echo.pid"
        database = self.directory / "database" / "data" / "postmaster.pid"
        pids = [(int(reflector.read_text()), signal.SIGKILL)]
        pids.append((int(database.read_text().split()[0]), signal.SIGINT))
        for pid, kind in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, kind)
        limit = time.monotonic() + PATIENCE
        while any(Path(f"/proc/{pid}/exe").exists() for pid, _ in pids):
            if time.monotonic() > limit:
                raise UnusableError("a server does not end")
            time.sleep(0.01)
        reflector.unlink()

    def sleep_until(self, at):
        """Until so many seconds after the fabric began."""
        time.sleep(max(0.0, self.began + at - time.time()))

    def restart(self):
        """The restart of the scenario. When nothing listened: two times in seconds since the fabric began."""
        self.sleep_until(self.plan.restart)
        gone = time.time() - self.began
        self.stop_servers()
        self.sleep_until(self.plan.restart + self.plan.restart_lasts)
        return gone, self.start_servers() - self.began


@contextlib.contextmanager
def recorded():
    """What a run makes is written down until it is gone."""
    left = Left(LEFT)
    try:
        yield left
    finally:
        left.done()


@contextlib.contextmanager
def lab():
    """A lab, of which nothing is left afterwards."""
    if os.geteuid() != 0 or not Path("/dev/net/tun").exists():
        raise UnusableError("hosts of a fabric need root and /dev/net/tun")
    for told in clear(LEFT, fathom()):
        print(told, file=sys.stderr)
    with recorded() as left, tempfile.TemporaryDirectory(prefix="fathom-clients-") as name:
        left.note("directory", path=name)
        programs = Programs(left)
        made = Lab(Path(name), programs, left)
        try:
            made.make_database()
            made.up()
            made.start_servers()
            yield made
        finally:
            # A second Ctrl-C must not leave half of it.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            with contextlib.suppress(OSError, ValueError):
                database = made.directory / "database" / "data" / "postmaster.pid"
                os.kill(int(database.read_text().split()[0]), signal.SIGQUIT)
            programs.end()
            made.down()
            signal.signal(signal.SIGINT, signal.default_int_handler)
